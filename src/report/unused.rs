//! What a run that has ended left of its GPU unused, and how far the batch could have gone.

use crate::diagnosis;
use crate::forecast::{BatchRoom, NoRoom, RoomBasis};
use crate::state::{Run, State};
use crate::units::Bytes;

/// "8.5 GiB unused: a batch of 48 would fit (32 ran). By the allocations of step 3; oomph fit measures it", of a last run that
/// went well.
pub fn unused(state: &State, room: BatchRoom) -> Option<String> {
    let run = state.run().filter(|run| run.went_well())?;
    let unused = unused_bytes(state)?;
    let batch = larger_batch(state, room)?;
    // Other sessions of this program may name other batches: why this one is no other.
    let why = match room.basis {
        RoomBasis::Step(traced) => {
            let of_few = match room.is_shown_by(run.steps()) {
                true => String::new(),
                false => format!(", of {} that ran", run.steps()),
            };
            format!("By the allocations of step {}{of_few}", traced.step)
        }
        RoomBasis::Peaks => {
            "Estimated from the steps' peaks, since no traced step shows what the run needed".into()
        }
    };
    let alone = match room.is_alone {
        true => ", without what other processes hold (no NVML)",
        false => "",
    };
    Some(format!(
        "{unused} unused: {batch}. {why}{alone}; oomph fit measures it"
    ))
}

/// "a batch of 48 would fit (32 ran)", for a list and a recording.
pub fn larger_batch(state: &State, room: BatchRoom) -> Option<String> {
    let run = state.run().filter(|run| run.went_well())?;
    let fits = match room.is_shown_by(run.steps()) {
        true => "would fit",
        false => "may fit",
    };
    let (could, now) = (room.batch_words(), room.now_words());
    Some(format!("a batch of {could} {fits} ({now} ran)"))
}

/// The same for a report: also without a larger batch what was unused and why none is named, of any last run that ended without an
/// OOM.
pub fn unused_in_report(state: &State, room: Result<BatchRoom, NoRoom>) -> Option<String> {
    let run = state.run().filter(|run| run.oom_count == 0)?;
    let with_batch = room.ok().and_then(|room| unused(state, room));
    let words = with_batch.map(|words| format!("{words}."));
    let words = words.or_else(|| {
        let unused = unused_bytes(state)?;
        let of = match limit_of(state, run) {
            Some(limit) => format!("the limit of {limit}"),
            None => super::story::capacity_of(state, run)?.to_string(),
        };
        let why = room.err().and_then(NoRoom::sentence);
        let why = why.map_or(String::new(), |why| format!(" {why}"));
        Some(format!("{unused} of {of} unused.{why}"))
    });
    Some(match used(state, run) {
        Some(sum) => format!("{} {sum}", words?),
        None => words?,
    })
}

/// "12.7 allocated at the peak + 3.2 cached + 0.6 outside PyTorch + 62.7 unused = 79.2 GiB.", of a run with one process on a GPU
/// whose capacity is the bound.
fn used(state: &State, run: &Run) -> Option<String> {
    let mut ranks = run.ranks.iter();
    let rank = ranks.next().filter(|_| ranks.next().is_none())?;
    let device = state.device(rank.device.as_ref()?)?;
    let (capacity, unused) = (device.capacity?, device.unused_in(run)?);
    let (allocated, reserved) = (rank.allocated_peak, rank.reserved_peak);
    let outside = capacity - unused - reserved;
    if device.limit.is_some() || allocated == Bytes::ZERO || unused + reserved > capacity {
        return None;
    }
    let parts = [
        (allocated, "allocated at the peak"),
        (reserved - allocated, "cached"),
        (outside, "outside PyTorch"),
        (unused, "unused"),
    ];
    Some(format!("{}.", diagnosis::sum(&parts, capacity)))
}

/// What the program lets PyTorch reserve on a device of the run's, where that is less than the device has.
fn limit_of(state: &State, run: &Run) -> Option<Bytes> {
    let devices = run.ranks.iter().filter_map(|rank| rank.device.as_ref());
    let limits = devices.filter_map(|uuid| state.device(uuid)?.limit);
    limits.min()
}

