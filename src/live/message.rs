//! All that can happen to a running session, all that can follow from it, and in which order messages are
//! taken: a signal or a key never waits for what the training writes or what is measured of it, however
//! much there is.

use super::background_task::{BackgroundTask, Finished, ThreadReport};
use super::display::screen::Due;
use super::signals::{ReceivedSignal, SignalOrigin, Signals};
use crate::collect::probe_socket::ProbeRequest;
use crate::command::{CommandLine, Word};
use crate::diagnosis::Finding;
use crate::event::{Event, EventKind, Level};
use crate::probe::RehearsedStep;
use crate::remedy::Leftover;
use crate::report::news::{NewsKind, WhatFollows};
use crate::supervise::{
    KeeperOrder, KeeperReport, OutputStream, Reports, SessionStatus, TrainerStreams,
};
use crate::ui;
use crate::units::{Bytes, Moment, Pid, RunNumber};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};

/// Everything that can happen.
#[derive(Debug)]
pub(crate) enum Message {
    /// The session begins: what is recorded first.
    Begun {
        events: Vec<EventKind>,
        /// What could not be set up.
        notes: Vec<String>,
    },
    /// The session goes on with this process as its front.
    TakenOver(Box<TakenOver>),
    /// Of the probes, of NVML, of other nodes' files.
    Events(Vec<Event>),
    Report(KeeperReport),
    /// The keeper's log was given so much by that moment.
    Logged {
        bytes: Bytes,
        at: Moment,
    },
    KeeperLost(KeeperLoss),
    Signal(ReceivedSignal, SignalOrigin),
    /// Our terminal may have another size.
    Resized,
    /// What a key, a paste or the mouse has asked for, where it was pressed.
    Chosen(ui::Effect),
    /// The terminal is gone.
    HungUp,
    /// The user leaves: no other letter has followed `l`.
    TookLeave,
    /// Work beside the loop is over.
    Done(Finished),
    /// These processes do not exist any more.
    Gone(Vec<Pid>),
    /// No probe is connected, and all that they sent has been taken in.
    HeardOut,
    Note(Level, String),
    /// A warning that is also said aloud.
    Say(String),
    /// The session's private directory was made again, there or elsewhere.
    Moved(Option<Word>),
    ScreenEntered,
    /// Ctrl-Z.
    ScreenParked,
    /// Ctrl-Z where nobody could continue us.
    NoShell,
    /// The screen cannot be shown, and why.
    ScreenFailed(String),
    /// The screen is there, or cannot be: on with the keeper's status.
    Resume(SessionStatus),
    /// The session ends: what is still to be read is begun.
    Finishing,
    /// Time has passed.
    Tick,
}

impl Message {
    fn of_thread(report: ThreadReport) -> Message {
        match report {
            ThreadReport::Finished(finished) => Message::Done(finished),
            ThreadReport::Problem(words) => Message::Note(Level::Warning, words),
            ThreadReport::Aloud(words) => Message::Say(words),
        }
    }
}

/// What a front that takes over begins with.
#[derive(Debug)]
pub(crate) struct TakenOver {
    pub asks_nvml: bool,
    /// How it came to this.
    pub words: &'static str,
    /// What could not be set up.
    pub notes: Vec<String>,
    pub status: SessionStatus,
    /// The end of the output so far.
    pub recent: Vec<u8>,
}

/// What the keeper's death means for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeeperLoss {
    /// The run continues, and this process follows it.
    RunGoesOn,
    /// Such a run has ended, and nobody knows how.
    EndUnknown,
    /// The program's terminal went with it.
    WithTerminal,
    /// No program was running.
    NothingRan,
}

