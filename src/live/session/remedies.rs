//! What can be done about an out-of-memory. Predictions by a rehearsal replay its thousands of
//! allocations dozens of times, so then all of it is worked out beside the loop.

use super::{Session, SessionInputs};
use crate::command::CommandLine;
use crate::diagnosis::Finding;
use crate::forecast::{ForecastInputs, Observation};
use crate::live::beside::BesideLoop;
use crate::recognize::LaunchEnvironment;
use crate::remedy::{self, Remedy, RemedyInputs};
use crate::state::State;
use crate::units::RunNumber;
use std::time::Duration;

/// How long a session that ends waits for them: they are its last words.
const LAST: Duration = Duration::from_secs(2);

/// The remedies of the latest out-of-memory.
#[derive(Default)]
pub(crate) struct Remedies {
    /// Those that are known; none while they are worked out for the first time.
    pub(crate) known: Vec<Remedy>,
    search: Option<BesideLoop<Vec<Remedy>>>,
}

/// What remedies rest on, on its way to another thread.
struct RemedyFacts {
    command: CommandLine,
    state: State,
    findings: Vec<Finding>,
    inputs: SessionInputs,
    earlier: Vec<Observation>,
}

impl RemedyFacts {
    fn remedies(&self) -> Vec<Remedy> {
        let inputs = inputs_of(&self.state, &self.findings, &self.inputs, &self.earlier);
        remedy::remedies(&self.command, &inputs)
    }
}

impl Session {
    /// All that remedies rest on.
    pub(crate) fn remedy_inputs(&self) -> RemedyInputs<'_> {
        let earlier = self.earlier.observations();
        inputs_of(&self.state, &self.findings, &self.inputs, earlier)
    }

    pub(crate) fn remedies(&self) -> &[Remedy] {
        &self.remedies.known
    }

    /// Works out the remedies; where that takes long, beside the loop. Those known stay until then.
    pub(crate) fn find_remedies(&mut self) {
        let is_rehearsed = |rank: &crate::state::RankState| rank.rehearsal.is_some();
        let takes_long = self
            .state
            .run()
            .is_some_and(|run| run.ranks.iter().any(is_rehearsed));
        if takes_long {
            let facts = RemedyFacts {
                command: self.command().clone(),
                state: self.state.clone(),
                findings: self.findings.clone(),
                inputs: self.inputs.clone(),
                earlier: self.earlier.observations().to_vec(),
            };
            self.remedies.search = BesideLoop::begin("remedies", move || facts.remedies());
            if self.remedies.search.is_some() {
                return;
            }
        }
        self.remedies.search = None;
        let found = remedy::remedies(self.command(), &self.remedy_inputs());
        self.take_remedies(found);
    }

    /// Whether remedies have been found just now.
    pub(crate) fn look_at_remedies(&mut self) -> bool {
        let found = BesideLoop::look(&mut self.remedies.search);
        let is_news = found.is_some();
        found
            .into_iter()
            .for_each(|found| self.take_remedies(found));
        is_news
    }

    pub(crate) fn is_finding_remedies(&self) -> bool {
        self.remedies.search.is_some()
    }

    /// Waits for them at the end of the session.
    pub(crate) fn finish_remedies(&mut self) {
        if let Some(found) = BesideLoop::wait(&mut self.remedies.search, LAST) {
            self.take_remedies(found);
        }
    }

    pub(crate) fn forget_remedies(&mut self) {
        self.remedies = Remedies::default();
    }

    fn take_remedies(&mut self, found: Vec<Remedy>) {
        self.remedies.known = self.changes.without_rejected(found);
    }
}

fn inputs_of<'a>(
    state: &'a State,
    findings: &'a [Finding],
    inputs: &'a SessionInputs,
    earlier: &'a [Observation],
) -> RemedyInputs<'a> {
    let ranks = state.runs.iter().rev().find_map(|run| run.ranks.first());
    let probed = ranks.map(|rank| rank.hello.torch.as_str());
    let run = state.run().map_or(RunNumber::FIRST, |run| run.number);
    RemedyInputs {
        launch: LaunchEnvironment {
            torch: probed.or(inputs.torch.as_deref()),
            copies: inputs.copies(run.next().0),
            told: state.knobs.as_ref(),
            ..inputs.launch()
        },
        forecast: ForecastInputs {
            oom: state.oom(),
            state: Some(state),
            earlier,
            ..ForecastInputs::default()
        },
        findings,
        batch_fits: true,
        leftovers: inputs.leftovers(),
        ..RemedyInputs::default()
    }
}
