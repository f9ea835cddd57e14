//! How large the terminal is, by asking the kernel alone: crossterm may run `tput` for it.

use std::os::fd::{AsRawFd, BorrowedFd};

/// What is taken where the terminal does not know (0x0, as over serial lines and in some
/// containers), or cannot be asked.
const FALLBACK: (u16, u16) = (80, 24);

nix::ioctl_read_bad!(tiocgwinsz, nix::libc::TIOCGWINSZ, nix::libc::winsize);

/// Columns and rows of a terminal; 80x24 where it says nothing.
pub fn size_of(tty: BorrowedFd) -> (u16, u16) {
    let mut size = nix::libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel writes one
    // winsize, which lies on our stack.
    let asked = unsafe { tiocgwinsz(tty.as_raw_fd(), &mut size) };
    match (asked, size.ws_col, size.ws_row) {
        (Err(_), _, _) | (Ok(_), 0, _) | (Ok(_), _, 0) => FALLBACK,
        (Ok(_), columns, rows) => (columns, rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::pty::{Winsize, openpty};
    use std::os::fd::AsFd;

    #[test]
    fn a_terminal_that_does_not_know_is_80_by_24() {
        for (columns, rows, expected) in [(0, 0, (80, 24)), (0, 50, (80, 24)), (132, 43, (132, 43))]
        {
            let size = Winsize {
                ws_row: rows,
                ws_col: columns,
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            let pty = openpty(Some(&size), None).unwrap();
            assert_eq!(size_of(pty.slave.as_fd()), expected);
        }
        let no_terminal = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(size_of(no_terminal.as_fd()), (80, 24));
    }
}
