//! Another process on the device: of another user or program, of an earlier run of ours that is
//! still alive, or another rank on the same device by mistake.

use super::finding::{because, sentence, with_figures};
use super::oom_context::{OomContext, Other, Relation};
use super::situation::Situation;
use super::{Cause, CauseSpec, Certainty, Finding, Help, Phrase};
use crate::calibration::{FIXED, NON_TORCH_AT_MOST};
use crate::oom::OomSign;
use crate::units::Bytes;

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("another process", examine).prefers(Help::AnotherDevice);

/// The share of the GPU from which another process counts: a desktop or a monitor uses less.
const NOTABLE: f64 = 0.05;

/// The share of the GPU from which contexts of a training's own ranks do.
const NOTABLE_CONTEXTS: f64 = 0.015;

/// A CUDA context takes no less.
const SMALLEST_CONTEXT: Bytes = Bytes::mib(150);

/// Contexts of one program differ by no more than this.
const ALIKE: f64 = 0.8;

/// From here on what nobody is listed with is told: the driver itself keeps less.
const UNLISTED: Bytes = Bytes::mib(640);

/// The share of the GPU that must be unaccounted for to suspect an unlisted process.
pub(super) const NOTABLE_UNNAMED: f64 = 0.1;

/// What a message's figures, in hundredths of a GiB, may be off.
const ROUNDED: Bytes = Bytes::mib(16);

/// The share of a GPU that JAX takes at its start, unless it is told otherwise (XLA_PYTHON_CLIENT_MEM_FRACTION).
const JAX_TAKES: f64 = 0.75;

/// The share from which one is likely.
const MUCH_UNNAMED: f64 = 0.25;

/// Said where a checkpoint is loaded and nothing is known of the others.
const LOADING_RANKS: &str = "Most likely other ranks of this training, which load the same checkpoint onto this GPU, or another process.";

pub(super) const EACH_WORKER: &str = "Each worker is a process with a CUDA context of its own (300 to 600 MiB) and its own copy of what it puts there.";

/// What helps where workers of a DataLoader use the GPU.
pub(super) fn of_workers() -> Vec<Phrase> {
    vec![
        because(
            "CPU tensors from the dataset and collate_fn",
            "each batch moved by the training loop: pin_memory=True, .to(device, non_blocking=True)",
        ),
        because(
            "num_workers=0, if it has to run on the GPU",
            "one process has it once; or compute it before the training, and load the results",
        ),
        because(
            "no default device in workers",
            "torch.set_default_device(\"cuda\") and tensors that a dataset keeps on the GPU count as well",
        ),
    ]
}

fn examine(case: &OomContext) -> Option<Finding> {
    if case.stack.doing(Situation::LoaderWorker).is_some() {
        return None;
    }
    match &case.others {
        Some(_) if case.is_beside_an_engine() => None,
        Some(_) => named(case).filter(|finding| finding.cause == Cause::ForeignProcess),
        None => at_the_start(case).or_else(|| unnamed(case)),
    }
}

/// A framework that takes most of the GPU before it runs anything found less of it free.
fn at_the_start(case: &OomContext) -> Option<Finding> {
    let asked = case
        .asked()
        .filter(|_| case.sign() == Some(OomSign::Preallocation))?;
    let what = "Less of the GPU is free than TensorFlow takes at its start";
    Some(
        case.finding(Cause::ForeignProcess, Certainty::Likely, with_figures(what, asked))
            .says("Another process has the rest, or PyTorch in this one. TensorFlow goes on with less, if that is enough.")
            .advises([
                case.see_who_is_there(),
                because("no more than it needs", "TF_FORCE_GPU_ALLOW_GROWTH=true"),
                case.another_gpu(),
            ]),
    )
}

