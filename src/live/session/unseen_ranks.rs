//! A word on ranks that nothing is known of, where the run's nodes share no directory.

use crate::state::{Run, RunOutcome, State, ranges};
use crate::units::{Moment, RunNumber};
use std::time::Duration;

/// How long after the first rank of a run the others may take: they start together, but load at their own pace.
const UNSEEN_PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks for them.
const UNSEEN_PAUSE: Duration = Duration::from_secs(1);

/// A word on ranks that nothing is known of, once a run: their node shares no directory with this one.
#[derive(Debug, Default)]
pub(super) struct UnseenRanks {
    told: Option<RunNumber>,
    next: Moment,
}

impl UnseenRanks {
    /// The words, when they are due.
    pub fn look(&mut self, state: &State) -> Option<String> {
        let run = state.run().filter(|run| self.told != Some(run.number))?;
        if state.now < self.next {
            return None;
        }
        self.next = state.now + UNSEEN_PAUSE;
        let is_running = run.outcome() == RunOutcome::Running;
        let first = run.ranks.iter().map(|rank| rank.joined).min()?;
        if !is_running || state.now.since(first) < UNSEEN_PATIENCE {
            return None;
        }
        let words = unseen_words(run)?;
        self.told = Some(run.number);
        Some(words)
    }
}

fn unseen_words(run: &Run) -> Option<String> {
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
