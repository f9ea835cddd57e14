//! `oomph attach`: a screen for a session that is running.
//!
//! One that runs elsewhere is watched: the same screen, by its recording and its output log as they grow on
//! a file system that both machines share. They are read on a thread: a shared file system may hang, and
//! keys must not. Nothing that is typed acts on that session.

use super::logs::{LogTail, Taken};
use super::{on_screen, picker};
use crate::diagnosis::{self, Finding};
use crate::event::{Clock, Event, EventKind};
use crate::live::display::keyboard::{self, Typed};
use crate::live::display::mode::{self, Mode, Surface};
use crate::live::display::screen::{Due, Screen};
use crate::live::display::source_editor;
use crate::live::{self, Ending, print, report_page, signals};
use crate::query::sessions::{self, Verb};
use crate::recording::{self, GrowingRecording, RemoteSession};
use crate::state::State;
use crate::supervise::{Keeper, OutputStream};
use crate::ui::{Effect, Elsewhere, Preferences, Scene, Subject};
use crate::units::Moment;
use anyhow::{Context, bail};
use clap::Args;
use crossterm::event::Event as TerminalEvent;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, Receiver};

/// How long a frame waits for the next second of "heard … ago".
const TICK: Duration = Duration::from_millis(250);

/// Between two looks, and between two questions whether it lives.
const LOOK: Duration = Duration::from_secs(1);
const LISTEN: Duration = Duration::from_secs(5);

/// Events of one message: the screen and the keys have their turn in between.
const AT_A_TIME: usize = 2_000;

/// The output that is shown from before, as much as a keeper keeps for a screen.
const RECENT: u64 = 256 << 10;

#[derive(Debug, PartialEq, Args)]
pub(super) struct AttachCommand {
    /// The session, by its name or the start of it [default: the only one, or a list to choose from]
    #[arg(value_name = "ID")]
    session: Option<String>,
    /// Run without NVML
    #[arg(long)]
    no_nvml: bool,
    /// It was chosen from the list of sessions, which comes back where the session goes on
    #[arg(long, hide = true)]
    from_list: bool,
}

/// Attaches a screen to the named session, or to the only one; one that runs on another machine is
/// watched by its files.
///
/// # Errors
/// There is no such session, or no terminal to draw on.
pub(super) fn run(attach: &AttachCommand, nvml: bool) -> anyhow::Result<Ending> {
    let nvml = nvml && !attach.no_nvml;
    let found = match sessions::choose(attach.session.as_deref(), "attach") {
        Ok(sessions::Chosen::Here(found)) => found,
        Ok(sessions::Chosen::Elsewhere(session)) => {
            let ending = watch(&session)?;
            return match attach.from_list {
                true => Err(picker::back(Some(&session.id))),
                false => Ok(ending),
            };
        }
        Err(sessions::NoChoice::Several { .. })
            if attach.session.is_none() && picker::has_terminal() =>
        {
            return picker::run();
        }
        Err(none) => return Err(none.into()),
    };
    let ending = live::follow(live::Arrival::Attached { nvml }, || {
        Keeper::attach(&found.socket()).map_err(|error| sessions::explain(&found, error))
    })?;
    let goes_on = || sessions::choose(Some(&found.id), "attach").is_ok();
    match attach.from_list && goes_on() {
        true => Err(picker::back(Some(&found.id))),
        false => Ok(ending),
    }
}

/// Watches a session until the user has seen enough.
///
/// # Errors
/// It is not recorded, or there is no terminal to draw on.
fn watch(session: &RemoteSession) -> anyhow::Result<Ending> {
    let (id, place) = (&session.id, sessions::place_of(session));
    let Some(recording) = session.recording() else {
        bail!(
            "session {id} runs on {place} and keeps no recording (--no-record), so it cannot be watched from here; attach to it there: {}",
            sessions::command_there(session, Verb::Attach)
        );
    };
    if let Mode::Headless(reason) = mode::choose(false, &Surface::of_this_process()) {
        bail!(
            "attach needs a terminal ({}); `oomph logs -f {id}` follows the output",
            reason.words()
        );
    }
    let watch = Watch::new(session, recording);
    match on_screen(None, async |preferences| {
        watch.play(session, preferences).await
    })? {
        true => print::tell(&format!("session {id} has ended")),
        false => print::tell(&format!("session {id} goes on on {place}")),
    }
    Ok(Ending::Code(0))
}

/// What is known of the session.
struct Watch {
    state: State,
    findings: Vec<Finding>,
    recording: PathBuf,
    place: String,
    command: String,
    /// How long ago it was heard, and when that was said; `None` if it has ended.
    heard: Option<(Duration, Instant)>,
    /// What starts its command again, once it has ended.
    again: String,
    trouble: Option<String>,
}

