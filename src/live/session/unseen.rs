//! A word on ranks that nothing is known of, once a run: their node shares no directory with this one.

use crate::state::{Run, RunOutcome, State, ranges};
use crate::units::{Moment, RunNumber};
use std::time::Duration;

/// How long after the first rank the others may take: they start together, but load at their own pace.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct UnseenRanks {
    told: Option<RunNumber>,
    next: Moment,
}

impl UnseenRanks {
    /// The words, when they are due.
    pub(crate) fn look(&mut self, state: &State) -> Option<String> {
        let run = state.run().filter(|run| self.told != Some(run.number))?;
        if state.now < self.next {
            return None;
        }
        self.next = state.now + PAUSE;
        let is_running = run.outcome() == RunOutcome::Running;
        let first = run.ranks.iter().map(|rank| rank.joined).min()?;
        if !is_running || state.now.since(first) < PATIENCE {
            return None;
        }
        let words = words(run)?;
        self.told = Some(run.number);
        Some(words)
    }
}

fn words(run: &Run) -> Option<String> {
    let unseen = run.unseen();
    let world = run.world_size().filter(|_| !unseen.is_empty())?;
    let (these, are) = match unseen.as_slice() {
        [(first, last)] if first == last => ("rank", "is"),
        _ => ("ranks", "are"),
    };
    Some(format!(
        "{these} {} of {world} {are} not seen; if they run on other nodes, --spool names a directory that these share",
        ranges(&unseen)
    ))
}
