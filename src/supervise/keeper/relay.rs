//! Without a screen, what is typed at the user's terminal goes to the trainer's.
//!
//! Only while the front is in that terminal's foreground group, as by the kernel's own rule: keys for a
//! shell are never taken. The user's terminal does the line editing and the echo; while the program changes
//! its own settings (no echo for a password, single keys for readline) the user's terminal gets the same ones.
//! It is read as the program reads: a line once the one before has been read ([`Pty::has_room`]). What is typed
//! ahead waits where it would without oomph.
//!
//! If the trainer's standard input isn't that terminal, keys are taken only while a process of it has the
//! terminal open by the name `/dev/tty`, or by its own to read from it ([`Askers`]), as programs do that ask something though
//! their input is a file: ssh, sudo, getpass, less. All else that is typed there, for as long as the training runs, is meant for
//! the shell. So it is with what is typed for a pager that the output is piped into (`oomph … | less`), which has it open in
//! the same way.

use super::descriptor::{self, Got, Route, StdioPlan};
use super::pty::Pty;
use super::run::TrainerRun;
use super::tree::{self, Process};
use crate::supervise::Io;
use crate::supervise::terminal::LineSettings;
use crate::supervise::wire::FirstMessage;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::termios::{FlushArg, tcflush};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to wait before looking again while the keys aren't ours.
const REST: Duration = Duration::from_secs(1);

/// What is for the trainer of what is typed.
enum TakenKeys {
    /// Everything: the terminal is its standard input.
    All,
    /// Answers to what a process asks.
    Answers(Askers),
}

/// What the trainer has written to its terminal so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputSoFar {
    Delivered,
    /// Some of it is still here.
    Waits,
}

pub(super) struct Relay {
    keyboard: OwnedFd,
    /// Whether output goes into a pipe, at whose end another program of the pipeline may read keys.
    is_piped: bool,
    keys: TakenKeys,
    front: i32,
    rest_until: Option<Instant>,
    /// The user's settings at the start, and those in force now.
    found: LineSettings,
    in_force: LineSettings,
    /// Whether they are of a terminal that was ours: to a command in the background a shell shows its own.
    is_found: bool,
    /// The trainer has made its output raw, and the user's terminal processes it still.
    owes_raw_output: bool,
}

impl Relay {
    /// `None` on our screen, which reads the keys itself, and if the trainer has no pseudo-terminal in place
    /// of the user's.
    pub fn open(hello: &FirstMessage, plan: &StdioPlan) -> Option<Relay> {
        let found = hello.line.clone()?;
        let number = plan.terminal?;
        let (keys, number) = match (hello.io, plan.input) {
            (Io::Screen, _) => return None,
            (Io::PassThrough, Route::Terminal) => (TakenKeys::All, 0),
            (Io::PassThrough, _) => (TakenKeys::Answers(Askers::new()), number),
        };
        let keyboard = match number {
            // Reopened, because reads must not wait, and the user's own descriptor must not become
            // non-blocking.
            0..=2 => {
                let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK;
                descriptor::reopen(descriptor::users(number), flags).ok()?
            }
            _ => descriptor::users(number).try_clone_to_owned().ok()?,
        };
        let is_pipe = |route: Route| matches!(route, Route::Pipe(_));
        let mut relay = Relay {
            keyboard,
            is_piped: is_pipe(plan.out) || is_pipe(plan.err),
            keys,
            front: hello.front.0,
            rest_until: None,
            in_force: found.clone(),
            found,
            is_found: false,
            owes_raw_output: false,
        };
        relay.is_found = relay.is_foreground();
        Some(relay)
    }

    /// The terminal is ours again: what others have set meanwhile is in force.
    fn look_again(&mut self) {
        let Some(now) = LineSettings::read(&self.keyboard) else {
            return;
        };
        if !std::mem::replace(&mut self.is_found, true) {
            self.found = now.clone();
        }
        self.in_force = now;
    }

    /// The descriptor to poll for keys, if any are wanted now.
    pub fn wants_keys(&self, now: Instant, run: &TrainerRun) -> Option<RawFd> {
        let resting = self.rest_until.is_some_and(|until| until > now);
        let wanted = match &self.keys {
            TakenKeys::All => true,
            TakenKeys::Answers(askers) => askers.is_asked(),
        } && run.keys.is_empty();
        (!resting && wanted).then(|| self.keyboard.as_raw_fd())
    }

    /// What to poll to learn that somebody may ask.
    pub fn polled(&self) -> Option<RawFd> {
        match &self.keys {
            TakenKeys::All => None,
            TakenKeys::Answers(askers) => askers.polled(),
        }
    }

