//! The keyboard: reads keys in a thread, detects that the terminal is gone, and tells what is meant for the screen.
//!
//! crossterm's poll never returns once the terminal is gone, and burns a core (crossterm #793).
//! So the thread waits for the terminal itself and calls crossterm only when there is something to
//! read. A hang-up is reported to the loop and ends the thread.
//!
//! What is typed is not always meant for the screen: keys from before a dialog, and a line for another window
//! (`squeue`, Enter), typed or pasted, whose letters must not page through the screen, open dialogs and answer them.
//! Nobody gives that many different commands that fast. Ending a training needs a key that no text contains; this is
//! for all others.

use crate::event::Clock;
use crate::units::Moment;
use crossterm::event::{Event as TerminalEvent, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

#[derive(Debug)]
pub(crate) enum Typed {
    /// A key, a paste, the mouse.
    Event(TerminalEvent),
    /// The terminal is gone.
    HungUp,
}

/// What was typed at a screen, and whom it is for.
#[derive(Debug)]
pub(crate) enum ReceivedKey {
    /// A key for the screen, a paste, the mouse.
    Meant(TerminalEvent),
    /// Part of a text for another window.
    Text,
    /// Ctrl-C at the end of such a text: meant for that line, not for the training.
    Abort,
    /// What was typed before a dialog opened: no answer to it.
    TooEarly(TerminalEvent),
    /// The terminal is gone.
    HungUp,
}

/// The keys of a screen.
pub(crate) struct KeyReader {
    typed: mpsc::Receiver<Typed>,
    type_ahead: TypeAhead,
    burst: Burst,
}

impl KeyReader {
    pub(crate) fn open() -> io::Result<KeyReader> {
        Ok(KeyReader {
            typed: watch()?,
            type_ahead: TypeAhead::default(),
            burst: Burst::default(),
        })
    }

    /// The next one, where keys are commands to a running training or not. One that was typed before the dialog
    /// opened at `asked` isn't an answer to it.
    pub(crate) async fn next(
        &mut self,
        clock: Clock,
        takes_commands: bool,
        asked: Option<Moment>,
    ) -> ReceivedKey {
        let Some(Typed::Event(event)) = self.typed.recv().await else {
            return ReceivedKey::HungUp;
        };
        // From here on nothing is awaited, so that no key is lost to something more urgent.
        let now = clock.now();
        if matches!(event, TerminalEvent::Key(_) | TerminalEvent::Paste(_)) {
            self.type_ahead.pressed(now);
            if asked.is_some_and(|opened| !self.type_ahead.answers(opened)) {
                return ReceivedKey::TooEarly(event);
            }
        }
        let typing = match &event {
            TerminalEvent::Key(key) if key.kind == KeyEventKind::Release => Typing::Key,
            TerminalEvent::Key(key) if takes_commands => self.burst.pressed(key, now),
            TerminalEvent::Key(_) => {
                self.burst.end();
                Typing::Key
            }
            _ => Typing::Key,
        };
        match typing {
            Typing::Key => ReceivedKey::Meant(event),
            Typing::Text => ReceivedKey::Text,
            Typing::Abort => ReceivedKey::Abort,
        }
    }
}

/// The capacity of the queue; a paste is one event.
const QUEUE: usize = 256;

/// Starts two threads: one reads keys, one waits for the hang-up. They end with the terminal or the
/// process.
pub(crate) fn watch() -> io::Result<mpsc::Receiver<Typed>> {
    let terminal = terminal_fd()?;
    let watched = terminal.try_clone()?;
    let from_stdin = io::stdin().is_terminal();
    let (sender, receiver) = mpsc::channel(QUEUE);
    let told = sender.clone();
    std::thread::Builder::new()
        .name("hang-up".into())
        .spawn(move || {
            wait_for_hang_up(&watched);
            park_reader(from_stdin);
            let _ = told.blocking_send(Typed::HungUp);
        })?;
    std::thread::Builder::new()
        .name("keyboard".into())
        .spawn(move || read_keys(&terminal, &sender))?;
    Ok(receiver)
}

/// Returns when the terminal is gone: only that wakes a poll without events.
fn wait_for_hang_up(terminal: &OwnedFd) {
    loop {
        let mut fds = [PollFd::new(terminal.as_fd(), PollFlags::empty())];
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => return,
            Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// After half an escape sequence, crossterm polls a dead terminal for the rest forever, in a call that
/// doesn't return. Replaces the terminal by an empty pipe, where its read sleeps until the process
/// ends.
fn park_reader(from_stdin: bool) {
    let Ok((empty, writer)) = nix::unistd::pipe() else {
        return;
    };
    // Stays open: closing it would be an end of file.
    std::mem::forget(writer);
    if from_stdin {
        let _ = nix::unistd::dup2_stdin(&empty);
        return;
    }
    let opened = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    for entry in opened.flatten() {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let is_terminal =
            std::fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == "/dev/tty");
        if let (Some(number), true) = (number, is_terminal) {
            // SAFETY: the number was open a moment ago, as crossterm's or our own clone of
            // `/dev/tty`; both are of no use any more, and neither is closed while we run.
            let mut of_crossterm =
                std::mem::ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
            let _ = nix::unistd::dup2(&empty, &mut of_crossterm);
        }
    }
}

/// The terminal that crossterm reads: standard input if it is one, otherwise `/dev/tty`.
fn terminal_fd() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        stdin.as_fd().try_clone_to_owned()
    } else {
        Ok(File::open("/dev/tty")?.into())
    }
}

