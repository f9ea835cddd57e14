//! An optimizer with a smaller state, by the program's own option or its config file, where the step of Adam does not fit: states of 8 bits, those
//! kept in RAM as far as the GPU is full ("paged"), Adafactor. It changes the numbers, and a checkpoint has the state of the
//! other one, so it is for runs that begin anew.

use super::plan::{Alteration, Expectation};
use super::proposal::{Draft, Offering, Proposal};
use super::switch::{Switch, turn_on};
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::diagnosis::Cause;
use crate::event::OomRecord;
use crate::forecast::{Alternative, OptimizerStep, RecordedStep};
use crate::recognize::ConfigFile;
use crate::recognize::argument::Name;
use crate::recognize::config_file::{self, FoundValue};
use crate::recognize::program::{OptimizerChoice, OptimizerKind, ProgramEntry, SwitchSpec};
use crate::units::Bytes;

pub(super) const REMEDY: RemedySpec = RemedySpec {
    alters: Some(Alteration::Optimizer),
    ..RemedySpec::new(
        '8',
        "smaller optimizer state",
        RemedyEffect::RemovesCause,
        NeedFrom::Itself,
        propose,
    )
};

/// One of the program's optimizers, and what the step then takes.
struct SmallerState {
    kind: OptimizerKind,
    draft: Draft,
    step: OptimizerStep,
    needs: Bytes,
    /// What lies in RAM where the GPU is full.
    paged: Bytes,
}

impl SmallerState {
    /// "Adam with states of 8 bits: 6.00 GiB of parameters, …"
    fn sum(&self) -> String {
        let state = match self.paged {
            Bytes::ZERO => format!("{} of state", self.step.state),
            paged => format!("{paged} of state that lies in RAM where the GPU is full"),
        };
        format!(
            "{}: {} of parameters, {} of gradients, {state}",
            self.kind.words(),
            self.step.parameters,
            self.step.gradients,
        )
    }
}

/// What the step takes with a kind of optimizer, and what of its state may lie in RAM; `None` where that is no less.
fn with(
    step: &RecordedStep<'_>,
    kind: OptimizerKind,
    room: Bytes,
) -> Option<(OptimizerStep, Bytes)> {
    let alternatives = step.alternatives(room);
    let of = |wanted| {
        let mut all = alternatives.iter();
        all.find(|(what, _)| *what == wanted).map(|(_, step)| *step)
    };
    match kind {
        OptimizerKind::EightBit => of(Alternative::EightBit).map(|step| (step, Bytes::ZERO)),
        OptimizerKind::Paged => of(Alternative::EightBit).map(|step| {
            let state = Bytes::ZERO;
            (OptimizerStep { state, ..step }, step.state)
        }),
        OptimizerKind::Adafactor => of(Alternative::Adafactor).map(|step| (step, Bytes::ZERO)),
    }
}

fn check_installed(offering: &Offering<'_>, choice: &OptimizerChoice) -> Result<(), String> {
    let installed = offering.inputs.patchable();
    let installed = installed.and_then(|found| found.installed.as_ref());
    let missing = choice.package.as_ref().zip(installed);
    match missing.filter(|(package, installed)| !installed.contains(package)) {
        Some((package, _)) => Err(format!("{package} is not installed there")),
        None => Ok(()),
    }
}

/// The edits that choose it, or why there are none.
fn chosen<'a>(
    offering: &Offering<'a>,
    entry: &'a ProgramEntry,
    choice: &'a OptimizerChoice,
) -> Result<Draft, String> {
    check_installed(offering, choice)?;
    if let Some((file, value)) = in_file(offering, entry, choice)? {
        if is_small(&value.text) {
            let (name, text) = (&value.name, &value.text);
            return Err(format!("already on: {name} is {text} in {}", file.shown()));
        }
        if choice.switch.add.is_empty() {
            return in_copy(offering, file, &value, &choice.name, &choice.refused_with);
        }
    } else if choice.switch.add.is_empty() {
        return Err("which optimizer it takes is not in a config file that was read".into());
    }
    let switch = Switch {
        what: "an optimizer with a smaller state",
        spec: &choice.switch,
        words: Ok(&choice.switch.add),
        of_launcher: None,
        means_off: |value| !is_small(value),
        in_file: &choice.keys,
    };
    turn_on(switch, offering, entry, offering.recognized.arguments())
}

