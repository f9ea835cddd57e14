//! One run: the trainer, its terminal and pipes, and its stage.

use super::descriptor::{self, Route, StdioPlan};
use super::output_fanout::FollowedFile;
use super::pty::{LineMode, Pty};
use super::spawn::{self, Blueprint, HolderEnd, Spawned};
use super::{sweep, tree, user_stream};
use crate::event::Exit;
use crate::supervise::program::{self, Missing};
use crate::supervise::wire::FirstMessage;
use crate::supervise::{
    Io, Launch, OutputStream, RunStage, RunStatus, SentSignal, Size, TrainerStreams,
};
use crate::units::{Pid, RunNumber};
use nix::libc;
use nix::sys::stat::stat;
use std::collections::{HashMap, VecDeque};
use std::ffi::{CString, OsStr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The most bytes of keys that wait for a trainer that doesn't read.
pub(super) const MOST_KEYS: usize = 64 << 10;

/// The most signals that wait for a program's exec.
const MOST_EARLY: usize = 1024;

/// A run, from its launch until no process holds its terminal or pipes any more.
pub(super) struct TrainerRun {
    pub number: RunNumber,
    pub stage: Stage,
    /// Its pseudo-terminal, until no process has it open.
    pub terminal: Option<Terminal>,
    /// The holder of its session, until that isn't needed any more.
    pub holder: Option<i32>,
    /// The terminal that no process has open any more, until the holder of its session is reaped.
    closing: Option<Closing>,
    /// Its pipes, until no process can write to them.
    pub pipes: Vec<Pipe>,
    /// The user's files that it writes to.
    pub tails: Vec<FollowedFile>,
    pub keys: VecDeque<u8>,
    /// The number of dropped keys, and the number at the last note.
    pub lost_keys: (usize, usize),
    /// To explain a failure.
    pub path: PathBuf,
    pub cwd: PathBuf,
    /// Whether its environment marks it as a rank.
    pub ranked: bool,
    /// Its command line as /proc shows it.
    pub words: Vec<u8>,
    /// When it began, in clock ticks since boot; older processes don't belong to its tree.
    pub since: u64,
    /// The time of its latest output.
    pub heard: Instant,
    pub stop: Option<Stop>,
    /// After a request to end: until when readers that read nothing are waited for.
    pub readers_until: Option<Instant>,
    /// Signals from outside that were passed on, and when they were last.
    pub forwarded: HashMap<i32, Instant>,
    /// Until when an interrupt that was given as a key should have been read.
    pub unread_interrupt: Option<Instant>,
    /// The direct child's PID and start time, once it was started.
    pub trainer: Option<(i32, u64)>,
    /// How it ended, for later callers.
    pub outcome: Option<RunStage>,
    /// Signals that came between fork and exec, each once and in order, for after the exec.
    pub early: Vec<Early>,
}

/// A signal that came before the exec. Of equal ones one is kept, as the kernel does with pending ones;
/// it keeps every real-time signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Early {
    /// Ctrl-C, for the foreground group.
    Interrupt,
    /// For the direct child.
    Signal(SentSignal),
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Between fork and exec.
    Starting {
        pipe: OwnedFd,
        /// What came from it so far.
        said: Vec<u8>,
    },
    Running(i32),
    /// It was reaped; the rest of its output is being read.
    Draining {
        exit: Exit,
        /// When, or when the user's streams last had no room.
        since: Instant,
    },
    /// Its end was reported.
    Over,
}

/// A requested end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The trainer got SIGTERM; its whole tree gets it at this instant.
    Asked(Instant),
    Sweeping,
    Swept,
}

pub(super) struct Terminal {
    pub pty: Pty,
    /// Whether the trainer's own streams are on it; else it is there for questions only.
    pub has_streams: bool,
}

/// A terminal that is open until the holder of its session has left it.
struct Closing {
    holder: i32,
    _terminal: Terminal,
    /// When the holder is killed if it hasn't.
    until: Instant,
}

/// How long a session holder may take to end.
const HOLDER_ENDS: Duration = Duration::from_secs(2);

/// The reading end of a pipe that the trainer writes to.
pub(super) struct Pipe {
    pub stream: OutputStream,
    pub fd: OwnedFd,
    pub ended: bool,
}

/// Why a run could not be started.
pub(super) struct Failed {
    pub reason: String,
    pub errno: i32,
    /// The path that was tried.
    pub path: PathBuf,
    /// oomph's exit code.
    pub status: i32,
}

