//! `--hold`: the last screen stays until a person quits.

use crate::harness::{PATIENCE, Terminal};
use oomph::event::Exit;
use tempfile::TempDir;

const OOMPH: &str = env!("CARGO_BIN_EXE_oomph");

/// A program that ends by itself, and what the screen's header then says of it.
const ENDS: [&str; 3] = ["sh", "-c", "echo the output; exit 3"];
const ENDED: &str = "exit 3";

fn session(options: &[&str]) -> (TempDir, Terminal) {
    let home = TempDir::new().expect("a directory");
    let path = home.path().display().to_string();
    let argv = [&[OOMPH, "--no-nvml", "--no-record"], options, &ENDS].concat();
    let terminal = Terminal::spawn(&argv, &[("HOME", &path)], 24, 100);
    (home, terminal)
}

fn is_held(screen: &str) -> bool {
    let parts = ["q quit", "the output", ENDED, "The program has ended"];
    parts.iter().all(|part| screen.contains(part))
}

#[test]
fn the_last_screen_stays_until_a_key() {
    let (_home, mut terminal) = session(&["--hold"]);
    terminal.wait_for(is_held, PATIENCE);
    // Other keys are those of a screen, and end nothing.
    terminal.press("?");
    terminal.wait_for("previous pane", PATIENCE);
    terminal.press("?");
    terminal.wait_for(is_held, PATIENCE);
    assert!(!terminal.marker().processes().is_empty());
    terminal.press("q");
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(3));
    let last = terminal.screen();
    assert!(
        last.contains("the output") && last.contains("ended with exit 3"),
        "{last}"
    );
    assert_eq!(terminal.left_behind(), Vec::<&str>::new());
}

#[test]
fn without_it_the_session_ends_with_its_program() {
    let (_home, mut terminal) = session(&[]);
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(3));
    assert!(terminal.screen().contains("the output"));
}
