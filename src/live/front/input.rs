//! Requests from outside: keys, a terminal that hangs up, signals, `oomph stop`.

use super::Front;
use crate::collect::probe_socket::ProbeRequest;
use crate::command::CommandLine;
use crate::event::{EventKind, Level, StopRequested};
use crate::live::display::screen::{Due, terminal_size};
use crate::live::link::{AfterRun, Role, SessionPhase};
use crate::live::signals::{ReceivedSignal, SignalAction, descends_from, name_of};
use crate::remedy::RemedyId;
use crate::supervise::{self, KeeperOrder, Sender, SentSignal};
use crate::ui::Effect;
use crossterm::event::Event as TerminalEvent;
use nix::libc;
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};

impl Front {
    pub(super) fn typed(&mut self, event: TerminalEvent) {
        self.session.advance(self.session.clock.now());
        let asked = match self.link.phase() {
            SessionPhase::Asking { since, .. } => Some(*since),
            _ => None,
        };
        if let Some(effect) = self.display.typed(event, &self.session, asked) {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Interrupt => {
                self.stop_requested(Signal::SIGINT, true);
                self.link.order(KeeperOrder::Interrupt);
                self.display
                    .wait_for("stopping: Ctrl-C sent to the training; torchrun may take 30 s");
            }
            Effect::Stop => {
                self.stop_requested(Signal::SIGTERM, true);
                self.link.order(KeeperOrder::Stop);
                self.display.wait_for("stopping");
            }
            Effect::Kill => {
                self.stop_requested(Signal::SIGKILL, true);
                self.link.order(KeeperOrder::Kill);
            }
            Effect::Quit { stop_training } => {
                self.ended_by_hand();
                self.quit(stop_training);
            }
            Effect::Relaunch { remedies, command } => self.relaunch(&remedies, command),
            Effect::Input(bytes) => self.link.order(KeeperOrder::Input(bytes)),
            Effect::Suspend => self.suspend(),
            Effect::LookForRetainers(pid) => self.link.requests.ask(pid, ProbeRequest::Retainers),
            Effect::SaveSnapshot(pid) => {
                let directory = self.snapshot_directory();
                let request = ProbeRequest::Snapshot { directory };
                self.link.requests.ask(pid, request);
            }
            // Only in a replay.
            Effect::Replay(_) => {}
            Effect::Copy(_) | Effect::Redraw | Effect::CaptureMouse(_) => {
                if let Err(error) = self.display.carry_out(&effect) {
                    self.screen_failed(&error);
                }
            }
        }
        self.display.request(Due::Now);
    }

    /// Where `--snapshot` says, or beside the recording, or where the command runs.
    fn snapshot_directory(&self) -> PathBuf {
        let handover = &self.session.handover;
        let given = handover.snapshot.as_ref().map(|word| Path::new(&word.0));
        let recorded = handover.recording().and_then(Path::parent);
        let directory = given.or(recorded);
        directory.unwrap_or(&handover.command.cwd).to_owned()
    }

    /// The user chose the next run: it starts now, or once the current one has stopped.
    fn relaunch(&mut self, ids: &[RemedyId], edited: Option<CommandLine>) {
        let next = self.session.next_run(ids, edited);
        match self.link.phase() {
            SessionPhase::Asking { exit, .. } => {
                let exit = *exit;
                self.sweep(exit, next);
            }
            // The run isn't stopped for a relaunch that can't be.
            SessionPhase::Running { .. } if self.link.input_spent.is_some() => {
                let spent = self.link.input_spent.clone().unwrap_or_default();
                self.session.note(Level::Warning, spent.clone());
                self.display.wait_for(spent);
            }
            SessionPhase::Running { .. } => {
                self.link.follow_with(AfterRun::Relaunch(Box::new(next)));
                self.stop_requested(Signal::SIGTERM, true);
                self.link.order(KeeperOrder::Stop);
            }
            SessionPhase::Settling { .. } => {
                self.link.follow_with(AfterRun::Relaunch(Box::new(next)));
            }
            SessionPhase::Starting
            | SessionPhase::Sweeping { .. }
            | SessionPhase::Proving { .. }
            | SessionPhase::Gating { .. }
            | SessionPhase::Leaving(_) => {}
        }
    }

