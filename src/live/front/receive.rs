//! Handles the keeper's reports.

use super::Front;
use crate::event::{Dropped, Event, EventKind, Exit, Exited, Level, Logged, SpawnFailed, Started};
use crate::live::link::SessionPhase;
use crate::live::{Ending, OWN_FAILURE, print};
use crate::supervise::{KeeperOrder, KeeperReport, OutputStream, Reports, StopStage};
use crate::units::{Pid, RunNumber};
use std::time::Duration;

impl Front {
    pub(super) fn reported(&mut self, report: KeeperReport) {
        match report {
            KeeperReport::Started {
                run,
                pid,
                start_time,
                streams,
            } => {
                self.link.hold(run, pid, start_time, &streams);
                self.link.enter_running();
                self.record_started(run, pid);
                self.enter_screen();
            }
            KeeperReport::SpawnFailed {
                run,
                errno,
                path,
                reason,
                status,
            } => {
                self.display.say_last(reason.clone());
                self.session.record(EventKind::SpawnFailed(SpawnFailed {
                    run,
                    errno,
                    path,
                    reason,
                }));
                self.link.leave(Ending::Code(status));
            }
            KeeperReport::Output { stream, bytes } => self.output(stream, &bytes),
            KeeperReport::Gap { bytes } => self.session.record(EventKind::Dropped(Dropped {
                output: bytes,
                ..Dropped::default()
            })),
            KeeperReport::Unlogged { bytes } => self.session.record(EventKind::Dropped(Dropped {
                unlogged: bytes,
                ..Dropped::default()
            })),
            KeeperReport::Logged { bytes, monotonic } => {
                let at = self.session.clock.at_monotonic_ns(monotonic * 1_000);
                // A program may write before its start is recorded; no event comes before that.
                let started = self.session.state.run().map_or(at, |run| run.started);
                let at = at.max(started);
                let what = EventKind::Logged(Logged { bytes });
                self.session.apply(&Event { at, what });
            }
            KeeperReport::Exited { run, exit, left } => self.exited(Exited { run, exit, left }),
            KeeperReport::Swept { left } => self.swept(&left),
            KeeperReport::InputSpent { reason } => self.link.input_spent = Some(reason),
            KeeperReport::Stopping { rung, within } => {
                self.display.wait_for(stopping(rung, within))
            }
            KeeperReport::Suspended { signal } => self.session.note(
                Level::Info,
                format!("the training was stopped by {}", Exit::Signal(signal)),
            ),
            KeeperReport::Resumed => self
                .session
                .note(Level::Info, "the training continues after a stop"),
            KeeperReport::Note(text) => self.session.note(Level::Warning, text),
            KeeperReport::Undelivered { bytes } => {
                let words = format!(
                    "{} bytes of output were not delivered: nobody read them until the training was to have ended; `oomph logs {}` has them",
                    bytes.0,
                    self.session.id()
                );
                self.session.note(Level::Warning, words.clone());
                self.display.say_last(words);
                print::give_up_stuck_readers();
            }
            KeeperReport::Superseded => self.superseded(),
            KeeperReport::StopAsked { kill } => self.stop_asked(kill),
            KeeperReport::Signalled(sent) => self.forward(sent),
            // Handled when we attach.
            KeeperReport::Welcome(_) | KeeperReport::Recent(_) => {}
            // Awaited at the end of the session.
            KeeperReport::Finished => {}
        }
    }

    pub(super) fn record_started(&mut self, run: RunNumber, pid: Pid) {
        let (remedies, predicted_peak) = self.session.handover.chosen.clone();
        self.session.record(EventKind::Started(Started {
            run,
            pid,
            command: self.session.command().without_secrets(),
            remedies,
            predicted_peak,
            prediction: self.session.handover.prediction.clone(),
        }));
    }

    fn output(&mut self, stream: OutputStream, bytes: &[u8]) {
        let at = self.session.clock.now();
        self.session.heard(bytes);
        let found = self.link.scanners.feed(stream, bytes, at);
        let answers = self.display.output(stream, bytes, at);
        if !answers.is_empty() {
            self.link.order(KeeperOrder::Input(answers));
        }
        for what in found {
            self.session.apply(&Event { at, what });
        }
    }

    /// The end is applied once the run has settled, after the last events of its probes.
    fn exited(&mut self, exited: Exited) {
        self.display.prompt.forget();
        let at = self.session.clock.now();
        for what in self.link.scanners.finish(at) {
            self.session.apply(&Event { at, what });
        }
        self.link.enter_settling(exited, at);
    }

    /// The keeper is gone or has closed the connection. If the run continues without it, returns the
    /// reports of a stand-in.
    pub(super) fn keeper_lost(&mut self) -> Option<Reports> {
        if self.link.orphaned {
            self.session.note(Level::Warning, UNKNOWN_END);
            self.display.say(UNKNOWN_END.into());
            self.link.leave(Ending::Code(OWN_FAILURE));
            return None;
        }
        if let Some(reports) = self.link.stand_in(self.session.handover.scaled) {
            self.session.note(Level::Warning, ORPHANED);
            self.display.say(ORPHANED.into());
            self.link.end_with_run();
            return Some(reports);
        }
        let words = "the keeper process is gone, so the kernel hangs up the training's terminal, \
                     which ends most programs; what is left after 45 s is ended";
        self.display.say_last(words);
        self.link.keeper_lost = true;
        self.session.note(Level::Warning, words);
        self.link
            .enter(SessionPhase::Leaving(Ending::Code(OWN_FAILURE)));
        None
    }
}

pub(super) const ORPHANED: &str = "the keeper process is gone; the training continues and this process follows it to its end, but `oomph attach`, `oomph stop` and `oomph logs` do not reach it any more";

/// The end of such a run if it isn't our child.
pub(super) const UNKNOWN_END: &str =
    "the training has ended; its exit status is not known, for the keeper process was gone by then";

/// The stage of a stop, in words.
fn stopping(rung: StopStage, within: Duration) -> String {
    let next = within.as_secs();
    match rung {
        StopStage::Asked => format!(
            "stopping: SIGTERM sent (torchrun may take 30 s); SIGTERM to the process tree in {next} s"
        ),
        StopStage::TreeAsked => {
            format!("stopping: SIGTERM sent to the process tree; SIGKILL in {next} s")
        }
        StopStage::Killed => "stopping: SIGKILL sent".into(),
    }
}
