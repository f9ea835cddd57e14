//! What follows from a message: the session changes, and what is to be done comes back as effects. Nothing
//! is done here. There is no clock, no file, no socket, no process and no thread; the time comes with the
//! message.

mod relaunch;
mod takeover;
#[cfg(test)]
mod tests;
mod told;

use super::background_task::{TaskId, TaskResult};
use super::display::screen::Due;
use super::message::{KeeperLoss, Message, SessionEffect};
use super::output_scanners::OutputScanners;
use super::phase::{AfterRun, Departure, PhaseName, SessionPhase};
use super::policy::{OnStep, Policy};
use super::session::Session;
use super::session::summary::Summary;
use super::signals::{ReceivedSignal, SignalAction, SignalOrigin, SignalRules, name_of};
use super::{Ending, OWN_FAILURE, OnHup, report_page};
use crate::collect::probe_socket::ProbeRequest;
use crate::event::{
    Dropped, Event, EventKind, Exit, Exited, Level, Note, NoteSubject, NvmlState, SpawnFailed,
    Started, StopRequested,
};
use crate::state::RunOutcome;
use crate::supervise::{KeeperOrder, KeeperReport, OutputStream, SentSignal, StopStage};
use crate::ui;
use crate::units::{Moment, Pid, RunNumber};
use nix::libc;
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

const NO_SHELL: &str = "Ctrl-Z: no shell here could resume oomph, so it was not suspended; q, then l, leaves it and the training runs on";

const ORPHANED: &str = "the keeper process is gone; the training continues and this process follows it to its end, but `oomph attach`, `oomph stop` and `oomph logs` do not reach it any more";

/// The end of such a run if it isn't our child.
const UNKNOWN_END: &str =
    "the training has ended; its exit status is not known, for the keeper process was gone by then";

/// How this process became the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It started the session: a shell, a script or a scheduler waits for it.
    First,
    /// A person attached.
    Attached,
    /// The keeper started it, without a screen.
    Headless,
}

/// What is known of this process and its terminal before the first message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrontPlace {
    pub role: Role,
    /// There is to be a screen.
    pub has_screen: bool,
    /// A script would go on if this process ended.
    pub is_run_by_script: bool,
    /// A hang-up of the terminal concerns it: it does not run under nohup.
    pub minds_hang_up: bool,
    /// Ranks of other nodes report through files.
    pub follows_files: bool,
    /// Somebody who is elsewhere wants to be told.
    pub tells_news: bool,
}

/// The screen, as it is by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScreenState {
    /// Not yet, or not any more.
    None,
    Up,
    /// We are in the terminal's background.
    Parked,
    /// The terminal is gone for good.
    Lost,
}

/// A running session: what it knows, what it waits for, and what decides on it.
pub(crate) struct SessionController {
    pub session: Session,
    pub policy: Box<dyn Policy>,
    place: FrontPlace,
    rules: SignalRules,
    phase: SessionPhase,
    screen: ScreenState,
    scanners: OutputScanners,
    /// Processes whose probes are connected.
    speaking: BTreeSet<Pid>,
    /// Processes of the last run that do not exist any more; nothing until they were looked at, which anything else that is
    /// done at the end may delay.
    gone: Option<BTreeSet<Pid>>,
    /// Why there can't be another run with the same standard input, if so.
    input_spent: Option<String>,
    /// A request to stop the run that was ordered and has not been told of yet.
    asked_early: Option<StopRequested>,
    /// The next run's files that are being written.
    copies: Option<TaskId>,
    /// What was published about the session, and when.
    described: Option<(Moment, Summary)>,
}

/// Takes a message in, at this time; returns what is to be done, in order.
pub(crate) fn update(
    controller: &mut SessionController,
    now: Moment,
    message: Message,
) -> Vec<SessionEffect> {
    controller.session.now = now;
    controller.take(message);
    controller.session.take_effects()
}

impl SessionController {
    pub(crate) fn new(session: Session, policy: Box<dyn Policy>, place: FrontPlace) -> Self {
        let rules = session.handover.rules;
        SessionController {
            rules: match place.role {
                // Another terminal than the one that the session was started on.
                Role::Attached => SignalRules {
                    on_hup: OnHup::Keep,
                    ..rules
                },
                Role::First | Role::Headless => rules,
            },
            session,
            policy,
            place,
            phase: SessionPhase::starting(AfterRun::Decide),
            screen: ScreenState::None,
            scanners: OutputScanners::default(),
            speaking: BTreeSet::new(),
            gone: None,
            input_spent: None,
            asked_early: None,
            copies: None,
            described: None,
        }
    }

