//! How far the sizes of a training's inputs differ from step to step, and what that leaves open about another batch.
//!
//! Samples of one batch may be laid together: the nodes of several graphs, the words of several texts, without a dimension
//! that is the batch. What a step takes is then a sum, and the sum of fewer samples is further from its mean: half the
//! batch does not take half of the largest step.

use crate::event::{GivenSize, Knobs};
use crate::state::RankState;

/// The standard deviation of a step's activations, as a share of their mean, where too few steps were read. A choice, not
/// measured: samples whose sizes deviate by half of their mean come to 0.5 / √32 = 0.09 in batches of 32.
const ASSUMED: f64 = 0.1;
/// So many deviations above the mean the largest of a few thousand steps is (of a normal distribution 3.5 to 4).
const MOST: f64 = 4.0;
/// Fewer readings say nothing of their deviation.
const FEWEST: usize = 4;

/// How far a step's activations are from their mean, where the inputs' sizes differ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InputSpread {
    /// Their standard deviation, as a share of the mean.
    deviation: f64,
    /// Their mean, as a share of the most that was seen.
    mean: f64,
    /// Whether samples are laid together, so that fewer of them deviate further.
    is_sum: bool,
}

impl InputSpread {
    /// Of a process whose calls were told of; `None` where all had the same sizes, but for the rest of an epoch.
    pub(super) fn new(told: &Knobs, rank: Option<&RankState>, batch: u64) -> Option<InputSpread> {
        if !told.given.iter().any(|given| differs(given, batch)) {
            return None;
        }
        let has_batch = |given: &GivenSize| {
            let most = if given.most.is_empty() {
                &given.shape
            } else {
                &given.most
            };
            most.contains(&batch) || given.length == Some(batch)
        };
        let is_sum = batch > 1 && !told.given.iter().any(has_batch);
        let made = rank.map(activations).unwrap_or_default();
        let (deviation, mean) = of(&made).unwrap_or((ASSUMED, 1.0));
        Some(InputSpread {
            deviation,
            mean,
            is_sum,
        })
    }

    /// What the largest step of a batch that is `ratio` times the one that was seen may need, as a share of what the largest
    /// one seen needs in proportion.
    pub(super) fn at_most(&self, ratio: f64) -> f64 {
        let deviation = match self.is_sum {
            true => self.deviation / ratio.max(f64::MIN_POSITIVE).sqrt(),
            false => self.deviation,
        };
        let most = match self.is_sum {
            true => MOST,
            // Padded to the longest of the batch: most batches have a long one.
            false => 1.0,
        };
        (self.mean * (1.0 + most * deviation)).max(1.0)
    }
}

/// Whether a tensor's sizes differed between the calls: not where only the batch did, at the end of an epoch.
fn differs(given: &GivenSize, batch: u64) -> bool {
    let is_rest = |at: &usize| given.most.get(*at) == Some(&batch) && batch > 1;
    given.varies.iter().any(|at| !is_rest(at))
}

/// What the steps that were read had made where their backward began.
fn activations(rank: &RankState) -> Vec<f64> {
    let mut read: Vec<(u64, f64)> = (rank.steps.marks.ended.iter())
        .filter_map(|mark| mark.backward)
        .map(|read| (read.step, (read.allocated - read.before).0 as f64))
        .collect();
    read.dedup_by_key(|(step, _)| *step);
    read.into_iter().map(|(_, made)| made).collect()
}

/// Their deviation as a share of their mean, and the mean as a share of the largest.
fn of(made: &[f64]) -> Option<(f64, f64)> {
    let most = made.iter().copied().fold(0.0, f64::max);
    if made.len() < FEWEST || most <= 0.0 {
        return None;
    }
    let count = made.len() as f64;
    let mean = made.iter().sum::<f64>() / count;
    let variance = made.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some((variance.sqrt() / mean, mean / most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(most: &[u64], least: &[u64]) -> GivenSize {
        let varies = (0..most.len()).filter(|at| most[*at] != least[*at]);
        GivenSize {
            shape: most.to_vec(),
            varies: varies.collect(),
            least: least.to_vec(),
            most: most.to_vec(),
            ..GivenSize::default()
        }
    }

    fn spread(given: &[GivenSize]) -> Option<InputSpread> {
        let told = Knobs {
            given: given.to_vec(),
            ..Knobs::default()
        };
        InputSpread::new(&told, None, 32)
    }

    #[test]
    fn a_batch_that_ends_an_epoch_is_no_other_size() {
        assert_eq!(spread(&[given(&[32, 3, 8, 8], &[7, 3, 8, 8])]), None);
        assert_eq!(spread(&[given(&[32, 128], &[32, 128])]), None);
        assert!(spread(&[given(&[32, 128], &[32, 90])]).is_some());
    }

    /// Graphs of some 25 nodes laid together, 32 at a time: the largest of many steps of 16 has more than half of what the
    /// first steps of 32 had.
    #[test]
    fn half_of_what_is_laid_together_may_take_more_than_half() {
        let graphs = spread(&[given(&[840, 9], &[760, 9]), given(&[2, 1700], &[2, 1500])]).unwrap();
        assert!(graphs.is_sum);
        assert!((1.2..1.8).contains(&graphs.at_most(0.5)));
        assert!(graphs.at_most(0.125) > graphs.at_most(0.5));
        let texts = spread(&[given(&[32, 128], &[32, 90])]).unwrap();
        assert!(!texts.is_sum);
        assert!(texts.at_most(0.5) < 1.2);
    }

    #[test]
    fn steps_that_were_read_say_how_far_they_differ() {
        let (deviation, mean) = of(&[58.0, 51.0, 31.0, 86.0, 61.0, 71.0, 45.0]).unwrap();
        assert!((0.30..0.33).contains(&deviation), "{deviation}");
        assert!((0.66..0.68).contains(&mean), "{mean}");
        assert_eq!(of(&[58.0, 51.0]), None);
    }
}
