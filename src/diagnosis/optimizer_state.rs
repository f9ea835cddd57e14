//! The optimizer's state, which is nothing until its first step and stays from then on.
//!
//! Adam keeps twice the parameters. So a training that fits runs out of memory in its first
//! optimizer step, or in the second step's forward or backward, which come on top of the state for
//! the first time.

use super::case::{Case, number, text};
use super::{Cause, Certainty, Finding};
use crate::event::Phase;
use crate::units::Bytes;

/// The share of what is allocated from which the state, and not the activations beside it, is why
/// the second step does not fit where the first did.
const NOTABLE: f64 = 0.25;

pub(super) fn examine(case: &Case) -> Option<Finding> {
    let record = case.oom.record.as_ref()?;
    let allocated = case.allocated?;
    let (needed, room) = (case.needed()?, case.own_room()?);
    // Fragments or another process's memory would have been enough: those are the cause.
    if !case.is_full()? {
        return None;
    }
    let state = case.structure.map_or(Bytes::ZERO, |s| s.optimizer_state);
    match (case.phase, record.step) {
        (Phase::Optimizer, 0) => {
            let mut finding = case.finding(
                Cause::OptimizerState,
                Certainty::Likely,
                format!(
                    "The optimizer's state does not fit: {allocated} allocated + {} in the first optimizer step.",
                    case.asked()?
                ),
            );
            finding.explanation = text([
                Some("The state is allocated in that step and stays; forward and backward had fitted before it.".into()),
                case.structure.filter(|s| s.parameters > Bytes::ZERO).map(|structure| {
                    let doubled = structure.parameters + structure.parameters;
                    format!("For parameters of {} Adam keeps {doubled}.", structure.parameters)
                }),
            ]);
            finish(&mut finding, case, state);
            Some(finding)
        }
        (Phase::Forward | Phase::Backward, 1)
            if needed - state <= room && state.fraction_of(allocated)? >= NOTABLE =>
        {
            let mut finding = case.finding(
                Cause::OptimizerState,
                Certainty::Likely,
                format!(
                    "The second step does not fit beside the optimizer state: {state} of the {allocated} allocated."
                ),
            );
            finding.explanation = text([Some(format!(
                "The first step ran without it: the state was allocated when it ended. Failed {}.",
                case.place()?
            ))]);
            finish(&mut finding, case, state);
            Some(finding)
        }
        (
            Phase::Optimizer
            | Phase::Forward
            | Phase::Backward
            | Phase::Load
            | Phase::Evaluation
            | Phase::Unknown,
            _,
        ) => None,
    }
}

fn finish(finding: &mut Finding, case: &Case, state: Bytes) {
    finding.evidence = case.evidence();
    if state > Bytes::ZERO {
        finding.evidence.push(number("optimizer state", state));
    }
    finding.advice = vec![
        "an optimizer with less state (8-bit, Adafactor, SGD)".into(),
        "its state spread over GPUs (ZeRO, FSDP)".into(),
        "a smaller batch, where activations are the larger part".into(),
    ];
}
