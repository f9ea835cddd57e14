//! Families of spelling: what programs that no entry knows mostly call their batch, their
//! accumulation and their precision.
//!
//! Names are compared whole, never by their beginning, so that `--batch-size-valid`,
//! `--eval_batch_size` and their like are other names. In a dotted name the parts in front must be
//! known to belong to training: `val_dataloader.batch_size` is nobody's training batch.

use super::argument::{Arguments, Form, Hit};

/// How a batch argument of an unknown program is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Its name says that it is what one device takes at once.
    Micro,
    /// A batch, most likely of one device.
    Plain,
    /// As [`Level::Plain`], but some programs divide it by their accumulation steps and some do not.
    Divided,
    /// A total over devices and accumulation.
    Total,
    /// A part of the batch or the batch itself, by the program.
    Unsure,
}

/// Names without `-`, `_` and capitals.
const MICRO: [&str; 21] = [
    "perdevicetrainbatchsize",
    "pergputrainbatchsize",
    "perdevicebatchsize",
    "pergpubatchsize",
    "batchsizepergpu",
    "batchsizeperdevice",
    "microbatchsize",
    "microbatch",
    "localbatchsize",
    "localbs",
    "devicebatchsize",
    "devicetrainmicrobatchsize",
    "devicetrainbatchsize",
    "microtrainbatchsize",
    "trainmicrobatchsizepergpu",
    "trainmicrobatchsize",
    "batchpergpu",
    "batchperdevice",
    "imspergpu",
    "samplespergpu",
    "trainbatchsizepergpu",
];

const PLAIN: [&str; 8] = [
    "batchsize",
    "batch",
    "bs",
    "bsz",
    "trainbs",
    "trainingbatchsize",
    "batchsizetrain",
    "imsperbatch",
];

const DIVIDED: [&str; 2] = ["trainbatchsize", "trainbatch"];

const TOTAL: [&str; 6] = [
    "globalbatchsize",
    "totalbatchsize",
    "effectivebatchsize",
    "globaltrainbatchsize",
    "targetbatchsize",
    "globalbatch",
];

const UNSURE: [&str; 4] = ["minibatchsize", "minibatch", "minibs", "ppobatchsize"];

/// `--update-freq` is none of these: where no entry knows the program it may well be how often a
/// target network is updated.
const ACCUMULATION: [&str; 22] = [
    "gradientaccumulationsteps",
    "gradaccumsteps",
    "gradientaccumulation",
    "gradaccum",
    "accumulategradbatches",
    "accumiter",
    "accumsteps",
    "accumulationsteps",
    "accumfreq",
    "gradaccumulationsteps",
    "accumgrad",
    "gradaccumulation",
    "accumulatesteps",
    "numaccumulationsteps",
    "gradacc",
    "gradaccsteps",
    "accsteps",
    "gradientaccumulatesteps",
    "accumcount",
    "accumbatches",
    "accumulativecounts",
    "gradaccumiters",
];

/// `--workers` alone is as often the number of nodes or of environments.
const WORKERS: [&str; 9] = [
    "numworkers",
    "dataloadernumworkers",
    "nworkers",
    "numdataworkers",
    "dataworkers",
    "dataloaderworkers",
    "loaderworkers",
    "numloaderworkers",
    "trainnumworkers",
];

/// Parts of a dotted name that belong to training or say nothing.
const TRAIN_PARTS: [&str; 32] = [
    "data",
    "datamodule",
    "datamodel",
    "dm",
    "dataset",
    "loader",
    "dataloader",
    "train",
    "training",
    "trainds",
    "trainloader",
    "traindataloader",
    "traindataset",
    "model",
    "config",
    "cfg",
    "hparams",
    "params",
    "trainer",
    "optim",
    "optimizer",
    "optimization",
    "args",
    "experiment",
    "exp",
    "solver",
    "run",
    "hyperparameters",
    "coqpit",
    "optimwrapper",
    "initargs",
    "common",
];

