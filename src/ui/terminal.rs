//! The user's terminal: entered, drawn on, and restored on every way out.
//!
//! Only this module knows its escape sequences and modes. Any write may fail because the terminal
//! is gone; none panics. A frame is one write, in a synchronized update, so that no half of one is
//! seen. No query is ever sent: a terminal that does not answer would cost seconds.

mod alert;
mod modes;
mod size;

pub use alert::Alert;
pub use modes::{ENTER, RESET, leave_from_anywhere};
pub use size::size_of;

use super::{Scene, View, draw_output, draw_screen, output_area};
use modes::Raw;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::{Position, Rect};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Mode 2026, synchronized output: <https://gist.github.com/christianparpart/d8a62cc1ab659194337d73e399004036>.
const BEGIN_FRAME: &[u8] = b"\x1b[?2026h";
const END_FRAME: &[u8] = b"\x1b[?2026l";

/// The terminal while oomph draws on it. Dropping it restores the terminal.
pub struct UserTerminal {
    tty: File,
    raw: Option<Raw>,
    area: Rect,
    /// What the terminal shows; `None` if everything has to be drawn.
    shown: Option<Buffer>,
    /// The frame before that one, to be drawn over: a new buffer costs as much as what is drawn into it.
    spare: Buffer,
    /// Where the last whole frame has the program's output, uncovered.
    output: Option<Rect>,
}

impl UserTerminal {
    /// Enters raw mode, alternate screen and bracketed paste. A panic from now on restores the
    /// terminal before its message is printed.
    ///
    /// # Errors
    /// If `tty` is no terminal, or is gone.
    pub fn enter(tty: File) -> io::Result<UserTerminal> {
        let mut screen = UserTerminal {
            raw: None,
            tty,
            area: Rect::ZERO,
            shown: None,
            spare: Buffer::default(),
            output: None,
        };
        screen.resume()?;
        Ok(screen)
    }

    /// Enters again after [`UserTerminal::leave`].
    ///
    /// # Errors
    /// If it is gone.
    pub fn resume(&mut self) -> io::Result<()> {
        self.raw = Some(Raw::enter(self.tty.try_clone()?)?);
        self.tty.write_all(ENTER.as_bytes())?;
        self.fit();
        self.redraw();
        Ok(())
    }

    /// Restores the terminal, as far as that can be done: it may be gone.
    pub fn leave(&mut self) {
        if let Some(raw) = self.raw.take() {
            raw.leave();
        }
    }

    pub fn size(&self) -> (u16, u16) {
        (self.area.width, self.area.height)
    }

    /// Takes over the terminal's size; returns whether it has changed.
    pub fn fit(&mut self) -> bool {
        let (width, height) = size_of(self.tty.as_fd());
        let area = Rect::new(0, 0, width, height);
        let changed = area != self.area;
        if changed {
            self.area = area;
            self.redraw();
        }
        changed
    }

    /// The next frame draws every cell.
    pub fn redraw(&mut self) {
        self.shown = None;
    }

    /// Whether a frame can be written without waiting: a terminal stopped with Ctrl-S, or whose
    /// connection hangs, must not block the loop.
    pub fn is_writable(&self) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let mut fds = [PollFd::new(self.tty.as_fd(), PollFlags::POLLOUT)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    /// Draws a frame and writes what has changed; returns how long the write took.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw(&mut self, view: &View, scene: &Scene) -> io::Result<Duration> {
        let mut drawn = std::mem::take(&mut self.spare);
        drawn.resize(self.area);
        drawn.reset();
        let cursor = draw_screen(&mut drawn, self.area, view, scene);
        let shown = self.shown.take();
        let is_first = shown.is_none();
        let shown = shown.unwrap_or_else(|| Buffer::empty(self.area));
        let taken = self.write(is_first, &shown.diff(&drawn), cursor);
        self.shown = Some(drawn);
        self.spare = shown;
        self.output = output_area(view, scene);
        taken
    }

    /// Draws a frame of which only the program's output has changed, at a fraction of the cost; a whole
    /// one where that is not enough.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw_output(&mut self, view: &View, scene: &Scene) -> io::Result<Duration> {
        let place = output_area(view, scene).filter(|area| self.output == Some(*area));
        let (Some(area), Some(shown)) = (place, &self.shown) else {
            return self.draw(view, scene);
        };
        let mut drawn = Buffer::empty(area);
        let cursor = draw_output(&mut drawn, area, view, scene);
        let mut before = Buffer::empty(area);
        for at in area.positions() {
            before[at].clone_from(&shown[at]);
        }
        let taken = self.write(false, &before.diff(&drawn), cursor);
        if let Some(shown) = &mut self.shown {
            area.positions()
                .for_each(|at| std::mem::swap(&mut shown[at], &mut drawn[at]));
        }
        taken
    }

    /// Writes a frame's cells; returns how long that took.
    fn write(
        &mut self,
        clears: bool,
        cells: &[(u16, u16, &Cell)],
        cursor: Option<Position>,
    ) -> io::Result<Duration> {
        let mut bytes = BEGIN_FRAME.to_vec();
        // Only crossterm's writing is used: for size and cursor it would query the terminal, or run
        // `tput`.
        let mut to = CrosstermBackend::new(&mut bytes);
        if clears {
            to.clear()?;
        }
        to.draw(cells.iter().copied())?;
        match cursor.filter(|at| self.area.contains(*at)) {
            Some(at) => {
                to.show_cursor()?;
                to.set_cursor_position(at)?;
            }
            None => to.hide_cursor()?,
        }
        bytes.extend_from_slice(END_FRAME);
        let begun = Instant::now();
        self.tty.write_all(&bytes)?;
        Ok(begun.elapsed())
    }

    /// Turns mouse events on or off (click, drag, wheel; SGR coordinates).
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn capture_mouse(&mut self, capture: bool) -> io::Result<()> {
        let sequence: &[u8] = if capture {
            b"\x1b[?1002h\x1b[?1006h"
        } else {
            b"\x1b[?1006l\x1b[?1002l"
        };
        self.tty.write_all(sequence)
    }

    /// Puts a text into the terminal's clipboard (OSC 52), if it allows that.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let mut sequence = b"\x1b]52;c;".to_vec();
        modes::base64(text.as_bytes(), &mut sequence);
        sequence.push(0x07);
        self.tty.write_all(&sequence)
    }

    /// Writes on the primary screen, after [`UserTerminal::leave`]; or an [`Alert`], which draws nothing.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn print(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tty.write_all(bytes)
    }
}