    pub fn askers(&mut self) -> Option<&mut Askers> {
        match &mut self.keys {
            TakenKeys::All => None,
            TakenKeys::Answers(askers) => Some(askers),
        }
    }

    pub fn due(&self, now: Instant) -> Option<Instant> {
        let rest = self.rest_until.filter(|until| *until > now);
        let look = match &self.keys {
            TakenKeys::All => None,
            TakenKeys::Answers(askers) => askers.due(),
        };
        rest.into_iter().chain(look).min()
    }

    fn is_foreground(&self) -> bool {
        Process::look(self.front)
            .is_some_and(|front| !front.is_dead() && front.group == front.foreground)
    }

    /// Reads a line, or single keys where the program has them; whether there may be more.
    pub fn take(&mut self, events: libc::c_short, run: &mut TrainerRun) -> bool {
        if events & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
            return false;
        }
        if !self.is_foreground() {
            self.rest_until = Some(Instant::now() + REST);
            return true;
        }
        if self.is_piped && self.is_read_by_a_neighbour() {
            self.rest_until = Some(Instant::now() + TICK);
            return true;
        }
        let Some(pty) = run.terminal.as_ref().map(|terminal| &terminal.pty) else {
            return true;
        };
        if self.rest_until.take().is_some() || !self.is_found {
            // It may have changed its settings while the terminal was another's.
            self.look_again();
            self.mirror(pty, OutputSoFar::Waits);
        }
        if let TakenKeys::Answers(askers) = &mut self.keys
            && !askers.is_still_there()
        {
            return true;
        }
        let mut keys = [0; 4096];
        match descriptor::read(&self.keyboard, &mut keys) {
            Got::Bytes(n) => run.keys.extend(keys.get(..n).unwrap_or_default()),
            // Ctrl-D in an empty line. By the program's own key it is one for the program as well.
            Got::End if self.in_force.is_canonical() => run.keys.extend(pty.end_of_input()),
            Got::End | Got::Nothing => {}
        }
        true
    }

    /// Whether another program of our pipeline has opened the terminal to read keys.
    fn is_read_by_a_neighbour(&self) -> bool {
        let Some(front) = Process::look(self.front) else {
            return false;
        };
        let name = fs::read_link(format!("/proc/self/fd/{}", self.keyboard.as_raw_fd())).ok();
        let leads_there = |descriptor: &Path| is_opened_to_ask(descriptor, name.as_deref());
        let neighbours = tree::everyone().into_iter();
        neighbours
            .filter(|process| process.group == front.group && process.pid != front.pid)
            .any(|process| {
                descriptors(&process).is_ok_and(|mut fds| fds.any(|fd| leads_there(&fd)))
            })
    }

    /// The trainer has thrown away what was typed before (as getpass does): so it is here, where most of it waits.
    pub fn throw_away(&mut self) {
        let is_taken = match &self.keys {
            TakenKeys::All => true,
            TakenKeys::Answers(askers) => askers.is_asked(),
        };
        if is_taken && self.is_foreground() {
            let _ = tcflush(&self.keyboard, FlushArg::TCIFLUSH);
        }
    }

    /// Gives the user's terminal the settings that the trainer has given its own. That output is no more processed only
    /// once all has got there that was written before: lines without a carriage return would run across the screen.
    pub fn mirror(&mut self, pty: &Pty, output: OutputSoFar) {
        let Some(theirs) = LineSettings::read(&pty.master) else {
            return;
        };
        let cooked = self.found.with_input_of(&theirs);
        let may_be_raw = output == OutputSoFar::Delivered || !self.in_force.processes_output();
        let wants_raw = !theirs.processes_output();
        self.owes_raw_output = wants_raw && !may_be_raw;
        let wanted = match wants_raw && may_be_raw {
            true => cooked.with_raw_output(),
            false => cooked,
        };
        if wanted != self.in_force && self.is_foreground() && wanted.apply(&self.keyboard).is_ok() {
            self.in_force = wanted;
        }
    }

    /// Whether its output is raw once what was written before has got there.
    pub fn owes_raw_output(&self) -> bool {
        self.owes_raw_output
    }

    /// Restores the user's terminal.
    pub fn put_right(&mut self) {
        if self.in_force != self.found && self.found.apply(&self.keyboard).is_ok() {
            self.in_force = self.found.clone();
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.put_right();
    }
}

/// The name by which a process opens its controlling terminal.
const TTY: &str = "/dev/tty";

/// How often to look while somebody has it open, or may have: who has opened it is seen a little later.
const TICK: Duration = Duration::from_millis(100);
const AFTER_OPENING: Duration = Duration::from_secs(1);

/// How often to look if the kernel doesn't tell that it was opened.
const UNTOLD: Duration = Duration::from_secs(1);

