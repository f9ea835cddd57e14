//! What a remedy is expected to do, from what the failed run showed. Where the run did not show
//! enough, the expectation is "unknown" and says why; nothing is made up.
//!
//! The factors were measured (transformers, convolutional networks, a U-Net; torch 2.11): from one
//! run, floor + (peak − floor) × new/old was within 14 % of the peak at other batches; above its
//! allocated peak a run needed 0.3–4 % with expandable segments and 2–29 % without.

use super::batch::Smaller;
use super::context::Context;
use super::plan::Expectation;
use crate::diagnosis::Cause;
use crate::event::Phase;
use crate::state::{OomIncident, RankState};
use crate::units::Bytes;

/// The largest error seen of a peak computed from one run.
const WORST_ERROR: f64 = 0.14;
/// What a run needed above its allocated peak without expandable segments, at most.
const DEFAULT_OVERHEAD: f64 = 1.29;
/// The same with expandable segments.
const EXPANDABLE_OVERHEAD: f64 = 1.04;

/// The figures that a run left behind.
struct Figures {
    /// What the process could have had of the device: what it held and what was free.
    room: Option<Bytes>,
    /// What was allocated and asked for when memory ran out.
    wanted: Option<Bytes>,
    /// Allocated between steps.
    floor: Option<Bytes>,
    /// What of it surely stays: parameters and optimizer state.
    stays: Option<Bytes>,
    /// The peak of the steps.
    peak: Peak,
    /// Where in its step memory ran out.
    phase: Phase,
}

/// What is known of the peak of a whole step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peak {
    /// No step ended.
    Unseen,
    /// Steps ended with this peak, and the one that failed wanted no more.
    Seen(Bytes),
    /// It is more than this: the step that failed wanted as much, and was not over.
    Wanted(Bytes),
    /// It is more than this: the only step that ended did so before the optimizer had a state.
    WithoutState(Bytes),
}

impl Figures {
    fn of(context: &Context<'_>) -> Figures {
        let oom = context.oom;
        let rank = oom.and_then(|oom| rank_of(context, oom));
        let record = oom.and_then(|oom| oom.record.as_ref());
        let wanted = oom.and_then(|oom| Some(oom.allocated()? + oom.requested()?));
        let room = oom.and_then(|oom| {
            let room = oom.reserved()? + oom.free()?;
            Some(oom.limit().map_or(room, |limit| room.min(limit)))
        });
        let structure = record
            .and_then(|record| record.structure.as_ref())
            .or(rank.and_then(|rank| rank.structure.as_ref()));
        Figures {
            room,
            wanted,
            floor: rank.and_then(|rank| rank.steps.floors.last().map(|(_, floor)| *floor)),
            stays: structure.map(|structure| structure.parameters + structure.optimizer_state),
            peak: rank.map_or(Peak::Unseen, |rank| Peak::of(rank, wanted)),
            phase: record.map_or(Phase::Unknown, |record| record.phase),
        }
    }

    /// What surely stays allocated whatever the batch.
    fn least_floor(&self, floor: Bytes) -> Bytes {
        self.stays.map_or(floor, |stays| stays.min(floor))
    }

    /// How far the step that failed had come, in words.
    fn how_far(&self) -> &'static str {
        match self.phase {
            Phase::Backward => "memory ran out in backward, near the step's peak",
            Phase::Optimizer => "memory ran out in the optimizer's step, near the step's peak",
            Phase::Forward | Phase::Load | Phase::Evaluation | Phase::Unknown => {
                "memory ran out before the step's peak"
            }
        }
    }
}

impl Peak {
    fn of(rank: &RankState, wanted: Option<Bytes>) -> Peak {
        match (rank.steps.peak, wanted) {
            (None, _) => Peak::Unseen,
            (Some(peak), Some(wanted)) if wanted > peak => Peak::Wanted(wanted),
            (Some(peak), _) if rank.steps.count < 2 => Peak::WithoutState(peak),
            (Some(peak), _) => Peak::Seen(peak),
        }
    }
}

fn rank_of<'a>(context: &Context<'a>, oom: &OomIncident) -> Option<&'a RankState> {
    let run = context.state?.run()?;
    let by_pid = oom
        .record
        .as_ref()
        .and_then(|record| run.ranks.iter().find(|rank| rank.hello.pid == record.pid));
    let by_rank = || {
        let wanted = oom.rank?;
        run.ranks
            .iter()
            .find(|rank| rank.hello.rank == Some(wanted))
    };
    by_pid.or_else(by_rank).or(if run.ranks.len() == 1 {
        run.ranks.first()
    } else {
        None
    })
}

fn unknown(why: &str) -> Expectation {
    Expectation {
        needs: None,
        at_least: None,
        fits: None,
        words: format!("unknown: {why}"),
    }
}

/// An expectation of which only a lower bound is known: it may be too much, it never fits.
fn at_least(least: Bytes, room: Option<Bytes>, words: String) -> Expectation {
    let too_much = room.is_some_and(|room| least > room);
    Expectation {
        needs: None,
        at_least: Some(least),
        fits: too_much.then_some(false),
        words,
    }
}

/// "of 22.0 GiB", where the room is known.
fn of_room(room: Option<Bytes>) -> String {
    room.map_or_else(String::new, |room| format!(" of {room}"))
}

