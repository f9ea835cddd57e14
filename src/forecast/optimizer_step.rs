//! What an optimizer's step needs, by its class, its settings and the bytes of its parameters: the sum as it is, and what it would be
//! with another optimizer or another setting. All of it is known when memory runs out in that step, and before the first one.
//!
//! State and temporaries by class are those of torch/optim/*.py (2.11 to 2.15), measured: `tests/torch/test_optimizers.py`
//! counts them on a CPU, and the sums of [`Optimizer`] are compared with what it wrote down.

use crate::event::{OomRecord, OptimizerRecord, Phase};
use crate::units::Bytes;

/// What states of 8 bits take for each element: two bytes, and two scales of four for each block of 256 (bitsandbytes).
const EIGHT_BIT_STATE: f64 = 2.0 + 2.0 * 4.0 / 256.0;
/// What they take for each element of a small tensor, whose states stay in 32 bits.
const SMALL_STATE: u64 = 8;
/// No more GPUs than this are named.
const MOST_GPUS: u64 = 64;

/// How an optimizer goes through its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepLoop {
    /// All at once, with temporaries of all of them.
    Foreach,
    /// One after the other.
    Single,
    /// In one kernel, without temporaries.
    Fused,
}

impl StepLoop {
    fn of(record: &OptimizerRecord) -> StepLoop {
        match (record.fused, record.foreach) {
            (true, _) => StepLoop::Fused,
            (false, true) => StepLoop::Foreach,
            (false, false) => StepLoop::Single,
        }
    }
}

/// The optimizers whose needs are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optimizer {
    /// Adam, AdamW, NAdam, RAdam, Adamax.
    Adam {
        /// A third state.
        amsgrad: bool,
    },
    /// The same with states of 8 bits.
    Adam8bit,
    Sgd {
        momentum: bool,
        weight_decay: bool,
    },
    RmsProp {
        momentum: bool,
        centered: bool,
    },
    Adagrad,
    Adadelta,
    Rprop,
    /// ASGD, Lion, Muon: one state.
    OneState,
    Adafactor,
}

impl Optimizer {
    /// As a record says; `None` for a class that is not known.
    pub fn of(record: &OptimizerRecord) -> Option<Optimizer> {
        let base = record.base.as_deref();
        Some(match base {
            // A paged one keeps its state in the host's memory.
            _ if record.class.starts_with("Adam") && record.class.ends_with("8bit") => {
                Optimizer::Adam8bit
            }
            Some("Adam" | "AdamW" | "NAdam" | "RAdam" | "Adamax") => Optimizer::Adam {
                amsgrad: record.amsgrad,
            },
            Some("SGD") => Optimizer::Sgd {
                momentum: record.momentum,
                weight_decay: record.weight_decay || record.maximize,
            },
            Some("RMSprop") => Optimizer::RmsProp {
                momentum: record.momentum,
                centered: record.centered,
            },
            Some("Adagrad") => Optimizer::Adagrad,
            Some("Adadelta") => Optimizer::Adadelta,
            Some("Rprop") => Optimizer::Rprop,
            Some("ASGD" | "Lion" | "Muon") => Optimizer::OneState,
            Some("Adafactor") => Optimizer::Adafactor,
            Some(_) | None => return None,
        })
    }

    /// The bytes of its state.
    pub fn state(self, of: &OptimizerRecord) -> Bytes {
        let trained = |times: u64| Bytes(of.trained.0.saturating_mul(times));
        match self {
            Optimizer::Adam { amsgrad } => trained(2 + u64::from(amsgrad)),
            Optimizer::Adam8bit => {
                let large = of.elements.saturating_sub(of.small);
                Bytes((large as f64 * EIGHT_BIT_STATE) as u64 + of.small * SMALL_STATE)
            }
            Optimizer::Sgd { momentum, .. } => trained(u64::from(momentum)),
            Optimizer::RmsProp { momentum, centered } => {
                trained(1 + u64::from(momentum) + u64::from(centered))
            }
            Optimizer::Adagrad | Optimizer::OneState => trained(1),
            Optimizer::Adadelta | Optimizer::Rprop => trained(2),
            Optimizer::Adafactor => of.factored,
        }
    }

