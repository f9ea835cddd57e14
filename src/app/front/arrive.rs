//! In the place of a front before: what the recording tells is folded, what it missed is told apart
//! as a gap, what the keeper says of the run goes before both.

use super::start::{self, Kept, Parts};
use super::{Departure, EVENTS, Front, Role, Sources, conduct};
use crate::app::Ending;
use crate::app::known::Known;
use crate::app::launch::Surround;
use crate::app::memory::Memory;
use crate::app::mode::{self, Mode, Reason, Surface};
use crate::app::phase::{After, Phase};
use crate::app::screen::Due;
use crate::app::signals::Signals;
use crate::app::theme;
use crate::collect::probe_socket;
use crate::config;
use crate::epoch;
use crate::event::{Clock, Event, Exited, Level, NvmlState, ProbeGone, Started, What};
use crate::session::{self, Recorder, RecorderOptions};
use crate::state::State;
use crate::supervise::{
    self, HeadlessFront, Keeper, KeeperOrder, KeeperReport, Reports, RunStage, RunStatus,
    SessionStatus, Size,
};
use crate::units::{Moment, Pid};
use anyhow::{Context, bail};
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long the keeper may take to give us the place: longer than a front may take to make way.
const WELCOME_WITHIN: Duration = Duration::from_secs(20);

/// What of the recent output begins in the middle of a line, and perhaps of an escape sequence, is
/// left out of the picture where there is this much.
const WHOLE_LINES_FROM: usize = 32 << 10;

/// How a front comes into another's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// A person attached; whether NVML is to be asked.
    Attached {
        /// Unless the user says not to.
        nvml: bool,
    },
    /// The keeper started us.
    Headless(HeadlessFront),
}

/// Takes the front's place at the keeper that `connect` leads to, and keeps it until the session ends
/// or goes on without us.
///
/// # Errors
/// Why the place could not be had.
pub async fn take_over(
    arrival: Arrival,
    connect: impl FnOnce() -> anyhow::Result<(Keeper, Reports)>,
) -> anyhow::Result<Ending> {
    // Before any thread is there: threads inherit the mask.
    let signals = Signals::take(|signal| supervise::inherited().is_ignored(signal as i32))?;
    let mode = match arrival {
        Arrival::Headless(_) => Mode::Headless(Reason::Asked),
        Arrival::Attached { .. } => mode::choose(false, &Surface::of_this_process()),
    };
    if let (Arrival::Attached { .. }, Mode::Headless(reason)) = (arrival, mode) {
        bail!(
            "attach draws on a terminal, and here is none to draw on ({}); `oomph logs -f` follows the output",
            reason.words()
        );
    }
    let (keeper, mut reports) = connect()?;
    let (status, recent) = tokio::time::timeout(WELCOME_WITHIN, welcome(&mut reports))
        .await
        .context("the session's keeper does not answer; it may be stopped")??;
    let memory = (status.memory.as_deref())
        .and_then(|text| Memory::read(text).ok())
        .context("the session was started by another version of oomph; attach with that one")?;
    let (front, sources, kept) = settle_in(Place {
        arrival,
        mode,
        keeper,
        reports,
        signals,
        memory,
        status,
        recent,
    });
    conduct(front, sources, kept).await
}

/// The keeper's first two reports.
async fn welcome(reports: &mut Reports) -> anyhow::Result<(SessionStatus, Vec<u8>)> {
    let Some(KeeperReport::Welcome(status)) = reports.next().await else {
        bail!("the session has just ended, or another `oomph attach` was quicker");
    };
    let Some(KeeperReport::Recent(recent)) = reports.next().await else {
        bail!("the session has just ended");
    };
    Ok((status, recent))
}

/// All that the keeper gave us, and what we brought.
struct Place {
    arrival: Arrival,
    mode: Mode,
    keeper: Keeper,
    reports: Reports,
    signals: Signals,
    memory: Memory,
    status: SessionStatus,
    recent: Vec<u8>,
}

