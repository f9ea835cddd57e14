//! What a command has from remedies whose own runs ran out of memory anyway: later relaunches begin with it, and nobody may have meant to
//! keep it.

use crate::event::EDITS;
use crate::state::{RunOutcome, State};
use crate::units::RunNumber;

/// The environment variables that such a run has brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOfFailed {
    /// With `and` between them.
    pub names: String,
    pub run: RunNumber,
}

impl State {
    /// What the last run's command has of them; of a last run that ran out of memory its own as well, which the next one begins with.
    pub fn kept_of_failed(&self) -> Vec<KeptOfFailed> {
        let Some(last) = self.runs.last() else {
            return Vec::new();
        };
        let failed = self.runs.windows(2).filter_map(|pair| match pair {
            [earlier, run] if run.outcome() == RunOutcome::OutOfMemory => Some((earlier, run)),
            _ => None,
        });
        let kept = failed.map(|(earlier, run)| {
            let came = run.command.env.iter().filter(|change| {
                change.name != *EDITS
                    && change.value.is_some()
                    && !earlier.command.env.contains(change)
                    && last.command.env.contains(change)
            });
            let names: Vec<_> = came.map(|change| change.name.to_string_lossy()).collect();
            KeptOfFailed {
                names: names.join(" and "),
                run: run.number,
            }
        });
        kept.filter(|kept| !kept.names.is_empty()).collect()
    }
}
