//! The program's output in a replay: what a session's log has, in time with the recording.

use crate::harness::{PATIENCE, Terminal};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const OOMPH: &str = env!("CARGO_BIN_EXE_oomph");

/// Bytes of a line of the log.
const LINE: u64 = 9;

fn line(second: u64) -> String {
    format!("word-{second:03}\n")
}

/// Two runs of 20 s, which write a line a second; the second one begins in the 30th.
fn recording(marked: bool) -> String {
    let command = r#""command":{"argv":["python","train.py"],"cwd":"/home/ada"}"#;
    let session = format!(
        r#"{{"at":0,"event":"session_started","id":"a","wall":1795250587.0,"monotonic":1,"schema":1,"version":"0.2.0",{command},"probe":true,"nvml":true}}"#
    );
    let mut text = session + "\n";
    for (run, began) in [(1, 0), (2, 30)] {
        let at = |second: u64| (began + second) * 1_000_000;
        let (start, end) = (at(0), at(20));
        text += &format!(
            "{{\"at\":{start},\"event\":\"started\",\"run\":{run},\"pid\":{run},{command}}}\n"
        );
        for second in 0..=20 {
            let (now, bytes) = (at(second), ((run - 1) * 20 + second) * LINE);
            text += &match marked {
                true => format!("{{\"at\":{now},\"event\":\"logged\",\"bytes\":{bytes}}}\n"),
                false => format!("{{\"at\":{now},\"event\":\"epoch\",\"number\":{second}}}\n"),
            };
        }
        text += &format!(
            "{{\"at\":{end},\"event\":\"exited\",\"run\":{run},\"exit\":{{\"code\":0}}}}\n"
        );
    }
    text
}

/// A session's directory, with its output where there is any.
fn stored(marked: bool, output: bool) -> TempDir {
    let directory = TempDir::new().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    fs::write(path("events.jsonl"), recording(marked)).expect("a recording");
    if output {
        let lines: String = (0..40).map(line).collect();
        fs::write(path("output.log"), lines).expect("a log");
    }
    directory
}

fn replay(directory: &Path) -> Terminal {
    replay_at(directory, "0")
}

fn replay_at(directory: &Path, time: &str) -> Terminal {
    let file = directory.join("events.jsonl").display().to_string();
    let home = directory.display().to_string();
    let mut terminal = Terminal::spawn(
        &[OOMPH, "replay", "--at", time, &file],
        &[("HOME", &home)],
        30,
        100,
    );
    terminal.wait_for("replay x1", PATIENCE);
    terminal
}

#[test]
fn it_comes_with_its_moment_and_goes_with_it() {
    let directory = stored(true, true);
    let mut terminal = replay(directory.path());
    terminal.press(" ");
    terminal.wait_for("‖ replay", PATIENCE);
    let early = terminal.screen();
    assert!(!early.contains("word-008"), "{early}");
    terminal.press(")");
    let later = terminal.wait_for("word-009", PATIENCE);
    assert!(!later.contains("word-020"), "{later}");
    terminal.press("(");
    terminal.wait_for(|screen: &str| !screen.contains("word-009"), PATIENCE);
    // Another run begins with an empty screen.
    terminal.press("}");
    terminal.wait_for("run 2", PATIENCE);
    terminal.wait_for(|screen: &str| !screen.contains("word-0"), PATIENCE);
    terminal.press(")");
    let second = terminal.wait_for("word-029", PATIENCE);
    assert!(!second.contains("word-019"), "{second}");
    terminal.press("/");
    terminal.press("word-025\r");
    terminal.wait_for("N previous", PATIENCE);
    terminal.press("q");
}

/// A recording that stands still draws only what is asked for: a key that is lost would be missed.
#[test]
fn the_first_key_after_a_resize_is_heard() {
    let directory = stored(true, true);
    let mut terminal = replay_at(directory.path(), "end");
    terminal.wait_for("finished", PATIENCE);
    // Signals are listened to from the first key on.
    terminal.press("?");
    terminal.wait_for("─ keys ─", PATIENCE);
    terminal.press("\x1b");
    terminal.wait_for(|screen: &str| !screen.contains("─ keys ─"), PATIENCE);
    terminal.resize(36, 120);
    terminal.wait_for(
        |screen: &str| screen.lines().any(|line| line.chars().count() > 100),
        PATIENCE,
    );
    terminal.press("?");
    terminal.wait_for("─ keys ─", PATIENCE);
}

#[test]
fn it_begins_where_it_is_told_to() {
    let directory = stored(true, true);
    let mut terminal = replay_at(directory.path(), "0:45");
    let screen = terminal.wait_for("word-034", PATIENCE);
    assert!(screen.contains("run 2"), "{screen}");
}

#[test]
fn a_recording_that_does_not_say_when_shows_it_at_its_end() {
    let directory = stored(false, true);
    let mut terminal = replay(directory.path());
    terminal.wait_for("its output is shown at the recording's end", PATIENCE);
    terminal.press(">>>>>>>>");
    terminal.wait_for("word-039", PATIENCE);
    let without = stored(true, false);
    replay(without.path()).wait_for("no output log beside the recording", PATIENCE);
}

#[test]
fn a_session_records_how_much_it_has_logged() {
    let directory = TempDir::new().expect("a directory");
    let recorded = directory.path().join("night.jsonl");
    let state = directory.path().display().to_string();
    let output = Command::new(OOMPH)
        .args(["--headless", "--no-nvml", "--record"])
        .arg(&recorded)
        .args(["sh", "-c", "echo one; echo two; exit 3"])
        .env("OOMPH_STATE_DIR", &state)
        .env("OOMPH_RUNTIME_DIR", &state)
        .stdin(Stdio::null())
        .output()
        .expect("oomph runs");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let log = fs::read(recorded.with_extension("output.log")).expect("a log");
    let text = fs::read_to_string(&recorded).expect("a recording");
    let marks = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once("\"event\":\"logged\",\"bytes\":")?;
        rest.trim_end_matches('}').parse::<usize>().ok()
    });
    assert_eq!(marks.max(), Some(log.len()), "{text}");
}
