//! The terminal's size. Only the kernel is asked: crossterm may run `tput`.

use std::os::fd::{AsRawFd, BorrowedFd};

/// For terminals of unknown size (0x0 over serial lines and in some containers).
const FALLBACK: (u16, u16) = (80, 24);

nix::ioctl_read_bad!(tiocgwinsz, nix::libc::TIOCGWINSZ, nix::libc::winsize);

/// Cells drawn, at most: 25 screens of 80 by 24. Of a larger terminal only the upper left part is
/// used: two buffers and the program's screen take 114 MB at 1000 by 1000.
const MOST_CELLS: u32 = 48_000;

/// Columns drawn, at most.
const MOST_COLUMNS: u16 = 480;

fn bounded(columns: u16, rows: u16) -> (u16, u16) {
    let columns = columns.min(MOST_COLUMNS);
    let most = MOST_CELLS / u32::from(columns.max(1));
    (columns, rows.min(u16::try_from(most).unwrap_or(u16::MAX)))
}

/// Columns and rows to draw on; 80x24 if the size is unknown.
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
        (Ok(_), columns, rows) => bounded(columns, rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::pty::{Winsize, openpty};
    use std::os::fd::AsFd;

    #[test]
    fn a_terminal_without_end_is_drawn_on_in_part() {
        for (size, drawn) in [
            ((1000, 1000), (480, 100)),
            ((65_535, 65_535), (480, 100)),
            ((384, 108), (384, 108)),
            ((80, 5_000), (80, 600)),
            ((1, 65_535), (1, 48_000)),
        ] {
            assert_eq!(bounded(size.0, size.1), drawn);
        }
    }

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
