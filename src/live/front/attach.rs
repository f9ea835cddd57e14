//! Attach to a running session: replay the recording, mark the gap, then apply the keeper's status.

use super::run::run;
use super::setup::SessionGuard;
use super::{EVENTS, Front, Sources, setup, spool};
use crate::collect::probe_socket::{self, ProbeRequests};
use crate::config;
use crate::event::{Clock, Event, EventKind, Exited, Level, NvmlState, ProbeGone};
use crate::live::Ending;
use crate::live::display::Display;
use crate::live::display::mode::{self, Mode, Reason, Surface};
use crate::live::display::screen::Due;
use crate::live::display::theme;
use crate::live::link::{Link, ProbeSetup, Role, SessionPhase};
use crate::live::news::Messenger;
use crate::live::policy;
use crate::live::session::{HandoverState, Session, SessionInputs};
use crate::live::signals::Signals;
use crate::recording::{self, Recorder, RecorderOptions};
use crate::state::State;
use crate::supervise::{
    self, HeadlessFront, Keeper, KeeperOrder, KeeperReport, Reports, RunStage, RunStatus,
    SessionStatus,
};
use crate::units::{Moment, Pid};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long the keeper may take to make us the front: longer than a front may take to make way.
const WELCOME_WITHIN: Duration = Duration::from_secs(20);

/// Why a front takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A person attached; whether NVML is to be asked.
    Attached {
        /// Unless the user says not to.
        nvml: bool,
    },
    /// The keeper started us.
    Headless(HeadlessFront),
}

/// Becomes the front of the keeper that `connect` reaches, until the session ends or continues without
/// us.
///
/// # Errors
/// Why that failed.
pub(crate) async fn take_over(
    arrival: Arrival,
    connect: impl FnOnce() -> anyhow::Result<(Keeper, Reports)>,
) -> anyhow::Result<Ending> {
    // Before any thread is started: threads inherit the mask.
    let signals = Signals::take(|signal| supervise::inherited().is_ignored(signal))?;
    let mode = match arrival {
        Arrival::Headless(_) => Mode::Headless(Reason::Asked),
        Arrival::Attached { .. } => mode::choose(false, &Surface::of_this_process()),
    };
    if let (Arrival::Attached { .. }, Mode::Headless(reason)) = (arrival, mode) {
        bail!(
            "attach needs a terminal ({}); `oomph logs -f` follows the output",
            reason.words()
        );
    }
    let (keeper, mut reports) = connect()?;
    let (status, recent) = tokio::time::timeout(WELCOME_WITHIN, welcome(&mut reports))
        .await
        .context("the session's keeper does not answer; it may be stopped")??;
    let handover = (status.memory.as_deref())
        .and_then(|text| HandoverState::read(text).ok())
        .context("the session was started by another version of oomph; attach with that one")?;
    let (front, sources, guard) = settle_in(Welcomed {
        arrival,
        mode,
        keeper,
        reports,
        signals,
        handover,
        status,
        recent,
    });
    run(front, sources, guard).await
}

/// The keeper's first two reports.
async fn welcome(reports: &mut Reports) -> anyhow::Result<(SessionStatus, Vec<u8>)> {
    let Some(KeeperReport::Welcome(status)) = reports.next().await else {
        bail!("the session has just ended, or another `oomph attach` was faster");
    };
    let Some(KeeperReport::Recent(recent)) = reports.next().await else {
        bail!("the session has just ended");
    };
    Ok((status, recent))
}

struct Welcomed {
    arrival: Arrival,
    mode: Mode,
    keeper: Keeper,
    reports: Reports,
    signals: Signals,
    handover: HandoverState,
    status: SessionStatus,
    recent: Vec<u8>,
}

