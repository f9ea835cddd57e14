//! Rehearsed steps of real trainings (`rehearsals.jsonl`: torch 2.11 on an H100 and an H200) held against the
//! largest batch of each that ran under a cap, found by bisection.

use oomph::event::Rehearsal;
use oomph::forecast::{ActivationReduction, Allocator, Rehearsed, Target};
use oomph::units::Bytes;
use serde::Deserialize;

/// A line of the file.
#[derive(Deserialize)]
struct RealLimits {
    name: String,
    /// GiB that PyTorch could reserve, and the largest batch that ran.
    limits: Vec<(f64, u64)>,
    rehearsal: Rehearsal,
}

#[test]
fn a_replay_knows_the_largest_batch_that_runs_under_a_cap() {
    for line in include_str!("rehearsals.jsonl").lines() {
        let real: RealLimits = serde_json::from_str(line).expect("a line of the file");
        let batch = real.rehearsal.batch;
        let rehearsed = Rehearsed::new(&real.rehearsal, batch).expect("it was rehearsed");
        for (cap, largest) in real.limits {
            let room = Bytes((cap * f64::from(1 << 30)) as u64);
            let runs = |batch| {
                let target = Target {
                    batch,
                    keeps_gradients: false,
                    treatment: ActivationReduction::default(),
                    allocator: Allocator::Fixed,
                };
                rehearsed.runs_in(&target, room) == Some(true)
            };
            // What is needed is not quite monotonous in the batch: the next may fit where this one did not.
            let found = (1..2 * largest).rev().find(|batch| runs(*batch));
            let share = found.unwrap_or(0) as f64 / largest as f64;
            // Workspaces are not in it, which of convolutions are large: 50 was found and 48 ran.
            let near = match rehearsed.has_convolutions() {
                true => 0.975..1.05,
                false => 0.98..1.03,
            };
            assert!(
                near.contains(&share),
                "{}, {cap} GiB: {found:?} of {largest}",
                real.name
            );
        }
    }
}
