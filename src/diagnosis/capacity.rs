//! Capacity: what is allocated plus what was requested does not fit on the device, even without
//! other processes and fragmentation. Also what is said if figures are missing or explain nothing: that memory
//! ran out and which figures are missing.

use super::advised::{CHECKPOINTING, PRECISION, TO_KEEP_THE_EFFECTIVE_BATCH};
use super::finding::Sum;
use super::finding::{because, sentence, with_figures};
use super::foreign_process::{self, NOTABLE_UNNAMED};
use super::idle_checkpointing;
use super::oom_context::OomContext;
use super::optimizer_state::alternatives;
use super::situation::{Situation, StackCall};
use super::{Cause, CauseSpec, Certainty, Finding, Phrase};
use super::{
    beside_training, driver_refused, leak, other_frameworks, own_settings, wrong_size, zero,
};
use crate::anatomy::KEPT;
use crate::calibration::{
    AUTOCAST_LEAVES, CHECKPOINTING_LEAVES, EIGHT_BIT_ADAM_SAVES, NON_TORCH_AT_MOST,
};
use crate::event::Phase;
use crate::forecast::WholeStep;
use crate::oom::{OomKind, OomSign, OomSource};
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec = CauseSpec::new("capacity", examine).of_one_rank();

/// All together would be enough, but not for any allocator.
const NEARLY_FULL: &str = "The GPU is nearly full";

/// Up to this share of a forward pass the rest is more than rounding.
const NEARLY_THROUGH: f64 = 0.95;

/// The share of allocated memory from which a part is called most of it.
const MOST: f64 = 0.5;

const SMALLER_BATCH: &str = "a smaller batch";

/// The maximum number of suggestions.
const MOST_ADVICE: usize = 4;

/// No more GPUs than this are named.
const MOST_GPUS: u64 = 64;

/// Saving less than this share of what is missing isn't worth a line.
const WORTH: f64 = 0.1;

/// The share of activations left by half the batch, or of what two devices share.
const HALF: f64 = 0.5;

fn examine(case: &OomContext) -> Option<Finding> {
    // Neither is a matter of what fits: they are causes of their own.
    if wrong_size::applies(case) || driver_refused::applies(case) && fits(case) {
        return None;
    }
    examined(case).map(|finding| idle_checkpointing::beside(case, finding))
}

/// Whether it would fit by what the message says.
fn fits(case: &OomContext) -> bool {
    let needed = case.needed().zip(case.own_room());
    needed.is_none_or(|(needed, room)| needed <= room)
}

fn examined(case: &OomContext) -> Option<Finding> {
    match (
        case.kind.spec().source,
        case.needed(),
        case.capacity,
        case.requested,
    ) {
        (OomSource::DriverCall, None, _, _) => {
            (case.kind == OomKind::NvmlAssert).then(|| message_lost(case))
        }
        (_, _, Some(capacity), Some(requested)) if requested > capacity => {
            Some(larger_than_the_gpu(case, requested, capacity))
        }
        (_, Some(needed), Some(capacity), _) => compared(case, needed, capacity),
        // An engine's or a planner's own words say what was too small, and no figures of PyTorch's will come.
        (_, None, _, _)
            if matches!(
                case.kind,
                OomKind::Vllm | OomKind::Sglang | OomKind::Placement
            ) =>
        {
            None
        }
        // Nothing has run yet: whoever has the rest of the GPU is the cause.
        (_, None, _, _) if case.sign() == Some(OomSign::Preallocation) => None,
        (_, _, _, _) => Some(without_figures(case)),
    }
}

