//! What a step that memory ran out in would have needed, extrapolated from how far it had come.
//!
//! A forward keeps its activations one after the other; where a known share of it was past, the
//! rest follows. At the beginning of backward all of them are there. What comes later in a first
//! step, and does not grow with the batch, is added: the gradients and the optimizer's state.

use super::estimate::Estimate;
use super::target::Target;
use crate::event::{OomRecord, Phase, SourceLine};
use crate::measured::{
    ADAM_STATE, BACKWARD_SPREAD, FOREACH_TEMPORARIES, FORWARD_SPREAD, LOSS_COPIES,
};
use crate::units::Bytes;
use serde::Serialize;

/// A share below this says too little.
const LEAST_SHARE: f64 = 0.1;

/// How far the step had come in which memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// This share of its forward was past.
    Forward(f64),
    /// It was in backward.
    Backward,
}

impl Progress {
    /// By the observer's record; `None` where it does not say.
    pub(super) fn of(record: &OomRecord) -> Option<Progress> {
        match record.phase {
            Phase::Backward => Some(Progress::Backward),
            Phase::Forward => record
                .progress
                .filter(|share| (LEAST_SHARE..=1.0).contains(share))
                .map(Progress::Forward),
            Phase::Load | Phase::Optimizer | Phase::Evaluation | Phase::Unknown => None,
        }
    }

    /// The share of the activations that were there.
    pub(super) fn share(self) -> f64 {
        match self {
            Progress::Forward(share) => share,
            Progress::Backward => 1.0,
        }
    }

    fn spread(self) -> f64 {
        match self {
            Progress::Forward(_) => FORWARD_SPREAD,
            Progress::Backward => BACKWARD_SPREAD,
        }
    }

    /// "53 % of the way through the forward".
    pub fn shown(self) -> String {
        match self {
            Progress::Forward(share) if share < 0.995 => {
                format!("{:.0} % of the way through the forward pass", share * 100.0)
            }
            Progress::Forward(_) => "at the end of the forward pass".into(),
            Progress::Backward => "in the backward pass".into(),
        }
    }
}

/// A step that was not seen whole, and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartialStep {
    /// How far it had come.
    pub progress: Progress,
    /// What it had reached: allocated, and what was asked for.
    reached: Bytes,
    /// What was asked for.
    requested: Bytes,
    /// What of it does not grow with the batch.
    held: Bytes,
    /// What does not grow with the batch in the steps that follow.
    base: Estimate,
    /// What the optimizer's step reaches.
    optimizer: Estimate,
    /// The gradients.
    gradients: Bytes,
}

impl PartialStep {
    /// Of a first step: nothing is known of the optimizer. `None` where the record does not say how
    /// far it had come, or nothing says how large the model is.
    pub(super) fn of_first(record: &OomRecord) -> Option<PartialStep> {
        if record.step > 0 {
            return PartialStep::of_structure(record);
        }
        let progress = Progress::of(record)?;
        let (parameters, trained) = model(record)?;
        let wanted = record.sample.allocated + record.requested;
        let reached = match progress {
            Progress::Forward(_) => wanted,
            // Where the forward ended it may have been more.
            Progress::Backward => wanted.max(record.sample.allocated_peak),
        };
        let state = trained.scale(ADAM_STATE);
        Some(PartialStep {
            progress,
            reached,
            requested: record.requested,
            held: parameters.min(reached),
            // Gradients come as activations go; where they stay from one step to the next they are
            // there at the peak.
            base: Estimate::of(parameters, parameters + state, parameters + state + trained),
            optimizer: Estimate::of(
                parameters,
                parameters + state + trained,
                parameters + state + trained + trained.scale(FOREACH_TEMPORARIES),
            ),
            gradients: trained,
        })
    }

    /// Of a step after the first, where the steps themselves were not heard of.
    fn of_structure(record: &OomRecord) -> Option<PartialStep> {
        let structure = record.structure.as_deref()?;
        let stays = structure.parameters + structure.optimizer_state;
        let ended = stays + structure.gradients;
        let base = Estimate::of(stays, stays, ended);
        let optimizer = Estimate::of(
            ended,
            ended,
            ended + structure.parameters.scale(FOREACH_TEMPORARIES),
        );
        PartialStep::of_later(record, base, optimizer, structure.gradients)
    }

    /// Of a later step, with what the steps before it showed.
    pub(super) fn of_later(
        record: &OomRecord,
        base: Estimate,
        optimizer: Estimate,
        gradients: Bytes,
    ) -> Option<PartialStep> {
        let reached = record.sample.allocated + record.requested;
        Some(PartialStep {
            progress: Progress::of(record)?,
            reached,
            requested: record.requested,
            held: base.likely.min(reached),
            base,
            optimizer,
            gradients,
        })
    }

    /// What forward and backward of the step itself would have reached; its low end is what they had.
    pub(super) fn whole(&self) -> Estimate {
        let (likely, most) = self.activations();
        Estimate::of(
            self.reached,
            Bytes(likely as u64) + self.base.likely,
            Bytes(most as u64) + self.base.high,
        )
    }

    /// The peak of a target that takes `ratio` times the batch; no less than `least`. `kept`: gradients
    /// stay through the forward, and did not.
    pub(super) fn peak(&self, target: &Target, ratio: f64, kept: bool, least: Bytes) -> Estimate {
        let (likely, most) = self.activations();
        let of = |base: Bytes, activations: f64| {
            let (_, likely, high) = target.treatment.passes(base.0 as f64, activations * ratio);
            (Bytes(likely as u64), Bytes(high as u64))
        };
        let kept = if kept { self.gradients } else { Bytes::ZERO };
        let likely = of(self.base.likely, likely).0 + kept;
        // Gradients that are kept are a part of the upper end already.
        let high = of(self.base.high, most).1;
        let passes = Estimate::of(least, likely.max(least), high.max(likely).max(least));
        passes.max(self.optimizer)
    }

    /// Activations of the whole step, in bytes: likely, and at the most.
    fn activations(&self) -> (f64, f64) {
        let seen = (self.reached - self.held).0 as f64;
        let likely = seen / self.progress.share();
        let in_loss = match self.progress {
            Progress::Forward(_) => seen + LOSS_COPIES * self.requested.0 as f64,
            Progress::Backward => 0.0,
        };
        (likely, (likely * self.progress.spread()).max(in_loss))
    }
}

/// Bytes of the model's parameters and of those that are trained, before an optimizer has shown them.
fn model(record: &OomRecord) -> Option<(Bytes, Bytes)> {
    let built = record
        .lines
        .iter()
        .filter(|held| held.inside.as_ref().is_some_and(builds_a_model));
    let bytes = built.fold(Bytes::ZERO, |sum, held| sum + held.bytes);
    // The model that runs may be one of several; what the lines say more is taken for trained.
    let (parameters, trained) = match record.model.as_deref() {
        Some(model) => (
            model.parameters.max(bytes),
            model.trained + (bytes - model.parameters),
        ),
        None => (bytes, bytes),
    };
    (parameters > Bytes::ZERO).then_some((parameters, trained))
}

/// torch's lines that allocate parameters: `Module.to`, a recurrent layer that lays its weights
/// together, and layers that are made on the device.
fn builds_a_model(inside: &SourceLine) -> bool {
    let Some((_, file)) = inside.file.rsplit_once("/torch/nn/modules/") else {
        return false;
    };
    match inside.function.as_str() {
        "convert" | "_apply" => file == "module.py",
        "flatten_parameters" => file == "rnn.py",
        "__init__" => true,
        _ => false,
    }
}
