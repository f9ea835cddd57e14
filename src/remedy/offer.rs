//! All remedies for one command, each offered or not and why, in the order in which they promise
//! to help.

use super::amp;
use super::checkpointing;
use super::device;
use super::expandable_segments;
use super::expectation::Outlook;
use super::inputs::RemedyInputs;
use super::leftover;
use super::patch;
use super::plan::{Alteration, Availability, BatchChange, Expectation, Remedy, RemedyId};
use super::resume;
use super::workers;
use crate::command::CommandLine;
use crate::diagnosis::{Cause, Certainty, Finding, Help};
use crate::event::Patchable;
use crate::forecast::{Division, divided, rounded};
use crate::recognize::batch::{self, BatchEdit};
use crate::recognize::draft::Draft;
use crate::recognize::recognition::{Recognised, recognise};

/// The remedies for a command. One that is not offered says why; the most promising is first. What
/// only a run that ran out of memory can need is left out where it does not.
pub fn remedies(command: &CommandLine, inputs: &RemedyInputs<'_>) -> Vec<Remedy> {
    let recognised = recognise(command, &inputs.launch);
    let recognised = &recognised;
    let outlook = Outlook::of(command, inputs);
    let cause = inputs.findings.first().map(|finding| finding.cause);
    let mut remedies = vec![
        smaller_batch(command, recognised, inputs, &outlook),
        expandable(command, recognised, inputs),
        mixed(command, recognised, inputs),
        recomputed(command, recognised, inputs),
        resumed(command, recognised, inputs),
    ];
    let moved = another_device(command, recognised, inputs, &outlook);
    if moved.is_offered() || inputs.forecast.oom.is_none() || cause == Some(Cause::OtherProcess) {
        remedies.push(moved);
    }
    if inputs.forecast.oom.is_none() || cause == Some(Cause::HostMemory) {
        remedies.push(fewer_workers(command, recognised, inputs));
    }
    remedies.extend(max_split(command, recognised, inputs));
    for remedy in &mut remedies {
        if let Some(expectation) = outlook.of_remedy(remedy) {
            remedy.expectation = expectation;
        }
    }
    remedies.extend(wait(recognised, inputs));
    remedies.extend(stop_leftover(recognised, inputs));
    remedies.sort_by_key(|remedy| {
        (
            !remedy.is_offered(),
            remedy.expectation.fits == Some(false),
            place(remedy.id, cause),
        )
    });
    remedies
}

/// Which remedy goes first for a cause.
fn place(id: RemedyId, cause: Option<Cause>) -> u8 {
    let prefers = cause.map_or(Help::LessMemory, |cause| cause.spec().prefers);
    let segments_first = prefers == Help::NoFragmentation;
    match id {
        RemedyId::Without => 0,
        RemedyId::StopLeftover => 1,
        RemedyId::DataloaderWorkers if prefers == Help::LessHostMemory => 2,
        RemedyId::Device if prefers == Help::AnotherDevice => 3,
        RemedyId::Wait => 4,
        RemedyId::ExpandableSegments if segments_first => 5,
        RemedyId::MaxSplitSize if segments_first => 6,
        RemedyId::Batch => 7,
        RemedyId::ExpandableSegments => 8,
        RemedyId::Recompute => 9,
        RemedyId::Amp => 10,
        RemedyId::MaxSplitSize => 11,
        RemedyId::Device => 12,
        RemedyId::DataloaderWorkers => 13,
        RemedyId::Resume => 14,
    }
}

/// What these remedies do together, in whatever order they were chosen.
pub fn expectation(
    command: &CommandLine,
    inputs: &RemedyInputs<'_>,
    chosen: &[&Remedy],
) -> Expectation {
    match chosen {
        [only] => only.expectation.clone(),
        several => Outlook::of(command, inputs).together(several),
    }
}

fn smaller_batch(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    inputs: &RemedyInputs<'_>,
    outlook: &Outlook<'_>,
) -> Remedy {
    let by_argument = match inputs.batch_fits {
        true => fitting(command, recognised, inputs, outlook),
        false => batch::smaller(command, recognised, &inputs.launch, inputs.batch_scale),
    };
    // An argument that says a batch is the program's own way, even where it cannot be edited.
    let has_none = batch::batch_of(command, recognised).is_none();
    match or_patched(inputs, by_argument, |found| match has_none {
        true => patch::batch(command, inputs, found),
        false => Err("the program has an argument for it".into()),
    }) {
        Ok(smaller) => Remedy {
            alters: smaller.alters.then_some(Alteration::EffectiveBatch),
            takes: Some(BatchChange {
                from: smaller.from,
                at_once: smaller.to,
                accumulates: smaller.accumulates,
            }),
            ..remedy(
                RemedyId::Batch,
                Ok(smaller.draft),
                recognised,
                &smaller.cost,
            )
        },
        Err(reason) => remedy(RemedyId::Batch, Err(reason), recognised, ""),
    }
}

