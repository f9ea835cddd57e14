//! `import oomph` in a training: the session's name, and marks that stand in its recording; nothing without oomph.

use crate::harness::at_home;
use oomph::event::{EventKind, NoteSubject};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const WHEEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/wheel");

const PROGRAM: &str = "\
import oomph
print(oomph.session(), oomph.mark('epoch 3'), oomph.mark('a\\x1b[2J\\nb' + 'c' * 1000))
";

#[test]
fn a_mark_stands_in_the_recording_and_is_nothing_without_oomph() {
    let home = TempDir::new().expect("a directory");
    let mut bare = Command::new("python3");
    bare.args(["-c", PROGRAM])
        .env("PYTHONPATH", WHEEL)
        .env_remove("OOMPH_SESSION")
        .env_remove("OOMPH_PROBE_SOCKET");
    let alone = bare.output().expect("python3 runs");
    assert_eq!(String::from_utf8_lossy(&alone.stdout), "None False False\n");
    // Where oomph has gone, nothing is raised either.
    let gone = bare
        .env("OOMPH_SESSION", "x")
        .env("OOMPH_PROBE_SOCKET", "/none/s");
    let gone = gone.output().expect("python3 runs");
    assert_eq!(String::from_utf8_lossy(&gone.stdout), "x False False\n");

    let file = home.path().join("events.jsonl");
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
    command
        .args(["--headless", "--no-nvml", "--record"])
        .arg(&file)
        .args(["python3", "-c", PROGRAM])
        .env("PYTHONPATH", WHEEL)
        .stdin(Stdio::null());
    let output = at_home(&mut command, home.path())
        .output()
        .expect("oomph runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.ends_with("-python3 True True\n"), "{output:?}");
    let events = oomph::recording::read(&file).expect("a recording");
    let marks: Vec<String> = events
        .filter_map(|event| match event.expect("an event").what {
            EventKind::Note(note) if note.about == Some(NoteSubject::Mark) => Some(note.text),
            _ => None,
        })
        .collect();
    assert_eq!(marks.len(), 2, "{marks:?}");
    assert!(marks.contains(&"mark: epoch 3".to_string()), "{marks:?}");
    let long = marks
        .iter()
        .find(|mark| mark.contains('b'))
        .expect("the other");
    assert!(
        long.len() < 220 && !long.contains(char::is_control),
        "{long}"
    );
}
