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

#[cfg(test)]
mod tests {
    use super::super::{Context, Remedy, RemedyId, remedies};
    use crate::command::{CommandLine, Word};
    use crate::diagnosis::{Cause, Certainty, Finding};
    use crate::event::{Hello, OomRecord, Phase, Sample};
    use crate::state::{OomIncident, RankState, Run, Series, State, StepTrack};
    use crate::units::{Bytes, Moment, Pid, RunNumber};

    fn command() -> CommandLine {
        CommandLine {
            argv: ["python", "a.py", "--batch-size", "8", "--amp", "False"]
                .map(Word::from)
                .into(),
            env: Vec::new(),
            cwd: "/".into(),
        }
    }

    fn hello() -> Hello {
        Hello {
            pid: Pid(7),
            run: RunNumber::FIRST,
            rank: None,
            local_rank: None,
            world_size: None,
            python: "3.12.3".into(),
            torch: "2.11.0".into(),
            devices: Vec::new(),
            backend: Some("native".into()),
            alloc_conf: None,
            expandable_segments: Some(false),
            resting: None,
        }
    }

    /// A run of one process: its peak and floor in GiB after so many steps.
    fn state(steps: u64, floor: u64, peak: u64) -> State {
        let rank = RankState {
            hello: hello(),
            device: None,
            sample: None,
            allocated: Series::default(),
            reserved: Series::default(),
            allocated_peak: Bytes::gib(peak),
            reserved_peak: Bytes::gib(peak),
            peak_step: None,
            steps: StepTrack {
                count: steps,
                floors: (0..steps).map(|step| (step, Bytes::gib(floor))).collect(),
                ..StepTrack::default()
            },
            structure: None,
            structures: Default::default(),
            holdings: Default::default(),
            gone: None,
        };
        State {
            runs: vec![Run {
                number: RunNumber::FIRST,
                command: command(),
                changes: Vec::new(),
                remedies: Vec::new(),
                pid: Pid(7),
                started: Moment::ZERO,
                ended: None,
                left: Vec::new(),
                ranks: vec![rank],
                ooms: Vec::new(),
                oom_count: 0,
                stop_requested: None,
                predicted_peak: None,
            }],
            ..State::default()
        }
    }

    /// An out-of-memory: allocated, reserved, requested and free, in GiB.
    fn oom(allocated: u64, reserved: u64, requested: u64, free: u64) -> OomIncident {
        OomIncident {
            at: Moment::ZERO,
            record: Some(OomRecord {
                pid: Pid(7),
                device: 0,
                requested: Bytes::gib(requested),
                total: Bytes::gib(24),
                free: Bytes::gib(free),
                sample: Sample {
                    pid: Pid(7),
                    allocated: Bytes::gib(allocated),
                    reserved: Bytes::gib(reserved),
                    ..Sample::default()
                },
                limit: None,
                largest_free: None,
                free_blocks: Vec::new(),
                lines: Vec::new(),
                stack: Vec::new(),
                phase: Phase::Forward,
                grad_enabled: None,
                step: 0,
                structure: None,
            }),
            report: None,
            pid: None,
            surroundings: Default::default(),
            rank: None,
            device: None,
            caught: false,
        }
    }

    fn finding(cause: Cause) -> Finding {
        Finding {
            cause,
            certainty: Certainty::Certain,
            headline: String::new(),
            explanation: String::new(),
            evidence: Vec::new(),
            advice: Vec::new(),
            device: None,
            rank: None,
            foreign: None,
        }
    }

    fn all(state: &State, oom: &OomIncident, cause: Cause) -> Vec<Remedy> {
        let findings = [finding(cause)];
        remedies(
            &command(),
            &Context {
                torch: Some("2.11.0"),
                oom: Some(oom),
                findings: &findings,
                state: Some(state),
                ..Context::default()
            },
        )
    }

    fn of(all: &[Remedy], id: RemedyId) -> &Remedy {
        all.iter().find(|remedy| remedy.id == id).unwrap()
    }

    #[test]
    fn a_smaller_batch_is_predicted_from_floor_and_peak() {
        let all = all(&state(5, 4, 20), &oom(20, 21, 2, 1), Cause::Capacity);
        let batch = of(&all, RemedyId::Batch);
        // 4 + (22 − 4) / 2: what was asked for when memory ran out counts, not the last peak.
        assert_eq!(batch.expectation.needs, Some(Bytes::gib(13)));
        assert_eq!(batch.expectation.fits, Some(true));
        assert_eq!(
            batch.expectation.words,
            "needs about 13.0 GiB of 22.0 GiB: fits"
        );
        assert_eq!(all[0].id, RemedyId::Batch);
    }

