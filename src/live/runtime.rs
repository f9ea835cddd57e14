//! The loop: takes the next message, has the session updated, and carries out what follows. What decides is
//! in `update.rs`; here is what a decision takes: the keeper, the terminal, the recording, threads.
//!
//! No failure here may end the training: if the screen can't be drawn, the recording not written or the
//! probe not reached, that is reported and the rest continues.

mod behind;

use super::background_task::TaskThreads;
use super::display::Display;
use super::display::mode::Mode;
use super::display::screen::{Due, terminal_size};
use super::display::source_editor;
use super::ending::{LastWords, left_over, say, what_is_recorded};
use super::message::{Inbox, KeeperLoss, Message, Received, SessionEffect};
use super::metrics::MetricsFile;
use super::news::Messenger;
use super::phase::Departure;
use super::probe_setup::ProbeSetup;
use super::reachable::{self, ListeningPlace, Reachable};
use super::session::Session;
use super::session::leftovers::{self, Signal as LeftoverSignal};
use super::setup::SessionGuard;
use super::signals::{ReceivedSignal, descends_from, has_shell, suspend};
use super::update::{Role, SessionController, update};
use super::{Ending, print, requeue};
use crate::collect::host::HostWatch;
use crate::collect::probe_socket::{self, ProbeRequests};
use crate::collect::spool::SpoolWatch;
use crate::command::Word;
use crate::diagnosis::Finding;
use crate::event::{Clock, Event, EventKind, HostRole, Level};
use crate::recording::{Directories, Recorder};
use crate::remedy::Leftover;
use crate::report::news::{News, NewsKind, WhatFollows};
use crate::supervise::{
    self, Alarm, HeldRun, Keeper, KeeperOrder, KeeperReport, KeeperTimeouts, Launch, NoRun, Reports,
};
use crate::units::{Moment, Pid, RunNumber};
use nix::errno::Errno;
use nix::sys::signal::kill;
use std::collections::VecDeque;
use std::future::pending;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How often to look whether a shell has brought us to the foreground again.
const PARKED: Duration = Duration::from_millis(500);
/// How long the end waits for the keeper's log.
const KEEPER_PATIENCE: Duration = Duration::from_secs(1);
/// How long exiting waits for a slow disk with the recording.
const RECORDING_PATIENCE: Duration = Duration::from_secs(1);
/// For one with the program's source.
const SOURCE_PATIENCE: Duration = Duration::from_millis(300);
/// How long a session that ends waits for its remedies: they are its last words.
const REMEDIES_PATIENCE: Duration = Duration::from_secs(2);

/// A front: a session, and all that is done for it.
pub(super) struct Runtime {
    pub controller: SessionController,
    pub display: Display,
    pub clock: Clock,
    pub keeper: Keeper,
    pub environment: ProbeSetup,
    /// The way to the probes.
    pub requests: ProbeRequests,
    /// What looks at the host's memory.
    pub host: HostWatch,
    pub recorder: Recorder,
    pub metrics: Option<MetricsFile>,
    pub messenger: Messenger,
    /// What follows the ranks of other nodes.
    pub spool: Option<SpoolWatch>,
    /// The sender for probes and NVML. Held so that the channel stays open in a session without either.
    pub events: mpsc::Sender<Event>,
    pub threads: TaskThreads,
    pub reachable: Reachable,
    pub loss: KeeperState,
}

/// What is to be known should the keeper die.
pub(super) struct KeeperState {
    /// The last run that this process has ordered.
    ordered: Option<RunNumber>,
    /// The current run, held for that case.
    held: Option<HeldRun>,
    /// The keeper has died and the run continues without it.
    is_orphaned: bool,
    /// It has died, and nobody follows the run.
    is_lost: bool,
    /// It did not take an order.
    has_refused: bool,
    /// It ends with the session, as it has said: nobody has its terminal or a pipe of it open.
    is_leaving: bool,
}

impl KeeperState {
    pub fn of(role: Role) -> KeeperState {
        KeeperState {
            ordered: match role {
                Role::First => Some(RunNumber::FIRST),
                Role::Attached | Role::Headless => None,
            },
            held: None,
            is_orphaned: false,
            is_lost: false,
            has_refused: false,
            is_leaving: false,
        }
    }
}