fn compared(case: &OomContext, needed: Bytes, capacity: Bytes) -> Option<Finding> {
    let allocated = case.allocated?;
    let own_room = case.own_room()?;
    if let Some(finding) = model_itself(case, own_room) {
        return Some(finding);
    }
    if let Some(whole) = case.far_too_much() {
        return Some(whole_step(case, whole, own_room));
    }
    let (spare, tight) = (case.spare(), case.is_full() == Some(true));
    let done = case
        .record()
        .and_then(|record| record.progress)
        .filter(|share| *share < NEARLY_THROUGH);
    let others_are_why = case.other_processes.unwrap_or(Bytes::ZERO) > NON_TORCH_AT_MOST;
    let fails = match case.phase {
        // Only the model has been loaded.
        Phase::Load if case.built_model().is_none() && !case.places_data() => {
            "The model itself does not fit"
        }
        Phase::Load
        | Phase::Forward
        | Phase::Backward
        | Phase::Optimizer
        | Phase::Evaluation
        | Phase::Unknown => "It does not fit",
    };
    let (certainty, opening) = if needed > own_room {
        (Certainty::Certain, fails)
    } else if others_are_why {
        // It would have fit without the other process: that is another finding.
        return None;
    } else if case.limit.is_some_and(|limit| limit < capacity) {
        // Under a cap the GPU's capacity is irrelevant.
        return None;
    } else if spare.is_some_and(|spare| spare < 0) {
        // Exact at that moment, and not enough; but memory of unknown origin may be another
        // process's.
        match case.elsewhere {
            Some(elsewhere) if elsewhere <= NON_TORCH_AT_MOST => (Certainty::Certain, fails),
            Some(elsewhere) if elsewhere <= NON_TORCH_AT_MOST + capacity.scale(NOTABLE_UNNAMED) => {
                (Certainty::Likely, fails)
            }
            Some(_) | None => (Certainty::Possible, fails),
        }
    } else if tight && done.is_some() {
        // More would be needed later in the step.
        (Certainty::Likely, fails)
    } else if tight {
        (Certainty::Likely, NEARLY_FULL)
    } else if case.free.is_none() && case.others.is_none() {
        // Nothing says what else is on the GPU; by the known numbers it should have fit.
        return Some(unexplained(case, needed, capacity));
    } else if spare.is_some_and(|_| case.free > case.requested) {
        return Some(unexplained(case, needed, capacity));
    } else {
        return None;
    };
    let is_mps = case.kind == OomKind::MpsOom;
    let sum = case.sum(case.outside())?;
    // Apple's GPUs share the host's memory, and MPS limits itself to a part of it.
    let allowed = if is_mps { " allowed" } else { "" };
    // What was requested would just have found room, what came after it would not.
    let rest = (certainty == Certainty::Likely && opening == fails)
        .then_some(done)
        .flatten()
        .map_or(String::new(), |share| {
            format!(", with the forward pass {:.0} % done", share * 100.0)
        });
    // The sum is less than there is: what is missing is said beside it.
    let rest = match opening == NEARLY_FULL && remains(case).is_some() {
        true => String::from(": it would fit only without any fragmentation"),
        false => rest,
    };
    let headline = with_figures(opening, format!("{}{allowed}{rest}", sum(capacity)));
    // Windows' driver moves what does not fit to the host's memory.
    let spilled = (allocated > capacity && !is_mps).then_some(
        "More is allocated than the GPU has: the driver may have moved memory to the host (Windows).",
    );
    let mut finding = case
        .finding(Cause::Capacity, certainty, headline)
        .says_if((!is_mps).then(|| match remains(case).filter(|_| opening == NEARLY_FULL) {
            Some(remains) => {
                let others = foreign_process::clause_sentence(case);
                format!("{remains} {others}")
            }
            None => ruled_out(case),
        }))
        .says_if(spilled)
        .says_if(case.failed_where())
        .says_if(case.built_model().map(|parameters| {
            format!(
                "The model was on the GPU already, with parameters of {parameters}: what was requested is its input, or made of it."
            )
        }))
        .says_if(done.map(|share| {
            let percent = share * 100.0;
            format!("The forward pass was {percent:.0} % done; the rest needed more.")
        }))
        .says_if(made_of(case, allocated))
        .says_if(case.caveat());
    if let (Some(structure), Some(other)) = (case.structure, case.unnamed()) {
        let parts = match zero::ledger(case) {
            Some(zero) => zero.parts().to_vec(),
            None => vec![
                ("parameters", structure.parameters),
                ("gradients", structure.gradients),
                ("optimizer state", structure.optimizer_state),
            ],
        };
        let parts = parts.into_iter().filter(|(_, bytes)| *bytes > Bytes::ZERO);
        // What has leaked is no activation of this step.
        let kept = leak::leaked(case).map(|leaked| (KEPT, leaked.min(other)));
        let rest = other - kept.map_or(Bytes::ZERO, |(_, bytes)| bytes);
        let unnamed = kept.into_iter().chain([("activations + other", rest)]);
        finding = finding.shows(parts.chain(unnamed));
    }
    finding.advice = advice(case);
    // A probe's steps tell by themselves what grows.
    if case.record().is_none()
        && let Some(call) = case.stack.doing(Situation::KeptLosses)
    {
        finding.advice.push(because(
            &format!(".item() or .detach() in {}", call.place()),
            "losses that are summed or listed over steps keep each step's activations",
        ));
    }
    if case.stack.calls().any(StackCall::is_of_a_notebook) {
        finding.advice.push(because(
            "the kernel restarted, if cells ran before",
            "their variables, and the last traceback, keep tensors on the GPU",
        ));
    }
    Some(finding)
}