    /// The bytes that its step makes and frees again.
    pub fn temporaries(self, of: &OptimizerRecord, by: StepLoop) -> Bytes {
        let lists = match self {
            Optimizer::Sgd { weight_decay, .. } => u64::from(weight_decay),
            Optimizer::Adagrad | Optimizer::Adadelta | Optimizer::Rprop => 2,
            Optimizer::Adam { .. }
            | Optimizer::RmsProp { .. }
            | Optimizer::OneState
            | Optimizer::Adafactor => 1,
            // A kernel of its own for each tensor.
            Optimizer::Adam8bit => 0,
        };
        match by {
            StepLoop::Foreach => Bytes(of.trained.0.saturating_mul(lists)),
            StepLoop::Single => Bytes(of.largest.0.saturating_mul(self.of_largest(of, lists))),
            StepLoop::Fused => Bytes::ZERO,
        }
    }

    /// How many times the largest parameter a step through them one by one makes at the most.
    fn of_largest(self, of: &OptimizerRecord, lists: u64) -> u64 {
        let base = of.base.as_deref();
        match self {
            Optimizer::Adam { .. } => {
                let own = if base == Some("RAdam") { 5 } else { 2 };
                // AdamW's changes the parameter itself.
                own + u64::from(of.weight_decay && base != Some("AdamW"))
            }
            Optimizer::Adam8bit
            | Optimizer::Sgd { .. }
            | Optimizer::RmsProp { .. }
            | Optimizer::Adagrad
            | Optimizer::Adadelta
            | Optimizer::Rprop
            | Optimizer::OneState
            | Optimizer::Adafactor => 2 * lists,
        }
    }

    /// Whether torch has a fused step of it.
    fn can_be_fused(self) -> bool {
        match self {
            Optimizer::Adam { .. } | Optimizer::Sgd { .. } | Optimizer::Adagrad => true,
            Optimizer::Adam8bit
            | Optimizer::RmsProp { .. }
            | Optimizer::Adadelta
            | Optimizer::Rprop
            | Optimizer::OneState
            | Optimizer::Adafactor => false,
        }
    }
}

/// What is alive at the peak of an optimizer's step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OptimizerStep {
    pub parameters: Bytes,
    pub gradients: Bytes,
    pub state: Bytes,
    pub temporaries: Bytes,
    /// What is neither: buffers, outputs that variables still hold, another model.
    pub other: Bytes,
}

impl OptimizerStep {
    pub fn total(&self) -> Bytes {
        self.alone() + self.other
    }

    /// What no batch and no precision of activations changes.
    pub fn alone(&self) -> Bytes {
        self.parameters + self.gradients + self.state + self.temporaries
    }
}

/// Another way to make the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alternative {
    /// The same optimizer with `foreach=False`.
    NoForeach,
    /// The same optimizer with `fused=True`.
    Fused,
    /// Adam with states of 8 bits.
    EightBit,
    Adafactor,
    /// SGD with momentum.
    Momentum,
    /// SGD without.
    Sgd,
    /// The same optimizer, whose state and step are in RAM.
    InRam,
    /// Parameters, and with them gradients and state, in bf16 where they are in fp32.
    Bf16,
    /// The state sharded over so many GPUs (ZeRO-1).
    ShardedState(u64),
    /// Parameters, gradients and state sharded over so many (FSDP, ZeRO-3).
    Sharded(u64),
}

