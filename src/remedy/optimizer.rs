//! An optimizer with a smaller state, by the program's own option, where the step of Adam does not fit: states of 8 bits, those
//! kept in RAM as far as the GPU is full ("paged"), Adafactor. It changes the numbers, and a checkpoint has the state of the
//! other one, so it is for runs that begin anew.

use super::plan::{Alteration, Expectation};
use super::proposal::{Draft, Offering, Proposal};
use super::switch::{Switch, turn_on};
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::diagnosis::Cause;
use crate::event::OomRecord;
use crate::forecast::{Alternative, OptimizerStep, RecordedStep};
use crate::recognize::argument::Name;
use crate::recognize::program::{OptimizerChoice, OptimizerKind, ProgramEntry};
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
struct SmallerState<'a> {
    choice: &'a OptimizerChoice,
    draft: Draft,
    step: OptimizerStep,
    needs: Bytes,
    /// What lies in RAM where the GPU is full.
    paged: Bytes,
}

impl SmallerState<'_> {
    /// "Adam with states of 8 bits: 6.00 GiB of parameters, …"
    fn sum(&self) -> String {
        let state = match self.paged {
            Bytes::ZERO => format!("{} of state", self.step.state),
            paged => format!("{paged} of state that lies in RAM where the GPU is full"),
        };
        format!(
            "{}: {} of parameters, {} of gradients, {state}",
            self.choice.kind.words(),
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

/// The edits that choose it, or why there are none.
fn chosen<'a>(
    offering: &Offering<'a>,
    entry: &'a ProgramEntry,
    choice: &'a OptimizerChoice,
) -> Result<Draft, String> {
    let installed = offering.inputs.patchable();
    let installed = installed.and_then(|found| found.installed.as_ref());
    if let Some((package, _)) = choice
        .package
        .as_ref()
        .zip(installed)
        .filter(|(package, installed)| !installed.contains(package))
    {
        return Err(format!("{package} is not installed there"));
    }
    let switch = Switch {
        what: "an optimizer with a smaller state",
        spec: &choice.switch,
        words: Ok(&choice.switch.add),
        of_launcher: None,
        means_off: |value| !is_small(value),
        in_file: &[],
    };
    turn_on(switch, offering, entry, offering.recognized.arguments())
}

/// Whether an optimizer's name is of one with a smaller state.
fn is_small(name: &str) -> bool {
    let name = name.to_lowercase();
    name.contains("8bit") || name.contains("4bit") || name.contains("adafactor")
}

/// The one that fits with the least change, else the one that needs least; or why there is none.
fn best<'a>(
    offering: &Offering<'a>,
    step: &RecordedStep<'_>,
    room: Bytes,
) -> Result<Vec<SmallerState<'a>>, String> {
    let recognized = offering.recognized;
    recognized.check_open()?;
    let none = || "no option for another optimizer is known for this program".to_string();
    let entry = recognized
        .known
        .filter(|entry| !entry.optimizers.is_empty())
        .ok_or_else(none)?;
    let arguments = recognized.arguments();
    let mut resumes = entry.resume.names.iter();
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
    for choice in &entry.optimizers {
        let Some((then, paged)) = with(step, choice.kind, room) else {
            continue;
        };
        match chosen(offering, entry, choice) {
            Ok(draft) => all.push(SmallerState {
                choice,
                draft,
                step: then,
                needs: step.needs(&then),
                paged,
            }),
            Err(why) => refusal = refusal.or(Some(why)),
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
    candidates: &[SmallerState<'_>],
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
