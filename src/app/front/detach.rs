//! The session goes on without this front: the user has left, or another front has taken over. What
//! the next one needs is in the recording and in the keeper's hands before we go.

use super::Front;
use crate::app::display::mode::Mode;
use crate::app::link::{Departure, Role, SessionPhase};
use crate::app::print;
use crate::app::signals::{SignalAction, Signals, descends_from};
use crate::app::{Ending, OWN_FAILURE};
use crate::event::Exit;
use crate::session::{self, BaseDirs};
use crate::state::RunOutcome;
use crate::supervise::{self, Call, KeeperOrder, KeeperReport, Reports};
use nix::sys::signal::Signal;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// How long the keeper may take to take our last order.
const LAST_ORDER: Duration = Duration::from_secs(1);

impl Front {
    /// The user leaves, and the training continues.
    pub(super) fn detach(&mut self) {
        if matches!(self.link.phase(), SessionPhase::Leaving(_)) {
            return;
        }
        let id = self.session.id();
        let log = match self.session.recording() {
            Some(_) => "; `oomph logs` shows its output",
            None => "",
        };
        let words = format!("detached; training continues: `oomph attach {id}` comes back{log}");
        self.display.say_last(words);
        self.link.depart(Departure::Released);
        self.say_that_we_wait();
    }

    /// Another front has come.
    pub(super) fn superseded(&mut self) {
        self.display.say_last(format!(
            "another `oomph attach` has taken over; `oomph attach {}` brings the session back here",
            self.session.id()
        ));
        self.link.depart(Departure::Superseded);
        self.say_that_we_wait();
    }

    fn say_that_we_wait(&mut self) {
        if self.waits_behind() {
            self.display.say_last(
                "this command ends when the training does, with its exit status; Ctrl-C ends it now, not the training",
            );
        }
    }

    /// Whether this process goes on behind whatever follows the session now: who waits for it (a
    /// script, a scheduler, the next turn of a loop) would take its end for the training's. A person
    /// who leaves on purpose gets the prompt back, unless a script would.
    pub(super) fn waits_behind(&self) -> bool {
        self.link.role == Role::First
            && match self.link.departure {
                Departure::Superseded => true,
                Departure::Released => is_run_by_script(),
                Departure::Ended => false,
            }
    }

    /// Gives the session out of our hands: the recording whole first, for the next front appends.
    pub(super) async fn hand_over(&mut self) {
        self.session.finish_recording();
        self.link.hand_over(&self.session.handover);
        self.link.order(match self.waits_behind() {
            true => KeeperOrder::StepBack,
            false => KeeperOrder::Release,
        });
        self.link.flush(LAST_ORDER).await;
    }

    /// Leaves the screen, where there is one, and says what there is to say there.
    fn give_terminal_back(&mut self) -> bool {
        let Some(rows) = self.display.leave() else {
            return false;
        };
        let mut text = rows;
        for line in self.display.last_words() {
            text.extend(format!("oomph: {}\n", print::line(line)).bytes());
        }
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(&text).and_then(|()| out.flush());
        true
    }

    /// Whether a dialog can wait: somebody sees it, or can attach to see it.
    pub(super) fn can_wait(&self) -> bool {
        self.display.has_screen() || self.session.handover.runtime.is_some()
    }

    /// Where a dialog waits that nobody sees, it is said how to get to it.
    pub(super) fn say_that_it_waits(&mut self) {
        let run = self.session.state.run();
        let is_held = self.policy.holds_the_screen()
            && run.is_none_or(|run| run.outcome() != RunOutcome::OutOfMemory);
        if self.display.has_screen() || is_held {
            return;
        }
        let id = self.session.id();
        let line = format!(
            "oomph: out of memory; nothing runs until you choose, and the GPU's memory is free: `oomph attach {id}` to relaunch, `oomph stop {id}` to end the session\n"
        );
        match self.display.mode {
            Mode::Headless(_) => {
                let _ = print::err().write_all(line.as_bytes());
            }
            Mode::Screen => self.display.print_plain(line.as_bytes()),
        }
    }
}

/// Whether a script runs us. A shell at its prompt gives every command a process group of its own;
/// a script's commands are in the script's.
fn is_run_by_script() -> bool {
    nix::unistd::getpgrp() != nix::unistd::getpid()
}

/// Waits for the end of a session that another front follows, passing signals on to it; how to end.
pub(super) async fn wait_behind(
    mut front: Front,
    mut reports: Reports,
    signals: Signals,
) -> Ending {
    let socket = front.session.handover.directories().keeper_socket();
    let mut ending = Ending::Code(OWN_FAILURE);
    let mut training = front.session.state.run().map(|run| run.pid);
    let had_screen = front.give_terminal_back();
    loop {
        tokio::select! {
            report = reports.next() => match report {
                Some(KeeperReport::Started { run, pid, start_time, streams }) => {
                    front.link.hold(run, pid, start_time, &streams);
                    training = Some(pid);
                }
                Some(KeeperReport::Exited { exit, .. }) => ending = Ending::Like(exit),
                Some(KeeperReport::SpawnFailed { status, .. }) => ending = Ending::Code(status),
                Some(KeeperReport::Finished) => return ending,
                Some(_) => {}
                None => match front.keeper_lost() {
                    Some(standing_in) => reports = standing_in,
                    None => return Ending::Code(OWN_FAILURE),
                },
            },
            Ok(received) = signals.next() => {
                let from_keyboard = received.sender.is_none();
                if had_screen && from_keyboard && received.signal == Signal::SIGINT {
                    return Ending::Like(Exit::Signal(Signal::SIGINT as i32));
                }
                let from_training = received
                    .sender
                    .zip(training)
                    .is_some_and(|(sender, training)| descends_from(sender, &[training]));
                let socket = socket.as_deref().filter(|_| !front.link.is_orphaned());
                match (front.link.rules.action(received.signal, from_training), socket) {
                    (SignalAction::Forward, Some(socket)) => {
                        pass_on(socket, front.session.id(), Call::Forward(received.signal as i32));
                    }
                    (SignalAction::Stop, Some(socket)) => {
                        pass_on(socket, front.session.id(), Call::Stop);
                    }
                    (SignalAction::Forward, None) => {
                        front.link.order(KeeperOrder::Forward(received.signal as i32));
                    }
                    (SignalAction::Stop, None) => front.link.order(KeeperOrder::Stop),
                    (SignalAction::DropScreen | SignalAction::Resize | SignalAction::Ignore, _) => {}
                }
            }
        }
    }
}

/// Says something to the session's keeper, wherever it listens by now.
fn pass_on(socket: &Path, id: &str, what: Call) {
    if supervise::pass_on(socket, what).is_ok() {
        return;
    }
    let found = session::find(&BaseDirs::of_this_user());
    if let Some(found) = found.iter().find(|found| found.id == id) {
        // Nobody there either: then nobody can be told.
        let _ = supervise::pass_on(&found.socket(), what);
    }
}