/// What the model needs beside its activations, or a step of one sample that is changed in every way that oomph knows, is too
/// much: no remedy of one GPU's training helps.
fn model_itself(case: &OomContext, room: Bytes) -> Option<Finding> {
    let by_optimizer = case
        .optimizer_step()
        .filter(|step| step.as_it_is.alone() > room);
    let (whole, how) = match (&by_optimizer, case.least_is_too_much()) {
        // The step itself has failed: that is another finding.
        (Some(_), _) if case.phase == Phase::Optimizer => return None,
        (Some(step), _) => {
            let now = step.as_it_is;
            let whole = WholeStep {
                parameters: now.parameters,
                gradients: now.gradients,
                optimizer: now.state + now.temporaries,
                ..WholeStep::default()
            };
            (
                whole,
                format!("without any activations, in the step of {}", step.class()),
            )
        }
        (None, Some(least)) => (
            least,
            "rehearsed for one sample, with the least of checkpointing and bf16".into(),
        ),
        (None, None) => return None,
    };
    let parts = parts_of(&whole);
    let too_much = whole.total() - room;
    let opening = format!("The model itself is {too_much} too large for this GPU");
    let summands: Vec<(Bytes, &str)> = parts.iter().map(|(name, n)| (*n, *name)).collect();
    let headline = with_figures(&opening, Sum(&summands).against(room));
    let mut finding = case
        .finding(Cause::Capacity, Certainty::Certain, headline)
        .says(format!("That is what it needs {how}."))
        .says_if(case.failed_where())
        .shows(parts);
    finding.too_large_by = Some(too_much);
    let over = |gpus: u64| {
        let sharded = whole.parameters + whole.gradients + whole.optimizer;
        whole.total() - sharded + sharded.scale(1.0 / gpus as f64) <= room
    };
    if let Some(gpus) = (2..=MOST_GPUS).find(|gpus| over(*gpus)) {
        finding.advice.push(because(
            &format!("at least {gpus} GPUs, with the model sharded over them"),
            "FSDP, ZeRO-3",
        ));
    }
    if let Some(step) = by_optimizer {
        finding.advice.extend(alternatives(case, &step, room));
    }
    finding.advice.extend([
        because("parts of it in host memory", "CPU offload"),
        "a smaller model".into(),
    ]);
    Some(finding)
}

/// The step was rehearsed, so the need of the whole step is known, not only what it had allocated.
fn whole_step(case: &OomContext, whole: WholeStep, room: Bytes) -> Finding {
    let parts = parts_of(&whole);
    let summands: Vec<(Bytes, &str)> = parts.iter().map(|(name, n)| (*n, *name)).collect();
    let sum = Sum(&summands).against(room);
    let headline = with_figures("The whole step does not fit", sum);
    let mut finding = case
        .finding(Cause::Capacity, Certainty::Certain, headline)
        .says_if(
            case.allocated
                .zip(case.asked())
                .map(|(allocated, asked)| format!("It failed at {allocated} allocated + {asked}.")),
        )
        .says_if(case.failed_where())
        .says("Rehearsed: the step's allocations, computed without running it.")
        .shows(parts);
    finding.advice = advice(case);
    finding
}

