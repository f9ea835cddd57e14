//! The session continues without this front: the user has detached, or another front has taken over.
//! What the next one needs is in the recording and with the keeper before this one exits.

use super::Front;
use crate::event::Exit;
use crate::live::display::mode::Mode;
use crate::live::link::{Departure, Role, SessionPhase};
use crate::live::print;
use crate::live::signals::{SignalAction, Signals, descends_from};
use crate::live::{Ending, OWN_FAILURE};
use crate::session::{self, BaseDirs};
use crate::state::RunOutcome;
use crate::supervise::{self, Call, GroupPlace, KeeperOrder, KeeperReport, Reports, Sender};
use nix::sys::signal::Signal;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// How long the keeper may take to read our last order.
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

    /// Another front takes over.
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

    /// Whether this process stays behind as a listener: a script or scheduler that waits for it would
    /// take its exit for the end of the training. A person who detaches gets the prompt back, unless a
    /// script would continue.
    pub(super) fn waits_behind(&self) -> bool {
        self.link.role == Role::First
            && match self.link.departure {
                Departure::Superseded => true,
                Departure::Released => is_run_by_script(),
                Departure::Ended => false,
            }
    }

    /// Hands the session over. The recording is flushed first, because the next front appends to it.
    pub(super) async fn hand_over(&mut self) {
        self.session.finish_recording();
        self.link.hand_over(&self.session.handover);
        self.link.order(match self.waits_behind() {
            true => KeeperOrder::StepBack,
            false => KeeperOrder::Release,
        });
        self.link.keeper.flush(LAST_ORDER).await;
    }

    /// Leaves the screen, if there is one, and prints the last words.
    fn give_terminal_back(&mut self) -> bool {
        let Some(rows) = self.display.leave() else {
            return false;
        };
        let mut text = rows;
        for line in &self.display.last_words {
            text.extend(format!("oomph: {}\n", print::line(line)).bytes());
        }
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(&text).and_then(|()| out.flush());
        true
    }

    /// Whether a dialog can wait for an answer: somebody sees it, or can attach.
    pub(super) fn can_wait(&self) -> bool {
        self.display.has_screen() || self.session.handover.runtime.is_some()
    }

    /// Prints how to attach to a dialog that nobody sees.
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

/// Whether a script runs us. An interactive shell gives every command a process group of its own; a
/// script's commands share the script's.
fn is_run_by_script() -> bool {
    GroupPlace::of_this_process() == GroupPlace::Member
}

/// Waits for the end of a session that another front has taken over, and passes on signals. Returns
/// how to exit.
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
                if received.is_of_the_terminal() {
                    continue;
                }
                if had_screen && received.is_from_keyboard() && received.is(Signal::SIGINT) {
                    return Ending::Like(Exit::Signal(Signal::SIGINT as i32));
                }
                let from_training = match (received.sender, training) {
                    (Sender::Process(sender), Some(training)) => descends_from(sender, &[training]),
                    (Sender::Process(_) | Sender::Kernel, _) => false,
                };
                let socket = socket.as_deref().filter(|_| !front.link.orphaned);
                match (front.link.rules.action(received.sent.number(), from_training), socket) {
                    (SignalAction::Forward, Some(socket)) => {
                        pass_on(socket, front.session.id(), Call::Forward(received.sent));
                    }
                    (SignalAction::Stop, Some(socket)) => {
                        pass_on(socket, front.session.id(), Call::Stop);
                    }
                    (SignalAction::Forward, None) => {
                        front.link.order(KeeperOrder::Forward(received.sent));
                    }
                    (SignalAction::Stop, None) => front.link.order(KeeperOrder::Stop),
                    (SignalAction::DropScreen | SignalAction::Ignore, _) => {}
                }
            }
        }
    }
}

/// Calls the session's keeper, wherever it listens by now.
fn pass_on(socket: &Path, id: &str, what: Call) {
    if supervise::pass_on(socket, what).is_ok() {
        return;
    }
    let found = session::find(&BaseDirs::of_this_user());
    if let Some(found) = found.iter().find(|found| found.id == id) {
        // It can't be reached.
        let _ = supervise::pass_on(&found.socket(), what);
    }
}