impl Runtime {
    /// Runs until the session ends or continues without this process.
    pub(super) async fn run(
        mut self,
        mut inbox: Inbox,
        mut guard: SessionGuard,
    ) -> anyhow::Result<Ending> {
        let (ending, departure) = self.follow(&mut inbox).await;
        // It may have been recreated elsewhere.
        guard.directories.runtime = self.session().handover.directories().runtime;
        guard.released = departure != Departure::Ended;
        match departure {
            Departure::Ended => self.finish_keeper(&mut inbox.reports).await,
            Departure::Released | Departure::Superseded => self.hand_over(&mut inbox).await,
        }
        if self.controller.waits_behind() {
            // The probes and NVML are the new front's.
            drop(guard);
            return Ok(self.wait_behind(inbox).await);
        }
        let (keeper_lost, keeper_leaves) = (self.loss.is_lost, self.loss.is_leaving);
        let timing = KeeperTimeouts::scaled(self.session().handover.config.scaled);
        let keeper = self.keeper.pid();
        let ending = self.leave(&mut inbox, ending, departure).await;
        if keeper_leaves && !keeper_lost {
            supervise::reap_keeper(keeper);
        }
        if keeper_lost {
            // This process is a subreaper as well, and now the parent of what the dead keeper left.
            let left = supervise::clear_up(&timing).await;
            if !left.is_empty() {
                let pids: Vec<String> = left.iter().map(Pid::to_string).collect();
                print::complain(&format!(
                    "could not end these processes: {}",
                    pids.join(" ")
                ));
            }
        }
        Ok(ending)
    }

    async fn follow(&mut self, inbox: &mut Inbox) -> (Ending, Departure) {
        // A training may be silent for a long time: publish the status at once.
        self.pass_time();
        let mut alarm = Alarm::new();
        loop {
            self.hear_out(inbox);
            if let Some(leaving) = self.controller.phase().leaving() {
                return leaving;
            }
            let wake = self.next_wake();
            let woken = sleep_until(wake, self.clock, &mut alarm);
            let asked = self.controller.phase().asked_since();
            let session = &mut self.controller.session;
            let typed = self.display.next_chosen(session, self.clock, asked);
            match inbox.next(typed, woken).await {
                Received::Message(message) => self.handle(message),
                Received::Signal(signal) => self.signalled(signal),
                Received::ReportsEnded => {
                    if let Some(reports) = self.keeper_lost() {
                        inbox.reports = reports;
                    }
                }
            }
            self.pass_time();
            self.draw();
        }
    }

    /// A program may run and end between two turns of this loop: its exit is read before its probe.
    fn hear_out(&mut self, inbox: &Inbox) {
        let waits = self.controller.phase().hears_out();
        if waits && !inbox.has_events() && !self.requests.is_connected() {
            self.handle(Message::HeardOut);
            self.pass_time();
        }
    }

    pub(super) fn session(&self) -> &Session {
        &self.controller.session
    }

