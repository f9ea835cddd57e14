//! One run: the trainer, its terminal and pipes, and how far it has come.

use super::descriptor;
use super::environment::{self, OutputPath};
use super::pty::{LineMode, Pty};
use super::spawn::{self, Blueprint, Spawned};
use super::stdio::{Route, StdioPlan};
use super::tail::FollowedFile;
use super::users_pipe;
use crate::event::Exit;
use crate::supervise::Missing;
use crate::supervise::resolve;
use crate::supervise::wire::FirstMessage;
use crate::supervise::{Io, Launch, OutputStream, RunStage, RunStatus, Size};
use crate::units::{Pid, RunNumber};
use nix::libc;
use nix::sys::stat::stat;
use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Keys that wait for a trainer that does not read.
pub(super) const MOST_KEYS: usize = 64 << 10;

/// A run, from its launch until nobody holds what it was given any more.
pub(super) struct TrainerRun {
    pub number: RunNumber,
    pub stage: Stage,
    /// Its pseudo-terminal, until nobody is on the other side.
    pub terminal: Option<Terminal>,
    /// Its pipes, until nobody writes to them.
    pub pipes: Vec<Pipe>,
    /// The user's files that it writes to.
    pub tails: Vec<FollowedFile>,
    pub keys: VecDeque<u8>,
    /// Keys that it never took, and how many of them were told of.
    pub lost_keys: (usize, usize),
    /// The program and where it runs, to explain a failure.
    pub path: PathBuf,
    pub cwd: PathBuf,
    /// Whether its environment makes it a rank of something larger.
    pub ranked: bool,
    /// The words of the program as /proc shows them.
    pub words: Vec<u8>,
    /// When it began, in clock ticks since boot; what is older is none of its tree.
    pub since: u64,
    /// When its sources were last heard of.
    pub heard: Instant,
    /// The end that the user asked for.
    pub stop: Option<Stop>,
    /// Signals from outside that were passed on already.
    pub forwarded: Vec<i32>,
    /// The direct child, once there was one.
    pub trainer: Option<(i32, u64)>,
    /// How it was over, as others are told later.
    pub outcome: Option<RunStage>,
    /// What came between fork and exec, each once and in order, for when the program is there.
    pub early: Vec<Early>,
}

/// A signal that came before there was a program to take it. Of each one is kept, as the kernel
/// keeps one of each that is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Early {
    /// For the foreground group, as a key would be.
    Interrupt,
    /// For the direct child.
    Signal(i32),
}

/// How far a run has come.
#[derive(Debug)]
pub(super) enum Stage {
    /// Between fork and exec.
    Starting {
        /// Where the process says how it fares.
        pipe: OwnedFd,
        /// What it said.
        said: Vec<u8>,
    },
    /// The program runs.
    Running(i32),
    /// It was reaped; its output is being taken out.
    Draining {
        exit: Exit,
        /// When, or when we could last read.
        since: Instant,
    },
    /// All is reported.
    Over,
}

/// The end that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The trainer has been asked; at this instant its whole tree is.
    Asked(Instant),
    /// The sweep has begun.
    Sweeping,
    /// The sweep is over.
    Swept,
}

/// A pseudo-terminal and who holds its session.
pub(super) struct Terminal {
    pub pty: Pty,
    /// The holder of its session, to be ended when the terminal is given up.
    pub holder: Option<i32>,
}

/// The reading end of a pipe that the trainer writes to.
pub(super) struct Pipe {
    pub stream: OutputStream,
    pub fd: OwnedFd,
    /// Whether nobody writes to it any more.
    pub ended: bool,
}

/// A run that came to nothing.
pub(super) struct Failed {
    /// What to say.
    pub reason: String,
    /// The system's number.
    pub errno: i32,
    /// The path that was tried.
    pub path: PathBuf,
    /// What to exit with.
    pub status: i32,
}