/// Of the device that had the least of it.
fn unused_bytes(state: &State) -> Option<Bytes> {
    let run = state.run()?;
    let devices = run.ranks.iter().filter_map(|rank| rank.device.as_ref());
    devices
        .filter_map(|uuid| state.device(uuid)?.unused_in(run))
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Exit, Exited, Sample};
    use crate::forecast::{ForecastInputs, TracedRoom, room_after_end};
    use crate::recognize::LaunchEnvironment;
    use crate::state::RunOutcome;
    use crate::state::tests::staged::{StagedSession, gib, reading, sample};
    use crate::units::RunNumber;

    fn recorded(name: &str) -> State {
        let mut state = State::default();
        for event in crate::report::recorded(name) {
            state.apply(&event);
        }
        state
    }

    fn room(state: &State) -> Result<BatchRoom, NoRoom> {
        let command = &state.run().expect("a run").command;
        let (launch, inputs) = (LaunchEnvironment::default(), ForecastInputs::default());
        room_after_end(command, state, &launch, &inputs)
    }

    #[test]
    fn a_real_run_that_left_most_of_its_gpu_says_how_far_the_batch_could_go() {
        let found = room(&recorded("lora")).expect("room on 139.8 GiB for what peaked at 6.6");
        assert_eq!((found.now, found.is_alone), (16, false));
        assert!((256..=512).contains(&found.could), "{found:?}");
        assert!(matches!(found.basis, RoomBasis::Step(_)), "{found:?}");
    }

    #[test]
    fn a_run_that_oomph_ended_itself_went_well() {
        let state = recorded("decoder");
        let outcome = state.run().expect("a run").outcome();
        assert!(matches!(outcome, RunOutcome::Failed(_)), "{outcome:?}");
        let found = room(&state).expect("room on 79 GiB for what peaked at 9");
        assert_eq!((found.now, found.is_alone), (16, true));
        assert!((64..=160).contains(&found.could), "{found:?}");
    }

    #[test]
    fn nothing_is_said_of_larger_batches_where_memory_ran_out_or_the_replay_is_not_believed() {
        assert_eq!(room(&recorded("capacity")), Err(NoRoom::Unseen));
        // Its inputs differ from step to step, and six steps do not say how much.
        let why = |name| {
            let state = recorded(name);
            unused_in_report(&state, room(&state)).expect("words")
        };
        assert_eq!(
            why("encoder-lengths"),
            "62.7 GiB of 79.2 GiB unused. No larger batch is named: its steps need different amounts, and 6 of them do not show the largest. 12.7 allocated at the peak + 3.2 cached + 0.6 outside PyTorch + 62.7 unused = 79.2 GiB."
        );
        assert_eq!(
            why("two-ranks"),
            "137.2 GiB of 139.8 GiB unused. No larger batch is named: its 2 processes share the GPU."
        );
    }

    #[test]
    fn below_a_limit_what_pytorch_reserves_is_counted_not_what_others_hold() {
        let mut scene = StagedSession::training();
        let reserves = sample(100, 0, gib(3.0), gib(3.5));
        let limit = Some(gib(4.0));
        scene.add(2.0, EventKind::Sample(Sample { limit, ..reserves }));
        scene.add(
            3.0,
            EventKind::Device(reading(&[(100, gib(4.0)), (7, gib(11.0))])),
        );
        scene.state.runs[0].ranks[0].steps.count = 40;
        let left = Vec::new();
        let (run, exit) = (RunNumber(1), Exit::Code(0));
        scene.add(20.0, EventKind::Exited(Exited { run, exit, left }));
        let said = unused_in_report(&scene.state, Err(NoRoom::Unseen)).expect("words");
        assert!(
            said.starts_with("512 MiB of the limit of 4.00 GiB unused."),
            "{said}"
        );
    }

    #[test]
    fn what_a_larger_batch_could_have_used_is_told_of_a_run_that_went_well() {
        let mut scene = StagedSession::training();
        scene.sampled(2.0, 12.0, 13.0);
        scene.state.runs[0].ranks[0].steps.count = 40;
        let room = |basis| BatchRoom {
            now: 32,
            could: 48,
            basis,
            is_alone: false,
            parts: 1,
        };
        let step = RoomBasis::Step(TracedRoom {
            batch: 48,
            step: 7,
            as_large_as: None,
            inputs: None,
        });
        assert_eq!(unused(&scene.state, room(step)), None, "it still runs");
        let end = |code| {
            EventKind::Exited(Exited {
                run: RunNumber(1),
                exit: Exit::Code(code),
                left: Vec::new(),
            })
        };
        let mut failed = scene.state.clone();
        failed.apply(&crate::event::Event {
            at: crate::units::Moment::from_secs_f64(20.0),
            what: end(1),
        });
        assert_eq!(unused(&failed, room(step)), None);
        scene.add(20.0, end(0));
        let said = |basis| unused(&scene.state, room(basis)).expect("words");
        assert_eq!(
            said(step),
            "9.98 GiB unused: a batch of 48 would fit (32 ran). By the allocations of step 7; oomph fit measures it"
        );
        assert_eq!(
            larger_batch(&scene.state, room(step)).as_deref(),
            Some("a batch of 48 would fit (32 ran)")
        );
        assert_eq!(
            said(RoomBasis::Peaks),
            "9.98 GiB unused: a batch of 48 may fit (32 ran). Estimated from the steps' peaks, since no traced step shows what the run needed; oomph fit measures it"
        );
        let accumulated = BatchRoom {
            parts: 2,
            is_alone: true,
            ..room(step)
        };
        assert_eq!(
            unused(&scene.state, accumulated).expect("words"),
            "9.98 GiB unused: a batch of 48 × 2 = 96 would fit (32 × 2 = 64 ran). By the allocations of step 7, without what other processes hold (no NVML); oomph fit measures it"
        );
    }

    #[test]
    fn a_report_says_what_was_unused_also_where_no_batch_is_known() {
        let mut scene = StagedSession::training();
        scene.sampled(2.0, 12.0, 13.0);
        scene.add(
            20.0,
            EventKind::Exited(Exited {
                run: RunNumber(1),
                exit: Exit::Code(1),
                left: Vec::new(),
            }),
        );
        assert_eq!(
            unused_in_report(&scene.state, Err(NoRoom::Unseen)).as_deref(),
            Some(
                "9.98 GiB of 23.6 GiB unused. 12.0 allocated at the peak + 1.0 cached + 0.6 outside PyTorch + 10.0 unused = 23.6 GiB."
            )
        );
    }

    #[test]
    fn by_a_few_steps_another_batch_only_may_fit() {
        let state = recorded("vit");
        let room = BatchRoom {
            now: 16,
            could: 512,
            basis: RoomBasis::Step(TracedRoom {
                batch: 512,
                step: 3,
                as_large_as: None,
                inputs: None,
            }),
            is_alone: false,
            parts: 1,
        };
        let said = unused_in_report(&state, Ok(room)).expect("words");
        assert!(
            said.contains("a batch of 512 may fit (16 ran). By the allocations of step 3, of 12 that ran; oomph fit measures it. "),
            "{said}"
        );
    }
}
