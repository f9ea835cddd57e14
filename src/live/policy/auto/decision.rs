//! The pure decision of what to do unattended after an OOM: by what the user permits in advance.
//!
//! It takes the least invasive remedy that is predicted to fit. Changing the training's numerics needs
//! permission, and so does restarting a run that had come far. The same plan is never tried twice, and
//! nothing is relaunched after a stop by the user or for a leak. For lack of host memory only what the cause names is
//! changed, and nothing that changes a number.

use crate::command::CommandLine;
use crate::diagnosis::Cause;
use crate::remedy::{
    Alteration, Expectation, FileCopy, Promise, Remedy, RemedyAction, RemedyEffect, RemedyId,
    promise,
};
use crate::state::RunOutcome;
use crate::units::{Bytes, clock_face};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Needed for what changes the training itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// Mixed precision.
    Amp,
    /// Activation checkpointing.
    Recompute,
    /// Activations that wait in RAM.
    Offload,
    /// An optimizer with a smaller state.
    Optimizer,
    /// Another effective batch size.
    EffectiveBatch,
    /// Starting over after ten minutes of training, or after a checkpoint was written.
    Restart,
}

impl Permission {
    pub fn word(self) -> &'static str {
        match self {
            Permission::Amp => "amp",
            Permission::Recompute => "recompute",
            Permission::Offload => "offload",
            Permission::Optimizer => "optimizer",
            Permission::EffectiveBatch => "effective-batch",
            Permission::Restart => "restart",
        }
    }
}

/// A kind of remedy, as the order names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum RemedyKind {
    /// Expandable segments.
    Segments,
    /// A smaller batch, accumulated.
    Batch,
    /// Another device.
    Device,
}

/// What relaunching unasked may do.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
pub struct AutoOptions {
    /// What `--on-oom auto` may change that alters results or loses progress
    #[arg(
        long,
        value_name = "amp,recompute,offload,optimizer,effective-batch,restart",
        value_delimiter = ','
    )]
    pub allow: Vec<Permission>,
    /// What `--on-oom auto` tries first
    #[arg(
        long,
        value_name = "segments,batch,device",
        value_delimiter = ',',
        default_value = "segments,batch,device"
    )]
    pub order: Vec<RemedyKind>,
    /// Maximum number of relaunches by `--on-oom auto`
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub max_relaunches: u32,
    /// Under SLURM: begin no run with less than this left to the job: 30m, 2h [default: what the last run took]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_time: Option<Duration>,
    /// Under SLURM: where the time left is too short, requeue the job with the remedy (scontrol requeue), at most twice
    #[arg(long)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requeue: bool,
}

/// `90s`, `30m`, `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a time such as 90s, 30m or 2h".to_string();
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, &text[number.len()..]),
        None => return Err(wrong()),
    };
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        _ => 3_600,
    };
    let number: u32 = number.trim().parse().map_err(|_| wrong())?;
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

/// A job is requeued as often as this; what preemption or a person requeues counts as well.
pub(crate) const MOST_REQUEUES: u32 = 2;

impl Default for AutoOptions {
    fn default() -> AutoOptions {
        AutoOptions {
            allow: Vec::new(),
            order: vec![RemedyKind::Segments, RemedyKind::Batch, RemedyKind::Device],
            max_relaunches: 3,
            min_time: None,
            requeue: false,
        }
    }
}

impl AutoOptions {
    fn allows(&self, permission: Permission) -> bool {
        self.allow.contains(&permission)
    }

    pub(super) fn permits(&self, alteration: Alteration) -> bool {
        needed_for(alteration).is_some_and(|permission| self.allows(permission))
    }

    /// The position of the last of these remedies in the order; those not in it come last.
    fn position(&self, remedies: &[RemedyId]) -> usize {
        let position = |id: &RemedyId| {
            let measure = match id {
                RemedyId::ExpandableSegments | RemedyId::MaxSplitSize | RemedyId::EarlyRelease => {
                    Some(RemedyKind::Segments)
                }
                RemedyId::Batch
                | RemedyId::FirstCandidate
                | RemedyId::SecondCandidate
                | RemedyId::ThirdCandidate => Some(RemedyKind::Batch),
                RemedyId::Device => Some(RemedyKind::Device),
                // Combined with any other.
                RemedyId::Resume => return 0,
                // Not in the user's order.
                RemedyId::Amp
                | RemedyId::Recompute
                | RemedyId::Offload
                | RemedyId::Optimizer
                | RemedyId::RecordStreams
                | RemedyId::ChunkedLoss
                | RemedyId::FusedAttention
                | RemedyId::EmptyCache
                | RemedyId::NoForeach
                | RemedyId::FusedOptimizer
                | RemedyId::OutputsToRam
                | RemedyId::LoadToCpu
                | RemedyId::DataloaderWorkers
                | RemedyId::PrefetchFactor
                | RemedyId::PinMemory
                | RemedyId::PersistentWorkers
                | RemedyId::SharingStrategy
                | RemedyId::HostLimit
                | RemedyId::NoLimit
                | RemedyId::Wait
                | RemedyId::StopLeftover
                | RemedyId::Together
                | RemedyId::Without
                | RemedyId::Reshard
                | RemedyId::GradientsInBuckets
                | RemedyId::ShardsInBf16
                | RemedyId::ShardsToRam
                | RemedyId::CompileBudget
                | RemedyId::CompileDynamic
                | RemedyId::SmallerSamples => None,
            };
            measure
                .and_then(|measure| self.order.iter().position(|known| *known == measure))
                .unwrap_or(usize::MAX)
        };
        remedies.iter().map(position).max().unwrap_or(usize::MAX)
    }
}

