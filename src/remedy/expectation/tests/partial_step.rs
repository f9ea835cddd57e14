//! What is expected of remedies after a step that failed, depending on how far it had come.

use super::*;
use crate::event::{ModelBytes, Step, StepReading};

#[test]
fn what_a_first_forward_showed_is_said_for_what_it_is() {
    let mut oom = oom(20, 21, 2, 1);
    let record = oom.record.as_mut().unwrap();
    record.progress = Some(0.5);
    record.model = Some(Box::new(ModelBytes {
        parameters: Bytes::gib(1),
        trained: Bytes::gib(1),
    }));
    let words = |oom: &OomIncident, command: &str| {
        let (changes, words) = chosen_under(command, &state(0, 4, 20), oom);
        format!("{changes}: {words}")
    };
    // 1 + (22 - 1) / 0.5 for 64, and the optimizer's state: a third fits at the upper end.
    assert_eq!(
        words(&oom, "python a.py --batch-size 64"),
        "--batch-size 64→16: needs about 14.2 GiB (5.5–21.3), fits in 22.0 GiB; estimated, memory \
         ran out 50 % of the way through the forward pass"
    );
    let record = oom.record.as_mut().unwrap();
    record.phase = Phase::Backward;
    assert_eq!(
        words(&oom, "python a.py --batch-size 64"),
        "--batch-size 64→32: needs about 14.2 GiB (11.0–18.8), fits in 22.0 GiB; estimated, memory \
         ran out in the backward pass"
    );
    // If nothing fits at the upper end, half is taken and not said to fit.
    let record = oom.record.as_mut().unwrap();
    (record.phase, record.progress) = (Phase::Forward, Some(0.3));
    assert_eq!(
        words(&oom, "python a.py --batch-size 2"),
        "--batch-size 2→1: won't fit: needs about 39.9 GiB (11.0–60.0), 22.0 GiB available; estimated, memory ran out 30 % of the way through the forward pass"
    );
}

#[test]
fn a_step_longer_than_those_before_is_not_promised_their_peak() {
    // The first step needed 15 without the optimizer's state of 1; the one that failed was as long.
    let mut longer = state(2, 2, 15);
    let steps = &mut longer.runs[0].ranks[0].steps;
    let at = |allocated: u64, peak: u64| StepReading {
        allocated: Bytes::gib(allocated),
        reserved: Bytes::gib(peak),
        peak: Bytes::gib(peak),
    };
    steps.first_step = Some(Step {
        pid: Pid(7),
        device: 0,
        count: 1,
        figures_of: None,
        micros: 0,
        before: at(1, 15),
        after: at(2, 15),
    });
    let mut failed = oom(12, 15, 2, 1);
    let segments = |failed: &OomIncident, state: &State| {
        let all = all(state, failed, Cause::Fragmentation);
        let expectation = of(&all, RemedyId::ExpandableSegments).expectation.clone();
        (expectation.fits, expectation.words.to_string())
    };
    assert_eq!(
        segments(&failed, &longer),
        (
            None,
            "may not fit: needs 15.2 GiB (14.9–17.0), 16.0 GiB available; measured".into()
        )
    );
    failed.record.as_mut().unwrap().progress = Some(0.85);
    assert_eq!(
        segments(&failed, &longer),
        (
            None,
            "may not fit: needs 15.2 GiB (14.9–22.0), 16.0 GiB available; measured".into()
        )
    );
    // Steps are alike at the same progress: their peak is what counts.
    longer.runs[0].ranks[0].steps.first_step = None;
    assert_eq!(
        segments(&failed, &longer),
        (
            Some(true),
            "needs 15.2 GiB (14.9–15.7), fits with 870 MiB to spare; measured".into()
        )
    );
}
