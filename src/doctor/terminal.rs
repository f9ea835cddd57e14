//! The terminal: whether there will be a screen, and how it will look.

use super::{Check, TerminalFacts};

const SUBJECT: &str = "terminal";

/// What the whole screen needs; below it panes are left out.
const COLUMNS: u16 = 80;
const ROWS: u16 = 24;

pub(super) fn checks(terminal: &TerminalFacts) -> Vec<Check> {
    if let Some(reason) = terminal.headless {
        return vec![Check::ok(
            SUBJECT,
            format!("{reason}: oomph will be headless, and say at the end why memory ran out"),
        )];
    }
    let size = terminal
        .size
        .map_or("size unknown".into(), |(columns, rows)| {
            format!("{columns} x {rows}")
        });
    let colors = terminal.colors.unwrap_or("no colors");
    let characters = match terminal.utf8 {
        true => "UTF-8",
        false => "ASCII",
    };
    let term = terminal.term.as_deref().unwrap_or("unset");
    let finding = format!("{size}, {colors}, {characters} (TERM={term})");
    let mut advice = Vec::new();
    if terminal
        .size
        .is_some_and(|(columns, rows)| columns < COLUMNS || rows < ROWS)
    {
        advice.push(format!("enlarge it to {COLUMNS} x {ROWS} to see all panes"));
    }
    if terminal.colors.is_none() {
        advice.push("for colors unset NO_COLOR, or set TERM=xterm-256color".into());
    }
    if !terminal.utf8 {
        advice.push("for finer charts set LANG=C.UTF-8".into());
    }
    vec![match advice.is_empty() {
        true => Check::ok(SUBJECT, finding),
        false => Check::warning(SUBJECT, finding, advice.join("; ")),
    }]
}
