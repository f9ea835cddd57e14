//! The OOMs of a log or a recording, each with its causes: as text to paste into an issue, and as
//! JSON for other programs.
//!
//! No I/O: this is given what was read and diagnosed, and returns text.

mod json;
mod step;
#[cfg(test)]
mod tests;
mod text;

pub use json::json;
pub use text::text;

use crate::anatomy::{StepAnatomy, StepGrowth};
use crate::command::CommandLine;
use crate::diagnosis::Finding;
use crate::event::Retainers;
use crate::oom::{OomKind, OomOutcome};
use crate::remedy::RemedyInputs;
use crate::state::{OomIncident, Run, RunOutcome, SourceTexts};
use crate::units::{Rank, RunNumber};

/// Everything that was found in one text.
#[derive(Debug)]
pub struct Explanation<'a> {
    /// For display: a file's name, "standard input".
    pub source: &'a str,
    /// Bytes of text; `None` for a recording.
    pub length: Option<u64>,
    /// In order.
    pub ooms: &'a [Explained],
    /// The command that ran out of memory and the inputs of its remedies, if given.
    pub command: Option<(&'a CommandLine, RemedyInputs<'a>)>,
}

/// An OOM and its causes.
#[derive(Debug)]
pub struct Explained {
    pub incident: OomIncident,
    /// Whether the program ended with it.
    pub outcome: OomOutcome,
    /// The recording's run and its command for display (secrets masked).
    pub run: Option<(RunNumber, String)>,
    /// Most certain first.
    pub findings: Vec<Finding>,
    /// What the step is made of that ran out of memory, or else the latest one that was traced.
    pub step: Option<StepAnatomy>,
    /// Who keeps the memory alive, if that was searched.
    pub retainers: Option<Retainers>,
    /// What grew over the traced steps.
    pub growth: Option<StepGrowth>,
    /// What the lines of the program say.
    pub source: SourceTexts,
}

impl Explained {
    /// From a log.
    pub fn of_log(incident: OomIncident, findings: Vec<Finding>) -> Explained {
        let outcome = incident
            .report
            .as_ref()
            .map_or(OomOutcome::Unknown, |r| r.outcome);
        Explained {
            incident,
            outcome,
            run: None,
            findings,
            step: None,
            retainers: None,
            growth: None,
            source: SourceTexts::default(),
        }
    }

    /// From a recorded run.
    pub fn of_run(run: &Run, incident: &OomIncident, findings: Vec<Finding>) -> Explained {
        let reported = incident
            .report
            .as_ref()
            .map_or(OomOutcome::Unknown, |r| r.outcome);
        let decisive = run.oom().is_some_and(|oom| std::ptr::eq(oom, incident));
        let ran_out = run.outcome() == RunOutcome::OutOfMemory || run.is_hidden_failure();
        let outcome = match (run.survived_oom(incident), decisive && ran_out) {
            (true, _) => OomOutcome::Caught,
            (false, true) => OomOutcome::Fatal,
            (false, false) => reported,
        };
        let rank = run.rank_of(incident);
        Explained {
            incident: incident.clone(),
            outcome,
            run: Some((run.number, run.command.shown())),
            findings,
            step: rank.and_then(|rank| StepAnatomy::of_oom(&rank.traces)),
            retainers: rank
                .and_then(|rank| rank.retainers.as_ref())
                .map(|(_, found)| found.clone()),
            growth: rank.and_then(|rank| StepGrowth::of(&rank.traces)),
            source: run.source.clone(),
        }
    }

    /// What ran out of memory. The probe only observes PyTorch's CUDA allocator.
    fn kind(&self) -> OomKind {
        let report = self.incident.report.as_ref();
        report.map_or(OomKind::CudaOom, |report| report.kind)
    }

    /// The device's index in the process.
    fn device(&self) -> Option<u32> {
        let record = self.incident.record.as_ref().map(|record| record.device);
        record.or_else(|| self.incident.report.as_ref()?.device)
    }

    fn rank(&self) -> Option<Rank> {
        self.incident.rank
    }

    /// Whether the requested size isn't a tensor's.
    fn is_small_segment(&self) -> bool {
        let requested = self.incident.requested();
        requested.is_some_and(|requested| self.kind().is_small_segment(requested))
    }
}

/// The index of the OOM that matters: the one that ended the program, else one that may have. Of
/// several ranks that fail together the first, since the others follow from it; of several failures
/// of one rank, or several runs in one text, the last.
pub fn decisive(ooms: &[Explained]) -> Option<usize> {
    let weight = |oom: &Explained| match oom.outcome {
        OomOutcome::Fatal => 2,
        OomOutcome::Unknown => 1,
        OomOutcome::Caught => 0,
    };
    let heaviest = ooms.iter().map(weight).max()?;
    let candidates = || {
        let all = ooms.iter().enumerate().rev();
        all.filter(|(_, oom)| weight(oom) == heaviest)
    };
    // A later one without figures (a library that finds no memory while the exception is handled)
    // is a consequence.
    let with_figures = candidates().find(|(_, oom)| oom.incident.requested().is_some());
    let (last_place, last) = with_figures.or_else(|| candidates().next())?;
    let number = |oom: &Explained| oom.run.as_ref().map(|(number, _)| *number);
    let mut chosen = last_place;
    let mut seen = vec![last.rank()];
    for (place, oom) in candidates().filter(|(place, _)| *place < last_place) {
        // Without ranks it may be the same process again.
        let same = oom.rank().is_none() || seen.contains(&None) || seen.contains(&oom.rank());
        if same || number(oom) != number(last) {
            break;
        }
        seen.push(oom.rank());
        chosen = place;
    }
    Some(chosen)
}
