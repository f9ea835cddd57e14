//! Floors that climb, and floors that do not.

use crate::diagnosis::*;
use crate::state::scene::*;
use crate::units::Bytes;

#[test]
fn a_floor_climbs_or_does_not() {
    let card = Some(gib(24.0));
    let floors = |f: &dyn Fn(u64) -> f64, steps: u64| -> Vec<(u64, Bytes)> {
        (1..=steps).map(|n| (n, gib(f(n)))).collect()
    };
    // Half a percent of the card a step, called within 30 steps.
    let leak = floors(&|n| 3.0 + 0.12 * n as f64, 30);
    let found = climb(&leak, card).expect("a climb");
    assert!((found.per_step / gib(0.12).0 as f64 - 1.0).abs() < 0.01);
    assert_eq!(found.steps, 26);
    // One that comes with every tenth step.
    assert!(climb(&floors(&|n| 3.0 + 0.6 * (n / 10) as f64, 200), card).is_some());
    type Floor = &'static dyn Fn(u64) -> f64;
    let steady: [(&str, Floor); 7] = [
        ("level", &|_| 3.0),
        ("the optimizer's state after the first step", &|n| {
            if n < 2 { 1.0 } else { 3.0 }
        }),
        ("a warm-up that levels off", &|n| {
            3.0 + 2.0 * (1.0 - (-(n as f64) / 15.0).exp())
        }),
        ("lengths that vary", &|n| {
            3.0 + ((n * 7919) % 13) as f64 * 0.05
        }),
        ("falling", &|n| 9.0 - 0.01 * n as f64),
        ("one step up, as of a cache", &|n| {
            if n < 60 { 3.0 } else { 4.0 }
        }),
        ("a trifle", &|n| 3.0 + 0.000_1 * n as f64),
    ];
    for (what, floor) in steady {
        assert_eq!(climb(&floors(floor, 120), card), None, "{what}");
    }
    assert_eq!(
        climb(&floors(&|n| 3.0 + n as f64, 12), card),
        None,
        "too few"
    );
}