/// Whether the step that ran out made its state: it is not there as a whole, or is and the step took more than its temporaries.
/// A first step may have state from a checkpoint, and then takes no more than those.
fn is_made_in_step(oom: &OomRecord, record: &OptimizerRecord, temporaries: Bytes) -> bool {
    if record.stated < record.trained {
        return true;
    }
    let Some(before) = record.before else {
        return false;
    };
    let taken = oom.sample.allocated - before;
    taken >= record.states() && (oom.step == 0 || taken > temporaries)
}

/// An optimizer's step as it was recorded when memory ran out.
#[derive(Debug, Clone, Copy)]
pub struct RecordedStep<'a> {
    record: &'a OptimizerRecord,
    optimizer: Optimizer,
    pub as_it_is: OptimizerStep,
    /// What forward and backward had reached, without a state that was not there yet.
    passes: Option<Bytes>,
}

impl<'a> RecordedStep<'a> {
    /// `None` where the record has no optimizer, or one of an unknown class.
    pub fn new(oom: &'a OomRecord) -> Option<RecordedStep<'a>> {
        let record = oom.optimizer.as_deref()?;
        let optimizer = Optimizer::of(record)?;
        let (parameters, there) = (record.parameters(), record.gradients());
        let state = optimizer.state(record).max(record.states());
        let allocated = oom.sample.allocated;
        let in_step = oom.phase == Phase::Optimizer;
        let temporaries = optimizer.temporaries(record, StepLoop::of(record));
        let had = match in_step && is_made_in_step(oom, record, temporaries) {
            true => Bytes::ZERO,
            false => record.states(),
        };
        // Before the step its gradients may be yet to come, and what else is alive then is activations.
        let other = match (in_step, record.before) {
            (false, _) => Bytes::ZERO,
            (true, Some(before)) => before - parameters - there - had,
            (true, None) => allocated - parameters - there - record.states(),
        };
        let as_it_is = OptimizerStep {
            parameters,
            gradients: match in_step {
                true => there,
                false => there.max(record.trained),
            },
            state,
            temporaries,
            other,
        };
        // Without a reading when the step began, a peak above what is allocated now was before it.
        let peak = oom.sample.allocated_peak;
        let peak = record.peak_before.or((peak > allocated).then_some(peak));
        Some(RecordedStep {
            record,
            optimizer,
            as_it_is,
            passes: peak.filter(|_| in_step).map(|peak| peak - had),
        })
    }

    /// What the training needs from then on with a step like this one: forward and backward have the state beside them.
    pub fn needs(&self, step: &OptimizerStep) -> Bytes {
        let fewer = self.as_it_is.parameters - step.parameters;
        let passes = self.passes.map(|passes| passes + step.state - fewer);
        step.total().max(passes.unwrap_or(Bytes::ZERO))
    }

    /// What was allocated when the step began, if that was read.
    pub fn there(&self) -> Bytes {
        self.record.before.unwrap_or(Bytes::ZERO)
    }

    /// The class of the optimizer.
    pub fn class(&self) -> &'a str {
        &self.record.class
    }

    pub fn step_loop(&self) -> StepLoop {
        StepLoop::of(self.record)
    }

    /// The step without the temporaries of foreach, where that is torch's choice and not the program's.
    pub fn one_by_one(&self) -> Option<OptimizerStep> {
        let is_default = self.record.foreach_by_default;
        (is_default && self.step_loop() == StepLoop::Foreach).then(|| OptimizerStep {
            temporaries: self.optimizer.temporaries(self.record, StepLoop::Single),
            ..self.as_it_is
        })
    }

    /// The step in one kernel, where torch chooses and allows it.
    pub fn fused(&self) -> Option<OptimizerStep> {
        let is_allowed = self.record.foreach_by_default && self.record.may_fuse;
        (is_allowed && self.optimizer.can_be_fused()).then(|| OptimizerStep {
            temporaries: self.optimizer.temporaries(self.record, StepLoop::Fused),
            ..self.as_it_is
        })
    }