    /// When the loop must wake even if nothing comes.
    fn next_wake(&self) -> Option<Moment> {
        let parked = (self.display.is_parked()).then(|| self.clock.now() + PARKED);
        let looks = (!self.loss.is_orphaned).then(|| self.reachable.due());
        [
            self.controller.next_wake(),
            parked,
            self.display.next_frame(),
            self.display.prompt_due(),
            self.display.leaving,
            looks,
            self.metrics.as_ref().map(MetricsFile::due),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Has a message taken in, and does what follows; so with the messages that come of that.
    pub(super) fn handle(&mut self, message: Message) {
        let mut messages = VecDeque::from([message]);
        while let Some(message) = messages.pop_front() {
            let now = self.clock.now();
            let message = match message {
                Message::Report(KeeperReport::Logged { bytes, monotonic }) => Message::Logged {
                    bytes,
                    at: self.clock.at_monotonic_ns(monotonic * 1_000),
                },
                other => other,
            };
            for effect in update(&mut self.controller, now, message) {
                messages.extend(self.carry_out(effect, now));
            }
        }
    }

    /// Sends an order at once, without a decision.
    pub(super) fn order(&mut self, order: KeeperOrder) -> Option<Message> {
        let error = self.keeper.send(order).err()?;
        self.loss.has_refused = true;
        Some(Message::Note(
            Level::Warning,
            format!("cannot send to the keeper process ({error})"),
        ))
    }

    /// Tells who looks at the host's memory what processes are there for, as their probes say it.
    fn tell_host(&self, what: &EventKind) {
        match what {
            EventKind::Hello(hello) => self.host.is_told(hello.pid, HostRole::Rank),
            EventKind::ProcessHost(said) => {
                let loaders = said.loaders.iter().flatten();
                for pid in loaders.flat_map(|loader| &loader.pids) {
                    self.host.is_told(*pid, HostRole::LoaderWorker);
                }
            }
            _ => {}
        }
    }

    fn carry_out(&mut self, effect: SessionEffect, now: Moment) -> Option<Message> {
        match effect {
            SessionEffect::Record(event) => {
                self.tell_host(&event.what);
                self.recorder.write(&event);
                // It is recorded in its turn, and then the next one is asked for.
                let note = self.recorder.note()?;
                return Some(Message::Note(note.level, note.text));
            }
            SessionEffect::Order(order) => return self.order(order),
            SessionEffect::Launch {
                run,
                command,
                rehearses,
            } => {
                let size = self.display.begin_run();
                self.loss.ordered = Some(run);
                self.loss.held = None;
                let command = self.environment.around(&command, run, rehearses);
                return self.order(KeeperOrder::Launch(Launch { run, command, size }));
            }
            SessionEffect::Hold {
                run,
                trainer,
                start_time,
                streams,
            } => {
                let keeper = self.keeper.pid();
                // An attached front leaves that to the one that started the session. A stand-in has found the run itself.
                let holds = self.controller.role() != Role::Attached && !self.loss.is_orphaned;
                self.loss.held =
                    holds.then(|| HeldRun::hold(keeper, run, trainer, start_time, &streams));
            }
            SessionEffect::Begin(task) => self.threads.begin(task),
            SessionEffect::LookAtProcesses(pids) => {
                let gone = pids.into_iter().filter(|pid| has_ended(*pid)).collect();
                return Some(Message::Gone(gone));
            }
            SessionEffect::AskProbe(pid, request) => self.requests.ask(pid, request),
            SessionEffect::LookAtHost => {
                let found = self.host.look_at_the_end();
                return (!found.is_empty()).then_some(Message::Events(found));
            }
            SessionEffect::EndLeftovers(leftovers) => {
                for words in leftovers.iter().map(end) {
                    self.handle(Message::Note(Level::Warning, words));
                }
            }
            SessionEffect::KillLeftovers(leftovers) => {
                for leftover in &leftovers {
                    // If it has ended by now, all the better.
                    let _ = leftovers::signal(leftover, LeftoverSignal::KILL);
                }
            }
            SessionEffect::NameHolders(pids) => self.display.last_words.extend(left_over(&pids)),
            SessionEffect::Tell {
                kind,
                follows,
                growth,
            } => self.tell(kind, follows, growth.as_deref()),
            SessionEffect::EnterScreen => {
                match self.display.enter(self.controller.role() == Role::Attached) {
                    Ok(true) => return Some(Message::ScreenEntered),
                    Ok(false) => {}
                    Err(error) => {
                        let why = format!("cannot set up the terminal ({error})");
                        return Some(Message::ScreenFailed(why));
                    }
                }
            }
            SessionEffect::LoseScreen => self.display.lose(),
            SessionEffect::LeaveScreen => drop(self.display.leave()),
            SessionEffect::Suspend => return self.suspend(),
            SessionEffect::EditSource { file, line } => return self.edit_source(&file, line),
            SessionEffect::Resize => return self.resize(),
            SessionEffect::Draw(due) => self.display.request(due),
            SessionEffect::Output { stream, bytes } => {
                let answers = self.display.output(stream, &bytes, now);
                if !answers.is_empty() {
                    return self.order(KeeperOrder::Input(answers));
                }
            }
            SessionEffect::ShowRecent(recent) => {
                let size = self.display.show_recent(recent)?;
                return self.order(KeeperOrder::Resize(size));
            }
            SessionEffect::Resume(status) => return Some(Message::Resume(status)),
            SessionEffect::ForgetPrompt => self.display.prompt.forget(),
            SessionEffect::OpenRemedies => self.display.open_remedies(&self.controller.session),
            SessionEffect::OpenEditor(why) => {
                self.display.open_editor(why, &self.controller.session);
            }
            SessionEffect::Told(words) => self.display.told(words, now),
            SessionEffect::OnScreen(effect) => {
                let error = self.display.carry_out(&effect).err()?;
                return Some(self.screen_failed(&error));
            }
            SessionEffect::Say(words) => self.display.say(words),
            SessionEffect::SayLast(words) => self.display.last_words.push(words),
            SessionEffect::SayThatItWaits(line) => match self.display.mode {
                Mode::Headless(_) => {
                    let _ = print::err().write_all(line.as_bytes());
                }
                Mode::Screen => self.display.print_plain(line.as_bytes()),
            },
            SessionEffect::GiveUpStuckReaders => print::give_up_stuck_readers(),
        }
        None
    }

    /// What happens without a message: the time is told, and what is due by it is done.
    fn pass_time(&mut self) {
        let now = self.clock.now();
        for message in self.due(now) {
            self.handle(message);
        }
        self.handle(Message::Tick);
        let phase = self.controller.phase();
        if let Some(spool) = &self.spool {
            spool.hurry(phase.is_between_runs());
        }
        let trainer = self.session().state.run().map(|run| run.pid);
        self.display.look_for_prompt(now, trainer);
    }

    /// What the clock says is due: the metrics, a look at the session's directory, the terminal that is ours again,
    /// leaving.
    fn due(&mut self, now: Moment) -> Vec<Message> {
        let metrics = self.metrics.as_mut();
        let problem = metrics.and_then(|file| file.look(&self.controller.session.state, now));
        let problem = problem.map(|words| Message::Note(Level::Warning, words));
        let mut messages: Vec<Message> = problem.into_iter().collect();
        match self.display.unpark() {
            Ok(true) => messages.push(Message::ScreenEntered),
            Ok(false) => {}
            Err(error) => messages.push(not_taken_again(&error)),
        }
        if !self.loss.is_orphaned {
            messages.extend(self.stay_reachable(now));
        }
        if self.display.takes_leave(now) {
            messages.push(Message::TookLeave);
        }
        messages
    }

    /// Makes the session's private directory again if it was removed.
    fn stay_reachable(&mut self, now: Moment) -> Vec<Message> {
        let Some(again) = self.reachable.look(now, &self.controller.session.handover) else {
            return Vec::new();
        };
        let mut messages = vec![Message::Note(Level::Warning, again.words)];
        let Some(directories) = again.directories else {
            return messages;
        };
        // At once: what follows rests on it.
        self.handle(Message::Moved(
            directories.runtime.as_deref().map(Word::from),
        ));
        // Running processes stay connected; those that start later find the new one.
        let handover = &self.controller.session.handover;
        match reachable::renew_probe(&directories, handover) {
            Some(Ok(listener)) => {
                let (requests, events) = (self.requests.clone(), self.events.clone());
                tokio::spawn(probe_socket::serve(listener, self.clock, requests, events));
                self.environment = ProbeSetup::found(handover);
            }
            Some(Err(error)) => messages.push(Message::Note(
                Level::Warning,
                format!("further processes of the training have no probe: {error}"),
            )),
            None => {}
        }
        messages.extend(self.be_found(&directories));
        messages
    }

    /// Makes the session attachable, and removes what dead sessions left.
    pub(super) fn be_found(&mut self, directories: &Directories) -> Vec<Message> {
        let handover = &self.controller.session.handover;
        match reachable::be_found(directories, handover, self.keeper.pid()) {
            ListeningPlace::Nowhere => Vec::new(),
            ListeningPlace::At { socket, problem } => {
                let refused = self.order(KeeperOrder::Listen(socket));
                let problem = problem.map(|words| Message::Note(Level::Warning, words));
                refused.into_iter().chain(problem).collect()
            }
        }
    }

    fn signalled(&mut self, received: ReceivedSignal) {
        // All of the training is below the keeper, including orphans, since it is a subreaper.
        let keeper = self.keeper.pid();
        if received.is_of_the_terminal() {
            return self.handle(Message::Resized);
        }
        if received.is_wake_up(keeper) {
            return;
        }
        let origin = received.origin(|sender| sender != keeper && descends_from(sender, &[keeper]));
        self.handle(Message::Signal(received, origin));
    }

    /// The keeper is gone or has closed the connection. If the run continues without it, returns the
    /// reports of a stand-in.
    pub(super) fn keeper_lost(&mut self) -> Option<Reports> {
        let loss = &mut self.loss;
        if loss.is_orphaned {
            self.handle(Message::KeeperLost(KeeperLoss::EndUnknown));
            return None;
        }
        let timing = KeeperTimeouts::scaled(self.controller.session.handover.config.scaled);
        // Who waits behind has left its phases, and holds the run still.
        let has_run = self.controller.phase().has_run() || self.controller.waits_behind();
        let held = match (loss.held.take(), loss.ordered) {
            _ if !has_run => Err(NoRun::NeverBegan),
            (Some(held), _) => Ok(held),
            (None, Some(run)) => HeldRun::find(self.keeper.pid(), run),
            (None, None) => Err(NoRun::HungUp),
        };
        let followed = held.and_then(|held| held.follow(timing).ok_or(NoRun::HungUp));
        let (meaning, reports) = match followed {
            Ok((keeper, reports)) => {
                self.keeper = keeper;
                (KeeperLoss::RunGoesOn, Some(reports))
            }
            Err(NoRun::HungUp) => (KeeperLoss::WithTerminal, None),
            Err(NoRun::NeverBegan) => (KeeperLoss::NothingRan, None),
        };
        loss.is_orphaned = reports.is_some();
        loss.is_lost = reports.is_none();
        self.handle(Message::KeeperLost(meaning));
        reports
    }

    fn draw(&mut self) {
        let now = self.clock.now();
        let session = &mut self.controller.session;
        if session.take_changed() {
            self.display.request(Due::Sample);
        }
        session.advance(now);
        let message = match self.display.draw(now, session) {
            Ok(Some(size)) => self.order(KeeperOrder::Resize(size)),
            Ok(None) => None,
            Err(error) => Some(self.screen_failed(&error)),
        };
        message.into_iter().for_each(|message| self.handle(message));
    }

    fn screen_failed(&mut self, error: &std::io::Error) -> Message {
        self.display.drop_screen();
        Message::ScreenFailed(format!("cannot draw on the terminal any more ({error})"))
    }

    /// Ctrl-Z: leaves the screen and stops this job; the keeper keeps reading the output.
    fn suspend(&mut self) -> Option<Message> {
        if !has_shell() {
            return Some(Message::NoShell);
        }
        if self.display.park() {
            // Before we stop: a front that dies in the background has left the terminal.
            self.handle(Message::ScreenParked);
            suspend();
        }
        // The terminal is taken again as soon as we are in its foreground.
        None
    }

    /// Leaves the screen to the user's editor, and waits for its end.
    fn edit_source(&mut self, file: &str, line: u32) -> Option<Message> {
        if !self.display.park() {
            return None;
        }
        self.handle(Message::ScreenParked);
        let opened = source_editor::open(file, line);
        let message = match self.display.unpark() {
            Ok(true) => Message::ScreenEntered,
            Ok(false) => return None,
            Err(error) => not_taken_again(&error),
        };
        if let Err(why) = opened {
            self.display.told(why, self.clock.now());
        }
        Some(message)
    }

    /// The terminal's size has changed. With a screen the next frame adapts and resizes the program's
    /// terminal.
    fn resize(&mut self) -> Option<Message> {
        self.display.resized();
        let size = terminal_size().filter(|_| !self.display.is_up())?;
        self.order(KeeperOrder::Resize(size))
    }

    fn tell(&mut self, kind: NewsKind, follows: WhatFollows, growth: Option<&Finding>) {
        let session = &self.controller.session;
        let news = News {
            kind,
            state: &session.state,
            finding: match kind {
                NewsKind::Oom => session.findings.first(),
                NewsKind::Leak | NewsKind::LeakOver => growth,
                NewsKind::End => None,
            },
            follows,
            host: self.messenger.host(),
            recording: session.recording(),
        };
        if let Some(bytes) = self.messenger.send(&news) {
            self.display.alert(&bytes, follows == WhatFollows::Runs);
        }
    }

    /// After the last run: lets the keeper write what it still has.
    async fn finish_keeper(&mut self, reports: &mut Reports) {
        self.loss.has_refused = false;
        self.order(KeeperOrder::Finish);
        if self.loss.has_refused {
            return;
        }
        let finished = async {
            let mut stays = false;
            while let Some(report) = reports.next().await {
                match report {
                    KeeperReport::Stays => stays = true,
                    KeeperReport::Finished => return !stays,
                    _ => {}
                }
            }
            false
        };
        // The log's disk may hang; the program's own output has gone out before `Exited`.
        let leaves = tokio::time::timeout(KEEPER_PATIENCE, finished).await;
        self.loss.is_leaving = leaves.unwrap_or(false);
    }

    /// Ends the session: restores the terminal, prints the last words, closes the recording. Returns how
    /// this process is to exit.
    async fn leave(mut self, inbox: &mut Inbox, ending: Ending, departure: Departure) -> Ending {
        let tail = self.display.leave();
        // After a screen a shell has the terminal back, and what tells of the end is nobody's to wait for.
        let is_watched = tail.is_some() && !self.loss.is_lost;
        let ending = self.say_last_words(inbox, ending, departure, tail).await;
        if !is_watched {
            self.messenger.finish();
        }
        ending
    }

    /// Waits for work beside the loop as long as `is_awaited`, and so long at most.
    async fn await_work(
        &mut self,
        inbox: &mut Inbox,
        patience: Duration,
        is_awaited: fn(&Session) -> bool,
    ) {
        let until = tokio::time::Instant::now() + patience;
        while is_awaited(self.session()) {
            match tokio::time::timeout_at(until, inbox.next_of_threads()).await {
                Ok(Some(message)) => self.handle(message),
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Ends the recording, with what was still to be read for it. Returns its file, if there is something in it, and says
    /// last what is missing of it, and why the metrics are not there.
    async fn finish_recording(&mut self, inbox: &mut Inbox) -> Option<PathBuf> {
        let path = self.session().recording().map(Path::to_path_buf);
        self.handle(Message::Finishing);
        self.await_work(inbox, SOURCE_PATIENCE, Session::is_reading_source)
            .await;
        self.await_work(inbox, SOURCE_PATIENCE, Session::is_remembering)
            .await;
        let metrics = self.metrics.take();
        let problem = metrics.and_then(|file| file.finish(&self.session().state));
        let whole = self.recorder.finish(RECORDING_PATIENCE);
        while let Some(message) = inbox.ready_of_threads() {
            self.handle(message);
        }
        let (path, missing) = path.map_or((None, None), |path| what_is_recorded(path, whole));
        self.display
            .last_words
            .extend(problem.into_iter().chain(missing));
        path
    }

    async fn say_last_words(
        &mut self,
        inbox: &mut Inbox,
        ending: Ending,
        departure: Departure,
        tail: Option<Vec<u8>>,
    ) -> Ending {
        let recording = self.finish_recording(inbox).await;
        self.await_work(inbox, REMEDIES_PATIENCE, Session::is_finding_remedies)
            .await;
        if departure == Departure::Ended {
            let said =
                requeue::at_the_end(self.session(), self.controller.policy.requeue(), ending);
            self.display.last_words.extend(said);
        }
        if let Some(found) = self.controller.policy.conclude(ending) {
            return if self.loss.is_lost { ending } else { found };
        }
        let session = self.session();
        say(
            &session.state,
            tail,
            &LastWords {
                ending,
                findings: &session.findings,
                remedies: session.remedies(),
                command: session.command(),
                room_for_batch: session.room_for_batch(),
                recording: recording.as_deref(),
                lines: &self.display.last_words,
                at_line_start: self.display.is_at_line_start(),
                session_over: departure == Departure::Ended,
            },
        );
        ending
    }
}

/// Sends SIGTERM to a process of an earlier session; what came of it, in words.
fn end(leftover: &Leftover) -> String {
    let (pid, session) = (leftover.pid, &leftover.session);
    match leftovers::signal(leftover, LeftoverSignal::TERM) {
        Ok(()) => format!("SIGTERM sent to process {pid}, left over from {session}"),
        Err(error) => format!("process {pid}, left over from {session}, cannot be ended: {error}"),
    }
}

/// Whether a process of this node doesn't exist any more, not even as a zombie. One that may not be asked
/// about does, and nothing is known of those elsewhere.
fn has_ended(pid: Pid) -> bool {
    pid.is_here() && kill(nix::unistd::Pid::from_raw(pid.0), None) == Err(Errno::ESRCH)
}

async fn sleep_until(wake: Option<Moment>, clock: Clock, alarm: &mut Alarm) {
    match wake {
        Some(wake) => {
            let left = wake.since(clock.now());
            alarm.until(Instant::now() + left).await;
        }
        None => pending().await,
    }
}

fn not_taken_again(error: &io::Error) -> Message {
    Message::ScreenFailed(format!("cannot set up the terminal again ({error})"))
}