/// A name as the families write it.
pub(crate) fn plain(name: &str) -> String {
    name.chars()
        .filter(|c| !matches!(c, '-' | '_' | '+'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// The last part of an argument's name, where all parts in front belong to training.
fn leaf(name: &str) -> Option<String> {
    let mut parts: Vec<String> = name.split('.').map(plain).collect();
    let leaf = parts.pop()?;
    parts
        .iter()
        .all(|part| TRAIN_PARTS.contains(&part.as_str()))
        .then_some(leaf)
}

/// How a name is to be read as a batch, if it is one.
pub(crate) fn batch_level(name: &str) -> Option<Level> {
    // One letter is a batch with one dash only, and `-B` is anything.
    if name == "-b" {
        return Some(Level::Plain);
    }
    let leaf = leaf(name)?;
    let leaf = leaf.as_str();
    if MICRO.contains(&leaf) {
        Some(Level::Micro)
    } else if PLAIN.contains(&leaf) {
        Some(Level::Plain)
    } else if DIVIDED.contains(&leaf) {
        Some(Level::Divided)
    } else if TOTAL.contains(&leaf) {
        Some(Level::Total)
    } else if UNSURE.contains(&leaf) {
        Some(Level::Unsure)
    } else {
        None
    }
}

/// Whether a name is one of accumulation.
pub(crate) fn is_accumulation(name: &str) -> bool {
    leaf(name).is_some_and(|leaf| ACCUMULATION.contains(&leaf.as_str()))
}

/// The batch arguments of an unknown program, in order.
pub(crate) fn batches<'a>(arguments: &Arguments<'a>) -> Vec<(Level, Hit<'a>)> {
    all(arguments)
        .filter_map(|hit| Some((batch_level(hit.name)?, hit)))
        .collect()
}

/// The accumulation arguments of an unknown program, in order.
pub(crate) fn accumulations<'a>(arguments: &Arguments<'a>) -> Vec<Hit<'a>> {
    all(arguments)
        .filter(|hit| is_accumulation(hit.name))
        .collect()
}

fn all<'a>(arguments: &Arguments<'a>) -> impl Iterator<Item = Hit<'a>> {
    (0..arguments.tokens.len()).filter_map(|k| arguments.argument_at(k))
}

/// Arguments that a program of any kind would take for "mixed precision off", with what turns it on.
///
/// Only what the command itself says is turned around: no argument is made up for a program that
/// nobody knows.
pub(crate) struct OffSwitch<'a> {
    /// Where it is.
    pub hit: Hit<'a>,
    /// The new value, or `None` where the switch is taken out.
    pub with: Option<&'static str>,
}

/// What an unknown program's command says about its precision.
pub(crate) enum Said<'a> {
    /// Nothing.
    Nothing,
    /// Mixed precision is on, by this argument.
    On(Hit<'a>),
    /// It is off, by this argument, and can be turned around.
    Off(OffSwitch<'a>),
    /// There is an argument that is not understood.
    Unclear(Hit<'a>),
}

/// Reads an unknown program's precision; `bf16` says whether the device has it.
pub(crate) fn precision<'a>(arguments: &Arguments<'a>, bf16: bool) -> Said<'a> {
    let mut off = None;
    let mut unclear = None;
    let mut fp16_off = None;
    for hit in all(arguments) {
        let Some(leaf) = leaf(hit.name) else { continue };
        let value = hit.value.map(|value| value.text);
        let says_no =
            value.is_some_and(|v| matches!(plain(v).as_str(), "false" | "no" | "0" | "off"));
        let with_case = |v: &str| match v {
            "False" => "True",
            "0" => "1",
            "no" => "yes",
            "off" => "on",
            _ => "true",
        };
        match leaf.as_str() {
            "amp" | "useamp" | "fp16" | "bf16" | "usefp16" | "usebf16" | "autocast"
            | "useautocast" | "halfprecision" | "automixprec" => {
                if !says_no {
                    return Said::On(hit);
                }
                // Without loss scaling of its own fp16 diverges, so only a switch that says AMP or
                // bf16 is turned on in a program nobody knows.
                let may = match leaf.as_str() {
                    "amp" | "useamp" | "autocast" | "useautocast" => true,
                    "bf16" | "usebf16" => bf16,
                    _ => false,
                };
                if may {
                    let with = Some(with_case(value.unwrap_or_default()));
                    off = Some(OffSwitch { hit, with });
                } else {
                    fp16_off = Some(hit);
                }
            }
            "mixedprecision" => match value {
                Some("no") => {
                    let with = Some(if bf16 { "bf16" } else { "fp16" });
                    off = Some(OffSwitch { hit, with });
                }
                Some("false" | "False" | "0") => {
                    let with = Some(with_case(value.unwrap_or_default()));
                    off = Some(OffSwitch { hit, with });
                }
                Some(_) | None => return Said::On(hit),
            },
            "noamp" | "disableamp"
                if hit.form == Form::Space && !hit.value.is_some_and(|v| is_bool(v.text)) =>
            {
                off = Some(OffSwitch { hit, with: None });
            }
            "precision" | "dtype" | "ampdtype" => match value.map(plain).as_deref() {
                Some("32" | "32true" | "fp32" | "float32" | "full") => unclear = Some(hit),
                Some(v) if v.contains("16") || v.contains("amp") || v.contains("mixed") => {
                    return Said::On(hit);
                }
                _ => unclear = Some(hit),
            },
            _ => {}
        }
    }
    match (off, unclear, fp16_off) {
        (_, Some(hit), _) | (None, None, Some(hit)) => Said::Unclear(hit),
        (Some(off), None, _) => Said::Off(off),
        (None, None, None) => Said::Nothing,
    }
}

