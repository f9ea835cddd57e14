//! The dialog for a program whose batch stands in its own text, driven in a real terminal.

use super::{COMMON, PLAIN};
use crate::harness::{Key, Terminal, wait_until};
use oomph::event::Exit;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// The dialog, in which this change is selected and waits for a key.
fn asks(change: &str) -> impl FnMut(&str) -> bool {
    move |screen: &str| {
        let is_selected = |line: &str| line.contains('❯') && line.contains(change);
        screen.lines().any(is_selected) && screen.contains("nothing runs until you choose")
    }
}

/// Presses Enter in that dialog until this is on the screen: a key right behind another is not taken for an answer.
fn answer(terminal: &mut Terminal, change: &str, then: &str) {
    terminal.wait_for(asks(change), PATIENCE);
    let mut pressed = Instant::now();
    terminal.press(Key::Enter);
    wait_until(then, PATIENCE, || {
        let screen = terminal.screen();
        if asks(change)(&screen) && pressed.elapsed() > Duration::from_secs(1) {
            pressed = Instant::now();
            terminal.press(Key::Enter);
        }
        screen.contains(then)
    });
}

struct Screen {
    _directory: TempDir,
    terminal: Terminal,
}

impl Screen {
    fn start(program: &str) -> Screen {
        let directory = TempDir::new().expect("a directory");
        let write = |name: &str, text: &str| {
            fs::write(directory.path().join(name), text).expect("a file");
        };
        write("common.py", COMMON);
        write("train.py", program);
        let simulated = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/simulated");
        let start = format!(
            "cd {} && exec {} --no-nvml --scaled=100 python3 {}",
            directory.path().display(),
            env!("CARGO_BIN_EXE_oomph"),
            PLAIN.words.join(" ")
        );
        let home = directory.path().join("home").display().to_string();
        let env = [
            ("XDG_STATE_HOME", home.as_str()),
            ("PYTHONPATH", &simulated.display().to_string()),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("OOMPH_SIMULATED_SPEED", "100"),
            ("OOMPH_SIMULATED_CARD_GIB", "1"),
        ];
        let terminal = Terminal::spawn(&["sh", "-c", &start], &env, 45, 140);
        Screen {
            _directory: directory,
            terminal,
        }
    }
}

#[test]
fn enter_takes_the_next_number_after_one_without_effect() {
    let program = "from common import train\nbatch_size = 128\ndef rows(n=128):\n    return n\ntrain(rows())\n";
    let mut screen = Screen::start(program);
    let terminal = &mut screen.terminal;
    answer(terminal, "batch_size = 128→64", "run 2");
    answer(terminal, "n=128→64", "run 3");
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(0));
    let screen = terminal.screen();
    assert!(screen.contains("trained with 64 x 1"), "{screen}");
}
