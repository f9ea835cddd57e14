//! A front goes on where another one has stopped: the gap is marked, and the keeper's status is applied to
//! what the recording says.

use super::SessionController;
use crate::event::{Event, EventKind, Exited, Level, NvmlState, ProbeGone};
use crate::live::Ending;
use crate::live::display::screen::Due;
use crate::live::message::{SessionEffect, TakenOver};
use crate::live::phase::{AfterRun, Departure};
use crate::supervise::{RunStage, RunStatus, SessionStatus};
use crate::units::Pid;

impl SessionController {
    /// Goes on where another front has stopped.
    pub(super) fn take_over(&mut self, taken: TakenOver) {
        self.session.resume_undone();
        self.mark_gap(taken.asks_nvml);
        self.session.note(Level::Info, taken.words);
        self.note_all(Level::Warning, taken.notes);
        self.catch_up(taken.status, taken.recent);
    }

    /// Marks the gap between the previous front's last event and now.
    fn mark_gap(&mut self, asks_nvml: bool) {
        let at = self.session.state.now;
        let speaking = (self.session.state.runs.iter())
            .flat_map(|run| &run.ranks)
            .filter(|rank| rank.disconnected.is_none())
            .map(|rank| rank.hello.pid);
        // The files of other nodes are read on from where the previous front stopped.
        let (gone, elsewhere): (Vec<Pid>, Vec<Pid>) = speaking.partition(|pid| pid.is_here());
        self.speaking.extend(elsewhere);
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

    /// Takes in what the keeper knows.
    fn catch_up(&mut self, status: SessionStatus, recent: Vec<u8>) {
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
        let losses = run.map_or(&[][..], |run| &run.printed_losses);
        let found = self.scanners.catch_up(&recent, latest_epoch, losses);
        for what in found.into_iter().filter(|_| unread) {
            self.session.record(what);
        }
        if status.stopping {
            self.phase.follow_with(AfterRun::Leave);
        }
        self.input_spent.clone_from(&status.input_spent);
        // The screen first: what follows depends on whether somebody sees it.
        self.enter_screen();
        self.session.push(SessionEffect::ShowRecent(recent));
        self.session.push(SessionEffect::Resume(status));
    }

    /// Enters the phase of the keeper's run, unless we have already lost the terminal and are leaving.
    pub(super) fn enter_stage(&mut self, status: &SessionStatus) {
        self.session.push(SessionEffect::Draw(Due::Now));
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
                self.session.push(SessionEffect::Hold {
                    run: run.run,
                    trainer: *pid,
                    start_time: *start_time,
                    streams: streams.clone(),
                });
                self.phase.started();
            }
            RunStage::Failed { status } => {
                self.phase.leave(Ending::Code(*status), Departure::Ended);
            }
            RunStage::Ended { exit, left } => {
                let known = self.session.state.run_numbered(run.run);
                if known.is_none_or(|run| run.ended.is_none()) {
                    let (run, exit, left) = (run.run, *exit, left.clone());
                    let exited = Exited { run, exit, left };
                    // Who was killed is known by what has ended, whenever the count was seen.
                    self.session.push(SessionEffect::LookAtHost);
                    self.phase.exited(exited, self.session.now);
                } else if let Some(then) = self.phase.found_ended(*exit, self.session.now) {
                    self.conclude(*exit, then);
                }
            }
        }
    }
}
