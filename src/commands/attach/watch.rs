//! `oomph attach` for a session that runs elsewhere: the same screen, by its recording and its output log
//! as they grow on a file system that both machines share. Nothing that is typed acts on the session.

mod files;

use crate::commands::sessions::remote::{self, Verb};
use crate::config;
use crate::diagnosis::{self, Finding};
use crate::event::{Clock, Event, EventKind};
use crate::live::Ending;
use crate::live::display::keyboard::{self, Typed};
use crate::live::display::mode::{self, Mode, Surface};
use crate::live::display::screen::{Due, Screen};
use crate::live::print;
use crate::live::signals;
use crate::session::RemoteSession;
use crate::state::State;
use crate::supervise::OutputStream;
use crate::ui::{Effect, Elsewhere, Scene, Subject, Theme};
use anyhow::{Context, bail};
use crossterm::event::Event as TerminalEvent;
use files::FileNews;
use std::future::pending;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Receiver;

/// How long a frame waits for the next second of "heard … ago".
const TICK: Duration = Duration::from_millis(250);

/// Watches a session until the user has seen enough.
///
/// # Errors
/// It is not recorded, or there is no terminal to draw on.
pub(super) fn watch(session: &RemoteSession) -> anyhow::Result<Ending> {
    let (id, place) = (&session.id, remote::place(session));
    let Some(recording) = session.recording() else {
        bail!(
            "session {id} runs on {place} and keeps no recording (--no-record), so it cannot be watched from here; attach to it there: {}",
            remote::command(session, Verb::Attach)
        );
    };
    if let Mode::Headless(reason) = mode::choose(false, &Surface::of_this_process()) {
        bail!(
            "attach needs a terminal ({}); `oomph logs -f {id}` follows the output",
            reason.words()
        );
    }
    let settings = config::read(&std::env::current_dir().unwrap_or_default());
    let (theme, problem) = mode::theme(None, &settings);
    for problem in settings.problems.into_iter().chain(problem) {
        print::complain(&problem);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let ended = runtime.block_on(Watch::of(session, recording).play(session, theme))?;
    runtime.shutdown_background();
    match ended {
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
    trouble: Option<String>,
}

impl Watch {
    fn of(session: &RemoteSession, recording: PathBuf) -> Watch {
        Watch {
            state: State::default(),
            findings: Vec::new(),
            recording,
            place: remote::place(session),
            command: remote::command(session, Verb::Attach),
            heard: Some((session.heard, Instant::now())),
            trouble: None,
        }
    }

    /// Draws it until the user quits; whether it had ended by then.
    async fn play(mut self, session: &RemoteSession, theme: Theme) -> anyhow::Result<bool> {
        let clock = Clock::start();
        let mut news = Some(files::read(session.clone()));
        let mut typed = keyboard::watch().context("cannot read the keyboard")?;
        let mut screen = Screen::enter()?;
        screen.view.theme = theme;
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
            command: &self.command,
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

fn pressed(screen: &mut Screen, event: TerminalEvent, scene: &Scene) -> Option<Effect> {
    match event {
        TerminalEvent::Key(key) => screen.view.key(key, scene),
        TerminalEvent::Mouse(mouse) => screen.view.mouse(mouse, scene),
        TerminalEvent::Paste(text) => screen.view.paste(&text, scene),
        TerminalEvent::Resize(..) => {
            screen.resized();
            None
        }
        TerminalEvent::FocusGained | TerminalEvent::FocusLost => None,
    }
}
