//! What is allocated, as one figure: a step allocates and frees several times a second, so a reading of any one moment could
//! neither be read nor compared with another. It is what was reached in the last seconds, and every part of the screen shows this one.

use super::high_samples::recent;
use super::{DeviceState, RankState, Series, State};
use crate::event::Sample;
use crate::units::{Bytes, Moment};

/// A look at the allocator hardly ever falls on the peak of a step, but from this share of PyTorch's own peak on it is taken for it.
const AT_THE_PEAK: f64 = 0.97;

impl DeviceState {
    /// What was reserved at most in the seconds before `at`, within one run: a program that gives its cache back after every step
    /// has little reserved at most moments, and as much at its peaks as they need.
    pub fn recently_reserved(&self, state: &State, at: Moment) -> Option<Bytes> {
        self.reserved.value_at(at)?;
        self.reserved.max_between(begin(state, at), at)
    }

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
    /// The sample of its last seconds with the most reserved, and of those the one with the most allocated: what is known of the
    /// allocator's pieces at the peak that stands beside them. Between two steps there are many free ones that the next step fills.
    pub fn sample_at_peak(&self) -> Option<&Sample> {
        let high = self.recent_samples.highest().or(self.sample.as_ref());
        high.map(|(_, sample)| sample)
    }

    /// What was cached then.
    pub fn cached_at_peak(&self, state: &State) -> Option<Bytes> {
        let allocated = self
            .current_peak(state)
            .or_else(|| before_end(self, state))?;
        Some(self.sample_at_peak()?.reserved - allocated)
    }

    /// What the process allocated at most in the seconds before now.
    pub fn current_peak(&self, state: &State) -> Option<Bytes> {
        current_peak(&self.allocated, Some(self), state, state.now)
    }
}

/// What a process allocated at most in the seconds before its last sample: of one that has ended nothing is known now.
pub(super) fn before_end(rank: &RankState, state: &State) -> Option<Bytes> {
    let (last, _) = rank.sample.as_ref()?;
    current_peak(&rank.allocated, Some(rank), state, *last)
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
    let recent = recent(at);
    let mut begun = state.runs.iter().rev().map(|run| run.started);
    let begun = begun.find(|begun| *begun <= at);
    begun.map_or(recent, |begun| begun.max(recent))
}

#[cfg(test)]
mod tests {
    use crate::event::{EventKind, Sample};
    use crate::state::tests::staged::{StagedSession, gib, sample, step};
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

    #[test]
    fn what_is_known_of_the_peak_is_of_one_moment() {
        let mut scene = StagedSession::training();
        let sampled =
            |scene: &mut StagedSession, at: f64, allocated: f64, reserved: f64, pieces: f64| {
                let inactive_split = Some(gib(pieces));
                scene.add(
                    at,
                    EventKind::Sample(Sample {
                        inactive_split,
                        ..sample(100, 0, gib(allocated), gib(reserved))
                    }),
                );
            };
        // A step, and what its end leaves: free pieces, and a cache that is given back.
        sampled(&mut scene, 1.0, 12.0, 12.5, 0.4);
        sampled(&mut scene, 1.1, 4.0, 12.5, 6.0);
        sampled(&mut scene, 1.2, 4.0, 5.0, 0.9);
        let state = &scene.state;
        let rank = &state.runs[0].ranks[0];
        let of_peak = rank
            .sample_at_peak()
            .and_then(|sample| sample.inactive_split);
        assert_eq!(of_peak, Some(gib(0.4)));
        assert_eq!(rank.cached_at_peak(state), Some(gib(0.5)));
        let parts = state.devices[0].breakdown_at_peak(state);
        assert_eq!(parts.cached, Some(gib(0.5)));
        // By then all that is past.
        sampled(&mut scene, 7.0, 4.0, 5.0, 0.9);
        let rank = &scene.state.runs[0].ranks[0];
        let of_peak = rank.sample_at_peak().map(|sample| sample.reserved);
        assert_eq!(of_peak, Some(gib(5.0)));
    }
}
