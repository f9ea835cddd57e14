//! A recorded session that has ended, with the remedies for its command: as its dialog would offer them, from the
//! recording and what is on the disk now. Nothing is typed again, nothing is run and nothing is printed here.

use super::launch_facts;
use super::session::earlier::{self, Earlier};
use super::session::inputs::SessionInputs;
use super::session::remedies::inputs_of;
use super::torch;
use crate::command::{CommandLine, MASK, Word};
use crate::config;
use crate::diagnosis::{self, Cause, Finding};
use crate::event::Prediction;
use crate::forecast::{BatchRoom, NoRoom, room_after_end};
use crate::recording::PidScope;
use crate::remedy::{self, FitVerdict, Plan, Remedy, RemedyAction, RemedyId, RemedyInputs};
use crate::report::growth;
use crate::state::{Run, RunOutcome, State};
use std::path::{Path, PathBuf};

/// What stands in a command for each part that was masked, where somebody is to fill it in.
pub(crate) const GAP: &str = "<FILL-IN>";

/// What the remedies of a recorded command rest on.
pub(crate) struct EndedSession<'a> {
    pub state: &'a State,
    /// Of its last run's OOM, the most certain first.
    pub findings: Vec<Finding>,
    inputs: SessionInputs,
    earlier: Earlier,
}

impl<'a> EndedSession<'a> {
    /// A session by its state at the end of its recording; `None` where no run was started. Edited copies of
    /// config files would go to `copies`.
    pub fn new(state: &'a State, copies: Option<PathBuf>) -> Option<EndedSession<'a>> {
        let command = &state.run()?.command;
        // What is wrong with the user's settings is said where a session starts.
        let settings = config::read(&command.cwd);
        let (inputs, _) = SessionInputs::at_start(&settings);
        let inputs = inputs.started_with(state.launched.as_ref());
        let mut inputs = inputs.with_copies(copies);
        inputs.look(command, None);
        inputs.read_text(command);
        let is_probed = state.runs.iter().any(|run| !run.ranks.is_empty());
        if !is_probed {
            inputs.torch = torch::version_for(command);
        }
        Some(EndedSession {
            findings: diagnosis::diagnose(state),
            earlier: earlier::read(command, &earlier::Before::of(state)),
            state,
            inputs,
        })
    }

    /// The last run.
    pub fn run(&self) -> Option<&'a Run> {
        self.state.run()
    }

