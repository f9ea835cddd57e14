//! When to draw a frame: as rarely as looks live, and never on a terminal that is stuck.

use crate::state::State;
use crate::supervise::{OutputStream, Size};
use crate::ui::{self, Effect, Scene, Theme, View};
use crate::units::Moment;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::time::Duration;

/// Why a frame is due, by urgency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A clock on the screen.
    Clock,
    /// A sample of a run whose chart has wide columns by now: two frames per second.
    LateSample,
    /// A sample: four frames per second look live, and cost a third of ten.
    Sample,
    /// Output: 20 per second, as progress bars do.
    Output,
    /// A key was pressed, the size changed, a run ended.
    Now,
}

impl Due {
    /// The minimum time since the last frame.
    const fn pause(self) -> Duration {
        match self {
            Due::Clock => Duration::from_millis(1_000),
            Due::LateSample => Duration::from_millis(500),
            Due::Sample => Duration::from_millis(250),
            Due::Output => Duration::from_millis(50),
            Due::Now => Duration::from_millis(16),
        }
    }
}

/// The user's terminal, the view, and the program's output.
pub(crate) struct Screen {
    terminal: ui::terminal::UserTerminal,
    pub view: View,
    due: Option<Due>,
    drawn: Moment,
    pause: Duration,
    /// Lines of output since the last frame.
    lines: usize,
}

/// More lines than this between two frames can't be read.
const READABLE_LINES: usize = 8;
/// They are drawn as rarely as samples, at a fifth of the cost.
const FLOW_PAUSE: Duration = Due::Sample.pause();

/// A frame that takes this long waits for the terminal.
const SLOW_FRAME: Duration = Duration::from_millis(50);
/// For such a terminal: two frames per second.
const SLOW_PAUSE: Duration = Duration::from_millis(500);

impl Screen {
    /// Takes the terminal on standard output.
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

    pub(crate) fn request(&mut self, due: Due) {
        self.due = self.due.max(Some(due));
    }

    /// The terminal has another size, or had one in between: it may have cut what it shows.
    pub(crate) fn resized(&mut self) {
        self.terminal.redraw();
        self.request(Due::Now);
    }

    pub(crate) fn feed(&mut self, stream: OutputStream, bytes: &[u8]) {
        match stream {
            OutputStream::Terminal => self.view.output.feed(bytes),
            OutputStream::Out | OutputStream::Err => self.view.output.feed_untouched(bytes),
        }
        self.lines += memchr::memchr_iter(b'\n', bytes).count();
        self.request(Due::Output);
    }

    pub(crate) fn next_frame(&self) -> Moment {
        let due = self.due.unwrap_or(Due::Clock);
        let pause = match due {
            Due::Output if self.lines > READABLE_LINES => FLOW_PAUSE,
            Due::Clock | Due::LateSample | Due::Sample | Due::Output | Due::Now => due.pause(),
        };
        self.drawn + pause.max(self.pause)
    }

    /// Carries out effects on the screen; the others are the loop's.
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
            | Effect::LookForRetainers(_)
            | Effect::SaveSnapshot(_)
            | Effect::Replay(_) => Ok(()),
        }
    }

    /// Writes an alert, unless the terminal is stuck.
    pub(crate) fn alert(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.terminal.is_writable() {
            true => self.terminal.print(bytes),
            false => Ok(()),
        }
    }

    /// Adapts to the terminal's size and the panes'. Returns the new size of the program's terminal, if it
    /// has changed.
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

    /// Clears the program's terminal for another run; returns its size.
    pub(crate) fn begin_run(&mut self) -> Size {
        let (rows, cols) = self.view.output.size();
        // Without a line of our own, which would look like the program's.
        self.view.output.feed(b"\x1bc");
        Size::new(rows, cols)
    }

    /// Clears the program's terminal and what has scrolled off it.
    pub(crate) fn clear_output(&mut self) {
        self.view.output.clear();
        self.request(Due::Output);
    }

    pub(crate) fn give_back(&mut self) {
        self.terminal.leave();
    }

    pub(crate) fn take_again(&mut self) -> io::Result<()> {
        self.request(Due::Now);
        self.terminal.resume()
    }

    /// Leaves the terminal for good; returns the program's last rows, to be printed there.
    pub(crate) fn leave(mut self) -> Vec<u8> {
        let (_, height) = self.terminal.size();
        self.terminal.leave();
        self.view.output.tail_formatted(usize::from(height))
    }

    /// Draws if a frame is due and the terminal takes bytes. Frames are never queued: one that could not
    /// be drawn is replaced by the next.
    pub(crate) fn draw(&mut self, now: Moment, scene: &Scene) -> io::Result<()> {
        if now < self.next_frame() {
            return Ok(());
        }
        self.drawn = now;
        if !self.terminal.is_writable() {
            // Stuck (Ctrl-S, a stopped ssh): try again later.
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

/// The size of the program's terminal for the first run, which starts before the screen is up: what it
/// will be then, so that the program isn't resized at once.
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