/// The finding about the processes that are listed; its cause is that of the largest of them.
pub(super) fn named(case: &OomContext) -> Option<Finding> {
    let others = case.others.as_deref()?;
    let used = case.other_processes?;
    let capacity = case.capacity?;
    // There was room: what was in the way is the training's own limit.
    let is_limited = case.limit.is_some_and(|limit| limit < capacity);
    if is_limited
        && case
            .requested
            .zip(case.free)
            .is_some_and(|(requested, free)| free >= requested)
    {
        return None;
    }
    let share = used.fraction_of(capacity)?;
    let contexts = contexts_of_ranks(case, others);
    let cause = match (
        contexts,
        others.iter().max_by_key(|other| other.bytes)?.relation,
    ) {
        (true, _) | (_, Relation::Rank(_)) => Cause::OwnRanks,
        (_, Relation::LoaderWorker) => Cause::GpuInWorkers,
        (_, Relation::Earlier(_) | Relation::Orphan) => Cause::LeftoverProcess,
        (_, Relation::Stranger | Relation::SameProgram) => Cause::ForeignProcess,
    };
    let are_workers = cause == Cause::GpuInWorkers;
    let least = match contexts || are_workers {
        true => NOTABLE_CONTEXTS,
        false => NOTABLE,
    };
    if share < least {
        return None;
    }
    let fits_alone = case
        .needed()
        .zip(case.own_room())
        .map(|(needed, room)| (needed <= room, needed.scale(FIXED.1) <= room));
    let would_do = case
        .requested
        .zip(case.free)
        .map(|(requested, free)| free + used >= requested);
    let certainty = match (fits_alone, would_do) {
        (Some((true, true)), Some(true)) => Certainty::Certain,
        (Some((true, _)), Some(true) | None) => Certainty::Likely,
        (Some((false, _)), _) | (_, Some(false)) => Certainty::Possible,
        // No PyTorch figures: for example, the first CUDA call failed.
        (None, Some(true) | None) if share >= 0.5 => Certainty::Likely,
        (None, Some(true) | None) => Certainty::Possible,
    };
    let largest = others.iter().max_by_key(|other| other.bytes);
    let who = match (others, largest) {
        ([only], _) => name_of(only),
        ([], _) | (_, None) => "A process that NVML does not list".into(),
        (_, Some(largest)) => format!(
            "{} and {} more",
            name_of(largest),
            match others.len() - 1 {
                1 => "one".into(),
                more => more.to_string(),
            }
        ),
    };
    let plural = if others.len() > 1 { "use" } else { "uses" };
    let sum = case.needed().filter(|needed| *needed + used > capacity);
    let sum = sum.and_then(|_| case.sum(Some((used, "theirs"))));
    let uses = match (contexts, others.len()) {
        (true, ranks) => {
            format!("{ranks} other ranks of this training use {used} of this GPU's {capacity}")
        }
        (false, workers) if workers > 1 && others.iter().all(Other::is_a_worker) => {
            format!("{workers} workers of the DataLoader use {used} of the GPU's {capacity}")
        }
        (false, _) => format!("{who} {plural} {used} of the GPU's {capacity}"),
    };
    let headline = match sum {
        Some(sum) => with_figures(&uses, sum(capacity)),
        None => Phrase::from(format!("{uses}.")),
    };
    let alone = match (fits_alone, case.needed()) {
        (Some((true, _)), Some(needed)) => Some(format!(
            "With the GPU to itself, the training would have had the {needed} it needed here."
        )),
        (Some((false, _)), Some(needed)) => Some(format!(
            "Even with the GPU to itself, the training would not fit: it needed {needed} here."
        )),
        (_, _) => None,
    };
    let another_gpu = case.another_gpu();
    let is_jaxs = largest.is_some_and(|largest| may_be_jaxs(largest, capacity));
    let set_device =
        "give each rank its own GPU: torch.cuda.set_device(LOCAL_RANK) before the first CUDA call";
    let advice = match largest.map(|other| other.relation) {
        _ if contexts => vec![
            set_device.into(),
            because(
                "load onto the rank's own GPU",
                "torch.load with map_location=\"cpu\"",
            ),
            because(
                "no cuda:0 or .cuda() before that",
                "also in imports, and in workers of a DataLoader",
            ),
        ],
        Some(Relation::Stranger | Relation::SameProgram) | None => {
            let no_more = because(
                "no more than it needs, if it is JAX's",
                "XLA_PYTHON_CLIENT_PREALLOCATE=false in front of that process",
            );
            let usual = [
                another_gpu,
                "wait until the other process has ended, or ask its owner".into(),
            ];
            is_jaxs
                .then_some(no_more)
                .into_iter()
                .chain(usual)
                .collect()
        }
        Some(Relation::Rank(_)) => vec![set_device.into()],
        Some(Relation::LoaderWorker) => of_workers(),
        Some(Relation::Earlier(_)) => {
            vec!["stop the process left over from the earlier run".into()]
        }
        Some(Relation::Orphan) => vec![
            because("stop it if nobody needs it", &largest_kill(largest)),
            another_gpu,
        ],
    };
    // A message alone has no more than their sizes. Whoever loads without saying where to does so beside the other ranks.
    let loads = case.stack.doing(Situation::CheckpointLoading).is_some()
        && cause == Cause::ForeignProcess
        && others.iter().all(Other::is_unknown);
    let certainty = match loads {
        true => Certainty::Possible,
        false => certainty,
    };
    let finding = case
        .finding(cause, certainty, headline)
        .says_if(loads.then_some(LOADING_RANKS))
        .says_if(contexts.then_some(
            "They are no bigger than CUDA contexts: these ranks train on other GPUs, and have touched this one by mistake.",
        ))
        .says_if(is_jaxs.then_some(
            "Three quarters of a GPU are what JAX takes at its start, whatever it needs.",
        ))
        .says_if(are_workers.then_some(EACH_WORKER))
        .says_if(match largest.map(|other| other.relation) {
            Some(Relation::Orphan) => Some(
                "It runs the same program, and what started it is gone: most likely it is left over from an earlier run.",
            ),
            Some(Relation::SameProgram) => {
                Some("It runs the same program: another training, a process of this one, or what is left of an earlier run.")
            }
            _ => None,
        })
        .says_if(alone)
        .says_if(case.caveat())
        .shows_first([("other processes", used)])
        .advises(advice);
    Some(Finding {
        other_process: largest.map(|other| other.pid),
        ..finding
    })
}

