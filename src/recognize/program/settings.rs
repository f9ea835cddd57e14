//! What an entry says of its program: the batch, accumulation, precision, recomputation, the worker
//! processes that load its data, how it resumes, what its config files call all that. Data only.

use serde::Deserialize;

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
#[serde(default, deny_unknown_fields)]
pub struct BatchSpec {
    /// Its names, the one that counts first.
    pub names: Vec<String>,
    /// Whether all of the names that are there bound the batch, so that all are made smaller.
    pub together: bool,
    /// What it counts for.
    pub scope: Scope,
    /// What it counts, where that is not samples.
    pub unit: Option<String>,
    /// Why there is nothing to edit.
    pub none: Option<String>,
    /// Arguments with which the batch argument is not what counts, and why.
    pub refused_with: Vec<(String, String)>,
    /// An argument that the new value must not fall below (a sample must fit).
    pub floor: Option<String>,
    /// There where the new value must be a multiple of the number of devices: arguments that say
    /// the number, the launcher's processes coming after them.
    pub devices: Option<Vec<String>>,
    /// The same, by arguments that list the devices (`0,1,2,3`).
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
#[serde(default, deny_unknown_fields)]
pub struct Accumulation {
    /// How.
    pub rule: AccumulationRule,
    /// The argument's names, in the order of preference for an addition.
    pub names: Vec<String>,
    /// What it is where the command does not say it.
    pub default: Option<u64>,
    /// Whether a config file named by the command may set it, so that nothing is added; it may
    /// unless this says no.
    pub in_config: Option<bool>,
    /// Arguments with which the program refuses to accumulate.
    pub refused_with: Vec<String>,
    /// For [`AccumulationRule::MicroSize`]: the argument that divides the batch among devices.
    pub shared_among: Option<String>,
    /// For [`AccumulationRule::MicroSize`]: the argument below which the size must not fall, and its default.
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

/// How a program is told a precision, or to compute activations again instead of keeping them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchSpec {
    /// What it is where the command does not say it.
    #[serde(alias = "unsaid")]
    pub default: SwitchDefault,
    /// Why there is nothing to add, in words of its own.
    pub note: Option<String>,
    /// Arguments that switch it on.
    pub on: Vec<String>,
    /// Arguments whose value is the precision, or how much is computed again.
    pub valued: Vec<String>,
    /// Arguments that switch it off.
    pub off: Vec<String>,
    /// What to add for recomputation, its last word being the value where there are two.
    pub add: Vec<String>,
    /// What to add for bf16, its last word being the value.
    pub bf16: Vec<String>,
    /// What to add for fp16, where the program scales its loss.
    pub fp16: Vec<String>,
    /// What to add for bf16 where one of the arguments named first is there (older versions).
    pub older: Vec<(Vec<String>, Vec<String>)>,
    /// Where it goes.
    pub place: InsertPlace,
    /// Whether it is written with a space whatever the rest of the command does.
    pub spaced: bool,
    /// Whether the launcher's own precision (`accelerate launch --mixed_precision`) counts.
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
#[serde(default, deny_unknown_fields)]
pub struct Resume {
    /// How.
    pub rule: Resumes,
    /// Arguments by which the command says already where it resumes from.
    pub names: Vec<String>,
    /// What to add; `{path}` is the checkpoint, `{number}` its step or epoch.
    pub add: Vec<String>,
    /// Where it goes.
    pub place: InsertPlace,
    /// Arguments that say where the program writes.
    pub directory: Vec<String>,
    /// Where it writes if none of them is there.
    pub default_directory: Option<String>,
    /// What a checkpoint is called below that directory: `#` is a number, `*` anything but a slash.
    pub find: Vec<String>,
    /// Files that a checkpoint which is a directory has once it is complete, the last written first.
    pub complete: Vec<String>,
    /// Arguments whose value becomes the checkpoint.
    pub replaced: Vec<String>,
    /// What `#` counts, if not steps.
    pub counts: Option<String>,
    /// Arguments with which it does not resume, and why.
    pub refused_with: Vec<(String, String)>,
    /// What has to be known about it, in words.
    pub note: Option<String>,
}

/// What a program's config file calls the same things; keys are dotted paths.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InFile {
    /// How the command names the file: an option, or `*.yaml` for a bare word.
    pub named: Vec<String>,
    /// The batch.
    pub batch: Vec<String>,
    /// The accumulation.
    pub accumulation: Vec<String>,
    /// The precision.
    pub precision: Vec<String>,
    /// Recomputation.
    pub recompute: Vec<String>,
    /// Where it writes.
    pub directory: Vec<String>,
    /// What overrides the batch on the command line; a copy of the file is edited where there is
    /// nothing.
    pub batch_override: Option<String>,
    /// The same for the accumulation.
    pub accumulation_override: Option<String>,
    /// What the accumulation is where neither the file nor the command says it.
    pub accumulation_default: Option<u64>,
    /// Where overrides go.
    pub place: InsertPlace,
}