impl Drop for UserTerminal {
    fn drop(&mut self) {
        self.leave();
    }
}

impl AsFd for UserTerminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tty.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;
    use crate::ui::Theme;
    use nix::pty::openpty;
    use std::io::Read;

    fn read(master: &mut File) -> String {
        let mut bytes = [0; 1 << 16];
        let n = master.read(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    }

    #[test]
    fn frames_come_in_one_piece_and_nothing_is_asked() {
        let _turn = modes::turn();
        let pty = openpty(None, None).unwrap();
        let mut master = File::from(pty.master);
        let mut screen = UserTerminal::enter(File::from(pty.slave)).unwrap();
        assert_eq!(screen.size(), (80, 24), "0x0");
        assert_eq!(read(&mut master), ENTER);

        let state = State::default();
        let view = View::new(Theme::full(), 80, 24);
        let scene = Scene::of(&state);
        assert!(screen.is_writable());
        screen.draw(&view, &scene).unwrap();
        let frame = read(&mut master);
        assert!(frame.starts_with("\x1b[?2026h") && frame.ends_with("\x1b[?2026l"));
        assert!(!frame.contains("\x1b[6n"), "no question");
        assert!(frame.contains("oomph"));

        screen.draw(&view, &scene).unwrap();
        screen.copy("foobar").unwrap();
        // Two writes: they may come in one read or in two.
        let mut after = read(&mut master);
        if !after.contains("\x1b]52;") {
            after.push_str(&read(&mut master));
        }
        assert!(after.ends_with("\x1b]52;c;Zm9vYmFy\x07"), "{after:?}");
        assert!(!after.contains("oomph"), "only what has changed is drawn");
        drop(screen);
        assert!(read(&mut master).contains("\x1b[?1049l"));
    }

    /// A frame that writes no cell.
    const UNCHANGED: &str = "\x1b[?2026h\x1b[39m\x1b[49m\x1b[59m\x1b[0m\x1b[?25l\x1b[?2026l";

    #[test]
    fn output_alone_is_drawn_to_the_same_screen() {
        let _turn = modes::turn();
        let pty = openpty(None, None).unwrap();
        let mut master = File::from(pty.master);
        let mut screen = UserTerminal::enter(File::from(pty.slave)).unwrap();
        let state = State::default();
        let scene = Scene::of(&state);
        let mut view = View::new(Theme::full(), 80, 24);
        assert_eq!(read(&mut master), ENTER);
        view.output.feed(b"10%");
        screen.draw(&view, &scene).unwrap();
        let frame = read(&mut master);
        assert!(frame.contains("10%"), "{frame:?}");
        for (output, written) in [
            (&b"\r100%\r\nagain"[..], "again"),
            (b"\x1b[2J\x1b[Hanew", "anew"),
        ] {
            view.output.feed(output);
            screen.draw_output(&view, &scene).unwrap();
            let frame = read(&mut master);
            assert!(frame.contains(written), "{frame:?}");
            screen.draw(&view, &scene).unwrap();
            assert_eq!(read(&mut master), UNCHANGED);
        }
        // More output than before moves the panes.
        view.output.feed("line\r\n".repeat(20).as_bytes());
        screen.draw_output(&view, &scene).unwrap();
        let moved = read(&mut master);
        screen.redraw();
        screen.draw(&view, &scene).unwrap();
        assert!(moved.contains("line") && read(&mut master).len() >= moved.len());
        screen.draw(&view, &scene).unwrap();
        assert_eq!(read(&mut master), UNCHANGED);
    }

    #[test]
    fn a_terminal_that_is_gone_is_an_error_and_no_panic() {
        let _turn = modes::turn();
        let pty = openpty(None, None).unwrap();
        let mut screen = UserTerminal::enter(File::from(pty.slave)).unwrap();
        drop(pty.master);
        assert!(screen.print(b"x").is_err());
        assert!(screen.copy("x").is_err());
        screen.leave();
        assert!(screen.resume().is_err());
    }
}