/// Where the program's config file names its optimizer.
fn in_file<'a>(
    offering: &Offering<'a>,
    entry: &ProgramEntry,
    choice: &OptimizerChoice,
) -> Result<Option<(&'a ConfigFile, FoundValue)>, String> {
    let arguments = offering.recognized.arguments();
    let file = config_file::of_command(&arguments, entry, &offering.inputs.launch);
    match file {
        Some(file) => Ok(first_of(file, &choice.keys)?.map(|value| (file, value))),
        None => Ok(None),
    }
}

fn first_of(file: &ConfigFile, keys: &[impl AsRef<str>]) -> Result<Option<FoundValue>, String> {
    for key in keys {
        if let Some(value) = file.scalar(key.as_ref())? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// Another name in a copy of the file, unless its other settings are of an optimizer that takes more.
pub(super) fn in_copy(
    offering: &Offering<'_>,
    file: &ConfigFile,
    value: &FoundValue,
    name: &str,
    refused_with: &[impl AsRef<str>],
) -> Result<Draft, String> {
    if let Some(other) = first_of(file, refused_with)? {
        let (other, shown) = (other.name, file.shown());
        return Err(format!("{name} does not take {other}, which {shown} sets"));
    }
    let Some(copies) = offering.inputs.launch.copies else {
        return Err(format!(
            "{} is {} in {}: a relaunch by key uses a copy with {name}",
            value.name,
            value.text,
            file.shown()
        ));
    };
    let mut draft = Draft::default();
    draft.set_in_copy(file, value, name, copies);
    Ok(draft)
}

/// Keys that name an optimizer in the config files of programs of which nothing else is known.
const KEYS: [&str; 12] = [
    "optim",
    "*.optim",
    "optimizer",
    "*.optimizer",
    "optimizer.name",
    "*.optimizer.name",
    "optimizer._target_",
    "*.optimizer._target_",
    "optimizer._component_",
    "optimizer.class_path",
    "*.optimizer.class_path",
    "optimizer.type",
];

/// Arguments that torch's Adam takes and bitsandbytes' does not, beside the key of its class or below it.
const TORCHS_OWN: [&str; 4] = ["*fused", "*foreach", "*capturable", "*differentiable"];

/// The words of transformers' `TrainingArguments.optim` for each kind.
const TRAINERS: [(OptimizerKind, Option<&str>, &str); 3] = [
    (OptimizerKind::EightBit, Some(BITS), "adamw_bnb_8bit"),
    (OptimizerKind::Paged, Some(BITS), "paged_adamw_8bit"),
    (OptimizerKind::Adafactor, None, "adafactor"),
];

/// Classes that take the same arguments as torch's, but for its own.
const CLASSES: [(OptimizerKind, Option<&str>, &str); 2] = [
    (
        OptimizerKind::EightBit,
        Some(BITS),
        "bitsandbytes.optim.AdamW8bit",
    ),
    (
        OptimizerKind::Paged,
        Some(BITS),
        "bitsandbytes.optim.PagedAdamW8bit",
    ),
];

const BITS: &str = "bitsandbytes";

/// What an unknown program's config file names its optimizer, where the name shows whose word it is: transformers', or a class of
/// torch's.
fn of_unknown(offering: &Offering<'_>) -> Result<Vec<(OptimizerChoice, Draft)>, String> {
    let arguments = offering.recognized.arguments();
    let none = || "no option for another optimizer is known for this program".to_string();
    let file = config_file::of_unknown(&arguments, &offering.inputs.launch).ok_or_else(none)?;
    let value = first_of(file, &KEYS)?.ok_or_else(none)?;
    let (name, shown) = (&value.name, file.shown());
    let (words, refused): (&[_], &[&str]) = match value.text.as_str() {
        text if is_small(text) => return Err(format!("already on: {name} is {text} in {shown}")),
        text if text.starts_with("adamw_torch") || text == "adamw_hf" => (&TRAINERS, &[]),
        "torch.optim.AdamW" => (&CLASSES, &TORCHS_OWN),
        text => {
            return Err(format!(
                "{name} is {text} in {shown}; which other names this program takes is not known"
            ));
        }
    };
    let made = words.iter().map(|(kind, package, word)| {
        let choice = OptimizerChoice {
            kind: *kind,
            package: package.map(str::to_string),
            switch: SwitchSpec::default(),
            keys: Vec::new(),
            name: word.to_string(),
            refused_with: Vec::new(),
        };
        check_installed(offering, &choice)?;
        Ok((choice, in_copy(offering, file, &value, word, refused)?))
    });
    let made: Vec<Result<_, String>> = made.collect();
    let (offered, refusals): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    match (offered.is_empty(), refusals.into_iter().next()) {
        (true, Some(Err(why))) => Err(why),
        _ => Ok(offered.into_iter().flatten().collect()),
    }
}

/// Whether an optimizer's name is of one with a smaller state.
fn is_small(name: &str) -> bool {
    let name = name.to_lowercase();
    name.contains("8bit") || name.contains("4bit") || name.contains("adafactor")
}

/// The one that fits with the least change, else the one that needs least; or why there is none.
fn best(
    offering: &Offering<'_>,
    step: &RecordedStep<'_>,
    room: Bytes,
) -> Result<Vec<SmallerState>, String> {
    let recognized = offering.recognized;
    recognized.check_open()?;
    let arguments = recognized.arguments();
    let known = recognized.known.map(|entry| &entry.resume.names);
    let mut resumes = known.into_iter().flatten();
    if let Some(name) = resumes.find(|name| arguments.has(Name::new(name))) {
        return Err(format!(
            "with {name} it goes on from a checkpoint, which has the state of the other optimizer"
        ));
    }
    if offering.inputs.launch.checkpoint.is_some() {
        return Err(
            "the run has written a checkpoint, which has the state of the other optimizer".into(),
        );
    }
    let mut refusal = None;
    let mut all = Vec::new();
    let mut take = |kind, draft| {
        let Some((then, paged)) = with(step, kind, room) else {
            return;
        };
        match draft {
            Ok(draft) => all.push(SmallerState {
                kind,
                draft,
                step: then,
                needs: step.needs(&then),
                paged,
            }),
            Err(why) => refusal = refusal.take().or(Some(why)),
        }
    };
    match recognized.known {
        Some(entry) if entry.optimizers.is_empty() => {
            return Err("no option for another optimizer is known for this program".into());
        }
        Some(entry) => {
            for choice in &entry.optimizers {
                take(choice.kind, chosen(offering, entry, choice));
            }
        }
        None => {
            for (choice, draft) in of_unknown(offering)? {
                take(choice.kind, Ok(draft));
            }
        }
    }
    if all.is_empty() {
        let class = step.class();
        return Err(refusal.unwrap_or_else(|| format!("{class} has no larger state than these")));
    }
    // In the order of the entry those that fit.
    all.sort_by_key(|candidate| match candidate.needs <= room {
        true => (false, Bytes::ZERO),
        false => (true, candidate.needs),
    });
    Ok(all)
}

fn expected(
    offering: &Offering<'_>,
    record: &OomRecord,
    step: &RecordedStep<'_>,
    candidates: &[SmallerState],
) -> Expectation {
    let pieces = record.sample.inactive_split.unwrap_or(Bytes::ZERO);
    let first = &candidates[0];
    let mut expected =
        offering
            .predictor
            .summed(first.needs, step.there(), pieces, step.knows_passes());
    for candidate in candidates {
        expected.words.push("; ", candidate.sum());
    }
    expected
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    let record = offering.inputs.forecast.oom?.record.as_ref()?;
    let step = RecordedStep::new(record)?;
    let room = offering.predictor.room()?;
    let is_to_blame = offering.inputs.cause() == Some(Cause::OptimizerState);
    if !is_to_blame && step.as_it_is.alone() <= room {
        return None;
    }
    let (draft, expectation) = match best(offering, &step, room) {
        Ok(candidates) => (
            Ok(candidates[0].draft.clone()),
            expected(offering, record, &step, &candidates),
        ),
        Err(why) => (Err(why), Expectation::default()),
    };
    let cost = [
        "another optimizer: the results change",
        "its learning rate may have to be another one",
    ];
    Some(Proposal::new(draft, cost).expecting(expectation))
}
