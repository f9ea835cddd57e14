//! Fronts that are processes of their own at a terminal of their own: what is typed, Ctrl-C by
//! the kernel, kill -9, nohup.

use crate::supervise::stage::*;
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use oomph::supervise::{LineSettings, RESET};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

struct Front {
    process: Child,
    /// `None` once its window is closed.
    terminal: Option<UsersTerminal>,
    seen: Collected,
    reports: PathBuf,
    directory: tempfile::TempDir,
}

impl Front {
    /// A front as a shell starts one: leading the foreground group of its terminal.
    fn start(io: &str, command: &[&str]) -> Front {
        let terminal = UsersTerminal::open();
        let seen = Collected::from(terminal.master.try_clone().unwrap());
        Front::start_at(terminal, seen, io, command, None)
    }

    /// The same, with a signal ignored, at a terminal that nobody else has open.
    fn start_unwatched(io: &str, command: &[&str], ignored: i32) -> Front {
        let terminal = UsersTerminal::open();
        Front::start_at(terminal, Collected::nothing(), io, command, Some(ignored))
    }

    fn start_at(
        terminal: UsersTerminal,
        seen: Collected,
        io: &str,
        command: &[&str],
        ignored: Option<i32>,
    ) -> Front {
        let directory = tempfile::tempdir().unwrap();
        let reports = directory.path().join("reports");
        let mut front = Command::new("python3");
        front.arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/supervise/front.py"
        ));
        front.args([env!("CARGO_BIN_EXE_oomph"), io]).arg(&reports);
        front.args(command).current_dir(directory.path());
        front.stdin(terminal.stdio()).stdout(terminal.stdio());
        front.stderr(terminal.stdio());
        // SAFETY: system calls only.
        unsafe {
            front.pre_exec(move || {
                nix::libc::setsid();
                nix::libc::ioctl(0, nix::libc::TIOCSCTTY, 0);
                if let Some(signal) = ignored {
                    nix::libc::signal(signal, nix::libc::SIG_IGN);
                }
                Ok(())
            });
        }
        Front {
            process: front.spawn().unwrap(),
            terminal: Some(terminal),
            seen,
            reports,
            directory,
        }
    }

    fn report<T>(&self, what: &str, of_interest: impl Fn(&Value) -> Option<T>) -> T {
        wait_for(what, || {
            let text = std::fs::read_to_string(&self.reports).ok()?;
            let lines = text.lines().filter_map(|l| serde_json::from_str(l).ok());
            lines.collect::<Vec<Value>>().iter().find_map(&of_interest)
        })
    }

    fn trainer(&self) -> i32 {
        self.report("the start", |r| r["started"]["pid"].as_i64()) as i32
    }

    fn sees(&self, text: &str) {
        wait_for(text, || {
            let seen = self.seen.so_far();
            seen.windows(text.len())
                .any(|window| window == text.as_bytes())
                .then_some(())
        });
    }

    fn line(&self) -> LineSettings {
        LineSettings::read(&self.terminal.as_ref().unwrap().slave).unwrap()
    }

    fn types(&self, keys: &[u8]) {
        let terminal = self.terminal.as_ref().unwrap();
        nix::unistd::write(&terminal.master, keys).unwrap();
    }

    fn code(&self) -> Value {
        self.report("the end", |r| r["exited"]["exit"].as_object().cloned())
            .into()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_line_typed_reaches_the_program_and_shows_once() {
    let script = "read line; echo \"[$line]\"; read end || echo ended; exit 3";
    let front = Front::start("pass_through", &["sh", "-c", script]);
    front.trainer();
    front.types(b"hello there\n");
    front.sees("[hello there]");
    front.types(&[4]);
    front.sees("ended");
    assert_eq!(front.code()["code"], 3);
    let seen = String::from_utf8(front.seen.so_far()).unwrap();
    assert_eq!(
        seen.matches("hello there").count(),
        2,
        "echo and answer: {seen:?}"
    );
    assert!(seen.contains("[hello there]\r\n") && !seen.contains("\r\r\n"));
}

#[test]
fn a_password_is_not_shown() {
    let script = "import getpass\nprint('got', len(getpass.getpass()))";
    let front = Front::start("pass_through", &["python3", "-c", script]);
    let found = front.line();
    front.sees("Password: ");
    // The program has switched the echo off on its terminal; ours follows.
    wait_for("the echo to go off", || {
        (front.line() != found).then_some(())
    });
    front.types(b"sesame\n");
    front.sees("got 6");
    front.code();
    assert!(!String::from_utf8_lossy(&front.seen.so_far()).contains("sesame"));
    wait_for("the terminal to be as before", || {
        (front.line() == found).then_some(())
    });
}

/// 19: the kernel signals the front alone, and the front passes it on.
#[test]
fn a_ctrl_c_at_a_cooked_terminal_is_one() {
    let script = "import signal, time\nn = 0\ndef h(*_):\n  global n\n  n += 1\nsignal.signal(signal.SIGINT, h)\nprint('ready', flush=True)\nwhile n == 0: time.sleep(0.01)\ntime.sleep(0.3)\nprint('count', n)";
    let front = Front::start("pass_through", &["python3", "-c", script]);
    front.sees("ready");
    front.types(&[3]);
    front.sees("count 1");
    front.code();
}

/// 40, 60: kill -9, in the middle.
#[test]
fn a_killed_front_leaves_the_program_and_a_sane_terminal() {
    let script = "while ! test -e go; do sleep 0.02; done; echo yes > done";
    let mut front = Front::start("screen", &["sh", "-c", script]);
    let found = front.line();
    let trainer = front.trainer();
    let slave = &front.terminal.as_ref().unwrap().slave;
    let mut raw = tcgetattr(slave).unwrap();
    cfmakeraw(&mut raw);
    tcsetattr(slave, SetArg::TCSANOW, &raw).unwrap();
    front.process.kill().unwrap();
    front.process.wait().unwrap();
    wait_for("the terminal to be as before", || {
        (front.line() == found).then_some(())
    });
    front.sees(RESET);
    assert!(lives(trainer));
    std::fs::write(front.directory.path().join("go"), "").unwrap();
    assert_eq!(content_of(&front.directory.path().join("done")), "yes\n");
}

/// 35, 38: nohup's ignored SIGHUP is ignored in the trainer too, and neither a terminal that goes
/// away nor a front that ends with it is anything to the trainer.
#[test]
fn a_training_under_nohup_survives_its_terminal() {
    let script = "while ! test -e go; do sleep 0.02; done; echo output; echo yes > done";
    let command = ["sh", "-c", script];
    let mut front = Front::start_unwatched("pass_through", &command, nix::libc::SIGHUP);
    let trainer = front.trainer();
    let ignored = u64::from_str_radix(&status_of(trainer, "SigIgn:"), 16).unwrap();
    assert_eq!(ignored & 1, 1);
    // The window is closed. The front lives on, for it ignores the signal, until it is killed.
    front.terminal = None;
    front.process.kill().unwrap();
    front.process.wait().unwrap();
    assert!(lives(trainer));
    std::fs::write(front.directory.path().join("go"), "").unwrap();
    assert_eq!(content_of(&front.directory.path().join("done")), "yes\n");
}