/// The largest batch that is predicted to fit; a half where nothing is known or nothing fits.
fn fitting(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    inputs: &RemedyInputs<'_>,
    outlook: &Outlook<'_>,
) -> Result<BatchEdit, String> {
    let half = || batch::smaller(command, recognised, &inputs.launch, inputs.batch_scale);
    let reading = outlook.reading();
    let scaled = |to: u64| {
        // A little more than the quotient, so that flooring the product gives the batch.
        let scale = (to as f64 + 1e-3) / reading.at_once as f64;
        batch::smaller(command, recognised, &inputs.launch, scale)
    };
    let (Some(largest), true) = (outlook.largest(true), reading.at_once > 1) else {
        return half();
    };
    let whole = Division {
        batch: reading.at_once,
        accumulation: reading.accumulation,
    };
    let Some(division) = divided(whole.effective(), largest) else {
        return half();
    };
    let accumulated = scaled(division.batch)?;
    if accumulated.accumulates {
        return Ok(accumulated);
    }
    // It cannot accumulate: then there is no part to be found, and gradients do not stay.
    match outlook.largest(reading.keeps_gradients()) {
        Some(largest) => scaled(rounded(largest)),
        None => Ok(accumulated),
    }
}

fn expandable(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    inputs: &RemedyInputs<'_>,
) -> Remedy {
    let draft = expandable_segments::expandable(command, recognised, inputs);
    let cost = match inputs.launch.torch {
        Some(_) => "the same numbers; tensors shared between processes may fail",
        None => "the same numbers; needs torch 2.1, and its version is not known here",
    };
    remedy(RemedyId::ExpandableSegments, draft, recognised, cost)
}

fn mixed(command: &CommandLine, recognised: &Recognised<'_>, inputs: &RemedyInputs<'_>) -> Remedy {
    let by_argument = amp::mixed(command, recognised, inputs);
    let draft = or_patched(inputs, by_argument, |found| {
        patch::amp(command, inputs, found)
    });
    remedy(
        RemedyId::Amp,
        draft,
        recognised,
        "the numbers change: less precise arithmetic",
    )
}

fn recomputed(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    inputs: &RemedyInputs<'_>,
) -> Remedy {
    let by_argument = checkpointing::recompute(command, recognised, inputs);
    let expectation = unknown(
        match patch::held(inputs) {
            Some(words) => words,
            None => "how much of the activations it covers depends on the model".into(),
        }
        .as_str(),
    );
    Remedy {
        expectation,
        ..remedy(
            RemedyId::Recompute,
            or_patched(inputs, by_argument, |found| {
                patch::recompute(command, inputs, found)
            }),
            recognised,
            "the same numbers; a step takes longer, mostly by a tenth to a third",
        )
    }
}

fn resumed(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    inputs: &RemedyInputs<'_>,
) -> Remedy {
    let draft = resume::resume(command, recognised, inputs);
    let cost = inputs
        .launch
        .checkpoint
        .map_or_else(String::new, |checkpoint| {
            resume::begins(recognised, checkpoint)
        });
    let expectation = match inputs.forecast.oom {
        // What ran out does so again.
        Some(_) => Expectation {
            fits: Some(false),
            words: "it needs as much as before: choose it with another remedy".into(),
            ..unknown("")
        },
        None => unknown("nothing has run out of memory yet"),
    };
    Remedy {
        expectation,
        ..remedy(RemedyId::Resume, draft, recognised, &cost)
    }
}

fn another_device(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    inputs: &RemedyInputs<'_>,
    outlook: &Outlook<'_>,
) -> Remedy {
    let found = device::another(command, recognised, inputs);
    let free = found.as_ref().ok().map(|(_, free)| *free);
    let draft = found.map(|(draft, _)| draft);
    Remedy {
        expectation: match free {
            Some(free) => outlook
                .on(free)
                .unwrap_or_else(|| unknown(&format!("{free} are free there"))),
            None => unknown("no other device is known"),
        },
        ..remedy(RemedyId::Device, draft, recognised, "the same numbers")
    }
}

