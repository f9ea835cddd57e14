//! The front: receive from all sources, fold, diagnose, draw, carry effects out.
//!
//! Nothing here may end the training by failing: a screen that cannot be drawn, a recording that
//! cannot be written, a probe that cannot be reached are said and done without. What the front
//! decides is a [`Phase`]; what happens in it is spread over files of its own: `start` (before the
//! first run) or `arrive` (in the place of a front before), `receive` (what comes in), `relaunch`
//! (from one run to the next), `terminal` (it goes, or is left for a while), `depart` (the session goes
//! on without us).

mod arrive;
mod change;
mod conduct;
mod depart;
mod fitting;
mod foresight;
mod pace;
mod receive;
mod relaunch;
mod start;
mod terminal;
mod unattended;

pub use arrive::{Arrival, take_over};
use conduct::conduct;
pub use conduct::run_to_end;

use super::earlier::Earlier;
use super::ending;
use super::fit::{self, Fitting};
use super::keyboard::{self, Typed};
use super::known::Known;
use super::launch::Surround;
use super::memory::Memory;
use super::mode::Mode;
use super::phase::Phase;
use super::prompt::{self, Prompt};
use super::screen::{Due, Screen};
use super::signals::{Rules, Signals};
use super::summary::Summary;
use super::tail::Tail;
use super::torch;
use super::type_ahead::TypeAhead;
use super::{Ending, OnOom};
use crate::command::CommandLine;
use crate::diagnosis::{self, Finding, LiveWarnings};
use crate::epoch;
use crate::event::{Clock, Event, Exit, Level, Note, What};
use crate::forecast::Hint;
use crate::oom::Scanner;
use crate::remedy::{Remedy, RemedyId};
use crate::session::Recorder;
use crate::state::State;
use crate::supervise::{Keeper, KeeperOrder, KeeperReport, Reports};
use crate::ui::{Scene, Theme};
use crate::units::{Bytes, Moment, Pid, RunNumber, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// Events that wait to be folded. At 10 Hz and 16 sources this is more than a second.
const EVENTS: usize = 1024;
/// How long the end waits for a slow disk.
const RECORDING_PATIENCE: Duration = Duration::from_secs(1);
/// How long the end waits for the keeper's log.
const KEEPER_PATIENCE: Duration = Duration::from_secs(1);
/// How many events are folded before a frame may be drawn.
const BATCH: usize = 256;

/// The front of one session.
struct Front {
    on_oom: OnOom,
    /// A run that ran out of memory and of which nobody has decided yet what follows, and until
    /// when earlier sessions are waited for.
    undecided: Option<(Exit, Moment)>,
    /// The latest hint that was given.
    hinted: Option<Hint>,
    /// The search that chooses the runs, where this is one.
    fitting: Option<Fitting>,
    clock: Clock,
    state: State,
    findings: Vec<Finding>,
    /// What is said of a run before it fails.
    watch: LiveWarnings,
    remedies: Vec<Remedy>,
    recorder: Recorder,
    recording: Option<PathBuf>,
    scanners: Scanners,
    keeper: Keeper,
    phase: Phase,
    /// The command of the current run, as a person sees it.
    command: CommandLine,
    surround: Surround,
    rules: Rules,
    /// Use of each device before the first run, for the relaunch gate.
    baselines: BTreeMap<Uuid, Bytes>,
    theme: Theme,
    screen: Option<Screen>,
    /// The screen while we are in the terminal's background: given back, fed, not drawn.
    parked: Option<Screen>,
    /// The program's output is printed as it comes: the terminal is there, its screen is not.
    plain: bool,
    /// Keys, while the screen is up.
    typed: Option<mpsc::Receiver<Typed>>,
    type_ahead: TypeAhead,
    prompt: Prompt,
    /// The terminal was there and is not any more: it is not taken again.
    screen_lost: bool,
    waiting: Option<String>,
    /// What the remedies are told of the environment and the disk.
    known: Known,
    /// When the session began: what lies on the disk from before is another run's.
    began: SystemTime,
    /// What made the current run of the one before.
    applied: Option<change::Applied>,
    taken_back: change::TakenBack,
    /// The end of the current run's output.
    tail: Tail,
    torch: Option<String>,
    /// What earlier sessions of the same program showed.
    earlier: Earlier,
    /// Processes whose probes are connected.
    speaking: BTreeSet<Pid>,
    /// The program's last byte of output: whether a line of ours may follow.
    last_byte: u8,
    /// How we came to be the front.
    role: Role,
    /// Why the loop ends.
    departure: Departure,
    /// Somebody asked for the session to end.
    stop_asked: bool,
    /// What the next front is to know.
    memory: Memory,
    /// What others were told of the session, and when.
    described: Option<(Moment, Summary)>,
    keeper_lost: bool,
    /// How many times shorter graces and deadlines are; 1 but in tests.
    scaled: u32,
    mode: Mode,
    /// Lines for standard error that wait for the end: never inside the program's output.
    last_words: Vec<String>,
}

/// How a process came to be the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It started the session: a shell, a script or a scheduler waits for it.
    First,
    /// A person attached.
    Attached,
    /// The keeper started it, to go on without a screen.
    Headless,
}

