//! An evaluation of transformers' Trainer that moves its outputs to RAM every few batches: by the program's argument, or at
//! runtime. Trainer keeps the outputs of all batches on the GPU otherwise, and puts old and new ones together with each batch.

use super::plan::Expectation;
use super::proposal::{Draft, Offering, Proposal};
use super::switch::{Switch, turn_on};
use super::{NeedFrom, RemedyEffect, RemedySpec};
use crate::diagnosis::Cause;
use crate::event::{Patch, Relief, ReliefMoment, Retainer};
use crate::forecast::Estimate;
use crate::recognize::argument::Name;
use crate::units::Bytes;

pub(super) const REMEDY: RemedySpec = RemedySpec::new(
    'x',
    "outputs to RAM",
    RemedyEffect::RemovesCause,
    NeedFrom::Itself,
    propose,
);

/// The share of the batches that were kept when memory ran out after which they are moved: seldom, since each time all that is in
/// RAM is copied, and early enough for twice as many (old and new ones beside their sum) to be little.
const MOVED_AFTER: u64 = 8;
/// No more batches than this.
const MOST_BATCHES: u64 = 16;

/// What Trainer kept when memory ran out.
struct KeptOutputs {
    /// The outputs of all batches so far.
    all: Bytes,
    /// Those of one batch.
    each: Bytes,
    /// The outputs of the whole evaluation, if its number of batches is known.
    in_the_end: Option<Bytes>,
}

impl KeptOutputs {
    /// `None` where nothing was found that Trainer itself keeps.
    fn of(offering: &Offering<'_>) -> Option<KeptOutputs> {
        let oom = offering.inputs.forecast.oom?;
        let rank = offering.inputs.forecast.state?.run()?.rank_of(oom)?;
        let (_, found) = rank.retainers.as_ref()?;
        let record = oom.record.as_ref()?;
        // A library's variable has no line, but a function, which was running.
        let is_running = |function: &str| {
            let mut running = record.stack.iter();
            running.any(|frame| frame.function == function && is_trainers(&frame.file))
        };
        let is_trainers = |kept: &&Retainer| {
            let line = kept.line.as_ref();
            let is_trainers =
                line.map_or_else(|| is_running(&kept.of), |line| is_trainers(&line.file));
            kept.graph == Bytes::ZERO && is_trainers
        };
        let kept = found.retainers.iter().filter(is_trainers);
        let all = kept.map(|kept| kept.bytes).max()?;
        let gathering = record.gathering.as_deref();
        // What was requested is the sum of old and new outputs.
        let new = oom.requested()? - all;
        let each = match gathering.map(|gathering| gathering.done) {
            Some(done) if done > 0 => Bytes(all.0 / done),
            Some(_) | None if new > Bytes::ZERO && new < all => new,
            Some(_) | None => all,
        };
        let of = gathering.and_then(|gathering| gathering.of);
        Some(KeptOutputs {
            all,
            each,
            in_the_end: of.map(|of| Bytes(each.0.saturating_mul(of))),
        })
    }

    /// After how many batches they are moved.
    fn steps(&self) -> u64 {
        let batches = self.all.0 / self.each.0.max(1);
        (batches / MOVED_AFTER).clamp(1, MOST_BATCHES)
    }

    /// What is on the GPU at the most until they are moved: so many batches, and all but the last of them once more.
    fn until_moved(&self) -> Bytes {
        Bytes(self.each.0.saturating_mul(2 * self.steps() - 1))
    }

    /// What RAM has to hold, or holds at the least where the end is not known: the outputs, and a copy while new ones are added.
    fn in_ram(&self) -> Bytes {
        let outputs = self.in_the_end.unwrap_or(self.all);
        outputs + outputs
    }

    /// `40.0 GiB`, `at least 16.0 GiB`
    fn in_ram_shown(&self) -> String {
        match self.in_the_end {
            Some(_) => self.in_ram().to_string(),
            None => format!("at least {}", self.in_ram()),
        }
    }
}

/// Whether a file is that of transformers' Trainer.
fn is_trainers(file: &str) -> bool {
    file.replace('\\', "/").contains("transformers/trainer")
}

/// Whether Trainer was putting outputs together when memory ran out.
fn gathers(offering: &Offering<'_>) -> bool {
    let Some(oom) = offering.inputs.forecast.oom else {
        return false;
    };
    let recorded = oom.record.iter().flat_map(|record| &record.stack);
    let printed = oom.report.iter().flat_map(|report| &report.stack);
    let mut files = recorded
        .map(|line| line.file.as_str())
        .chain(printed.map(|call| call.file.as_str()));
    files.any(is_trainers)
}

