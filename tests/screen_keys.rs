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
