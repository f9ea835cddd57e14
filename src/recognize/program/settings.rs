//! What an entry says of its program: the batch, accumulation, precision, recomputation, the worker
//! processes that load its data, how it resumes, what its config files call all that. Data only.

use serde::Deserialize;

pub(super) fn yes() -> bool {
    true
}

fn step() -> String {
    "step".into()
}

/// What one number of a batch argument counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Each device or process takes so many at once.
    #[default]
    Micro,
    /// All devices together do; the program splits it.
    Global,
}

/// The batch argument of a program.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchSpec {
    /// Its names, the one that counts first.
    #[serde(default)]
    pub names: Vec<String>,
    /// Whether all of the names that are there bound the batch, so that all are made smaller.
    #[serde(default)]
    pub together: bool,
    /// What it counts for.
    #[serde(default)]
    pub scope: Scope,
    /// What it counts, where that is not samples.
    #[serde(default)]
    pub unit: Option<String>,
    /// Why there is nothing to edit.
    #[serde(default)]
    pub none: Option<String>,
    /// Arguments with which the batch argument is not what counts, and why.
    #[serde(default)]
    pub refused_with: Vec<(String, String)>,
    /// An argument that the new value must not fall below (a sample must fit).
    #[serde(default)]
    pub floor: Option<String>,
    /// There where the new value must be a multiple of the number of devices: arguments that say
    /// the number, the launcher's processes coming after them.
    #[serde(default)]
    pub devices: Option<Vec<String>>,
    /// The same, by arguments that list the devices (`0,1,2,3`).
    #[serde(default)]
    pub device_list: Vec<String>,
}

/// How gradients are accumulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccumulationRule {
    /// By an argument that counts micro-batches.
    Flag,
    /// The program works it out from a total that stays.
    Implicit,
    /// By an argument that divides the batch: raising it makes the micro-batch smaller.
    Divides,
    /// By an argument that gives the micro-batch's size, the batch staying.
    MicroSize,
    /// Not at all.
    #[default]
    None,
}

/// Accumulation of a program.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accumulation {
    /// How.
    #[serde(default)]
    pub rule: AccumulationRule,
    /// The argument's names, in the order of preference for an addition.
    #[serde(default)]
    pub names: Vec<String>,
    /// What it is where the command does not say it.
    #[serde(default)]
    pub default: Option<u64>,
    /// Whether a config file named by the command may set it, so that nothing is added.
    #[serde(default = "yes")]
    pub in_config: bool,
    /// Arguments with which the program refuses to accumulate.
    #[serde(default)]
    pub refused_with: Vec<String>,
    /// For [`AccumulationRule::MicroSize`]: the argument that divides the batch among devices.
    #[serde(default)]
    pub shared_among: Option<String>,
    /// For [`AccumulationRule::MicroSize`]: the argument below which the size must not fall, and its default.
    #[serde(default)]
    pub floor: Option<(String, u64)>,
}

/// What a precision or activation checkpointing is where the command does not set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SwitchDefault {
    /// Full.
    Off,
    /// Mixed.
    On,
    /// What its config file says.
    Config,
    /// There is no argument for it.
    #[default]
    None,
}

/// Precision of a program.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precision {
    /// What it is where the command does not say it.
    #[serde(default, alias = "unsaid")]
    pub default: SwitchDefault,
    /// Why there is nothing to add, in words of its own.
    #[serde(default)]
    pub note: Option<String>,
    /// Arguments that switch it on.
    #[serde(default)]
    pub on: Vec<String>,
    /// Arguments whose value is the precision.
    #[serde(default)]
    pub valued: Vec<String>,
    /// Arguments that switch it off.
    #[serde(default)]
    pub off: Vec<String>,
    /// What to add for bf16, its last word being the value.
    #[serde(default)]
    pub bf16: Vec<String>,
    /// What to add for fp16, where the program scales its loss.
    #[serde(default)]
    pub fp16: Vec<String>,
    /// What to add where one of the arguments named first is there (older versions).
    #[serde(default)]
    pub older: Vec<(Vec<String>, Vec<String>)>,
    /// Where it goes.
    #[serde(default)]
    pub place: InsertPlace,
    /// Whether it is written with a space whatever the rest of the command does.
    #[serde(default)]
    pub spaced: bool,
    /// Whether the launcher's own precision (`accelerate launch --mixed_precision`) counts.
    #[serde(default)]
    pub by_launcher: bool,
}

