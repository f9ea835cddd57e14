//! Whether a process of the training has its terminal open by the name `/dev/tty`, as programs do that
//! ask something though their input is a file: ssh, sudo, getpass.
//!
//! Only then may keys be taken from the user's terminal. All else that is typed there, for as long as the
//! training runs, is meant for the shell.

use super::descriptor::{self, Got};
use super::tree::Process;
use nix::libc;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const NAME: &str = "/dev/tty";

/// How often to look while somebody has it open, or may have: who has opened it is seen a little later.
const TICK: Duration = Duration::from_millis(100);
const AFTER_OPENING: Duration = Duration::from_secs(1);

/// How often to look if the kernel doesn't tell that it was opened.
const UNTOLD: Duration = Duration::from_secs(1);

pub(super) struct Askers {
    /// Becomes readable when any process opens the name. `None` if the kernel doesn't tell.
    opened: Option<OwnedFd>,
    found: Option<Asker>,
    look_at: Option<Instant>,
    look_until: Instant,
    /// Whether the terminal was written to.
    was_spoken_on: bool,
}

enum Asker {
    /// Its descriptor in /proc.
    Sure(PathBuf),
    /// Another user's (sudo), which doesn't show what it has open.
    Hidden(Process),
}

impl Askers {
    pub(super) fn new() -> Askers {
        let now = Instant::now();
        // Only the name: it can't be opened without a terminal of one's own.
        let name = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(NAME);
        let opened = name
            .and_then(|name| descriptor::watch(&name, libc::IN_OPEN))
            .ok();
        Askers {
            look_at: opened.is_none().then_some(now),
            opened,
            found: None,
            look_until: now,
            was_spoken_on: false,
        }
    }

    pub(super) fn polled(&self) -> Option<RawFd> {
        self.opened.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Somebody has opened it.
    pub(super) fn wake(&mut self) {
        if let Some(opened) = &self.opened {
            while let Got::Bytes(_) = descriptor::read(opened, &mut [0; 4096]) {}
        }
        self.expect();
    }

    /// The training has written to the terminal.
    pub(super) fn was_spoken_on(&mut self) {
        self.was_spoken_on = true;
        self.expect();
    }

    fn expect(&mut self) {
        let now = Instant::now();
        self.look_until = now + AFTER_OPENING;
        self.look_at.get_or_insert(now);
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.look_at
    }

    /// Whether the one that was found has it open still; looked up.
    pub(super) fn is_still_there(&mut self) -> bool {
        let stays = match &self.found {
            None => false,
            Some(Asker::Sure(descriptor)) => leads_there(descriptor),
            Some(Asker::Hidden(process)) => process.lives(),
        };
        if !stays {
            self.found = None;
        }
        self.plan_next();
        stays
    }

    /// Looks for one among these processes.
    pub(super) fn find(&mut self, tree: &[Process]) {
        self.found = tree.iter().find_map(|process| {
            let directory = format!("/proc/{}/fd", process.pid);
            match fs::read_dir(directory) {
                Ok(descriptors) => descriptors
                    .flatten()
                    .map(|entry| entry.path())
                    .find(|descriptor| leads_there(descriptor))
                    .map(Asker::Sure),
                Err(error) => (error.kind() == io::ErrorKind::PermissionDenied
                    && self.was_spoken_on)
                    .then(|| Asker::Hidden(process.clone())),
            }
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

    pub(super) fn is_asked(&self) -> bool {
        self.found.is_some()
    }
}

fn leads_there(descriptor: &Path) -> bool {
    fs::read_link(descriptor).is_ok_and(|target| target == Path::new(NAME))
}
