//! The session goes on without this front: the user has left, or another front has taken over. What
//! the next one needs is in the recording and in the keeper's hands before we go.

use super::{Departure, Front, RECORDING_PATIENCE, Role};
use crate::app::mode::Mode;
use crate::app::phase::{After, Phase};
use crate::app::signals::{Answer, Signals, descends_from};
use crate::app::summary::{self, Summary};
use crate::app::{Ending, OWN_FAILURE};
use crate::supervise::{self, Call, KeeperOrder, KeeperReport, Reports};
use crate::units::Moment;
use nix::sys::signal::Signal;
use std::io::Write;
use std::time::Duration;

/// How long the keeper may take to take our last order.
const LAST_ORDER: Duration = Duration::from_secs(1);

/// How often others are told of figures that have changed. How the session stands they are told at
/// once.
const FIGURES: Duration = Duration::from_secs(2);

impl Front {
    /// The user leaves, and the training goes on.
    pub(super) fn detach(&mut self) {
        if self.departure != Departure::Ended || matches!(self.phase, Phase::Leaving(_)) {
            return;
        }
        let log = self
            .recording
            .as_ref()
            .map(|_| "; oomph logs shows its output");
        self.last_words.push(format!(
            "the session goes on without a screen: `oomph attach {}` brings it back{}",
            self.memory.header.id,
            log.unwrap_or_default()
        ));
        self.departure = Departure::Released;
        self.phase = Phase::Leaving(Ending::Code(0));
    }

    /// Another front has come.
    pub(super) fn superseded(&mut self) {
        if !self.waits_behind_another() {
            self.last_words.push(format!(
                "another `oomph attach` has taken over; `oomph attach {}` brings the session back here",
                self.memory.header.id
            ));
        }
        self.departure = Departure::Superseded;
        self.phase = Phase::Leaving(Ending::Code(0));
    }

    /// A script or a scheduler waits for this process, and would take its end for the training's.
    fn waits_behind_another(&self) -> bool {
        self.role == Role::First && matches!(self.mode, Mode::Headless(_))
    }

    /// Whether this process goes on behind the front that has taken over.
    pub(super) fn waits_behind(&self) -> bool {
        self.departure == Departure::Superseded && self.waits_behind_another()
    }

    /// Gives the session out of our hands: the recording whole first, for the next front appends.
    pub(super) async fn hand_over(&mut self) {
        self.recorder.finish(RECORDING_PATIENCE);
        self.remember();
        self.order(match self.waits_behind() {
            true => KeeperOrder::StepBack,
            false => KeeperOrder::Release,
        });
        self.keeper.flush(LAST_ORDER).await;
    }

    /// Tells the keeper what the next front must know.
    pub(super) fn remember(&mut self) {
        self.memory.command = self.command.clone();
        self.memory.baselines = self.baselines.clone();
        let text = self.memory.text();
        self.order(KeeperOrder::Remember(text));
    }

    /// Tells the keeper what others may know, if that has changed.
    pub(super) fn describe(&mut self, now: Moment) {
        let activity = match &self.phase {
            Phase::Starting => summary::Standing::Starting,
            Phase::Running { .. } if self.waiting.is_some() => summary::Standing::Stopping,
            Phase::Running { .. } => summary::Standing::Running,
            Phase::Asking { .. } => summary::Standing::Waiting,
            Phase::Sweeping { .. } | Phase::Gating { .. } => summary::Standing::Relaunching,
            Phase::Settling { .. } | Phase::Leaving(_) => summary::Standing::Ending,
        };
        let attached = self.screen.is_some();
        let said = self.described.as_ref();
        let same = said.is_some_and(|(at, said)| {
            (said.standing, said.attached) == (activity, attached) && now < *at + FIGURES
        });
        if same {
            return;
        }
        let summary = Summary::of(&self.state, activity, attached);
        if said.is_none_or(|(_, said)| *said != summary) {
            self.order(KeeperOrder::Describe(summary.text()));
        }
        self.described = Some((now, summary));
    }

    /// Whether a dialog can wait: somebody sees it, or can come to see it.
    pub(super) fn can_wait(&self) -> bool {
        self.screen.is_some() || self.parked.is_some() || self.memory.runtime.is_some()
    }

    /// Where a dialog waits that nobody sees, it is said how to come to it.
    pub(super) fn say_that_it_waits(&mut self) {
        if self.screen.is_some() || self.parked.is_some() {
            return;
        }
        let id = &self.memory.header.id;
        let line = format!(
            "oomph: memory ran out, and the session waits, the GPU's memory free: `oomph attach {id}` to relaunch, `oomph stop {id}` to end it\n"
        );
        match self.mode {
            Mode::Headless(_) => {
                let _ = std::io::stderr().lock().write_all(line.as_bytes());
            }
            Mode::Screen => self.print_plain(line.as_bytes()),
        }
    }

    /// Somebody asked for the session to end; the keeper has begun with the run.
    pub(super) fn stop_asked(&mut self, kill: bool) {
        let signal = match kill {
            true => Signal::SIGKILL,
            false => Signal::SIGTERM,
        };
        self.stop_requested(signal, false);
        self.stop_asked = true;
        self.waiting = Some("stopping (oomph stop)".into());
        match &mut self.phase {
            Phase::Running { after } | Phase::Settling { after, .. } => *after = After::Leave,
            Phase::Asking { exit, .. }
            | Phase::Sweeping { exit, .. }
            | Phase::Gating { exit, .. } => {
                self.phase = Phase::Leaving(Ending::Like(*exit));
            }
            Phase::Starting | Phase::Leaving(_) => {}
        }
    }
}

/// Waits for the end of a session that another front follows, passing signals on to it; how to end.
pub(super) async fn wait_behind(front: Front, mut reports: Reports, signals: Signals) -> Ending {
    let socket = front.memory.directories().keeper_socket();
    let mut ending = Ending::Code(OWN_FAILURE);
    let mut training = front.state.run().map(|run| run.pid);
    loop {
        tokio::select! {
            report = reports.next() => match report {
                Some(KeeperReport::Started { pid, .. }) => training = Some(pid),
                Some(KeeperReport::Exited { exit, .. }) => ending = Ending::Like(exit),
                Some(KeeperReport::SpawnFailed { status, .. }) => ending = Ending::Code(status),
                Some(KeeperReport::Finished) => return ending,
                Some(_) => {}
                None => {
                    eprintln!("oomph: the keeper process is gone; the kernel hangs up the training's terminal");
                    return Ending::Code(OWN_FAILURE);
                }
            },
            Ok(arrived) = signals.next() => {
                let from_training = arrived
                    .sender
                    .zip(training)
                    .is_some_and(|(sender, training)| descends_from(sender, &[training]));
                match (front.rules.answer(arrived.signal, from_training), &socket) {
                    (Answer::Forward, Some(socket)) => {
                        let _ = supervise::pass_on(socket, Call::Forward(arrived.signal as i32));
                    }
                    (Answer::Stop, Some(socket)) => {
                        let _ = supervise::pass_on(socket, Call::Stop);
                    }
                    (Answer::Forward | Answer::Stop, None)
                    | (Answer::DropScreen | Answer::Resize | Answer::Ignore, _) => {}
                }
            }
        }
    }
}
