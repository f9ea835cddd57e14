//! Relaunching unasked: the situation is put together for the policy, and what it decides is carried
//! out and said. A person who comes back in the morning reads here what was done in the night.

use super::Front;
use crate::app::Ending;
use crate::app::auto::{Candidate, Decision, Situation, decide};
use crate::app::phase::{Next, Phase};
use crate::command::CommandLine;
use crate::event::{Exit, Level};
use crate::recognize::recognise;
use crate::remedy::{self, Plan, Remedy, RemedyId};
use crate::state::Run;
use crate::units::Moment;
use std::io::{self, Write};

/// Remedies that are tried together, beside each alone.
const TOGETHER: [&[RemedyId]; 3] = [
    &[RemedyId::Batch, RemedyId::ExpandableSegments],
    &[RemedyId::Batch, RemedyId::Amp],
    &[RemedyId::Batch, RemedyId::ExpandableSegments, RemedyId::Amp],
];

/// A predicted figure is said to have been met within this.
const SAME: f64 = 0.0005;

impl Front {
    /// Once earlier sessions have been read, or have taken too long.
    pub(super) fn decide_when_known(&mut self, now: Moment) {
        let known = |until: Moment| !self.earlier.is_reading() || now >= until;
        if let Some((exit, _)) = self.undecided.filter(|(_, until)| known(*until)) {
            self.undecided = None;
            if matches!(self.phase, Phase::Asking { .. }) {
                self.decide_unattended(exit);
            }
        }
    }

    /// Nobody is asked: the policy decides what follows a run that ran out of memory.
    fn decide_unattended(&mut self, exit: Exit) {
        let candidates = self.candidates();
        let Some(run) = self.state.run() else {
            return;
        };
        // As the recording has them, secrets masked: a front in the place of another knows no more.
        let tried: Vec<CommandLine> = self
            .state
            .runs
            .iter()
            .map(|run| run.command.clone())
            .collect();
        let inputs = self.inputs();
        let part = recognise(&self.command, &inputs.launch).part_of_a_job;
        let situation = Situation {
            outcome: run.outcome(),
            stop_requested: run.stop_requested.is_some(),
            cause: self.findings.first().map(|finding| finding.cause),
            part_of_a_job: part.as_deref(),
            relaunches: tried.len().saturating_sub(1) as u32,
            ran_for: run
                .ended
                .map_or_else(Default::default, |(ended, _)| ended.since(run.started)),
            has_checkpoint: inputs.launch.checkpoint.is_some(),
            candidates: &candidates,
            tried: &tried,
        };
        match decide(&situation, &self.memory.auto) {
            Decision::Refuse(refusal) => {
                self.say_unattended(format!("not relaunched: {refusal}"));
                self.phase = Phase::Leaving(Ending::Like(exit));
            }
            Decision::Relaunch(index) => self.relaunch_unattended(exit, &candidates[index]),
        }
    }

    fn relaunch_unattended(&mut self, exit: Exit, chosen: &Candidate) {
        let titles: Vec<String> = self
            .remedies
            .iter()
            .filter(|remedy| chosen.remedies.contains(&remedy.id))
            .map(|remedy| remedy.title.clone())
            .collect();
        let cause = self
            .findings
            .first()
            .map_or("memory ran out", |finding| finding.headline.as_str());
        self.say_unattended(format!(
            "run {} ran out of memory ({cause}); relaunching with {} ({}), {} of at most {}: {}",
            self.run_number(),
            titles.join(" and "),
            chosen.expectation.words,
            self.state.runs.len(),
            self.memory.auto.max_relaunches,
            chosen.command.without_secrets().shown(),
        ));
        let next = Next {
            command: chosen.command.clone(),
            remedies: titles,
            predicted_peak: chosen.expectation.peak.map(|peak| peak.likely),
            applied: self.expanded(&chosen.remedies),
            files: Vec::new(),
            awaited: Vec::new(),
            ending: None,
        };
        self.sweep(exit, next);
    }

    /// Each remedy that is offered, and those that go well together; all of them taking up the run
    /// that ended, where the program can.
    fn candidates(&self) -> Vec<Candidate> {
        let offered: Vec<&Remedy> = self
            .remedies
            .iter()
            .filter(|remedy| remedy.is_offered())
            .collect();
        let of = |id: RemedyId| offered.iter().find(|remedy| remedy.id == id).copied();
        let together = TOGETHER.iter().filter_map(|ids| {
            let chosen: Vec<&Remedy> = ids.iter().filter_map(|id| of(*id)).collect();
            (chosen.len() == ids.len()).then_some(chosen)
        });
        offered
            .iter()
            .filter(|remedy| remedy.id != RemedyId::Resume)
            .map(|remedy| vec![*remedy])
            .chain(together)
            .map(|chosen| {
                self.candidate(&[chosen, of(RemedyId::Resume).into_iter().collect()].concat())
            })
            .collect()
    }

    fn candidate(&self, chosen: &[&Remedy]) -> Candidate {
        let plan = Plan::of(&self.command, chosen);
        Candidate {
            expectation: remedy::expectation(&self.command, &self.inputs(), chosen),
            resumes: plan.remedies.contains(&RemedyId::Resume),
            remedies: plan.remedies,
            command: plan.command,
            writes_files: !plan.files.is_empty(),
            alters: chosen.iter().filter_map(|remedy| remedy.alters).collect(),
        }
    }

    /// Into the recording, and to whoever reads standard error: at once between two runs, at the
    /// end where a screen is up.
    pub(super) fn say_unattended(&mut self, words: String) {
        self.note(Level::Info, format!("auto: {words}"));
        if self.screen.is_some() || self.parked.is_some() {
            return self.last_words.push(words);
        }
        let begin = if self.last_byte == b'\n' { "" } else { "\n" };
        self.last_byte = b'\n';
        // Nobody may be listening any more.
        let _ = writeln!(io::stderr().lock(), "{begin}oomph: {words}");
    }

    /// A relaunched run is held to what was predicted for it.
    pub(super) fn say_measured(&mut self) {
        let words = self.state.run().and_then(measured);
        if let Some(words) = words {
            match self.on_oom {
                crate::app::OnOom::Auto => self.say_unattended(words),
                crate::app::OnOom::Ask | crate::app::OnOom::Exit => self.note(Level::Info, words),
            }
        }
    }
}

/// A run's peak beside what was predicted, once it had steps to show one.
fn measured(run: &Run) -> Option<String> {
    let (predicted, peak) = (run.predicted_peak?, run.peak()?);
    if run.steps() < 2 {
        return None;
    }
    let off = peak.fraction_of(predicted)? - 1.0;
    let off = match off.abs() < SAME {
        true => "as predicted".to_string(),
        false => format!("{:+.1} % of the {predicted} predicted", off * 100.0),
    };
    Some(format!("run {}: peak {peak}, {off}", run.number))
}
