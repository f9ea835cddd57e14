//! `--on-oom auto`: gathers what the decision needs, and turns it into a launch or an end, with a
//! message for the user who comes back in the morning.

mod decision;

pub use decision::{AutoOptions, Permission, RemedyKind};

use super::{FollowUp, Policy, RunSummary};
use crate::command::CommandLine;
use crate::event::displayed;
use crate::live::session::changes::{ChangeFate, NextRun};
use crate::remedy::{self, Plan, Remedy, RemedyId};
use crate::state::RunOutcome;
use crate::units::{RunNumber, clock_face};
use decision::{AutoDecision, AutoSituation, Candidate, TooLarge, WrittenCheckpoint, decide};

/// Remedies that are also tried together.
const TOGETHER: [&[RemedyId]; 3] = [
    &[RemedyId::Batch, RemedyId::ExpandableSegments],
    &[RemedyId::Batch, RemedyId::Amp],
    &[RemedyId::Batch, RemedyId::ExpandableSegments, RemedyId::Amp],
];

pub(in crate::live) struct Auto {
    options: AutoOptions,
    /// What the requeued job is to start.
    requeue: Option<NextRun>,
}

impl Auto {
    pub(crate) fn new(options: AutoOptions) -> Auto {
        Auto {
            options,
            requeue: None,
        }
    }

    fn launch(&self, run: &RunSummary<'_>, chosen: &Candidate) -> FollowUp {
        let applied = chosen.applied.clone();
        let titles: Vec<String> = applied.iter().map(|remedy| remedy.title.clone()).collect();
        let cause = run
            .findings
            .first()
            .map_or("memory ran out".to_string(), |finding| {
                match &finding.ranks {
                    Some(ranks) => format!("{} {}", ranks.who(), finding.headline),
                    None => finding.headline.to_string(),
                }
            });
        let number = run.run.number;
        let why = match run.change {
            ChangeFate::WithoutEffect => format!("the change of run {number} had no effect"),
            ChangeFate::Rejected => undone(number),
            ChangeFate::Kept | ChangeFate::FailedAtOnce => {
                format!("run {number} ran out of memory ({cause})")
            }
        };
        let words = format!(
            "{why}; relaunching with {} ({}), {} of at most {}: {}",
            titles.join(" and "),
            chosen.expectation.words,
            run.run.number,
            self.options.max_relaunches,
            displayed(&chosen.command.without_secrets()),
        );
        let next = NextRun {
            prediction: chosen.expectation.prediction(),
            applied,
            files: chosen.files.clone(),
            ..NextRun::plain(chosen.command.clone(), titles)
        };
        FollowUp::Launch(Box::new(next), words)
    }
}

/// By how much it is too large without any activations, by its causes or else by the optimizer's step, and what the first cause
/// advises.
fn too_large(run: &RunSummary<'_>) -> Option<TooLarge> {
    let by_cause = run.findings.iter().find_map(|finding| finding.too_large_by);
    let by = by_cause.or_else(|| remedy::too_large_by(run.command, &run.inputs))?;
    let advice = run
        .findings
        .first()
        .and_then(|finding| finding.advice.first());
    Some(TooLarge {
        by,
        advice: advice.map(ToString::to_string),
    })
}

/// What is said of a run whose change its program rejected.
fn undone(number: RunNumber) -> String {
    format!("the program did not take the change of run {number}, which is undone")
}

