//! The display: the screen or plain output, the keyboard, and the lines to print at the end. The terminal
//! may be gone at any time.

mod clipboard;
pub(crate) mod keyboard;
pub(crate) mod mode;
mod prompt;
pub(crate) mod screen;
pub(crate) mod source_editor;

use super::message::Message;
use super::print;
use super::session::Session;
use crate::event::Clock;
use crate::supervise::{OutputStream, Size};
use crate::ui::{Effect, Preferences, RoomForBatch, Scene, Subject};
use crate::units::{Moment, Pid};
use crossterm::event::{Event as TerminalEvent, KeyEventKind};
use keyboard::{KeyReader, ReceivedKey};
use mode::Mode;
use prompt::Prompt;
use screen::{Due, Screen, terminal_size};
use std::future::pending;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::Duration;

/// Recent output starts in the middle of a line, and perhaps of an escape sequence: if there is this
/// much of it, that line is skipped.
const WHOLE_LINES_FROM: usize = 32 << 10;

/// If another letter follows `l` within this time, it wasn't a command: as in `qlogin`.
const LEAVE_AFTER: Duration = Duration::from_millis(400);

pub(crate) struct Display {
    pub mode: Mode,
    preferences: Preferences,
    screen: Option<Screen>,
    /// The screen while we are in the terminal's background: it gets output, but isn't drawn.
    parked: Option<Screen>,
    /// The terminal is gone for good.
    is_lost: bool,
    /// The terminal has lost its screen: the program's output is printed as it comes.
    is_plain: bool,
    /// While the screen is up.
    keyboard: Option<KeyReader>,
    /// Detaching is carried out at this time, unless another letter shows that `ql` was part of a word.
    pub leaving: Option<Moment>,
    pub prompt: Prompt,
    /// The program's last byte: whether it ended a line.
    last_byte: u8,
    /// Lines to print at the end, never inside the program's output.
    pub last_words: Vec<String>,
}

impl Display {
    pub(crate) fn new(mode: Mode, preferences: Preferences) -> Display {
        Display {
            mode,
            preferences,
            screen: None,
            parked: None,
            is_lost: false,
            is_plain: false,
            keyboard: None,
            leaving: None,
            prompt: Prompt::default(),
            last_byte: b'\n',
            last_words: Vec::new(),
        }
    }

    /// Takes the terminal if there is to be a screen; whether it did. `is_attached` where the training was started in
    /// another terminal.
    pub(crate) fn enter(&mut self, is_attached: bool) -> io::Result<bool> {
        if self.mode != Mode::Screen || self.screen.is_some() || self.is_lost {
            return Ok(false);
        }
        let mut screen = Screen::enter()?;
        self.keyboard = Some(KeyReader::open()?);
        screen.view.prefer(self.preferences);
        if is_attached {
            screen.view.ask_before_interrupt();
        }
        self.screen = Some(screen);
        Ok(true)
    }

    /// Whether the screen is drawn now.
    pub(crate) fn is_up(&self) -> bool {
        self.screen.is_some()
    }

    /// Whether there is a screen, drawn or in the background.
    pub(crate) fn has_screen(&self) -> bool {
        self.screen.is_some() || self.parked.is_some()
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.parked.is_some()
    }

    pub(crate) fn request(&mut self, due: Due) {
        if let Some(screen) = &mut self.screen {
            screen.request(due);
        }
    }