/// What is to be done about a message: decided by `update`, carried out by the runtime.
#[derive(Debug)]
pub(crate) enum SessionEffect {
    /// Write an event to the recording.
    Record(Arc<Event>),
    Order(KeeperOrder),
    /// Start a run, with the probe and a cleared screen.
    Launch {
        run: RunNumber,
        /// As the user knows it.
        command: CommandLine,
        rehearses: RehearsedStep,
    },
    /// Hold a run so that it can outlive the keeper.
    Hold {
        run: RunNumber,
        trainer: Pid,
        start_time: u64,
        streams: TrainerStreams,
    },
    /// Answered by `Message::Done`.
    Begin(BackgroundTask),
    /// Find out which of these processes of this node have ended: `Message::Gone`.
    LookAtProcesses(Vec<Pid>),
    /// A run has ended: find out whether the kernel has killed for memory: `Message::Events`.
    LookAtHost,
    /// Ask the probe of a process.
    AskProbe(Pid, ProbeRequest),
    /// Send SIGTERM to processes that an earlier session left.
    EndLeftovers(Vec<Leftover>),
    KillLeftovers(Vec<Leftover>),
    /// Name those of a run's surviving processes that still hold a GPU, in the last words.
    NameHolders(Vec<Pid>),
    /// Tell somebody who is elsewhere.
    Tell {
        kind: NewsKind,
        follows: WhatFollows,
        /// The leak, or that it was none.
        growth: Option<Box<Finding>>,
    },
    /// Take the terminal: `Message::ScreenEntered`, or `ScreenFailed`.
    EnterScreen,
    /// The terminal is gone, or cannot be drawn on.
    LoseScreen,
    /// Leave the terminal to whoever has it next.
    LeaveScreen,
    /// Leave the terminal for a while, as by Ctrl-Z.
    Suspend,
    /// Leave it to the user's editor, at a line of a file.
    EditSource {
        file: String,
        line: u32,
    },
    /// The terminal's size may have changed.
    Resize,
    /// A frame is due.
    Draw(Due),
    /// What the program wrote.
    Output {
        stream: OutputStream,
        bytes: Vec<u8>,
    },
    /// What it wrote before this front came.
    ShowRecent(Vec<u8>),
    /// Go on with the keeper's status, once the screen is there or not: `Message::Resume`.
    Resume(SessionStatus),
    /// The program no longer waits for input.
    ForgetPrompt,
    /// Open the dialog without an out-of-memory.
    OpenRemedies,
    /// Open the editor with the command that has just failed, and why it did.
    OpenEditor(String),
    /// Say on the screen what came of a key.
    Told(String),
    /// An effect of the view that stays on the screen.
    OnScreen(ui::Effect),
    /// Print a line now, or at the end where a screen is up.
    Say(String),
    /// Print a line at the end.
    SayLast(String),
    /// Print how to answer a dialog that nobody sees.
    SayThatItWaits(String),
    /// Whoever reads our output reads nothing: do not wait for them at the end.
    GiveUpStuckReaders,
}

/// So many reports in a row may be taken while events wait; then tokio gets to its other tasks.
const SHARE: u32 = 16;
/// The maximum number of events that are taken before the next frame.
const BATCH: usize = 256;

/// What comes in from outside, before it is a message.
pub(crate) enum Received {
    Message(Message),
    /// A signal whose sender is to be looked up.
    Signal(ReceivedSignal),
    /// The keeper's reports have ended.
    ReportsEnded,
}

/// All sources of messages.
pub(crate) struct Inbox {
    pub reports: Reports,
    pub signals: Signals,
    events: Receiver<Event>,
    threads: UnboundedReceiver<ThreadReport>,
    share: ReportShare,
}

impl Inbox {
    pub(crate) fn new(
        reports: Reports,
        signals: Signals,
        events: Receiver<Event>,
        threads: UnboundedReceiver<ThreadReport>,
    ) -> Inbox {
        Inbox {
            reports,
            signals,
            events,
            threads,
            share: ReportShare::default(),
        }
    }

    /// What a front that stays behind still listens to. With the rest the probes' connections to it end, so that they look for
    /// the front that has taken over.
    pub(crate) fn stay_behind(self) -> (Reports, Signals) {
        let Inbox {
            reports, signals, ..
        } = self;
        (reports, signals)
    }

    /// The most urgent of what is there. `typed` is what the next key asks for (`None` where it has changed the
    /// view alone), and `woken` ends when it is time for a tick.
    pub(crate) async fn next(
        &mut self,
        typed: impl Future<Output = Option<Message>>,
        woken: impl Future<Output = ()>,
    ) -> Received {
        if self.share.is_used_up() {
            // The probes' connections are read by other tasks of this thread.
            tokio::task::yield_now().await;
        }
        let mut batch = Vec::new();
        let taken = first(
            &mut self.share,
            Waiting {
                signal: self.signals.next(),
                typed,
                thread: self.threads.recv(),
                report: self.reports.next(),
                events: self.events.recv_many(&mut batch, BATCH),
                woken,
            },
        )
        .await;
        if matches!(taken, FirstTaken::Signal(_) | FirstTaken::Typed(_)) {
            self.reports.hurry();
        }
        Received::Message(match taken {
            FirstTaken::Signal(Ok(signal)) => return Received::Signal(signal),
            FirstTaken::Signal(Err(_)) => Message::Tick,
            FirstTaken::Typed(Some(message)) => message,
            FirstTaken::Thread(Some(report)) => Message::of_thread(report),
            FirstTaken::Report(Some(report)) => Message::Report(report),
            FirstTaken::Report(None) => return Received::ReportsEnded,
            FirstTaken::Events(_) => Message::Events(batch),
            FirstTaken::Typed(None) | FirstTaken::Thread(None) | FirstTaken::Woken => Message::Tick,
        })
    }

    /// Whether there are events to be taken.
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// What the next thread beside the loop has to say, at the end of a session.
    pub(crate) async fn next_of_threads(&mut self) -> Option<Message> {
        self.threads.recv().await.map(Message::of_thread)
    }