/// Whether somebody else reads the terminal, and who waits for that to end.
static RESTING: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// While it is held, no key is read: they are another program's.
pub(crate) struct KeyboardRest;

pub(crate) fn rest() -> KeyboardRest {
    *RESTING.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    KeyboardRest
}

impl Drop for KeyboardRest {
    fn drop(&mut self) {
        *RESTING.0.lock().unwrap_or_else(PoisonError::into_inner) = false;
        RESTING.1.notify_all();
    }
}

/// Waits until the keys are ours; whether they were not.
fn has_rested() -> bool {
    let mut resting = RESTING.0.lock().unwrap_or_else(PoisonError::into_inner);
    let was = *resting;
    while *resting {
        resting = RESTING
            .1
            .wait(resting)
            .unwrap_or_else(PoisonError::into_inner);
    }
    was
}

fn read_keys(terminal: &OwnedFd, sender: &mpsc::Sender<Typed>) {
    loop {
        let mut fds = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => continue,
            Err(_) => break,
            Ok(_) => {}
        }
        let seen = fds[0].revents().unwrap_or(PollFlags::POLLHUP);
        if seen.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
            break;
        }
        if has_rested() {
            // What was to be read was another program's.
            continue;
        }
        while let Ok(true) = crossterm::event::poll(Duration::ZERO) {
            match crossterm::event::read() {
                Ok(event) => {
                    if sender.blocking_send(Typed::Event(event)).is_err() {
                        return;
                    }
                }
                Err(_) => break,
            }
        }
    }
    let _ = sender.blocking_send(Typed::HungUp);
}

/// Keys closer together than this belong to one burst: slower than most people type, faster than they
/// react to what a key has done.
const GAP: Duration = Duration::from_millis(300);
/// Recognized text continues until a pause of this length.
const PAUSE: Duration = Duration::from_millis(700);
/// This many printable keys in a burst are text, unless they are one key held down or a few in turn.
const LONG: usize = 5;
const DIFFERENT: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Typing {
    /// A command.
    Key,
    /// Part of a text.
    Text,
    /// Ctrl-C at the end of a text: meant for that line, not for the training.
    Abort,
}

/// The current burst.
#[derive(Debug, Default)]
struct Burst {
    last: Option<Moment>,
    letters: usize,
    different: Vec<char>,
    is_text: bool,
}

impl Burst {
    /// For a key that is a command to oomph, not typed into a field.
    fn pressed(&mut self, key: &KeyEvent, now: Moment) -> Typing {
        let within = if self.is_text { PAUSE } else { GAP };
        if self.last.is_none_or(|last| now.since(last) >= within) {
            self.end();
        }
        let plain = (key.modifiers - KeyModifiers::SHIFT).is_empty();
        match key.code {
            KeyCode::Char(c) if plain => {
                let first = self.letters == 0;
                self.last = Some(now);
                self.letters += 1;
                if self.different.len() < DIFFERENT && !self.different.contains(&c) {
                    self.different.push(c);
                }
                self.is_text |= self.letters >= LONG && self.different.len() >= DIFFERENT;
                // Inside a word it doesn't pass the keyboard to the training (`pip install`).
                match self.is_text || (c == 'i' && !first) {
                    true => Typing::Text,
                    false => Typing::Key,
                }
            }
            KeyCode::Enter | KeyCode::Tab | KeyCode::Backspace if self.is_text => {
                self.last = Some(now);
                Typing::Text
            }
            KeyCode::Char('c') if self.letters > 1 => {
                self.end();
                Typing::Abort
            }
            _ => {
                self.end();
                Typing::Key
            }
        }
    }