fn fewer_workers(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    inputs: &RemedyInputs<'_>,
) -> Remedy {
    Remedy {
        expectation: unknown("each of them holds a part of the host's memory"),
        ..remedy(
            RemedyId::DataloaderWorkers,
            workers::fewer(command, recognised, inputs),
            recognised,
            "the same numbers; loading data may become slower",
        )
    }
}

fn max_split(
    command: &CommandLine,
    recognised: &Recognised<'_>,
    inputs: &RemedyInputs<'_>,
) -> Option<Remedy> {
    let split = expandable_segments::max_split(command, recognised, inputs).ok()?;
    Some(Remedy {
        expectation: unknown("it makes fragmentation less likely"),
        ..remedy(
            RemedyId::MaxSplitSize,
            Ok(split),
            recognised,
            "slower allocation of large blocks",
        )
    })
}

/// Waiting, where somebody else's process is the likely cause.
fn wait(recognised: &Recognised<'_>, inputs: &RemedyInputs<'_>) -> Option<Remedy> {
    let is_likely = |finding: &&Finding| {
        finding.cause == Cause::OtherProcess && finding.certainty >= Certainty::Likely
    };
    let pid = inputs.findings.iter().find(is_likely)?.other_process?;
    // What is our own is stopped, not waited for.
    if inputs.leftovers.iter().any(|leftover| leftover.pid == pid) {
        return None;
    }
    Some(Remedy {
        changes: format!("starts again once process {pid} has left the GPU"),
        expectation: unknown("it depends on what is left of the GPU then"),
        ..doing(RemedyId::Wait, recognised, "the same command, later")
    })
}

fn stop_leftover(recognised: &Recognised<'_>, inputs: &RemedyInputs<'_>) -> Option<Remedy> {
    if inputs.leftovers.is_empty() {
        return None;
    }
    Some(Remedy {
        changes: leftover::shown(inputs.leftovers),
        expectation: unknown("it frees what they hold"),
        ..doing(
            RemedyId::StopLeftover,
            recognised,
            "the same command; nobody watches what is stopped",
        )
    })
}

/// What an argument does; where none does, what a patch does if a run has shown what can be patched;
/// and where neither helps, both reasons.
fn or_patched<T>(
    inputs: &RemedyInputs<'_>,
    by_argument: Result<T, String>,
    patched: impl FnOnce(&Patchable) -> Result<T, String>,
) -> Result<T, String> {
    match (by_argument, patch::patchable(inputs)) {
        (Err(reason), Some(found)) => {
            patched(found).map_err(|inside| format!("{reason}; not from inside: {inside}"))
        }
        (by_argument, _) => by_argument,
    }
}

fn unknown(why: &str) -> Expectation {
    Expectation {
        words: format!("unknown: {why}"),
        ..Expectation::default()
    }
}

/// A remedy that does something and leaves the command as it is.
fn doing(id: RemedyId, recognised: &Recognised<'_>, cost: &str) -> Remedy {
    let availability = match &recognised.part_of_a_job {
        None => Availability::Offered,
        Some(part) => one_part(part),
    };
    Remedy {
        availability,
        ..remedy(id, Err(String::new()), recognised, cost)
    }
}

fn one_part(part: &str) -> Availability {
    Availability::NotOffered(format!(
        "one part of a job ({part}): all its parts must be started with the same change"
    ))
}

fn remedy(
    id: RemedyId,
    draft: Result<Draft, String>,
    recognised: &Recognised<'_>,
    cost: &str,
) -> Remedy {
    let spec = id.spec();
    let (draft, availability) = match (draft, &recognised.part_of_a_job) {
        (Ok(draft), _) if draft.edits.is_empty() => (
            draft,
            Availability::NotOffered("there is nothing to change".into()),
        ),
        (Ok(draft), None) => (draft, Availability::Offered),
        (Ok(draft), Some(part)) => (draft, one_part(part)),
        (Err(reason), _) => (Draft::default(), Availability::NotOffered(reason)),
    };
    Remedy {
        id,
        key: spec.key,
        title: spec.title.into(),
        availability,
        changes: draft.shown.join("  "),
        edits: draft.edits,
        files: draft.files,
        expectation: Expectation::default(),
        takes: None,
        alters: spec.alters,
        cost: cost.into(),
    }
}
