//! Another process on the device: of another user or program, of an earlier run of ours that is
//! still alive, or another rank on the same device by mistake.

use super::finding::{because, sentence, with_figures};
use super::oom_context::{OomContext, Other, Relation};
use super::{Cause, CauseSpec, Certainty, Finding, Help, Phrase};
use crate::calibration::{FIXED, NON_TORCH_AT_MOST};

pub(super) const CAUSE: CauseSpec =
    CauseSpec::new("another process", examine).prefers(Help::AnotherDevice);

/// The share of the GPU from which another process counts: a desktop or a monitor uses less.
const NOTABLE: f64 = 0.05;

/// The share of the GPU that must be unaccounted for to suspect an unlisted process.
pub(super) const NOTABLE_UNNAMED: f64 = 0.1;

/// The share from which one is likely.
const MUCH_UNNAMED: f64 = 0.25;

fn examine(case: &OomContext) -> Option<Finding> {
    match &case.others {
        Some(others) => named(case, others),
        None => unnamed(case),
    }
}

fn named(case: &OomContext, others: &[Other]) -> Option<Finding> {
    let used = case.other_processes?;
    let capacity = case.capacity?;
    let share = used.fraction_of(capacity)?;
    if share < NOTABLE {
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
    let uses = format!("{who} {plural} {used} of the GPU's {capacity}");
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
    let another_gpu = because("another GPU", "CUDA_VISIBLE_DEVICES");
    let advice = match largest.map(|other| other.relation) {
        Some(Relation::Stranger) | None => vec![
            another_gpu,
            "wait until the other process has ended, or ask its owner".into(),
        ],
        Some(Relation::Rank(_)) => vec![
            "give each rank its own GPU: torch.cuda.set_device(LOCAL_RANK) before the first CUDA call".into(),
        ],
        Some(Relation::Earlier(_)) => vec!["stop the process left over from the earlier run".into()],
    };
    let finding = case
        .finding(Cause::ForeignProcess, certainty, headline)
        .says_if(alone)
        .says_if(case.caveat())
        .shows_first([("other processes", used)])
        .advises(advice);
    Some(Finding {
        other_process: largest.map(|other| other.pid),
        ..finding
    })
}

fn name_of(other: &Other) -> String {
    let pid = other.pid;
    match other.relation {
        Relation::Rank(Some(rank)) => {
            format!("Rank {rank} of this same training (process {pid})")
        }
        Relation::Rank(None) => format!("Another process of this same training ({pid})"),
        Relation::Earlier(run) => format!("Process {pid}, left over from run {run},"),
        Relation::Stranger => match (&other.name, &other.user) {
            (Some(name), Some(user)) => format!("Process {pid} ({user}'s {name})"),
            (Some(name), None) => format!("Process {pid} ({name})"),
            (None, Some(user)) => format!("Process {pid} ({user}'s)"),
            (None, None) => format!("Another process ({pid})"),
        },
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
    Some(
        case.finding(
            Cause::ForeignProcess,
            Certainty::likely_if(share >= MUCH_UNNAMED),
            headline,
        )
        .says("Most likely another process uses it, otherwise libraries in this one.")
        .says_if(case.caveat())
        .shows_first([("outside PyTorch", elsewhere)])
        .advises([
            because("see who is on the GPU", "nvidia-smi on the host"),
            because("another GPU", "CUDA_VISIBLE_DEVICES"),
        ]),
    )
}

/// "no other process is on the GPU"
pub(super) fn clause(case: &OomContext) -> String {
    match (&case.others, case.other_processes, case.elsewhere) {
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