fn settle_in(place: Place) -> (Front, Sources, Kept) {
    let memory = place.memory;
    let clock = Clock::with_origin(memory.header.monotonic);
    let mut notes = Vec::new();
    let state = memory
        .recording()
        .and_then(|path| replayed(path, &mut notes));
    let recorded = state.is_some();
    let recorder = match memory.recording().filter(|_| recorded) {
        Some(path) => Recorder::resume(path, RecorderOptions::default()).unwrap_or_else(|error| {
            notes.push(format!("{error:#}; the session is not recorded any more"));
            Recorder::off()
        }),
        None => Recorder::off(),
    };
    let directories = memory.directories();
    let (events_in, events) = mpsc::channel(EVENTS);
    if let Some(path) = directories.probe_socket().filter(|_| memory.probe) {
        match probe_socket::take_over(&path) {
            Ok(listener) => {
                tokio::spawn(probe_socket::serve(listener, clock, events_in.clone()));
            }
            Err(error) => notes.push(format!("the probes cannot reach this front: {error}")),
        }
    }
    let asks_nvml = memory.header.nvml
        && match place.arrival {
            Arrival::Attached { nvml } => nvml,
            Arrival::Headless(HeadlessFront::Follows) => true,
            // A driver's library may be what the front before died of.
            Arrival::Headless(HeadlessFront::Replaces) => false,
        };
    let nvml = asks_nvml.then(|| start::watch_nvml(memory.interval, clock, events_in));
    let settings = config::read(&memory.command.cwd);
    let (known, problems) = Known::again(memory.surroundings.clone(), &settings);
    notes.extend(problems);
    let mut front = Front::of(Parts {
        role: match place.arrival {
            Arrival::Attached { .. } => Role::Attached,
            Arrival::Headless(_) => Role::Headless,
        },
        mode: place.mode,
        clock,
        recorder,
        keeper: place.keeper,
        command: memory.command.clone(),
        surround: Surround::found(&memory),
        known,
        theme: theme::chosen(None, &settings).0,
        memory,
    });
    match state {
        Some(state) => front.state = state,
        None => {
            let at = Moment::ZERO;
            let what = What::SessionStarted(front.memory.header.clone());
            front.state.apply(&Event { at, what });
        }
    }
    front.mark_gap(asks_nvml);
    front.note(
        Level::Info,
        match place.arrival {
            Arrival::Attached { .. } => "a screen was attached",
            Arrival::Headless(HeadlessFront::Follows) => "the session goes on without a screen",
            Arrival::Headless(HeadlessFront::Replaces) => {
                "the front was lost; the session goes on without a screen and without NVML"
            }
        },
    );
    for text in notes {
        front.note(Level::Warning, text);
    }
    front.catch_up(&place.status, place.recent);
    let sources = Sources {
        reports: place.reports,
        events,
        signals: place.signals,
    };
    let kept = Kept {
        _nvml: nvml,
        directories,
        released: false,
    };
    (front, sources, kept)
}

/// What the recording tells; `None` where there is nothing that can be read.
fn replayed(path: &Path, notes: &mut Vec<String>) -> Option<State> {
    match session::read(path) {
        Ok(events) => {
            let mut state = State::default();
            events.flatten().for_each(|event| state.apply(&event));
            state.session.is_some().then_some(state)
        }
        Err(error) => {
            notes.push(format!("what happened before is not known: {error}"));
            None
        }
    }
}

impl Front {
    /// From the last that the front before saw until now nothing is known.
    fn mark_gap(&mut self, asks_nvml: bool) {
        let at = self.state.now;
        let speaking: Vec<Pid> = (self.state.runs.iter())
            .flat_map(|run| &run.ranks)
            .filter(|rank| rank.disconnected.is_none())
            .map(|rank| rank.hello.pid)
            .collect();
        let gone = speaking
            .into_iter()
            .map(|pid| What::ProbeGone(ProbeGone { pid, reason: None }));
        // NVML's own first word follows, where it is asked.
        let nvml = match (asks_nvml, &self.state.nvml) {
            (_, Some(NvmlState::Off)) => None,
            (true, _) => Some(NvmlState::Stale),
            (false, _) => Some(NvmlState::Unavailable {
                reason: "not asked until somebody attaches, for the front before was lost".into(),
            }),
        };
        for what in gone.chain(nvml.map(What::Nvml)) {
            self.happened(Event { at, what });
        }
    }

