//! How a process ended. Code and signal are kept apart, so that nothing is lost between the
//! kernel's status and oomph's own exit status.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// An exit code (0 to 255).
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl Exit {
    /// From the status of `wait(2)`; `None` if the process was only stopped or continued.
    pub fn from_raw(status: i32) -> Option<Exit> {
        if exited(status) {
            Some(Exit::Code((status >> 8) & 0xff))
        } else if (status & 0x7f) != 0x7f && status != 0xffff {
            Some(Exit::Signal(status & 0x7f))
        } else {
            None
        }
    }

    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }

    /// The exit status in a shell: the code, or 128 + the signal.
    pub fn shell_code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }
}

const fn exited(status: i32) -> bool {
    status & 0x7f == 0
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit {code}"),
            Exit::Signal(signal) => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(name) => write!(f, "{name}"),
                Err(_) => write!(f, "signal {signal}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_statuses_are_told_apart() {
        for code in 0..=255 {
            assert_eq!(Exit::from_raw(code << 8), Some(Exit::Code(code)));
        }
        for signal in 1..=64 {
            assert_eq!(Exit::from_raw(signal), Some(Exit::Signal(signal)));
            assert_eq!(
                Exit::from_raw(signal | 0x80),
                Some(Exit::Signal(signal)),
                "core dumped"
            );
        }
        assert_eq!(Exit::from_raw(0x137f), None, "stopped");
        assert_eq!(Exit::from_raw(0xffff), None, "continued");
    }

    #[test]
    fn a_shell_would_show_the_same_number() {
        assert_eq!(Exit::Code(3).shell_code(), 3);
        assert_eq!(Exit::Signal(9).shell_code(), 137);
        assert_eq!(Exit::Signal(9).to_string(), "SIGKILL");
        assert_eq!(Exit::Code(3).to_string(), "exit 3");
    }
}
