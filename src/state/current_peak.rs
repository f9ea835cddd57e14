//! What is allocated, as one figure: a step allocates and frees several times a second, so a reading of any one moment could
//! neither be read nor compared with another. It is what was reached in the last seconds, and every part of the screen shows this one.

use super::{DeviceState, RankState, Series, State};
use crate::units::{Bytes, Moment};
use std::time::Duration;

/// How long a peak counts as current.
const RECENT: Duration = Duration::from_secs(5);

/// A look at the allocator hardly ever falls on the peak of a step, but from this share of PyTorch's own peak on it is taken for it.
const AT_THE_PEAK: f64 = 0.97;

impl DeviceState {
    /// What was allocated at most in the seconds before `at`, within one run.
    pub fn current_peak(&self, state: &State, at: Moment) -> Option<Bytes> {
        let run = state.run();
        let here = |rank: &&RankState| rank.device.as_ref() == Some(&self.uuid);
        let mut ranks = run.into_iter().flat_map(|run| &run.ranks).filter(here);
        // What several processes reached was not reached at the same time.
        let alone = ranks.next().filter(|_| ranks.next().is_none());
        current_peak(&self.allocated, alone, state, at)
    }
}

impl RankState {
    /// What the process allocated at most in the seconds before now.
    pub fn current_peak(&self, state: &State) -> Option<Bytes> {
        current_peak(&self.allocated, Some(self), state, state.now)
    }
}

fn current_peak(
    series: &Series,
    rank: Option<&RankState>,
    state: &State,
    at: Moment,
) -> Option<Bytes> {
    series.value_at(at)?;
    let from = begin(state, at);
    let looked_at = series.max_between(from, at)?;
    let marks = rank.iter().flat_map(|rank| &rank.steps.marks.ended).rev();
    let marks = marks.filter(|mark| mark.at <= at);
    let ended = marks.take_while(|mark| mark.at >= from);
    let seen = ended.map(|mark| mark.top().0).fold(looked_at, Bytes::max);
    let of_run = rank.map(|rank| rank.allocated_peak);
    let of_run = of_run.filter(|peak| at >= state.now && seen >= peak.scale(AT_THE_PEAK));
    Some(of_run.map_or(seen, |peak| peak.max(seen)))
}

/// From when on a peak counts as current at `at`, the run before left out.
fn begin(state: &State, at: Moment) -> Moment {
    let recent = Moment(at.0.saturating_sub(RECENT.as_micros() as u64));
    let mut begun = state.runs.iter().rev().map(|run| run.started);
    let begun = begun.find(|begun| *begun <= at);
    begun.map_or(recent, |begun| begun.max(recent))
}

#[cfg(test)]
mod tests {
    use crate::state::tests::staged::{StagedSession, gib, step};
    use crate::units::Bytes;

    #[test]
    fn looks_beside_the_peak_of_a_step_do_not_change_it() {
        let mut scene = StagedSession::training();
        let mut figures = Vec::new();
        for n in 1..=40_u32 {
            let at = 2.0 + f64::from(n) * 0.5;
            scene.add(at, step(100, u64::from(n), gib(4.0), gib(20.0)));
            scene.sampled(at + 0.2, 19.5 + f64::from(n % 5) * 0.1, 21.0);
            let state = &scene.state;
            let of_device = state.devices[0].current_peak(state, state.now);
            let of_rank = state.runs[0].ranks[0].current_peak(state);
            assert_eq!(of_device, of_rank);
            figures.extend(of_device);
        }
        assert!(
            figures.iter().all(|figure| *figure == gib(20.0)),
            "{figures:?}"
        );
        // What is far below the peak is something else: an evaluation.
        for n in 0..20_u32 {
            scene.sampled(30.0 + f64::from(n) * 0.5, 6.0, 21.0);
        }
        let state = &scene.state;
        let later = state.devices[0].current_peak(state, state.now);
        assert_eq!(later, Some(Bytes::gib(6)));
    }
}
