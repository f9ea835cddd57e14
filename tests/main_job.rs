//! The main job, driven as a person drives it: the real binary in a real terminal, the real probe
//! in a real python3, a simulated GPU; from the command to the key to the run that finishes.

use crate::harness::{Key, Terminal};
use oomph::event::{Event, EventKind, Exit};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const OOMPH: &str = env!("CARGO_BIN_EXE_oomph");
const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/demo/train.py");
/// A training of some seconds on a machine with other things to do.
const A_RUN: Duration = Duration::from_secs(120);

/// The dialog's footer: nothing else on the screen says this.
const DIALOG: &str = "Space combine";

/// What `oomph explain` says of a recording's relaunch.
fn losses(recording: &Path) -> serde_json::Value {
    let explained = std::process::Command::new(OOMPH)
        .args(["explain", "--json"])
        .arg(recording)
        .output()
        .expect("oomph explain");
    let answer: serde_json::Value = serde_json::from_slice(&explained.stdout).expect("JSON");
    answer["losses"][0].clone()
}

/// A directory for the recording, and a terminal in which oomph runs the demo.
struct Session {
    directory: TempDir,
    terminal: Terminal,
}

impl Session {
    fn start(rows: u16, cols: u16, demo: &[&str]) -> Session {
        let directory = TempDir::new().expect("a directory");
        let recording = directory.path().join("events.jsonl");
        let record = format!("--record={}", recording.display());
        let mut argv = vec![OOMPH, &record, "--no-nvml", "python3", DEMO, "--simulated"];
        argv.extend_from_slice(demo);
        let state = directory.path().display().to_string();
        let env = [
            ("XDG_STATE_HOME", state.as_str()),
            // Twice as fast, and still slow enough for the sampler to see the memory grow.
            ("OOMPH_SIMULATED_SPEED", "2"),
        ];
        let terminal = Terminal::spawn(&argv, &env, rows, cols);
        Session {
            directory,
            terminal,
        }
    }

    fn events(&self) -> Vec<Event> {
        events(&self.directory.path().join("events.jsonl"))
    }
}

fn events(recording: &Path) -> Vec<Event> {
    oomph::recording::read(recording)
        .expect("a recording")
        .collect::<Result<_, _>>()
        .expect("only events")
}

fn commands(events: &[Event]) -> Vec<String> {
    events
        .iter()
        .filter_map(|event| match &event.what {
            EventKind::Started(started) => Some(started.command.shown()),
            _ => None,
        })
        .collect()
}

#[test]
fn from_the_command_to_a_run_that_fits_on_one_key() {
    let mut session = Session::start(
        45,
        140,
        &["--batch-size", "64", "--grad-accum", "1", "--steps", "6"],
    );
    let terminal = &mut session.terminal;
    terminal.wait_for("simulated GPU", A_RUN);
    let dialog = terminal.wait_for(DIALOG, A_RUN);
    assert!(dialog.contains("does not fit"), "{dialog}");
    terminal.press("b");
    terminal.wait_for("run 2", A_RUN);
    assert_eq!(terminal.exit(A_RUN), Exit::Code(0));
    assert_eq!(
        terminal.left_behind(),
        [""; 0],
        "{}",
        terminal.post_mortem()
    );
    let screen = terminal.screen();
    assert!(screen.contains("finished after"), "{screen}");

    let events = session.events();
    let commands = commands(&events);
    assert_eq!(commands.len(), 2);
    assert!(
        commands[1].contains("--batch-size 32 --grad-accum 2"),
        "the effective batch is kept: {}",
        commands[1]
    );
    let of_probe = events
        .iter()
        .filter(|e| matches!(e.what, EventKind::Oom(_)))
        .count();
    let of_text = events
        .iter()
        .filter(|e| matches!(e.what, EventKind::OomText(_)))
        .count();
    assert!(
        of_probe >= 1 && of_text >= 1,
        "both witnesses: {of_probe}, {of_text}"
    );
    let samples = events
        .iter()
        .filter(|e| matches!(e.what, EventKind::Sample(_)))
        .count();
    assert!(samples >= 3, "{samples} samples");
    let losses = losses(&session.directory.path().join("events.jsonl"));
    assert_eq!(
        (&losses["verdict"], &losses["words"]),
        (
            &"not_checked".into(),
            &"losses not checked: the batch changed".into()
        )
    );
}

