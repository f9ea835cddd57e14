//! When a frame is drawn: as seldom as the eye allows, and never against a terminal that is stuck.

use crate::state::State;
use crate::supervise::{OutputStream, Size};
use crate::ui::{self, Effect, Scene, Theme, View};
use crate::units::Moment;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::time::Duration;

/// Why a frame is due; the more it is awaited, the sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A clock moved on.
    Clock,
    /// A sample came: four frames a second read as live, and cost a third of ten.
    Sample,
    /// The program wrote: 20 a second, as progress bars do.
    Output,
    /// A key was pressed, the size changed, a run ended.
    Now,
}

impl Due {
    /// How long after the last frame the next may follow.
    const fn pause(self) -> Duration {
        match self {
            Due::Clock => Duration::from_millis(1_000),
            Due::Sample => Duration::from_millis(250),
            Due::Output => Duration::from_millis(50),
            Due::Now => Duration::from_millis(16),
        }
    }
}

/// The screen while it is up: the user's terminal, what is looked at, the program's output.
pub(crate) struct Screen {
    terminal: ui::terminal::UserTerminal,
    /// What is looked at.
    pub view: View,
    due: Option<Due>,
    drawn: Moment,
    pause: Duration,
    /// Lines that the program wrote since the last frame.
    lines: usize,
}

/// More lines than this between two frames scroll by faster than anybody reads.
const READABLE_LINES: usize = 8;
/// The pause for them is the samples': it shows that they flow, at a fifth of the cost.
const FLOW_PAUSE: Duration = Due::Sample.pause();

/// A frame that takes this long is held up by the terminal, not by us.
const SLOW_FRAME: Duration = Duration::from_millis(50);
/// The pause for such a terminal: two frames a second.
const SLOW_PAUSE: Duration = Duration::from_millis(500);

impl Screen {
    /// Takes the terminal on standard output.
    ///
    /// # Errors
    /// Where there is none, or it is gone.
    pub(crate) fn enter() -> io::Result<Screen> {
        let tty = io::stdout().as_fd().try_clone_to_owned()?;
        let terminal = ui::terminal::UserTerminal::enter(tty.into())?;
        let (width, height) = terminal.size();
        let theme = Theme::of_environment(|name| std::env::var(name).ok());
        let child = first_child_size().unwrap_or(Size::USUAL);
        let mut view = View::new(theme, width, height);
        view.output.resize(child.rows, child.cols);
        Ok(Screen {
            terminal,
            view,
            due: Some(Due::Now),
            drawn: Moment::ZERO,
            pause: Duration::ZERO,
            lines: 0,
        })
    }

    /// Says that a frame is due.
    pub(crate) fn request(&mut self, due: Due) {
        self.due = self.due.max(Some(due));
    }

    /// Takes in what the program wrote.
    pub(crate) fn feed(&mut self, stream: OutputStream, bytes: &[u8]) {
        match stream {
            OutputStream::Terminal => self.view.output.feed(bytes),
            OutputStream::Out | OutputStream::Err => self.view.output.feed_untouched(bytes),
        }
        self.lines += memchr::memchr_iter(b'\n', bytes).count();
        self.request(Due::Output);
    }

    /// When the next frame is due; a clock's tick at the latest.
    pub(crate) fn next_frame(&self) -> Moment {
        let due = self.due.unwrap_or(Due::Clock);
        let pause = match due {
            Due::Output if self.lines > READABLE_LINES => FLOW_PAUSE,
            Due::Clock | Due::Sample | Due::Output | Due::Now => due.pause(),
        };
        self.drawn + pause.max(self.pause)
    }

    /// An effect that stays on the screen; the others are the loop's.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub(crate) fn carry_out(&mut self, effect: &Effect) -> io::Result<()> {
        match effect {
            Effect::Copy(text) => self.terminal.copy(text),
            Effect::Redraw => {
                self.terminal.redraw();
                Ok(())
            }
            Effect::CaptureMouse(capture) => self.terminal.capture_mouse(*capture),
            Effect::Relaunch { .. }
            | Effect::Interrupt
            | Effect::Stop
            | Effect::Kill
            | Effect::Quit { .. }
            | Effect::Suspend
            | Effect::Input(_)
            | Effect::Replay(_) => Ok(()),
        }
    }

    /// Goes along with the terminal's size and the panes'; the size that the program's terminal
    /// is to have, where that has changed.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub(crate) fn fit(&mut self, scene: &Scene) -> io::Result<Option<Size>> {
        if self.terminal.fit() {
            let (width, height) = self.terminal.size();
            self.view.resize(width, height);
            self.request(Due::Now);
        }
        let (rows, cols) = self.view.child_size(scene);
        let wanted = Size::new(rows, cols);
        if self.view.output.size() == (wanted.rows, wanted.cols) {
            return Ok(None);
        }
        self.view.output.resize(wanted.rows, wanted.cols);
        Ok(Some(wanted))
    }

    /// Clears the program's terminal for another run, whose size it returns.
    pub(crate) fn begin_run(&mut self) -> Size {
        let (rows, cols) = self.view.output.size();
        // A line of our own in the program's terminal would be taken for the program's.
        self.view.output.feed(b"\x1bc");
        Size::new(rows, cols)
    }

    /// Gives the terminal back for a while.
    pub(crate) fn give_back(&mut self) {
        self.terminal.leave();
    }

    /// Takes it again.
    ///
    /// # Errors
    /// Where it is gone.
    pub(crate) fn take_again(&mut self) -> io::Result<()> {
        self.request(Due::Now);
        self.terminal.resume()
    }

    /// Gives the terminal back for good; the program's last rows, to be put on it.
    pub(crate) fn leave(mut self) -> Vec<u8> {
        let (_, height) = self.terminal.size();
        self.terminal.leave();
        self.view.output.tail_formatted(usize::from(height))
    }

    /// Draws if a frame is due at `now` and the terminal takes bytes. Frames are never queued: one
    /// that could not be drawn is replaced by the next.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub(crate) fn draw(&mut self, now: Moment, scene: &Scene) -> io::Result<()> {
        if now < self.next_frame() {
            return Ok(());
        }
        self.drawn = now;
        if !self.terminal.is_writable() {
            // Stuck (Ctrl-S, a stopped ssh): look again at the pace of a slow terminal.
            self.pause = SLOW_PAUSE;
            return Ok(());
        }
        self.due = None;
        self.lines = 0;
        self.view.sync(scene);
        let taken = self.terminal.draw(&self.view, scene)?;
        self.pause = if taken > SLOW_FRAME {
            SLOW_PAUSE
        } else {
            Duration::ZERO
        };
        Ok(())
    }
}

/// The size that the program's terminal has when the first run starts: before the screen is up, but
/// as it will be, so that the program is not resized at once.
pub(crate) fn first_child_size() -> Option<Size> {
    let whole = terminal_size()?;
    let theme = Theme::of_environment(|name| std::env::var(name).ok());
    let view = View::new(theme, whole.cols, whole.rows);
    let (rows, cols) = view.child_size(&Scene::of(&State::default()));
    Some(Size::new(rows, cols))
}

/// The size of the terminal on standard output, if there is one.
pub(crate) fn terminal_size() -> Option<Size> {
    let stdout = io::stdout();
    stdout.is_terminal().then(|| {
        let (cols, rows) = ui::terminal::size_of(stdout.as_fd());
        Size::new(rows, cols)
    })
}