    pub(crate) fn phase(&self) -> &SessionPhase {
        &self.phase
    }

    pub(crate) fn role(&self) -> Role {
        self.place.role
    }

    /// What is to be done with a signal.
    pub(crate) fn action(&self, signal: i32, origin: SignalOrigin) -> SignalAction {
        let is_for_us = match signal {
            // On a screen it has always been the way to give that up.
            libc::SIGHUP => {
                self.place.role != Role::First || self.has_screen() || !self.phase.has_run()
            }
            // Who only watches is resumed alone.
            libc::SIGCONT => self.place.role != Role::First,
            _ => false,
        };
        match (signal, origin) {
            (libc::SIGHUP, SignalOrigin::Elsewhere) if is_for_us => {
                self.rules.action(signal, SignalOrigin::HangUp)
            }
            (libc::SIGCONT, SignalOrigin::Elsewhere) if is_for_us => SignalAction::Ignore,
            _ => self.rules.action(signal, origin),
        }
    }

    /// Whether this process stays behind as a listener: a script or scheduler that waits for it would
    /// take its exit for the end of the training. A person who detaches gets the prompt back, unless a
    /// script would continue.
    pub(crate) fn waits_behind(&self) -> bool {
        self.place.role == Role::First
            && match self.phase.name() {
                PhaseName::Leaving(Departure::Superseded) => true,
                PhaseName::Leaving(Departure::Released) => self.place.is_run_by_script,
                _ => false,
            }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Begun { events, notes } => {
                events
                    .into_iter()
                    .for_each(|what| self.session.record(what));
                self.note_all(Level::Warning, notes);
            }
            Message::TakenOver(taken) => self.take_over(*taken),
            Message::Events(events) => events.into_iter().for_each(|event| self.happened(event)),
            Message::Report(report) => self.reported(report),
            Message::Logged { bytes, at } => {
                // A program may write before its start is recorded; no event comes before that.
                let started = self.session.state.run().map_or(at, |run| run.started);
                let what = EventKind::Logged(crate::event::Logged { bytes });
                let at = at.max(started);
                self.session.apply(Event { at, what });
            }
            Message::KeeperLost(loss) => self.keeper_lost(loss),
            Message::Signal(received, origin) => self.signalled(received, origin),
            Message::Resized => self.session.push(SessionEffect::Resize),
            Message::Chosen(effect) => self.chosen(effect),
            Message::HungUp => self.hung_up(),
            Message::TookLeave => self.quit(false),
            Message::Done((id, result)) => self.done(id, result),
            Message::Gone(pids) => self.gone.get_or_insert_default().extend(pids),
            Message::HeardOut => self.phase.heard_out(),
            Message::Note(level, words) => self.session.note(level, words),
            Message::Say(words) => {
                self.session.note(Level::Warning, words.clone());
                self.session.push(SessionEffect::Say(words));
            }
            Message::Moved(runtime) => {
                self.session.handover.runtime = runtime;
                self.session.hand_over();
            }
            Message::ScreenEntered => {
                self.screen = ScreenState::Up;
                self.session.order(KeeperOrder::ScreenShown(true));
                self.session.push(SessionEffect::Draw(Due::Now));
            }
            Message::ScreenParked => {
                self.screen = ScreenState::Parked;
                self.session.order(KeeperOrder::ScreenShown(false));
            }
            Message::NoShell => self.session.note(Level::Info, NO_SHELL),
            Message::ScreenFailed(why) => self.lose_screen(&why),
            Message::Resume(status) => self.enter_stage(&status),
            Message::Finishing => self.session.read_source(),
            Message::Tick => self.tick(),
        }
    }

    /// What follows from the passing of time, and from what the last messages have changed.
    fn tick(&mut self) {
        self.session.look_around();
        self.settle();
        self.decide_when_known();
        self.prove();
        self.pass_gate();
        self.end_what_nobody_sees();
        self.tell_news();
        self.describe();
    }

    fn note_all(&mut self, level: Level, notes: Vec<String>) {
        for text in notes {
            self.session.note(level, text);
        }
    }

    fn done(&mut self, id: TaskId, result: Option<TaskResult>) {
        match self.session.done(id, result) {
            Some(TaskResult::Report(words)) => self.session.push(SessionEffect::Told(words)),
            Some(TaskResult::Copies(written)) if self.copies.take_if(|of| *of == id).is_some() => {
                self.copied(written);
            }
            None if self.copies.take_if(|of| *of == id).is_some() => self.copied(Err(
                "cannot write the edited copy (the system gives no thread); not relaunched".into(),
            )),
            other => self.scheduler_answered(id, other),
        }
    }

    /// Applies an event of a probe or of NVML, and passes it to the parts that it concerns.
    fn happened(&mut self, event: Event) {
        let event = self.session.apply(event);
        match &event.what {
            EventKind::Device(reading) => self.phase.read(event.at, reading),
            EventKind::Nvml(NvmlState::Unavailable { .. } | NvmlState::Stale) => {
                self.phase.lose_nvml();
            }
            EventKind::Step(step) => match self.policy.on_step(&self.session.state) {
                OnStep::Hint => self.session.hint(step.count),
                OnStep::Nothing => {}
                OnStep::Stop(why) => {
                    self.measured(&why);
                    self.session.order(KeeperOrder::Stop);
                }
            },
            EventKind::StepTrace(_) => self.session.hint_soon(),
            EventKind::Hello(hello) => {
                self.speaking.insert(hello.pid);
                // From here on the baselines are final.
                self.session.hand_over();
            }
            EventKind::Called(_) | EventKind::Patch(_) => {
                if let Some(why) = self.session.change_without_effect() {
                    self.session.note(Level::Warning, why.clone());
                    self.session.push(SessionEffect::Say(why));
                    self.session.order(KeeperOrder::Stop);
                } else if let Some(words) = self.session.edit_not_made() {
                    self.session.note(Level::Warning, words.clone());
                    self.session.push(SessionEffect::Say(words));
                }
            }
            EventKind::ProbeGone(gone) => drop(self.speaking.remove(&gone.pid)),
            _ => {}
        }
    }

    /// Reports what a policy does unasked: in the recording and, if `aloud`, on standard error.
    fn announce(&mut self, words: &str, aloud: bool) {
        match self.policy.name() {
            Some(name) => {
                self.session.note(Level::Info, format!("{name}: {words}"));
                if aloud {
                    self.session.push(SessionEffect::Say(words.to_string()));
                }
            }
            None => self.session.note(Level::Info, words),
        }
    }

    /// The run has shown enough: what ends it is no failure.
    fn measured(&mut self, why: &str) {
        let name = self
            .policy
            .name()
            .map_or(String::new(), |name| format!("{name}: "));
        self.session.record(EventKind::Note(Note {
            about: Some(NoteSubject::Measured),
            ..Note::new(Level::Info, format!("{name}{why}"))
        }));
    }

    fn reported(&mut self, report: KeeperReport) {
        match report {
            KeeperReport::Started {
                run,
                pid,
                start_time,
                streams,
            } => {
                self.session.push(SessionEffect::Hold {
                    run,
                    trainer: pid,
                    start_time,
                    streams,
                });
                self.phase.started();
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
                let failed = SpawnFailed {
                    run,
                    errno,
                    path,
                    reason,
                };
                self.not_started(failed, status);
            }
            KeeperReport::Output { stream, bytes } => self.output(stream, bytes),
            KeeperReport::Gap { bytes } => self.session.record(EventKind::Dropped(Dropped {
                output: bytes,
                ..Dropped::default()
            })),
            KeeperReport::Unlogged { bytes } => self.session.record(EventKind::Dropped(Dropped {
                unlogged: bytes,
                ..Dropped::default()
            })),
            KeeperReport::Exited { run, exit, left } => self.exited(Exited { run, exit, left }),
            KeeperReport::Swept { left } => self.swept(&left),
            KeeperReport::InputSpent { reason } => self.input_spent = Some(reason),
            KeeperReport::Stopping { rung, within } => {
                self.session.wait_for(stopping(rung, within))
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
                self.session.push(SessionEffect::SayLast(words));
                self.session.push(SessionEffect::GiveUpStuckReaders);
            }
            KeeperReport::Superseded => self.superseded(),
            KeeperReport::StopAsked { kill } => self.stop_asked(kill),
            KeeperReport::Signalled(sent) => self.forward(sent),
            // The time of what was logged is worked out where it is received.
            KeeperReport::Logged { .. } => {}
            // Handled when we attach.
            KeeperReport::Welcome(_) | KeeperReport::Recent(_) => {}
            // Awaited at the end of the session.
            KeeperReport::Stays | KeeperReport::Finished => {}
        }
    }

    fn record_started(&mut self, run: RunNumber, pid: Pid) {
        let (remedies, predicted_peak) = self.session.handover.chosen.clone();
        self.session.record(EventKind::Started(Started {
            run,
            pid,
            command: self.session.command().without_secrets(),
            remedies,
            predicted_peak,
            prediction: self.session.handover.prediction.clone(),
            numerics: self.session.handover.numerics,
        }));
        if let Some(stop) = self.asked_early.take() {
            self.session.record(EventKind::StopRequested(stop));
        }
    }

    fn output(&mut self, stream: OutputStream, bytes: Vec<u8>) {
        let at = self.session.now;
        self.session.heard(&bytes);
        let found = self.scanners.feed(stream, &bytes, at);
        self.session.push(SessionEffect::Output { stream, bytes });
        for what in found {
            self.session.apply(Event { at, what });
        }
    }

    /// The end is applied once the run has settled, after the last events of its probes.
    fn exited(&mut self, exited: Exited) {
        self.session.push(SessionEffect::ForgetPrompt);
        self.session.push(SessionEffect::LookAtHost);
        let at = self.session.now;
        for what in self.scanners.finish(at) {
            self.session.apply(Event { at, what });
        }
        self.gone = None;
        self.phase.exited(exited, at);
    }

    fn keeper_lost(&mut self, loss: KeeperLoss) {
        let leave = Ending::Code(OWN_FAILURE);
        match loss {
            KeeperLoss::RunGoesOn => {
                self.session.note(Level::Warning, ORPHANED);
                self.session.push(SessionEffect::Say(ORPHANED.into()));
                self.phase.end_with_run();
            }
            KeeperLoss::EndUnknown => {
                self.session.note(Level::Warning, UNKNOWN_END);
                self.session.push(SessionEffect::Say(UNKNOWN_END.into()));
                self.phase.leave(leave, Departure::Ended);
            }
            KeeperLoss::WithTerminal => {
                let words = "the keeper process is gone, so the kernel hangs up the training's terminal, \
                             which ends most programs; what is left after 45 s is ended";
                self.session.push(SessionEffect::SayLast(words.into()));
                self.session.note(Level::Warning, words);
                self.phase.leave(leave, Departure::Ended);
            }
            KeeperLoss::NothingRan => {
                let last = self.phase.last_exit();
                let words = match last {
                    Some(_) => "the keeper process is gone, so this session ends",
                    None => "the keeper process is gone; the program was not started",
                };
                self.session.push(SessionEffect::SayLast(words.into()));
                self.session.note(Level::Warning, words);
                self.phase
                    .leave(last.map_or(leave, Ending::Like), Departure::Ended);
            }
        }
    }

    /// Carries on with what a key means.
    fn chosen(&mut self, effect: ui::Effect) {
        match effect {
            ui::Effect::Interrupt => {
                self.stop_requested(Signal::SIGINT, true);
                self.session.order(KeeperOrder::Interrupt);
                self.session
                    .wait_for("stopping: Ctrl-C sent to the training; torchrun may take 30 s");
            }
            ui::Effect::Stop => {
                self.stop_requested(Signal::SIGTERM, true);
                self.session.order(KeeperOrder::Stop);
                self.session.wait_for("stopping");
            }
            ui::Effect::Kill => {
                self.stop_requested(Signal::SIGKILL, true);
                self.session.order(KeeperOrder::Kill);
            }
            ui::Effect::Quit { stop_training } => {
                self.ended_by_hand();
                self.quit(stop_training);
            }
            ui::Effect::Foresee(command) => self.session.foresee(command),
            ui::Effect::Relaunch { remedies, command } => self.relaunch(&remedies, command),
            ui::Effect::Input(bytes) => self.session.order(KeeperOrder::Input(bytes)),
            ui::Effect::Suspend => self.session.push(SessionEffect::Suspend),
            ui::Effect::EditSource { file, line } => {
                self.session.push(SessionEffect::EditSource { file, line });
            }
            ui::Effect::LookForRetainers(pid) => self
                .session
                .push(SessionEffect::AskProbe(pid, ProbeRequest::Retainers)),
            ui::Effect::TraceNext(pid) => self
                .session
                .push(SessionEffect::AskProbe(pid, ProbeRequest::Trace)),
            ui::Effect::SaveSnapshot(pid) => {
                let directory = self.snapshot_directory();
                let request = ProbeRequest::Snapshot { directory };
                self.session.push(SessionEffect::AskProbe(pid, request));
            }
            ui::Effect::WriteReport => self.write_report(),
            // Only in a replay.
            ui::Effect::Replay(_) => {}
            ui::Effect::Copy(_) | ui::Effect::Redraw => {
                self.session.push(SessionEffect::OnScreen(effect));
            }
        }
        self.session.push(SessionEffect::Draw(Due::Now));
    }

    fn write_report(&mut self) {
        let Some(recording) = self.session.recording().map(Path::to_path_buf) else {
            return self
                .session
                .push(SessionEffect::Told(report_page::NOT_RECORDED.into()));
        };
        let directory = self.session.command().cwd.clone();
        let write = move || TaskResult::Report(report_page::write(&recording, &directory));
        self.session.begin("report", write);
    }

    /// Where `--snapshot` says, or beside the recording, or where the command runs.
    fn snapshot_directory(&self) -> PathBuf {
        let handover = &self.session.handover;
        let given = handover
            .config
            .snapshot
            .as_ref()
            .map(|word| Path::new(&word.0));
        let recorded = handover.recording().and_then(Path::parent);
        let directory = given.or(recorded);
        directory.unwrap_or(&handover.config.command.cwd).to_owned()
    }

    fn quit(&mut self, stop_training: bool) {
        match self.phase.name() {
            PhaseName::Starting | PhaseName::Running if stop_training => {
                self.phase.end_with_run();
                self.chosen(ui::Effect::Stop);
            }
            _ if self.phase.has_run() => self.detach(),
            _ => drop(self.phase.end_with_run()),
        }
    }

    fn stop_requested(&mut self, signal: Signal, from_keyboard: bool) {
        if from_keyboard {
            self.ended_by_hand();
        }
        let stop = StopRequested {
            signal: signal as i32,
            from_keyboard,
        };
        match self.phase.name() {
            // Recorded now, it would be of the run before.
            PhaseName::Starting => drop(self.asked_early.get_or_insert(stop)),
            _ => self.session.record(EventKind::StopRequested(stop)),
        }
    }

    fn signalled(&mut self, received: ReceivedSignal, origin: SignalOrigin) {
        let signal = received.sent.number();
        match self.action(signal, origin) {
            SignalAction::DropScreen => self.lose_screen("the terminal hung up"),
            SignalAction::Stop => self.stop_with_terminal(),
            SignalAction::Ignore => self.session.note(
                Level::Info,
                format!("{} was not passed on to the training", name_of(signal)),
            ),
            // A signal to an attached front ends only that front.
            SignalAction::Forward
                if self.place.role == Role::Attached && ends_a_program(signal) =>
            {
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
    fn hung_up(&mut self) {
        match self.rules.hung_up() {
            // Under nohup a lost terminal doesn't matter.
            SignalAction::Stop if self.place.minds_hang_up => self.stop_with_terminal(),
            _ => self.lose_screen("the terminal is gone"),
        }
    }

    /// `--on-hup=stop`: stops the run, or ends the session if there is none.
    fn stop_with_terminal(&mut self) {
        self.lose_screen("the terminal hung up");
        let has_run = self.phase.has_run();
        self.phase.end_with_run();
        if has_run {
            self.stop_requested(Signal::SIGHUP, false);
            self.session.order(KeeperOrder::Stop);
        }
    }

    /// Passes a signal on to the run; without a run, what would end a program ends the session.
    fn forward(&mut self, sent: SentSignal) {
        let signal = sent.number();
        if self.phase.has_run() {
            if let Some(request) = request_to_end(signal) {
                self.stop_requested(request, false);
            }
            self.session.order(KeeperOrder::Forward(sent));
        } else if ends_a_program(signal) {
            // It was sent to the run as well, which was faster: to the process group, say.
            if let Some(request) = request_to_end(signal)
                && self.phase.exit().is_some_and(|exit| exit.is_by(signal))
            {
                self.stop_requested(request, false);
            }
            self.phase.end_with_run();
        }
    }

    /// A caller asked for the session to end; the keeper has already signalled the run.
    fn stop_asked(&mut self, kill: bool) {
        let signal = match kill {
            true => Signal::SIGKILL,
            false => Signal::SIGTERM,
        };
        self.stop_requested(signal, false);
        self.ended_by_hand();
        self.session.wait_for("stopping (oomph stop)");
        self.phase.end_with_run();
    }

    /// The user leaves, and the training continues.
    fn detach(&mut self) {
        if self.phase.leaving().is_some() {
            return;
        }
        let id = self.session.id();
        let log = match self.session.recording() {
            Some(_) => "; `oomph logs` shows its output",
            None => "",
        };
        let words = format!("detached; training continues: `oomph attach {id}` comes back{log}");
        self.depart(Departure::Released, words);
    }

    /// Another front takes over.
    fn superseded(&mut self) {
        let words = format!(
            "another `oomph attach` has taken over; `oomph attach {}` brings the session back here",
            self.session.id()
        );
        self.depart(Departure::Superseded, words);
    }

    /// The session continues without this process.
    fn depart(&mut self, departure: Departure, words: String) {
        self.session.push(SessionEffect::SayLast(words));
        self.phase.leave(Ending::Code(0), departure);
        if self.waits_behind() {
            let words = "this command ends when the training does, with its exit status; Ctrl-C ends it now, not the training";
            self.session.push(SessionEffect::SayLast(words.into()));
        }
    }

    /// Takes the terminal, once there is a run to show.
    fn enter_screen(&mut self) {
        if self.place.has_screen && self.screen == ScreenState::None {
            self.session.push(SessionEffect::EnterScreen);
        }
    }

    fn has_screen(&self) -> bool {
        matches!(self.screen, ScreenState::Up | ScreenState::Parked)
    }

    /// Continues without a screen; then nobody can answer a dialog here.
    fn lose_screen(&mut self, why: &str) {
        if self.place.role == Role::Attached {
            // The person who attached is gone; a front without a screen takes over in another process.
            self.screen = ScreenState::None;
            self.session.push(SessionEffect::LeaveScreen);
            return self.detach();
        }
        if self.screen == ScreenState::Lost {
            return;
        }
        self.screen = ScreenState::Lost;
        self.session.push(SessionEffect::LoseScreen);
        self.session.note(
            Level::Warning,
            format!("{why}; continuing without a screen"),
        );
        if let (PhaseName::Asking, Some(exit)) = (self.phase.name(), self.phase.ended()) {
            match self.can_wait() {
                true => self.say_that_it_waits(),
                false => drop(self.phase.leave(Ending::Like(exit), Departure::Ended)),
            }
        }
    }

    /// Whether a dialog can wait for an answer: somebody sees it, or can attach.
    fn can_wait(&self) -> bool {
        self.has_screen() || self.session.handover.runtime.is_some()
    }

    /// Prints how to attach to a dialog that nobody sees.
    fn say_that_it_waits(&mut self) {
        let run = self.session.state.run();
        let is_held = self.policy.holds_the_screen()
            && run.is_none_or(|run| run.outcome() != RunOutcome::OutOfMemory);
        if self.has_screen() || is_held {
            return;
        }
        let id = self.session.id();
        let line = format!(
            "oomph: out of memory; nothing runs until you choose, and the GPU's memory is free: `oomph attach {id}` to relaunch, `oomph stop {id}` to end the session\n"
        );
        self.session.push(SessionEffect::SayThatItWaits(line));
    }

    /// A last screen that was held has no use once it is gone, unless a decision is awaited.
    fn end_what_nobody_sees(&mut self) {
        if self.has_screen() || !self.policy.holds_the_screen() {
            return;
        }
        let run = self.session.state.run();
        let is_over = run.is_some_and(|run| run.outcome() != RunOutcome::OutOfMemory);
        if self.phase.name() == PhaseName::Asking && is_over {
            self.quit(false);
        }
    }

    /// The user ends the current run, or the session: they need not be told.
    fn ended_by_hand(&mut self) {
        let run = self.session.run_number();
        self.session.handover.told.ended_by_hand(run);
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
        libc::SIGUSR1 | libc::SIGUSR2 | libc::SIGURG | libc::SIGWINCH | libc::SIGCONT
    )
}

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
