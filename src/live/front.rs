//! The front: receives events from all sources, applies and diagnoses them, draws, and carries out
//! effects.
//!
//! No failure here may end the training: if the screen can't be drawn, the recording not written or
//! the probe not reached, that is reported and the rest continues. The front has four parts: the
//! session, the display, the link to its runs, and the policy for what follows a run. This file has
//! what involves several of them.

mod attach;
mod detach;
mod elsewhere;
mod input;
mod reachable;
mod receive;
mod relaunch;
mod run;
mod setup;
mod spool;
mod start;
mod tell;
mod terminal;
mod timers;

pub(crate) use attach::{Arrival, take_over};
pub(crate) use run::run_to_end;
pub(crate) use start::NoKeeper;

use super::display::Display;
use super::display::keyboard::Typed;
use super::display::screen::Due;
use super::link::{Departure, Link, SessionPhase};
use super::news::Messenger;
use super::policy::{OnStep, Policy};
use super::session::Session;
use super::signals::Signals;
use super::{Ending, ending};
use crate::collect::spool::SpoolWatch;
use crate::event::{Clock, Event, EventKind, Level, NvmlState};
use crate::supervise::{KeeperOrder, KeeperReport, Reports};
use crate::units::Moment;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// The capacity of the channel of events: at 10 Hz and 16 sources more than a second.
const EVENTS: usize = 1024;
/// How long the end waits for the keeper's log.
const KEEPER_PATIENCE: Duration = Duration::from_secs(1);
/// The maximum number of events that are applied before the next frame.
const BATCH: usize = 256;

struct Front {
    session: Session,
    display: Display,
    link: Link,
    policy: Box<dyn Policy>,
    messenger: Messenger,
    /// What follows the ranks of other nodes.
    spool: Option<SpoolWatch>,
    /// The sender for probes and NVML. Held so that the channel stays open in a session without either.
    events: mpsc::Sender<Event>,
    /// When the session's socket was last seen, and whether there is no place for another.
    looked: Moment,
    socket_seen: bool,
    unreachable: bool,
}

/// The loop's sources.
struct Sources {
    reports: Reports,
    events: mpsc::Receiver<Event>,
    signals: Signals,
}

impl Front {
    async fn follow(&mut self, sources: &mut Sources) -> Ending {
        // A training may be silent for a long time: publish the status at once.
        self.progress();
        loop {
            if let SessionPhase::Leaving(ending) = self.link.phase() {
                return *ending;
            }
            let wake = self.next_wake();
            tokio::select! {
                report = sources.reports.next() => match report {
                    Some(report) => self.reported(report),
                    None => if let Some(reports) = self.keeper_lost() {
                        sources.reports = reports;
                    },
                },
                event = sources.events.recv() => {
                    let mut next = event;
                    let mut taken = 0;
                    while let Some(event) = next {
                        self.happened(event);
                        taken += 1;
                        next = (taken < BATCH).then(|| sources.events.try_recv().ok()).flatten();
                    }
                }
                typed = self.display.next_typed() => match typed {
                    Some(Typed::Event(event)) => self.typed(event),
                    Some(Typed::HungUp) | None => self.hung_up(),
                },
                signal = sources.signals.next() => if let Ok(signal) = signal {
                    self.signalled(signal);
                },
                () = sleep_until(wake, self.session.clock) => {}
            }
            self.progress();
            self.draw();
        }
    }

