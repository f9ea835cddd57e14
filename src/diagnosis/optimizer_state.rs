//! The optimizer's state, which is allocated in the first optimizer step and then stays.
//!
//! Adam's is twice the size of the parameters. So a training runs out of memory in its first
//! optimizer step, or in the second step's forward or backward pass, the first ones with the state
//! in memory.

use super::finding::{because, with_figures};
use super::oom_context::OomContext;
use super::{Cause, CauseSpec, Certainty, Finding};
use crate::calibration::ADAM_STATE;
use crate::event::Phase;
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("optimizer state", examine).explains_capacity();

/// The share of allocated memory from which the state is to blame for a failing second step after a
/// successful first one.
const NOTABLE: f64 = 0.25;

fn examine(case: &OomContext) -> Option<Finding> {
    let record = case.record()?;
    let allocated = case.allocated?;
    let (needed, room) = (case.needed()?, case.own_room()?);
    // If freeing fragments or another process's memory would have been enough, those are the cause.
    if !case.is_full()? {
        return None;
    }
    let state = case.structure.map_or(Bytes::ZERO, |s| s.optimizer_state);
    let found = |headline| case.finding(Cause::OptimizerState, Certainty::Likely, headline);
    let finding = match (case.phase, record.step) {
        (Phase::Optimizer, 0) => {
            let parameters = case.structure.map(|s| s.parameters);
            let outside = case.non_pytorch.map(|outside| (outside, "non-PyTorch"));
            let sum = case.sum(outside)?(case.capacity?);
            found(with_figures(
                "The optimizer state does not fit",
                format!("{sum} in the first optimizer step"),
            ))
            .says("The state is allocated in that step and stays; forward and backward passes fit before it.")
            .says_if(parameters.filter(|bytes| *bytes > Bytes::ZERO).map(|bytes| {
                format!("For parameters of {bytes} Adam keeps {}.", bytes.scale(ADAM_STATE))
            }))
        }
        (Phase::Forward | Phase::Backward, 1)
            if needed - state <= room && state.fraction_of(allocated)? >= NOTABLE =>
        {
            found(with_figures(
                "The second step does not fit beside the optimizer state",
                format!("{state} of the {allocated} allocated"),
            ))
            .says("The first step ran without it: the state was allocated when it ended.")
            .says(case.failed()?)
        }
        (_, _) => return None,
    };
    Some(
        finding
            .shows((state > Bytes::ZERO).then_some(("optimizer state", state)))
            .advises([
                because("an optimizer with less state", "8-bit, Adafactor, SGD"),
                because("optimizer state sharded over GPUs", "ZeRO, FSDP"),
                "a smaller batch, if activations are the larger part".into(),
            ]),
    )
}