impl Failed {
    /// A failure of oomph's own.
    pub(super) fn ours(what: &str, errno: i32, path: &Path) -> Failed {
        let why = nix::errno::Errno::from_raw(errno).desc();
        let mend = match errno {
            libc::EAGAIN => "; too many processes: see ulimit -u",
            libc::EMFILE | libc::ENFILE => "; too many open files: see ulimit -n",
            libc::ENOMEM => "; the machine is out of memory",
            _ => "",
        };
        Failed {
            reason: format!("{what}: {why}{mend}"),
            errno,
            path: path.to_path_buf(),
            status: 125,
        }
    }
}

impl From<Missing> for Failed {
    fn from(why: Missing) -> Failed {
        Failed {
            reason: why.to_string(),
            errno: why.errno(),
            path: why.path().to_path_buf(),
            status: why.status(),
        }
    }
}

/// A run that is on its way, and what the user should know of it.
pub(super) struct Begun {
    pub run: TrainerRun,
    pub note: Option<String>,
}

impl TrainerRun {
    /// Starts a run. What the trainer gets is decided by `plan`.
    pub(super) fn begin(
        launch: Launch,
        hello: &FirstMessage,
        plan: StdioPlan,
    ) -> Result<Begun, Failed> {
        let Launch { run, command, size } = launch;
        let inherited_path = std::env::var_os("PATH");
        let path = resolve::resolve(&command, inherited_path.as_deref())?;
        let cwd = command.cwd.clone();
        let (mut plan, mut note) = (plan, None);
        let pty = match plan.terminal {
            None => None,
            Some(user) => {
                let size = size
                    .or_else(|| super::stdio::window_size(user))
                    .unwrap_or(Size::USUAL);
                let line = match hello.io {
                    Io::Screen => LineMode::Screen,
                    Io::PassThrough => LineMode::Relay,
                };
                match Pty::open(size, hello.line.as_ref(), line) {
                    Ok(pty) => Some(pty),
                    Err(errno) => {
                        note = Some(format!(
                            "cannot open a pseudo-terminal ({}); the program runs without one",
                            errno.desc()
                        ));
                        plan = plan.without_terminal(hello.io);
                        None
                    }
                }
            }
        };
        let env = environment::environment(
            std::env::vars_os(),
            &command.env,
            OutputPath {
                io: hello.io,
                terminal: pty.is_some(),
                pipe: plan.has_pipe(),
            },
        );
        let ranked = super::sweep::is_ranked(env.keys().map(OsString::as_os_str));
        let ours = |what: &str, errno: nix::errno::Errno| Failed::ours(what, errno as i32, &path);
        let mut ends: Vec<(OutputStream, OwnedFd)> = Vec::new();
        let mut pipes = Vec::new();
        let mut tails = Vec::new();
        let mut streams = [None; 3];
        for (place, way) in streams.iter_mut().zip([plan.input, plan.out, plan.err]) {
            match way {
                Route::Inherit | Route::Follow(_) => {}
                Route::Terminal => {
                    *place = pty
                        .as_ref()
                        .and_then(|pty| Some(pty.slave.as_ref()?.as_raw_fd()));
                }
                Route::Pipe(stream) => {
                    if !ends.iter().any(|(other, _)| *other == stream) {
                        let no_pipe = |errno| ours("cannot create a pipe", errno);
                        let (fd, writing) = descriptor::pipe().map_err(no_pipe)?;
                        descriptor::set_nonblocking(&fd).map_err(no_pipe)?;
                        users_pipe::widen(&fd);
                        pipes.push(Pipe {
                            stream,
                            fd,
                            ended: false,
                        });
                        ends.push((stream, writing));
                    }
                    *place = ends
                        .iter()
                        .find(|(other, _)| *other == stream)
                        .map(|(_, end)| end.as_raw_fd());
                }
            }
        }
        for (number, way) in [(1, plan.out), (2, plan.err)] {
            if let Route::Follow(stream) = way
                && !tails
                    .iter()
                    .any(|tail: &FollowedFile| tail.stream == stream)
                && let Ok(tail) = FollowedFile::follow(number, stream)
            {
                tails.push(tail);
            }
        }
        let argv: Vec<CString> = command
            .argv
            .iter()
            .filter_map(|word| CString::new(word.as_bytes()).ok())
            .collect();
        if argv.len() != command.argv.len() {
            return Err(Failed::ours(
                "an argument contains a NUL byte",
                libc::EINVAL,
                &path,
            ));
        }
        let words = argv.iter().flat_map(|word| word.to_bytes_with_nul());
        let words: Vec<u8> = words.copied().collect();
        let c_path = CString::new(path.as_os_str().as_bytes()).map_err(|_| {
            Failed::ours(
                "the program's path contains a NUL byte",
                libc::EINVAL,
                &path,
            )
        })?;
        let Spawned {
            words: pipe,
            holder,
        } = spawn::spawn(&Blueprint {
            for_a_shell: resolve::is_for_a_shell(&cwd.join(&path)),
            path: c_path,
            argv,
            env: environment::for_exec(env),
            cwd: elsewhere(&cwd),
            streams,
            terminal: pty
                .as_ref()
                .and_then(|pty| Some(pty.slave.as_ref()?.as_raw_fd())),
            inherited: hello.inherited,
        })
        .map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            Failed::ours("cannot create a process for the command", errno, &path)
        })?;
        Ok(Begun {
            run: TrainerRun {
                number: run,
                stage: Stage::Starting {
                    pipe,
                    said: Vec::new(),
                },
                terminal: pty.map(|pty| Terminal { pty, holder }),
                pipes,
                tails,
                keys: VecDeque::new(),
                lost_keys: (0, 0),
                path,
                cwd,
                ranked,
                words,
                since: 0,
                heard: Instant::now(),
                stop: None,
                forwarded: Vec::new(),
                trainer: None,
                outcome: None,
                early: Vec::new(),
            },
            note,
        })
    }

    /// The direct child, while it is one.
    pub(super) fn pid(&self) -> Option<i32> {
        match self.stage {
            Stage::Running(pid) => Some(pid),
            Stage::Starting { .. } | Stage::Draining { .. } | Stage::Over => None,
        }
    }

    /// Keeps a signal for later, where it comes too early; whether it did.
    pub(super) fn keep_if_early(&mut self, signal: Early) -> bool {
        let starting = matches!(self.stage, Stage::Starting { .. });
        if starting && !self.early.contains(&signal) {
            self.early.push(signal);
        }
        starting
    }

    /// How it stands, for others.
    pub(super) fn status(&self) -> RunStatus {
        let stage = match (&self.outcome, self.trainer) {
            (Some(outcome), _) => outcome.clone(),
            (None, Some((pid, start_time))) => RunStage::Running {
                pid: Pid(pid),
                start_time,
                streams: self.streams(),
            },
            (None, None) => RunStage::Starting,
        };
        RunStatus {
            run: self.number,
            stage,
        }
    }

    /// Whether all is reported.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Whether anybody may still write to what it was given.
    pub(super) fn is_held(&self) -> bool {
        self.terminal.is_some() || !self.pipes.is_empty()
    }

    /// Gives the terminal up: nobody is on the other side any more. Its session's holder has no
    /// terminal to hold by then, so that its end hangs nobody up.
    pub(super) fn give_up_terminal(&mut self) {
        if let Some(Terminal { holder, .. }) = self.terminal.take()
            && let Some(holder) = holder
        {
            super::tree::kill(holder, libc::SIGKILL);
        }
    }
}

/// The directory to go to, unless we are there already: one that was deleted cannot be gone to,
/// and a trainer that starts in it starts there without us too.
fn elsewhere(cwd: &Path) -> Option<CString> {
    if cwd.as_os_str().is_empty() || cwd == Path::new(".") {
        return None;
    }
    let here = stat(OsStr::new(".")).ok();
    let there = stat(cwd).ok();
    match (here, there) {
        (Some(here), Some(there)) if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) => {
            None
        }
        // Nobody deletes the directory that we are in and types its name: it is ours.
        (Some(here), None) if here.st_nlink == 0 => None,
        _ => CString::new(cwd.as_os_str().as_bytes()).ok(),
    }
}
