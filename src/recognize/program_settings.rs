//! What an entry says about its program: batch, accumulation, precision, activation checkpointing,
//! DataLoader workers, resuming, and the names of all that in its config files. Data only.

use serde::Deserialize;

/// What the number in a batch argument counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Samples per device or process.
    #[default]
    Micro,
    /// Samples of all devices together; the program splits it.
    Global,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BatchSpec {
    /// First the one that counts.
    pub names: Vec<String>,
    /// Whether each of these that is there bounds the batch, so that all have to be lowered.
    pub together: bool,
    pub scope: Scope,
    /// What it counts, if not samples.
    pub unit: Option<String>,
    /// Why there is nothing to edit.
    pub none: Option<String>,
    /// Its constants that set the batch, if there is no argument.
    pub constants: Vec<String>,
    /// Arguments with which the batch argument isn't what counts, and why.
    pub refused_with: Vec<(String, String)>,
    /// An argument that is a lower bound for the new value (a sample must fit).
    pub floor: Option<String>,
    /// Set if the new value must be a multiple of the number of devices: arguments with that
    /// number; without them the launcher's processes count.
    pub devices: Option<Vec<String>>,
    /// Arguments that list the devices among which the batch is split (`0,1,2,3`).
    pub device_list: Vec<String>,
}

/// How gradients are accumulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccumulationRule {
    /// By an argument that counts micro-batches.
    Flag,
    /// The program computes it from a total that stays.
    Implicit,
    /// By an argument that divides the batch: raising it makes the micro-batch smaller.
    Divides,
    /// By an argument for the size of the micro-batch; the batch stays.
    MicroSize,
    #[default]
    None,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Accumulation {
    pub rule: AccumulationRule,
    /// In order of preference for adding one.
    pub names: Vec<String>,
    /// If the command does not set it.
    pub default: Option<u64>,
    /// Whether a config file of the command may set it, so that nothing is added; the default is
    /// yes.
    pub in_config: Option<bool>,
    /// Arguments with which the program can't accumulate.
    pub refused_with: Vec<String>,
    /// For [`AccumulationRule::MicroSize`]: the argument that divides the batch among devices.
    pub shared_among: Option<String>,
    /// For [`AccumulationRule::MicroSize`]: an argument that is a lower bound for the size, and its
    /// default.
    pub floor: Option<(String, u64)>,
}

/// Precision or activation checkpointing if the command does not set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SwitchDefault {
    /// Full precision, or no checkpointing.
    Off,
    /// Mixed precision, or checkpointing.
    On,
    /// Set by its config file.
    Config,
    /// The program has no argument for it.
    #[default]
    None,
}

/// How a precision or activation checkpointing is set.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchSpec {
    /// If the command does not set it.
    #[serde(alias = "unsaid")]
    pub default: SwitchDefault,
    /// Why nothing can be added, in a sentence.
    pub note: Option<String>,
    /// Arguments that turn it on.
    pub on: Vec<String>,
    /// Arguments whose value is the precision, or how much to checkpoint.
    pub valued: Vec<String>,
    /// Arguments that turn it off.
    pub off: Vec<String>,
    /// What to add for activation checkpointing; of two words the last is the value.
    pub add: Vec<String>,
    /// What to add for bf16; the last word is the value.
    pub bf16: Vec<String>,
    /// What to add for fp16, if the program scales its loss.
    pub fp16: Vec<String>,
    /// What to add for bf16 if one of the arguments in the first list is there (older versions).
    pub older: Vec<(Vec<String>, Vec<String>)>,
    /// Where to add it.
    pub place: InsertPlace,
    /// Whether to write it with a space even if the rest of the command uses `=`.
    pub spaced: bool,
    /// Whether the launcher's own precision (`accelerate launch --mixed_precision`) counts.
    pub by_launcher: bool,
}

