//! What is said of a treatment of activations that was not rehearsed, by the step as it was.

use super::{MIB, said, target};
use crate::calibration::OFFLOADING_LEAVES;
use crate::forecast::rehearsed::Rehearsed;
use crate::forecast::{ActivationReduction, Target};
use crate::units::Bytes;

fn offloaded(batch: u64) -> Target {
    Target {
        treatment: ActivationReduction {
            offloaded: true,
            ..ActivationReduction::default()
        },
        ..target(batch)
    }
}

#[test]
fn a_share_of_the_activations_and_all_that_lies_beside_them_stay() {
    let step = Rehearsed::new(&said(), 16).expect("a rehearsal");
    assert!(!step.knows(&offloaded(100)));
    let peak = step
        .peak_by_step_as_it_was(&offloaded(100))
        .expect("a peak");
    // The weight, two states and the gradient; the arguments and what forward keeps.
    let (beside, activations) = (64 + 128 + 64, 100 + 800);
    let least = beside * MIB + ((activations * MIB) as f64 * OFFLOADING_LEAVES.0) as u64;
    assert_eq!(peak.low, Bytes(least));
    let as_it_was = step.peak(&target(100)).expect("a peak");
    assert!(
        peak.low < peak.likely && peak.likely < as_it_was.likely,
        "{peak:?}"
    );
}

/// Of a run that failed before its optimizer's first step, the state of that step counts.
#[test]
fn with_the_least_batch_it_is_no_less_than_the_optimizers_step() {
    let mut without = said();
    // One value of activations a sample, a millionth of the rest.
    without.variants[0].trace = Some(format!("x64 {} -2", 64 * MIB));
    without.arguments = Bytes(16);
    without.before = Bytes(64 * MIB + 16);
    let step = Rehearsed::new(&without, 16).expect("a rehearsal");
    let peak = step.peak_by_step_as_it_was(&offloaded(1)).expect("a peak");
    assert!(peak.low >= Bytes((64 + 128 + 64) * MIB), "{peak:?}");
}

#[test]
fn of_ranks_that_do_otherwise_nothing_is_said() {
    let step = Rehearsed::new(&said(), 16).expect("a rehearsal");
    let mut sharded = offloaded(16);
    sharded.treatment.ranks = Some(crate::event::RankChange::Offload);
    assert_eq!(step.peak_by_step_as_it_was(&sharded), None);
}
