//! The last lines of a session, after the program's own output.
//!
//! A clean run prints nothing of oomph's. After a screen, the program's last rows are printed, where they
//! would be without oomph.

use super::display::screen::terminal_size;
use super::{Ending, print};
use crate::command::CommandLine;
use crate::diagnosis::Finding;
use crate::event::Exit;
use crate::forecast::BatchRoom;
use crate::remedy::{self, Remedy};
use crate::report;
use crate::report::own_words::NAME;
use crate::state::{Run, RunOutcome, State};
use crate::units::Pid;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

pub(super) struct LastWords<'a> {
    pub ending: Ending,
    pub findings: &'a [Finding],
    pub remedies: &'a [Remedy],
    pub command: &'a CommandLine,
    /// What was seen to fit beside what ran.
    pub room_for_batch: Option<BatchRoom>,
    pub recording: Option<&'a Path>,
    pub lines: &'a [String],
    /// Whether the program's output ended with a newline.
    pub at_line_start: bool,
    /// Whether the session ends with us; otherwise only the waiting lines are printed.
    pub session_over: bool,
}

/// Prints them. `tail`: the program's last rows, with escapes. Errors are ignored: nobody may be reading
/// any more.
pub(super) fn say(state: &State, tail: Option<Vec<u8>>, words: &LastWords) {
    let on_screen = tail.is_some();
    if let Some(tail) = tail {
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(&tail).and_then(|()| stdout.flush());
    }
    let is_on_terminal = on_screen || std::io::stderr().is_terminal();
    let width = terminal_size().filter(|_| is_on_terminal);
    let width = width.map_or(usize::MAX, |size| size.cols.into());
    let mut text = String::new();
    for line in lines(state, words, on_screen) {
        text.push_str(&printed(&print::line(&line), width));
    }
    if text.is_empty() {
        return;
    }
    if !on_screen && !words.at_line_start {
        text.insert(0, '\n');
    }
    // After a screen they belong on its terminal: standard error may be a file with the program's own
    // output.
    let _ = if on_screen {
        print::out().write_all(text.as_bytes())
    } else {
        print::err().write_all(text.as_bytes())
    };
}

/// A line with our name before it. A terminal would break a sentence in the middle of a word; a command stays in one piece, to be
/// copied.
fn printed(line: &str, width: usize) -> String {
    let is_command = line.starts_with("    ") || line.starts_with(report::RAN_WITH);
    let mut text = String::from(NAME);
    let mut column = NAME.len();
    for word in line.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if !is_command && column > NAME.len() && column + length > width {
            text.truncate(text.trim_end().len());
            text.push('\n');
            text.push_str(&" ".repeat(NAME.len()));
            column = NAME.len();
        }
        text.push_str(word);
        column += word.chars().count();
    }
    text.push('\n');
    text
}

