//! The dialog for a program whose batch stands in its own text, driven in a real terminal.

use super::{COMMON, PLAIN, oomph};
use crate::harness::{Key, Terminal, wait_until};
use oomph::event::Exit;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
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
    directory: TempDir,
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
            directory,
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
    let second = terminal.wait_for(asks("n=128→64"), PATIENCE);
    // A line ends after it.
    assert!(second.contains("train.py:2 batch_size has no"), "{second}");
    answer(terminal, "n=128→64", "run 3");
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(0));
    let screen = terminal.screen();
    assert!(screen.contains("trained with 64 x 1"), "{screen}");
}

/// Two numbers that the model may have been given, of which no name tells.
const UNSURE: &str = "from common import train\ndef other(rows=128):\n    return rows\ndef given(n=128):\n    return n\n\
                      other()\ntrain(given())\n";

#[test]
fn where_it_is_not_sure_a_number_is_chosen_by_key_and_checked() {
    let mut screen = Screen::start(UNSURE);
    let terminal = &mut screen.terminal;
    let is_open = |screen: &str| screen.contains("nothing runs until you choose");
    let dialog = terminal.wait_for(is_open, PATIENCE);
    for row in [
        "1 smaller rows?",
        "2 smaller n?",
        "not sure which number sets the batch",
    ] {
        assert!(dialog.contains(row), "{dialog}");
    }
    assert!(!dialog.contains('❯'), "none is selected: {dialog}");
    press_until(terminal, '1', |screen| screen.contains("run 2"));
    // It had no effect, so the other one is it.
    let second = terminal.wait_for(asks("n=128→64"), PATIENCE);
    assert!(second.contains("train.py:2 rows has no"), "{second}");
    answer(terminal, "n=128→64", "run 3");
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(0));
}

#[test]
fn the_second_number_is_chosen_by_its_key() {
    let mut screen = Screen::start(UNSURE);
    let terminal = &mut screen.terminal;
    let is_open = |screen: &str| screen.contains("2 smaller n?");
    terminal.wait_for(is_open, PATIENCE);
    press_until(terminal, '2', |screen| screen.contains("run 2"));
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(0));
    let screen = terminal.screen();
    assert!(screen.contains("trained with 64 x 1"), "{screen}");
}

#[test]
fn shorter_sequences_are_among_the_details_and_have_a_key_there() {
    let program = "import argparse\nfrom common import train\nparser = argparse.ArgumentParser()\n\
                   parser.add_argument('--batch-size', type=int, default=128)\n\
                   parser.add_argument('--seq-len', type=int, default=1024)\n\
                   args = parser.parse_args()\ntrain(args.batch_size, length=args.seq_len)\n";
    let mut screen = Screen::start(program);
    let terminal = &mut screen.terminal;
    let dialog = terminal.wait_for(asks("+--batch-size 64"), PATIENCE);
    assert!(!dialog.contains("shorter sequences"), "{dialog}");
    // What is not shown has no key.
    terminal.press("z");
    terminal.press("d");
    let row = |screen: &str| {
        let mut rows = screen.lines();
        rows.any(|row| row.contains("z shorter sequences") && row.contains("+--seq-len 512"))
    };
    let details = terminal.wait_for(row, PATIENCE);
    assert!(details.contains("changes the training"), "{details}");
    assert!(!details.contains("run 2"), "{details}");
    press_until(terminal, 'z', |screen| screen.contains("run 2"));
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(0));
    let screen = terminal.screen();
    assert!(screen.contains("trained with 128 x 1"), "{screen}");
}

/// Presses a key until this is on the screen.
fn press_until(terminal: &mut Terminal, key: char, is_there: impl Fn(&str) -> bool) {
    let mut pressed: Option<Instant> = None;
    wait_until("what the key does", PATIENCE, || {
        let screen = terminal.screen();
        let waits = screen.contains("nothing runs until you choose");
        if waits && pressed.is_none_or(|at| at.elapsed() > Duration::from_secs(1)) {
            pressed = Some(Instant::now());
            terminal.press(key.to_string().as_str());
        }
        is_there(&screen)
    });
}

/// What was put on the clipboard last, by the terminal's own sequence.
fn clipboard(terminal: &Terminal) -> Option<String> {
    let raw = String::from_utf8_lossy(&terminal.raw()).into_owned();
    let copied = raw.rsplit("\u{1b}]52;c;").next()?;
    let (base64, _) = copied.split_once('\u{7}')?;
    let decode = "import base64, sys; sys.stdout.buffer.write(base64.b64decode(sys.argv[1]))";
    let done = Command::new("python3")
        .args(["-c", decode, base64])
        .output();
    let done = done.expect("python3").stdout;
    Some(String::from_utf8_lossy(&done).into_owned())
}

#[test]
fn the_editor_of_the_command_says_where_the_text_is_changed() {
    let mut screen = Screen::start("from common import train\nBATCH = 128\ntrain(BATCH)\n");
    let terminal = &mut screen.terminal;
    terminal.wait_for(asks("BATCH = 128→64"), PATIENCE);
    terminal.press("v");
    let opened = |screen: &str| screen.contains("Relaunch with this command");
    let editor = terminal.wait_for(opened, PATIENCE);
    assert!(editor.contains("train.py:2  BATCH = 128→64"), "{editor}");
    assert!(!editor.contains("OOMPH_EDITS"), "{editor}");
    // What is typed comes on top of it.
    terminal.press(" --more");
    terminal.wait_for(
        |screen: &str| screen.contains("--more") && screen.contains("train.py:2  BATCH = 128→64"),
        PATIENCE,
    );
    terminal.press(Key::Enter);
    terminal.wait_for(
        |screen: &str| screen.contains("trained with 64 x 1"),
        PATIENCE,
    );
}

#[test]
fn the_command_that_is_copied_repeats_the_edit_from_a_shell() {
    let mut screen = Screen::start("from common import train\nBATCH = 128\ntrain(BATCH)\n");
    let terminal = &mut screen.terminal;
    let dialog = terminal.wait_for(asks("BATCH = 128→64"), PATIENCE);
    let next = dialog.lines().find(|line| line.contains("next run"));
    let next = next.expect("the next run");
    assert!(
        next.contains("train.py:2  BATCH = 128→64 python3 train.py"),
        "{dialog}"
    );
    assert!(!dialog.contains("OOMPH_EDITS"), "{dialog}");
    // The diagnosis first, then the command.
    let mut pressed = Instant::now();
    terminal.press("y");
    let mut copied = String::new();
    wait_until("a copied command", PATIENCE, || {
        if pressed.elapsed() > Duration::from_secs(1) {
            pressed = Instant::now();
            terminal.press("y");
        }
        copied = clipboard(terminal).unwrap_or_default();
        copied.starts_with("oomph ")
    });
    assert_eq!(copied, "oomph --edit train.py:2:9:128=64 python3 train.py");
    terminal.press("q");

    let directory = screen.directory.path();
    let binary = Path::new(env!("CARGO_BIN_EXE_oomph"))
        .parent()
        .expect("a directory");
    let path = std::env::var("PATH").unwrap_or_default();
    let shell = oomph(directory, &directory.join("home"));
    let mut again = Command::new("sh");
    again
        .args(["-c", &copied])
        .current_dir(directory)
        .envs(
            shell
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("PATH", format!("{}:{path}", binary.display()))
        .stdin(Stdio::null());
    let done = again.output().expect("a shell");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.stdout, b"trained with 64 x 1\n", "{said}");
    assert!(done.status.success(), "{said}");
}