/// The parts of a step with their names, those that there are.
fn parts_of(whole: &WholeStep) -> Vec<(&'static str, Bytes)> {
    let named = [
        ("activations", whole.activations),
        ("parameters", whole.parameters),
        ("gradients", whole.gradients),
        ("optimizer state", whole.optimizer),
        ("other", whole.other),
    ];
    let parts = named.into_iter();
    parts.filter(|(_, n)| *n > Bytes::ZERO).collect()
}

/// "Only 7 MiB is cached, so this is not fragmentation; no other process is on the GPU."
fn ruled_out(case: &OomContext) -> String {
    let fragments = match (case.cached, case.requested) {
        (Some(cached), Some(requested)) => {
            let with_free = cached + case.free.unwrap_or(Bytes::ZERO);
            if with_free < requested {
                format!("only {cached} is cached, so this is not fragmentation")
            } else {
                format!("{cached} is cached")
            }
        }
        (_, _) => "the size of the cache is unknown".into(),
    };
    sentence(&format!("{fragments}; {}", foreign_process::clause(case)))
}

/// Why a sum that is less than the GPU has does not fit.
fn remains(case: &OomContext) -> Option<String> {
    let (cached, free) = (case.cached?, case.free?);
    let requested = case.requested?;
    let piece = match case.largest_free.filter(|piece| *piece < requested) {
        Some(piece) => format!("in pieces of at most {piece}"),
        None => "in pieces".into(),
    };
    let left = cached + free;
    let whole = match case.fits_barely() {
        true => "Even in one piece it would barely fit.",
        false => "In one piece that would do for this request, but the GPU is nearly full.",
    };
    Some(format!(
        "{left} remain, but not in one piece: PyTorch has {cached} cached {piece}, and {free} is free on the GPU. {whole}"
    ))
}

fn made_of(case: &OomContext, allocated: Bytes) -> Option<String> {
    if case.phase == Phase::Load {
        return None;
    }
    let (structure, unnamed) = (case.structure?, case.unnamed()?);
    let baseline = structure.total();
    if unnamed.fraction_of(allocated)? >= MOST {
        // What has leaked is no activation of this step.
        return Some(match leak::leaked(case) {
            Some(leaked) => {
                let rest = unnamed - leaked;
                format!(
                    "{leaked} of it is {KEPT}, {rest} the step's activations and other tensors."
                )
            }
            None => format!(
                "{unnamed} of it is activations and other tensors that grow with the batch."
            ),
        });
    }
    Some(format!(
        "{baseline} of it is parameters, gradients and optimizer state, which a smaller batch does not reduce."
    ))
}

/// What transformers asks for before it loads a model is the size of its weights.
fn weights_alone(case: &OomContext, requested: Bytes, capacity: Bytes) -> Option<Finding> {
    let mut calls = case.stack.calls();
    calls.find(|call| call.function == "caching_allocator_warmup")?;
    let what = format!("The model's weights of {requested} are more than the GPU has");
    let headline = with_figures(&what, capacity.to_string());
    let finding = case
        .finding(Cause::Capacity, Certainty::Certain, headline)
        .says("They are given room as a whole before the first is loaded.")
        .says_if(case.failed_where());
    Some(finding.advises(of_model()))
}