fn settle_in(place: Welcomed) -> (Front, Sources, SessionGuard) {
    let handover = place.handover;
    let clock = Clock::with_origin(handover.header.monotonic);
    let mut notes = Vec::new();
    let state = handover
        .recording()
        .and_then(|path| replayed(path, &mut notes));
    let recorded = state.is_some();
    let recorder = match handover.recording().filter(|_| recorded) {
        Some(path) => Recorder::resume(path, RecorderOptions::default()).unwrap_or_else(|error| {
            notes.push(format!("{error:#}; the session is no longer recorded"));
            Recorder::off()
        }),
        None => Recorder::off(),
    };
    let directories = handover.directories();
    let requests = ProbeRequests::default();
    let (events_in, events) = mpsc::channel(EVENTS);
    if let Some(path) = directories.probe_socket().filter(|_| handover.probe) {
        match probe_socket::take_over(&path) {
            Ok(listener) => {
                let serve =
                    probe_socket::serve(listener, clock, requests.clone(), events_in.clone());
                tokio::spawn(serve);
            }
            Err(error) => notes.push(format!("the probes cannot reach this front: {error}")),
        }
    }
    let asks_nvml = handover.header.nvml
        && match place.arrival {
            Arrival::Attached { nvml } => nvml,
            Arrival::Headless(HeadlessFront::Follows) => true,
            // The previous front may have crashed in the driver's library.
            Arrival::Headless(HeadlessFront::Replaces) => false,
        };
    let nvml = asks_nvml.then(|| setup::watch_nvml(handover.interval, clock, events_in.clone()));
    let settings = config::read(&handover.command.cwd);
    let (inputs, problems) = SessionInputs::again(handover.surroundings.clone(), &settings);
    notes.extend(problems);
    let (messenger, problem) = Messenger::new(handover.alert, &settings, handover.scaled);
    notes.extend(problem);
    let role = match place.arrival {
        Arrival::Attached { .. } => Role::Attached,
        Arrival::Headless(_) => Role::Headless,
    };
    let environment = ProbeSetup::found(&handover);
    let shared = handover.spool.as_ref().map(|word| PathBuf::from(&word.0));
    let has_person = place.mode == Mode::Screen || handover.began_on_screen;
    let mut front = Front {
        display: Display::new(place.mode, theme::chosen(None, &settings).0),
        link: Link::new(role, place.keeper, environment, requests, &handover),
        policy: policy::chosen(handover.on_oom, has_person, &handover.auto),
        spool: spool::watch(&handover, clock, &events_in),
        session: Session::new(clock, recorder, inputs, handover),
        messenger,
        events: events_in,
        looked: clock.now(),
        socket_seen: false,
        unreachable: false,
    };
    match state {
        Some(state) => front.session.state = state,
        None => {
            let at = Moment::ZERO;
            let what = EventKind::SessionStarted(front.session.handover.header.clone());
            front.session.state.apply(&Event { at, what });
        }
    }
    front.mark_gap(asks_nvml);
    front.session.note(
        Level::Info,
        match place.arrival {
            Arrival::Attached { .. } => "a screen was attached",
            Arrival::Headless(HeadlessFront::Follows) => "the session continues without a screen",
            Arrival::Headless(HeadlessFront::Replaces) => {
                "the front was lost; the session continues without a screen and without NVML"
            }
        },
    );
    for text in notes {
        front.session.note(Level::Warning, text);
    }
    front.catch_up(&place.status, place.recent);
    let sources = Sources {
        reports: place.reports,
        events,
        signals: place.signals,
    };
    let guard = SessionGuard {
        _nvml: nvml,
        presence: front.tell_elsewhere(),
        spool: shared,
        directories,
        released: false,
    };
    (front, sources, guard)
}

/// Replays the recording; `None` if it can't be read.
fn replayed(path: &Path, notes: &mut Vec<String>) -> Option<State> {
    match recording::read(path) {
        Ok(events) => {
            let mut state = State::default();
            events.flatten().for_each(|event| state.apply(&event));
            state.session.is_some().then_some(state)
        }
        Err(error) => {
            notes.push(format!("the session's history is unavailable: {error}"));
            None
        }
    }
}

