//! A keeper on a stage: streams in place of a user's, orders in, reports out, and a deadline on
//! every wait.

use crate::harness::terminal::pseudo_terminal;
use nix::fcntl::OFlag;
use nix::libc;
use oomph::command::{CommandLine, EnvChange, Word};
use oomph::event::Exit;
use oomph::supervise::{
    Io, Keeper, KeeperOrder, KeeperReport, KeeperTimeouts, Launch, LineSettings, OutputStream,
    Reports, Setup, Size,
};
use oomph::units::{Pid, RunNumber};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than anything here takes on a machine that is busy.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for a condition.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(began.elapsed() < DEADLINE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Collects what comes out of a descriptor, in a thread.
#[derive(Clone)]
pub struct Collected(Arc<Mutex<(Vec<u8>, bool)>>);

impl Collected {
    pub fn from(fd: OwnedFd) -> Collected {
        let collected = Collected(Arc::default());
        let ours = collected.clone();
        std::thread::spawn(move || {
            let mut file = File::from(fd);
            let mut chunk = vec![0; 1 << 16];
            while let Ok(n) = file.read(&mut chunk) {
                if n == 0 {
                    break;
                }
                ours.0.lock().unwrap().0.extend_from_slice(&chunk[..n]);
            }
            ours.0.lock().unwrap().1 = true;
        });
        collected
    }

    /// Of a stream that nobody looks at.
    pub fn nothing() -> Collected {
        Collected(Arc::default())
    }

    pub fn so_far(&self) -> Vec<u8> {
        self.0.lock().unwrap().0.clone()
    }

    pub fn to_the_end(&self) -> Vec<u8> {
        wait_for("the end of a stream", || {
            let inner = self.0.lock().unwrap();
            inner.1.then(|| inner.0.clone())
        })
    }
}

/// Reads a descriptor to its end in a thread, and only counts.
pub struct Drained(std::thread::JoinHandle<u64>);

impl Drained {
    pub fn from(fd: OwnedFd) -> Drained {
        Drained(std::thread::spawn(move || {
            let mut file = File::from(fd);
            let mut chunk = vec![0; 1 << 16];
            let mut count = 0;
            while let Ok(n) = file.read(&mut chunk) {
                if n == 0 {
                    break;
                }
                count += n as u64;
            }
            count
        }))
    }

    /// How many bytes there were, once nobody writes any more.
    pub fn count(self) -> u64 {
        self.0.join().unwrap()
    }
}

/// A pipe of which no other test's keeper gets an end.
pub fn pipe() -> (OwnedFd, OwnedFd) {
    nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap()
}

/// A user's terminal.
pub struct UsersTerminal {
    pub master: OwnedFd,
    pub slave: OwnedFd,
}

impl UsersTerminal {
    pub fn open() -> UsersTerminal {
        let (master, slave) = pseudo_terminal();
        UsersTerminal { master, slave }
    }

    pub fn stdio(&self) -> Stdio {
        self.slave.try_clone().unwrap().into()
    }
}

/// How a keeper is to be started.
pub struct Casting {
    pub io: Io,
    pub timing: KeeperTimeouts,
    pub stdin: Stdio,
    pub stdout: Stdio,
    pub stderr: Stdio,
    pub line: Option<LineSettings>,
    pub log: Option<PathBuf>,
    /// Words of the shell that the keeper is started by: limits, descriptors.
    pub before: Option<String>,
}

impl Casting {
    /// No terminal, nothing to write to.
    pub fn silent() -> Casting {
        Casting {
            io: Io::PassThrough,
            timing: KeeperTimeouts::scaled(100),
            stdin: Stdio::null(),
            stdout: Stdio::null(),
            stderr: Stdio::null(),
            line: None,
            log: None,
            before: None,
        }
    }

    /// All three streams on this terminal.
    pub fn on(terminal: &UsersTerminal, io: Io) -> Casting {
        Casting {
            io,
            stdin: terminal.stdio(),
            stdout: terminal.stdio(),
            stderr: terminal.stdio(),
            line: LineSettings::read(&terminal.slave),
            ..Casting::silent()
        }
    }

    pub fn start(self) -> Stage {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let oomph = env!("CARGO_BIN_EXE_oomph");
        let mut command = match &self.before {
            None => Command::new(oomph),
            Some(before) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("{before}; exec \"$0\" \"$@\""), oomph]);
                shell
            }
        };
        command
            .stdin(self.stdin)
            .stdout(self.stdout)
            .stderr(self.stderr);
        let setup = Setup {
            log: self.log,
            io: self.io,
            timing: self.timing,
            forwarding: oomph::supervise::Forwarding::default(),
            input: oomph::supervise::PipedInput::default(),
        };
        let (keeper, reports) = {
            let _inside = runtime.enter();
            Keeper::start_as(command, &setup, self.line, None).unwrap()
        };
        Stage {
            runtime,
            keeper,
            reports,
            run: 0,
        }
    }
}

/// A keeper and its front.
pub struct Stage {
    runtime: tokio::runtime::Runtime,
    pub keeper: Keeper,
    pub reports: Reports,
    run: u32,
}

impl Drop for Stage {
    /// A keeper keeps its trainer alive whatever becomes of its front; a failed test must not
    /// leave one behind.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.keeper.send(KeeperOrder::Kill);
            let _ = self.keeper.send(KeeperOrder::Release);
        }
    }
}

