//! Whether the training waits for input: a debugger's prompt, a question whether to overwrite a run.
//! Otherwise that would look like a slow training.
//!
//! Two conditions: the last output didn't end with a newline, as a prompt doesn't, and the foreground
//! process of the training's terminal is reading from it, according to `/proc`. If that can't be read,
//! there is no hint.

use crate::units::{Moment, Pid};
use nix::libc;
use procfs::process::Process;
use std::path::Path;
use std::time::Duration;

/// How long there must have been no output before the first look.
const QUIET: Duration = Duration::from_millis(500);
/// Between two looks.
const BETWEEN: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Prompt {
    /// When output that doesn't end a line was last written.
    open_since: Option<Moment>,
    looked: Option<Moment>,
    waits: bool,
}

impl Prompt {
    pub(crate) fn wrote(&mut self, bytes: &[u8], now: Moment) {
        if let Some(last) = bytes.last() {
            self.open_since = (*last != b'\n').then_some(now);
            self.looked = None;
            self.waits = false;
        }
    }

    /// For the end of a run, or another one.
    pub(crate) fn forget(&mut self) {
        *self = Prompt::default();
    }

    /// When to look next, if at all.
    pub(crate) fn due(&self) -> Option<Moment> {
        let open = self.open_since?;
        Some(self.looked.map_or(open + QUIET, |looked| looked + BETWEEN))
    }

    /// Looks if that is due; whether the training waits.
    pub(crate) fn look(&mut self, now: Moment, reads: impl FnOnce() -> bool) -> bool {
        if self.due().is_some_and(|due| now >= due) {
            self.looked = Some(now);
            self.waits = reads();
        }
        self.waits
    }
}

/// Whether `trainer`, or the leader of its terminal's foreground group, reads from the terminal.
pub(crate) fn reads_terminal(trainer: Pid) -> bool {
    let foreground = Process::new(trainer.0)
        .and_then(|process| process.stat())
        .map_or(trainer.0, |stat| stat.tpgid);
    [trainer.0, foreground]
        .into_iter()
        .filter(|pid| *pid > 1)
        .any(sits_in_read)
}

fn sits_in_read(pid: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let Some(number) = read_from(&text) else {
        return false;
    };
    std::fs::read_link(format!("/proc/{pid}/fd/{number}")).is_ok_and(|to| is_terminal(&to))
}

fn is_terminal(path: &Path) -> bool {
    path.starts_with("/dev/pts") || path == Path::new("/dev/tty")
}

/// The descriptor that a system call waits to read from, by `/proc/PID/syscall`: the call's number and
/// six arguments. A line editor selects on descriptors below 1, which is only standard input.
fn read_from(text: &str) -> Option<u32> {
    let mut words = text.split_whitespace();
    let number: libc::c_long = words.next()?.parse().ok()?;
    let first = words.next()?.trim_start_matches("0x");
    let first = u32::from_str_radix(first, 16).ok()?;
    match number {
        libc::SYS_read => Some(first),
        libc::SYS_pselect6 if first == 1 => Some(0),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select if first == 1 => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Moment {
        Moment::from_secs_f64(seconds)
    }

    #[test]
    fn a_line_that_is_not_ended_is_looked_at_after_a_while_and_no_other() {
        let mut prompt = Prompt::default();
        assert_eq!(prompt.due(), None);
        prompt.wrote(b"step 3\n", at(1.0));
        assert_eq!(prompt.due(), None);
        prompt.wrote(b"(Pdb) ", at(2.0));
        assert_eq!(prompt.due(), Some(at(2.5)));
        assert!(!prompt.look(at(2.4), || panic!("too soon")));
        assert!(prompt.look(at(2.5), || true));
        assert!(prompt.look(at(3.0), || panic!("too soon again")));
        assert!(!prompt.look(at(3.6), || false), "somebody has typed");
        prompt.wrote(b"(Pdb) ", at(4.0));
        assert!(prompt.look(at(4.6), || true));
        prompt.wrote(b"done\n", at(5.0));
        assert!(!prompt.look(at(9.0), || panic!("nothing is open")));
    }

    #[test]
    fn a_read_is_told_from_other_calls() {
        let read = libc::SYS_read;
        let select = libc::SYS_pselect6;
        assert_eq!(
            read_from(&format!(
                "{read} 0x0 0x7f56f87f1b03 0x1 0x0 0x1 0x0 0x7ff 0x7f5\n"
            )),
            Some(0)
        );
        assert_eq!(
            read_from(&format!(
                "{read} 0x3 0x7f56f87f1b03 0x1 0x0 0x1 0x0 0x7ff 0x7f5\n"
            )),
            Some(3)
        );
        assert_eq!(
            read_from(&format!(
                "{select} 0x1 0x7ffd 0x0 0x0 0x0 0x0 0x7ff 0x7f6\n"
            )),
            Some(0)
        );
        assert_eq!(
            read_from(&format!(
                "{select} 0x9 0x7ffd 0x0 0x0 0x0 0x0 0x7ff 0x7f6\n"
            )),
            None
        );
        for other in ["running\n", "", "-1 0x7ffd 0x7f6\n", "999 0x0\n"] {
            assert_eq!(read_from(other), None, "{other:?}");
        }
    }
}