/// Why the loop ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Departure {
    /// The session does.
    Ended,
    /// The user left; the training goes on.
    Released,
    /// Another front has taken over.
    Superseded,
}

/// One reader a stream: a line of one must not complete a line of another.
#[derive(Default)]
struct Scanners {
    terminal: Heard,
    out: Heard,
    err: Heard,
    /// Of all streams together.
    epochs: epoch::Count,
}

/// What is read in one stream of output.
#[derive(Default)]
struct Heard {
    ooms: Scanner,
    epochs: epoch::EpochLines,
}

/// Where the loop hears from.
struct Sources {
    reports: Reports,
    events: mpsc::Receiver<Event>,
    signals: Signals,
}

impl Front {
    async fn follow(&mut self, sources: &mut Sources) -> Ending {
        loop {
            if let Phase::Leaving(ending) = self.phase {
                return ending;
            }
            let wake = self.next_wake();
            tokio::select! {
                report = sources.reports.next() => self.reported(report),
                event = sources.events.recv() => {
                    let mut next = event;
                    let mut taken = 0;
                    while let Some(event) = next {
                        self.happened(event);
                        taken += 1;
                        next = (taken < BATCH).then(|| sources.events.try_recv().ok()).flatten();
                    }
                }
                typed = next_typed(&mut self.typed) => match typed {
                    Some(Typed::Event(event)) => self.typed(event),
                    Some(Typed::HungUp) | None => self.hung_up(),
                },
                signal = sources.signals.next() => if let Ok(signal) = signal {
                    self.signalled(signal);
                },
                () = sleep_until(wake, self.clock) => {}
            }
            self.progress();
            self.draw();
        }
    }

    /// Folds an event and stores it; what it changes in the findings is worked out at once.
    fn happened(&mut self, event: Event) {
        self.state.apply(&event);
        self.recorder.write(&event);
        match &event.what {
            What::Oom(_) | What::OomText(_) => self.diagnose(),
            What::Device(reading) => {
                if let Phase::Gating { gate, .. } = &mut self.phase {
                    gate.read(reading);
                }
                self.learn_baseline(reading.uuid.clone(), reading.used);
            }
            What::Nvml(state) => self.nvml_changed(state.clone()),
            What::Step(step) => {
                self.fit_stepped();
                self.hint(step.count);
            }
            What::Hello(hello) => {
                self.speaking.insert(hello.pid);
                self.read_back(hello);
                // From here on the baselines are what they are.
                self.remember();
            }
            What::ProbeGone(gone) => {
                self.speaking.remove(&gone.pid);
            }
            _ => {}
        }
        self.request(Due::Sample);
    }

    fn record(&mut self, what: What) {
        let at = self.clock.now();
        self.happened(Event { at, what });
    }

    fn note(&mut self, level: Level, text: impl Into<String>) {
        let text = text.into();
        self.record(What::Note(Note { level, text }));
    }

    fn diagnose(&mut self) {
        self.findings = diagnosis::diagnose(&self.state);
        let unsaid = self.state.runs.iter().all(|run| run.ranks.is_empty());
        if unsaid && self.state.oom().is_some() {
            // No probe has said it: the disk is asked, once memory has run out and not before.
            self.torch = torch::version_for(&self.command);
        }
        if self.state.oom().is_some() {
            self.known.look(&self.command, Some(self.began));
            self.known.look_for_leftovers(&self.state);
        }
        self.remedies = self.remedies_now();
    }