fn larger_than_the_gpu(case: &OomContext, requested: Bytes, capacity: Bytes) -> Finding {
    let one = format!("One allocation of {requested} is more than the GPU has");
    let headline = with_figures(&one, capacity.to_string());
    if let Some(finding) = weights_alone(case, requested, capacity) {
        return finding;
    }
    let line = match case.stack.own() {
        Some(call) => call.place(),
        None => "the line that failed".into(),
    };
    let smaller = match case.phase {
        Phase::Load => None,
        Phase::Evaluation => Some("a smaller batch in evaluation, if that tensor grows with it"),
        Phase::Forward | Phase::Backward | Phase::Optimizer | Phase::Unknown => {
            Some("a smaller batch, if that tensor grows with it")
        }
    };
    let check = format!("check the size of the tensor at {line}");
    case.finding(Cause::Capacity, Certainty::Certain, headline)
        .says("It would fail on an empty GPU too.")
        .says_if(case.failed_where())
        .advises([check].into_iter().chain(smaller.map(str::to_string)))
}

fn unsure(case: &OomContext, certainty: Certainty, headline: impl Into<Phrase>) -> Finding {
    case.finding(Cause::Capacity, certainty, headline)
}

/// A library other than PyTorch (or PyTorch itself, if its message failed) found no memory.
/// torch 2.1 to 2.12 may fail in NVML while it writes the OOM message.
fn message_lost(case: &OomContext) -> Finding {
    let headline = match (case.allocated, case.capacity) {
        (Some(allocated), Some(capacity)) => {
            let figures = format!("{allocated} allocated, {capacity} on the GPU");
            with_figures("PyTorch ran out of memory", figures)
        }
        (_, _) => "PyTorch ran out of memory.".into(),
    };
    unsure(case, Certainty::Possible, headline)
        .says("It failed in an NVML call while writing the OOM message, so the message and its numbers are lost.")
        .says(foreign_process::clause_sentence(case))
        .says_if(case.caveat())
        .advises([SMALLER_BATCH])
}

/// XLA's messages of a TPU have figures of the chip's memory, none of an allocation that failed.
fn on_a_tpu(case: &OomContext) -> Finding {
    let headline = "The program does not fit into the TPU's memory (HBM).";
    unsure(case, Certainty::Likely, headline)
        .says("It is the chip's own memory, not the host's; XLA needs room for the whole step before it runs.")
        .says_if(case.failed_where())
        .advises([
            SMALLER_BATCH.into(),
            because("activations recomputed", "jax.checkpoint, torch_xla's checkpoint"),
            because("the model sharded over more chips", "FSDP, SPMD"),
        ])
}

