//! Losses of a run's first steps: what shows whether a remedy has kept the training's numbers. And what it has promised
//! of them.

use crate::units::Pid;
use serde::{Deserialize, Serialize};

/// The losses that a process went backward from in its first steps, read by its probe.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Losses {
    pub pid: Pid,
    /// torch's seed in that process: without a fixed one, each run has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Those that were not told before, in order: the step, from 1, and the loss. A step with several backward passes has
    /// several; one that is no finite number is `None`.
    pub losses: Vec<StepLoss>,
}

pub type StepLoss = (u64, Option<f64>);

/// A loss that the program has printed for a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrintedLoss {
    /// As the program counts its steps, `12`, or says how far it is, `0.25` epochs.
    pub step: String,
    /// As it is printed.
    pub loss: String,
}

/// What a run's remedies do to the training's numbers, against the run before. The later in this list, the more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Numerics {
    Same,
    /// The same operations in another order.
    Rounding,
    /// The same samples, drawn or augmented by other random numbers.
    RandomNumbers,
    Precision,
    Optimizer,
    Batch,
    Samples,
    /// It goes on from a checkpoint.
    Resumed,
    /// The user has edited the command as well.
    Edited,
    /// A kind that this version does not know (from a later version's recording).
    #[serde(other)]
    Unknown,
}

impl Numerics {
    /// Whether losses of the same step can be compared.
    pub fn is_comparable(self) -> bool {
        matches!(self, Numerics::Same | Numerics::Rounding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;

    #[test]
    fn a_line_of_the_probes_is_read_with_what_is_no_number() {
        let line = r#"{"event": "losses", "pid": 5, "losses": [[1, 2.5], [1, null], [2, 0.1]], "seed": 18446744073709551615}"#;
        let EventKind::Losses(read) = serde_json::from_str(line).expect("a line") else {
            panic!("losses");
        };
        assert_eq!(read.losses, [(1, Some(2.5)), (1, None), (2, Some(0.1))]);
        assert_eq!(read.seed, Some(u64::MAX));
        let again = serde_json::to_string(&EventKind::Losses(read.clone())).expect("JSON");
        let again: EventKind = serde_json::from_str(&again).expect("the same");
        assert_eq!(again, EventKind::Losses(read));
    }

    #[test]
    fn what_a_later_version_says_of_the_numbers_is_not_compared() {
        let later: Numerics = serde_json::from_str("\"weights\"").expect("a kind");
        assert_eq!(later, Numerics::Unknown);
        assert!(!later.is_comparable());
    }
}
