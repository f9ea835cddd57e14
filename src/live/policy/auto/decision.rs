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
use crate::units::clock_face;
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
        value_name = "amp,recompute,effective-batch,restart",
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
        self.allows(needed_for(alteration))
    }

    /// The position of the last of these remedies in the order; those not in it come last.
    fn position(&self, remedies: &[RemedyId]) -> usize {
        let position = |id: &RemedyId| {
            let measure = match id {
                RemedyId::ExpandableSegments | RemedyId::MaxSplitSize => Some(RemedyKind::Segments),
                RemedyId::Batch => Some(RemedyKind::Batch),
                RemedyId::Device => Some(RemedyKind::Device),
                // Combined with any other.
                RemedyId::Resume => return 0,
                // Not in the user's order.
                RemedyId::Amp
                | RemedyId::Recompute
                | RemedyId::DataloaderWorkers
                | RemedyId::PrefetchFactor
                | RemedyId::PinMemory
                | RemedyId::PersistentWorkers
                | RemedyId::SharingStrategy
                | RemedyId::Wait
                | RemedyId::StopLeftover
                | RemedyId::Together
                | RemedyId::Without => None,
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

/// The situation at the end of a run.
#[derive(Debug, Clone)]
pub(super) struct AutoSituation<'a> {
    pub outcome: RunOutcome,
    /// Whether the user, or a signal from outside, asked it to stop.
    pub stop_requested: bool,
    pub cause: Option<Cause>,
    /// The job that this is one part of, if it is.
    pub part_of_a_job: Option<&'a str>,
    /// Relaunches so far.
    pub relaunches: u32,
    pub ran_for: Duration,
    /// The time left to the scheduler's job, where it says so.
    pub time_left: Option<Duration>,
    /// How often that job was requeued so far.
    pub requeued: u32,
    /// Whether it had written a checkpoint.
    pub has_checkpoint: bool,
    pub candidates: &'a [Candidate],
    /// The commands so far.
    pub tried: &'a [CommandLine],
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
    Permission(Permission),
    Tried,
    /// Nothing is predicted to fit.
    NothingFits,
    /// No remedy can be applied to this command.
    NoRemedy,
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
    let starts_over = situation.ran_for >= FAR || situation.has_checkpoint;
    let may_start_over = !starts_over || options.allows(Permission::Restart);
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
        if !may_start_over && !candidate.resumes {
            against(AutoVeto::StartsOver);
            continue;
        }
        let preference = Preference {
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
        None => AutoDecision::Refuse(refusal),
    }
}

/// The order of candidates: fits before may fit before unknown, no changes of the training before changes, then the
/// order of measures, and few remedies before many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Preference {
    promise: Promise,
    altered: usize,
    measure: usize,
    remedies: usize,
}

/// Another GPU, of which nobody knows whether it has enough memory, is not taken unasked.
fn is_worth_a_run(promise: Promise, candidate: &Candidate) -> bool {
    let moves = |id: &RemedyId| id.spec().effect == RemedyEffect::MoreFree;
    match promise {
        Promise::Fits | Promise::MayFit => true,
        Promise::Unknown => !candidate.remedies.iter().any(moves),
    }
}

/// Whether a remedy does more than edit arguments and environment.
fn acts(id: RemedyId) -> bool {
    id.spec().action == RemedyAction::Act
}

/// The permission that a candidate lacks.
fn missing(candidate: &Candidate, options: &AutoOptions) -> Option<Permission> {
    let mut needed = candidate.alters.iter().copied().map(needed_for);
    needed.find(|permission| !options.allows(*permission))
}

fn needed_for(alteration: Alteration) -> Permission {
    match alteration {
        Alteration::EffectiveBatch | Alteration::BatchStatistics => Permission::EffectiveBatch,
        Alteration::Precision => Permission::Amp,
        Alteration::Recomputation => Permission::Recompute,
    }
}

/// Of several reasons, the one that the user can do most about.
fn weight(refusal: &AutoVeto) -> u8 {
    match refusal {
        AutoVeto::NoRemedy => 0,
        AutoVeto::NothingFits => 1,
        AutoVeto::Tried => 2,
        AutoVeto::Permission(_) => 3,
        AutoVeto::StartsOver => 4,
        AutoVeto::NotOutOfMemory
        | AutoVeto::Stopped
        | AutoVeto::PartOfAJob(_)
        | AutoVeto::Enough(_)
        | AutoVeto::NoTime(..)
        | AutoVeto::Cause(_) => 5,
    }
}

impl fmt::Display for AutoVeto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AutoVeto::NotOutOfMemory => f.write_str("it did not end in an OOM"),
            AutoVeto::Stopped => f.write_str("it was stopped from outside"),
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
            AutoVeto::Permission(permission) => write!(
                f,
                "what might help changes the training (--allow {} permits it)",
                permission.word()
            ),
            AutoVeto::Tried => f.write_str("everything that might help has been tried"),
            AutoVeto::NothingFits => f.write_str("no remedy is predicted to fit"),
            AutoVeto::NoRemedy => f.write_str("no remedy can be applied to this command"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Exit;

    fn candidate(remedies: &[RemedyId], fits: Option<bool>, alters: &[Alteration]) -> Candidate {
        Candidate {
            remedies: remedies.to_vec(),
            command: CommandLine::typed(&format!("python t.py {remedies:?}")),
            expectation: Expectation {
                fits,
                ..Expectation::default()
            },
            alters: alters.to_vec(),
            files: Vec::new(),
            resumes: false,
            applied: Vec::new(),
        }
    }

    use RemedyId::{Amp, Batch, ExpandableSegments as Segments};

    /// Segments that do not fit, a batch that does, both, and precision.
    fn usual() -> Vec<Candidate> {
        vec![
            candidate(&[Batch], Some(true), &[]),
            candidate(&[Segments], Some(false), &[]),
            candidate(&[Batch, Segments], Some(true), &[]),
            candidate(&[Amp], Some(true), &[Alteration::Precision]),
        ]
    }

    fn situation(candidates: &[Candidate]) -> AutoSituation<'_> {
        AutoSituation {
            outcome: RunOutcome::OutOfMemory,
            stop_requested: false,
            cause: Some(Cause::Capacity),
            part_of_a_job: None,
            relaunches: 0,
            ran_for: Duration::from_secs(60),
            time_left: None,
            requeued: 0,
            has_checkpoint: false,
            candidates,
            tried: &[],
        }
    }

    fn allowing(permissions: &[Permission]) -> AutoOptions {
        AutoOptions {
            allow: permissions.to_vec(),
            ..AutoOptions::default()
        }
    }

    /// The remedies that are chosen.
    fn chosen<'a>(
        situation: &AutoSituation<'a>,
        options: &AutoOptions,
    ) -> Result<&'a [RemedyId], AutoVeto> {
        match decide(situation, options) {
            AutoDecision::Relaunch(index) | AutoDecision::Requeue(index, _) => {
                Ok(&situation.candidates[index].remedies)
            }
            AutoDecision::Refuse(refusal) => Err(refusal),
        }
    }

    #[test]
    fn the_least_invasive_that_fits_is_taken() {
        let all = usual();
        assert_eq!(chosen(&situation(&all), &allowing(&[])), Ok(&[Batch][..]));
        let mut with_segments = usual();
        with_segments[1].expectation.fits = Some(true);
        let situation = situation(&with_segments);
        assert_eq!(chosen(&situation, &allowing(&[])), Ok(&[Segments][..]));
        let batch_first = AutoOptions {
            order: vec![RemedyKind::Batch, RemedyKind::Segments],
            ..AutoOptions::default()
        };
        assert_eq!(chosen(&situation, &batch_first), Ok(&[Batch][..]));
    }

    #[test]
    fn what_is_predicted_goes_before_what_is_guessed() {
        let all = [
            candidate(&[Batch], None, &[]),
            candidate(&[Batch, Segments], Some(true), &[]),
        ];
        let both = chosen(&situation(&all), &allowing(&[]));
        assert_eq!(both, Ok(&[Batch, Segments][..]));
        // A guess is better than nothing, where it lessens what is allocated.
        let guess = [
            candidate(&[Batch], None, &[]),
            candidate(&[Segments], None, &[]),
        ];
        assert_eq!(chosen(&situation(&guess), &allowing(&[])), Ok(&[Batch][..]));
        let only_segments = &guess[1..];
        assert_eq!(
            chosen(&situation(only_segments), &allowing(&[])),
            Err(AutoVeto::NothingFits)
        );
        let in_pieces = AutoSituation {
            cause: Some(Cause::Fragmentation),
            ..situation(only_segments)
        };
        assert_eq!(chosen(&in_pieces, &allowing(&[])), Ok(&[Segments][..]));
    }

    #[test]
    fn a_run_that_cannot_end_is_not_begun_but_requeued_where_that_is_allowed() {
        let all = usual();
        let with = |left: u64, requeued: u32| AutoSituation {
            time_left: Some(Duration::from_secs(left)),
            requeued,
            ..situation(&all)
        };
        let options = |requeue, min_time: Option<u64>| AutoOptions {
            requeue,
            min_time: min_time.map(Duration::from_secs),
            ..AutoOptions::default()
        };
        let is = |left, requeued, requeue, min_time| match decide(
            &with(left, requeued),
            &options(requeue, min_time),
        ) {
            AutoDecision::Relaunch(_) => "relaunch",
            AutoDecision::Requeue(..) => "requeue",
            AutoDecision::Refuse(AutoVeto::NoTime(..)) => "no time",
            AutoDecision::Refuse(_) => "no",
        };
        // The last run took 60 s.
        assert_eq!(is(60, 0, true, None), "relaunch");
        assert_eq!(is(59, 0, false, None), "no time");
        assert_eq!(is(59, 1, true, None), "requeue");
        assert_eq!(is(59, 2, true, None), "no time");
        assert_eq!(is(1_000, 0, true, Some(1_800)), "requeue");
        assert_eq!(is(10, 0, true, Some(5)), "relaunch");
        assert_eq!(duration("30m"), Ok(Duration::from_secs(1_800)));
        assert!(duration("30").is_err() && duration("h").is_err());
    }

    #[test]
    fn what_changes_the_training_needs_a_word() {
        for (candidate, permission) in [
            (
                candidate(&[Batch], Some(true), &[Alteration::EffectiveBatch]),
                Permission::EffectiveBatch,
            ),
            (
                candidate(&[Batch], Some(true), &[Alteration::BatchStatistics]),
                Permission::EffectiveBatch,
            ),
            (
                candidate(&[Amp], Some(true), &[Alteration::Precision]),
                Permission::Amp,
            ),
        ] {
            let all = [candidate];
            let situation = situation(&all);
            assert_eq!(
                decide(&situation, &allowing(&[Permission::Restart])),
                AutoDecision::Refuse(AutoVeto::Permission(permission))
            );
            assert_eq!(
                decide(&situation, &allowing(&[permission])),
                AutoDecision::Relaunch(0)
            );
        }
        // Even where it is allowed, what changes nothing goes first.
        assert_eq!(
            chosen(&situation(&usual()), &allowing(&[Permission::Amp])),
            Ok(&[Batch][..])
        );
    }

    #[test]
    fn what_had_come_far_goes_on_or_stays() {
        let all = [candidate(&[Batch], Some(true), &[])];
        let mut resuming = all.clone();
        resuming[0].resumes = true;
        for (ran_for, has_checkpoint, far) in [
            (Duration::from_secs(599), false, false),
            (FAR, false, true),
            (Duration::from_secs(9), true, true),
        ] {
            let at = |candidates| AutoSituation {
                ran_for,
                has_checkpoint,
                ..situation(candidates)
            };
            let refused = AutoDecision::Refuse(AutoVeto::StartsOver);
            let relaunched = AutoDecision::Relaunch(0);
            let expected = if far { refused } else { relaunched.clone() };
            assert_eq!(decide(&at(&all), &allowing(&[])), expected);
            let permitted = allowing(&[Permission::Restart]);
            assert_eq!(decide(&at(&all), &permitted), relaunched);
            assert_eq!(decide(&at(&resuming), &allowing(&[])), relaunched);
        }
    }

    /// Only what the cause names, and nothing that changes a number.
    #[test]
    fn for_lack_of_host_memory_what_keeps_the_numbers_is_tried() {
        let all = [
            candidate(&[RemedyId::DataloaderWorkers], None, &[]),
            candidate(&[RemedyId::Batch], None, &[]),
            candidate(&[RemedyId::PrefetchFactor], None, &[]),
            candidate(&[RemedyId::SharingStrategy], None, &[]),
            candidate(&[RemedyId::PinMemory], None, &[]),
        ];
        for (cause, expected) in [
            (Cause::PrefetchQueue, AutoDecision::Relaunch(2)),
            (Cause::SharedMemory, AutoDecision::Relaunch(2)),
            (Cause::OpenFiles, AutoDecision::Relaunch(3)),
            (Cause::PinnedMemory, AutoDecision::Relaunch(4)),
            (
                Cause::HostWorkers,
                AutoDecision::Refuse(AutoVeto::Cause(Cause::HostWorkers)),
            ),
        ] {
            let situation = AutoSituation {
                cause: Some(cause),
                ..situation(&all)
            };
            assert_eq!(decide(&situation, &allowing(&[])), expected, "{cause:?}");
        }
    }

    #[test]
    fn nothing_is_done_against_the_user_a_leak_or_the_host() {
        let all = usual();
        let usual = situation(&all);
        let cause = |cause| AutoSituation {
            cause: Some(cause),
            ..usual.clone()
        };
        let everything = allowing(&[
            Permission::Amp,
            Permission::Recompute,
            Permission::EffectiveBatch,
            Permission::Restart,
        ]);
        for (situation, refusal) in [
            (cause(Cause::Leak), AutoVeto::Cause(Cause::Leak)),
            (
                cause(Cause::EvaluationGraph),
                AutoVeto::Cause(Cause::EvaluationGraph),
            ),
            (cause(Cause::HostMemory), AutoVeto::Cause(Cause::HostMemory)),
            (
                cause(Cause::DeviceFault),
                AutoVeto::Cause(Cause::DeviceFault),
            ),
            (
                AutoSituation {
                    outcome: RunOutcome::Stopped,
                    ..usual.clone()
                },
                AutoVeto::Stopped,
            ),
            (
                AutoSituation {
                    stop_requested: true,
                    ..usual.clone()
                },
                AutoVeto::Stopped,
            ),
            (
                AutoSituation {
                    outcome: RunOutcome::Failed(Exit::Code(1)),
                    ..usual.clone()
                },
                AutoVeto::NotOutOfMemory,
            ),
            (
                AutoSituation {
                    outcome: RunOutcome::Finished,
                    ..usual.clone()
                },
                AutoVeto::NotOutOfMemory,
            ),
            (
                AutoSituation {
                    part_of_a_job: Some("--nnodes 2"),
                    ..usual.clone()
                },
                AutoVeto::PartOfAJob("--nnodes 2".into()),
            ),
            (
                AutoSituation {
                    relaunches: 3,
                    ..usual.clone()
                },
                AutoVeto::Enough(3),
            ),
        ] {
            assert_eq!(
                decide(&situation, &everything),
                AutoDecision::Refuse(refusal)
            );
        }
        for helped in [
            Cause::Capacity,
            Cause::OptimizerState,
            Cause::Fragmentation,
            Cause::ForeignProcess,
            Cause::Limit,
            Cause::OddBatch,
            Cause::NonPytorch,
            Cause::Thrashing,
        ] {
            assert!(matches!(
                decide(&cause(helped), &everything),
                AutoDecision::Relaunch(_)
            ));
        }
    }

    #[test]
    fn the_same_plan_is_never_tried_twice() {
        let all = usual();
        let mut tried = vec![CommandLine::typed("python t.py")];
        let mut taken = Vec::new();
        loop {
            let situation = AutoSituation {
                tried: &tried,
                ..situation(&all)
            };
            match decide(&situation, &allowing(&[Permission::Amp])) {
                AutoDecision::Relaunch(index) | AutoDecision::Requeue(index, _) => {
                    taken.push(all[index].remedies.clone());
                    tried.push(all[index].command.clone());
                }
                AutoDecision::Refuse(refusal) => {
                    assert_eq!(refusal, AutoVeto::Tried);
                    break;
                }
            }
        }
        assert_eq!(taken, [vec![Batch], vec![Batch, Segments], vec![Amp]]);
    }

    #[test]
    fn a_command_without_remedies_says_so() {
        assert_eq!(
            decide(&situation(&[]), &allowing(&[])),
            AutoDecision::Refuse(AutoVeto::NoRemedy)
        );
        let too_much = [candidate(&[Batch], Some(false), &[])];
        assert_eq!(
            decide(&situation(&too_much), &allowing(&[])),
            AutoDecision::Refuse(AutoVeto::NothingFits)
        );
    }
}
