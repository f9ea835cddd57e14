//! PYTHONPATH, by which Python finds the probe, where a command sets it itself.

use crate::command::{CommandLine, Word};
use crate::project_files;
use crate::recognize::{CommandLayout, ProgramKind, Recognized};
use std::path::{Path, PathBuf};

const NAME: &str = "PYTHONPATH";

/// The directories of the command's PYTHONPATH, as it is typed before or in the command.
pub(crate) fn directories(recognized: &Recognized<'_>) -> Vec<PathBuf> {
    let command = recognized.command;
    let words = recognized.layout.assignments.iter();
    let words = words.filter_map(|at| command.argv.get(*at)?.as_str()?.split_once('='));
    let in_words = words
        .filter(|(name, _)| *name == NAME)
        .map(|(_, value)| value);
    let typed = command.env_value(NAME).and_then(Word::as_str);
    let all = in_words.chain(typed).flat_map(|value| value.split(':'));
    all.map(|directory| command.cwd.join(directory)).collect()
}

/// What to say where a shell script, or a command in a string, puts its own PYTHONPATH in the place of the one by which the
/// probe is found; `None` where none does, as far as its text shows.
pub(crate) fn replaced(command: &CommandLine) -> Option<String> {
    let layout = CommandLayout::new(command);
    let word = command.argv.get(layout.program)?.as_str()?;
    let text = match layout.kind {
        ProgramKind::ShellScript => project_files::config_text(&command.cwd, Path::new(word))?,
        ProgramKind::ShellString => word.to_string(),
        ProgramKind::Script
        | ProgramKind::Module
        | ProgramKind::Code
        | ProgramKind::Executable
        | ProgramKind::Image
        | ProgramKind::Remote
        | ProgramKind::Missing => return None,
    };
    let theirs = text.lines().find_map(replacing)?;
    Some(format!(
        "PYTHONPATH was replaced by the command: write PYTHONPATH={theirs}:$PYTHONPATH"
    ))
}

/// What a line of a shell script sets PYTHONPATH to, without what it was.
fn replacing(line: &str) -> Option<&str> {
    let line = line
        .split(" #")
        .next()
        .filter(|line| !line.trim_start().starts_with('#'))?;
    let (before, rest) = line.split_once("PYTHONPATH=")?;
    let is_word = before.is_empty() || before.ends_with([' ', '\t', ';', '&', '(', '"', '\'']);
    let end = match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => rest[1..].find(quote).map(|end| end + 2),
        _ => rest.find([' ', '\t', ';', '&', '|', ')', '"', '\'']),
    };
    let theirs = rest
        .get(..end.unwrap_or(rest.len()))?
        .trim_matches(['"', '\'']);
    (is_word && !theirs.is_empty() && !theirs.contains(NAME)).then_some(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_keeps_what_was_replaces_nothing() {
        for (line, theirs) in [
            ("export PYTHONPATH=src", Some("src")),
            ("PYTHONPATH=\"a b:c\" python train.py", Some("a b:c")),
            ("cd x && PYTHONPATH=. python train.py", Some(".")),
            ("export PYTHONPATH=$ROOT/src # ours", Some("$ROOT/src")),
            ("export PYTHONPATH=src:$PYTHONPATH", None),
            ("export PYTHONPATH=\"${PYTHONPATH}:src\"", None),
            ("# export PYTHONPATH=src", None),
            ("MY_PYTHONPATH=src", None),
            ("export PYTHONPATH=", None),
            ("echo $PYTHONPATH", None),
        ] {
            assert_eq!(replacing(line), theirs, "{line}");
        }
    }
}