/// What is said of a remedy that leaves the cause where it is and gives it less to work on.
fn only_delays(context: &Context<'_>) -> Option<Expectation> {
    let words = match context.findings.first()?.cause {
        Cause::Leak => "only delays the end: less stays of each step, but it stays",
        Cause::EvaluationGraph => {
            "hardly helps: every batch of the evaluation keeps its activations"
        }
        Cause::Capacity
        | Cause::OptimizerState
        | Cause::Fragmentation
        | Cause::ForeignProcess
        | Cause::Limit
        | Cause::OddBatch
        | Cause::NonPytorch
        | Cause::Thrashing
        | Cause::HostMemory
        | Cause::DeviceFault => return None,
    };
    Some(Expectation {
        needs: None,
        at_least: None,
        fits: None,
        words: words.into(),
    })
}

/// What a smaller batch will need.
pub(super) fn of_batch(context: &Context<'_>, smaller: &Smaller) -> Expectation {
    if context.oom.is_none() {
        return unknown("nothing has run out of memory yet");
    }
    if let Some(delay) = only_delays(context) {
        return delay;
    }
    let figures = Figures::of(context);
    if figures.phase == Phase::Evaluation {
        return unknown("memory ran out in an evaluation, whose batch may be another");
    }
    let share = smaller.to as f64 / smaller.from.max(1) as f64;
    let scaled = |floor: Bytes, peak: Bytes| floor + (peak - floor).scale(share);
    match (figures.floor, figures.peak) {
        (None, _) | (_, Peak::Unseen) => unknown("no full step was seen; a half is a guess"),
        (Some(floor), Peak::Seen(peak)) => seen_whole(scaled(floor, peak), figures.room),
        (Some(floor), Peak::Wanted(peak)) => {
            let least = scaled(figures.least_floor(floor), peak);
            at_least_of(least, figures.room, figures.how_far())
        }
        (Some(floor), Peak::WithoutState(peak)) => {
            let least = scaled(figures.least_floor(floor), peak);
            let why = "the only full step had no optimizer state yet";
            at_least_of(least, figures.room, why)
        }
    }
}

/// A lower bound, and why it is no more than that.
fn at_least_of(least: Bytes, room: Option<Bytes>, why: &str) -> Expectation {
    let why = match room {
        Some(room) if least > room => "does not fit",
        Some(_) | None => why,
    };
    let words = format!("needs at least {least}{}: {why}", of_room(room));
    at_least(least, room, words)
}

/// What steps that were seen whole let expect.
fn seen_whole(needs: Bytes, room: Option<Bytes>) -> Expectation {
    let fits = room.and_then(|room| {
        if needs.scale(1.0 - WORST_ERROR) > room {
            Some(false)
        } else {
            (needs.scale(DEFAULT_OVERHEAD) <= room).then_some(true)
        }
    });
    let verdict = match fits {
        Some(true) => ": fits",
        Some(false) => ": does not fit",
        None => "",
    };
    Expectation {
        needs: Some(needs),
        at_least: None,
        fits,
        words: format!("needs about {needs}{}{verdict}", of_room(room)),
    }
}

/// What expandable segments will do.
pub(super) fn of_expandable(context: &Context<'_>) -> Expectation {
    if context.oom.is_none() {
        return unknown("nothing has run out of memory yet");
    }
    let figures = Figures::of(context);
    let Some(wanted) = figures.wanted else {
        return unknown("the out-of-memory left no figures");
    };
    let Some(room) = figures.room else {
        return at_least(
            wanted,
            None,
            format!("this allocation needs {wanted} in all; the room is unknown"),
        );
    };
    if wanted > room {
        let words = format!("does not fit: {wanted} are wanted, {room} are there");
        return at_least(wanted, Some(room), words);
    }
    if wanted.scale(EXPANDABLE_OVERHEAD) > room {
        let words = format!("tight: {wanted} of {room} for the allocation that failed");
        return at_least(wanted, Some(room), words);
    }
    let spare = room - wanted;
    let words = format!("the allocation that failed fits, with {spare} to spare");
    match figures.peak {
        Peak::Seen(peak) => Expectation {
            needs: Some(peak),
            at_least: None,
            fits: (peak.scale(EXPANDABLE_OVERHEAD) <= room).then_some(true),
            words,
        },
        Peak::Wanted(_) | Peak::WithoutState(_) | Peak::Unseen => {
            let how_far = figures.how_far();
            at_least(wanted, Some(room), format!("{words}; {how_far}"))
        }
    }
}

/// What mixed precision will do: at the best it halves what depends on the batch.
pub(super) fn of_mixed(context: &Context<'_>) -> Expectation {
    if context.oom.is_none() {
        return unknown("nothing has run out of memory yet");
    }
    if let Some(delay) = only_delays(context) {
        return delay;
    }
    let figures = Figures::of(context);
    let at_best = |floor: Bytes, peak: Bytes| floor + (peak - floor).scale(0.5);
    let (least, range) = match (figures.floor, figures.peak) {
        (None, _) | (_, Peak::Unseen) => return unknown("it halves activations at the best"),
        (Some(floor), Peak::Seen(peak)) => {
            let least = at_best(floor, peak);
            (least, format!("between {least} and {peak}"))
        }
        (Some(floor), Peak::Wanted(peak) | Peak::WithoutState(peak)) => {
            let least = at_best(figures.least_floor(floor), peak);
            (least, format!("at least {least}{}", of_room(figures.room)))
        }
    };
    let mut words = format!("{range}: it halves activations at the best");
    if figures.room.is_some_and(|room| least > room) {
        words.push_str(", which does not fit");
    }
    at_least(least, figures.room, words)
}

#[cfg(test)]
mod tests;
