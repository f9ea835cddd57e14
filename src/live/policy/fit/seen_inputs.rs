//! The sizes of what the model was given in a run's steps: the largest, and by how much a later one may be larger.

use crate::event::{GivenSize, InputSizes};
use crate::forecast::RANGES_BEYOND;

/// What one run's steps were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenInputs {
    /// The largest tensor, each dimension at its most.
    pub largest: Vec<u64>,
    /// The same with each dimension at its least, where it differed: but for the batch, whose last one of an epoch
    /// may be smaller.
    pub smallest: Option<Vec<u64>>,
    /// The steps that were seen.
    steps: u64,
}

impl SeenInputs {
    /// `batch` is the run's value; `None` where no tensor was seen.
    pub(crate) fn new(given: &[GivenSize], batch: u64, steps: u64) -> Option<SeenInputs> {
        let most = |one: &GivenSize| match one.most.is_empty() {
            true => one.shape.clone(),
            false => one.most.clone(),
        };
        let tensors = given.iter().filter(|one| !one.shape.is_empty());
        let one = tensors.max_by_key(|one| elements(&most(one)))?;
        let largest = most(one);
        let smallest: Vec<u64> = one
            .least
            .iter()
            .zip(&largest)
            .map(|(least, most)| if *most == batch { *most } else { *least })
            .collect();
        Some(SeenInputs {
            smallest: (!smallest.is_empty() && smallest != largest).then_some(smallest),
            largest,
            steps,
        })
    }

    /// The elements of the largest, for each of so many samples.
    pub(crate) fn for_each(&self, batch: u64) -> f64 {
        elements(&self.largest) as f64 / batch.max(1) as f64
    }

    /// By what share a later step's input may be larger.
    pub(crate) fn beyond(&self) -> f64 {
        let Some(smallest) = &self.smallest else {
            return 0.0;
        };
        let sizes = InputSizes {
            calls: self.steps,
            least: elements(smallest),
            most: elements(&self.largest),
            possible: None,
        };
        sizes.beyond(RANGES_BEYOND)
    }
}

fn elements(shape: &[u64]) -> u64 {
    shape.iter().product()
}

/// `64×1024`.
pub(crate) fn shape(sizes: &[u64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    sizes.join("×")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(shape: &[u64], least: &[u64], most: &[u64]) -> GivenSize {
        GivenSize {
            shape: shape.to_vec(),
            least: least.to_vec(),
            most: most.to_vec(),
            ..GivenSize::default()
        }
    }

    #[test]
    fn inputs_that_vary_may_be_larger_later() {
        let labels = seen(&[8], &[], &[]);
        let texts = seen(&[8, 300], &[8, 200], &[8, 800]);
        let seen = SeenInputs::new(&[labels, texts], 8, 7).expect("tensors");
        assert_eq!(
            (shape(&seen.largest), seen.smallest.clone()),
            ("8×800".into(), Some(vec![8, 200]))
        );
        // Half of the range, which is three quarters of the largest.
        assert!((seen.beyond() - 0.375).abs() < 1e-9);
    }

    #[test]
    fn a_smaller_last_batch_is_no_larger_input() {
        let seen =
            SeenInputs::new(&[seen(&[3, 512], &[3, 512], &[8, 512])], 8, 7).expect("a tensor");
        assert_eq!((seen.largest.clone(), seen.beyond()), (vec![8, 512], 0.0));
    }
}
