//! CUDA graphs' private pools, each by its name where there are several.

use super::trainings::{call, failing};
use crate::diagnosis::*;
use crate::event::*;
use crate::oom::OomReport;
use crate::state::tests::staged::*;
use crate::units::Bytes;

fn pool(pool: [u64; 2], reserved: f64, line: Option<SourceLine>) -> PrivatePool {
    PrivatePool {
        pool,
        reserved: gib(reserved),
        allocated: gib(reserved),
        line,
    }
}

/// What is said where graphs keep so many pools.
fn said(private_pools: Vec<PrivatePool>) -> String {
    let all: Bytes = private_pools.iter().map(|pool| pool.reserved).sum();
    let mut scene = failing(OomRecord {
        phase: Phase::Forward,
        private_pools,
        ..record(100, gib(22.2), gib(22.5), gib(1.2), gib(0.2))
    });
    let text = OomReport {
        requested: Some(gib(1.2)),
        private_pools: Some(all),
        ..OomReport::default()
    };
    scene.add(20.1, EventKind::OomText(text));
    let findings = diagnose(&scene.state);
    assert_eq!(findings[0].cause, Cause::Compilation);
    format!("{:?}", findings[0])
}

#[test]
fn several_pools_are_told_apart_by_their_ids_and_lines() {
    let one = said(vec![pool(
        [1, 0],
        9.0,
        Some(call("/srv/graphs.py", "warm_up")),
    )]);
    assert!(
        one.contains("9.00 GiB is in private pools (CUDA graphs)."),
        "{one}"
    );
    let several = said(vec![
        pool([1, 0], 6.0, Some(call("/srv/graphs.py", "warm_up"))),
        pool([0, 2], 3.0, None),
    ]);
    let words = "9.00 GiB is in private pools (CUDA graphs): 6.00 GiB of pool 1:0 (graphs.py:7), 3.00 GiB of pool 0:2.";
    assert!(several.contains(words), "{several}");
    let many = said((1..=6).map(|id| pool([id, 0], 2.0, None)).collect());
    assert!(
        many.contains("2.00 GiB of pool 4:0, 4.00 GiB of 2 more."),
        "{many}"
    );
}
