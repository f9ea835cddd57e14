//! The user's terminal: entered, drawn on, and restored on every way out; its size, and how it alerts somebody who looks elsewhere.
//!
//! Only this module knows its escape sequences and modes. Any write may fail because the terminal
//! is gone; none panics. A frame is one write, in a synchronized update, so that no half of one is
//! seen. No query is ever sent: a terminal that does not answer would cost seconds.

use crate::ui::picker::{Picker, draw_picker};
use crate::ui::{
    Mouse, OutputPlace, Preferences, Scene, View, draw_output, draw_screen, output_place,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::buffer::{Buffer, Cell, CellWidth};
use ratatui::layout::{Position, Rect};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Mutex, Once, PoisonError};
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
    output: Option<OutputPlace>,
    /// Whether the terminal reports the mouse.
    mouse: bool,
}

/// The cells of an area in which two screens of one size differ.
fn changes<'a>(before: &Buffer, after: &'a Buffer, area: Rect) -> Vec<(u16, u16, &'a Cell)> {
    let mut changed = Vec::new();
    for y in area.rows().map(|row| row.y) {
        let from = after.index_of(area.x, y);
        let (mut x, mut until) = (0, 0);
        while x < area.width {
            let place = from + usize::from(x);
            let (was, is) = (&before.content[place], &after.content[place]);
            let width = width_of(is);
            if was != is || x < until {
                changed.push((area.x + x, y, is));
                // What stood beside a wide character was not shown.
                until = until.max(x + width_of(was));
            }
            x += width;
        }
    }
    changed
}

fn width_of(cell: &Cell) -> u16 {
    match cell.symbol().len() {
        0 | 1 => 1,
        _ => cell.cell_width().max(1),
    }
}

