//! What the runs that ran out of memory say: the batches that did not fit, what each process could have had, and the step that
//! failed.

use super::RemedyInputs;
use crate::event::{OomRecord, Phase};
use crate::forecast::{Allocator, RecordedStep, Rehearsed};
use crate::recognize::WorkloadKey;
use crate::state::{OomIncident, RankState, Run, RunOutcome};
use crate::units::{Bytes, RunNumber};

/// A batch that ran out of memory, as the command counts it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailedBatch {
    pub batch: u64,
    pub run: RunNumber,
    pub allocator: Allocator,
}

/// Fixed or expandable segments, as the process had them.
pub(super) fn allocator_of(rank: Option<&RankState>) -> Allocator {
    match rank.and_then(|rank| rank.hello.expandable_segments) {
        Some(true) => Allocator::Expandable,
        Some(false) | None => Allocator::Fixed,
    }
}

/// What a step of the optimizer needs beside what a batch or a precision changes.
pub(super) fn optimizer_alone(record: &OomRecord) -> Option<Bytes> {
    match record.phase {
        Phase::Load | Phase::Forward | Phase::Backward | Phase::Optimizer => {
            Some(RecordedStep::new(record)?.as_it_is.alone())
        }
        Phase::Evaluation | Phase::Unknown => None,
    }
}

/// A run that had less memory than the next will have says nothing of it.
const LESS_ROOM: f64 = 0.98;

/// The batches that runs like this one ran out of memory with in a step, and the least that each would have needed: all that it
/// could have had, or what it had allocated and the one tensor more, which may be larger than all that was left.
pub(super) fn failures(
    inputs: &RemedyInputs<'_>,
    reading: &WorkloadKey,
    room: Option<Bytes>,
) -> Vec<(FailedBatch, Bytes)> {
    let runs = inputs.forecast.state.map_or(&[][..], |state| &state.runs);
    let failed = runs
        .iter()
        .filter(|run| run.outcome() == RunOutcome::OutOfMemory);
    let of_run = |run: &Run| {
        let oom = run.oom()?;
        let in_a_step = match oom.record.as_ref()?.phase {
            Phase::Forward | Phase::Backward | Phase::Optimizer => true,
            Phase::Load | Phase::Evaluation | Phase::Unknown => false,
        };
        let (had, room) = (room_at(oom)?, room?);
        let own = WorkloadKey::new(&run.command, &inputs.launch);
        let is_alike = own.likeness == reading.likeness && own.batch.is_some();
        let failed = FailedBatch {
            batch: own.at_once,
            run: run.number,
            allocator: allocator_of(run.rank_of(oom)),
        };
        let wanted = oom.allocated()? + oom.requested()?;
        (in_a_step && is_alike && had >= room.scale(LESS_ROOM)).then_some((failed, had.max(wanted)))
    };
    failed.filter_map(of_run).collect()
}

/// The rehearsal of the step that failed, with the allocator settings of its run.
pub(super) fn rehearsed(rank: &RankState, reading: &WorkloadKey) -> Option<Rehearsed> {
    let rehearsed =
        Rehearsed::new(rank.rehearsal.as_ref()?, reading.at_once)?.traced(rank.traces.failed());
    Some(match &rank.hello.alloc_conf {
        Some(conf) => rehearsed.under(conf),
        None => rehearsed,
    })
}

/// Memory that the process could have had when it ran out.
pub(super) fn room_at(oom: &OomIncident) -> Option<Bytes> {
    let room = oom.reserved()? + oom.free()?;
    Some(oom.limit().map_or(room, |limit| room.min(limit)))
}

pub(super) fn rank_of<'a>(inputs: &RemedyInputs<'a>, oom: &OomIncident) -> Option<&'a RankState> {
    let run = inputs.forecast.state?.run()?;
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
