//! What can be patched inside a training, and the outcome of a patch. These structs are also the
//! wire format of the probe.

use super::Relief;
use crate::command::CommandLine;
use crate::units::{Bytes, Pid};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The variable with which the probe is told the patches. It is part of the command's own
/// environment, as if typed before it, so it is displayed, recorded, edited and kept from run to
/// run.
pub const PATCHES: &str = "OOMPH_PATCHES";

/// A remedy that the probe applies inside the training's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Patch {
    /// Activation checkpointing of repeated blocks.
    Recompute,
    /// bf16 autocast around the model's forward.
    Amp,
    /// Changes the batch size of DataLoaders.
    Batch {
        /// The size that the program asks for.
        from: u64,
        /// The size that it gets.
        to: u64,
    },
    /// At most so many workers in a DataLoader.
    Workers(u32),
    /// At most so many batches that each worker fetches in advance.
    Prefetch(u32),
    /// No DataLoader pins memory.
    PinMemory,
    /// No DataLoader keeps its workers between epochs.
    PersistentWorkers,
    /// Tensors are shared by files with names, which take no descriptors.
    Sharing,
    /// Optimizers that left the choice to torch step through their parameters one by one.
    Foreach,
    /// They step in one kernel.
    Fused,
    /// An evaluation of transformers' Trainer moves its outputs to RAM after so many batches.
    EvalOutputs(u32),
    /// `torch.load` to the CPU.
    Load,
    /// What a forward saves for its backward waits in RAM.
    Offload,
    /// Cross-entropy over some rows of large logits at a time.
    CrossEntropy,
    /// The head of this shape is fused with its cross-entropy, over some rows at a time.
    Head(HeadShape),
    /// PyTorch's cache is emptied between training and evaluation.
    EmptyCache,
    /// FSDP divides its parameters again behind forward.
    Reshard,
    /// FSDP gathers its parameters in bf16.
    ShardsInBf16,
    /// DistributedDataParallel's gradients are views of its buckets.
    GradientsInBuckets,
    /// Compiled graphs keep so many percent of their activations.
    Budget(u32),
    /// torch.compile takes sizes as variables.
    Dynamic,
}

