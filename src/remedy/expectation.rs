//! What a remedy is expected to do, from what the failed run showed. Where the run did not show
//! enough, the expectation is "unknown" and says why; nothing is made up.
//!
//! The factors were measured (transformers, convolutional networks, a U-Net; torch 2.11): from one
//! run, floor + (peak − floor) × new/old was within 14 % of the peak at other batches; above its
//! allocated peak a run needed 0.3–4 % with expandable segments and 2–29 % without.

use super::batch::Smaller;
use super::context::Context;
use super::plan::Expectation;
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
    /// What was allocated and asked for when memory ran out: a lower bound of the peak.
    wanted: Option<Bytes>,
    /// Allocated between steps.
    floor: Option<Bytes>,
    /// The largest allocated of a step that was seen whole.
    peak: Option<Bytes>,
    /// Steps that were seen whole.
    steps: u64,
}

impl Figures {
    fn of(context: &Context<'_>) -> Figures {
        let rank = context.oom.and_then(|oom| rank_of(context, oom));
        let oom = context.oom;
        let wanted = oom.and_then(|oom| Some(oom.allocated()? + oom.requested()?));
        let room = oom.and_then(|oom| {
            let room = oom.reserved()? + oom.free()?;
            Some(oom.limit().map_or(room, |limit| room.min(limit)))
        });
        let steps = rank.map_or(0, |rank| rank.steps.count);
        Figures {
            room,
            wanted,
            floor: rank.and_then(|rank| rank.steps.floors.last().map(|(_, floor)| *floor)),
            peak: rank
                .filter(|_| steps > 0)
                .map(|rank| rank.allocated_peak)
                .filter(|peak| *peak > Bytes::ZERO),
            steps,
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
        fits: None,
        words: format!("unknown: {why}"),
    }
}

/// What a smaller batch will need.
pub(super) fn of_batch(context: &Context<'_>, smaller: &Smaller) -> Expectation {
    if context.oom.is_none() {
        return unknown("nothing has run out of memory yet");
    }
    let figures = Figures::of(context);
    let (Some(floor), Some(peak)) = (figures.floor, figures.peak) else {
        return unknown("no full step was seen; a half is a guess");
    };
    // Memory ran out, so more was wanted than any step that ended had needed.
    let peak = figures.wanted.map_or(peak, |wanted| wanted.max(peak));
    let share = smaller.to as f64 / smaller.from.max(1) as f64;
    let needs = floor + (peak - floor).scale(share);
    // The first step's peak lacks the optimizer's state, which is there between steps from then on.
    let is_bound = figures.steps < 2;
    let about = if is_bound { "at least" } else { "about" };
    let Some(room) = figures.room else {
        return Expectation {
            needs: Some(needs),
            fits: None,
            words: format!("needs {about} {needs}"),
        };
    };
    let fits = if needs.scale(1.0 - WORST_ERROR) > room {
        Some(false)
    } else if !is_bound && needs.scale(DEFAULT_OVERHEAD) <= room {
        Some(true)
    } else {
        None
    };
    let words = match fits {
        Some(true) => format!("needs about {needs} of {room}: fits"),
        Some(false) => format!("needs {about} {needs} of {room}: does not fit"),
        None => format!("needs {about} {needs} of {room}"),
    };
    Expectation {
        needs: Some(needs),
        fits,
        words,
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
        return Expectation {
            needs: Some(wanted),
            fits: None,
            words: format!("this allocation needs {wanted} in all; the room is unknown"),
        };
    };
    let (fits, words) = if wanted > room {
        (
            Some(false),
            format!("does not fit: {wanted} are wanted, {room} are there"),
        )
    } else if wanted.scale(EXPANDABLE_OVERHEAD) <= room {
        (
            Some(true),
            format!(
                "the allocation that failed fits, with {} to spare",
                room - wanted
            ),
        )
    } else {
        (
            None,
            format!("tight: {wanted} of {room} for the allocation that failed"),
        )
    };
    Expectation {
        needs: Some(wanted),
        fits,
        words,
    }
}

/// What mixed precision will do: at the best it halves what depends on the batch.
pub(super) fn of_mixed(context: &Context<'_>) -> Expectation {
    if context.oom.is_none() {
        return unknown("nothing has run out of memory yet");
    }
    let figures = Figures::of(context);
    let (Some(floor), Some(peak)) = (figures.floor, figures.peak) else {
        return unknown("it halves activations at the best");
    };
    let peak = figures.wanted.map_or(peak, |wanted| wanted.max(peak));
    let least = floor + (peak - floor).scale(0.5);
    let fits = figures.room.filter(|room| least > *room).map(|_| false);
    let verdict = if fits == Some(false) {
        ": does not fit"
    } else {
        ""
    };
    Expectation {
        needs: None,
        fits,
        words: format!("between {least} and {peak}: it halves activations at the best{verdict}"),
    }
}