#[test]
fn fragmentation_is_mended_by_expandable_segments() {
    let mut session = Session::start(45, 140, &["--scenario", "fragmentation"]);
    let terminal = &mut session.terminal;
    let dialog = terminal.wait_for(DIALOG, A_RUN);
    assert!(dialog.to_lowercase().contains("fragment"), "{dialog}");
    terminal.press("e");
    terminal.wait_for("run 2", A_RUN);
    assert_eq!(
        terminal.exit(A_RUN),
        Exit::Code(0),
        "{}",
        terminal.post_mortem()
    );
    let events = session.events();
    let commands = commands(&events);
    assert!(
        commands[1].contains("expandable_segments:True"),
        "{}",
        commands[1]
    );
    // The demo prints its made-up loss, which depends on the seed and the step alone.
    let losses = losses(&session.directory.path().join("events.jsonl"));
    assert_eq!(
        (&losses["verdict"], &losses["by"], &losses["with"]),
        (&"equal".into(), &"output".into(), &1.into()),
        "{losses}"
    );
    let told = events.iter().filter_map(|event| match &event.what {
        EventKind::Note(note) => Some(note.text.as_str()),
        _ => None,
    });
    let told: Vec<&str> = told.filter(|note| note.contains(" are the same")).collect();
    assert!(
        told.iter()
            .any(|note| note.starts_with("run 2: printed losses of ")),
        "{told:?}"
    );
}

#[test]
fn leaving_the_dialog_keeps_the_failed_runs_status() {
    let mut session = Session::start(24, 80, &["--batch-size", "64"]);
    let terminal = &mut session.terminal;
    terminal.wait_for(DIALOG, A_RUN);
    terminal.press("q");
    assert_eq!(
        terminal.exit(A_RUN),
        Exit::Code(1),
        "{}",
        terminal.post_mortem()
    );
    assert_eq!(terminal.left_behind(), [""; 0]);
    let screen = terminal.screen();
    assert!(screen.contains("oomph:"), "the diagnosis stays: {screen}");
}

#[test]
fn one_ctrl_c_reaches_the_training_once() {
    let directory = TempDir::new().expect("a directory");
    let count = directory.path().join("count");
    let script = format!(
        "import signal, time\n\
         seen = 0\n\
         def count(*_):\n    global seen\n    seen += 1\n    open({:?}, 'w').write(str(seen))\n\
         signal.signal(signal.SIGINT, count)\n\
         print('ready', flush=True)\n\
         while not seen: time.sleep(0.01)\n\
         time.sleep(0.5)\n",
        count.display().to_string()
    );
    let argv = [OOMPH, "--no-nvml", "--no-record", "python3", "-c", &script];
    let mut terminal = Terminal::spawn(&argv, &[], 30, 100);
    terminal.wait_for("ready", A_RUN);
    terminal.press(Key::Ctrl('c'));
    assert_eq!(
        terminal.exit(A_RUN),
        Exit::Code(0),
        "{}",
        terminal.post_mortem()
    );
    assert_eq!(std::fs::read_to_string(count).expect("a count"), "1");
}

#[test]
fn quitting_asks_and_can_stop_the_training() {
    let mut session = Session::start(30, 100, &["--scenario", "none", "--steps", "100000"]);
    let terminal = &mut session.terminal;
    terminal.wait_for("allocated", A_RUN);
    terminal.press("q");
    let question = terminal.wait_for("quit and stop the training", A_RUN);
    assert!(
        question.contains("leave") || question.contains("running"),
        "{question}"
    );
    terminal.press(Key::Ctrl('x'));
    let exit = terminal.exit(A_RUN);
    assert!(!exit.is_success(), "{exit:?}");
    terminal.marker().wait_gone(A_RUN);
    assert_eq!(terminal.left_behind(), [""; 0]);
}

