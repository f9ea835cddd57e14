//! Every key of the table does what the help says: the real binary in a real terminal, one session a
//! key. The table itself is walked, so that a key without a trial fails; and what else a screen meets
//! in a terminal: a storm of resizes, a bar at 20 frames a second, a program with a screen of its own,
//! a flood of output.

mod calm;
mod recordings;
mod stage;
mod trials;

use crate::harness::{Key, PATIENCE, Terminal};
use oomph::event::Exit;
use oomph::ui::keymap::{self, InputMode};
use std::sync::Mutex;

/// Sessions at once: each mostly waits for its screen.
const AT_ONCE: usize = 4;

/// Presses every key of a mode, each in a session of its own.
fn press_all(mode: InputMode) {
    let presses: Vec<_> = keymap::bindings(mode)
        .flat_map(|binding| binding.keys.iter().map(move |key| (binding, *key)))
        .collect();
    assert!(!presses.is_empty());
    let waiting = Mutex::new(presses.into_iter());
    let next = || {
        waiting
            .lock()
            .expect("no session fails while it holds it")
            .next()
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((binding, key)) = next() {
                    trials::of(mode, binding.action).run(key, binding.help);
                }
            });
        }
    });
}

#[test]
fn watching() {
    press_all(InputMode::Watching);
}

#[test]
fn out_of_memory() {
    press_all(InputMode::Oom);
}

#[test]
fn editing() {
    press_all(InputMode::Editing);
}

#[test]
fn questions() {
    press_all(InputMode::Quitting);
    press_all(InputMode::Stopping);
}

#[test]
fn helping() {
    press_all(InputMode::Helping);
    press_all(InputMode::SearchingHelp);
}

#[test]
fn reading_the_output() {
    press_all(InputMode::Searching);
    press_all(InputMode::Selecting);
}

#[test]
fn what_a_step_is_made_of() {
    press_all(InputMode::Step);
}

#[test]
fn typing() {
    press_all(InputMode::Typing);
}

/// `oomph` alone on a terminal, with one session that has ended; what it asks for is what `oomph replay` shows.
#[test]
fn a_session_is_chosen_from_the_list_and_opened() {
    let home = tempfile::TempDir::new().expect("a directory");
    let state = home.path().to_string_lossy().into_owned();
    let places = [
        ("OOMPH_STATE_DIR", state.as_str()),
        ("OOMPH_RUNTIME_DIR", &state),
    ];
    let mut none = Terminal::spawn(&[stage::OOMPH], &places, 24, 80);
    none.wait_for("no command given", PATIENCE);
    assert_eq!(none.exit(PATIENCE), Exit::Code(125));

    let session = home.path().join("oomph/sessions/20260301-233000-python3");
    std::fs::create_dir_all(&session).expect("a directory");
    std::fs::copy(recordings::RECORDING, session.join("events.jsonl")).expect("a recording");
    let mut terminal = Terminal::spawn(&[stage::OOMPH], &places, 24, 80);
    terminal.wait_for("1 ended", PATIENCE);
    terminal.press("/nothing like it");
    terminal.wait_for("no session has this text", PATIENCE);
    terminal.press(Key::Esc);
    terminal.wait_for("oomph replay 20260301-233000-python3", PATIENCE);
    terminal.press("\r");
    terminal.wait_for("replay x1", PATIENCE);
    // No thread of the list takes a key, and it is there again behind the replay.
    terminal.press("q");
    terminal.wait_for("1 ended", PATIENCE);
    terminal.press("q");
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(0));
    assert_eq!(terminal.left_behind(), Vec::<&str>::new());

    let mut left = Terminal::spawn(&[stage::OOMPH], &places, 24, 80);
    left.wait_for("1 ended", PATIENCE);
    left.press("q");
    assert_eq!(left.exit(PATIENCE), Exit::Code(0));
    assert_eq!(left.left_behind(), Vec::<&str>::new());
}

/// The editor has the terminal and all that is typed until it ends; then the screen is there again.
#[test]
fn a_line_is_opened_in_the_users_editor() {
    let home = tempfile::TempDir::new().expect("a directory");
    let path = |name: &str| home.path().join(name).to_string_lossy().into_owned();
    let recording = recordings::traced(true).replace("/home/ada", &home.path().to_string_lossy());
    std::fs::write(path("events.jsonl"), recording).expect("a recording");
    std::fs::write(path("train.py"), "pass\n").expect("a program");
    let editor =
        "#!/bin/sh\nprintf 'editing %s' \"$*\"\nread line\nprintf '%s' \"$line\" > \"$0.read\"\n";
    std::fs::write(path("edit"), editor).expect("an editor");
    let editor = format!("sh {}", path("edit"));
    let argv = [stage::OOMPH, "replay", &path("events.jsonl")];
    let mut terminal = Terminal::spawn(&argv, &[("EDITOR", &editor), ("VISUAL", "")], 30, 100);
    terminal.wait_for("run 1", PATIENCE);
    terminal.press("s");
    terminal.wait_for("allocated by", PATIENCE);
    terminal.press("v");
    terminal.wait_for("editing +1 ", PATIENCE);
    assert!(!terminal.with_screen(vt100::Screen::alternate_screen));
    terminal.press(Key::Ctrl('z'));
    terminal.press("q typed\r");
    terminal.wait_for("allocated by", PATIENCE);
    let typed = std::fs::read_to_string(path("edit.read")).expect("what was typed");
    assert_eq!(typed, "q typed");

    // The terminal gets another size while it is the editor's.
    terminal.press("v");
    terminal.wait_for("editing +1 ", PATIENCE);
    terminal.resize(20, 60);
    terminal.press("\r");
    let has_its_rows = |screen: &str| {
        let rows: Vec<&str> = screen.lines().collect();
        let is_footer = |row: &str| row.contains("Esc back");
        rows.first().is_some_and(|row| row.contains("oomph"))
            && rows.iter().rposition(|row| is_footer(row)) == Some(19)
    };
    terminal.wait_for(has_its_rows, PATIENCE);
    terminal.press("q");
    terminal.wait_for("replay x1", PATIENCE);
    terminal.press("q");
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(0));
    assert_eq!(terminal.left_behind(), Vec::<&str>::new());
}

/// Ctrl-Z in a replay gives the terminal to the shell, and `fg` takes it back.
#[test]
fn a_replay_is_suspended_and_resumed_by_a_shell() {
    let script = format!(
        "{} replay {}; echo the shell has it; read enter; fg",
        stage::OOMPH,
        recordings::RECORDING
    );
    let mut terminal = Terminal::spawn(&["sh", "-mc", &script], &[], 30, 100);
    terminal.wait_for("replay x1", PATIENCE);
    terminal.press(Key::Ctrl('z'));
    terminal.wait_for("the shell has it", PATIENCE);
    assert!(!terminal.with_screen(vt100::Screen::alternate_screen));
    terminal.press("\r");
    terminal.wait_for("replay x1", PATIENCE);
    terminal.press("q");
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(0));
}
