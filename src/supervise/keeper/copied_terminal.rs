//! Terminals that a program inside has opened as copies of the run's own: `script` and `su --pty` give theirs the settings
//! that they find. Of a relayed terminal those are of one that does neither line editing nor echo, because the user's does. But such a program makes the terminal that it was given raw, and so the user's as well; then
//! nobody would do them. So in a copy they are switched on again.
//!
//! There can be one only while the run's own terminal is raw, and who has it as its own is in the run's tree.

use super::pty;
use super::tree::Process;
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::stat::{fstat, major, minor};
use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

/// How often to look for copies: at first, since the program that has made its terminal raw starts another next, and in
/// the end, since one that has read the settings before may set them once more.
const SOON: Duration = Duration::from_millis(5);
const SELDOM: Duration = Duration::from_secs(1);

/// The number of pseudo-terminals among devices.
const PSEUDO_TERMINAL: u64 = 136;

/// When to look for copies of a run's terminal.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CopiedTerminals {
    next: Option<(Instant, Duration)>,
}

impl CopiedTerminals {
    /// The run's terminal has other settings.
    pub fn expect(&mut self, is_raw: bool, now: Instant) {
        self.next = is_raw.then_some((now + SOON, SOON));
    }

    pub fn due(&self) -> Option<Instant> {
        self.next.map(|(at, _)| at)
    }

    /// Whether it is time to look; then the next time is later.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let Some((_, pause)) = self.next.filter(|(at, _)| *at <= now) else {
            return false;
        };
        let pause = (pause * 2).min(SELDOM);
        self.next = Some((now + pause, pause));
        true
    }
}

/// Has the terminals of these processes do their own work again, where they are copies of `original`.
pub(super) fn complete(tree: &[Process], original: impl AsFd) {
    let Ok(own) = fstat(original).map(|about| about.st_rdev) else {
        return;
    };
    let mut seen = vec![number(own)];
    for process in tree {
        let Some(copy) = Some(process.terminal).filter(|number| !seen.contains(number)) else {
            continue;
        };
        seen.push(copy);
        if let Some(terminal) = open(copy) {
            pty::undo_relaying(&terminal);
        }
    }
}

/// A device as `/proc/PID/stat` has it.
fn number(device: libc::dev_t) -> u32 {
    let (major, minor) = (major(device) as u32, minor(device) as u32);
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

fn open(number: u32) -> Option<File> {
    let index = (number & 0xff) | ((number >> 12) & !0xff);
    if u64::from((number >> 8) & 0xfff) != PSEUDO_TERMINAL {
        return None;
    }
    let flags = OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags.bits())
        .open(format!("/dev/pts/{index}"))
        .ok()?;
    // In another mount namespace the name is another terminal's.
    let about = fstat(&file).ok()?;
    (self::number(about.st_rdev) == number).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervise::Size;
    use crate::supervise::keeper::pty::{LineMode, Pty};
    use crate::supervise::terminal::LineSettings;

    fn pty(like: Option<&LineSettings>, line: LineMode) -> Pty {
        Pty::open(Size::USUAL, like, line).expect("a pseudo-terminal")
    }

    fn of(pty: &Pty) -> LineSettings {
        LineSettings::read(&pty.master).expect("settings")
    }

    fn process(terminal: &Pty) -> Process {
        let slave = terminal.slave.as_ref().expect("the other end");
        Process {
            terminal: number(fstat(slave).expect("a device").st_rdev),
            ..Process::look(std::process::id() as i32).expect("this process")
        }
    }

    #[test]
    fn a_copy_of_a_relayed_terminal_does_its_own_work() {
        let users = of(&pty(None, LineMode::Screen));
        let relayed = pty(Some(&users), LineMode::Relay);
        let found = of(&relayed);
        assert_ne!(found, users, "the user's terminal does the work");
        // As `script` does.
        let copy = pty(Some(&found), LineMode::Screen);
        assert_eq!(of(&copy), found);
        let slave = relayed.slave.as_ref().expect("the other end");
        let other = pty(None, LineMode::Screen);
        let tree = [process(&relayed), process(&copy), process(&other)];
        complete(&tree, slave);
        assert_eq!(of(&copy), users);
        assert_eq!(of(&relayed), found, "our own stays relayed");
        assert_eq!(of(&other), users);
        // One whose program has made it raw since stays raw.
        let mut raw = found.to_termios();
        nix::sys::termios::cfmakeraw(&mut raw);
        let (copy, slave) = (pty(Some(&found), LineMode::Screen), &relayed.slave);
        let now = nix::sys::termios::SetArg::TCSANOW;
        nix::sys::termios::tcsetattr(&copy.master, now, &raw).expect("set");
        complete(&[process(&copy)], slave.as_ref().expect("the other end"));
        let mut expected = users.to_termios();
        nix::sys::termios::cfmakeraw(&mut expected);
        let expected: libc::termios = expected.into();
        let got: libc::termios = of(&copy).to_termios().into();
        assert_eq!(
            (got.c_lflag, got.c_oflag & libc::OPOST),
            (expected.c_lflag, 0)
        );
    }

    #[test]
    fn it_is_looked_for_while_the_terminal_is_raw() {
        let start = Instant::now();
        let mut looks = CopiedTerminals::default();
        assert!(!looks.is_due(start));
        looks.expect(true, start);
        let mut now = start;
        for _ in 0..20 {
            now = looks.due().expect("another look");
            assert!(looks.is_due(now) && !looks.is_due(now));
        }
        assert_eq!(looks.due(), Some(now + SELDOM));
        looks.expect(false, now);
        assert_eq!(looks.due(), None);
    }
}
