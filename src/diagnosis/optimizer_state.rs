//! The optimizer's state, which is allocated in the first optimizer step and then stays.
//!
//! Adam's is twice the size of the parameters. So a training runs out of memory in its first
//! optimizer step, or in the second step's forward or backward pass, the first ones with the state
//! in memory.

use super::finding::{Sum, because, with_figures};
use super::oom_context::OomContext;
use super::situation::Situation;
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};
use crate::calibration::ADAM_STATE;
use crate::event::Phase;
use crate::forecast::{Alternative, RecordedStep, StepLoop};
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("optimizer state", examine).explains_capacity();

/// The share of allocated memory from which the state is to blame for a failing second step after a
/// successful first one.
const NOTABLE: f64 = 0.25;

/// Functions of optimizers that only run where there is no state yet.
const FIRST_CALLS: [&str; 5] = [
    "_init_group",
    "init_state",
    "_init_state",
    "initialize_optimizer_states",
    "_initialize_optimizer_states",
];

fn examine(case: &OomContext) -> Option<Finding> {
    // If freeing fragments or another process's memory would have been enough, those are the cause.
    match case.is_full() {
        Some(true) => {}
        Some(false) => return None,
        // A message that was cut, or one without figures.
        None => return by_traceback(case),
    }
    summed(case)
        .or_else(|| by_phase(case))
        .or_else(|| by_traceback(case))
}

/// The step of an optimizer that is known ran out: the sum of all that it needs, and what other ways to make it would need.
fn summed(case: &OomContext) -> Option<Finding> {
    let step = RecordedStep::new(case.record()?).filter(|_| case.phase == Phase::Optimizer)?;
    let (now, room) = (step.as_it_is, case.own_room()?);
    if now.total() <= room {
        return None;
    }
    let temporaries = match step.step_loop() {
        StepLoop::Foreach => "temporaries of foreach",
        StepLoop::Single | StepLoop::Fused => "temporaries",
    };
    let parts = [
        (now.parameters, "parameters"),
        (now.gradients, "gradients"),
        (now.state, "state"),
        (now.temporaries, temporaries),
        (now.other, "other"),
    ];
    let what = format!("The step of {} does not fit", step.class());
    let headline = with_figures(&what, Sum(&parts).against(room));
    let activations = (now.alone() > room).then_some(
        "Activations are gone by then, so neither a smaller batch nor mixed precision helps.",
    );
    let mut finding = case
        .finding(Cause::OptimizerState, Certainty::Certain, headline)
        .says_if(case.failed())
        .says_if(activations)
        .shows([("optimizer state", now.state)]);
    finding.too_large_by = (now.alone() > room).then(|| now.alone() - room);
    finding.advice = alternatives(case, &step, room);
    Some(finding)
}

/// Which package has an Adam with states of 8 bits.
fn of_eight_bits(case: &OomContext) -> &'static str {
    let found = case.rank.and_then(|rank| rank.patchable.as_ref());
    let Some(installed) = found.and_then(|found| found.installed.as_ref()) else {
        return "bitsandbytes or torchao";
    };
    let has = |name: &str| installed.iter().any(|one| one == name);
    match (has("bitsandbytes"), has("torchao")) {
        (true, _) => "bitsandbytes",
        (false, true) => "torchao.optim.AdamW8bit",
        (false, false) => "bitsandbytes or torchao, neither is installed there",
    }
}

/// What another way to make the step does to the training's numbers, and whether that is more than rounding.
fn numerics(what: Alternative) -> (&'static str, bool) {
    match what {
        Alternative::NoForeach | Alternative::ShardedState(_) | Alternative::Sharded(_) => {
            ("same numerics", false)
        }
        Alternative::Fused | Alternative::InRam => ("equal to rounding", false),
        Alternative::EightBit
        | Alternative::Adafactor
        | Alternative::Momentum
        | Alternative::Sgd => ("results change", true),
        Alternative::Bf16 => ("lower precision, results change", true),
    }
}