/// A run that took longer isn't restarted from the beginning unasked.
const FAR: Duration = Duration::from_secs(600);

/// Whether a run had written a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenCheckpoint {
    No,
    Yes,
    /// The disk did not answer in time.
    Unknown,
}

/// The situation at the end of a run.
#[derive(Debug, Clone)]
pub(super) struct AutoSituation<'a> {
    pub outcome: RunOutcome,
    /// Whether the user, or a signal from outside, asked it to stop.
    pub stop_requested: bool,
    /// Whether only a text says that memory ran out, which may be another program's.
    pub is_only_said: bool,
    pub cause: Option<Cause>,
    /// Whether the program runs in WSL2.
    pub wsl: bool,
    /// The job that this is one part of, if it is.
    pub part_of_a_job: Option<&'a str>,
    /// Relaunches so far.
    pub relaunches: u32,
    pub ran_for: Duration,
    /// The time left to the scheduler's job, where it says so.
    pub time_left: Option<Duration>,
    /// How often that job was requeued so far.
    pub requeued: u32,
    pub checkpoint: WrittenCheckpoint,
    pub candidates: &'a [Candidate],
    /// The commands so far.
    pub tried: &'a [CommandLine],
    /// By how much it is too large whatever is done to its activations.
    pub too_large: Option<TooLarge>,
}

/// What needs too much without any activations: the model, or the optimizer's step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TooLarge {
    pub by: Bytes,
    /// What would need less, and oomph cannot change.
    pub advice: Option<String>,
}

/// One remedy, or several together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    pub remedies: Vec<RemedyId>,
    /// The command with them.
    pub command: CommandLine,
    pub expectation: Expectation,
    pub alters: Vec<Alteration>,
    /// Edited copies of files that it needs.
    pub files: Vec<FileCopy>,
    /// Whether the command resumes from a checkpoint.
    pub resumes: bool,
    /// The remedies themselves.
    pub applied: Vec<Remedy>,
}