    /// The last run's command, secrets masked.
    pub fn command(&self) -> Option<&'a CommandLine> {
        Some(&self.run()?.command)
    }

    pub fn cause(&self) -> Option<Cause> {
        self.findings.first().map(|finding| finding.cause)
    }

    /// Whether memory ran out in the last run, so that there is something to remedy.
    pub fn ran_out(&self) -> bool {
        self.run()
            .is_some_and(|run| run.outcome() == RunOutcome::OutOfMemory || run.is_hidden_failure())
    }

    /// Whether its last run trained, to its end or until it was stopped, with a change that an earlier one had needed.
    pub fn was_remedied(&self) -> bool {
        let trained = self.run().is_some_and(Run::trained_well);
        let mut runs = self.state.runs.iter();
        trained && runs.any(|run| run.outcome() == RunOutcome::OutOfMemory)
    }

    pub fn remedy_inputs(&self) -> RemedyInputs<'_> {
        let next = self
            .run()
            .map_or_else(Default::default, |run| run.number.next());
        inputs_of(
            self.state,
            &self.findings,
            &self.inputs,
            Some(&self.earlier),
            next,
        )
    }

    /// How far the batch could have gone, where the last run went well and did not grow. Takes up to a second.
    ///
    /// # Errors
    /// There is no such batch; why.
    pub fn room_for_batch(&self) -> Result<BatchRoom, NoRoom> {
        let command = self.command().ok_or(NoRoom::Unseen)?;
        if growth(self.state).is_some() {
            return Err(NoRoom::Unseen);
        }
        let inputs = self.remedy_inputs();
        room_after_end(command, self.state, &inputs.launch, &inputs.forecast)
    }

    /// The remedies for the last run's command, the most promising first; none where memory did not run out.
    pub fn remedies(&self) -> Vec<Remedy> {
        match self.command().filter(|_| self.ran_out()) {
            Some(command) => remedy::remedies(command, &self.remedy_inputs()),
            None => Vec::new(),
        }
    }

    /// What is not as it was when the session was recorded, in words.
    pub fn changes_since(&self) -> Vec<String> {
        let Some(command) = self.command() else {
            return Vec::new();
        };
        let mut changes = Vec::new();
        let recorded_on = self
            .state
            .session
            .as_ref()
            .and_then(|session| session.host.as_ref());
        let scope = PidScope::here();
        if let Some(host) = recorded_on.filter(|host| *host != scope.host()) {
            changes.push(format!("this is {}, and it ran on {host}", scope.host()));
        }
        match &self.state.launched {
            Some(then) => {
                let first = self.state.runs.first().map_or(command, |run| &run.command);
                changes.extend(then.changes(&launch_facts::look(first)));
            }
            None => changes.push(
                "whether the program's files have changed is not known: the recording has no record of them"
                    .into(),
            ),
        }
        changes
    }

    /// The command with these remedies, and what is expected of it.
    ///
    /// # Errors
    /// Why it cannot be started with them.
    pub fn with(&self, remedies: &[Remedy], ids: &[RemedyId]) -> Result<PlannedStart, String> {
        let command = self
            .command()
            .ok_or("nothing was started in that session")?;
        let mut chosen = Vec::new();
        for id in ids {
            let spec = id.spec();
            let remedy = remedies.iter().find(|remedy| remedy.id == *id);
            let remedy =
                remedy.ok_or_else(|| format!("{} is not offered for this OOM", spec.title))?;
            if let remedy::Availability::NotOffered(why) = &remedy.availability {
                return Err(format!("{} is not offered: {why}", spec.title));
            }
            if remedy
                .each()
                .iter()
                .any(|part| part.id.spec().action == RemedyAction::Act)
            {
                return Err(format!(
                    "{} is something to do while the session's dialog is open; start the command by itself once it is done (--same)",
                    spec.title
                ));
            }
            chosen.push(remedy);
        }
        let inputs = self.remedy_inputs();
        let plan = Plan::new(command, &chosen);
        let expectation = match chosen.as_slice() {
            [] => remedy::Expectation::default(),
            several => remedy::expectation(command, &inputs, several),
        };
        Ok(PlannedStart {
            titles: chosen.iter().map(|remedy| remedy.title.clone()).collect(),
            changes: chosen.iter().map(|remedy| remedy.changes.clone()).collect(),
            costs: chosen
                .iter()
                .map(|remedy| remedy.cost.to_string())
                .collect(),
            prediction: expectation.prediction(),
            applied: (chosen.iter().flat_map(|remedy| remedy.each()).cloned()).collect(),
            verdict: expectation.verdict(),
            expected: expectation.words.to_string(),
            plan,
        })
    }
}

/// A recorded command as it is to be started.
#[derive(Debug, Clone)]
pub(crate) struct PlannedStart {
    pub plan: Plan,
    /// Of its remedies; none for the command as it was.
    pub titles: Vec<String>,
    pub changes: Vec<String>,
    pub costs: Vec<String>,
    /// The remedies, each by itself.
    pub applied: Vec<Remedy>,
    pub verdict: FitVerdict,
    pub expected: String,
    pub prediction: Option<Prediction>,
}

/// The session's own directory, for copies of config files: where the recording lies in one of this user's.
pub(crate) fn copies_beside(recording: &Path, is_stored: bool) -> Option<PathBuf> {
    recording
        .parent()
        .filter(|_| is_stored)
        .map(Path::to_path_buf)
}

/// The command with each masked part marked as a gap; `None` where nothing was masked.
pub(crate) fn with_gaps(command: &CommandLine) -> Option<CommandLine> {
    let is_masked = |word: &Word| word.to_string_lossy().contains(MASK);
    let mark = |word: &Word| match is_masked(word) {
        true => Word::from(word.to_string_lossy().replace(MASK, GAP)),
        false => word.clone(),
    };
    let values = command
        .env
        .iter()
        .filter_map(|change| change.value.as_ref());
    if !command.argv.iter().chain(values).any(is_masked) {
        return None;
    }
    let mut marked = command.clone();
    marked.argv = command.argv.iter().map(mark).collect();
    for change in &mut marked.env {
        change.value = change.value.as_ref().map(mark);
    }
    Some(marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_masked_is_a_gap_and_nothing_else_changes() {
        let plain = CommandLine::typed("python train.py --batch-size 64");
        assert_eq!(with_gaps(&plain), None);
        let mut secret = CommandLine::typed("python train.py --hf_token abc --api-key=def --lr 1");
        secret.set_env("WANDB_API_KEY", Some(Word::from("ghi")));
        let marked = with_gaps(&secret.without_secrets()).expect("gaps");
        let words: Vec<String> = marked.argv.iter().map(Word::to_string_lossy).collect();
        assert_eq!(
            words.join(" "),
            "python train.py --hf_token <FILL-IN> --api-key=<FILL-IN> --lr 1"
        );
        assert_eq!(marked.env_value("WANDB_API_KEY"), Some(&Word::from(GAP)));
    }
}
