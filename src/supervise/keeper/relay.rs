//! Without a screen, what is typed at the user's terminal goes to the trainer's.
//!
//! Only while the front is in that terminal's foreground group, as by the kernel's own rule: keys for
//! a shell are never taken. If the trainer's standard input isn't that terminal, keys are taken only
//! while a process of it has the terminal open to ask something ([`Askers`]). The user's terminal does the line editing and the echo; while the program
//! changes its own settings (no echo for a password, single keys for readline) the user's terminal
//! gets the same ones.

use super::asker::Askers;
use super::descriptor::{self, Got};
use super::pty::Pty;
use super::run::{MOST_KEYS, TrainerRun};
use super::stdio::{Route, StdioPlan};
use super::tree::Process;
use crate::supervise::Io;
use crate::supervise::terminal::LineSettings;
use crate::supervise::wire::FirstMessage;
use nix::fcntl::OFlag;
use nix::libc;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// How long to wait before looking again while the keys aren't ours.
const REST: Duration = Duration::from_secs(1);

/// End of input (Ctrl-D), by the default settings of a terminal.
const END: u8 = 4;

/// What is for the trainer of what is typed.
enum TakenKeys {
    /// Everything: the terminal is its standard input.
    All,
    /// Answers.
    Answers(Askers),
}

pub(super) struct Relay {
    keyboard: OwnedFd,
    keys: TakenKeys,
    front: i32,
    rest_until: Option<Instant>,
    /// The user's settings at the start, and those in force now.
    found: LineSettings,
    in_force: LineSettings,
}

impl Relay {
    /// `None` on our screen, which reads the keys itself, and if the trainer has no pseudo-terminal in place
    /// of the user's.
    pub(super) fn open(hello: &FirstMessage, plan: &StdioPlan) -> Option<Relay> {
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
        Some(Relay {
            keyboard,
            keys,
            front: hello.front.0,
            rest_until: None,
            in_force: found.clone(),
            found,
        })
    }

    /// The descriptor to poll for keys, if any are wanted now.
    pub(super) fn wants_keys(&self, now: Instant, run: &TrainerRun) -> Option<RawFd> {
        let resting = self.rest_until.is_some_and(|until| until > now);
        let wanted = match &self.keys {
            TakenKeys::All => run.keys.len() < MOST_KEYS,
            TakenKeys::Answers(askers) => {
                askers.is_asked() && run.keys.is_empty() && !run.has_unread()
            }
        };
        (!resting && wanted).then(|| self.keyboard.as_raw_fd())
    }

    /// What to poll to learn that somebody may ask.
    pub(super) fn polled(&self) -> Option<RawFd> {
        match &self.keys {
            TakenKeys::All => None,
            TakenKeys::Answers(askers) => askers.polled(),
        }
    }

    pub(super) fn askers(&mut self) -> Option<&mut Askers> {
        match &mut self.keys {
            TakenKeys::All => None,
            TakenKeys::Answers(askers) => Some(askers),
        }
    }

    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
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

    /// Reads keys; whether there may be more.
    pub(super) fn take(&mut self, events: libc::c_short, run: &mut TrainerRun) -> bool {
        if events & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
            return false;
        }
        if !self.is_foreground() {
            self.rest_until = Some(Instant::now() + REST);
            return true;
        }
        self.rest_until = None;
        if let TakenKeys::Answers(askers) = &mut self.keys
            && !askers.is_still_there()
        {
            return true;
        }
        let mut keys = [0; 4096];
        match descriptor::read(&self.keyboard, &mut keys) {
            Got::Bytes(n) => run.keys.extend(keys.get(..n).unwrap_or_default()),
            // An empty line ended by Ctrl-D.
            Got::End => run.keys.push_back(END),
            Got::Nothing => {}
        }
        true
    }

    /// Gives the user's terminal the settings that the trainer has given its own.
    pub(super) fn mirror(&mut self, pty: &Pty) {
        let Some(theirs) = LineSettings::of(&pty.master) else {
            return;
        };
        let wanted = self.found.with_input_of(&theirs);
        if wanted != self.in_force && self.is_foreground() && wanted.apply(&self.keyboard).is_ok() {
            self.in_force = wanted;
        }
    }

    /// Restores the user's terminal.
    pub(super) fn put_right(&mut self) {
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