impl Watch {
    fn new(session: &RemoteSession, recording: PathBuf) -> Watch {
        Watch {
            state: State::default(),
            findings: Vec::new(),
            recording,
            place: sessions::place_of(session),
            command: sessions::command_there(session, Verb::Attach),
            again: format!("oomph again {}", session.id),
            heard: Some((session.heard, Instant::now())),
            trouble: None,
        }
    }

    /// Draws it until the user quits; whether it had ended by then.
    async fn play(
        mut self,
        session: &RemoteSession,
        preferences: Preferences,
    ) -> anyhow::Result<bool> {
        let clock = Clock::start();
        let mut news = Some(read_files(session.clone()));
        let mut typed = keyboard::watch().context("cannot read the keyboard")?;
        let mut screen = Screen::enter()?;
        screen.view.prefer(preferences);
        loop {
            let scene = Scene {
                findings: &self.findings,
                recording: Some(&self.recording),
                subject: self.subject(),
                ..Scene::of(&self.state)
            };
            screen.fit(&scene)?;
            screen.draw(clock.now(), &scene)?;
            tokio::select! {
                biased;
                key = typed.recv() => match key {
                    Some(Typed::Event(event)) => {
                        screen.request(Due::Now);
                        match pressed(&mut screen, event, &scene) {
                            Some(Effect::Quit { .. } | Effect::Interrupt) => break,
                            Some(Effect::Suspend) if signals::has_shell() => {
                                screen.give_back();
                                signals::suspend();
                                screen.take_again()?;
                            }
                            Some(Effect::EditSource { file, line }) => {
                                edit_source(&mut screen, &file, line, self.state.now)?;
                            }
                            Some(Effect::WriteReport) => {
                                screen.view.told(report_here(&self.recording), self.state.now);
                            }
                            Some(effect) => screen.carry_out(&effect)?,
                            None => {}
                        }
                    }
                    Some(Typed::HungUp) | None => break,
                },
                told = next(&mut news) => match told {
                    Some(FileNews::Output(bytes)) => {
                        screen.feed(OutputStream::Out, &bytes);
                        // Nobody is there who asked.
                        screen.view.output.take_answers();
                    }
                    Some(told) => {
                        self.learn(told);
                        screen.request(Due::Sample);
                    }
                    None => {
                        news = None;
                        if self.heard.is_some() {
                            self.trouble = Some("its files are no longer read".into());
                        }
                    }
                },
                () = tokio::time::sleep(TICK) => screen.request(Due::Clock),
            }
        }
        screen.leave();
        Ok(self.heard.is_none())
    }

    fn subject(&self) -> Subject<'_> {
        Subject::Elsewhere(Elsewhere {
            place: &self.place,
            heard: self.heard.map(|(ago, said)| ago + said.elapsed()),
            trouble: self.trouble.as_deref(),
            command: match self.heard {
                Some(_) => &self.command,
                None => &self.again,
            },
        })
    }

    fn learn(&mut self, news: FileNews) {
        match news {
            FileNews::Again => (self.state, self.findings) = (State::default(), Vec::new()),
            FileNews::Events(events) => self.apply(&events),
            FileNews::Output(_) => {}
            FileNews::Heard(ago) => self.heard = Some((ago, Instant::now())),
            FileNews::Ended => self.heard = None,
            FileNews::Trouble(why) => self.trouble = why,
        }
    }

    fn apply(&mut self, events: &[Event]) {
        let mut diagnose = false;
        for event in events {
            self.state.apply(event);
            diagnose |= matches!(
                event.what,
                EventKind::Oom(_)
                    | EventKind::OomText(_)
                    | EventKind::Exited(_)
                    | EventKind::Started(_)
            );
        }
        if diagnose {
            self.findings = diagnosis::diagnose(&self.state);
        }
    }
}

/// What is told next; nothing after the end.
async fn next(news: &mut Option<Receiver<FileNews>>) -> Option<FileNews> {
    match news {
        Some(news) => news.recv().await,
        None => pending().await,
    }
}

/// Writes the report of a recording that is watched or played to where the user is; what came of it, in words.
pub(super) fn report_here(recording: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    report_page::write(recording, &here)
}

/// Leaves the screen to the user's editor, and waits for its end.
pub(super) fn edit_source(
    screen: &mut Screen,
    file: &str,
    line: u32,
    now: Moment,
) -> std::io::Result<()> {
    screen.give_back();
    let opened = source_editor::open(file, line);
    screen.take_again()?;
    if let Err(why) = opened {
        screen.view.told(why, now);
    }
    Ok(())
}

