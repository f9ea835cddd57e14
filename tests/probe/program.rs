//! Programs for the probe to be in: started with it and without it, and what became of them.

use crate::probe::front::{PATIENCE, Place};
use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A training of three steps that prints one line.
pub const TRAINING: &str = "\
import torch, time
parameters = [torch.empty(1 << 20)]
optimizer = torch.optim.Adam(parameters)
for _ in range(3):
    optimizer.step()
    time.sleep(0.03)
print('done')
";

/// The stand-in for torch.
pub fn stub() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/probe/torch_stub")
}

pub fn python() -> OsString {
    std::env::var_os("OOMPH_TEST_PYTHON").unwrap_or_else(|| "python3".into())
}

/// Python's version, `(3, 11)`.
pub fn version() -> (u32, u32) {
    let asked = Command::new(python())
        .args(["-c", "import sys; print(*sys.version_info[:2])"])
        .output()
        .unwrap();
    let text = String::from_utf8(asked.stdout).unwrap();
    let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// What a program left.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Asserts that the program printed this, nothing else, and ended well.
    #[track_caller]
    pub fn expect(&self, stdout: &str) {
        self.expect_exactly(&format!("{stdout}\n"));
    }

    /// Asserts that the program printed nothing and ended well.
    #[track_caller]
    pub fn expect_silent(&self) {
        self.expect_exactly("");
    }

    #[track_caller]
    fn expect_exactly(&self, stdout: &str) {
        let expected = Ended {
            code: Some(0),
            stdout: stdout.to_string(),
            stderr: String::new(),
        };
        assert_eq!(*self, expected);
    }
}

/// A Python command, to be started with the probe or without it.
#[derive(Clone)]
pub struct Program {
    interpreter: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    path: OsString,
    lines: bool,
    is_timed: bool,
}

impl Program {
    /// `python3 arguments…`.
    pub fn new<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Program {
        Program {
            interpreter: python(),
            arguments: arguments
                .into_iter()
                .map(|word| word.as_ref().to_os_string())
                .collect(),
            environment: Vec::new(),
            path: stub().into(),
            lines: true,
            is_timed: false,
        }
    }

    /// A script of its own, `name` in the place's directory.
    pub fn script(place: &Place, name: &str, text: &str) -> Program {
        let path = place.path().join(name);
        std::fs::write(&path, text).unwrap();
        Program::new([path])
    }

    pub fn interpreter(mut self, path: &Path) -> Program {
        self.interpreter = path.into();
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Program {
        self.environment
            .push((name.into(), value.as_ref().to_os_string()));
        self
    }

    /// Puts a directory in front of the PYTHONPATH that the program has by itself.
    pub fn with_path(mut self, directory: &Path) -> Program {
        let mut path = directory.as_os_str().to_os_string();
        path.push(":");
        path.push(&self.path);
        self.path = path;
        self
    }

    /// Without the lines that hold the memory.
    pub fn without_lines(mut self) -> Program {
        self.lines = false;
        self
    }

    /// As it would run without oomph.
    pub fn run_bare(&self) -> Ended {
        self.start_bare().end()
    }

    pub fn start_bare(&self) -> Running {
        Running::start(self.command().env("PYTHONPATH", &self.path))
    }

    pub fn run(&self, place: &Place) -> Ended {
        self.start(place).end()
    }

    /// With the time at its end that a user's program has.
    pub fn timed(mut self) -> Program {
        self.is_timed = true;
        self
    }

    pub fn start(&self, place: &Place) -> Running {
        let ours = place.environment(&self.path, self.lines);
        Running::start(self.command().envs(ours))
    }

    /// With a socket's path of its own.
    pub fn start_with_socket(&self, place: &Place, socket: &Path) -> Running {
        let ours = place.environment(&self.path, self.lines);
        let command = &mut self.command();
        Running::start(command.envs(ours).env("OOMPH_PROBE_SOCKET", socket))
    }

    /// With a directory in front of ours, as a command does that sets PYTHONPATH itself.
    pub fn run_behind(&self, directory: &Path, place: &Place) -> Ended {
        let mut command = self.command();
        for (name, value) in place.environment(&self.path, self.lines) {
            if name == "PYTHONPATH" {
                let mut path = directory.as_os_str().to_os_string();
                path.push(":");
                path.push(value);
                command.env(name, path);
            } else {
                command.env(name, value);
            }
        }
        Running::start(&mut command).end()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.interpreter);
        command
            .args(&self.arguments)
            .env("STUB_HOME", stub())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        if !self.is_timed {
            // Its last lines are to be out on a machine of any load.
            command.env("OOMPH_PROBE_FLUSH_MS", PATIENCE.as_millis().to_string());
        }
        for name in ["RANK", "LOCAL_RANK", "WORLD_SIZE", "PYTHONSTARTUP"] {
            if !self.environment.iter().any(|(set, _)| set == name) {
                command.env_remove(name);
            }
        }
        command
    }
}

/// A program that runs.
pub struct Running {
    child: Child,
    stdout: Text,
    stderr: Text,
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = Text::of(child.stdout.take().unwrap());
        let stderr = Text::of(child.stderr.take().unwrap());
        Running {
            child,
            stdout,
            stderr,
        }
    }

    /// Types a line.
    pub fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits until it has printed a line.
    #[track_caller]
    pub fn wait_until_printed(&self, line: &str) {
        let is_there = |text: &str| text.lines().any(|printed| printed == line);
        self.stdout.wait_until(is_there);
    }

    /// Waits for the process itself (its children may go on), and says how long that took.
    #[track_caller]
    pub fn wait(&mut self) -> Duration {
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if began.elapsed() > PATIENCE {
                self.child.kill().unwrap();
                panic!("the program did not end");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        began.elapsed()
    }

    /// Closes its input and waits for its end and that of its output.
    #[track_caller]
    pub fn end(mut self) -> Ended {
        drop(self.child.stdin.take());
        self.wait();
        Ended {
            code: self.child.wait().unwrap().code(),
            stdout: self.stdout.whole(),
            stderr: self.stderr.whole(),
        }
    }
}

/// What comes from a pipe.
struct Text {
    reader: JoinHandle<()>,
    pieces: Receiver<Vec<u8>>,
    so_far: RefCell<Vec<u8>>,
}

impl Text {
    fn of(mut pipe: impl Read + Send + 'static) -> Text {
        let (sender, pieces) = channel();
        let reader = std::thread::spawn(move || {
            let mut piece = vec![0; 1 << 16];
            loop {
                let length = pipe.read(&mut piece).unwrap();
                if length == 0 || sender.send(piece[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Text {
            reader,
            pieces,
            so_far: RefCell::default(),
        }
    }

    #[track_caller]
    fn wait_until(&self, is_so: impl Fn(&str) -> bool) {
        let mut so_far = self.so_far.borrow_mut();
        while !is_so(&String::from_utf8_lossy(&so_far)) {
            let Ok(piece) = self.pieces.recv_timeout(PATIENCE) else {
                panic!("only {:?} came", String::from_utf8_lossy(&so_far));
            };
            so_far.extend(piece);
        }
    }

    /// All of it, once the pipe's other end is closed.
    fn whole(self) -> String {
        let mut bytes = self.so_far.into_inner();
        bytes.extend(self.pieces.iter().flatten());
        self.reader.join().unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