fn without_figures(case: &OomContext) -> Finding {
    if case.kind == OomKind::TpuOom {
        return on_a_tpu(case);
    }
    let headline = match (case.asked(), case.allocated) {
        (Some(asked), Some(allocated)) => with_figures(
            "It ran out of memory",
            format!("{asked} with {allocated} allocated"),
        ),
        (Some(asked), None) => with_figures("It ran out of memory", asked),
        (None, _) => "It ran out of memory.".into(),
    };
    let missing: Vec<&str> = [
        ("the requested size", case.requested),
        ("the allocated memory", case.allocated),
        ("the GPU's capacity", case.capacity),
    ]
    .into_iter()
    .filter(|(_, bytes)| bytes.is_none())
    .map(|(what, _)| what)
    .collect();
    let are = if missing.len() > 1 { "are" } else { "is" };
    let missing = match missing.split_last() {
        Some((last, [])) => (*last).to_string(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    };
    unsure(case, Certainty::Possible, headline)
        .says(sentence(&format!(
            "{missing} {are} unknown, so the cause cannot be determined"
        )))
        .says_if(case.failed_where())
        .advises(match case.stack.doing(Situation::Pipeline) {
            Some(call) => of_pipeline(&call),
            None => other_frameworks::advice(case)
                .or_else(|| beside_training::advice(case))
                .unwrap_or_else(|| vec![SMALLER_BATCH.into()]),
        })
}

/// The finding when no rule has one.
pub(super) fn nothing_else(case: &OomContext) -> Finding {
    match case.needed().zip(case.capacity) {
        Some((needed, capacity)) => unexplained(case, needed, capacity),
        None => without_figures(case),
    }
}

/// All figures are known, and by them it should have fit.
fn unexplained(case: &OomContext, needed: Bytes, capacity: Bytes) -> Finding {
    let figures = format!("{needed} needed, {capacity} on the GPU");
    let headline = with_figures("The numbers do not explain it", figures);
    unsure(case, Certainty::Possible, headline)
        .says_if(case.free.map(|free| {
            format!("{free} was free when the message was written; another process may have used more a moment before.")
        }))
        .says(foreign_process::clause_sentence(case))
        .says_if(case.caveat())
        .advises([case.see_who_is_there()])
}

/// What would help a training that simply needs too much, most useful first: each suggestion is sorted by
/// the bytes that it would save here, which are measured or computed. If the parts of the memory are
/// unknown, the order is a fixed one and no numbers are given.
fn advice(case: &OomContext) -> Vec<Phrase> {
    if case.kind == OomKind::MpsOom {
        return of_mps();
    }
    if let Some(call) = case.stack.doing(Situation::Pipeline) {
        return of_pipeline(&call);
    }
    if let Some(advice) = beside_training::advice(case) {
        return advice;
    }
    match case.phase {
        Phase::Load if case.built_model().is_some() => training(case),
        Phase::Load if case.places_data() => {
            let kept = because(
                "the data in RAM, and each batch moved to the GPU",
                "pin_memory=True, .to(device, non_blocking=True)",
            );
            [vec![kept], of_model()].concat()
        }
        Phase::Load => of_model(),
        Phase::Evaluation => evaluation(case),
        Phase::Forward | Phase::Backward | Phase::Optimizer | Phase::Unknown => training(case),
    }
}

/// What helps where a model alone is too large.
fn of_model() -> Vec<Phrase> {
    vec![
        because(
            "the weights in lower precision",
            "bf16; 8 or 4 bits for inference",
        ),
        because(
            "more GPUs, with the parameters sharded over them",
            "FSDP, ZeRO-3, device_map",
        ),
        because(
            "a smaller model, or parts of it in host memory",
            "CPU offload",
        ),
    ]
}

/// What helps on an Apple GPU, whose memory is the host's.
fn of_mps() -> Vec<Phrase> {
    vec![
        "a smaller batch size, with gradient accumulation to keep the effective batch".into(),
        because(
            "give the cache back between steps",
            "torch.mps.empty_cache()",
        ),
        "close other programs: the GPU's memory is the RAM".into(),
        because(
            "no limit, at the risk of swapping",
            "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 in front of the command",
        ),
    ]
}

/// What helps where nothing is trained.
fn of_pipeline(call: &StackCall<'_>) -> Vec<Phrase> {
    let smaller: Phrase = "a smaller height and width, fewer frames or images at a time".into();
    match call.file.contains("diffusers/") {
        true => vec![
            because(
                "decode in tiles",
                "pipe.vae.enable_tiling(), pipe.vae.enable_slicing()",
            ),
            because(
                "what does not run lies in RAM",
                "pipe.enable_model_cpu_offload()",
            ),
            smaller,
        ],
        false => vec![
            because(
                "what does not run lies in RAM",
                "--lowvram; stable-diffusion-webui: --medvram",
            ),
            because("decode in tiles", "\"VAE Decode (Tiled)\""),
            smaller,
        ],
    }
}

fn evaluation(case: &OomContext) -> Vec<Phrase> {
    let mut advice: Vec<Phrase> = Vec::new();
    match case.record().map(|record| record.grad_enabled) {
        Some(Some(true)) => advice.push("torch.inference_mode() around the evaluation".into()),
        Some(Some(false) | None) => {}
        None => {
            advice.push("torch.no_grad() around the evaluation, if it is not there already".into());
        }
    }
    // Training leaves its own sizes of blocks in the cache, which an evaluation can't use.
    if let Some(cached) = case
        .cached
        .filter(|_| case.cache_is_notable() == Some(true))
    {
        let words = "torch.cuda.empty_cache() between training and evaluation";
        advice.push(format!("{words}: {cached} is cached").into());
    }
    // With gradients every batch keeps its activations, however small: a smaller one only comes further.
    if case.record().and_then(|record| record.grad_enabled) != Some(true) {
        advice.push("a smaller batch in evaluation".into());
    }
    advice.push("moving outputs to the host as they are produced (.cpu()), not at the end".into());
    advice
}

fn training(case: &OomContext) -> Vec<Phrase> {
    let (Some(structure), Some(rest)) = (case.structure, case.unnamed()) else {
        return usual(case);
    };
    // What is a remedy as well is predicted there, better than by these shares: one figure for one thing.
    let mut suggestions: Vec<(Phrase, Bytes)> = vec![
        (
            format!("{CHECKPOINTING} (torch.utils.checkpoint)").into(),
            rest.scale(1.0 - CHECKPOINTING_LEAVES.1),
        ),
        (TO_KEEP_THE_EFFECTIVE_BATCH[1].into(), rest.scale(HALF)),
        (
            format!("{PRECISION} (bf16)").into(),
            rest.scale(1.0 - AUTOCAST_LEAVES.1),
        ),
    ];
    let mut elsewhere: Vec<(String, Bytes)> = vec![(
        "an 8-bit optimizer".into(),
        structure.optimizer_state.scale(EIGHT_BIT_ADAM_SAVES),
    )];
    match zero::ledger(case) {
        Some(zero) => elsewhere.extend(zero::suggestions(zero)),
        None => elsewhere.extend([
            (
                "a second GPU, with parameters, gradients and optimizer state sharded over both (FSDP, ZeRO-3)".into(),
                structure.total().scale(HALF),
            ),
            (
                "the optimizer state in host memory (CPU offload)".into(),
                structure.optimizer_state,
            ),
        ]),
    }
    if keeps_gradients(case) {
        let words = "optimizer.zero_grad(set_to_none=True)".into();
        elsewhere.push((words, structure.gradients));
    }
    suggestions.extend(elsewhere.into_iter().map(|(words, saved)| {
        let words = format!("{words}: about {saved} less");
        (words.into(), saved)
    }));
    let missing = match (case.needed(), case.own_room()) {
        (Some(needed), Some(room)) => needed - room,
        (_, _) => Bytes::ZERO,
    };
    let worth = missing.scale(WORTH).max(Bytes::mib(1));
    suggestions.retain(|(_, saved)| *saved >= worth);
    // Of two that save the same, one that leaves the training unchanged comes first.
    suggestions.sort_by_key(|(_, saved)| std::cmp::Reverse(*saved));
    if suggestions.is_empty() {
        return usual(case);
    }
    suggestions.truncate(MOST_ADVICE);
    suggestions.into_iter().map(|(words, _)| words).collect()
}

/// Whether gradients are live during the forward pass: before torch 2.0 `zero_grad` filled them
/// with zeros by default.
fn keeps_gradients(case: &OomContext) -> bool {
    let version = case.rank.map(|rank| rank.hello.torch.as_str());
    case.phase == Phase::Forward && version.is_some_and(|version| version.starts_with("1."))
}

/// What helps most trainings.
fn usual(case: &OomContext) -> Vec<Phrase> {
    if let Some(settings) = zero::by_traceback(&case.stack) {
        return settings;
    }
    if case.phase != Phase::Optimizer
        && let Some(settings) = own_settings::advice(&case.stack)
    {
        return settings;
    }
    match case.phase {
        Phase::Optimizer => vec![
            because(
                "an optimizer with less state (8-bit, Adafactor), or its state sharded over GPUs",
                "ZeRO",
            ),
            "foreach=False in the optimizer, which needs less memory in its step".into(),
        ],
        Phase::Load | Phase::Evaluation | Phase::Forward | Phase::Backward | Phase::Unknown => {
            vec![
                TO_KEEP_THE_EFFECTIVE_BATCH[0].into(),
                because(PRECISION, "bf16"),
                because(CHECKPOINTING, "torch.utils.checkpoint"),
            ]
        }
    }
}