    /// What one has said already.
    pub(crate) fn ready_of_threads(&mut self) -> Option<Message> {
        self.threads.try_recv().ok().map(Message::of_thread)
    }
}

/// How much of what may wait was taken in a row.
#[derive(Debug, Default)]
struct ReportShare {
    reports: u32,
}

impl ReportShare {
    fn is_used_up(&self) -> bool {
        self.reports >= SHARE
    }
}

/// A future for each source, by urgency.
struct Waiting<S, K, F, R, E, W> {
    signal: S,
    typed: K,
    thread: F,
    report: R,
    events: E,
    woken: W,
}

/// What was taken.
#[derive(Debug, PartialEq, Eq)]
enum FirstTaken<S, K, F, R, E> {
    Signal(S),
    Typed(K),
    Thread(F),
    Report(R),
    Events(E),
    Woken,
}

/// Takes the most urgent that is ready: a signal, a key, a thread's report, a report of the keeper (whose exits must
/// not pass the output before them, which says why), events. Events come first once reports have had their
/// share.
async fn first<S, K, F, R, E, W>(
    share: &mut ReportShare,
    waiting: Waiting<S, K, F, R, E, W>,
) -> FirstTaken<S::Output, K::Output, F::Output, R::Output, E::Output>
where
    S: Future,
    K: Future,
    F: Future,
    R: Future,
    E: Future,
    W: Future,
{
    let reports_wait = share.is_used_up();
    if reports_wait {
        share.reports = 0;
    }
    let (events, report) = (waiting.events, waiting.report);
    let bulk = async {
        match reports_wait {
            true => tokio::select! {
                biased;
                events = events => FirstTaken::Events(events),
                report = report => FirstTaken::Report(report),
            },
            false => tokio::select! {
                biased;
                report = report => FirstTaken::Report(report),
                events = events => FirstTaken::Events(events),
            },
        }
    };
    let taken = tokio::select! {
        biased;
        signal = waiting.signal => FirstTaken::Signal(signal),
        typed = waiting.typed => FirstTaken::Typed(typed),
        thread = waiting.thread => FirstTaken::Thread(thread),
        bulk = bulk => bulk,
        _ = waiting.woken => FirstTaken::Woken,
    };
    match taken {
        FirstTaken::Report(_) => share.reports += 1,
        FirstTaken::Events(_) => share.reports = 0,
        FirstTaken::Signal(_)
        | FirstTaken::Typed(_)
        | FirstTaken::Thread(_)
        | FirstTaken::Woken => {}
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    type Seen = FirstTaken<i32, char, u8, &'static str, usize>;

    /// What is taken next while output and events are always there.
    async fn taken(share: &mut ReportShare, signal: Option<i32>, key: Option<char>) -> Seen {
        let or_never = async |value: Option<i32>| match value {
            Some(value) => value,
            None => pending().await,
        };
        let key = async {
            match key {
                Some(key) => key,
                None => pending().await,
            }
        };
        first(
            share,
            Waiting {
                signal: or_never(signal),
                typed: key,
                thread: pending(),
                report: ready("output"),
                events: ready(256),
                woken: ready(()),
            },
        )
        .await
    }

    #[tokio::test]
    async fn a_key_and_a_signal_pass_any_amount_of_output() {
        let mut share = ReportShare::default();
        for _ in 0..1_000 {
            let seen = taken(&mut share, None, None).await;
            assert!(matches!(
                seen,
                FirstTaken::Report(_) | FirstTaken::Events(_)
            ));
            let ctrl_c = taken(&mut share, None, Some('\u{3}')).await;
            assert_eq!(ctrl_c, FirstTaken::Typed('\u{3}'));
            let signal = taken(&mut share, Some(15), Some('q')).await;
            assert_eq!(signal, FirstTaken::Signal(15));
        }
    }

    #[tokio::test]
    async fn output_has_a_share_and_then_events_have_their_turn() {
        let mut share = ReportShare::default();
        let mut seen = Vec::new();
        for _ in 0..3 * (SHARE + 1) {
            seen.push(taken(&mut share, None, None).await);
        }
        let of_events = seen
            .iter()
            .filter(|taken| **taken == FirstTaken::Events(256));
        assert_eq!(of_events.count(), 3);
        let (last, before) = (&seen[SHARE as usize], &seen[..SHARE as usize]);
        assert_eq!(last, &FirstTaken::Events(256));
        assert!(
            before
                .iter()
                .all(|taken| *taken == FirstTaken::Report("output"))
        );
    }

    #[tokio::test]
    async fn reports_are_taken_where_there_are_no_events() {
        let mut share = ReportShare { reports: SHARE };
        let taken = first(
            &mut share,
            Waiting {
                signal: pending::<()>(),
                typed: pending::<()>(),
                thread: pending::<()>(),
                report: ready(1),
                events: pending::<()>(),
                woken: pending::<()>(),
            },
        )
        .await;
        assert_eq!(taken, FirstTaken::Report(1));
    }
}
