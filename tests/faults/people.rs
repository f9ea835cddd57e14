//! What people do to a session that they do not mean to touch.

use crate::faults::staging::Scene;
use crate::harness::{Key, PATIENCE};
use nix::sys::signal::Signal::SIGINT;
use oomph::event::Exit;

/// Lines that were meant for a shell, an editor or a colleague.
const LINES: [&str; 12] = [
    "squeue",
    ":wq",
    "r",
    "quota -s",
    "Keep going",
    "watch -n1 nvidia-smi",
    "qlogin",
    "K",
    "sq -k",
    "pip install -e .",
    "rsync -a runs/ host:",
    "cd src\rls -lk\rqstat",
];

#[test]
fn fault_83_a_line_for_another_window_ends_nothing() {
    let steps = ["catch:INT:count", "shout", "until:go"];
    let mut training = Scene::new().size(30, 120).screen(&steps);
    training.terminal().wait_for("<<HERE>>", PATIENCE);
    for line in LINES {
        training.terminal().press(format!("{line}\r").as_str());
        // Out of whatever it has opened; a line is never the rest of the one before.
        for _ in 0..2 {
            training.terminal().press(Key::Esc);
            training.terminal().wait_for("q quit", PATIENCE);
        }
    }
    training.terminal().press("squeue");
    training.terminal().wait_for("type i to send it", PATIENCE);
    training.terminal().press(Key::Ctrl('c'));
    training.terminal().wait_for("Ctrl-C not sent", PATIENCE);
    training.terminal().press(Key::Ctrl('c'));
    training.wait_count(SIGINT, 1);
    training.make("go");
    training.finish(Exit::Code(0));
    assert_eq!(training.runs(), 1);
}