/// Exchanges an area's cells of two screens of one size.
fn swap_area(one: &mut Buffer, other: &mut Buffer, area: Rect) {
    for y in area.rows().map(|row| row.y) {
        let from = one.index_of(area.x, y);
        let row = from..from + usize::from(area.width);
        one.content[row.clone()].swap_with_slice(&mut other.content[row]);
    }
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
            mouse: false,
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
        self.mouse = false;
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
        let taken = self.draw_frame(view.captures_mouse(), |drawn, area| {
            draw_screen(drawn, area, view, scene)
        });
        self.output = output_place(view, scene);
        taken
    }

    /// Draws the list of sessions; returns how long the write took.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw_picker(
        &mut self,
        picker: &Picker,
        preferences: Preferences,
    ) -> io::Result<Duration> {
        self.draw_frame(preferences.mouse == Mouse::On, |drawn, area| {
            draw_picker(drawn, area, picker, &preferences.theme)
        })
    }

    fn draw_frame(
        &mut self,
        mouse: bool,
        draw: impl FnOnce(&mut Buffer, Rect) -> Option<Position>,
    ) -> io::Result<Duration> {
        let mut drawn = std::mem::take(&mut self.spare);
        drawn.resize(self.area);
        drawn.reset();
        let cursor = draw(&mut drawn, self.area);
        let shown = self.shown.take();
        let is_first = shown.is_none();
        let shown = shown.unwrap_or_else(|| Buffer::empty(self.area));
        let switch = match std::mem::replace(&mut self.mouse, mouse) == mouse {
            true => "",
            false if mouse => MOUSE_ON,
            false => MOUSE_OFF,
        };
        let taken = self.write(switch, is_first, &shown.diff(&drawn), cursor);
        self.shown = Some(drawn);
        self.spare = shown;
        taken
    }

    /// Draws a frame of which only the program's output and the header have changed, at a fraction of the cost; a whole
    /// one where that is not enough.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw_output(&mut self, view: &View, scene: &Scene) -> io::Result<Duration> {
        let place = output_place(view, scene).filter(|place| self.output == Some(*place));
        let Some(place) = place else {
            return self.draw(view, scene);
        };
        let Some(mut shown) = self.shown.take() else {
            return self.draw(view, scene);
        };
        let areas = [place.header, place.output];
        let mut drawn = std::mem::take(&mut self.spare);
        drawn.resize(self.area);
        for row in areas.iter().flat_map(|area| area.rows()) {
            let from = drawn.index_of(row.x, row.y);
            let cells = &mut drawn.content[from..from + usize::from(row.width)];
            cells.iter_mut().for_each(Cell::reset);
        }
        let cursor = draw_output(&mut drawn, place, view, scene);
        let changed = areas.map(|area| changes(&shown, &drawn, area)).concat();
        let taken = self.write("", false, &changed, cursor);
        for area in areas {
            swap_area(&mut drawn, &mut shown, area);
        }
        self.shown = Some(shown);
        self.spare = drawn;
        taken
    }

    /// Writes a switch of modes and a frame's cells; returns how long that took.
    fn write(
        &mut self,
        switch: &str,
        clears: bool,
        cells: &[(u16, u16, &Cell)],
        cursor: Option<Position>,
    ) -> io::Result<Duration> {
        let mut bytes = BEGIN_FRAME.to_vec();
        bytes.extend_from_slice(switch.as_bytes());
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

    /// Puts a text into the terminal's clipboard (OSC 52), if it allows that.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let mut sequence = b"\x1b]52;c;".to_vec();
        base64(text.as_bytes(), &mut sequence);
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

/// Mouse events: click, drag and wheel, in SGR's coordinates. Terminals select text with Shift held down all the same.
const MOUSE_ON: &str = "\x1b[?1002h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1002l";

/// Alternate screen, hidden cursor, bracketed paste. Whether the mouse is reported changes with the view, so frames say that.
pub const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[2J";

/// Undoes [`ENTER`] and whatever half a frame may leave: synchronized output, attributes, mouse
/// (all protocols), focus events, bracketed paste, cursor keys, keypad, scroll region, character
/// set, alternate screen, the cursor's shape, hidden cursor. What is shown is cleared first: where the terminal was enlarged
/// meanwhile, tmux 3.3 would leave a part of it above the shell's next line.
pub const RESET: &str = "\x1b[?2026l\x1b[0m\x1b[?1006l\x1b[?1015l\x1b[?1005l\x1b[?1003l\x1b[?1002l\
\x1b[?1000l\x1b[?1004l\x1b[?2004l\x1b[?1l\x1b>\x1b[r\x1b(B\x1b[H\x1b[2J\x1b[?1049l\x1b[0 q\x1b[?25h";

/// How long to wait for a terminal that does not take [`RESET`].
const PATIENCE_MS: u16 = 200;

/// How to restore the terminal after a panic on any thread.
static TAKEN: Mutex<Option<(File, Termios)>> = Mutex::new(None);

/// Raw mode.
pub(super) struct Raw;

impl Raw {
    pub fn enter(tty: File) -> io::Result<Raw> {
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

    pub fn leave(self) {
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
fn base64(bytes: &[u8], out: &mut Vec<u8>) {
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
    match window_of(tty) {
        Some(size) if size.ws_col > 0 && size.ws_row > 0 => bounded(size.ws_col, size.ws_row),
        Some(_) | None => FALLBACK,
    }
}

/// Its width and height in pixels; 0 if unknown.
pub fn pixels_of(tty: BorrowedFd) -> (u16, u16) {
    window_of(tty).map_or((0, 0), |size| (size.ws_xpixel, size.ws_ypixel))
}

fn window_of(tty: BorrowedFd) -> Option<nix::libc::winsize> {
    let mut size = nix::libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the descriptor is open for as long as it is borrowed, and the kernel writes one
    // winsize, which lies on our stack.
    unsafe { tiocgwinsz(tty.as_raw_fd(), &mut size) }.ok()?;
    Some(size)
}

/// A longer text is cut: terminals show two or three lines of it.
const MOST: usize = 240;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Alert {
    /// The terminal's bell; a window manager or tmux may mark the window.
    Bell,
    /// A notification as iTerm2 defined it; WezTerm and Ghostty know it too.
    Osc9,
    /// A notification as rxvt defined it; foot, WezTerm and Ghostty know it too.
    Osc777,
}

impl Alert {
    /// The bytes for the terminal; inside tmux those that pass it.
    pub fn sequence(self, title: &str, text: &str, in_tmux: bool) -> Vec<u8> {
        let plain = match self {
            Alert::Bell => return b"\x07".to_vec(),
            // The title stands in front: a text that begins with a number means something else to
            // ConEmu and Windows Terminal (`9;4` draws a progress bar).
            Alert::Osc9 => format!("\x1b]9;{}\x07", shown(&format!("{title}: {text}"))),
            Alert::Osc777 => {
                let title = shown(title).replace(';', ",");
                format!("\x1b]777;notify;{title};{}\x07", shown(text))
            }
        };
        match in_tmux {
            // tmux passes this on where `allow-passthrough` is set, and else drops it.
            true => format!("\x1bPtmux;{}\x1b\\", plain.replace('\x1b', "\x1b\x1b")).into_bytes(),
            false => plain.into_bytes(),
        }
    }
}

/// One line without controls.
fn shown(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut shown: String = plain.take(MOST).collect();
    if text.chars().nth(MOST).is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::State;
    use crate::ui::Theme;
    use nix::pty::{Winsize, openpty};
    use std::io::Read;

    /// Tests that enter a terminal take turns: a process restores one.
    fn turn() -> std::sync::MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(master: &mut File) -> String {
        let mut bytes = [0; 1 << 16];
        let n = master.read(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    }

    #[test]
    fn a_part_of_the_screen_is_exchanged_in_its_place() {
        let mut shown = Buffer::with_lines(["abcd", "efgh", "ijkl"]);
        let mut drawn = Buffer::with_lines(["....", ".f2.", ".34."]);
        let area = Rect::new(1, 1, 2, 2);
        let changed = changes(&shown, &drawn, area);
        let changed = changed
            .into_iter()
            .map(|(x, y, cell)| (x, y, cell.symbol()));
        let expected = [(2, 1, "2"), (1, 2, "3"), (2, 2, "4")];
        assert_eq!(changed.collect::<Vec<_>>(), expected);
        swap_area(&mut drawn, &mut shown, area);
        assert_eq!(shown, Buffer::with_lines(["abcd", "ef2h", "i34l"]));
        assert_eq!(drawn, Buffer::with_lines(["....", ".fg.", ".jk."]));
        swap_area(&mut drawn, &mut shown, Rect::ZERO);
        assert!(changes(&drawn, &shown, Rect::ZERO).is_empty());
    }

    #[test]
    fn what_a_wide_character_has_covered_is_drawn_again() {
        let [wide, narrow] = ["字b", "a b"].map(|line| Buffer::with_lines([line]));
        let places = |before: &Buffer, after: &Buffer| -> Vec<u16> {
            let changed = changes(before, after, before.area);
            changed.into_iter().map(|(x, ..)| x).collect()
        };
        assert_eq!(places(&wide, &narrow), [0, 1]);
        assert_eq!(places(&narrow, &wide), [0], "what it covers is not drawn");
    }

    #[test]
    fn frames_come_in_one_piece_and_nothing_is_asked() {
        let _turn = turn();
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
        let _turn = turn();
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
        let _turn = turn();
        let pty = openpty(None, None).unwrap();
        let mut screen = UserTerminal::enter(File::from(pty.slave)).unwrap();
        drop(pty.master);
        assert!(screen.print(b"x").is_err());
        assert!(screen.copy("x").is_err());
        screen.leave();
        assert!(screen.resume().is_err());
    }

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

    fn said(alert: Alert, in_tmux: bool) -> String {
        let bytes = alert.sequence(
            "oomph on gpu;7",
            "out of\x1b[2J memory\x07\n; done",
            in_tmux,
        );
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn nothing_of_a_text_ends_or_changes_the_sequence() {
        assert_eq!(said(Alert::Bell, true), "\x07");
        assert_eq!(
            said(Alert::Osc9, false),
            "\x1b]9;oomph on gpu;7: out of [2J memory  ; done\x07"
        );
        assert_eq!(
            said(Alert::Osc777, false),
            "\x1b]777;notify;oomph on gpu,7;out of [2J memory  ; done\x07"
        );
        assert_eq!(
            said(Alert::Osc9, true),
            "\x1bPtmux;\x1b\x1b]9;oomph on gpu;7: out of [2J memory  ; done\x07\x1b\\"
        );
    }

    #[test]
    fn long_texts_are_cut() {
        let long = "ä".repeat(1000);
        let text = String::from_utf8(Alert::Osc9.sequence("t", &long, false)).unwrap();
        assert_eq!(text.chars().count(), 4 + MOST + 1);
        assert!(text.ends_with("…\x07"));
    }
}
