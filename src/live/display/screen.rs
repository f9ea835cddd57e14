//! When to draw a frame: as rarely as looks live, and never on a terminal that is stuck.

use super::clipboard;
use crate::state::State;
use crate::supervise::{OutputStream, Size};
use crate::ui::keymap::InputMode;
use crate::ui::{self, Effect, Scene, Subject, Theme, View};
use crate::units::Moment;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::time::Duration;

/// Why a whole frame is due, by urgency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// A clock on the screen.
    Clock,
    /// A sample.
    Sample,
    /// A key was pressed, the size changed, a run ended.
    Now,
}

/// As often as monitors of the device draw; each frame costs half a millisecond. What happens is drawn at once.
const CLOCK_PAUSE: Duration = Duration::from_secs(1);
/// Where a recording is played.
const MOVING_PAUSE: Duration = Duration::from_millis(250);
/// Where output runs through.
const FLOW_PAUSE: Duration = Duration::from_millis(500);
/// Nobody reads lines that scroll by one by one, nor each figure of a progress bar.
const OUTPUT_PAUSE: Duration = Duration::from_millis(200);
/// Output that comes after such a pause is drawn as it comes: waiting for more of it would only wake us up once more.
const SELDOM: Duration = Duration::from_millis(150);
/// What is typed to the training comes back as output.
const ECHO_PAUSE: Duration = Duration::from_millis(50);
const KEY_PAUSE: Duration = Duration::from_millis(16);

/// The user's terminal, the view, and the program's output.
pub(crate) struct Screen {
    terminal: ui::terminal::UserTerminal,
    pub view: View,
    due: Option<Due>,
    drawn: Moment,
    /// Output has come that isn't drawn; its frames are of its pane alone.
    has_output: bool,
    output_drawn: Moment,
    /// When output came last, and whether it had not for a while.
    output_came: Moment,
    is_seldom: bool,
    pause: Duration,
    /// Between two frames for samples.
    sample_pause: Duration,
    /// Lines of output since the last frame.
    lines: usize,
}

/// More lines than this between two frames, more than a dozen in a second, can't be read: they are drawn more rarely.
const READABLE_LINES: usize = 2;
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
            has_output: false,
            output_drawn: Moment::ZERO,
            output_came: Moment::ZERO,
            is_seldom: false,
            pause: Duration::ZERO,
            sample_pause: CLOCK_PAUSE,
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
        self.has_output |= self.view.shows_output();
    }

    /// Output has come from the program, just now.
    pub(crate) fn output_came(&mut self, now: Moment) {
        self.is_seldom = now.since(self.output_came) >= SELDOM;
        self.output_came = now;
    }

    pub(crate) fn next_frame(&self) -> Moment {
        let whole = self.next_whole_frame();
        let output = self.has_output.then(|| self.next_output_frame());
        output.map_or(whole, |output| whole.min(output))
    }

    pub(crate) fn is_whole_frame_due(&self, now: Moment) -> bool {
        now >= self.next_whole_frame()
    }

    fn next_whole_frame(&self) -> Moment {
        let pause = match self.due.unwrap_or(Due::Clock) {
            Due::Clock => CLOCK_PAUSE,
            Due::Sample => self.sample_pause,
            Due::Now => KEY_PAUSE,
        };
        self.drawn + pause.max(self.pause)
    }

    fn next_output_frame(&self) -> Moment {
        let pause = match self.view.mode() {
            _ if self.lines > READABLE_LINES => FLOW_PAUSE,
            InputMode::Typing => ECHO_PAUSE,
            _ if self.is_seldom => ECHO_PAUSE,
            _ => OUTPUT_PAUSE,
        };
        self.output_drawn + pause.max(self.pause)
    }

    /// Carries out effects on the screen; the others are the loop's.
    pub(crate) fn carry_out(&mut self, effect: &Effect) -> io::Result<()> {
        match effect {
            Effect::Copy(text) => {
                if let Some(doubt) = clipboard::doubt() {
                    self.view.instead_of_notice(doubt);
                }
                self.terminal.copy(text)
            }
            Effect::Redraw => {
                self.terminal.redraw();
                Ok(())
            }
            Effect::Relaunch { .. }
            | Effect::Foresee(_)
            | Effect::EditSource { .. }
            | Effect::Interrupt
            | Effect::Stop
            | Effect::Kill
            | Effect::Quit { .. }
            | Effect::Suspend
            | Effect::Input(_)
            | Effect::LookForRetainers(_)
            | Effect::TraceNext(_)
            | Effect::SaveSnapshot(_)
            | Effect::WriteReport
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
        self.request(Due::Now);
    }

    pub(crate) fn give_back(&mut self) {
        self.terminal.leave();
    }

    pub(crate) fn take_again(&mut self) -> io::Result<()> {
        self.request(Due::Now);
        self.terminal.resume()?;
        // It may have got another size meanwhile.
        let (width, height) = self.terminal.size();
        self.view.resize(width, height);
        Ok(())
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
        let is_whole = self.is_whole_frame_due(now);
        if now < self.next_frame() {
            return Ok(());
        }
        self.output_drawn = now;
        if is_whole {
            self.drawn = now;
        }
        if !self.terminal.is_writable() {
            // Stuck (Ctrl-S, a stopped ssh): try again later.
            self.pause = SLOW_PAUSE;
            return Ok(());
        }
        self.has_output = false;
        self.lines = 0;
        let taken = match is_whole {
            true => self.draw_whole(scene)?,
            false => self.terminal.draw_output(&self.view, scene)?,
        };
        self.pause = if taken > SLOW_FRAME {
            SLOW_PAUSE
        } else {
            Duration::ZERO
        };
        Ok(())
    }

    fn draw_whole(&mut self, scene: &Scene) -> io::Result<Duration> {
        self.due = None;
        self.view.sync(scene);
        self.sample_pause = match scene.subject {
            // It may be played at any speed.
            Subject::Recording(_) => MOVING_PAUSE,
            Subject::Own | Subject::Elsewhere(_) => CLOCK_PAUSE,
        };
        self.terminal.draw(&self.view, scene)
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
        let (xpixel, ypixel) = ui::terminal::pixels_of(stdout.as_fd());
        Size {
            xpixel,
            ypixel,
            ..Size::new(rows, cols)
        }
    })
}
