//! The pure decision of what to do unattended after an OOM.
//!
//! It takes the least invasive remedy that is predicted to fit. Changing the training's numerics needs
//! permission, and so does restarting a run that had come far. The same plan is never tried twice, and
//! nothing is relaunched after a stop by the user, for a leak, or for lack of host memory.

#[cfg(test)]
mod tests;

use super::options::{AutoOptions, Permission};
use crate::command::CommandLine;
use crate::diagnosis::Cause;
use crate::remedy::{
    Alteration, Expectation, Promise, RemedyAction, RemedyEffect, RemedyId, promise,
};
use crate::state::RunOutcome;
use std::time::Duration;

/// A run that took longer isn't restarted from the beginning unasked.
pub(super) const FAR: Duration = Duration::from_secs(600);

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
    /// Whether it needs edited files; only arguments and environment are changed unasked.
    pub writes_files: bool,
    /// Whether the command resumes from a checkpoint.
    pub resumes: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum AutoDecision {
    Relaunch(usize),
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
    match veto(situation, options) {
        Some(refusal) => AutoDecision::Refuse(refusal),
        None => choose(situation, options),
    }
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
        let promise = promise(&candidate.remedies, &candidate.expectation, situation.cause);
        let Some(promise) = promise.filter(|promise| is_worth_a_run(*promise, candidate)) else {
            against(AutoVeto::NothingFits);
            continue;
        };
        if candidate.writes_files || candidate.remedies.iter().any(|id| acts(*id)) {
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
    let needed = candidate.alters.iter().map(|alteration| match alteration {
        Alteration::EffectiveBatch | Alteration::BatchStatistics => Permission::EffectiveBatch,
        Alteration::Precision => Permission::Amp,
        Alteration::Recomputation => Permission::Recompute,
    });
    needed
        .into_iter()
        .find(|permission| !options.allows(*permission))
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
        | AutoVeto::Cause(_) => 5,
    }
}
