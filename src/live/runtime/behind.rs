//! The session continues without this front: the user has detached, or another front has taken over. What
//! the next one needs is in the recording and with the keeper before this one exits. A front that a script
//! waits for stays behind, to exit as the session does.

use super::Runtime;
use crate::event::Exit;
use crate::live::message::{Inbox, SessionEffect};
use crate::live::signals::{SignalAction, descends_from};
use crate::live::{Ending, OWN_FAILURE, print};
use crate::recording::{self, BaseDirs};
use crate::supervise::{self, Call, KeeperOrder, KeeperReport};
use nix::sys::signal::Signal;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// How long the keeper may take to read our last order.
const LAST_ORDER: Duration = Duration::from_secs(1);

impl Runtime {
    /// Hands the session over. The recording is flushed first, because the next front appends to it.
    pub(super) async fn hand_over(&mut self, inbox: &mut Inbox) {
        self.finish_recording(inbox).await;
        let text = self.session().handover.text();
        self.order(KeeperOrder::Remember(text));
        self.order(match self.controller.waits_behind() {
            true => KeeperOrder::StepBack,
            false => KeeperOrder::Release,
        });
        self.keeper.flush(LAST_ORDER).await;
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

    /// Waits for the end of a session that another front has taken over, and passes on signals. Returns
    /// how to exit.
    pub(super) async fn wait_behind(mut self, inbox: Inbox) -> Ending {
        // Its probes and its NVML are another's by now.
        let (mut reports, signals) = inbox.stay_behind();
        let socket = self.session().handover.directories().keeper_socket();
        let mut ending = Ending::Code(OWN_FAILURE);
        let mut training = self.session().state.run().map(|run| run.pid);
        let had_screen = self.give_terminal_back();
        loop {
            tokio::select! {
                report = reports.next() => match report {
                    Some(KeeperReport::Started { run, pid, start_time, streams }) => {
                        let now = self.clock.now();
                        let hold = SessionEffect::Hold { run, trainer: pid, start_time, streams };
                        self.carry_out(hold, now);
                        training = Some(pid);
                    }
                    Some(KeeperReport::Exited { exit, .. }) => ending = Ending::Like(exit),
                    Some(KeeperReport::SpawnFailed { status, .. }) => ending = Ending::Code(status),
                    Some(KeeperReport::Finished) => return ending,
                    Some(_) => {}
                    None => match self.keeper_lost() {
                        Some(standing_in) => reports = standing_in,
                        None => return Ending::Code(OWN_FAILURE),
                    },
                },
                Ok(received) = signals.next() => {
                    if received.is_of_the_terminal() || received.is_wake_up(self.keeper.pid()) {
                        continue;
                    }
                    if had_screen && received.is_from_keyboard() && received.is(Signal::SIGINT) {
                        return Ending::Like(Exit::Signal(Signal::SIGINT as i32));
                    }
                    let origin = received.origin(|sender| {
                        training.is_some_and(|training| descends_from(sender, &[training]))
                    });
                    let socket = socket.as_deref().filter(|_| !self.loss.is_orphaned);
                    let action = self.controller.action(received.sent.number(), origin);
                    match (action, socket) {
                        (SignalAction::Forward, Some(socket)) => {
                            pass_on(socket, self.session().id(), Call::Forward(received.sent));
                        }
                        (SignalAction::Stop, Some(socket)) => {
                            pass_on(socket, self.session().id(), Call::Stop);
                        }
                        (SignalAction::Forward, None) => {
                            self.order(KeeperOrder::Forward(received.sent));
                        }
                        (SignalAction::Stop, None) => drop(self.order(KeeperOrder::Stop)),
                        (SignalAction::DropScreen | SignalAction::Ignore, _) => {}
                    }
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
    let found = recording::find(&BaseDirs::of_this_user());
    if let Some(found) = found.iter().find(|found| found.id == id) {
        // It can't be reached.
        let _ = supervise::pass_on(&found.socket(), what);
    }
}
