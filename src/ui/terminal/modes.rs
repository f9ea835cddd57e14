//! Raw mode and the screen's modes, and the one string that undoes all of them.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::{Mutex, Once, PoisonError};

/// What takes the screen: alternate screen, cursor hidden, bracketed paste. The mouse stays the
/// terminal's until it is asked for, so that text can be selected as everywhere.
pub const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[2J";

/// What undoes all that we or a frame cut in its middle may have left: synchronized output ended,
/// attributes, mouse (all protocols), focus, bracketed paste, cursor keys and keypad as at first,
/// scroll region whole, ASCII drawn as such, the primary screen, the cursor's shape and the cursor.
pub const RESET: &str = "\x1b[?2026l\x1b[0m\x1b[?1006l\x1b[?1015l\x1b[?1005l\x1b[?1003l\x1b[?1002l\
\x1b[?1000l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b>\x1b[r\x1b(B\x1b[?1049l\x1b[0 q\x1b[?25h";

/// How long a terminal that takes nothing is waited for when it is left.
const PATIENCE_MS: u16 = 200;

/// What the terminal was like before, while it is ours: for the ways out that have no `Screen` at
/// hand (a panic on any thread).
static TAKEN: Mutex<Option<(File, Termios)>> = Mutex::new(None);

/// The terminal in raw mode.
pub(super) struct Raw;

impl Raw {
    /// Takes it.
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

    /// Gives it back.
    pub(super) fn leave(self) {
        leave_from_anywhere();
    }
}

/// Gives the terminal back, if it is ours at the moment; may be called from any thread and any
/// number of times. What cannot be done is left: the terminal may be gone.
pub fn leave_from_anywhere() {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((mut tty, before)) = taken {
        // Neither write nor drain may wait for ever on a terminal that is stopped or hangs.
        let mut fds = [PollFd::new(tty.as_fd(), PollFlags::POLLOUT)];
        if poll(&mut fds, PollTimeout::from(PATIENCE_MS)).is_ok_and(|ready| ready > 0) {
            let _ = tty.write_all(RESET.as_bytes());
        }
        let _ = tcsetattr(&tty, SetArg::TCSANOW, &before);
    }
}

/// Base64 (RFC 4648) with padding: what OSC 52 wants.
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
