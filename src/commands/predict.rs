//! `oomph plan --predict`: what a command would need at other batch sizes, predicted from recordings.
//! Runs nothing.

use crate::command::CommandLine;
use crate::live::{Ending, print};
use crate::query::predicted::predicted;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

/// Who reads the answer. A program that has read the lines of a pipe goes on reading them there; a human at a terminal gets a
/// table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerReader {
    Program,
    Human,
}

impl AnswerReader {
    pub fn of_standard_output(asks_json: bool) -> AnswerReader {
        AnswerReader::of(asks_json, io::stdout().is_terminal())
    }

    fn of(asks_json: bool, is_terminal: bool) -> AnswerReader {
        match (asks_json, is_terminal) {
            (false, true) => AnswerReader::Human,
            (true, _) | (_, false) => AnswerReader::Program,
        }
    }
}

/// Prints a table, or one JSON object a line for each batch: the allocated peak and what the allocator must be
/// able to reserve, each `{"low", "likely", "high"}` in bytes; a bound as `"at_least"`. Where they
/// were extrapolated from the step that ran out of memory, `"reckoned"` is how far it got; where nothing is
/// known, `"unknown"` says why, and if that is so of all of them the exit status is 1.
///
/// # Errors
/// A recording cannot be read, or standard output not written.
pub(super) fn predict(
    command: &CommandLine,
    named: &[OsString],
    batches: &[u64],
    reader: AnswerReader,
) -> anyhow::Result<Ending> {
    let said = predicted(command, named, batches)?;
    let text = match reader {
        AnswerReader::Program => said.json_lines(),
        AnswerReader::Human => said.text(),
    };
    let mut out = print::out();
    out.write_all(text.as_bytes())?;
    if said.is_known() {
        return Ok(Ending::Code(0));
    }
    print::complain(&format!("nothing is known: {}", said.why_unknown));
    Ok(Ending::Code(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_for_a_terminal_and_lines_for_a_pipe_or_whoever_asks_for_them() {
        for (asks_json, is_terminal, expected) in [
            (false, true, AnswerReader::Human),
            (false, false, AnswerReader::Program),
            (true, true, AnswerReader::Program),
            (true, false, AnswerReader::Program),
        ] {
            assert_eq!(AnswerReader::of(asks_json, is_terminal), expected);
        }
    }
}