impl Failed {
    /// A failure of oomph's own.
    pub fn ours(what: &str, errno: i32, path: &Path) -> Failed {
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
            status: why.status(),
            path: why.path,
        }
    }
}

impl TrainerRun {
    /// Starts a run, with `input` in place of the user's standard input if there is one; also returns a
    /// note for the user, if there is something to say.
    pub fn begin(
        launch: Launch,
        hello: &FirstMessage,
        plan: StdioPlan,
        input: Option<&OwnedFd>,
    ) -> Result<(TrainerRun, Option<String>), Failed> {
        let Launch { run, command, size } = launch;
        let inherited_path = std::env::var_os("PATH");
        let path = program::resolve(&command, inherited_path.as_deref())?;
        let cwd = command.cwd.clone();
        let (mut plan, mut note) = (plan, None);
        let pty = match plan.terminal {
            None => None,
            Some(user) => {
                let size = size
                    .or_else(|| descriptor::window_size(user))
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
        let env = program::environment(
            std::env::vars_os(),
            &command.env,
            pty.is_some() && hello.io == Io::Screen,
        );
        let ranked = sweep::is_ranked(env.iter().map(|(name, _)| name.as_os_str()));
        let ours = |what: &str, errno: i32| Failed::ours(what, errno, &path);
        let slave = pty
            .as_ref()
            .and_then(|pty| Some(pty.slave.as_ref()?.as_raw_fd()));
        let mut ends: Vec<(OutputStream, OwnedFd)> = Vec::new();
        let mut pipes = Vec::new();
        let mut tails: Vec<FollowedFile> = Vec::new();
        let mut streams = [None; 3];
        let routes = (0..).zip([plan.input, plan.out, plan.err]);
        for ((number, route), stream_of_trainer) in routes.zip(&mut streams) {
            match route {
                Route::Inherit if number == 0 => {
                    *stream_of_trainer = input.map(AsRawFd::as_raw_fd);
                }
                Route::Inherit => {}
                Route::Terminal => *stream_of_trainer = slave,
                Route::Follow(stream) => {
                    if !tails.iter().any(|tail| tail.stream == stream) {
                        tails.extend(FollowedFile::follow(number, stream));
                    }
                }
                Route::Pipe(stream) => {
                    if !ends.iter().any(|(other, _)| *other == stream) {
                        let no_pipe = |errno| ours("cannot create a pipe", errno as i32);
                        let (fd, writing) = descriptor::pipe().map_err(no_pipe)?;
                        descriptor::set_nonblocking(&fd).map_err(no_pipe)?;
                        user_stream::widen(&fd);
                        pipes.push(Pipe {
                            stream,
                            fd,
                            ended: false,
                        });
                        ends.push((stream, writing));
                    }
                    let end = ends.iter().find(|(other, _)| *other == stream);
                    *stream_of_trainer = end.map(|(_, end)| end.as_raw_fd());
                }
            }
        }
        let argv: Vec<CString> = command
            .argv
            .iter()
            .filter_map(|word| CString::new(word.as_bytes()).ok())
            .collect();
        if argv.len() != command.argv.len() {
            return Err(ours("an argument contains a NUL byte", libc::EINVAL));
        }
        let words = argv.iter().flat_map(|word| word.to_bytes_with_nul());
        let words: Vec<u8> = words.copied().collect();
        let c_path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| ours("the program's path contains a NUL byte", libc::EINVAL))?;
        let Spawned { messages, holder } = spawn::spawn(&Blueprint {
            for_a_shell: program::is_for_a_shell(&cwd.join(&path)),
            path: c_path,
            argv,
            env: program::for_exec(env),
            cwd: elsewhere(&cwd),
            streams,
            outputs: [OutputStream::Out, OutputStream::Err].map(|stream| {
                let of_it = pipes.iter().find(|pipe| pipe.stream == stream);
                of_it.map(|pipe| pipe.fd.as_raw_fd())
            }),
            terminal: slave,
            group: hello.group,
            holder: match plan.is_on_terminal() {
                true => HolderEnd::WithKeeper,
                false => HolderEnd::WithTrainer,
            },
            inherited: hello.inherited,
        })
        .map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            ours("cannot create a process for the command", errno)
        })?;
        let run = TrainerRun {
            number: run,
            stage: Stage::Starting {
                pipe: messages,
                said: Vec::new(),
            },
            terminal: pty.map(|pty| Terminal {
                pty,
                has_streams: plan.is_on_terminal(),
            }),
            holder: Some(holder),
            closing: None,
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
            readers_until: None,
            forwarded: HashMap::new(),
            unread_interrupt: None,
            trainer: None,
            outcome: None,
            early: Vec::new(),
        };
        Ok((run, note))
    }

    /// The direct child, while it is one.
    pub fn pid(&self) -> Option<i32> {
        match self.stage {
            Stage::Running(pid) => Some(pid),
            Stage::Starting { .. } | Stage::Draining { .. } | Stage::Over => None,
        }
    }

    /// Keeps a signal that comes before the exec; whether it did.
    pub fn keep_if_early(&mut self, signal: Early) -> bool {
        let starting = matches!(self.stage, Stage::Starting { .. });
        let queues = matches!(signal, Early::Signal(sent) if sent.number() >= libc::SIGRTMIN());
        let room = self.early.len() < MOST_EARLY && (queues || !self.early.contains(&signal));
        if starting && room {
            self.early.push(signal);
        }
        starting
    }

    /// From now on readers are waited for until then, or earlier if that was said before.
    pub fn limit_readers(&mut self, until: Instant) {
        let before = self.readers_until.unwrap_or(until);
        self.readers_until = Some(before.min(until));
    }

    /// Whether its process has ended.
    pub fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Draining { .. } | Stage::Over)
    }

    /// What we put in place of the user's streams.
    pub fn streams(&self) -> TrainerStreams {
        let pipes = self.pipes.iter();
        TrainerStreams {
            terminal: self
                .terminal
                .as_ref()
                .is_some_and(|terminal| terminal.has_streams),
            pipes: pipes
                .map(|pipe| (pipe.stream, pipe.fd.as_raw_fd()))
                .collect(),
        }
    }

    pub fn status(&self) -> RunStatus {
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

    pub fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Whether a process may still write to its terminal or pipes.
    pub fn is_held(&self) -> bool {
        self.terminal.is_some() || !self.pipes.is_empty()
    }

    /// Whether its session holder has its terminal still.
    pub fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Closes the terminal, which no process has open any more, once the session holder has ended: a process of the
    /// session may live on with its output in a file, and is not to be hung up.
    pub fn give_up_terminal(&mut self) {
        let Some(terminal) = self.terminal.take() else {
            return self.dismiss_holder();
        };
        let Some(holder) = self.holder.take() else {
            return;
        };
        spawn::ask_to_step_aside(holder);
        self.closing = Some(Closing {
            holder,
            _terminal: terminal,
            until: Instant::now() + HOLDER_ENDS,
        });
    }

    /// When a session holder that was asked to end is killed.
    pub fn closes_at(&self) -> Option<Instant> {
        self.closing.as_ref().map(|closing| closing.until)
    }

    /// Kills a session holder that doesn't end.
    pub fn act_on_closing(&mut self, now: Instant) {
        if let Some(closing) = self.closing.take_if(|closing| closing.until <= now) {
            tree::kill(closing.holder, libc::SIGKILL);
        }
    }

    /// A session holder was reaped.
    pub fn holder_is_gone(&mut self, pid: i32) {
        if self.holder == Some(pid) {
            // A SIGKILL to its group took it along; its PID may be another's soon.
            self.holder = None;
        }
        self.closing.take_if(|closing| closing.holder == pid);
    }

    /// Ends the session holder, unless a terminal needs it.
    pub fn dismiss_holder(&mut self) {
        if self.terminal.is_none()
            && let Some(holder) = self.holder.take()
        {
            tree::kill(holder, libc::SIGKILL);
        }
    }
}

/// The directory to change to; `None` if it is ours. A trainer may start in a deleted directory, to
/// which nobody can change, or in one that its user cannot enter (`sudo -u` in a private one).
fn elsewhere(cwd: &Path) -> Option<CString> {
    let is_ours = || std::env::current_dir().is_ok_and(|ours| ours == cwd);
    if cwd.as_os_str().is_empty() || cwd == Path::new(".") || is_ours() {
        return None;
    }
    let here = stat(OsStr::new(".")).ok();
    let there = stat(cwd).ok();
    match (here, there) {
        (Some(here), Some(there)) if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) => {
            None
        }
        // Ours was deleted and the command's doesn't exist: it is the same one.
        (Some(here), None) if here.st_nlink == 0 => None,
        _ => CString::new(cwd.as_os_str().as_bytes()).ok(),
    }
}
