//! Who gets which signal, and how often.

use crate::supervise::stage::*;
use nix::libc;
use oomph::event::Exit;
use oomph::supervise::{Io, KeeperOrder, KeeperReport, Size, inherited};
use std::os::fd::AsRawFd;

/// Counts a signal, and tells the count when the file `go` appears.
fn counter(signal: &str, go: &std::path::Path, count: &std::path::Path) -> String {
    format!(
        "import os, signal, time\nn = 0\ndef h(*_):\n  global n\n  n += 1\nsignal.signal(signal.{signal}, h)\nprint('ready', flush=True)\nwhile not os.path.exists('{}'): time.sleep(0.01)\nopen('{}', 'w').write('%d\\n' % n)",
        go.display(),
        count.display()
    )
}

struct Counting {
    stage: Stage,
    pid: i32,
    directory: tempfile::TempDir,
}

impl Counting {
    fn begin(signal: &str, io: Io) -> (Counting, UsersTerminal) {
        let directory = tempfile::tempdir().unwrap();
        let terminal = UsersTerminal::open();
        let mut stage = Casting::on(&terminal, io).start();
        let script = counter(
            signal,
            &directory.path().join("go"),
            &directory.path().join("count"),
        );
        let pid = stage.launch_and_see(&["python3", "-c", &script]).0;
        stage.until(|report| match report {
            KeeperReport::Output { bytes, .. } => bytes.starts_with(b"ready").then_some(()),
            _ => None,
        });
        let counting = Counting {
            stage,
            pid,
            directory,
        };
        (counting, terminal)
    }

    /// Whether the signal has arrived and was handled: nothing is pending.
    fn settle(&self) {
        wait_for("the signal to be handled", || {
            let pending = |field| u64::from_str_radix(&status_of(self.pid, field), 16).unwrap();
            (pending("SigPnd:") | pending("ShdPnd:") == 0).then_some(())
        });
    }

    fn count(mut self) -> String {
        // The keeper carries orders out in turn: once it says that this one is nothing, all
        // earlier ones are carried out.
        self.stage.order(KeeperOrder::Sweep);
        self.stage.swept();
        self.settle();
        std::fs::write(self.directory.path().join("go"), "").unwrap();
        let outcome = self.stage.outcome();
        assert_eq!(outcome.exit, Some(Exit::Code(0)));
        self.stage.finish();
        content_of(&self.directory.path().join("count"))
    }
}

/// 19
#[test]
fn one_interrupt_is_one_interrupt() {
    for io in [Io::Screen, Io::PassThrough] {
        let (counting, _terminal) = Counting::begin("SIGINT", io);
        counting.stage.order(KeeperOrder::Interrupt);
        assert_eq!(counting.count(), "1\n");
    }
}

/// 19, attached: the byte does it, by way of the terminal.
#[test]
fn the_key_itself_is_one_interrupt_too() {
    let (mut counting, _terminal) = Counting::begin("SIGINT", Io::Screen);
    counting.stage.order(KeeperOrder::Input(vec![3]));
    // What the line discipline has to do with it is done before it takes the next key.
    counting.stage.order(KeeperOrder::Input(b"\n".to_vec()));
    counting.stage.until(|report| match report {
        KeeperReport::Output { bytes, .. } => bytes.contains(&b'\n').then_some(()),
        _ => None,
    });
    assert_eq!(counting.count(), "1\n");
}

/// 20, 25
#[test]
fn a_signal_from_outside_is_passed_on_once() {
    let (counting, _terminal) = Counting::begin("SIGINT", Io::PassThrough);
    counting
        .stage
        .order(KeeperOrder::Forward(libc::SIGINT.into()));
    assert_eq!(counting.count(), "1\n");
    let (counting, _terminal) = Counting::begin("SIGTERM", Io::PassThrough);
    for _ in 0..10 {
        counting
            .stage
            .order(KeeperOrder::Forward(libc::SIGTERM.into()));
    }
    assert_eq!(counting.count(), "1\n");
}

/// 23: a keeper that is signalled like everybody else passes nothing on and lives.
#[test]
fn the_keeper_minds_no_signal_while_it_has_a_front() {
    let (counting, _terminal) = Counting::begin("SIGTERM", Io::Screen);
    let keeper = counting.stage.keeper.pid().0;
    for signal in [1, 2, 3, 10, 12, 13, 14, 15, 20, 21, 22, 25, 28] {
        kill(keeper, signal);
    }
    assert_eq!(counting.count(), "0\n");
}

/// 24
#[test]
fn a_trainer_that_signals_its_parent_harms_nobody() {
    let mut stage = Casting::silent().start();
    let outcome = stage.run(&["sh", "-c", "kill -TERM $PPID; sleep 0.2; exit 4"]);
    assert_eq!(outcome.exit, Some(Exit::Code(4)));
    stage.finish();
}

/// 22
#[test]
fn usr1_goes_to_who_handles_it_and_to_nobody_else() {
    let directory = tempfile::tempdir().unwrap();
    let got = directory.path().join("got");
    let ready = directory.path().join("ready");
    let mut stage = Casting::silent().start();
    stage.launch_and_see(&["sleep", "600"]);
    stage.order(KeeperOrder::Forward(libc::SIGUSR1.into()));
    let note = stage.until(|report| match report {
        KeeperReport::Note(text) => Some(text.clone()),
        KeeperReport::Exited { .. } => panic!("it was killed by it"),
        _ => None,
    });
    assert!(note.contains("no process handles it"), "{note}");
    stage.order(KeeperOrder::Kill);
    stage.swept();
    // A rank in a session of its own that handles it, below an agent that does not.
    let rank = format!(
        "import os, signal, time\nos.setsid()\nsignal.signal(signal.SIGUSR1, lambda *_: open('{}', 'w').write('yes\\n'))\nopen('{}', 'w').write('yes\\n')\ntime.sleep(600)",
        got.display(),
        ready.display()
    );
    let agent = format!(
        "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', r'''{rank}''']).wait()"
    );
    let pid = stage.launch_and_see(&["python3", "-c", &agent]);
    content_of(&ready);
    stage.order(KeeperOrder::Forward(libc::SIGUSR1.into()));
    assert_eq!(content_of(&got), "yes\n");
    assert!(lives(pid.0));
    stage.order(KeeperOrder::Kill);
    assert_eq!(stage.swept(), []);
    stage.finish();
}