    pub(super) fn quit(&mut self, stop_training: bool) {
        match self.link.phase() {
            SessionPhase::Running { .. } if stop_training => {
                self.link.end_with_run();
                self.carry_out(Effect::Stop);
            }
            phase if phase.has_run() => self.detach(),
            _ => self.link.end_with_run(),
        }
    }

    fn stop_requested(&mut self, signal: Signal, from_keyboard: bool) {
        if from_keyboard {
            self.ended_by_hand();
        }
        self.session.record(EventKind::StopRequested(StopRequested {
            signal: signal as i32,
            from_keyboard,
        }));
    }

    pub(super) fn signalled(&mut self, received: ReceivedSignal) {
        if received.is_of_the_terminal() {
            return self.resize();
        }
        // All of the training is below the keeper, including orphans, since it is a subreaper.
        let keeper = self.link.keeper.pid();
        let signal = received.sent.number();
        let from_training = match received.sender {
            Sender::Process(sender) => sender != keeper && descends_from(sender, &[keeper]),
            Sender::Kernel => false,
        };
        match self.link.rules.action(signal, from_training) {
            SignalAction::DropScreen => self.lose_screen("the terminal hung up"),
            SignalAction::Stop => self.stop_with_terminal(),
            SignalAction::Ignore => self.session.note(
                Level::Info,
                format!("{} was not passed on to the training", name_of(signal)),
            ),
            // A signal to an attached front ends only that front.
            SignalAction::Forward if self.link.role == Role::Attached && ends_a_program(signal) => {
                self.detach();
            }
            SignalAction::Forward => {
                // The kernel sends it for Ctrl-C.
                if received.is_from_keyboard() && received.is(Signal::SIGINT) {
                    self.ended_by_hand();
                }
                self.forward(received.sent);
            }
        }
    }

    /// The terminal is gone, with or without a SIGHUP.
    pub(super) fn hung_up(&mut self) {
        // Under nohup a lost terminal doesn't matter.
        let minds = !supervise::inherited().is_ignored(Signal::SIGHUP as i32);
        match self.link.rules.hung_up() {
            SignalAction::Stop if minds => self.stop_with_terminal(),
            _ => self.lose_screen("the terminal is gone"),
        }
    }

    /// `--on-hup=stop`: stops the run, or ends the session if there is none.
    fn stop_with_terminal(&mut self) {
        self.lose_screen("the terminal hung up");
        let has_run = self.link.phase().has_run();
        self.link.end_with_run();
        if has_run {
            self.stop_requested(Signal::SIGHUP, false);
            self.link.order(KeeperOrder::Stop);
        }
    }

    /// Passes a signal on to the run; without a run, what would end a program ends the session.
    pub(super) fn forward(&mut self, sent: SentSignal) {
        let signal = sent.number();
        if self.link.phase().has_run() {
            if let Some(request) = request_to_end(signal) {
                self.stop_requested(request, false);
            }
            self.link.order(KeeperOrder::Forward(sent));
        } else if ends_a_program(signal) {
            self.link.end_with_run();
        }
    }

    /// A caller asked for the session to end; the keeper has already signalled the run.
    pub(super) fn stop_asked(&mut self, kill: bool) {
        let signal = match kill {
            true => Signal::SIGKILL,
            false => Signal::SIGTERM,
        };
        self.stop_requested(signal, false);
        self.ended_by_hand();
        self.link.stop_asked = true;
        self.display.wait_for("stopping (oomph stop)");
        self.link.end_with_run();
    }

    /// The terminal's size has changed. With a screen the next frame adapts and resizes the program's
    /// terminal.
    fn resize(&mut self) {
        self.display.resized();
        if !self.display.is_up()
            && let Some(size) = terminal_size()
        {
            self.link.order(KeeperOrder::Resize(size));
        }
    }
}

/// The signal, if it is a request to end.
fn request_to_end(number: i32) -> Option<Signal> {
    let requests = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT];
    requests
        .into_iter()
        .find(|request| *request as i32 == number)
}

/// Whether a signal would end a program that does not expect it. USR1 and USR2 are news for a training,
/// and a dialog is not ended by them.
fn ends_a_program(number: i32) -> bool {
    !matches!(
        number,
        libc::SIGUSR1 | libc::SIGUSR2 | libc::SIGURG | libc::SIGWINCH
    )
}
