//! What of a training can be changed from inside, and what became of such a change. These structs are
//! the wire format of the probe as well.

use crate::command::CommandLine;
use crate::units::{Bytes, Pid};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The variable that tells the probe which patches were chosen. It stands in the command's own
/// environment, like a word typed before it: so it is shown, recorded, edited and kept from run to run.
pub const PATCHES: &str = "OOMPH_PATCHES";

/// A remedy that the probe applies inside the training's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Patch {
    /// Repeated blocks are computed again in backward instead of kept.
    Recompute,
    /// bf16 autocast around the model's forward.
    Amp,
    /// DataLoaders of one batch make another.
    Batch {
        /// The batch that the program asks for.
        from: u64,
        /// The batch that it gets.
        to: u64,
    },
}

impl Patch {
    /// Its name, on the wire and in [`PATCHES`].
    pub fn name(self) -> &'static str {
        match self {
            Patch::Recompute => "recompute",
            Patch::Amp => "amp",
            Patch::Batch { .. } => "batch",
        }
    }

    /// The patches that a command asks for. A word that is none is passed over here; the probe says
    /// so in the run.
    pub fn of(command: &CommandLine) -> Vec<Patch> {
        let value = command.env_value(PATCHES).and_then(|word| word.as_str());
        let words = value.unwrap_or_default().split(',');
        words.filter_map(|word| Patch::parse(word.trim())).collect()
    }

    fn parse(word: &str) -> Option<Patch> {
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
            None | Some(_) => None,
        }
    }

    /// The value of [`PATCHES`] that asks for these, one of a name.
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
        }
    }
}

/// What a process whose memory ran out could be changed in, as its probe found it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Patchable {
    pub pid: Pid,
    /// CUDA's ordinal of the device whose memory ran out.
    pub device: u32,
    /// The classes of the models that train on a GPU.
    #[serde(default)]
    pub models: Vec<String>,
    /// Their repeated blocks; those that hold the most first.
    #[serde(default)]
    pub blocks: Vec<Blocks>,
    /// Whether the device computes in bf16 itself.
    #[serde(default)]
    pub bf16: bool,
    /// What shows that the program has a precision of its own, where something does.
    #[serde(default)]
    pub precision: Option<String>,
    /// The batch of the DataLoaders in use, where it is one and can be changed.
    #[serde(default)]
    pub batch: Option<u64>,
    /// The batch that the program asked for: another one where a patch has changed it.
    #[serde(default)]
    pub batch_asked: Option<u64>,
    /// The class that normalizes by the samples that it is given at once, where one does: to it parts
    /// of a batch are not the batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_norm: Option<String>,
    /// Why the batch cannot be changed, where there are DataLoaders and it cannot.
    #[serde(default)]
    pub batch_left: Option<String>,
}

/// Blocks of one class and one build, side by side in a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Blocks {
    pub class: String,
    pub count: u64,
    /// What live blocks of memory their forward had allocated, as far as stacks were recorded.
    #[serde(default)]
    pub held: Option<Bytes>,
    /// Why they would be left alone, where they would.
    #[serde(default)]
    pub left: Option<String>,
}

/// What became of a patch that the user chose, in one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patched {
    pub pid: Pid,
    /// The patch's name: `recompute`, `amp`, `batch`.
    pub patch: String,
    pub outcome: PatchOutcome,
    /// What it does, or why it does nothing.
    pub words: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatchOutcome {
    /// It is in force.
    Applied,
    /// It left the training as it was.
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
        ];
        let value = Patch::value(&all);
        assert_eq!(value, "recompute,amp,batch=64:32");
        command.set_env(PATCHES, Some(Word::from(&value)));
        let mut sorted = all;
        sorted.sort();
        assert_eq!(Patch::of(&command), sorted);
        // What is none is passed over; the probe says so.
        for (value, count) in [("", 0), ("amp, ", 1), ("batch=64", 0), ("batch=a:b,amp", 1)] {
            command.set_env(PATCHES, Some(Word::from(value)));
            assert_eq!(Patch::of(&command).len(), count, "{value}");
        }
    }
}