    /// Shows `look` all that a frame or a key needs beside the program's own output.
    fn with_scene<R>(&self, look: impl FnOnce(&Scene) -> R) -> R {
        let plan = |ids: &[RemedyId]| Some(self.plan(ids).command);
        look(&Scene {
            state: &self.state,
            findings: &self.findings,
            remedies: &self.remedies,
            plan: &plan,
            room_for_batch: match self.hinted {
                Some(Hint::RoomForBatch { could, .. }) => Some(could),
                Some(Hint::StateWillNotFit { .. }) | None => None,
            },
            waiting: self.waiting.as_deref(),
            recording: self.recording.as_deref(),
            replay: None,
        })
    }

    /// Takes the terminal, once there is a run to show.
    fn enter_screen(&mut self) {
        if self.mode != Mode::Screen || self.screen.is_some() || self.screen_lost {
            return;
        }
        match (Screen::enter(), keyboard::watch()) {
            (Ok(mut screen), Ok(typed)) => {
                screen.view.theme = self.theme;
                self.screen = Some(screen);
                self.typed = Some(typed);
                self.order(KeeperOrder::ScreenShown(true));
            }
            (Err(error), _) | (_, Err(error)) => {
                self.lose_screen(&format!("the terminal could not be taken ({error})"));
            }
        }
    }

    /// Does something with the screen, if it is up; where the terminal fails it is given up.
    fn on_screen<R>(
        &mut self,
        act: impl FnOnce(&mut Screen, &Scene) -> io::Result<R>,
    ) -> Option<R> {
        let mut screen = self.screen.take()?;
        match self.with_scene(|scene| act(&mut screen, scene)) {
            Ok(value) => {
                self.screen = Some(screen);
                Some(value)
            }
            Err(error) => {
                drop(screen);
                self.lose_screen(&format!("the terminal takes no frames any more ({error})"));
                None
            }
        }
    }

    fn request(&mut self, due: Due) {
        if let Some(screen) = &mut self.screen {
            screen.request(due);
        }
    }

    fn draw(&mut self) {
        let now = self.clock.now();
        self.state.now = self.state.now.max(now);
        let resized = self.on_screen(|screen, scene| {
            if now < screen.next_frame() {
                return Ok(None);
            }
            let resized = screen.fit(scene)?;
            screen.draw(now, scene)?;
            Ok(resized)
        });
        if let Some(Some(size)) = resized {
            self.order(KeeperOrder::Resize(size));
        }
    }

    /// Lets the keeper write what it still has, after the last run.
    async fn finish_keeper(&mut self, reports: &mut Reports) {
        if self.keeper.send(KeeperOrder::Finish).is_err() {
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

    /// Says it on the screen when the training waits for somebody to type.
    fn look_for_prompt(&mut self, now: Moment) {
        let (Some(screen), Some(run)) = (&mut self.screen, self.state.run()) else {
            return;
        };
        let waits = self.prompt.look(now, || prompt::reads_terminal(run.pid));
        if waits != screen.view.output.awaits_input() {
            screen.view.output.set_awaits_input(waits);
            screen.request(Due::Now);
        }
    }

    /// Ends the session: the terminal first, then the last words, then the recording. A search has
    /// an answer instead of words, and an ending of its own.
    fn leave(mut self, ending: Ending) -> Option<Ending> {
        let tail = self
            .screen
            .take()
            .or_else(|| self.parked.take())
            .map(Screen::leave);
        self.recorder.finish(RECORDING_PATIENCE);
        if let Some(fitting) = &self.fitting {
            let status = fit::say(fitting);
            return fitting.given_up.is_none().then_some(Ending::Code(status));
        }
        ending::say(
            &self.state,
            tail,
            &ending::Words {
                ending,
                findings: &self.findings,
                remedies: &self.remedies,
                command: &self.command,
                recording: self.recording.as_deref(),
                last_words: &self.last_words,
                at_line_start: self.last_byte == b'\n',
                session_over: self.departure == Departure::Ended,
            },
        );
        None
    }

    fn run_number(&self) -> RunNumber {
        self.state.run().map_or(RunNumber::FIRST, |run| run.number)
    }
}

async fn next_typed(typed: &mut Option<mpsc::Receiver<Typed>>) -> Option<Typed> {
    match typed {
        Some(typed) => typed.recv().await,
        None => pending().await,
    }
}

async fn sleep_until(wake: Option<Moment>, clock: Clock) {
    match wake {
        Some(wake) => tokio::time::sleep(wake.since(clock.now())).await,
        None => pending().await,
    }
}