/// The processes of the training that have the terminal open to ask something.
pub(super) struct Askers {
    /// Becomes readable when any process opens the name. `None` if the kernel doesn't tell.
    opened: Option<OwnedFd>,
    found: Option<Asker>,
    look_at: Option<Instant>,
    look_until: Instant,
    /// Whether the terminal was written to.
    was_spoken_on: bool,
    /// The terminal's own name.
    terminal: Option<PathBuf>,
}

enum Asker {
    /// Its descriptor in /proc.
    Sure(PathBuf),
    /// Another user's (sudo), which doesn't show what it has open.
    Hidden(Process),
}

impl Askers {
    fn new() -> Askers {
        let now = Instant::now();
        // Only the name: it can't be opened without a terminal of one's own.
        let name = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(TTY);
        let opened = name
            .and_then(|name| descriptor::watch(&name, libc::IN_OPEN))
            .ok();
        Askers {
            look_at: opened.is_none().then_some(now),
            opened,
            found: None,
            look_until: now,
            was_spoken_on: false,
            terminal: None,
        }
    }

    fn polled(&self) -> Option<RawFd> {
        self.opened.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Somebody has opened it.
    pub fn wake(&mut self) {
        if let Some(opened) = &self.opened {
            while let Got::Bytes(_) = descriptor::read(opened, &mut [0; 4096]) {}
        }
        self.expect();
    }

    /// The training has written to the terminal.
    pub fn was_spoken_on(&mut self) {
        self.was_spoken_on = true;
        self.expect();
    }

    fn expect(&mut self) {
        let now = Instant::now();
        self.look_until = now + AFTER_OPENING;
        self.look_at.get_or_insert(now);
    }

    pub fn due(&self) -> Option<Instant> {
        self.look_at
    }

    /// Whether the one that was found has it open still; looked up.
    pub fn is_still_there(&mut self) -> bool {
        let stays = match &self.found {
            None => false,
            Some(Asker::Sure(descriptor)) => self.leads_there(descriptor),
            Some(Asker::Hidden(process)) => process.lives(),
        };
        if !stays {
            self.found = None;
        }
        self.plan_next();
        stays
    }

    /// Looks for one among these processes, which have this terminal.
    pub fn find(&mut self, tree: &[Process], terminal: Option<PathBuf>) {
        self.terminal = terminal;
        self.found = tree.iter().find_map(|process| match descriptors(process) {
            Ok(mut descriptors) => descriptors
                .find(|descriptor| self.leads_there(descriptor))
                .map(Asker::Sure),
            Err(error) => (error.kind() == io::ErrorKind::PermissionDenied && self.was_spoken_on)
                .then(|| Asker::Hidden(process.clone())),
        });
        self.plan_next();
    }

    fn plan_next(&mut self) {
        let now = Instant::now();
        let soon = self.found.is_some() || now < self.look_until;
        self.look_at = match (soon, &self.opened) {
            (true, _) => Some(now + TICK),
            (false, None) => Some(now + UNTOLD),
            (false, Some(_)) => None,
        };
    }

    fn is_asked(&self) -> bool {
        self.found.is_some()
    }

    /// Whether a descriptor is of somebody who has opened the terminal to ask, by its path in /proc.
    fn leads_there(&self, descriptor: &Path) -> bool {
        is_opened_to_ask(descriptor, self.terminal.as_deref())
    }
}

/// The descriptors of a process, by their paths in /proc.
fn descriptors(process: &Process) -> io::Result<impl Iterator<Item = PathBuf>> {
    let all = fs::read_dir(format!("/proc/{}/fd", process.pid))?;
    Ok(all.flatten().map(|entry| entry.path()))
}

/// Whether a descriptor is of somebody who has opened a terminal to ask.
fn is_opened_to_ask(descriptor: &Path, terminal: Option<&Path>) -> bool {
    let target = fs::read_link(descriptor).ok();
    target.is_some_and(|target| {
        target == Path::new(TTY) || (Some(&*target) == terminal && is_only_read(descriptor))
    })
}

/// Whether a descriptor can't be written to, by its path in /proc. Those of the terminal that are inherited can.
fn is_only_read(descriptor: &Path) -> bool {
    let info = (descriptor.parent())
        .and_then(|directory| {
            Some(
                directory
                    .with_file_name("fdinfo")
                    .join(descriptor.file_name()?),
            )
        })
        .and_then(|path| fs::read_to_string(path).ok());
    let flags = info.as_deref().and_then(|info| {
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        i32::from_str_radix(flags?.trim(), 8).ok()
    });
    flags.is_some_and(|flags| flags & libc::O_ACCMODE == libc::O_RDONLY)
}