#[test]
fn the_command_can_be_edited_before_it_runs() {
    let mut session = Session::start(
        45,
        140,
        &["--batch-size", "64", "--grad-accum", "1", "--steps", "4"],
    );
    let terminal = &mut session.terminal;
    terminal.wait_for(DIALOG, A_RUN);
    terminal.press("v");
    terminal.wait_for("edit", A_RUN);
    terminal.press(Key::End);
    terminal.press(" --seed 7");
    terminal.press(Key::Enter);
    terminal.wait_for("run 2", A_RUN);
    assert_eq!(
        terminal.exit(A_RUN),
        Exit::Code(0),
        "{}",
        terminal.post_mortem()
    );
    let commands = commands(&session.events());
    assert!(commands[1].ends_with("--seed 7"), "{}", commands[1]);
}

#[test]
fn a_recording_is_played_to_the_same_end() {
    let mut session = Session::start(30, 100, &["--batch-size", "64"]);
    session.terminal.wait_for(DIALOG, A_RUN);
    session.terminal.press("q");
    session.terminal.exit(A_RUN);
    let recording = session.directory.path().join("events.jsonl");

    let path = recording.display().to_string();
    let mut replayed = Terminal::spawn(&[OOMPH, "replay", &path], &[], 30, 100);
    replayed.wait_for("replay", A_RUN);
    replayed.wait_for("out of memory", A_RUN);
    replayed.press("q");
    assert_eq!(replayed.exit(A_RUN), Exit::Code(0));
    assert_eq!(replayed.left_behind(), [""; 0]);

    let mut state = oomph::state::State::default();
    for event in events(&recording) {
        state.apply(&event);
    }
    let findings = oomph::diagnosis::diagnose(&state);
    assert_eq!(findings[0].cause, oomph::diagnosis::Cause::Capacity);
}

/// Enter in the replay of a session that has ended starts its command with the remedy, in a session of its own.
#[test]
fn a_session_that_has_ended_goes_on_from_its_replay() {
    let demo = ["--batch-size", "64", "--grad-accum", "1", "--steps", "4"];
    let mut session = Session::start(30, 100, &demo);
    session.terminal.wait_for(DIALOG, A_RUN);
    session.terminal.press("q");
    session.terminal.exit(A_RUN);
    let recording = session.directory.path().join("events.jsonl");
    let recording = recording.display().to_string();
    let state = session.directory.path().display().to_string();
    let env = [
        ("XDG_STATE_HOME", state.as_str()),
        ("OOMPH_SIMULATED_SPEED", "2"),
    ];
    let argv = [OOMPH, "replay", "--at", "end", &recording];
    let mut replayed = Terminal::spawn(&argv, &env, 30, 100);
    replayed.wait_for("smaller batch", A_RUN);
    replayed.wait_for("Enter goes on in a new one", A_RUN);
    replayed.press("b");
    assert_eq!(replayed.exit(A_RUN), Exit::Code(0));
    let sessions = std::fs::read_dir(session.directory.path().join("oomph/sessions"));
    let recordings = sessions.expect("sessions").flatten();
    let mut recordings = recordings.map(|session| session.path().join("events.jsonl"));
    let next = recordings.find(|recording| recording.exists());
    let commands = commands(&events(&next.expect("a session of its own")));
    assert_eq!(commands.len(), 1);
    assert!(commands[0].contains("--batch-size 32"), "{commands:?}");
}

/// `python train.py | tee log` ends with tee's status; the screen closes, and the last lines tell.
#[test]
fn an_oom_that_a_pipe_hides_is_told_after_the_screen() {
    let directory = TempDir::new().expect("a directory");
    let script = format!("python3 {DEMO} --simulated --batch-size 64 2>&1 | cat");
    let argv = [OOMPH, "--no-nvml", "sh", "-c", &script];
    let state = directory.path().display().to_string();
    let env = [
        ("XDG_STATE_HOME", state.as_str()),
        ("OOMPH_SIMULATED_SPEED", "2"),
    ];
    let mut terminal = Terminal::spawn(&argv, &env, 45, 140);
    assert_eq!(terminal.exit(A_RUN), Exit::Code(0));
    let screen = terminal.screen();
    for words in [
        "though the command ended with exit 0",
        "oomph: It does not fit",
        "oomph again",
        "ended with exit 0 though memory ran out, after",
    ] {
        assert!(
            screen.replace('\n', "").contains(words),
            "{words}: {screen}"
        );
    }
}