    /// Whether the peak of forward and backward is known, without which nothing says that the next ones fit beside the state.
    pub fn knows_passes(&self) -> bool {
        self.passes.is_some()
    }

    /// The step with parameters of two bytes, where all that are trained have four.
    fn in_bf16(&self) -> Option<OptimizerStep> {
        let (record, now) = (self.record, self.as_it_is);
        let is_fp32 = record.trained.0 == record.elements.saturating_mul(4);
        let follows_them = match self.optimizer {
            // Its state goes by their number.
            Optimizer::Adam8bit | Optimizer::Adafactor => false,
            Optimizer::Adam { .. }
            | Optimizer::Sgd { .. }
            | Optimizer::RmsProp { .. }
            | Optimizer::Adagrad
            | Optimizer::Adadelta
            | Optimizer::Rprop
            | Optimizer::OneState => true,
        };
        let half = |bytes: Bytes| Bytes(bytes.0 / 2);
        (is_fp32 && follows_them && record.elements > 0).then(|| OptimizerStep {
            parameters: now.parameters - half(record.trained),
            gradients: half(now.gradients),
            state: half(now.state),
            temporaries: half(now.temporaries),
            other: now.other,
        })
    }

    /// What may help, and what the step then needs, each less than it is. Sharded over as few GPUs as suffice for `room`.
    pub fn alternatives(&self, room: Bytes) -> Vec<(Alternative, OptimizerStep)> {
        let now = self.as_it_is;
        let with = |optimizer: Optimizer, by| OptimizerStep {
            state: optimizer.state(self.record),
            temporaries: optimizer.temporaries(self.record, by),
            ..now
        };
        let by = StepLoop::of(self.record);
        let mut all = Vec::new();
        if by == StepLoop::Foreach {
            all.push((
                Alternative::NoForeach,
                with(self.optimizer, StepLoop::Single),
            ));
        }
        if by != StepLoop::Fused && self.optimizer.can_be_fused() {
            all.push((Alternative::Fused, with(self.optimizer, StepLoop::Fused)));
        }
        let momentum = |momentum| Optimizer::Sgd {
            momentum,
            weight_decay: false,
        };
        all.extend([
            (Alternative::EightBit, with(Optimizer::Adam8bit, by)),
            (
                Alternative::Adafactor,
                with(Optimizer::Adafactor, StepLoop::Single),
            ),
            (Alternative::Momentum, with(momentum(true), by)),
            (Alternative::Sgd, with(momentum(false), by)),
            (
                Alternative::InRam,
                OptimizerStep {
                    state: Bytes::ZERO,
                    temporaries: Bytes::ZERO,
                    ..now
                },
            ),
        ]);
        all.extend(self.in_bf16().map(|step| (Alternative::Bf16, step)));
        let state_over = |gpus: u64| OptimizerStep {
            state: now.state.scale(1.0 / gpus as f64),
            temporaries: now.temporaries.scale(1.0 / gpus as f64),
            ..now
        };
        let all_over = |gpus: u64| OptimizerStep {
            parameters: now.parameters.scale(1.0 / gpus as f64),
            gradients: now.gradients.scale(1.0 / gpus as f64),
            ..state_over(gpus)
        };
        let suffices = |step: &OptimizerStep| self.needs(step) <= room;
        let fewest = |over: &dyn Fn(u64) -> OptimizerStep| {
            let each = (2..=MOST_GPUS).map(|gpus| (gpus, over(gpus)));
            each.into_iter().find(|(_, step)| suffices(step))
        };
        let sharded = fewest(&all_over).map(|(gpus, step)| (Alternative::Sharded(gpus), step));
        let state = fewest(&state_over).map(|(gpus, step)| (Alternative::ShardedState(gpus), step));
        all.extend(state.into_iter().chain(sharded));
        all.retain(|(_, step)| self.needs(step) < self.needs(&now));
        all
    }
}

#[cfg(test)]
mod tests;