fn lines(state: &State, words: &LastWords, on_screen: bool) -> Vec<String> {
    let mut lines = words.lines.to_vec();
    if !words.session_over {
        return lines;
    }
    let ran_out = state
        .run()
        .is_some_and(|run| run.outcome() == RunOutcome::OutOfMemory || run.is_hidden_failure());
    let is_success = |run: &Run| run.ended.is_some_and(|(_, exit)| exit.is_success());
    let went_well = state.run().is_some_and(is_success);
    lines.extend(report::nothing_trained(state).filter(|_| !on_screen));
    lines.extend(report::hidden_oom(state).map(|notice| {
        let recorded = words.recording.and(state.session.as_ref());
        match recorded.filter(|_| went_well && !ran_out) {
            Some(session) => format!("{notice}; `oomph explain {}` names the cause", session.id),
            None => notice,
        }
    }));
    // What a log is to have, the dialog has shown.
    if ran_out && !on_screen {
        lines.extend(report::diagnosis(
            state,
            words.findings,
            words.remedies,
            words.command,
        ));
    }
    let failed = !matches!(words.ending, Ending::Like(Exit::Code(0)) | Ending::Code(0));
    // A log is to lead to the file.
    let mut names_file = ran_out || (on_screen && failed);
    if on_screen {
        let session = state.session.as_ref();
        let recorded = (session.zip(words.recording))
            .filter(|(session, path)| is_stored_as(path, &session.id))
            .map(|(session, _)| format!("recorded as {}{OPENS_IT}", session.id));
        names_file &= recorded.is_none();
        if let Some(summary) = report::summary(state) {
            lines.extend(joined(summary, recorded));
        }
        lines.extend(report::winning_command(state));
        lines.extend(report::kept_of_failed(state));
        let growth = report::growth(state);
        let room = words.room_for_batch.filter(|_| growth.is_none());
        lines.extend(growth);
        lines.extend(room.and_then(|room| report::unused(state, room)));
    }
    if let Some(path) = words.recording.filter(|_| names_file) {
        let (before, behind) = report::RECORDED_IN;
        lines.push(format!("{before}{}{behind}", path.display()));
    }
    if ran_out && on_screen {
        let recorded = state.session.as_ref().filter(|_| words.recording.is_some());
        let name = recorded.map(|session| session.id.to_string());
        lines.extend(cause_and_what_next(words, name.as_deref()));
    }
    lines
}

/// Whether a recording is found by its session's name.
fn is_stored_as(path: &Path, id: &str) -> bool {
    let directory = path.parent().and_then(Path::file_name);
    directory.is_some_and(|name| name == id)
}

/// The cause and what helps, which the dialog has shown that is gone, and what brings the session back.
fn cause_and_what_next(words: &LastWords, name: Option<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    let cause = words.findings.first();
    lines.extend(cause.map(|cause| cause.headline.to_string()));
    lines.extend(report::what_helps(
        words.findings,
        words.remedies,
        words.command,
    ));
    if let Some(id) = name {
        // Where none is known to help, it starts nothing by itself.
        let again = remedy::recommended(words.remedies, cause.map(|cause| cause.cause)).is_some();
        let explain = format!("`oomph explain {id}` has the rest");
        lines.push(match again {
            true => format!("`oomph again {id}` starts it with the recommended remedy; {explain}"),
            false => explain,
        });
    }
    lines
}

/// The screen is gone with the run: what brings it back.
const OPENS_IT: &str = " (oomph replay plays it)";

/// Columns of a line that no terminal breaks, without `oomph: `.
const UNBROKEN: usize = 73;

/// On one line, or on two where a terminal would break the session's name.
fn joined(summary: String, recorded: Option<String>) -> Vec<String> {
    match recorded {
        Some(recorded) if summary.chars().count() + 3 + recorded.len() <= UNBROKEN => {
            vec![format!("{summary} · {recorded}")]
        }
        recorded => [summary].into_iter().chain(recorded).collect(),
    }
}

/// The recording as far as there is one, and what is to be said of what is missing. `whole` is what became of its end.
pub(super) fn what_is_recorded(
    path: PathBuf,
    whole: Result<(), String>,
) -> (Option<PathBuf>, Option<String>) {
    let shown = path.display();
    let Ok(about) = path.symlink_metadata() else {
        // Its directory was removed, and could not be made again.
        let words = format!("{shown} is not there any more: it was removed while the session ran");
        return (None, Some(words));
    };
    match whole {
        Ok(()) => (Some(path), None),
        Err(why) if about.is_file() && about.len() == 0 => {
            let words = format!("this session is not recorded: {shown} is empty ({why})");
            (None, Some(words))
        }
        Err(why) => {
            let words = format!("the recording lacks the end of the session ({why})");
            (Some(path), Some(words))
        }
    }
}