/// What the step would need otherwise: those that fit first, and of these the ones that leave the numbers as they are.
pub(super) fn alternatives(case: &OomContext, step: &RecordedStep<'_>, room: Bytes) -> Vec<Phrase> {
    let class = step.class();
    let words = |what: Alternative| {
        match what {
        Alternative::NoForeach => format!("foreach=False in {class}"),
        Alternative::Fused => format!("fused=True in {class}"),
        Alternative::EightBit => {
            format!("AdamW with states of 8 bits ({})", of_eight_bits(case))
        }
        Alternative::Adafactor => "Adafactor".into(),
        Alternative::Momentum => "SGD with momentum".into(),
        Alternative::Sgd => "SGD without momentum".into(),
        Alternative::InRam => {
            "the optimizer's state and step in RAM (torchao's CPUOffloadOptimizer, DeepSpeed's offload_optimizer)".into()
        }
        Alternative::Bf16 => "parameters in bf16".into(),
        Alternative::ShardedState(gpus) => {
            format!("the optimizer's state sharded over {gpus} GPUs (ZeRO-1)")
        }
        Alternative::Sharded(gpus) => {
            format!("parameters, gradients and state sharded over {gpus} GPUs (FSDP, ZeRO-3)")
        }
    }
    };
    let mut all: Vec<(Bytes, Alternative)> = step
        .alternatives(room)
        .into_iter()
        .map(|(what, instead)| (step.needs(&instead), what))
        .collect();
    all.sort_by_key(|(needs, what)| (*needs > room, numerics(*what).1));
    let said = all.into_iter().map(|(needs, what)| {
        let verdict = match needs > room {
            true => format!("{} too much", needs - room),
            false => String::from("fits"),
        };
        let costs = match what {
            Alternative::InRam => {
                let state = step.as_it_is.state;
                format!("{}; slower, RAM takes {state}", numerics(what).0)
            }
            _ => numerics(what).0.into(),
        };
        Phrase::from(words(what))
            .and(": ", format!("needs {needs}, {verdict}"))
            .and("; ", costs)
    });
    said.collect()
}

/// By the calls that a log shows, where nothing else is known.
fn by_traceback(case: &OomContext) -> Option<Finding> {
    if case.record().is_some() {
        return None;
    }
    let call = case.stack.doing(Situation::OptimizerStep)?;
    // The state is there by then: what is missing is room for parameters that are gathered.
    if case.stack.doing(Situation::ZeroUpdate).is_some() {
        return None;
    }
    let sum = case.sum(case.outside()).zip(case.capacity);
    let (certainty, headline) = match (sum, case.requested) {
        (Some((sum, capacity)), _) => (
            Certainty::Likely,
            with_figures("The optimizer's step does not fit", sum(capacity)),
        ),
        (None, Some(requested)) => (
            Certainty::Possible,
            with_figures(
                "The optimizer's step ran out of memory",
                format!("{requested} requested"),
            ),
        ),
        (None, None) => (
            Certainty::Possible,
            "The optimizer's step ran out of memory.".into(),
        ),
    };
    let is_first = FIRST_CALLS.contains(&call.function);
    let by_deepspeed = call.file.contains("deepspeed/");
    let says = match (is_first, call.function.starts_with("_multi_tensor")) {
        (true, _) if by_deepspeed => {
            "ZeRO makes this rank's part of the state, and its fp32 copy of the parameters, before the first step."
        }
        (true, _) => {
            "The state is allocated in the first step and stays; forward and backward passes fit before it."
        }
        (false, true) => {
            "The foreach form of the step has temporaries as large as the parameters: foreach=False has none."
        }
        (false, false) => {
            "State is allocated in the first step; temporaries of the step come on top in each."
        }
    };
    Some(
        case.finding(Cause::OptimizerState, certainty, headline)
            .says(says)
            .says(format!("It is {}.", call.shown()))
            .advises(match by_deepspeed {
                true => [
                    because(
                        "the optimizer's state in RAM",
                        "offload_optimizer: {\"device\": \"cpu\"}",
                    ),
                    because(
                        "smaller parts",
                        "more GPUs, or stage 3, which divides the parameters too",
                    ),
                    because("an optimizer with less state", "8-bit, Adafactor, SGD"),
                ],
                // It has not come to the temporaries.
                false if is_first => [
                    because("an optimizer with less state", "8-bit, Adafactor, SGD"),
                    because("optimizer state sharded over GPUs", "ZeRO, FSDP"),
                    because("the optimizer's state in RAM", "CPU offload"),
                ],
                false => [
                    because("no temporaries", "foreach=False, or fused=True"),
                    because("an optimizer with less state", "8-bit, Adafactor, SGD"),
                    because("optimizer state sharded over GPUs", "ZeRO, FSDP"),
                ],
            }),
    )
}

/// By where it failed, if the optimizer is not known.
fn by_phase(case: &OomContext) -> Option<Finding> {
    let record = case.record()?;
    let allocated = case.allocated?;
    let (needed, room) = (case.needed()?, case.own_room()?);
    let state = case.structure.map_or(Bytes::ZERO, |s| s.optimizer_state);
    let found = |headline| case.finding(Cause::OptimizerState, Certainty::Likely, headline);
    let finding = match (case.phase, record.step) {
        (Phase::Optimizer, 0) => {
            let parameters = case.structure.map(|s| s.parameters);
            let sum = case.sum(case.outside())?(case.capacity?);
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