    /// Brings us to where the session stands.
    fn catch_up(&mut self, status: &SessionStatus, recent: Vec<u8>) {
        let known = (status.run.as_ref()).and_then(|run| self.state.run_numbered(run.run));
        let over = matches!(
            status.run,
            Some(RunStatus {
                stage: RunStage::Ended { .. },
                ..
            })
        );
        // What nobody has read for its words: the end came when nobody was there, or all of it was
        // not recorded.
        let unread = known.is_none_or(|run| over && run.ended.is_none());
        if let (Some(run), None) = (&status.run, known) {
            self.record(What::Started(Started {
                run: run.run,
                pid: match run.stage {
                    RunStage::Running { pid, .. } => pid,
                    RunStage::Starting | RunStage::Ended { .. } | RunStage::Failed { .. } => {
                        Pid::default()
                    }
                },
                command: self.command.without_secrets(),
                remedies: self.memory.chosen.0.clone(),
                predicted_peak: self.memory.chosen.1,
            }));
        }
        if let Some(last) = recent.last() {
            self.last_byte = *last;
        }
        // Read in any case: what follows may be the second half of a line.
        let mut found = Vec::new();
        let heard = &mut self.scanners.terminal;
        heard.ooms.feed(&recent, &mut |report| found.push(report));
        // Nobody knows when what it says of epochs was written: they are told from the next one on.
        let mut latest = self.state.run().and_then(|run| run.epochs.latest());
        heard
            .epochs
            .feed(&recent, &mut |told| latest = Some(told.number));
        self.scanners.epochs = epoch::Count::from(latest);
        for report in found.into_iter().filter(|_| unread) {
            self.record(What::OomText(report));
        }
        self.stop_asked = status.stopping;
        let after = match self.stop_asked {
            true => After::Leave,
            false => After::Decide,
        };
        let now = self.clock.now();
        // The screen first: whether somebody sees it decides what follows.
        if self.mode == Mode::Screen {
            self.begin_screen(recent);
        }
        match status.run.as_ref().map(|run| (run.run, &run.stage)) {
            None | Some((_, RunStage::Starting)) => {}
            Some((_, RunStage::Running { .. })) => self.arrive_in(Phase::Running { after }),
            Some((_, RunStage::Failed { status })) => {
                self.arrive_in(Phase::Leaving(Ending::Code(*status)));
            }
            Some((run, RunStage::Ended { exit, left })) => {
                let (exit, left) = (*exit, left.clone());
                let told = (self.state.run_numbered(run)).is_some_and(|run| run.ended.is_some());
                match told {
                    true if self.departure == Departure::Ended => self.conclude(exit, after, now),
                    true => {}
                    false => self.arrive_in(Phase::Settling {
                        exited: Exited { run, exit, left },
                        since: now,
                        after,
                    }),
                }
            }
        }
        self.request(Due::Now);
    }

    /// The session is there; unless we have lost the terminal already and are on our way out.
    fn arrive_in(&mut self, phase: Phase) {
        if self.departure == Departure::Ended {
            self.phase = phase;
        }
    }

    /// Takes the terminal, with the program's last output on it.
    fn begin_screen(&mut self, mut recent: Vec<u8>) {
        if recent.len() > WHOLE_LINES_FROM
            && let Some(end) = recent.iter().position(|byte| *byte == b'\n')
        {
            recent.drain(..=end);
        }
        self.enter_screen();
        let size = self.screen.as_mut().map(|screen| {
            // Of whatever stream it was; on a terminal's it changes nothing.
            screen.view.output.feed_untouched(&recent);
            // They were given when it was written.
            screen.view.output.take_answers();
            let (rows, cols) = screen.view.output.size();
            Size::new(rows, cols)
        });
        if let Some(size) = size {
            self.order(KeeperOrder::Resize(size));
        }
    }
}