/// Names those of `left`, processes of an ended run, that have an NVIDIA device open. Nothing is killed
/// after a normal end (a program may leave an upload or a server behind on purpose).
pub(super) fn left_over(left: &[Pid]) -> Option<String> {
    let holders: Vec<String> = (left.iter())
        .filter(|pid| holds_gpu(**pid))
        .map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("{pid} ({})", name.trim())
        })
        .collect();
    (!holders.is_empty()).then(|| {
        format!(
            "left over from the training and still using a GPU: {}; not ended",
            holders.join(", ")
        )
    })
}

fn holds_gpu(pid: Pid) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    descriptors
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| target.to_string_lossy().starts_with("/dev/nvidia"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_full_disk_has_taken_is_not_called_recorded() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("events.jsonl");
        let full = || Err(String::from("No space left on device"));
        let ends = |whole| {
            let (recording, words) = what_is_recorded(path.clone(), whole);
            (recording.is_some(), words.unwrap_or_default())
        };
        let removed = ends(Ok(()));
        assert!(!removed.0 && removed.1.contains("removed while the session ran"));
        fs::write(&path, "").unwrap();
        let empty = ends(full());
        assert!(!empty.0 && empty.1.contains("is empty (No space left on device)"));
        fs::write(&path, "{}\n").unwrap();
        let torn = ends(full());
        assert!(torn.0 && torn.1.contains("lacks the end of the session (No space"));
        assert_eq!(ends(Ok(())), (true, String::new()));
    }

    #[test]
    fn a_sessions_name_is_never_broken() {
        let name = || Some(String::from("recorded as 20261123-205139-7f3a"));
        let short = joined("finished after 0:14 · 24 steps".into(), name());
        assert_eq!(
            short,
            ["finished after 0:14 · 24 steps · recorded as 20261123-205139-7f3a"]
        );
        let long =
            "finished after 0:14 · run 1 ran out of memory at step 25, run 2 (batch 32 × 2) peaked";
        let long = joined(long.into(), name());
        assert_eq!(long.len(), 2);
        assert_eq!(long[1], "recorded as 20261123-205139-7f3a");
        assert_eq!(joined("finished".into(), None), ["finished"]);
    }

    #[test]
    fn after_an_oom_the_last_line_says_how_to_go_on() {
        let command = CommandLine::default();
        let words = LastWords {
            ending: Ending::Code(1),
            findings: &[],
            remedies: &[],
            command: &command,
            room_for_batch: None,
            recording: None,
            lines: &[],
            at_line_start: true,
            session_over: true,
        };
        let recorded = cause_and_what_next(&words, Some("20261129-023529-python3"));
        assert_eq!(
            recorded,
            ["`oomph explain 20261129-023529-python3` has the rest"]
        );
        let unrecorded = cause_and_what_next(&words, None);
        assert!(unrecorded.is_empty(), "{unrecorded:?}");
    }

    #[test]
    fn a_terminal_breaks_no_word_of_a_sentence_and_no_command() {
        let sentence = "8.08 GiB unused: a batch of 48 would fit. The effective batch stays";
        assert_eq!(
            printed(sentence, 40),
            "oomph: 8.08 GiB unused: a batch of 48\n       would fit. The effective batch\n       stays\n"
        );
        let command = "    python3 train.py --batch-size 32 --grad-accum 2 --steps 100";
        assert_eq!(printed(command, 40), format!("oomph: {command}\n"));
        let ran = format!("{}{}", report::RAN_WITH, command.trim());
        assert_eq!(printed(&ran, 40), format!("oomph: {ran}\n"));
        assert_eq!(
            printed(sentence, usize::MAX),
            format!("oomph: {sentence}\n")
        );
        // A word as long as that has no better place.
        assert_eq!(printed("/a/b/c/d/e/f", 12), "oomph: /a/b/c/d/e/f\n");
    }

    #[test]
    fn who_holds_no_gpu_is_not_named() {
        assert_eq!(
            left_over(&[Pid(std::process::id() as i32), Pid(i32::MAX)]),
            None
        );
    }
}