/// Where an addition goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InsertPlace {
    /// After the program's last argument.
    #[default]
    End,
    /// Before its first: the rest is swallowed by a parser that takes "all that remains".
    Start,
    /// Among the launcher's options.
    Launcher,
}

/// How a program is told to compute activations again instead of keeping them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recompute {
    /// What it does where the command does not say it.
    #[serde(default, alias = "unsaid")]
    pub default: SwitchDefault,
    /// Why there is nothing to add, in words of its own.
    #[serde(default)]
    pub note: Option<String>,
    /// Arguments that switch it on.
    #[serde(default)]
    pub on: Vec<String>,
    /// Arguments whose value says how much of it.
    #[serde(default)]
    pub valued: Vec<String>,
    /// Arguments that switch it off.
    #[serde(default)]
    pub off: Vec<String>,
    /// What to add, its last word being the value where there are two.
    #[serde(default)]
    pub add: Vec<String>,
    /// Where it goes.
    #[serde(default)]
    pub place: InsertPlace,
    /// Whether it is written with a space whatever the rest of the command does.
    #[serde(default)]
    pub spaced: bool,
}

/// How a program takes up an earlier run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resumes {
    /// By words that it is told.
    Told,
    /// By itself, from its output directory.
    Automatic,
    /// Not, or not in a way that is known.
    #[default]
    Not,
}

/// Resumption of a program.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// How.
    #[serde(default)]
    pub rule: Resumes,
    /// Arguments by which the command says already where it resumes from.
    #[serde(default)]
    pub names: Vec<String>,
    /// What to add; `{path}` is the checkpoint, `{number}` its step or epoch.
    #[serde(default)]
    pub add: Vec<String>,
    /// Where it goes.
    #[serde(default)]
    pub place: InsertPlace,
    /// Arguments that say where the program writes.
    #[serde(default)]
    pub directory: Vec<String>,
    /// Where it writes if none of them is there.
    #[serde(default)]
    pub default_directory: Option<String>,
    /// What a checkpoint is called below that directory: `#` is a number, `*` anything but a slash.
    #[serde(default)]
    pub find: Vec<String>,
    /// Files that a checkpoint which is a directory has once it is complete, the last written first.
    #[serde(default)]
    pub complete: Vec<String>,
    /// Arguments whose value becomes the checkpoint.
    #[serde(default)]
    pub replaced: Vec<String>,
    /// What `#` counts.
    #[serde(default = "step")]
    pub counts: String,
    /// Arguments with which it does not resume, and why.
    #[serde(default)]
    pub refused_with: Vec<(String, String)>,
    /// What has to be known about it, in words.
    #[serde(default)]
    pub note: Option<String>,
}

/// What a program's config file calls the same things; keys are dotted paths.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InFile {
    /// How the command names the file: an option, or `*.yaml` for a bare word.
    #[serde(default)]
    pub named: Vec<String>,
    /// The batch.
    #[serde(default)]
    pub batch: Vec<String>,
    /// The accumulation.
    #[serde(default)]
    pub accumulation: Vec<String>,
    /// The precision.
    #[serde(default)]
    pub precision: Vec<String>,
    /// Recomputation.
    #[serde(default)]
    pub recompute: Vec<String>,
    /// Where it writes.
    #[serde(default)]
    pub directory: Vec<String>,
    /// What overrides the batch on the command line; a copy of the file is edited where there is
    /// nothing.
    #[serde(default)]
    pub batch_override: Option<String>,
    /// The same for the accumulation.
    #[serde(default)]
    pub accumulation_override: Option<String>,
    /// What the accumulation is where neither the file nor the command says it.
    #[serde(default)]
    pub accumulation_default: Option<u64>,
    /// Where overrides go.
    #[serde(default)]
    pub place: InsertPlace,
}
