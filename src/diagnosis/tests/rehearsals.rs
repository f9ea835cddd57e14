//! What a rehearsed step says about the cause.

use crate::diagnosis::*;
use crate::event::*;
use crate::state::tests::staged::*;
use crate::units::{Bytes, Pid};

/// A first forward pass that failed with fragmented memory on a GPU of 23.6 GiB; the whole step
/// keeps `each` for each of its 32 samples.
fn in_pieces(each: Bytes) -> StagedSession {
    let mut scene = StagedSession::training();
    scene.sampled(2.0, 1.0, 1.5);
    scene.add(3.0, EventKind::Device(reading(&[(100, gib(23.1))])));
    scene.add(
        20.0,
        EventKind::Oom(OomRecord {
            phase: Phase::Forward,
            largest_free: Some(Bytes::mib(1_900)),
            ..record(100, gib(17.0), gib(22.6), gib(2.5), gib(0.3))
        }),
    );
    let trace = format!("x{} {} -2", each.0, gib(0.5).0);
    scene.add(
        20.5,
        EventKind::Rehearsal(Box::new(Rehearsal {
            pid: Pid(100),
            batch: 32,
            before: gib(1.0),
            weights: vec![gib(0.5).0],
            trained: vec![gib(0.5).0],
            optimizer: Some(crate::event::OptimizerMemory::default()),
            variants: vec![RehearsedVariant {
                trace: Some(trace),
                ..RehearsedVariant::default()
            }],
            ..Rehearsal::default()
        })),
    );
    scene
}

#[test]
fn a_step_that_needs_far_more_than_there_is_is_the_cause_whatever_is_in_pieces() {
    let findings = diagnose(&in_pieces(gib(1.0)).state);
    let (first, second) = (&findings[0], &findings[1]);
    assert_eq!(
        (first.cause, first.certainty),
        (Cause::Capacity, Certainty::Certain)
    );
    assert_eq!(
        first.headline,
        "The whole step does not fit: 32.0 activations + 0.5 parameters + 0.5 gradients + 1.0 optimizer \
         state + 0.5 other = 34.5 > 22.9 GiB."
    );
    assert!(
        first
            .explanation
            .starts_with("It failed at 17.0 GiB allocated + 2.50 GiB requested.")
    );
    assert_eq!(
        (second.cause, second.certainty),
        (Cause::Fragmentation, Certainty::Likely)
    );
}

#[test]
fn a_step_that_would_fit_says_nothing_of_the_cause() {
    let findings = diagnose(&in_pieces(gib(0.6)).state);
    assert_eq!(findings[0].cause, Cause::Fragmentation);
}