    /// Applies an event of a probe or of NVML, and passes it to the parts that it concerns.
    fn happened(&mut self, event: Event) {
        self.session.apply(&event);
        match &event.what {
            EventKind::Device(reading) => {
                if let Some((gate, _)) = self.link.gated() {
                    gate.read(reading);
                }
            }
            EventKind::Nvml(NvmlState::Unavailable { .. } | NvmlState::Stale) => {
                if let Some((gate, _)) = self.link.gated() {
                    gate.lose_nvml();
                }
            }
            EventKind::Step(step) => match self.policy.on_step(&self.session.state) {
                OnStep::Hint => self.session.hint(step.count),
                OnStep::Nothing => {}
                OnStep::Stop(why) => {
                    self.announce(&why, false);
                    self.link.order(KeeperOrder::Stop);
                }
            },
            EventKind::Hello(hello) => {
                self.link.speaking.insert(hello.pid);
                // From here on the baselines are final.
                self.link.hand_over(&self.session.handover);
            }
            EventKind::ProbeGone(gone) => drop(self.link.speaking.remove(&gone.pid)),
            _ => {}
        }
    }

    /// Reports what a policy does unasked: in the recording and, if `aloud`, on standard error.
    fn announce(&mut self, words: &str, aloud: bool) {
        match self.policy.name() {
            Some(name) => {
                self.session.note(Level::Info, format!("{name}: {words}"));
                if aloud {
                    self.display.say(words.to_string());
                }
            }
            None => self.session.note(Level::Info, words),
        }
    }

    fn draw(&mut self) {
        let now = self.session.clock.now();
        if self.session.take_changed() {
            self.display.request(Due::Sample);
        }
        self.session.advance(now);
        match self.display.draw(now, &self.session) {
            Ok(Some(size)) => self.link.order(KeeperOrder::Resize(size)),
            Ok(None) => {}
            Err(error) => self.screen_failed(&error),
        }
    }

    /// After the last run: lets the keeper write what it still has.
    async fn finish_keeper(&mut self, reports: &mut Reports) {
        self.link.order(KeeperOrder::Finish);
        if !std::mem::take(&mut self.link.refused).is_empty() {
            return;
        }
        let finished = async {
            while let Some(report) = reports.next().await {
                if matches!(report, KeeperReport::Finished) {
                    break;
                }
            }
        };
        // The log's disk may hang; the program's own output has gone out before `Exited`.
        let _ = tokio::time::timeout(KEEPER_PATIENCE, finished).await;
    }

    /// Ends the session: restores the terminal, prints the last words, closes the recording. Returns how
    /// this process is to exit.
    fn leave(mut self, ending: Ending) -> Ending {
        let tail = self.display.leave();
        // After a screen a shell has the terminal back, and what tells of the end is nobody's to wait for.
        let is_watched = tail.is_some() && !self.link.keeper_lost;
        let ending = self.say_last_words(ending, tail);
        if !is_watched {
            self.messenger.finish();
        }
        ending
    }

    fn say_last_words(&mut self, ending: Ending, tail: Option<Vec<u8>>) -> Ending {
        let recording = self.session.recording().map(Path::to_path_buf);
        let problem = self.session.finish_recording();
        self.display.last_words.extend(problem);
        // Its directory may have been removed, and could not be made again.
        let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
        let (recording, gone) = match recording {
            Some(path) if !is_there(&path) => (None, Some(path)),
            recording => (recording, None),
        };
        self.display.last_words.extend(gone.map(|path| {
            format!(
                "{} is not there any more: it was removed while the session ran",
                path.display()
            )
        }));
        self.session.finish_remedies();
        if let Some(found) = self.policy.conclude(ending) {
            return if self.link.keeper_lost { ending } else { found };
        }
        ending::say(
            &self.session.state,
            tail,
            &ending::LastWords {
                ending,
                findings: &self.session.findings,
                remedies: self.session.remedies(),
                command: self.session.command(),
                recording: recording.as_deref(),
                lines: &self.display.last_words,
                at_line_start: self.display.is_at_line_start(),
                session_over: self.link.departure == Departure::Ended,
            },
        );
        ending
    }
}

async fn sleep_until(wake: Option<Moment>, clock: Clock) {
    match wake {
        Some(wake) => tokio::time::sleep(wake.since(clock.now())).await,
        None => pending().await,
    }
}
