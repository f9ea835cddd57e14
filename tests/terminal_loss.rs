//! The terminal goes, or its screen does: the training goes on, nothing burns, nothing is lost that
//! could still be shown.

use crate::harness::{PATIENCE, Terminal, processes, wait_until};
use nix::sys::signal::Signal;
use oomph::event::Exit;
use std::time::Duration;
use tempfile::TempDir;

const OOMPH: &str = env!("CARGO_BIN_EXE_oomph");

fn oomph(words: &[&str]) -> Terminal {
    let mut argv = vec![OOMPH, "--no-nvml", "--no-record"];
    argv.extend_from_slice(words);
    Terminal::spawn(&argv, &[], 24, 80)
}

/// Waits for a file: a sign that the training goes on when no terminal shows it.
fn wait_for_file(path: &std::path::Path) {
    wait_until("the training's own sign", PATIENCE, || path.exists());
}

#[test]
fn a_hang_up_on_a_living_terminal_leaves_the_output_visible() {
    let directory = TempDir::new().expect("a directory");
    let go = directory.path().join("go");
    let script = format!(
        "echo be''fore; while [ ! -e {} ]; do sleep 0.05; done; echo after; exit 3",
        go.display()
    );
    let mut terminal = oomph(&["sh", "-c", &script]);
    // In two pieces above: the command itself is on the screen as well.
    terminal.wait_for("before", PATIENCE);
    processes::signal(terminal.pid(), Signal::SIGHUP);
    wait_until("the screen to be given back", PATIENCE, || {
        terminal.with_screen(|screen| !screen.alternate_screen())
    });
    std::fs::write(go, "").expect("a file");
    terminal.wait_for("after", PATIENCE);
    assert_eq!(terminal.exit(PATIENCE), Exit::Code(3));
    let screen = terminal.screen();
    assert!(screen.contains("before"), "its earlier rows: {screen}");
    assert_eq!(terminal.left_behind(), [""; 0]);
}

#[test]
fn a_terminal_that_closes_in_the_middle_of_a_key_costs_nothing() {
    let directory = TempDir::new().expect("a directory");
    let (go, done) = (directory.path().join("go"), directory.path().join("done"));
    let script = format!(
        "echo ready; while [ ! -e {} ]; do sleep 0.05; done; echo x > {}",
        go.display(),
        done.display()
    );
    let mut terminal = oomph(&["sh", "-c", &script]);
    terminal.wait_for("ready", PATIENCE);
    let front = terminal.pid();
    // Half a mouse report, as a connection that breaks leaves it.
    terminal.press("\x1b[<35;10");
    terminal.close();
    // A thread that spins takes a hundred ticks a second; the rest of the front takes next to none.
    let mut before = processes::cpu_ticks(front);
    wait_until("the front to come to rest", PATIENCE, || {
        std::thread::sleep(Duration::from_millis(500));
        let now = processes::cpu_ticks(front);
        let spent = now - std::mem::replace(&mut before, now);
        spent <= 5
    });
    std::fs::write(go, "").expect("a file");
    wait_for_file(&done);
    terminal.marker().wait_gone(PATIENCE);
}