/// Reads what an unknown program's command says about recomputation.
pub(crate) fn recomputation<'a>(arguments: &Arguments<'a>) -> Said<'a> {
    for hit in all(arguments).collect::<Vec<_>>().into_iter().rev() {
        let Some(leaf) = leaf(hit.name) else { continue };
        match leaf.as_str() {
            "gradientcheckpointing"
            | "gradcheckpointing"
            | "usegradientcheckpointing"
            | "usegradcheckpointing"
            | "gradcheckpoint"
            | "gradientcheckpoint"
            | "enablegradientcheckpointing"
            | "activationcheckpointing"
            | "enableactivationcheckpointing"
            | "checkpointactivations"
            | "recomputeactivations" => {
                let Some(value) = hit.value.map(|value| value.text) else {
                    return Said::On(hit);
                };
                let with = match value {
                    "False" => "True",
                    "false" => "true",
                    "no" => "yes",
                    "off" => "on",
                    // A number may be how many layers.
                    "0" => return Said::Unclear(hit),
                    _ => return Said::On(hit),
                };
                let with = Some(with);
                return Said::Off(OffSwitch { hit, with });
            }
            "nogradientcheckpointing" | "nogradcheckpointing" | "disablegradientcheckpointing"
                if hit.form == Form::Space && !hit.value.is_some_and(|v| is_bool(v.text)) =>
            {
                return Said::Off(OffSwitch { hit, with: None });
            }
            "usecheckpoint" | "usecheckpointing" | "recompute" | "checkpointing" => {
                return Said::Unclear(hit);
            }
            _ => {}
        }
    }
    Said::Nothing
}

/// The arguments of an unknown program that say how many processes load its data.
pub(crate) fn workers<'a>(arguments: &Arguments<'a>) -> Vec<Hit<'a>> {
    all(arguments)
        .filter(|hit| leaf(hit.name).is_some_and(|leaf| WORKERS.contains(&leaf.as_str())))
        .collect()
}

/// Whether a word is a boolean's value.
pub(crate) fn is_bool(word: &str) -> bool {
    matches!(
        plain(word).as_str(),
        "true" | "false" | "yes" | "no" | "0" | "1" | "on" | "off" | "t" | "f" | "y" | "n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_batch_are_read() {
        for name in [
            "--batch-size",
            "--batch_size",
            "--batchSize",
            "-b",
            "-bs",
            "--bs",
            "data.batch_size",
            "SOLVER.IMS_PER_BATCH",
            "+train.batch_size",
        ] {
            assert_eq!(batch_level(name), Some(Level::Plain), "{name}");
        }
        for name in [
            "--per_device_train_batch_size",
            "--micro-batch-size",
            "cfg.micro_batch_size",
        ] {
            assert_eq!(batch_level(name), Some(Level::Micro), "{name}");
        }
        assert_eq!(batch_level("--global_batch_size"), Some(Level::Total));
        assert_eq!(batch_level("--train_batch_size"), Some(Level::Divided));
        assert_eq!(batch_level("--mini_batch_size"), Some(Level::Unsure));
        assert!(is_accumulation("--grad-accum") && !is_accumulation("--update-freq"));
    }

    #[test]
    fn look_alikes_are_no_batch() {
        for name in [
            "--per_device_eval_batch_size",
            "--batch-size-valid",
            "-vb",
            "--test-batch-size",
            "--testBatchSize",
            "--predict_batch_size",
            "--sw_batch_size",
            "--vae_batch_size",
            "--local_rollout_forward_batch_size",
            "x.log_prob_micro_batch_size_per_gpu",
            "--coqpit.batch_group_size",
            "model.validation_ds.batch_size",
            "--batch_size_val",
            "--required-batch-size-multiple",
            "-max_generator_batches",
            "--num_mini_batches",
            "--train-batches-per-epoch",
            "--trainer.limit_val_batches",
            "--rampup-batch-size",
            "--accum-batches",
            "--start-batch",
            "--batch_type",
            "--serial_batches",
            "nbs",
            "val_dataloader.batch_size",
            "-B",
            "--b",
            "eval.batch_size",
            "--sample_batch_size",
            "rollout.batch_size",
        ] {
            assert_eq!(batch_level(name), None, "{name}");
        }
    }
}
