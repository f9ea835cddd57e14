//! Baselines that grow, and baselines that do not.

use crate::diagnosis::*;
use crate::state::tests::staged::*;
use crate::state::{RankState, State};

/// A run of steps with these baselines and peaks, in GiB.
fn stepping(of: impl Fn(u64) -> (f64, f64), steps: u64) -> State {
    let mut scene = StagedSession::training();
    scene.sampled(1.5, 1.0, 1.5);
    let mut highest = 0.0_f64;
    for n in 1..=steps {
        let (baseline, peak) = of(n);
        highest = highest.max(peak);
        scene.add(2.0 + n as f64, step(100, n, gib(baseline), gib(highest)));
    }
    scene.state
}

fn rank(state: &State) -> &RankState {
    &state.run().expect("a run").ranks[0]
}

fn climbs(of: impl Fn(u64) -> (f64, f64), steps: u64) -> Option<BaselineGrowth> {
    baseline_growth(&rank(&stepping(of, steps)).steps, Some(gib(24.0)))
}

#[test]
fn a_leak_of_half_a_percent_a_step_is_called_within_thirty() {
    let leak = |n: u64| {
        let baseline = 3.0 + 0.12 * n as f64;
        (baseline, baseline + 8.0)
    };
    let called = (1..=30).find(|steps| climbs(leak, *steps).is_some());
    assert_eq!(called, Some(23), "the first step at which it is called");
    let found = climbs(leak, 30).expect("a climb");
    assert!((found.per_step / gib(0.12).0 as f64 - 1.0).abs() < 0.01);
    assert_eq!(found.steps, 26);
    let scattered = |n: u64| {
        let baseline = 3.0 + 0.12 * n as f64 + ((n * 7919) % 13) as f64 * 0.03;
        (baseline, baseline + 8.0)
    };
    assert!(climbs(scattered, 30).is_some());
    // One that takes a tenth of the GPU is reported as soon as there are ten baselines.
    let fast = |n: u64| (3.0 + 0.4 * n as f64, 11.0 + 0.4 * n as f64);
    assert!(climbs(fast, 13).is_some());
    // One that grows with every tenth step.
    let in_bursts = |n: u64| {
        let baseline = 3.0 + 0.6 * (n / 10) as f64;
        (baseline, baseline + 8.0)
    };
    assert!(climbs(in_bursts, 200).is_some());
}

#[test]
fn steady_trainings_leak_nothing() {
    type TrainingCurve = &'static dyn Fn(u64) -> (f64, f64);
    /// Lengths of 64 to 511, in no order.
    fn length(n: u64) -> f64 {
        64.0 + ((n * 2_654_435_761) % 448) as f64
    }
    let steady: [(&str, TrainingCurve); 15] = [
        ("level", &|_| (3.0, 11.0)),
        ("the optimizer's state after the first step", &|n| {
            (if n < 2 { 1.0 } else { 3.0 }, 11.0)
        }),
        ("a warm-up that levels off", &|n| {
            let baseline = 3.0 + 2.0 * (1.0 - (-(n as f64) / 15.0).exp());
            (baseline, baseline + 8.0)
        }),
        ("workspaces over the first twenty steps", &|n| {
            (3.0 + 0.05 * n.min(20) as f64, 11.0)
        }),
        ("lengths that vary", &|n| {
            (3.0 + ((n * 7919) % 13) as f64 * 0.05, 11.0)
        }),
        ("the last outputs of batches that vary", &|n| {
            (3.0 + length(n) * 0.002, 3.0 + length(n) * 0.03)
        }),
        ("lengths in ascending order", &|n| {
            let length = 64.0 + 3.0 * n as f64;
            (3.0 + length * 0.002, 3.0 + length * 0.03)
        }),
        ("lengths in descending order", &|n| {
            let length = 500.0 - 3.0 * n as f64;
            (3.0 + length * 0.002, 3.0 + length * 0.03)
        }),
        ("a curriculum in four stages", &|n| {
            let length = 64.0 * (1 + n / 30) as f64;
            (3.0 + length * 0.002, 3.0 + length * 0.03)
        }),
        (
            "an evaluation every twenty steps, whose outputs stay for one",
            &|n| (if n % 20 == 0 { 4.5 } else { 3.0 }, 11.0),
        ),
        ("an evaluation's buffers, once, in the middle", &|n| {
            (if n < 60 { 3.0 } else { 4.0 }, 11.0)
        }),
        (
            "an exponential average of the weights from step 40 on",
            &|n| (if n < 40 { 3.0 } else { 3.6 }, 11.0),
        ),
        ("gradients kept and accumulated over four steps", &|n| {
            (if n % 4 == 0 { 3.0 } else { 3.5 }, 11.0)
        }),
        ("falling", &|n| (9.0 - 0.01 * n as f64, 17.0)),
        ("a trifle", &|n| (3.0 + 0.000_1 * n as f64, 11.0)),
    ];
    for (what, training) in steady {
        // At every step, not only at the end.
        for steps in 1..=140 {
            let state = stepping(training, steps);
            let found = baseline_growth(&rank(&state).steps, Some(gib(24.0)));
            assert_eq!(found, None, "{what}, {steps} steps");
            assert_eq!(
                leak_forecast(&state, &FittedGrowth::default()),
                None,
                "{what}, {steps} steps"
            );
        }
    }
    assert_eq!(climbs(|n| (3.0 + n as f64, 11.0), 12), None, "too few");
}