/// All that a run came to.
#[derive(Debug, Default)]
pub struct Outcome {
    pub terminal: Vec<u8>,
    pub out: Vec<u8>,
    pub err: Vec<u8>,
    pub missed: u64,
    pub exit: Option<Exit>,
    pub left: Vec<Pid>,
    pub failed: Option<(i32, i32, String)>,
    pub notes: Vec<String>,
}

impl Stage {
    pub fn order(&self, order: KeeperOrder) {
        self.keeper.send(order).unwrap();
    }

    pub fn next(&mut self) -> Option<KeeperReport> {
        let reports = &mut self.reports;
        self.runtime.block_on(async {
            tokio::time::timeout(DEADLINE, reports.next())
                .await
                .expect("no report within the deadline")
        })
    }

    /// Does something of the front's in its loop.
    pub fn wait_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// The next report that is of interest.
    pub fn until<T>(&mut self, mut of_interest: impl FnMut(&KeeperReport) -> Option<T>) -> T {
        loop {
            let report = self.next().expect("the keeper is gone");
            if let Some(value) = of_interest(&report) {
                return value;
            }
        }
    }

    pub fn launch_command(&mut self, command: CommandLine, size: Option<Size>) {
        self.run += 1;
        self.order(KeeperOrder::Launch(Launch {
            run: RunNumber(self.run),
            command,
            size,
        }));
    }

    pub fn launch(&mut self, argv: &[&str]) {
        self.launch_command(command(argv), None);
    }

    /// Launches and waits until the program runs.
    pub fn launch_and_see(&mut self, argv: &[&str]) -> Pid {
        self.launch(argv);
        self.until(|report| match report {
            KeeperReport::Started { pid, .. } => Some(*pid),
            KeeperReport::SpawnFailed { reason, .. } => panic!("{reason}"),
            _ => None,
        })
    }

    /// Everything up to the end of the present run.
    pub fn outcome(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        loop {
            match self.next().expect("the keeper is gone") {
                KeeperReport::Output { stream, bytes } => match stream {
                    OutputStream::Terminal => outcome.terminal.extend(bytes),
                    OutputStream::Out => outcome.out.extend(bytes),
                    OutputStream::Err => outcome.err.extend(bytes),
                },
                KeeperReport::Gap { bytes } => outcome.missed += bytes.0,
                KeeperReport::Exited { exit, left, .. } => {
                    outcome.exit = Some(exit);
                    outcome.left = left;
                    return outcome;
                }
                KeeperReport::SpawnFailed {
                    errno,
                    status,
                    reason,
                    ..
                } => {
                    outcome.failed = Some((errno, status, reason));
                    return outcome;
                }
                KeeperReport::Note(text) => outcome.notes.push(text),
                KeeperReport::Started { .. }
                | KeeperReport::Swept { .. }
                | KeeperReport::Stopping { .. }
                | KeeperReport::Suspended { .. }
                | KeeperReport::Resumed
                | KeeperReport::Unlogged { .. }
                | KeeperReport::Logged { .. }
                | KeeperReport::Welcome(_)
                | KeeperReport::Recent(_)
                | KeeperReport::Undelivered { .. }
                | KeeperReport::Superseded
                | KeeperReport::StopAsked { .. }
                | KeeperReport::Signalled(_)
                | KeeperReport::InputSpent { .. }
                | KeeperReport::Stays
                | KeeperReport::Finished => {}
            }
        }
    }

    pub fn run(&mut self, argv: &[&str]) -> Outcome {
        self.launch(argv);
        self.outcome()
    }

    pub fn swept(&mut self) -> Vec<Pid> {
        self.until(|report| match report {
            KeeperReport::Swept { left } => Some(left.clone()),
            _ => None,
        })
    }

    /// Ends the session and waits until the keeper is gone.
    pub fn finish(mut self) {
        self.order(KeeperOrder::Finish);
        self.until(|report| matches!(report, KeeperReport::Finished).then_some(()));
        assert_eq!(self.next(), None);
        wait_until_gone(self.keeper.pid());
    }
}

/// Waits for a child of ours to end, and reaps it.
pub fn wait_until_gone(pid: Pid) {
    wait_for("the keeper's end", || {
        let pid = nix::unistd::Pid::from_raw(pid.0);
        match nix::sys::wait::waitpid(pid, Some(nix::sys::wait::WaitPidFlag::WNOHANG)) {
            Ok(nix::sys::wait::WaitStatus::StillAlive) => None,
            Ok(_) | Err(_) => Some(()),
        }
    });
}

pub fn command(argv: &[&str]) -> CommandLine {
    CommandLine {
        argv: argv.iter().map(Word::from).collect(),
        env: Vec::new(),
        cwd: std::env::current_dir().unwrap(),
    }
}

pub fn with_env(mut command: CommandLine, name: &str, value: &str) -> CommandLine {
    command.env.push(EnvChange {
        name: name.into(),
        value: Some(value.into()),
    });
    command
}

/// Whether a process lives (a zombie does not).
pub fn lives(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    })
}

/// A file that a child writes, once there is something in it.
pub fn content_of(path: &Path) -> String {
    wait_for(&path.display().to_string(), || {
        std::fs::read_to_string(path)
            .ok()
            .filter(|text| text.ends_with('\n'))
    })
}

/// One field of `/proc/PID/status`.
pub fn status_of(pid: i32, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap().trim().to_string()
}

/// Sends a signal.
pub fn kill(pid: i32, signal: i32) {
    // SAFETY: no memory is involved.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}