impl Patch {
    /// Its name in the protocol and in [`PATCHES`].
    pub fn name(self) -> &'static str {
        match self {
            Patch::Recompute => "recompute",
            Patch::Amp => "amp",
            Patch::Batch { .. } => "batch",
            Patch::Workers(_) => "workers",
            Patch::Prefetch(_) => "prefetch",
            Patch::PinMemory => "pin_memory",
            Patch::PersistentWorkers => "persistent_workers",
            Patch::Sharing => "sharing",
            Patch::Foreach => "foreach",
            Patch::Fused => "fused",
            Patch::EvalOutputs(_) => "eval_outputs",
            Patch::Load => "load",
            Patch::Offload => "offload",
            Patch::CrossEntropy => "cross_entropy",
            Patch::Head(_) => "head",
            Patch::EmptyCache => "empty_cache",
            Patch::Reshard => "reshard",
            Patch::ShardsInBf16 => "shards",
            Patch::GradientsInBuckets => "gradients",
            Patch::Budget(_) => "budget",
            Patch::Dynamic => "dynamic",
        }
    }

    /// The patches that a command asks for. Unknown ones are skipped here; the probe reports them.
    pub fn of(command: &CommandLine) -> Vec<Patch> {
        let value = command.env_value(PATCHES).and_then(|word| word.as_str());
        let words = value.unwrap_or_default().split(',');
        words.filter_map(|word| Patch::parse(word.trim())).collect()
    }

    /// One as [`PATCHES`] has it.
    pub fn parse(word: &str) -> Option<Patch> {
        match word.split_once('=') {
            None if word == "recompute" => Some(Patch::Recompute),
            None if word == "amp" => Some(Patch::Amp),
            Some(("batch", sizes)) => {
                let (from, to) = sizes.split_once(':')?;
                Some(Patch::Batch {
                    from: from.parse().ok()?,
                    to: to.parse().ok()?,
                })
            }
            Some(("workers", most)) => Some(Patch::Workers(most.parse().ok()?)),
            Some(("prefetch", most)) => Some(Patch::Prefetch(most.parse().ok()?)),
            Some(("pin_memory", "off")) => Some(Patch::PinMemory),
            Some(("persistent_workers", "off")) => Some(Patch::PersistentWorkers),
            Some(("sharing", "file_system")) => Some(Patch::Sharing),
            Some(("foreach", "off")) => Some(Patch::Foreach),
            Some(("fused", "on")) => Some(Patch::Fused),
            Some(("load", "cpu")) => Some(Patch::Load),
            Some(("offload", "cpu")) => Some(Patch::Offload),
            Some(("cross_entropy", "chunked")) => Some(Patch::CrossEntropy),
            Some(("head", shape)) => Some(Patch::Head(shape.parse().ok()?)),
            Some(("empty_cache", "phases")) => Some(Patch::EmptyCache),
            Some(("reshard", "on")) => Some(Patch::Reshard),
            Some(("shards", "bf16")) => Some(Patch::ShardsInBf16),
            Some(("gradients", "buckets")) => Some(Patch::GradientsInBuckets),
            Some(("budget", percent)) => Some(Patch::Budget(percent.parse().ok()?)),
            Some(("dynamic", "on")) => Some(Patch::Dynamic),
            Some(("eval_outputs", batches)) => Some(Patch::EvalOutputs(batches.parse().ok()?)),
            None | Some(_) => None,
        }
    }

    /// The value of [`PATCHES`] for these, one per name.
    pub fn value(patches: &[Patch]) -> String {
        let mut patches = patches.to_vec();
        patches.sort();
        let words: Vec<String> = patches.iter().map(Patch::to_string).collect();
        words.join(",")
    }
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Patch::Recompute | Patch::Amp => Ok(()),
            Patch::Batch { from, to } => write!(f, "={from}:{to}"),
            Patch::Workers(most)
            | Patch::Prefetch(most)
            | Patch::EvalOutputs(most)
            | Patch::Budget(most) => write!(f, "={most}"),
            Patch::Reshard | Patch::Dynamic | Patch::Fused => f.write_str("=on"),
            Patch::ShardsInBf16 => f.write_str("=bf16"),
            Patch::GradientsInBuckets => f.write_str("=buckets"),
            Patch::PinMemory | Patch::PersistentWorkers | Patch::Foreach => f.write_str("=off"),
            Patch::Load | Patch::Offload => f.write_str("=cpu"),
            Patch::Sharing => f.write_str("=file_system"),
            Patch::CrossEntropy => f.write_str("=chunked"),
            Patch::Head(shape) => write!(f, "={shape}"),
            Patch::EmptyCache => f.write_str("=phases"),
        }
    }
}

/// The shape of a model's head: of its last layer's weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HeadShape {
    pub classes: u64,
    pub width: u64,
}

impl fmt::Display for HeadShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.classes, self.width)
    }
}

impl FromStr for HeadShape {
    type Err = String;

    fn from_str(text: &str) -> Result<HeadShape, String> {
        let no_shape = || format!("{text:?} isn't CLASSESxWIDTH");
        let (classes, width) = text.split_once('x').ok_or_else(no_shape)?;
        match (classes.parse(), width.parse()) {
            (Ok(classes), Ok(width)) => Ok(HeadShape { classes, width }),
            (Err(_), _) | (_, Err(_)) => Err(no_shape()),
        }
    }
}

impl TryFrom<String> for HeadShape {
    type Error = String;

    fn try_from(text: String) -> Result<HeadShape, String> {
        text.parse()
    }
}

impl From<HeadShape> for String {
    fn from(shape: HeadShape) -> String {
        shape.to_string()
    }
}

