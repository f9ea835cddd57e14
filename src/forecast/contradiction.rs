//! Runs that contradict each other: one was seen whole at a batch, another wanted more at the same batch than
//! that lets expect. Then their inputs were of other sizes (longer texts, larger images), and what one
//! showed says nothing of the other: the later one counts.

use super::observation::{ForwardBackwardPeak, Observation};
use crate::units::Bytes;

/// A failed run may want so much more than a whole one lets expect: steps differ from each other (random
/// lengths: 3 % in the mean), and a line through one run is 1–2 % off for each doubling of the batch.
const VARIED: f64 = 0.06;
const EACH_DOUBLING: f64 = 0.02;

/// Those of these observations, the earliest first, that no later one contradicts.
pub(super) fn consistent(observations: Vec<Observation>) -> Vec<Observation> {
    let mut kept: Vec<Observation> = Vec::with_capacity(observations.len());
    for seen in observations.into_iter().rev() {
        if kept.iter().all(|later| !contradict(later, &seen)) {
            kept.push(seen);
        }
    }
    kept.reverse();
    kept
}

fn contradict(one: &Observation, other: &Observation) -> bool {
    let wanted = |seen: &Observation| match seen.passes {
        ForwardBackwardPeak::AtLeast(peak, _) => Some(peak),
        ForwardBackwardPeak::Seen(_) | ForwardBackwardPeak::Within(..) => None,
    };
    match (wanted(one), wanted(other)) {
        (Some(wanted), None) => wanted > most_at(other, one.batch),
        (None, Some(wanted)) => wanted > most_at(one, other.batch),
        (Some(_), Some(_)) | (None, None) => false,
    }
}

/// What a run that was seen whole lets expect at the most of another batch.
fn most_at(whole: &Observation, batch: u64) -> Bytes {
    let (ForwardBackwardPeak::Seen(peak)
    | ForwardBackwardPeak::Within(_, peak)
    | ForwardBackwardPeak::AtLeast(peak, _)) = whole.passes;
    let ratio = batch as f64 / whole.batch.max(1) as f64;
    // The less there is without any sample, the more grows with the batch.
    let base = match ratio > 1.0 {
        true => whole.base.low,
        false => whole.base.high,
    };
    let base = base.min(peak);
    let passes = base + (peak - base).scale(ratio);
    let share = VARIED + EACH_DOUBLING * ratio.log2().abs();
    passes.max(whole.optimizer.high).scale(1.0 + share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::{Estimate, SeenIn, Unseen};

    fn seen(batch: u64, passes: ForwardBackwardPeak) -> Observation {
        Observation {
            seen_in: SeenIn::default(),
            batch,
            base: Estimate::exact(Bytes::gib(1)),
            gradients: None,
            parameters: None,
            keeps_gradients: false,
            passes,
            optimizer: Estimate::exact(Bytes::gib(2)),
            steps: 30,
            varies: false,
            spread: None,
            overhead: None,
            pieces: None,
            partial_step: None,
            left_over: None,
            in_small_holes: false,
        }
    }

    fn whole(batch: u64, gib: u64) -> Observation {
        seen(batch, ForwardBackwardPeak::Seen(Bytes::gib(gib)))
    }

    fn failed(batch: u64, gib: u64) -> Observation {
        let wanted = ForwardBackwardPeak::AtLeast(Bytes::gib(gib), Unseen::NoStep);
        seen(batch, wanted)
    }

    #[test]
    fn of_two_that_contradict_each_other_the_later_one_counts() {
        let long = failed(64, 24);
        let all = vec![whole(16, 3), whole(188, 22), long.clone()];
        assert_eq!(consistent(all), std::slice::from_ref(&long));
        let short = whole(16, 3);
        assert_eq!(consistent(vec![long, short.clone()]), [short]);
    }

    #[test]
    fn what_agrees_is_kept() {
        // 1 GiB and half a GiB a sample; the failed ones got no further than their forward.
        let all = vec![whole(16, 9), failed(64, 24), whole(32, 17), failed(48, 25)];
        assert_eq!(consistent(all.clone()), all);
    }

    #[test]
    fn what_only_the_optimizer_needs_is_no_contradiction() {
        let first = Observation {
            optimizer: Estimate::exact(Bytes::gib(20)),
            ..whole(1, 2)
        };
        let all = vec![first, failed(2, 21)];
        assert_eq!(consistent(all.clone()), all);
    }
}
