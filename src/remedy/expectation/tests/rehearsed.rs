//! What is said of remedies after a first step that could be rehearsed.

use super::*;
use crate::event::{InputSizes, Rehearsal, RehearsedVariant};

const MIB: u64 = 1 << 20;

/// A model of 1 GiB that keeps 256 MiB for each of 64 samples, or a quarter of it.
fn rehearsal() -> Rehearsal {
    let variant = |checkpointing, each: u64, flops| RehearsedVariant {
        checkpointing,
        trace: Some(format!("x{} {} -2", each * MIB, 1024 * MIB)),
        flops,
        ..RehearsedVariant::default()
    };
    Rehearsal {
        batch: 64,
        before: Bytes::gib(1),
        weights: vec![1024 * MIB],
        trained: vec![1024 * MIB],
        own_loss: true,
        variants: vec![variant(false, 256, 300), variant(true, 64, 400)],
        ..Rehearsal::default()
    }
}

fn rehearsed(said: Rehearsal) -> State {
    let mut state = state(0, 1, 20);
    state.runs[0].ranks[0].rehearsal = Some(said);
    state
}

#[test]
fn beside_checkpointing_stands_what_it_computes_again() {
    let state = rehearsed(rehearsal());
    let all = all(&state, &oom(20, 21, 2, 1), Cause::Capacity);
    let words = &of(&all, RemedyId::Recompute).expectation.words;
    assert!(
        words.ends_with("; rehearsed; computes 33 % more"),
        "{words}"
    );
}

#[test]
fn inputs_that_differ_are_said_and_a_smaller_batch_is_proposed() {
    let oom = oom(20, 21, 2, 1);
    let (alike, words) = chosen_under("python a.py --batch-size 64", &rehearsed(rehearsal()), &oom);
    assert!(words.ends_with("; rehearsed"), "{words}");
    let inputs = Some(InputSizes {
        calls: 3,
        least: 200,
        most: 480,
        possible: None,
    });
    let differ = rehearsed(Rehearsal {
        inputs,
        ..rehearsal()
    });
    let (smaller, words) = chosen_under("python a.py --batch-size 64", &differ, &oom);
    assert_eq!(
        (&*alike, &*smaller),
        ("--batch-size 64→40", "--batch-size 64→25")
    );
    let why = "rehearsed by the largest of 3 inputs seen; they differ in size";
    assert!(words.ends_with(why), "{words}");
}
