//! `oomph explain`: the OOMs in a log or a recording, and their causes. Runs nothing and needs no GPU.

use super::answer;
use crate::command::CommandLine;
use crate::document::text::wrapped;
use crate::live::Ending;
use crate::live::display::screen::terminal_size;
use crate::query::explained::{explained, find};
use crate::query::listing::find_that_ran_out;
use crate::query::recordings;
use crate::report::explain;
use crate::supervise::Size;
use clap::Args;
use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

#[derive(Debug, PartialEq, Args)]
#[command(
    override_usage = "oomph explain [OPTIONS] [ID|FILE|-] [-- [NAME=VALUE...] COMMAND [ARG...]]",
    after_help = "Of a recording the remedies for its command are shown as well, of a log with `-- COMMAND`; nothing is run."
)]
pub(super) struct ExplainCommand {
    /// A log, a recording, or the start of a session's name [default: standard input, or the latest
    /// session that ran out of memory]
    #[arg(value_name = "ID|FILE|-")]
    pub source: Option<OsString>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

impl ExplainCommand {
    /// The file to read; `None` for standard input.
    fn file(&self) -> anyhow::Result<Option<PathBuf>> {
        match &self.source {
            Some(name) if name == "-" => Ok(None),
            None if is_given_something() => Ok(None),
            name => find_that_ran_out(name.as_deref()).map(Some),
        }
    }
}

/// Whether standard input is a pipe or a file. In a script, in cron or over ssh without a terminal it may be `/dev/null`.
fn is_given_something() -> bool {
    let is_device =
        fs::metadata("/dev/stdin").is_ok_and(|found| found.file_type().is_char_device());
    !io::stdin().is_terminal() && !is_device
}

/// A recording among the sessions by its session's name, which other subcommands take; another file by its path.
fn name_of_source(file: &Path) -> String {
    match recordings::stored_name(file) {
        Some(session) => format!("session {session}"),
        None => file.display().to_string(),
    }
}

/// Prints what ran out of memory and why; with `command` also its remedies.
///
/// # Errors
/// The source could not be read.
pub(super) fn run(asked: &ExplainCommand, command: Option<&CommandLine>) -> anyhow::Result<Ending> {
    let file = asked.file()?;
    let name = match &file {
        None => "standard input".to_string(),
        Some(file) => name_of_source(file),
    };
    let found = find(file.as_deref(), command)?;
    let (name, file) = match found.led_to() {
        Some(recording) => (
            format!("{}, which wrote {name}", name_of_source(recording)),
            Some(recording.to_path_buf()),
        ),
        None => (name, file),
    };
    let mut in_short = None;
    let text = explained(
        &found,
        file.as_deref(),
        &name,
        command,
        |explanation| match asked.json {
            true => explain::json(explanation) + "\n",
            false => {
                in_short = explain::in_short(explanation);
                explain::text(explanation) + &found.without_an_end()
            }
        },
    );
    let size = terminal_size().filter(|_| !asked.json && io::stdout().is_terminal());
    match size {
        Some(size) => answer(&for_screen(&text, in_short.as_deref(), size)),
        None => answer(&text),
    }
}

/// As wide as the terminal; of what is longer than it the end says what has scrolled away.
fn for_screen(text: &str, in_short: Option<&str>, size: Size) -> String {
    let columns = usize::from(size.cols);
    let mut shown = wrapped(text, columns);
    // Below it stands the shell's prompt.
    let is_longer = shown.lines().count() + 1 > usize::from(size.rows);
    if let Some(in_short) = in_short.filter(|_| is_longer) {
        shown.push_str(&wrapped(&format!("\n{in_short}"), columns));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_scrolled_away_is_said_at_the_end() {
        let text = "a line\n".repeat(30);
        let of = |rows| for_screen(&text, Some("In short:\n  the cause\n"), Size::new(rows, 80));
        assert!(of(24).ends_with("a line\n\nIn short:\n  the cause\n"));
        assert_eq!(of(40), text);
    }
}