    pub(crate) fn resized(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.resized();
        }
    }

    pub(crate) fn next_frame(&self) -> Option<Moment> {
        self.screen.as_ref().map(|screen| screen.next_frame())
    }

    /// When to check whether the training waits for input.
    pub(crate) fn prompt_due(&self) -> Option<Moment> {
        self.screen.as_ref().and(self.prompt.due())
    }

    /// What the next key asks for, a paste or the mouse; `None` where it changes the view alone. A key that was typed
    /// before the dialog opened at `asked` isn't an answer to it.
    pub(crate) async fn next_chosen(
        &mut self,
        session: &mut Session,
        clock: Clock,
        asked: Option<Moment>,
    ) -> Option<Message> {
        let takes_commands = self.screen.as_ref().is_some_and(|screen| {
            scene_of(session).is_running() && screen.view.mode().takes_commands()
        });
        let Some(keyboard) = &mut self.keyboard else {
            return pending().await;
        };
        match keyboard.next(clock, takes_commands, asked).await {
            ReceivedKey::HungUp => Some(Message::HungUp),
            stroke => {
                let now = clock.now();
                session.advance(now);
                self.typed(stroke, session, now).map(Message::Chosen)
            }
        }
    }

    fn typed(&mut self, stroke: ReceivedKey, session: &Session, now: Moment) -> Option<Effect> {
        self.request(Due::Now);
        let view = &mut self.screen.as_mut()?.view;
        let scene = &scene_of(session);
        match stroke {
            ReceivedKey::Meant(TerminalEvent::Key(key)) if key.kind != KeyEventKind::Release => {
                self.leaving = None;
                match view.key(key, scene) {
                    Some(Effect::Quit {
                        stop_training: false,
                    }) => {
                        self.leaving = Some(now + LEAVE_AFTER);
                        None
                    }
                    effect => effect,
                }
            }
            ReceivedKey::Meant(TerminalEvent::Paste(text)) => view.paste(&text, scene),
            ReceivedKey::Meant(TerminalEvent::Mouse(mouse)) => view.mouse(mouse, scene),
            ReceivedKey::Text => {
                self.leaving = None;
                view.took_text(scene);
                None
            }
            ReceivedKey::Abort => {
                self.leaving = None;
                view.held_interrupt(scene);
                None
            }
            ReceivedKey::TooEarly(TerminalEvent::Key(key)) if key.kind != KeyEventKind::Release => {
                view.key_from_before(key, scene)
            }
            ReceivedKey::Meant(_) | ReceivedKey::TooEarly(_) | ReceivedKey::HungUp => None,
        }
    }

    /// Whether to detach now.
    pub(crate) fn takes_leave(&mut self, now: Moment) -> bool {
        self.leaving.take_if(|due| now >= *due).is_some()
    }

    /// Opens the dialog without an OOM: the program rejected a change.
    pub(crate) fn open_remedies(&mut self, session: &Session) {
        if let Some(screen) = &mut self.screen {
            screen.view.open_remedies(&scene_of(session));
            screen.request(Due::Now);
        }
    }

    /// Opens the editor with the command that has just failed, and why it did.
    pub(crate) fn open_editor(&mut self, why: String, session: &Session) {
        if let Some(screen) = &mut self.screen {
            screen.view.edit_again(why, &scene_of(session));
            screen.request(Due::Now);
        }
    }

    /// Says on the screen what came of a key.
    pub(crate) fn told(&mut self, words: String, now: Moment) {
        if let Some(screen) = &mut self.screen {
            screen.view.told(words, now);
            screen.request(Due::Now);
        }
    }

    /// An effect that stays on the screen.
    pub(crate) fn carry_out(&mut self, effect: &Effect) -> io::Result<()> {
        match &mut self.screen {
            Some(screen) => screen.carry_out(effect),
            None => Ok(()),
        }
    }

    /// Draws if a frame is due. Returns the new size of the program's terminal, if it has changed.
    pub(crate) fn draw(&mut self, now: Moment, session: &Session) -> io::Result<Option<Size>> {
        let Some(screen) = self.screen.as_mut().filter(|up| now >= up.next_frame()) else {
            return Ok(None);
        };
        let scene = scene_of(session);
        let resized = match screen.is_whole_frame_due(now) {
            true => screen.fit(&scene)?,
            false => None,
        };
        screen.draw(now, &scene)?;
        Ok(resized)
    }

    /// Adds the program's output; returns the terminal's answers to its queries.
    pub(crate) fn output(&mut self, stream: OutputStream, bytes: &[u8], now: Moment) -> Vec<u8> {
        self.last_byte = bytes.last().copied().unwrap_or(self.last_byte);
        self.prompt.wrote(bytes, now);
        match self.screen.as_mut().or(self.parked.as_mut()) {
            Some(screen) => {
                screen.output_came(now);
                screen.feed(stream, bytes);
                screen.view.output.take_answers()
            }
            None => {
                self.print_plain(bytes);
                Vec::new()
            }
        }
    }

    /// Shows output from before the screen; returns the size of the program's terminal.
    pub(crate) fn show_recent(&mut self, mut recent: Vec<u8>) -> Option<Size> {
        self.last_byte = recent.last().copied().unwrap_or(self.last_byte);
        let screen = self.screen.as_mut()?;
        if recent.len() > WHOLE_LINES_FROM
            && let Some(end) = recent.iter().position(|byte| *byte == b'\n')
        {
            recent.drain(..=end);
        }
        // From any stream; for a terminal's this makes no difference.
        screen.view.output.feed_untouched(&recent);
        // They were answered when it was written.
        screen.view.output.take_answers();
        let (rows, cols) = screen.view.output.size();
        Some(Size::new(rows, cols))
    }

    /// Prints output on a terminal that has lost its screen, until that fails.
    pub(crate) fn print_plain(&mut self, bytes: &[u8]) {
        if self.is_plain {
            let mut out = io::stdout().lock();
            self.is_plain = out.write_all(bytes).and_then(|()| out.flush()).is_ok();
        }
    }

    /// Shows whether the training waits for input.
    pub(crate) fn look_for_prompt(&mut self, now: Moment, trainer: Option<Pid>) {
        let (Some(screen), Some(pid)) = (&mut self.screen, trainer) else {
            return;
        };
        let waits = self.prompt.look(now, || prompt::reads_terminal(pid));
        if waits != screen.view.output.awaits_input() {
            screen.view.output.set_awaits_input(waits);
            screen.request(Due::Now);
        }
    }

    /// Clears the screen for the next run, and returns its size.
    pub(crate) fn begin_run(&mut self) -> Option<Size> {
        match &mut self.screen {
            Some(screen) => Some(screen.begin_run()),
            None => terminal_size(),
        }
    }

    /// Prints a line: at once if there is no screen, otherwise at the end.
    pub(crate) fn say(&mut self, words: String) {
        if self.has_screen() {
            return self.last_words.push(words);
        }
        let begin = if self.last_byte == b'\n' { "" } else { "\n" };
        self.last_byte = b'\n';
        // stderr may be closed.
        let _ = write!(print::err(), "{begin}");
        print::complain(&words);
    }

    /// Rings the bell, or shows a notification; a terminal that is stuck is not waited for.
    pub(crate) fn alert(&mut self, bytes: &[u8], is_running: bool) {
        match &mut self.screen {
            // A terminal that is gone is noticed by the next frame.
            Some(screen) => drop(screen.alert(bytes)),
            // The program writes to this terminal itself: nothing may come into the middle of its
            // sequences.
            None if is_running || self.parked.is_some() => {}
            None => print::alert(bytes),
        }
    }

    pub(crate) fn is_at_line_start(&self) -> bool {
        self.last_byte == b'\n'
    }

    /// Leaves the terminal for good; returns the program's last rows, if there was a screen.
    pub(crate) fn leave(&mut self) -> Option<Vec<u8>> {
        self.keyboard = None;
        let screen = self.screen.take().or_else(|| self.parked.take());
        screen.map(Screen::leave)
    }

    /// Drops a failed screen, without its last rows.
    pub(crate) fn drop_screen(&mut self) {
        self.screen = None;
    }

    /// The terminal is gone, or can't be drawn on. If it still exists, the program's output is printed
    /// there as it comes, its last rows first.
    pub(crate) fn lose(&mut self) {
        let rows = self.leave();
        if std::mem::replace(&mut self.is_lost, true) {
            return;
        }
        // Without a screen from the start the keeper writes to the terminal itself.
        self.is_plain = self.mode == Mode::Screen && io::stdout().is_terminal();
        self.print_plain(&rows.unwrap_or_default());
    }

    /// Ctrl-Z: leaves the terminal and keeps the screen; whether there was one.
    pub(crate) fn park(&mut self) -> bool {
        if let Some(mut screen) = self.screen.take() {
            screen.give_back();
            self.parked = Some(screen);
            return true;
        }
        false
    }

    /// Takes the terminal again once we are in its foreground; after `bg` we aren't, and changing its
    /// settings would stop us. Whether it did.
    pub(crate) fn unpark(&mut self) -> io::Result<bool> {
        let in_foreground = |_: &mut Screen| {
            nix::unistd::tcgetpgrp(io::stdout().as_fd())
                .is_ok_and(|group| group == nix::unistd::getpgrp())
        };
        let Some(mut screen) = self.parked.take_if(in_foreground) else {
            return Ok(false);
        };
        screen.take_again()?;
        self.screen = Some(screen);
        Ok(true)
    }
}

/// Everything that a frame or a key needs of a session.
fn scene_of(session: &Session) -> Scene<'_> {
    Scene {
        state: &session.state,
        findings: &session.findings,
        remedies: session.remedies(),
        command: Some(session.command()),
        launch: session.launch(),
        edited: session.edited_need(),
        undone: session.undone(),
        room_for_batch: match session.room_for_batch() {
            Some(room) => RoomForBatch::Known(room),
            None if session.is_searching_room() => RoomForBatch::InSearch,
            None if session.is_peak_unsettled() => RoomForBatch::Unsettled,
            None if session.has_little_room() => RoomForBatch::Little,
            None => RoomForBatch::Unknown,
        },
        waiting: session.waiting(),
        recording: session.recording(),
        subject: Subject::Own,
    }
}