impl Policy for Auto {
    fn after_run(&mut self, run: &RunSummary<'_>) -> FollowUp {
        // A run whose change had no effect or was rejected is as the one before it, which ran out of memory.
        let outcome = match (run.run.outcome(), run.change) {
            (RunOutcome::OutOfMemory, _)
            | (_, ChangeFate::WithoutEffect | ChangeFate::Rejected) => RunOutcome::OutOfMemory,
            _ => return FollowUp::Leave(None),
        };
        let candidates = candidates(run, &self.options);
        // With secrets masked, as in the recording, which is all that a later front has.
        let runs = run.state.runs.iter();
        let tried: Vec<CommandLine> = runs.map(|run| run.command.clone()).collect();
        let part = run.inputs.recognize(run.command).part_of_a_job;
        let ended = run.run.ended.map_or(run.run.started, |(ended, _)| ended);
        let situation = AutoSituation {
            outcome,
            stop_requested: run.run.stopped().is_some(),
            is_only_said: (run.run.oom()).is_some_and(|oom| !run.run.is_borne_out(oom)),
            cause: run.findings.first().map(|finding| finding.cause),
            wsl: run.inputs.is_wsl(),
            part_of_a_job: part.as_deref(),
            relaunches: run.run.number.0 - RunNumber::FIRST.0,
            ran_for: ended.since(run.run.started),
            time_left: run.time_left,
            requeued: (run.state.session.as_ref())
                .and_then(|session| session.job.as_ref())
                .map_or(0, |job| job.restart),
            checkpoint: match (&run.inputs.launch.checkpoint, run.is_disk_silent) {
                (Some(_), _) => WrittenCheckpoint::Yes,
                (None, true) => WrittenCheckpoint::Unknown,
                (None, false) => WrittenCheckpoint::No,
            },
            candidates: &candidates,
            tried: &tried,
            too_large: too_large(run),
        };
        match decide(&situation, &self.options) {
            AutoDecision::Refuse(veto) if run.change == ChangeFate::Rejected => {
                let undone = undone(run.run.number);
                FollowUp::Leave(Some(format!("{undone}; not relaunched: {veto}")))
            }
            AutoDecision::Refuse(veto) => FollowUp::Leave(Some(format!("not relaunched: {veto}"))),
            AutoDecision::Relaunch(index) => self.launch(run, &candidates[index]),
            AutoDecision::Requeue(index, left) => {
                if let FollowUp::Launch(next, _) = self.launch(run, &candidates[index]) {
                    self.requeue = Some(*next);
                }
                FollowUp::Leave(Some(format!(
                    "not relaunched: the job ends in {}; it is requeued with the remedy",
                    clock_face(left)
                )))
            }
        }
    }

    fn not_launched(&mut self, why: &str) -> FollowUp {
        FollowUp::Leave(Some(format!("not relaunched: {why}")))
    }

    fn name(&self) -> Option<&'static str> {
        Some("auto")
    }

    fn requeue(&self) -> Option<&NextRun> {
        self.requeue.as_ref()
    }
}

/// Each offered remedy and the combinations, also the first one that fits of those that change no more than is allowed; all resume
/// the ended run if the program can.
fn candidates(run: &RunSummary<'_>, options: &AutoOptions) -> Vec<Candidate> {
    let offered: Vec<&Remedy> = run
        .remedies
        .iter()
        .filter(|remedy| remedy.is_offered())
        .collect();
    let of = |id: RemedyId| offered.iter().find(|remedy| remedy.id == id).copied();
    let together = TOGETHER.iter().filter_map(|ids| {
        let chosen: Vec<&Remedy> = ids.iter().filter_map(|id| of(*id)).collect();
        (chosen.len() == ids.len()).then_some(chosen)
    });
    let permits = |alteration| options.permits(alteration);
    let fitting = remedy::combination(run.command, &run.inputs, run.remedies, &permits);
    offered
        .iter()
        .filter(|remedy| !matches!(remedy.id, RemedyId::Resume | RemedyId::Together))
        .filter(|remedy| !remedy.id.is_never_unasked())
        .map(|remedy| vec![*remedy])
        .chain(together)
        .chain(fitting.iter().map(|remedy| vec![remedy]))
        .map(|chosen| {
            let resume = of(RemedyId::Resume).into_iter().collect();
            candidate(run, &[chosen, resume].concat())
        })
        .collect()
}

fn candidate(run: &RunSummary<'_>, chosen: &[&Remedy]) -> Candidate {
    let plan = Plan::new(run.command, chosen);
    Candidate {
        expectation: remedy::expectation(run.command, &run.inputs, chosen),
        resumes: plan.remedies.contains(&RemedyId::Resume),
        remedies: plan.remedies,
        command: plan.command,
        files: plan.files,
        alters: chosen
            .iter()
            .flat_map(|remedy| remedy.all_altered())
            .collect(),
        applied: chosen
            .iter()
            .flat_map(|remedy| remedy.each())
            .cloned()
            .collect(),
    }
}