/// 35, in part: nothing that Rust's runtime or we arranged reaches the trainer.
#[test]
fn the_trainer_finds_signals_as_oomph_found_them() {
    let terminal = UsersTerminal::open();
    for mut stage in [
        Casting::silent().start(),
        Casting::on(&terminal, Io::Screen).start(),
    ] {
        let pid = stage.launch_and_see(&["sleep", "600"]).0;
        let set = |field| u64::from_str_radix(&status_of(pid, field), 16).unwrap();
        let (ignored, blocked) = (set("SigIgn:"), set("SigBlk:"));
        for signal in (1..32).filter(|signal| ![9, 19].contains(signal)) {
            let bit = 1 << (signal - 1);
            assert_eq!(
                ignored & bit != 0,
                inherited().is_ignored(signal),
                "{signal}"
            );
            assert_eq!(
                blocked & bit != 0,
                inherited().is_blocked(signal),
                "{signal}"
            );
        }
        stage.order(KeeperOrder::Kill);
        stage.swept();
        stage.finish();
    }
}

/// Reads keys itself, as what relays a terminal does.
const RELAYS: &str = "
import os, signal, sys, termios, tty
signal.signal(signal.SIGINT, lambda *_: os._exit(3))
tty.setraw(0)
os.write(1, b'up')
sys.exit(0 if os.read(0, 1) == b'\\x03' else 4)
";

#[test]
fn who_has_turned_the_interrupt_into_a_key_gets_the_key() {
    let terminal = UsersTerminal::open();
    let mut stage = Casting::on(&terminal, Io::Screen).start();
    stage.launch(&["python3", "-c", RELAYS]);
    stage.until(|report| matches!(report, KeeperReport::Output { .. }).then_some(()));
    stage.order(KeeperOrder::Interrupt);
    assert_eq!(stage.outcome().exit, Some(Exit::Code(0)));
    stage.finish();
}

/// 31
#[test]
fn a_stop_key_does_not_stop_the_training() {
    let (counting, _terminal) = Counting::begin("SIGINT", Io::Screen);
    counting.stage.order(KeeperOrder::Input(vec![0x1a]));
    counting.stage.order(KeeperOrder::Interrupt);
    let state = status_of(counting.pid, "State:");
    assert!(!state.starts_with('T'), "{state}");
    assert_eq!(counting.count(), "1\n", "it runs and handles signals");
}

/// 34
#[test]
fn a_thousand_resizes_are_few_for_the_program() {
    let (mut counting, _terminal) = Counting::begin("SIGWINCH", Io::Screen);
    let began = std::time::Instant::now();
    for n in 0..1000u16 {
        let size = Size::new(n % 50, 1000 - n);
        counting.stage.order(KeeperOrder::Resize(size));
    }
    counting.stage.order(KeeperOrder::Resize(Size::new(0, 0)));
    counting.stage.order(KeeperOrder::Sweep);
    counting.stage.swept();
    let tty = std::fs::File::open(format!("/proc/{}/fd/0", counting.pid)).unwrap();
    wait_for("the last size", || {
        // SAFETY: TIOCGWINSZ fills a winsize that lives on this stack.
        let size = unsafe {
            let mut size: libc::winsize = std::mem::zeroed();
            libc::ioctl(tty.as_raw_fd(), libc::TIOCGWINSZ, &mut size);
            size
        };
        ((size.ws_row, size.ws_col) == (2, 2)).then_some(())
    });
    drop(tty);
    let most = 2 + began.elapsed().as_millis() / 100;
    let count: u128 = counting.count().trim().parse().unwrap();
    assert!((1..=most).contains(&count), "{count} of at most {most}");
}

/// A signal that comes between fork and exec is delivered when the program is there, at a relaunch
/// as at the first start.
#[test]
fn a_signal_that_comes_before_the_program_is_kept_for_it() {
    let terminal = UsersTerminal::open();
    for io in [Io::Screen, Io::PassThrough] {
        let mut stage = Casting::on(&terminal, io).start();
        for (order, signal) in [
            (KeeperOrder::Forward(libc::SIGTERM.into()), libc::SIGTERM),
            (KeeperOrder::Forward(libc::SIGINT.into()), libc::SIGINT),
            (KeeperOrder::Interrupt, libc::SIGINT),
        ] {
            // Both at once: the keeper has not seen the exec when it takes the second.
            stage.launch(&["sleep", "600"]);
            stage.order(order);
            assert_eq!(stage.outcome().exit, Some(Exit::Signal(signal)));
        }
        stage.finish();
    }
}

/// Of what came early each signal is delivered once, and before an order to stop.
#[test]
fn many_early_signals_are_one() {
    let mut stage = Casting::silent().start();
    stage.launch(&["sleep", "600"]);
    for _ in 0..100 {
        stage.order(KeeperOrder::Forward(libc::SIGUSR1.into()));
    }
    stage.order(KeeperOrder::Forward(libc::SIGINT.into()));
    let outcome = stage.outcome();
    assert_eq!(outcome.exit, Some(Exit::Signal(libc::SIGINT)));
    stage.finish();
}
