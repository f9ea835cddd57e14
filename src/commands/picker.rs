//! `oomph` alone, on a terminal: a list of sessions to choose from. The one that is chosen is opened by a process of
//! its own in this one's place, as if `oomph attach` or `oomph replay` had been typed: no thread of the list reads
//! the keys that are meant for it.

use super::no_command;
use crate::live::display::keyboard::{self, Typed};
use crate::live::display::mode::{self, Mode, Surface};
use crate::live::{Ending, print, signals};
use crate::query::listing::{self, SessionRow, WAITING_AT_OOM};
use crate::query::recordings;
use crate::ui::picker::{Opening, Picker, PickerEffect, PickerRow, SessionGroup};
use crate::ui::terminal::UserTerminal;
use crate::ui::{Mouse, Preferences};
use crate::units::Bytes;
use anyhow::Context;
use crossterm::event::Event as TerminalEvent;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::future::pending;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// The latest recordings that are read: a list longer than this is searched by `oomph ls --all | grep`.
const RECENT: usize = 200;
/// So many recordings are read between two frames.
const AT_A_TIME: usize = 8;
/// Between two looks at the sessions that run.
const LOOK: Duration = Duration::from_secs(2);
/// Between two looks at the terminal's size; a frame that it does not take is tried again then.
const TICK: Duration = Duration::from_millis(250);

/// Shows the list until a session is chosen, which then takes this process's place, or the user leaves.
///
/// # Errors
/// There is no terminal, or no session: then a command is missing. Or the terminal is gone.
pub(super) fn run() -> anyhow::Result<Ending> {
    if !has_terminal() {
        return Err(no_command().into());
    }
    let current = listing::current();
    if current.is_empty() && recordings::all().is_empty() {
        return Err(no_command().into());
    }
    let chosen = super::on_screen(None, async |preferences| choose(current, preferences).await)?;
    match chosen {
        Some(chosen) => Err(open(&chosen)),
        None => Ok(Ending::Code(0)),
    }
}

/// Whether the list can be shown, and keys chosen from it.
pub(super) fn has_terminal() -> bool {
    let screen = mode::choose(false, &Surface::of_this_process());
    screen == Mode::Screen && io::stdin().is_terminal()
}

/// The name of the session that the list is come back to from.
const BACK_FROM: &str = "OOMPH_BACK_FROM";

/// Shows the list again in this process's place, after this session was opened from it. Returns only if that isn't possible.
pub(super) fn back(from: Option<&str>) -> anyhow::Error {
    let failed = match std::env::current_exe() {
        Ok(oomph) => {
            let mut list = Command::new(oomph);
            list.envs(from.map(|id| (BACK_FROM, id))).exec()
        }
        Err(error) => error,
    };
    anyhow::Error::from(failed).context("cannot show the list of sessions")
}

/// The session that was chosen, and how it is opened.
struct ChosenSession {
    id: String,
    how: Opening,
}

impl ChosenSession {
    fn words(&self) -> &'static [&'static str] {
        match self.how {
            Opening::Screen => &["attach"],
            Opening::Beginning => &["replay"],
            Opening::End => &["replay", "--at", "end"],
        }
    }
}

/// Opens it in this process's place. Returns only if that isn't possible.
fn open(chosen: &ChosenSession) -> anyhow::Error {
    let failed = match std::env::current_exe() {
        Ok(oomph) => Command::new(oomph)
            .args(chosen.words())
            .arg("--from-list")
            .arg(&chosen.id)
            .env_remove(BACK_FROM)
            .exec(),
        Err(error) => error,
    };
    anyhow::Error::from(failed).context(format!(
        "cannot start oomph {} {}",
        chosen.words().join(" "),
        chosen.id
    ))
}

async fn choose(
    current: Vec<SessionRow>,
    preferences: Preferences,
) -> anyhow::Result<Option<ChosenSession>> {
    let mut typed = keyboard::watch().context("cannot read the keyboard")?;
    let mut ends = signal(SignalKind::terminate())?;
    let tty = io::stdout().as_fd().try_clone_to_owned()?;
    let mut terminal = UserTerminal::enter(tty.into())?;
    let (width, height) = terminal.size();
    let mut picker = Picker::new(width, height);
    if let Ok(id) = std::env::var(BACK_FROM) {
        picker.await_session(id);
    }
    picker.take(current.iter().map(shown).collect(), false);
    let mut news = Some(look(current));
    loop {
        let is_stuck = !terminal.is_writable();
        if !is_stuck {
            terminal.draw_picker(&picker, preferences)?;
        }
        let effect = tokio::select! {
            biased;
            _ = ends.recv() => Some(PickerEffect::Quit),
            key = typed.recv() => match key {
                Some(Typed::Event(event)) => pressed(&mut picker, event, preferences),
                Some(Typed::HungUp) | None => Some(PickerEffect::Quit),
            },
            told = next(&mut news) => {
                match told {
                    Some(SessionNews { rows, is_complete }) => picker.take(rows, is_complete),
                    None => news = None,
                }
                None
            }
            () = tokio::time::sleep(TICK) => {
                fit(&mut picker, &mut terminal);
                None
            }
        };
        match effect {
            Some(PickerEffect::Open { id, how }) => {
                terminal.leave();
                return Ok(Some(ChosenSession { id, how }));
            }
            Some(PickerEffect::Quit) => {
                terminal.leave();
                return Ok(None);
            }
            Some(PickerEffect::Suspend) if signals::has_shell() => {
                terminal.leave();
                signals::suspend();
                terminal.resume()?;
                let (width, height) = terminal.size();
                picker.resize(width, height);
            }
            Some(PickerEffect::Redraw) => terminal.redraw(),
            Some(PickerEffect::Suspend) | None => {}
        }
    }
}