    fn end(&mut self) {
        *self = Burst::default();
    }
}

/// Keys closer together than this belong to one burst; reading a dialog takes longer.
const ANSWER_PAUSE: Duration = Duration::from_millis(700);

/// What was typed before a dialog opened: the rest of a word must not relaunch a training.
#[derive(Debug, Default)]
struct TypeAhead {
    began: Moment,
    last: Option<Moment>,
}

impl TypeAhead {
    fn pressed(&mut self, now: Moment) {
        let goes_on = self.last.is_some_and(|last| now.since(last) < ANSWER_PAUSE);
        if !goes_on {
            self.began = now;
        }
        self.last = Some(now);
    }

    /// Whether the latest key is an answer to a dialog opened at `opened`, not the rest of what was being
    /// typed.
    fn answers(&self, opened: Moment) -> bool {
        self.began >= opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(burst: &mut Burst, text: &str, gap: f64) -> Vec<Typing> {
        let keys = text.chars().enumerate().map(|(n, c)| {
            let code = match c {
                '\n' => KeyCode::Enter,
                c => KeyCode::Char(c),
            };
            let at = Moment::from_secs_f64(10.0 + gap * n as f64);
            burst.pressed(&KeyEvent::new(code, KeyModifiers::NONE), at)
        });
        keys.collect()
    }

    #[test]
    fn a_line_is_text_from_its_fifth_letter_on_however_it_is_typed() {
        for gap in [0.0, 0.02, 0.28] {
            let readings = typed(&mut Burst::default(), "squeue -u me\nls\n", gap);
            assert_eq!(readings[..4], [Typing::Key; 4], "{gap}");
            assert!(readings[4..].iter().all(|r| *r == Typing::Text), "{gap}");
        }
    }

    #[test]
    fn commands_are_no_text() {
        for (text, gap) in [
            ("jjjjjjjjjjjjkkkk", 0.03),
            ("++--++--hhhh", 0.1),
            ("fmzcq", 0.4),
        ] {
            let readings = typed(&mut Burst::default(), text, gap);
            assert!(readings.iter().all(|r| *r == Typing::Key), "{text}");
        }
    }

    #[test]
    fn a_text_ends_with_a_pause() {
        let mut burst = Burst::default();
        typed(&mut burst, "squeue\n", 0.1);
        let q = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        assert_eq!(burst.pressed(&q, Moment::from_secs_f64(11.2)), Typing::Text);
        assert_eq!(burst.pressed(&q, Moment::from_secs_f64(12.0)), Typing::Key);
    }

    #[test]
    fn the_keyboard_is_not_handed_over_within_a_word() {
        let readings = typed(&mut Burst::default(), "pip", 0.1);
        assert_eq!(readings[1], Typing::Text);
        assert_eq!(typed(&mut Burst::default(), "i", 0.1), [Typing::Key]);
    }

    #[test]
    fn control_c_gives_up_a_line_once() {
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        let mut burst = Burst::default();
        typed(&mut burst, "ls", 0.1);
        let at = Moment::from_secs_f64(10.3);
        assert_eq!(burst.pressed(&control_c, at), Typing::Abort);
        assert_eq!(burst.pressed(&control_c, at), Typing::Key);
        typed(&mut burst, "q", 0.1);
        assert_eq!(burst.pressed(&control_c, at), Typing::Key);
    }

    fn at(seconds: f64) -> Moment {
        Moment::from_secs_f64(seconds)
    }

    #[test]
    fn the_rest_of_a_word_is_no_answer() {
        let mut keys = TypeAhead::default();
        for key in [9.6, 9.9] {
            keys.pressed(at(key));
        }
        for (key, answers) in [(10.1, false), (10.5, false), (11.5, true), (11.6, true)] {
            keys.pressed(at(key));
            assert_eq!(keys.answers(at(10.0)), answers, "{key}");
        }
    }

    #[test]
    fn a_single_key_is_taken_at_once() {
        let mut keys = TypeAhead::default();
        keys.pressed(at(2.0));
        keys.pressed(at(10.01));
        assert!(keys.answers(at(10.0)));
    }
}