pub(super) fn pressed(screen: &mut Screen, event: TerminalEvent, scene: &Scene) -> Option<Effect> {
    match event {
        TerminalEvent::Key(key) => screen.view.key(key, scene),
        TerminalEvent::Mouse(mouse) => screen.view.mouse(mouse, scene),
        TerminalEvent::Paste(text) => screen.view.paste(&text, scene),
        // Its size is looked at for each frame.
        TerminalEvent::Resize(..) | TerminalEvent::FocusGained | TerminalEvent::FocusLost => None,
    }
}

/// What the thread tells.
#[derive(Debug)]
enum FileNews {
    /// The recording is read from its start again: all that was known is forgotten.
    Again,
    Events(Vec<Event>),
    Output(Vec<u8>),
    /// How long ago it was heard.
    Heard(Duration),
    /// There is nothing more to read.
    Ended,
    /// The recording cannot be read at the moment, and why; `None` when it can again.
    Trouble(Option<String>),
}

/// Reads until the session has ended, or nobody listens any more.
fn read_files(session: RemoteSession) -> mpsc::Receiver<FileNews> {
    let (sender, receiver) = mpsc::channel(4);
    let thread = std::thread::Builder::new().name("watch".into());
    // Without a thread the channel closes, which the screen says.
    let _ = thread.spawn(move || {
        let mut files = WatchedFiles {
            session,
            recording: None,
            output: None,
            in_trouble: false,
            sender,
        };
        // An error: the screen is gone.
        let _ = files.follow();
    });
    receiver
}

struct NobodyListens;

struct WatchedFiles {
    session: RemoteSession,
    recording: Option<GrowingRecording>,
    output: Option<LogTail>,
    in_trouble: bool,
    sender: mpsc::Sender<FileNews>,
}

impl WatchedFiles {
    fn follow(&mut self) -> Result<(), NobodyListens> {
        let mut listened: Option<Instant> = None;
        let mut lives = true;
        loop {
            if listened.is_none_or(|at| at.elapsed() >= LISTEN) {
                listened = Some(Instant::now());
                let heard = self.session.listen();
                lives = heard.is_some();
                if let Some(ago) = heard {
                    self.tell(FileNews::Heard(ago))?;
                }
            }
            // After the end once more: the last lines are there before the session is gone.
            self.read_recording()?;
            self.read_output()?;
            if !lives {
                return self.tell(FileNews::Ended);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn tell(&self, news: FileNews) -> Result<(), NobodyListens> {
        self.sender.blocking_send(news).map_err(|_| NobodyListens)
    }

    fn read_recording(&mut self) -> Result<(), NobodyListens> {
        let Some(path) = self.session.recording() else {
            return Ok(());
        };
        let looked = match &mut self.recording {
            Some(recording) => recording.look().map_err(|error| error.to_string()),
            None => match GrowingRecording::open(&path) {
                Ok(recording) => {
                    self.recording = Some(recording);
                    self.tell(FileNews::Again)?;
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            },
        };
        if let Err(why) = looked {
            self.recording = None;
            self.in_trouble = true;
            return self.tell(FileNews::Trouble(Some(why)));
        }
        if std::mem::take(&mut self.in_trouble) {
            self.tell(FileNews::Trouble(None))?;
        }
        loop {
            let Some(recording) = &mut self.recording else {
                return Ok(());
            };
            let next = std::iter::from_fn(|| recording.next_event());
            let events: Vec<Event> = next.take(AT_A_TIME).collect();
            let is_all = events.len() < AT_A_TIME;
            if !events.is_empty() {
                self.tell(FileNews::Events(events))?;
            }
            if is_all {
                return Ok(());
            }
        }
    }

    fn read_output(&mut self) -> Result<(), NobodyListens> {
        let Some(path) = self.session.log() else {
            return Ok(());
        };
        if self.output.is_none() {
            let opened = LogTail::open(&path, recording::open_own);
            self.output = opened.ok().and_then(|mut tail| {
                tail.skip_to_last(RECENT).ok()?;
                Some(tail)
            });
        }
        let mut bytes = Vec::new();
        if let Some(tail) = &mut self.output {
            loop {
                match tail.take(&mut bytes) {
                    Ok(Taken::Part) => {}
                    Ok(Taken::All) => break,
                    Err(_) => {
                        self.output = None;
                        break;
                    }
                }
            }
        }
        match bytes.is_empty() {
            true => Ok(()),
            false => self.tell(FileNews::Output(bytes)),
        }
    }
}