fn pressed(
    picker: &mut Picker,
    event: TerminalEvent,
    preferences: Preferences,
) -> Option<PickerEffect> {
    match event {
        TerminalEvent::Key(key) => picker.key(key),
        TerminalEvent::Mouse(mouse) if preferences.mouse == Mouse::On => picker.mouse(mouse),
        TerminalEvent::Paste(text) => {
            picker.paste(&text);
            None
        }
        TerminalEvent::Resize(..)
        | TerminalEvent::Mouse(_)
        | TerminalEvent::FocusGained
        | TerminalEvent::FocusLost => None,
    }
}

/// Takes over the terminal's size.
fn fit(picker: &mut Picker, terminal: &mut UserTerminal) {
    if terminal.fit() {
        let (width, height) = terminal.size();
        picker.resize(width, height);
    }
}

/// The sessions as they are now.
struct SessionNews {
    rows: Vec<PickerRow>,
    /// Whether all recordings that are listed were read.
    is_complete: bool,
}

/// What is told next; nothing after the end.
async fn next(news: &mut Option<Receiver<SessionNews>>) -> Option<SessionNews> {
    match news {
        Some(news) => news.recv().await,
        None => pending().await,
    }
}

/// Reads on a thread: a shared file system may hang, and keys must not.
fn look(current: Vec<SessionRow>) -> Receiver<SessionNews> {
    let (sender, receiver) = mpsc::channel(4);
    let thread = std::thread::Builder::new().name("sessions".into());
    // Without a thread those that run are listed, as they were at the start.
    let _ = thread.spawn(move || {
        // An error: the list is gone.
        let _ = follow(current, &sender);
    });
    receiver
}

struct ListClosed;

fn follow(mut current: Vec<SessionRow>, to: &Sender<SessionNews>) -> Result<(), ListClosed> {
    let mut ended: Vec<PickerRow> = Vec::new();
    let tell = |current: &[SessionRow], ended: &[PickerRow], is_complete| {
        let rows = current.iter().map(shown).chain(ended.iter().cloned());
        to.blocking_send(SessionNews {
            rows: rows.collect(),
            is_complete,
        })
        .map_err(|_| ListClosed)
    };
    loop {
        // Those that are there already stay, so that nothing jumps while recordings are read again.
        let mut read = Vec::new();
        for row in listing::ended(&current, RECENT) {
            read.push(shown(&row));
            if read.len() % AT_A_TIME == 0 && read.len() > ended.len() {
                tell(&current, &read, false)?;
            }
        }
        ended = read;
        tell(&current, &ended, true)?;
        let ids = |rows: &[SessionRow]| -> Vec<String> {
            rows.iter().map(|row| row.id.clone()).collect()
        };
        let before = ids(&current);
        loop {
            std::thread::sleep(LOOK);
            current = listing::current();
            if ids(&current) != before {
                break;
            }
            tell(&current, &ended, true)?;
        }
    }
}

/// A session as the list shows it. What others could have written is escaped.
fn shown(row: &SessionRow) -> PickerRow {
    let group = match (row.state.as_str(), row.ooms) {
        (WAITING_AT_OOM, _) => SessionGroup::Waiting,
        (_, None) => SessionGroup::Running,
        (_, Some(_)) => SessionGroup::Ended,
    };
    let plain = |text: &str| print::line(text).into_owned();
    PickerRow {
        id: plain(&row.id),
        group,
        state: plain(&row.state_words()),
        brief: plain(&brief(row)),
        told: row.told.iter().map(|words| plain(words)).collect(),
        has_failed: row.state != "finished" && row.state != "stopped",
        took: (row.seconds).map(|seconds| Duration::from_secs_f64(seconds.max(0.0))),
        peak: row.peak.map(Bytes),
        since: row.since.as_deref().and_then(local).unwrap_or_default(),
        began: (row.since.as_deref().and_then(|since| since.parse().ok()))
            .map_or(0, Timestamp::as_second),
        device: plain(&row.device_words().unwrap_or_default()),
        command: plain(row.command.as_deref().unwrap_or_default()),
    }
}

/// In the words of somebody who has little room.
fn brief(row: &SessionRow) -> String {
    // How long it has waited is told below the list.
    let words = SessionRow {
        state: row.state.replacen("waiting at OOM", "waiting", 1),
        run: row.run,
        cause: row.cause.clone(),
        ran_out_before: row.ran_out_before,
        state_directory: row.state_directory.clone(),
        ..SessionRow::default()
    };
    words.brief_words().replacen("out of memory", "OOM", 1)
}

/// `Nov 24 18:23`.
fn local(since: &str) -> Option<String> {
    let at = since.parse::<Timestamp>().ok()?;
    let zoned = at.to_zoned(TimeZone::system());
    Some(zoned.strftime("%b %e %H:%M").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_listed_by_what_it_does() {
        let row = |state: &str, ooms| SessionRow {
            id: "a".into(),
            state: state.into(),
            ooms,
            command: Some("python3 a.py\u{1b}[2J".into()),
            ..SessionRow::default()
        };
        for (state, ooms, group) in [
            (WAITING_AT_OOM, None, SessionGroup::Waiting),
            ("running", None, SessionGroup::Running),
            ("silent", None, SessionGroup::Running),
            ("out of memory", Some(1), SessionGroup::Ended),
        ] {
            assert_eq!(shown(&row(state, ooms)).group, group, "{state}");
        }
        let finished = shown(&row("finished", Some(0)));
        assert!(!finished.has_failed);
        assert_eq!(finished.command, "python3 a.py\\u001b[2J");
    }
}
