//! `oomph diff`: two sessions, or two runs of one, side by side.

use super::answer;
use crate::live::Ending;
use crate::query::told::Told;
use crate::query::versioned;
use crate::report::comparison::{ComparedRun, Comparison, run_of};
use crate::units::RunNumber;
use anyhow::Context;
use clap::Args;
use std::ffi::OsString;
use std::path::Path;

#[derive(Debug, PartialEq, Args)]
#[command(
    after_help = "ID:2 is run 2 of a session, otherwise it is the last. With one session its first and last run are compared."
)]
pub(super) struct DiffCommand {
    /// The session that came first [default: the latest]
    #[arg(value_name = "ID|FILE")]
    before: Option<OsString>,
    /// The session to compare with it
    #[arg(value_name = "ID|FILE")]
    after: Option<OsString>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// A session, and which of its runs: `20260301`, `20260301:2`, `events.jsonl:1`.
struct Side {
    told: Told,
    run: Option<RunNumber>,
}

/// Prints what differs between two sessions. With only one, between its first and its last run; with
/// none, between those of the latest session.
///
/// # Errors
/// A recording could not be found or read, or has no such run.
pub(super) fn run(diff: &DiffCommand) -> anyhow::Result<Ending> {
    let first = Side::read(diff.before.as_ref())?;
    let comparison = match &diff.after {
        Some(after) => {
            let second = Side::read(Some(after))?;
            Comparison::new(first.compared(None)?, second.compared(None)?)
        }
        None => {
            let runs = &first.told.story.state.runs;
            anyhow::ensure!(
                runs.len() > 1 && first.run.is_none(),
                "{} has no second run to compare; name two sessions: oomph diff ID ID (`oomph ls --all` lists them)",
                first.told.name
            );
            let number = runs[0].number;
            Comparison::new(first.compared(Some(number))?, first.compared(None)?)
        }
    };
    let text = match diff.json {
        true => {
            serde_json::to_string_pretty(&versioned(serde_json::to_value(&comparison)?))? + "\n"
        }
        false => comparison.text(),
    };
    answer(&text)
}

impl Side {
    fn read(name: Option<&OsString>) -> anyhow::Result<Side> {
        let (name, run) = match name {
            Some(name) => split(name),
            None => (None, None),
        };
        Ok(Side {
            told: Told::read(name.as_deref(), false)?,
            run,
        })
    }

    /// The run that was named, or `instead`, or else the last.
    fn compared(&self, instead: Option<RunNumber>) -> anyhow::Result<ComparedRun<'_>> {
        let story = &self.told.story;
        let number = self.run.or(instead);
        let run = run_of(&story.state, number).with_context(|| match number {
            Some(number) => format!(
                "{} has no run {number}; it has {}",
                self.told.name,
                story.state.runs.len()
            ),
            None => format!("{} has no run", self.told.name),
        })?;
        Ok(ComparedRun {
            name: &self.told.name,
            story,
            run,
        })
    }
}

/// `ID:2` as a name and a run; a file of that very name is itself.
fn split(name: &OsString) -> (Option<OsString>, Option<RunNumber>) {
    let whole = || (Some(name.clone()), None);
    if Path::new(name).exists() {
        return whole();
    }
    let text = name.to_string_lossy();
    match text.rsplit_once(':') {
        Some((id, run)) => match run.parse() {
            Ok(run) => (
                (!id.is_empty()).then(|| OsString::from(id)),
                Some(RunNumber(run)),
            ),
            Err(_) => whole(),
        },
        None => whole(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_may_be_named_after_its_session() {
        let parts = |text: &str| split(&OsString::from(text));
        assert_eq!(parts("2026:2"), (Some("2026".into()), Some(RunNumber(2))));
        assert_eq!(parts(":1"), (None, Some(RunNumber(1))));
        assert_eq!(parts("2026"), (Some("2026".into()), None));
        assert_eq!(parts("a:b"), (Some("a:b".into()), None));
    }
}
