//! Raw mode and the terminal's modes, and how they are undone.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, Once, PoisonError};

/// Alternate screen, hidden cursor, bracketed paste. The mouse is left to the terminal until the
/// user asks for it, so that text can be selected as usual.
pub const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[2J";

/// Undoes [`ENTER`] and whatever half a frame may leave: synchronized output, attributes, mouse
/// (all protocols), focus events, bracketed paste, cursor keys, keypad, scroll region, character
/// set, alternate screen, the cursor's shape, hidden cursor.
pub const RESET: &str = "\x1b[?2026l\x1b[0m\x1b[?1006l\x1b[?1015l\x1b[?1005l\x1b[?1003l\x1b[?1002l\
\x1b[?1000l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b>\x1b[r\x1b(B\x1b[?1049l\x1b[0 q\x1b[?25h";

/// How long to wait for a terminal that does not take [`RESET`].
const PATIENCE_MS: u16 = 200;

/// How to restore the terminal after a panic on any thread.
static TAKEN: Mutex<Option<(File, Termios)>> = Mutex::new(None);

/// Raw mode.
pub(super) struct Raw;

impl Raw {
    pub(super) fn enter(tty: File) -> io::Result<Raw> {
        let before = tcgetattr(&tty)?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(&tty, SetArg::TCSANOW, &raw)?;
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = Some((tty, before));
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let earlier = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                leave_from_anywhere();
                earlier(panic);
            }));
        });
        Ok(Raw)
    }

    pub(super) fn leave(self) {
        leave_from_anywhere();
    }
}

/// Restores the terminal if it was entered; from any thread, any number of times. Errors are
/// ignored: the terminal may be gone.
pub fn leave_from_anywhere() {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((mut tty, before)) = taken {
        // A terminal that is stopped or hangs must not block this.
        let mut fds = [PollFd::new(tty.as_fd(), PollFlags::POLLOUT)];
        if poll(&mut fds, PollTimeout::from(PATIENCE_MS)).is_ok_and(|ready| ready > 0) {
            let _ = tty.write_all(RESET.as_bytes());
        }
        let _ = tcsetattr(&tty, SetArg::TCSANOW, &before);
    }
}

/// Base64 with padding (RFC 4648), for OSC 52.
pub(super) fn base64(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let byte = |n: usize| u32::from(chunk.get(n).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (group >> (18 - 6 * digit) & 0x3f) as usize;
            out.push(if digit <= chunk.len() {
                DIGITS[index]
            } else {
                b'='
            });
        }
    }
}

/// Tests that enter a terminal take turns: a process restores one.
#[cfg(test)]
pub(super) fn turn() -> std::sync::MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::pty::openpty;
    use std::io::Read;

    #[test]
    fn base64_is_rfc_4648s() {
        for (text, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            let mut out = Vec::new();
            base64(text.as_bytes(), &mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }

    #[test]
    fn the_terminal_is_left_as_it_was_found() {
        let _turn = turn();
        let pty = openpty(None, None).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let raw = Raw::enter(File::from(pty.slave.try_clone().unwrap())).unwrap();
        assert_ne!(tcgetattr(&pty.slave).unwrap(), before);
        raw.leave();
        assert_eq!(tcgetattr(&pty.slave).unwrap(), before);
        leave_from_anywhere();
        let mut written = [0; 256];
        let n = File::from(pty.master).read(&mut written).unwrap();
        assert_eq!(written[..n], *RESET.as_bytes(), "once, and nothing else");
    }
}
