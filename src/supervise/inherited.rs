//! The state of signals and standard streams when this process started, so that the trainer inherits
//! the same.
//!
//! `nohup` is an ignored SIGHUP, `cmd &` in a plain `sh` an ignored SIGINT, systemd's
//! `IgnoreSIGPIPE=` an ignored SIGPIPE; `<&-` closes a stream. Rust's runtime ignores SIGPIPE and
//! opens `/dev/null` for every closed stream before `main`. So the original state can only be read
//! earlier: by a function in `.init_array`, which the loader calls first.

use nix::libc;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// The signals that were ignored and blocked at the start (bit n−1 for signal n), and the standard
/// streams that were closed (bit n for stream n).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InheritedSignals {
    ignored: u64,
    blocked: u64,
    #[serde(default)]
    closed: u8,
}

impl InheritedSignals {
    /// A signal that was ignored must stay ignored: install no handler for it.
    pub fn is_ignored(self, signal: i32) -> bool {
        self.ignored & bit(signal) != 0
    }

    pub fn is_blocked(self, signal: i32) -> bool {
        self.blocked & bit(signal) != 0
    }

    /// Ignores what was ignored and nothing else, for the program that this process becomes.
    /// Async-signal-safe.
    pub(super) fn ignore_again(self) {
        for signal in 1..=SIGNALS {
            let action = match self.is_ignored(signal) {
                true => libc::SIG_IGN,
                false => libc::SIG_DFL,
            };
            // Fails for KILL, STOP and the two that the C library keeps for itself.
            // SAFETY: no handler.
            unsafe { libc::signal(signal, action) };
        }
    }

    /// Blocks what was blocked and nothing else, for the program that this process becomes.
    pub(super) fn block_again(self) {
        // SAFETY: the set lives on this stack.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in (1..=SIGNALS).filter(|signal| self.is_blocked(*signal)) {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
        }
    }

    /// Closes the standard streams that were closed, but for those with something new in their
    /// place: Rust's runtime has opened `/dev/null` there. Async-signal-safe.
    ///
    /// # Safety
    /// Nobody uses these descriptors from here on.
    pub(super) unsafe fn close_again(self, replaced: [bool; 3]) {
        for (number, replaced) in (0..).zip(replaced) {
            if self.closed & (1 << number) != 0 && !replaced {
                // SAFETY: as above.
                unsafe { libc::close(number) };
            }
        }
    }
}

/// Linux's signals are 1 to 64.
pub(super) const SIGNALS: i32 = 64;

const fn bit(signal: i32) -> u64 {
    if signal >= 1 && signal <= SIGNALS {
        1 << (signal - 1)
    } else {
        0
    }
}

static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);
static CLOSED: AtomicU8 = AtomicU8::new(0);
static KNOWN: AtomicBool = AtomicBool::new(false);

/// The state at the start. Call this first in `main`, in case the loader did not run our function.
pub fn inherited() -> InheritedSignals {
    if !KNOWN.load(Ordering::Acquire) {
        record();
    }
    InheritedSignals {
        ignored: IGNORED.load(Ordering::Acquire),
        blocked: BLOCKED.load(Ordering::Acquire),
        closed: CLOSED.load(Ordering::Acquire),
    }
}

/// Makes `ulimit -f` an error of this process's writes instead of a fatal signal: it then only costs
/// the recording. The trainer still inherits the original state. For the front; the keeper does the
/// same itself.
pub fn ignore_own_limits() {
    // Read the original state first.
    inherited();
    // SAFETY: no handler, only ignored.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// As process 1 of a container, lets the kernel reap all orphans, so that no zombies pile up. The
/// trainer still inherits the original state. For the front, which waits for no children; the keeper
/// reaps by itself.
pub fn reap_strangers() {
    if std::process::id() == 1 {
        // Read the original state first.
        inherited();
        // SAFETY: no handler, only ignored.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = record;

extern "C" fn record() {
    let (mut ignored, mut blocked, mut closed) = (0, 0, 0);
    // SAFETY: only queries; every out-pointer is a zeroed local of the right type. Nothing here needs
    // Rust's runtime, which isn't up yet.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
        for signal in 1..=SIGNALS {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
            {
                ignored |= bit(signal);
            }
            if libc::sigismember(&mask, signal) == 1 {
                blocked |= bit(signal);
            }
        }
        for number in 0..3 {
            if libc::fcntl(number, libc::F_GETFD) < 0 {
                closed |= 1 << number;
            }
        }
    }
    IGNORED.store(ignored, Ordering::Release);
    BLOCKED.store(blocked, Ordering::Release);
    CLOSED.store(closed, Ordering::Release);
    KNOWN.store(true, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn was_looked_up_before_rusts_runtime_changed_anything() {
        assert!(KNOWN.load(Ordering::Acquire), "by the loader");
        // cargo runs tests with SIGPIPE at its default, and Rust's runtime ignores it by now.
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let now = text
            .lines()
            .find_map(|l| l.strip_prefix("SigIgn:"))
            .unwrap();
        let now = u64::from_str_radix(now.trim(), 16).unwrap();
        assert_ne!(now & bit(libc::SIGPIPE), 0);
        assert!(!inherited().is_ignored(0) && !inherited().is_ignored(65));
    }
}
