//! Words about a run, for several parts of the screen.

use super::theme::Tone;
use crate::state::{DeviceState, Patching, RankState, Run, RunOutcome, State};

pub(super) fn patching_words(patching: Patching) -> (&'static str, Tone) {
    match patching {
        Patching::Asked => ("patches requested", Tone::Warning),
        Patching::Applied => ("patched at runtime", Tone::Warning),
        Patching::Declined => ("not patched", Tone::Warning),
    }
}

pub(super) fn outcome_words(run: &Run) -> (String, Tone) {
    let tone = match run.outcome() {
        RunOutcome::Finished if run.is_hidden_failure() => Tone::Wrong,
        RunOutcome::Running => Tone::Accent,
        RunOutcome::Finished => Tone::Good,
        RunOutcome::TrainedNothing | RunOutcome::OutOfMemory | RunOutcome::Failed(_) => Tone::Wrong,
        RunOutcome::Stopped => Tone::Dim,
    };
    (run.outcome_words(), tone)
}

/// The slowest rank's rate, at which a distributed training runs; after the run, the last one.
pub(super) fn steps_per_second(run: &Run) -> Option<f64> {
    run.ranks
        .iter()
        .filter(|rank| rank.disconnected.is_none() || run.ended.is_some())
        .filter_map(|rank| rank.steps.rate)
        .min_by(f64::total_cmp)
}

/// The ranks of a run that use a device.
pub(super) fn ranks_on<'a>(
    run: &'a Run,
    device: &'a DeviceState,
) -> impl Iterator<Item = &'a RankState> + use<'a> {
    run.ranks
        .iter()
        .filter(|rank| rank.device.as_ref() == Some(&device.uuid))
}

/// The process of a device that is shown where there is room for one: the one with the most reserved
/// on it.
pub(super) fn rank_on<'a>(state: &'a State, device: &'a DeviceState) -> Option<&'a RankState> {
    ranks_on(state.run()?, device)
        .max_by_key(|rank| rank.sample.as_ref().map(|(_, sample)| sample.reserved))
}

/// A process's name, if there are several.
pub(super) fn rank_name(run: &Run, rank: &RankState) -> Option<String> {
    match rank.hello.rank {
        Some(number) => Some(format!("rank {number}")),
        None if run.ranks.len() > 1 => Some(format!("process {}", rank.hello.pid)),
        None => None,
    }
}