/// An optimizer that a program can be told to take.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimizerChoice {
    pub kind: OptimizerKind,
    /// What has to be installed for it.
    #[serde(default)]
    pub package: Option<String>,
    #[serde(default)]
    pub switch: SwitchSpec,
    /// Keys of the program's config file that name its optimizer; without an argument for it a copy of the file is edited.
    #[serde(default)]
    pub keys: Vec<String>,
    /// What is written there.
    #[serde(default)]
    pub name: String,
    /// Keys with arguments of the optimizer that this one does not take.
    #[serde(default)]
    pub refused_with: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerKind {
    /// Adam with states of 8 bits.
    EightBit,
    /// The same, with states that lie in RAM as far as the GPU is full.
    Paged,
    Adafactor,
}

impl OptimizerKind {
    pub fn words(self) -> &'static str {
        match self {
            OptimizerKind::EightBit => "Adam with states of 8 bits",
            OptimizerKind::Paged => "paged Adam with states of 8 bits",
            OptimizerKind::Adafactor => "Adafactor",
        }
    }
}

/// Where to add arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InsertPlace {
    /// After the program's last argument.
    #[default]
    End,
    /// Before its first one: a parser that takes "all that remains" (`argparse.REMAINDER`) would
    /// swallow it at the end.
    Start,
    /// Among the launcher's options.
    Launcher,
}

/// How a program resumes an earlier run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resumes {
    /// By arguments.
    Told,
    /// By itself, from its output directory.
    Automatic,
    /// Not at all, or not in a known way.
    #[default]
    Not,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Resume {
    pub rule: Resumes,
    /// Arguments with which the command already says where to resume from.
    pub names: Vec<String>,
    /// What to add; `{path}` is the checkpoint, `{number}` its step or epoch.
    pub add: Vec<String>,
    /// Where to add it.
    pub place: InsertPlace,
    /// Arguments for the output directory.
    pub directory: Vec<String>,
    /// The output directory without them.
    pub default_directory: Option<String>,
    /// Patterns for a checkpoint below that directory: `#` is a number, `*` anything but a slash.
    pub find: Vec<String>,
    /// The files that a checkpoint directory contains once it is complete, first the one written
    /// last.
    pub complete: Vec<String>,
    /// Arguments whose value becomes the checkpoint.
    pub replaced: Vec<String>,
    /// What `#` counts, if not steps.
    pub counts: Option<String>,
    /// Arguments with which it does not resume, and why.
    pub refused_with: Vec<(String, String)>,
    /// What the user should know about it, in a sentence.
    pub note: Option<String>,
}

/// Where a program's config file has batch, accumulation, precision and so on; keys are dotted paths.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InFile {
    /// How the command names the file: an option, or `*.yaml` for a positional word.
    pub named: Vec<String>,
    /// Where the file is that the command names without a path and an ending, below the packages of its Python or the
    /// project: `recipes/configs/{name}.yaml`.
    pub by_name: Option<String>,
    pub batch: Vec<String>,
    pub accumulation: Vec<String>,
    pub precision: Vec<String>,
    pub recompute: Vec<String>,
    pub outputs: Vec<String>,
    pub fused_loss: Vec<String>,
    pub directory: Vec<String>,
    /// The batch where neither the command nor the file sets it, by the first of these names.
    pub batch_default: Option<u64>,
    /// The argument that overrides the batch; without one a copy of the file is edited. `{name}` is what the file calls it,
    /// and an option in front what such arguments follow: `--cfg-options {name}=`.
    pub batch_override: Option<String>,
    /// What older programs call the option in front, the newest first.
    pub older_overrides: Vec<String>,
    /// The argument that overrides the accumulation; without one a copy of the file is edited.
    pub accumulation_override: Option<String>,
    /// The name of the batch beside which it accumulates; with another it does not.
    pub accumulation_with: Option<String>,
    /// The accumulation if neither the file nor the command sets it.
    pub accumulation_default: Option<u64>,
    /// Where to add overrides.
    pub place: InsertPlace,
}
