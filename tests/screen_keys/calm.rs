//! What a screen meets in a terminal beside keys: it stays whole, and it stays calm.

use crate::harness::{Key, PATIENCE, Terminal, processes, wait_until};
use nix::sys::signal::Signal::{SIGCONT, SIGSTOP};
use std::fs;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const OOMPH: &str = env!("CARGO_BIN_EXE_oomph");

/// A program of its own file, so that its words are not in the screen's title.
fn under_oomph(program: &str, rows: u16, cols: u16) -> (Terminal, TempDir) {
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("program.py");
    fs::write(&file, program).expect("a program");
    let file = file.display().to_string();
    let home = directory.path().display().to_string();
    let argv = [OOMPH, "--no-nvml", "--no-record", "python3", &file];
    let terminal = Terminal::spawn(&argv, &[("HOME", &home)], rows, cols);
    (terminal, directory)
}

#[test]
fn a_storm_of_resizes_leaves_a_whole_screen() {
    let (mut terminal, _kept) = under_oomph(
        "import sys, time\nfor n in range(40): print('line', n)\n\
         print('listening', flush=True)\nsys.stdin.readline()\n",
        30,
        100,
    );
    terminal.wait_for("listening", PATIENCE);
    for round in 0..40u16 {
        for (rows, cols) in [(24, 80), (5, 20), (60, 200), (1, 1), (12, 40), (45, 140)] {
            terminal.resize(rows + round % 3, cols + round % 5);
        }
    }
    terminal.resize(30, 100);
    terminal.wait_for(is_whole, PATIENCE);
    terminal.press("q");
    terminal.wait_for("Quit? The training is still running", PATIENCE);
    terminal.press(Key::Ctrl('x'));
    terminal.exit(PATIENCE);
    assert_eq!(terminal.left_behind(), [""; 0]);
}

fn is_whole(screen: &str) -> bool {
    let lines: Vec<&str> = screen.lines().collect();
    lines.len() == 30 && lines[0].contains("oomph") && lines[29].contains("q quit")
}

/// A terminal that was small for a moment has cut what it showed, though its size is the same again when
/// we look.
#[test]
fn a_size_that_comes_back_unseen_is_drawn_anew() {
    let program = "import sys\nprint('listening', flush=True)\nsys.stdin.readline()\n";
    let (mut terminal, _kept) = under_oomph(program, 30, 100);
    terminal.wait_for("listening", PATIENCE);
    terminal.wait_for(is_whole, PATIENCE);
    let front = terminal.pid();
    processes::signal(front, SIGSTOP);
    wait_until("a stopped process", PATIENCE, || {
        processes::state(front) == Some('T')
    });
    terminal.resize(2, 3);
    terminal.resize(30, 100);
    assert!(!is_whole(&terminal.screen()));
    processes::signal(front, SIGCONT);
    terminal.wait_for(is_whole, PATIENCE);
}

/// A frame of a bar must cost the bar, not the screen: no line is scrolled, nothing is cleared, and
/// what is sent stays near what the bar itself says.
#[test]
fn a_bar_at_twenty_frames_a_second_is_calm() {
    const FRAMES: usize = 100;
    let (mut terminal, _kept) = under_oomph(
        "import sys, time\n\
         print('begin', flush=True)\nsys.stdin.readline()\n\
         for n in range(101):\n    bar = '#' * (n // 5)\n\
         \x20   sys.stdout.write(f'\\r{n:3}%|{bar:20}| {n}/100 [00:01<00:02, 20.1it/s]')\n\
         \x20   sys.stdout.flush()\n    time.sleep(0.05)\n\
         sys.stdin.readline()\n",
        30,
        100,
    );
    terminal.wait_for("begin", PATIENCE);
    terminal.press("i");
    terminal.wait_for("your keys go to the training", PATIENCE);
    let before = terminal.raw().len();
    terminal.press("\r");
    terminal.wait_for("100%|####################| 100/100", PATIENCE);
    let raw = terminal.raw();
    let sent = &raw[before..];
    assert!(!contains(sent, b"\x1b[2J"), "the screen was cleared");
    let per_frame = sent.len() / FRAMES;
    assert!(
        per_frame < 400,
        "{per_frame} bytes for each frame of the bar"
    );
    // Every frame is one synchronized update.
    let count = |mark: &[u8]| sent.windows(mark.len()).filter(|w| *w == mark).count();
    assert_eq!(count(b"\x1b[?2026h"), count(b"\x1b[?2026l"));
}

fn contains(bytes: &[u8], sequence: &[u8]) -> bool {
    bytes
        .windows(sequence.len())
        .any(|window| window == sequence)
}

#[test]
fn a_program_with_a_screen_of_its_own_works_inside() {
    let (mut terminal, _kept) = under_oomph(
        "import sys, os, tty, termios\n\
         out = sys.stdout\nprint('in front of it')\n\
         tty.setcbreak(0)\n\
         out.write('\\x1b[?1049h\\x1b[2J\\x1b[3;5Hown screen\\x1b[1;1H\\x1b[7m top \\x1b[0m')\n\
         out.flush()\n\
         while True:\n    key = os.read(0, 8)\n    if key == b'x': break\n\
         \x20   size = os.get_terminal_size()\n\
         \x20   out.write(f'\\x1b[5;5H{key!r} of {size.columns} columns  ')\n    out.flush()\n\
         out.write('\\x1b[?1049l')\nprint('behind it', flush=True)\nos.read(0, 8)\n",
        30,
        100,
    );
    terminal.wait_for("own screen", PATIENCE);
    terminal.wait_for(|screen: &str| !screen.contains("in front of it"), PATIENCE);
    terminal.press("i");
    terminal.wait_for("your keys go to the training", PATIENCE);
    terminal.press("k");
    terminal.wait_for("b'k' of 100 columns", PATIENCE);
    terminal.press("\x1b[A");
    terminal.wait_for("b'\\x1b[A' of", PATIENCE);
    terminal.press("x");
    terminal.wait_for("behind it", PATIENCE);
    terminal.wait_for("in front of it", PATIENCE);
    terminal.wait_for(|screen: &str| !screen.contains("own screen"), PATIENCE);
    assert!(terminal.screen().contains("oomph"), "ours is still there");
}

/// 50 ms on a quiet machine (`tests/bench/run.py --only key`); here only that a flood does not keep
/// a key waiting.
#[test]
fn a_key_is_answered_while_output_floods() {
    let (mut terminal, _kept) = under_oomph(
        "import os\nline = b'x' * 79 + b'\\n'\nblock = line * 800\nwhile True: os.write(1, block)\n",
        30,
        100,
    );
    terminal.wait_for("xxxxxxxx", PATIENCE);
    let mut slowest = Duration::ZERO;
    for _ in 0..10 {
        for (key, there) in [("?", true), ("q", false)] {
            let begun = Instant::now();
            terminal.press(key);
            wait_until("the help", PATIENCE, || {
                terminal.screen().contains("╭─ keys ─") == there
            });
            slowest = slowest.max(begun.elapsed());
        }
    }
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
}