impl Candidate {
    /// Whether it is the very remedy for a cause of the host's memory, and the training's numbers stay as they are: another
    /// number of workers draws other random numbers.
    fn is_against(&self, cause: Cause) -> bool {
        let wanted = match cause {
            Cause::PrefetchQueue | Cause::SharedMemory => RemedyId::PrefetchFactor,
            Cause::PinnedMemory => RemedyId::PinMemory,
            Cause::OpenFiles => RemedyId::SharingStrategy,
            _ => return false,
        };
        let is_no_more = |id: &RemedyId| *id == wanted || *id == RemedyId::Resume;
        self.remedies.contains(&wanted) && self.remedies.iter().all(is_no_more)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum AutoDecision {
    Relaunch(usize),
    /// Not in this job's time: in that of the same job, requeued.
    Requeue(usize, Duration),
    Refuse(AutoVeto),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AutoVeto {
    NotOutOfMemory,
    /// The user, or a signal from outside, stopped it.
    Stopped,
    /// Nothing but a text says so.
    OnlySaid,
    /// Repeated out-of-memories take the host down there.
    Wsl,
    /// One part of a job must not be changed alone.
    PartOfAJob(String),
    /// The limit of relaunches is reached.
    Enough(u32),
    /// So much is left to the job, and so much is needed.
    NoTime(Duration, Duration),
    /// It would fail again whatever is changed.
    Cause(Cause),
    /// It would restart from the beginning.
    StartsOver,
    /// It might: whether it had written a checkpoint is not known.
    MayStartOver,
    Permission(Permission),
    Tried,
    /// Nothing is predicted to fit.
    NothingFits,
    /// No remedy can be applied to this command.
    NoRemedy,
    /// None helps.
    TooLarge(TooLarge),
}

pub(super) fn decide(situation: &AutoSituation<'_>, options: &AutoOptions) -> AutoDecision {
    if let Some(refusal) = veto(situation, options) {
        return AutoDecision::Refuse(refusal);
    }
    match (choose(situation, options), too_late(situation, options)) {
        (AutoDecision::Relaunch(index), Some((left, _)))
            if options.requeue && situation.requeued < MOST_REQUEUES =>
        {
            AutoDecision::Requeue(index, left)
        }
        (AutoDecision::Relaunch(_), Some((left, needed))) => {
            AutoDecision::Refuse(AutoVeto::NoTime(left, needed))
        }
        (decision, _) => decision,
    }
}

/// The time that is left and the one that is needed, where a run that begins now could not end: it takes at least as long
/// as the last one, which did not come to its end.
fn too_late(situation: &AutoSituation<'_>, options: &AutoOptions) -> Option<(Duration, Duration)> {
    let left = situation.time_left?;
    let needed = options.min_time.unwrap_or(situation.ran_for);
    (left < needed).then_some((left, needed))
}

/// A reason against any relaunch.
fn veto(situation: &AutoSituation<'_>, options: &AutoOptions) -> Option<AutoVeto> {
    match situation.outcome {
        RunOutcome::OutOfMemory => {}
        RunOutcome::Stopped => return Some(AutoVeto::Stopped),
        RunOutcome::Running
        | RunOutcome::Finished
        | RunOutcome::TrainedNothing
        | RunOutcome::Failed(_) => {
            return Some(AutoVeto::NotOutOfMemory);
        }
    }
    if situation.stop_requested {
        return Some(AutoVeto::Stopped);
    }
    if situation.is_only_said {
        return Some(AutoVeto::OnlySaid);
    }
    if situation.wsl {
        return Some(AutoVeto::Wsl);
    }
    if let Some(part) = situation.part_of_a_job {
        return Some(AutoVeto::PartOfAJob(part.to_string()));
    }
    if let Some(cause) = situation.cause
        && cause.spec().recurs.is_some()
        && !situation
            .candidates
            .iter()
            .any(|candidate| candidate.is_against(cause))
    {
        return Some(AutoVeto::Cause(cause));
    }
    (situation.relaunches >= options.max_relaunches)
        .then_some(AutoVeto::Enough(situation.relaunches))
}

fn choose(situation: &AutoSituation<'_>, options: &AutoOptions) -> AutoDecision {
    let starts_over = match situation.checkpoint {
        _ if options.allows(Permission::Restart) => None,
        WrittenCheckpoint::Yes => Some(AutoVeto::StartsOver),
        _ if situation.ran_for >= FAR => Some(AutoVeto::StartsOver),
        WrittenCheckpoint::Unknown => Some(AutoVeto::MayStartOver),
        WrittenCheckpoint::No => None,
    };
    let mut refusal = AutoVeto::NoRemedy;
    let mut best: Option<(Preference, usize)> = None;
    for (index, candidate) in situation.candidates.iter().enumerate() {
        let mut against = |reason: AutoVeto| {
            if weight(&reason) > weight(&refusal) {
                refusal = reason;
            }
        };
        let of_host = situation.cause.filter(|cause| cause.is_of_host());
        if of_host.is_some_and(|cause| !candidate.is_against(cause)) {
            continue;
        }
        let promise = promise(&candidate.remedies, &candidate.expectation, situation.cause);
        let Some(promise) = promise.filter(|promise| is_worth_a_run(*promise, candidate)) else {
            against(AutoVeto::NothingFits);
            continue;
        };
        if candidate.remedies.iter().any(|id| acts(*id)) {
            continue;
        }
        let masked = candidate.command.without_secrets();
        if situation.tried.contains(&masked) {
            against(AutoVeto::Tried);
            continue;
        }
        if let Some(missing) = missing(candidate, options) {
            against(AutoVeto::Permission(missing));
            continue;
        }
        if let Some(veto) = starts_over.as_ref().filter(|_| !candidate.resumes) {
            against(veto.clone());
            continue;
        }
        let is_last_resort = candidate.remedies.iter().any(|id| id.is_last_resort());
        let preference = Preference {
            is_uncertain: !matches!(promise, Promise::Fits | Promise::LikelyFits),
            is_last_resort,
            promise,
            altered: candidate.alters.len(),
            measure: options.position(&candidate.remedies),
            remedies: candidate.remedies.len(),
        };
        if best.is_none_or(|(of_best, _)| preference < of_best) {
            best = Some((preference, index));
        }
    }
    match best {
        Some((_, index)) => AutoDecision::Relaunch(index),
        None => AutoDecision::Refuse(match (refusal, &situation.too_large) {
            (AutoVeto::NoRemedy | AutoVeto::NothingFits, Some(too_large)) => {
                AutoVeto::TooLarge(too_large.clone())
            }
            (refusal, _) => refusal,
        }),
    }
}

/// The order of candidates: fits before may fit before unknown, and of those that fit what makes each step much slower last;
/// no changes of the training before changes, then the
/// order of measures, and few remedies before many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Preference {
    is_uncertain: bool,
    is_last_resort: bool,
    promise: Promise,
    altered: usize,
    measure: usize,
    remedies: usize,
}

/// Another GPU, of which nobody knows whether it has enough memory, is not taken unasked.
fn is_worth_a_run(promise: Promise, candidate: &Candidate) -> bool {
    let moves = |id: &RemedyId| id.spec().effect == RemedyEffect::MoreFree;
    match promise {
        Promise::Fits | Promise::LikelyFits | Promise::MayFit => true,
        Promise::Unknown => !candidate.remedies.iter().any(moves),
    }
}

/// Whether a remedy does more than edit arguments and environment.
fn acts(id: RemedyId) -> bool {
    id.spec().action == RemedyAction::Act
}

/// The permission that a candidate lacks.
fn missing(candidate: &Candidate, options: &AutoOptions) -> Option<Permission> {
    // Candidates that nobody can permit are left out before.
    let mut needed = candidate.alters.iter().copied().filter_map(needed_for);
    needed.find(|permission| !options.allows(*permission))
}

/// `None` for what nobody can permit beforehand.
fn needed_for(alteration: Alteration) -> Option<Permission> {
    match alteration {
        Alteration::EffectiveBatch | Alteration::BatchStatistics => {
            Some(Permission::EffectiveBatch)
        }
        Alteration::Precision => Some(Permission::Amp),
        Alteration::Recomputation => Some(Permission::Recompute),
        Alteration::Offloading => Some(Permission::Offload),
        Alteration::Optimizer => Some(Permission::Optimizer),
        Alteration::Samples => None,
    }
}

/// Of several reasons, the one that the user can do most about.
fn weight(refusal: &AutoVeto) -> u8 {
    match refusal {
        AutoVeto::NoRemedy => 0,
        AutoVeto::NothingFits => 1,
        AutoVeto::Tried => 2,
        AutoVeto::Permission(_) => 3,
        AutoVeto::StartsOver | AutoVeto::MayStartOver => 4,
        AutoVeto::NotOutOfMemory
        | AutoVeto::Stopped
        | AutoVeto::OnlySaid
        | AutoVeto::Wsl
        | AutoVeto::PartOfAJob(_)
        | AutoVeto::Enough(_)
        | AutoVeto::NoTime(..)
        | AutoVeto::TooLarge(_)
        | AutoVeto::Cause(_) => 5,
    }
}

impl fmt::Display for AutoVeto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AutoVeto::NotOutOfMemory => f.write_str("it did not end in an OOM"),
            AutoVeto::Stopped => f.write_str("it was stopped from outside"),
            AutoVeto::OnlySaid => f.write_str(
                "only its output says that memory ran out, and the run did not end with that: it may be another program's text",
            ),
            AutoVeto::Wsl => f.write_str(
                "this is WSL2, where one out-of-memory after another can take Windows down with it: relaunch it yourself",
            ),
            AutoVeto::PartOfAJob(part) => write!(
                f,
                "this is one part of a job ({part}); all parts must be relaunched with the same change"
            ),
            AutoVeto::Enough(times) => {
                write!(f, "relaunched {times} times already (--max-relaunches)")
            }
            AutoVeto::NoTime(left, needed) => write!(
                f,
                "the job ends in {}, and a run needs {} at least (--min-time; --requeue starts it in another job's time)",
                clock_face(*left),
                clock_face(*needed)
            ),
            AutoVeto::Cause(cause) => {
                f.write_str(cause.spec().recurs.unwrap_or("the cause would recur"))
            }
            AutoVeto::StartsOver => f.write_str(
                "it had made progress and would start over (--allow restart permits it)",
            ),
            AutoVeto::MayStartOver => f.write_str(
                "the disk did not say in time whether it had written a checkpoint, and it would start over (--allow restart permits it)",
            ),
            AutoVeto::Permission(permission) => write!(
                f,
                "what might help changes the training (--allow {} permits it)",
                permission.word()
            ),
            AutoVeto::Tried => f.write_str("everything that might help has been tried"),
            AutoVeto::NothingFits => f.write_str("no remedy is predicted to fit"),
            AutoVeto::NoRemedy => f.write_str("no remedy can be applied to this command"),
            AutoVeto::TooLarge(TooLarge { by, advice }) => {
                write!(
                    f,
                    "without any activations it is {by} too large for this GPU, so no smaller batch helps"
                )?;
                match advice {
                    Some(advice) => write!(f, "; what would: {advice}"),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