/// Whether the other processes are contexts of the same training's ranks: nothing but their size and number tells, where only
/// a message does.
fn contexts_of_ranks(case: &OomContext, others: &[Other]) -> bool {
    let sizes: Vec<Bytes> = others.iter().filter_map(|other| other.bytes).collect();
    let (Some(least), Some(most)) = (sizes.iter().min(), sizes.iter().max()) else {
        return false;
    };
    let are_ranks = others
        .iter()
        .all(|other| matches!(other.relation, Relation::Rank(_)));
    let are_alike = most.scale(ALIKE) <= *least
        && sizes.len() == others.len()
        && !others.iter().any(Other::is_a_worker);
    let is_one_of_many = case.oom.rank.is_some() && others.len() >= 2 || others.len() >= 3;
    *most <= NON_TORCH_AT_MOST
        && *least >= SMALLEST_CONTEXT
        && (are_ranks || are_alike && is_one_of_many)
}

/// Whether a process that nobody knows has just what JAX takes, and a context beside it.
fn may_be_jaxs(other: &Other, capacity: Bytes) -> bool {
    let (least, bytes) = (capacity.scale(JAX_TAKES), other.bytes.unwrap_or_default());
    let is_so_much = bytes + ROUNDED >= least && bytes <= least + NON_TORCH_AT_MOST;
    let is_strange = matches!(other.relation, Relation::Stranger | Relation::SameProgram);
    is_so_much && is_strange
}