impl Front {
    /// Marks the gap between the previous front's last event and now.
    fn mark_gap(&mut self, asks_nvml: bool) {
        let at = self.session.state.now;
        let speaking = (self.session.state.runs.iter())
            .flat_map(|run| &run.ranks)
            .filter(|rank| rank.disconnected.is_none())
            .map(|rank| rank.hello.pid);
        // The files of other nodes are read on from where the previous front stopped.
        let (gone, elsewhere): (Vec<Pid>, Vec<Pid>) = speaking.partition(|pid| pid.is_here());
        self.link.speaking.extend(elsewhere);
        let gone = gone.into_iter().map(|pid| {
            EventKind::ProbeGone(ProbeGone {
                pid,
                reason: None,
                said_end: false,
            })
        });
        // NVML's first state follows, if it is read.
        let nvml = match (asks_nvml, &self.session.state.nvml) {
            (_, Some(NvmlState::Off)) => None,
            (true, _) => Some(NvmlState::Stale),
            (false, _) => Some(NvmlState::Unavailable {
                reason: "off until somebody attaches, because the front was lost".into(),
            }),
        };
        for what in gone.chain(nvml.map(EventKind::Nvml)) {
            self.happened(Event { at, what });
        }
    }

    /// Applies the keeper's status.
    fn catch_up(&mut self, status: &SessionStatus, recent: Vec<u8>) {
        let state = &self.session.state;
        let known = (status.run.as_ref()).and_then(|run| state.run_numbered(run.run));
        let over = matches!(
            status.run,
            Some(RunStatus {
                stage: RunStage::Ended { .. },
                ..
            })
        );
        // Output that nobody has scanned: the run ended while there was no front, or the recording is
        // incomplete.
        let unread = known.is_none_or(|run| over && run.ended.is_none());
        if let (Some(run), None) = (&status.run, known) {
            let pid = match run.stage {
                RunStage::Running { pid, .. } => pid,
                RunStage::Starting | RunStage::Ended { .. } | RunStage::Failed { .. } => {
                    Pid::default()
                }
            };
            self.record_started(run.run, pid);
        }
        // Scan it in any case: what follows may be the second half of a line.
        let run = self.session.state.run();
        let latest_epoch = run.and_then(|run| run.epochs.latest());
        let found = self.link.scanners.catch_up(&recent, latest_epoch);
        for what in found.into_iter().filter(|_| unread) {
            self.session.record(what);
        }
        self.link.stop_asked = status.stopping;
        self.link.input_spent.clone_from(&status.input_spent);
        // The screen first: what follows depends on whether somebody sees it.
        self.enter_screen();
        if let Some(size) = self.display.show_recent(recent) {
            self.link.order(KeeperOrder::Resize(size));
        }
        self.enter_stage(status);
        self.display.request(Due::Now);
    }

    /// Enters the phase of the keeper's run, unless we have already lost the terminal and are leaving.
    fn enter_stage(&mut self, status: &SessionStatus) {
        let Some(run) = &status.run else {
            return;
        };
        match &run.stage {
            RunStage::Starting => {}
            RunStage::Running {
                pid,
                start_time,
                streams,
            } => {
                self.link.hold(run.run, *pid, *start_time, streams);
                self.link.enter_running();
            }
            RunStage::Failed { status } => self.link.leave(Ending::Code(*status)),
            RunStage::Ended { exit, left } => {
                let now = self.session.clock.now();
                let known = self.session.state.run_numbered(run.run);
                if known.is_none_or(|run| run.ended.is_none()) {
                    let (run, exit, left) = (run.run, *exit, left.clone());
                    self.link.enter_settling(Exited { run, exit, left }, now);
                } else if !matches!(self.link.phase(), SessionPhase::Leaving(_)) {
                    let then = self.link.then();
                    self.conclude(*exit, then, now);
                }
            }
        }
    }
}
