//! The front: receive from all sources, fold, diagnose, draw, carry effects out.
//!
//! Nothing here may end the training by failing: a screen that cannot be drawn, a recording that
//! cannot be written, a probe that cannot be reached are said and done without. What the front
//! decides is a [`Phase`]; what happens in it is spread over five files: `start` (before the
//! first run) or `arrive` (in the place of a front before), `receive` (what comes in), `relaunch`
//! (from one run to the next), `depart` (the session goes on without us).

mod arrive;
mod change;
mod depart;
mod receive;
mod relaunch;
mod start;
mod surface;

pub use arrive::{Arrival, take_over};

use super::ending;
use super::keyboard::Typed;
use super::known::Known;
use super::launch::Surround;
use super::memory::Memory;
use super::mode::Mode;
use super::phase::Phase;
use super::prompt::{self, Prompt};
use super::screen::{Around, Due, Screen};
use super::signals::{Rules, Signals};
use super::summary::Summary;
use super::tail::Tail;
use super::torch;
use super::type_ahead::TypeAhead;
use super::{Ending, OnOom, RunOptions};
use crate::command::CommandLine;
use crate::diagnosis::{self, Finding, Watch};
use crate::event::{Clock, Event, Level, Note, What};
use crate::oom::Scanner;
use crate::remedy::{Remedy, RemedyId};
use crate::session::Recorder;
use crate::state::State;
use crate::supervise::{self, Keeper, Order, Report, Reports, Timing};
use crate::ui::Theme;
use crate::units::{Bytes, Moment, Pid, RunNumber, Uuid};
use start::Kept;
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
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
    clock: Clock,
    state: State,
    findings: Vec<Finding>,
    /// What is said of a run before it fails.
    watch: Watch,
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
    Deputy,
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

/// One scanner a stream: a line of one must not complete a line of another.
#[derive(Default)]
struct Scanners {
    terminal: Scanner,
    out: Scanner,
    err: Scanner,
}

/// Where the loop hears from.
struct Sources {
    reports: Reports,
    events: mpsc::Receiver<Event>,
    signals: Signals,
}

/// Runs a session from the first launch to the end of the last run.
pub async fn run(options: RunOptions) -> anyhow::Result<Ending> {
    let (front, sources, kept) = start::start(options)?;
    conduct(front, sources, kept).await
}

/// Is the front until the session ends or goes on without it.
async fn conduct(mut front: Front, mut sources: Sources, mut kept: Kept) -> anyhow::Result<Ending> {
    let ending = front.follow(&mut sources).await;
    kept.released = front.departure != Departure::Ended;
    match front.departure {
        Departure::Ended => front.finish_keeper(&mut sources.reports).await,
        Departure::Released | Departure::Superseded => front.hand_over().await,
    }
    if front.waits_behind() {
        // The probes and NVML are the new front's.
        drop(kept);
        drop(sources.events);
        return Ok(depart::wait_behind(front, sources.reports, sources.signals).await);
    }
    let keeper_lost = front.keeper_lost;
    let timing = Timing::scaled(front.scaled);
    front.leave(ending);
    if keeper_lost {
        // What the keeper held falls to this process, a subreaper as well.
        let left = supervise::clear_up(&timing).await;
        if !left.is_empty() {
            let pids: Vec<String> = left.iter().map(Pid::to_string).collect();
            eprintln!("oomph: these could not be ended: {}", pids.join(" "));
        }
    }
    Ok(ending)
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
    fn with_around<R>(&self, look: impl FnOnce(&Around) -> R) -> R {
        let plan = |ids: &[RemedyId]| Some(self.plan(ids).command);
        look(&Around {
            state: &self.state,
            findings: &self.findings,
            remedies: &self.remedies,
            plan: &plan,
            room_for_batch: None,
            waiting: self.waiting.as_deref(),
            recording: self.recording.as_deref(),
            replay: None,
        })
    }

    /// Lets the keeper write what it still has, after the last run.
    async fn finish_keeper(&mut self, reports: &mut Reports) {
        if self.keeper.send(Order::Finish).is_err() {
            return;
        }
        let finished = async {
            while let Some(report) = reports.next().await {
                if matches!(report, Report::Finished) {
                    break;
                }
            }
        };
        // The log's disk may hang; the program's own output has gone out before `Exited`.
        let _ = tokio::time::timeout(KEEPER_PATIENCE, finished).await;
    }

    /// When the loop must look again even if nothing comes in.
    fn next_wake(&self) -> Option<Moment> {
        let phase = match &self.phase {
            Phase::Settling { .. } => Some(self.clock.now() + relaunch::SETTLING_STEP),
            Phase::Gating { .. } => Some(self.clock.now() + Duration::from_millis(100)),
            Phase::Starting | Phase::Running { .. } => None,
            Phase::Asking { .. } | Phase::Sweeping { .. } | Phase::Leaving(_) => None,
        };
        let frame = self.screen.as_ref().map(Screen::next_frame);
        let foreground = self
            .parked
            .as_ref()
            .map(|_| self.clock.now() + Duration::from_millis(500));
        let prompt = self.screen.as_ref().and(self.prompt.due());
        [phase, frame, foreground, prompt]
            .into_iter()
            .flatten()
            .min()
    }

    /// What time alone brings about.
    fn progress(&mut self) {
        let now = self.clock.now();
        while let Some(note) = self.recorder.note() {
            self.record(What::Note(note));
        }
        for note in self.watch.look(&self.state) {
            self.record(What::Note(note));
        }
        self.settle(now);
        self.pass_gate(now);
        self.take_terminal_again();
        self.look_for_prompt(now);
        self.describe(now);
    }

    /// Says it on the screen when the training waits for somebody to type.
    fn look_for_prompt(&mut self, now: Moment) {
        let (Some(screen), Some(run)) = (&mut self.screen, self.state.run()) else {
            return;
        };
        let waits = self.prompt.look(now, || prompt::reads_terminal(run.pid));
        if waits != screen.child.awaits_input() {
            screen.child.set_awaits_input(waits);
            screen.request(Due::Now);
        }
    }

    /// Ends the session: the terminal first, then the last words, then the recording.
    fn leave(mut self, ending: Ending) {
        let tail = self
            .screen
            .take()
            .or_else(|| self.parked.take())
            .map(Screen::leave);
        self.recorder.finish(RECORDING_PATIENCE);
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