/// The edits of the program's argument, or why there are none.
fn by_argument(offering: &Offering<'_>, steps: u64) -> Result<Draft, String> {
    let recognized = offering.recognized;
    recognized.check_open()?;
    let none = || "no option for an evaluation's outputs is known for this program".to_string();
    let entry = recognized.known.ok_or_else(none)?;
    let spec = &entry.outputs;
    if spec.add.is_empty() {
        return Err(none());
    }
    let mut words = spec.add.clone();
    words.push(steps.to_string());
    turn_on(
        Switch {
            what: "moving an evaluation's outputs to RAM",
            spec,
            words: Ok(&words),
            of_launcher: None,
            // A larger number is lowered.
            means_off: |value| {
                value
                    .parse::<u64>()
                    .map_or(true, |typed| typed > MOST_BATCHES)
            },
            in_file: &entry.file.outputs,
        },
        offering,
        entry,
        recognized.arguments(),
    )
}

/// Whether the command sets the number of batches.
fn is_typed(offering: &Offering<'_>) -> bool {
    let Some(entry) = offering.recognized.known else {
        return false;
    };
    let arguments = offering.recognized.arguments();
    let mut names = entry.outputs.valued.iter();
    names.any(|name| arguments.has(Name::new(name)))
}

fn patched(offering: &Offering<'_>, steps: u64) -> Result<Draft, String> {
    let patch = Patch::EvalOutputs(steps as u32);
    offering.check_patch(patch)?;
    let every = match steps {
        1 => "each batch".into(),
        steps => format!("every {steps} batches"),
    };
    Ok(Draft::patching(
        patch,
        &format!("Trainer's evaluation moves its outputs to RAM after {every}"),
    ))
}

/// Why RAM cannot take them, if that is known.
fn too_much(offering: &Offering<'_>, kept: &KeptOutputs) -> Option<String> {
    let available = offering.available_ram()?;
    (kept.in_ram() > available).then(|| {
        let needed = kept.in_ram_shown();
        format!(
            "RAM would have to hold {needed} (all outputs, and a copy while they are put together), and {available} is available"
        )
    })
}

/// Each batch so far ran beside what was kept: without that, there is as much more room.
fn expected(offering: &Offering<'_>, kept: &KeptOutputs) -> Option<Expectation> {
    let oom = offering.inputs.forecast.oom?;
    let rest = oom.allocated()? - kept.all;
    let room = offering.predictor.room()?;
    let until_moved = kept.until_moved();
    let most = room - kept.all + until_moved;
    let needs = Estimate::new(rest, rest + until_moved, most.max(rest + until_moved));
    let has_trained = oom.record.as_ref()?.step > 0;
    let mut expected = offering.predictor.estimated(needs, has_trained);
    expected.relief = Some(Relief {
        at: ReliefMoment::Evaluation,
        allocated: Some(needs.likely),
        to_ram: kept.in_the_end,
        without: None,
        time: None,
    });
    // The run's own peak may be that of its training, which the run before has shown.
    let training = offering.predictor.peak_of_training();
    expected.peak = training.map(|training| training.max(needs));
    expected
        .words
        .push("; ", format!("{} of outputs go to RAM", kept.all));
    let ram = format!("RAM takes {}", kept.in_ram_shown());
    expected.words.push(
        "; ",
        match offering.available_ram() {
            Some(available) => format!("{ram}, {available} is available"),
            None => ram,
        },
    );
    Some(expected)
}

fn propose(offering: &Offering<'_>) -> Option<Proposal> {
    if offering.inputs.cause() != Some(Cause::EvaluationOutputs) || !gathers(offering) {
        return None;
    }
    let kept = KeptOutputs::of(offering);
    let steps = kept.as_ref().map_or(1, KeptOutputs::steps);
    let draft = match kept.as_ref().and_then(|kept| too_much(offering, kept)) {
        Some(why) => Err(why),
        // Of a number that is typed the smaller one counts.
        None if is_typed(offering) => by_argument(offering, steps),
        None => offering.or_patched(by_argument(offering, steps), |_| patched(offering, steps)),
    };
    let cost = ["same numerics", "evaluations take RAM, and longer"];
    let unknown = || {
        Expectation::unknown(
            "what the evaluation keeps goes to RAM; how much that is was not found",
        )
    };
    let expectation = kept
        .and_then(|kept| expected(offering, &kept))
        .unwrap_or_else(unknown);
    Some(Proposal::new(draft, cost).expecting(expectation))
}