/// What can be patched in a process that ran out of memory, as found by its probe.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Patchable {
    pub pid: Pid,
    /// CUDA's index of the device that ran out of memory.
    pub device: u32,
    /// The classes of the models that train on a GPU.
    #[serde(default)]
    pub models: Vec<String>,
    /// Their repeated blocks, first those with the most memory.
    #[serde(default)]
    pub blocks: Vec<Blocks>,
    /// Whether the device supports bf16 natively.
    #[serde(default)]
    pub bf16: bool,
    /// What shows that the program sets its own precision, if anything does.
    #[serde(default)]
    pub precision: Option<String>,
    /// The batch size of the DataLoaders in use, if they agree and it can be changed.
    #[serde(default)]
    pub batch: Option<u64>,
    /// The batch size that the program asked for: differs if a patch has changed it.
    #[serde(default)]
    pub batch_asked: Option<u64>,
    /// The class of a layer that normalizes over the batch, if there is one: with it micro-batches
    /// are not equivalent to the batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_norm: Option<String>,
    /// Why the batch size can't be changed, if there are DataLoaders.
    #[serde(default)]
    pub batch_left: Option<String>,
    /// Why autocast would end it with an error, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amp_left: Option<String>,
    /// Why what its forward saves cannot be moved to RAM, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload_left: Option<String>,
    /// Packages that a remedy may need and that are installed; `None` of a probe that did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<Vec<String>>,
    /// What torch.compile has compiled, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiled: Option<Compiled>,
    /// It has received CUDA tensors of another process, whose memory it shares.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shares_cuda: bool,
}

/// What torch.compile has compiled in a process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Compiled {
    /// How many functions.
    pub functions: u64,
    /// How often one of them was compiled again for a tensor of another size, and which one the most often.
    pub resized: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// How many percent of their activations graphs keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<u32>,
}

/// Similar blocks of one class, side by side in a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Blocks {
    pub class: String,
    pub count: u64,
    /// Live memory allocated by their forward, as far as stacks were recorded.
    #[serde(default)]
    pub held: Option<Bytes>,
    /// Why they would not be patched, if so.
    #[serde(default)]
    pub left: Option<String>,
    /// Why they keep everything though the program has switched their checkpointing on, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<String>,
}

/// The outcome in one process of a patch that the user chose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patched {
    pub pid: Pid,
    /// [`Patch::name`], or `edit` for the program's own text.
    pub patch: String,
    pub outcome: PatchOutcome,
    /// What it does, or why it does nothing.
    pub words: String,
    /// What it measured of what it takes away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relief: Option<Relief>,
}

impl Patched {
    /// Whether it is of the program's own text.
    pub fn is_edit(&self) -> bool {
        self.patch == "edit"
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatchOutcome {
    Applied,
    /// The training is unchanged.
    Declined,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Word;

    #[test]
    fn a_command_says_its_patches_in_one_variable() {
        let mut command = CommandLine {
            argv: vec![Word::from("python")],
            env: Vec::new(),
            cwd: Default::default(),
        };
        assert_eq!(Patch::of(&command), []);
        let all = [
            Patch::Batch { from: 64, to: 32 },
            Patch::Recompute,
            Patch::Amp,
            Patch::PinMemory,
            Patch::Workers(4),
            Patch::Prefetch(1),
            Patch::Sharing,
            Patch::EmptyCache,
            Patch::CrossEntropy,
            Patch::Head(HeadShape {
                classes: 50257,
                width: 768,
            }),
            Patch::Offload,
            Patch::Load,
            Patch::EvalOutputs(4),
            Patch::Foreach,
            Patch::Fused,
            Patch::PersistentWorkers,
            Patch::Dynamic,
            Patch::Budget(50),
            Patch::GradientsInBuckets,
            Patch::ShardsInBf16,
            Patch::Reshard,
        ];
        let value = Patch::value(&all);
        assert_eq!(
            value,
            "recompute,amp,batch=64:32,workers=4,prefetch=1,pin_memory=off,persistent_workers=off,sharing=file_system,foreach=off,fused=on,eval_outputs=4,load=cpu,offload=cpu,cross_entropy=chunked,head=50257x768,empty_cache=phases,reshard=on,shards=bf16,gradients=buckets,budget=50,dynamic=on"
        );
        command.set_env(PATCHES, Some(Word::from(&value)));
        let mut sorted = all;
        sorted.sort();
        assert_eq!(Patch::of(&command), sorted);
        // Unknown patches are skipped; the probe reports them.
        for (value, count) in [
            ("", 0),
            ("amp, ", 1),
            ("batch=64", 0),
            ("batch=a:b,amp", 1),
            ("head=7,head=ax2", 0),
        ] {
            command.set_env(PATCHES, Some(Word::from(value)));
            assert_eq!(Patch::of(&command).len(), count, "{value}");
        }
    }
}
