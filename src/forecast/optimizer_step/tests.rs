//! The sums against what was counted of torch's own optimizers, and what is made of a record.

use super::*;
use crate::event::Sample;
use serde::Deserialize;

/// What `tests/torch/test_optimizers.py` counted of one optimizer.
#[derive(Deserialize)]
struct Counted {
    name: String,
    record: OptimizerRecord,
    state: u64,
    temporaries: u64,
}

fn all_counted() -> Vec<Counted> {
    let text = include_str!("../../../tests/forecast/optimizers.jsonl");
    let read = |line: &str| serde_json::from_str(line).unwrap();
    text.lines().map(read).collect()
}

fn counted(name: &str) -> OptimizerRecord {
    let mut all = all_counted().into_iter();
    all.find(|one| one.name == name).unwrap().record
}

#[test]
fn state_and_temporaries_are_those_that_were_counted() {
    let all = all_counted();
    assert!(all.len() > 20);
    for one in all {
        let (name, record) = (&one.name, &one.record);
        let optimizer = Optimizer::of(record).unwrap();
        assert_eq!(optimizer.state(record), Bytes(one.state), "{name}");
        let by = StepLoop::of(record);
        let said = optimizer.temporaries(record, by);
        // One by one there are at most two of the largest parameter, and some numbers; Rprop frees one of its two lists in between.
        let is_exact = by != StepLoop::Single && !name.starts_with("Rprop");
        let most = if is_exact {
            Bytes::ZERO
        } else {
            record.largest
        };
        let least = Bytes(one.temporaries).scale(if is_exact { 1.0 } else { 0.99 });
        assert!(
            (least..=Bytes(one.temporaries) + most).contains(&said),
            "{name}: {said} for {}",
            Bytes(one.temporaries)
        );
    }
}

/// An OOM in the step: allocated then, at the most before, and when the step began.
fn oom(record: OptimizerRecord, [allocated, peak, before]: [u64; 3]) -> OomRecord {
    let mut oom = crate::state::tests::staged::record(
        100,
        Bytes(allocated),
        Bytes(allocated),
        Bytes::mib(20),
        Bytes::ZERO,
    );
    oom.sample = Sample {
        allocated_peak: Bytes(peak),
        ..oom.sample
    };
    oom.phase = Phase::Optimizer;
    oom.optimizer = Some(Box::new(OptimizerRecord {
        before: Some(Bytes(before)),
        ..record
    }));
    oom
}

#[test]
fn the_first_step_is_summed_with_the_state_that_is_to_come() {
    let record = counted("AdamW");
    let one = record.trained.0;
    // Half of the state was there when it ran out, and a tenth of something else from the beginning.
    let oom = oom(record, [one * 3 + one / 10, one * 4, one * 2 + one / 10]);
    let step = RecordedStep::new(&oom).unwrap();
    let expected = OptimizerStep {
        parameters: Bytes(one),
        gradients: Bytes(one),
        state: Bytes(2 * one),
        temporaries: Bytes(one),
        other: Bytes(one / 10),
    };
    assert_eq!(step.as_it_is, expected);
    // Forward and backward had reached four times as much, without the state.
    assert_eq!(step.needs(&expected), Bytes(6 * one));
}

#[test]
fn a_state_that_the_step_has_made_as_a_whole_was_not_there_before_it() {
    let record = counted("AdamW");
    let one = record.trained.0;
    let all = OptimizerRecord {
        states: [("float32".to_owned(), Bytes(2 * one))].into(),
        stated: Bytes(one),
        ..record
    };
    let needs = |step: u64, before: u64, allocated: u64| {
        let mut oom = oom(all.clone(), [allocated, allocated, before]);
        oom.step = step;
        let step = RecordedStep::new(&oom).unwrap();
        (step.as_it_is.other, step.needs(&step.as_it_is))
    };
    let rest = one / 10;
    // All of the state and a half of the temporaries came in the step.
    let made = needs(0, 2 * one + rest, 4 * one + one / 2 + rest);
    assert_eq!(made, (Bytes(rest), Bytes(5 * one + rest)));
    // A second optimizer's first step, after steps of another one.
    assert_eq!(needs(7, 2 * one + rest, 4 * one + one / 2 + rest), made);
    // The same state, loaded from a checkpoint: only temporaries came.
    let loaded = needs(0, 4 * one + rest, 4 * one + one / 2 + rest);
    assert_eq!(loaded, made);
}

#[test]
fn each_alternative_needs_less_and_says_how_much() {
    let record = counted("AdamW");
    let one = record.trained.0;
    let oom = oom(record, [one * 3, one * 3, one * 2]);
    let step = RecordedStep::new(&oom).unwrap();
    let room = Bytes(one * 5 / 2);
    let share = |bytes: Bytes| (bytes.0 as f64 / one as f64 * 10.0).round() / 10.0;
    let all: Vec<(Alternative, f64)> = step
        .alternatives(room)
        .into_iter()
        .map(|(what, instead)| (what, share(step.needs(&instead))))
        .collect();
    let expected = [
        // In this model the largest parameter is half of all.
        (Alternative::Fused, 4.0),
        (Alternative::EightBit, 2.5),
        (Alternative::Adafactor, 3.0),
        (Alternative::Momentum, 3.0),
        (Alternative::Sgd, 2.0),
        (Alternative::InRam, 2.0),
        (Alternative::Bf16, 2.5),
        (Alternative::ShardedState(6), 2.5),
        (Alternative::Sharded(2), 2.5),
    ];
    let without_first: Vec<_> = all
        .iter()
        .filter(|(what, _)| *what != Alternative::NoForeach)
        .copied()
        .collect();
    assert_eq!(without_first, expected);
    let single = all.iter().find(|(what, _)| *what == Alternative::NoForeach);
    assert!(single.is_some_and(|(_, needs)| *needs <= 5.0), "{all:?}");
}

#[test]
fn a_step_without_temporaries_or_state_has_only_its_parameters_to_save() {
    let sgd = counted("SGD");
    let one = sgd.trained.0;
    let oom = oom(sgd, [one * 2, one * 2, one * 2]);
    let step = RecordedStep::new(&oom).unwrap();
    let kinds: Vec<Alternative> = step
        .alternatives(Bytes(one))
        .into_iter()
        .map(|(what, _)| what)
        .collect();
    assert_eq!(kinds, [Alternative::Bf16, Alternative::Sharded(2)]);
}

#[test]
fn parameters_of_two_bytes_are_not_halved_again() {
    let record = counted("AdamW");
    let one = record.trained.0;
    let half = OptimizerRecord {
        elements: one / 2,
        ..record
    };
    let oom = oom(half, [one * 3, one * 3, one * 2]);
    let step = RecordedStep::new(&oom).unwrap();
    let all = step.alternatives(Bytes(one * 2));
    assert!(
        all.iter().all(|(what, _)| *what != Alternative::Bf16),
        "{all:?}"
    );
}

#[test]
fn an_unknown_class_is_not_summed() {
    let record = OptimizerRecord {
        class: "Prodigy".into(),
        base: None,
        ..counted("AdamW")
    };
    assert!(RecordedStep::new(&oom(record, [1, 1, 1])).is_none());
}
