//! The last words of a session, after the program's own.
//!
//! A run in which nothing happened leaves not one line of oomph's. Where the screen was up, the
//! program's last rows are put where they would have stood without it.

use super::{Ending, print};
use crate::command::CommandLine;
use crate::diagnosis::Finding;
use crate::event::Exit;
use crate::remedy::Remedy;
use crate::report;
use crate::state::{RunOutcome, State};
use std::io::Write;
use std::path::Path;

/// What there is to say.
pub(super) struct LastWords<'a> {
    /// How the session ends.
    pub ending: Ending,
    /// Why memory ran out.
    pub findings: &'a [Finding],
    /// What can be done.
    pub remedies: &'a [Remedy],
    /// The last run's command.
    pub command: &'a CommandLine,
    /// Where the session is recorded.
    pub recording: Option<&'a Path>,
    /// Lines that waited for the end.
    pub lines: &'a [String],
    /// Whether the program's last byte ended a line.
    pub at_line_start: bool,
    /// Whether the session ends with us; otherwise only the lines that waited are said.
    pub session_over: bool,
}

/// Says them. `tail` is what the screen leaves: the program's last rows, as a terminal takes them.
/// Nobody may be listening any more: what cannot be written is let go.
pub(super) fn say(state: &State, tail: Option<Vec<u8>>, words: &LastWords) {
    let on_screen = tail.is_some();
    if let Some(tail) = tail {
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(&tail).and_then(|()| stdout.flush());
    }
    let mut text = String::new();
    for line in lines(state, words, on_screen) {
        text.push_str("oomph: ");
        text.push_str(&print::line(&line));
        text.push('\n');
    }
    if text.is_empty() {
        return;
    }
    if !on_screen && !words.at_line_start {
        text.insert(0, '\n');
    }
    // After a screen the words belong on the terminal that had it: standard error may be a file of
    // the user's that holds the program's own.
    let _ = if on_screen {
        print::out().write_all(text.as_bytes())
    } else {
        print::err().write_all(text.as_bytes())
    };
}

fn lines(state: &State, words: &LastWords, on_screen: bool) -> Vec<String> {
    let mut lines = words.lines.to_vec();
    if !words.session_over {
        return lines;
    }
    let ran_out = state
        .run()
        .is_some_and(|run| run.outcome() == RunOutcome::OutOfMemory);
    if ran_out {
        lines.extend(report::diagnosis(
            state,
            words.findings,
            words.remedies,
            words.command,
        ));
    }
    if on_screen {
        let recorded = (words.recording.is_some())
            .then_some(state.session.as_ref())
            .flatten()
            .map_or(String::new(), |session| {
                format!(" · recorded as {}", session.id)
            });
        lines.extend(report::summary(state).map(|line| format!("{line}{recorded}")));
    }
    let failed = !matches!(words.ending, Ending::Like(Exit::Code(0)) | Ending::Code(0));
    if let Some(path) = words.recording
        && (ran_out || (on_screen && failed))
    {
        lines.push(format!(
            "recorded in {} (oomph replay plays it)",
            path.display()
        ));
    }
    lines
}