    #[test]
    fn what_was_not_seen_is_unknown() {
        let no_step = all(&state(0, 4, 20), &oom(20, 21, 2, 1), Cause::Capacity);
        let expectation = &of(&no_step, RemedyId::Batch).expectation;
        assert_eq!((expectation.needs, expectation.fits), (None, None));
        assert_eq!(
            expectation.words,
            "unknown: no full step was seen; a half is a guess"
        );
        let one_step = all(&state(1, 4, 20), &oom(20, 21, 2, 1), Cause::Capacity);
        let expectation = &of(&one_step, RemedyId::Batch).expectation;
        assert_eq!(expectation.fits, None);
        assert!(
            expectation.words.starts_with("needs at least 13.0 GiB"),
            "{}",
            expectation.words
        );
        let nothing = remedies(&command(), &Context::default());
        assert!(
            nothing
                .iter()
                .all(|remedy| remedy.expectation.words.starts_with("unknown"))
        );
    }

    #[test]
    fn a_floor_that_does_not_fit_is_not_helped_by_a_smaller_batch() {
        let all = all(&state(3, 30, 31), &oom(22, 22, 4, 1), Cause::OptimizerState);
        let batch = of(&all, RemedyId::Batch);
        assert_eq!(batch.expectation.fits, Some(false));
        assert!(all.last().unwrap().expectation.fits == Some(false));
    }

    #[test]
    fn segments_help_where_the_pieces_together_suffice() {
        let state = state(5, 4, 14);
        let fragmented = all(&state, &oom(14, 20, 3, 1), Cause::Fragmentation);
        let segments = of(&fragmented, RemedyId::ExpandableSegments);
        assert_eq!(segments.expectation.fits, Some(true));
        assert_eq!(
            segments.expectation.words,
            "the allocation that failed fits, with 4.00 GiB to spare"
        );
        assert_eq!(fragmented[0].id, RemedyId::ExpandableSegments);
        let full = all(&state, &oom(20, 20, 3, 1), Cause::Fragmentation);
        let segments = of(&full, RemedyId::ExpandableSegments);
        assert_eq!(segments.expectation.fits, Some(false));
        assert_eq!(
            segments.expectation.words,
            "does not fit: 23.0 GiB are wanted, 21.0 GiB are there"
        );
        assert_eq!(full[0].id, RemedyId::Batch, "what does not fit goes behind");
        let tight = all(&state, &oom(18, 20, 3, 1), Cause::Fragmentation);
        assert_eq!(
            of(&tight, RemedyId::ExpandableSegments).expectation.fits,
            None
        );
    }

    #[test]
    fn a_cap_bounds_the_room() {
        let mut capped = oom(8, 9, 2, 12);
        capped.record.as_mut().unwrap().limit = Some(Bytes::gib(10));
        let all = all(&state(5, 2, 8), &capped, Cause::Limit);
        let batch = of(&all, RemedyId::Batch);
        assert_eq!(
            batch.expectation.words,
            "needs about 6.00 GiB of 10.0 GiB: fits"
        );
    }

    #[test]
    fn mixed_precision_is_an_interval() {
        let all = all(&state(5, 4, 20), &oom(20, 21, 2, 1), Cause::Capacity);
        let amp = of(&all, RemedyId::Amp);
        assert!(amp.is_offered());
        assert_eq!((amp.expectation.needs, amp.expectation.fits), (None, None));
        assert!(
            amp.expectation
                .words
                .starts_with("between 13.0 GiB and 22.0 GiB")
        );
    }

    #[test]
    fn segments_in_force_are_not_offered_again() {
        let mut state = state(5, 4, 20);
        state.runs[0].ranks[0].hello.expandable_segments = Some(true);
        let all = all(&state, &oom(20, 21, 2, 1), Cause::Fragmentation);
        assert!(!of(&all, RemedyId::ExpandableSegments).is_offered());
        assert!(!all.last().unwrap().is_offered());
    }

    #[test]
    fn torch_before_expandable_segments_gets_a_largest_split() {
        let context = Context {
            torch: Some("1.13.1+cu117"),
            ..Context::default()
        };
        let all = remedies(&command(), &context);
        assert!(!of(&all, RemedyId::ExpandableSegments).is_offered());
        let split = of(&all, RemedyId::MaxSplitSize);
        assert_eq!(split.changes, "max_split_size_mb:128");
    }
}