/// "kill 4021"
fn largest_kill(largest: Option<&Other>) -> String {
    largest.map_or_else(String::new, |other| format!("kill {}", other.pid))
}

fn name_of(other: &Other) -> String {
    let pid = other.pid;
    match other.relation {
        Relation::Rank(Some(rank)) => {
            format!("Rank {rank} of this same training (process {pid})")
        }
        Relation::Rank(None) => format!("Another process of this same training ({pid})"),
        Relation::Earlier(run) => format!("Process {pid}, left over from run {run},"),
        Relation::LoaderWorker => format!("A worker of the DataLoader (process {pid})"),
        Relation::Stranger | Relation::SameProgram | Relation::Orphan => {
            match (&other.name, &other.user) {
                (Some(name), Some(user)) => format!("Process {pid} ({user}'s {name})"),
                (Some(name), None) => format!("Process {pid} ({name})"),
                (None, Some(user)) => format!("Process {pid} ({user}'s)"),
                (None, None) => format!("Another process ({pid})"),
            }
        }
    }
}

/// No list of processes, but more of the GPU is used than PyTorch reserved: by another process, or
/// by this one outside of PyTorch.
fn unnamed(case: &OomContext) -> Option<Finding> {
    let (capacity, elsewhere) = (case.capacity?, case.elsewhere?);
    let requested = case.requested?;
    let beyond_usual = elsewhere - case.non_pytorch.unwrap_or(NON_TORCH_AT_MOST);
    let share = beyond_usual.fraction_of(capacity)?;
    let would_do = case.free? + beyond_usual >= requested;
    let fits_alone = case.needed()? <= capacity;
    if share < NOTABLE_UNNAMED || !would_do || !fits_alone {
        return None;
    }
    let headline = format!(
        "{elsewhere} of the GPU's {capacity} is used by something other than this process's PyTorch."
    );
    // Whoever loads a checkpoint without saying where to loads it onto the GPU that it was saved on, and so do the other ranks.
    let loads = case.stack.doing(Situation::CheckpointLoading).is_some();
    Some(
        case.finding(
            Cause::ForeignProcess,
            Certainty::likely_if(share >= MUCH_UNNAMED && !loads),
            headline,
        )
        .says(match loads {
            true => LOADING_RANKS,
            false => "Most likely another process uses it, otherwise libraries in this one.",
        })
        .says_if(case.caveat())
        .shows_first([("outside PyTorch", elsewhere)])
        .advises([case.see_who_is_there(), case.another_gpu()]),
    )
}

/// "no other process is on the GPU"
pub(super) fn clause(case: &OomContext) -> String {
    match (&case.others, case.other_processes, case.elsewhere) {
        (Some(others), _, Some(elsewhere))
            if others.is_empty()
                && elsewhere - case.non_pytorch.unwrap_or(elsewhere) > UNLISTED =>
        {
            let unlisted = elsewhere - case.non_pytorch.unwrap_or(elsewhere);
            format!("{unlisted} more is used by a desktop or by processes that are not listed")
        }
        (Some(others), _, _) if others.is_empty() => "no other process is on the GPU".into(),
        (Some(others), Some(used), _) if others.len() == 1 => {
            format!("another process uses {used}")
        }
        (Some(_), Some(used), _) => format!("other processes use {used}"),
        (Some(_), None, _) => "other processes are on the GPU".into(),
        // Too little memory is used outside of PyTorch for another process.
        (None, _, Some(elsewhere)) if elsewhere <= NON_TORCH_AT_MOST => {
            format!("at most {elsewhere} of the GPU is used outside PyTorch")
        }
        (None, _, _) => "other processes may be on the GPU".into(),
    }
}

/// "No other process is on the GPU."
pub(super) fn clause_sentence(case: &OomContext) -> String {
    sentence(&clause(case))
}
