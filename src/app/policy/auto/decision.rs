//! What happens unattended when memory has run out: a pure policy. The situation goes in, a decision
//! comes out; nothing here starts, reads or prints anything.
//!
//! The least invasive remedy that is predicted to fit is taken; what changes the training's numbers
//! needs a word beforehand, and so does starting again what had come far. The same plan is never
//! tried twice, and nothing is done against the user, a leak or the host's memory.

#[cfg(test)]
mod tests;

use super::options::{AutoOptions, Permission};
use crate::command::CommandLine;
use crate::diagnosis::{Cause, Help};
use crate::remedy::{Alteration, Expectation, RemedyAction, RemedyEffect, RemedyId};
use crate::state::RunOutcome;
use std::time::Duration;

/// A run that has gone on for so long is not started again from its beginning unasked.
pub(super) const FAR: Duration = Duration::from_secs(600);

/// Where a session stands when a run has ended.
#[derive(Debug, Clone)]
pub(super) struct AutoSituation<'a> {
    /// How it ended.
    pub outcome: RunOutcome,
    /// Whether the user, or a signal from outside, asked for an end at any time.
    pub stop_requested: bool,
    /// Why memory ran out.
    pub cause: Option<Cause>,
    /// Of what job this is a part, where it is one.
    pub part_of_a_job: Option<&'a str>,
    /// How often it was relaunched.
    pub relaunches: u32,
    /// How long the run had gone on.
    pub ran_for: Duration,
    /// Whether it had written a checkpoint.
    pub has_checkpoint: bool,
    /// What could be started.
    pub candidates: &'a [Candidate],
    /// What was.
    pub tried: &'a [CommandLine],
}

/// One remedy, or several together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidate {
    /// The remedies.
    pub remedies: Vec<RemedyId>,
    /// The command that they make.
    pub command: CommandLine,
    /// What they do together.
    pub expectation: Expectation,
    /// What they change in the training itself.
    pub alters: Vec<Alteration>,
    /// Whether files would have to be written first: arguments and environment alone are edited.
    pub writes_files: bool,
    /// Whether the command goes on from a checkpoint.
    pub resumes: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum AutoDecision {
    /// Start this candidate.
    Relaunch(usize),
    /// Start nothing, and why not.
    Refuse(AutoVeto),
}

/// Why nothing is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AutoVeto {
    /// The run did not end by running out of memory.
    NotOutOfMemory,
    /// The user, or a signal from outside, stopped it.
    Stopped,
    /// One part of a job alone must not be started otherwise than the rest.
    PartOfAJob(String),
    /// It has been relaunched as often as it may be.
    Enough(u32),
    /// The cause would come again whatever is changed.
    Cause(Cause),
    /// It would start again from the beginning.
    StartsOver,
    /// What might help needs permission.
    Permission(Permission),
    /// Whatever might help was tried.
    Tried,
    /// Nothing is predicted to fit.
    NothingFits,
    /// No remedy can be applied to this command.
    NoRemedy,
}

/// Decides.
pub(super) fn decide(situation: &AutoSituation<'_>, options: &AutoOptions) -> AutoDecision {
    match veto(situation, options) {
        Some(refusal) => AutoDecision::Refuse(refusal),
        None => choose(situation, options),
    }
}

/// What speaks against any relaunch.
fn veto(situation: &AutoSituation<'_>, options: &AutoOptions) -> Option<AutoVeto> {
    match situation.outcome {
        RunOutcome::OutOfMemory => {}
        RunOutcome::Stopped => return Some(AutoVeto::Stopped),
        RunOutcome::Running | RunOutcome::Finished | RunOutcome::Failed(_) => {
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
        let Some(promise) = promise(candidate, situation.cause) else {
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

/// In what order candidates are taken: what fits before what may, what alters nothing before what
/// does, then the order of measures, and few remedies before many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Preference {
    promise: Promise,
    altered: usize,
    measure: usize,
    remedies: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Promise {
    Fits,
    May,
    /// Likely not, but what is known allows for it.
    Unlikely,
}

/// What a candidate promises; `None` where it is not worth a run.
fn promise(candidate: &Candidate, cause: Option<Cause>) -> Option<Promise> {
    let expectation = &candidate.expectation;
    let lessens = candidate.remedies.iter().any(|id| lessens(*id));
    match expectation.fits {
        Some(true) => Some(Promise::Fits),
        Some(false) => {
            let interval = expectation.within.zip(expectation.room);
            let is_possible = interval.is_some_and(|((low, _), room)| low <= room);
            (lessens && is_possible).then_some(Promise::Unlikely)
        }
        None => {
            let in_pieces =
                cause.is_some_and(|cause| cause.spec().prefers == Help::NoFragmentation);
            (lessens || in_pieces).then_some(Promise::May)
        }
    }
}

/// Whether a remedy lessens what is allocated; the others only change how it is held.
fn lessens(id: RemedyId) -> bool {
    id.spec().effect == RemedyEffect::LessAllocated
}

/// Whether a remedy does something beside editing arguments and environment.
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

/// Of several reasons the one that a person can do most about is said.
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
