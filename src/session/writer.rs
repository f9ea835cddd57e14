//! The thread that owns the files of a recording, so that a slow or hanging disk never stops the
//! loop: the loop hands it lines through a bounded queue and goes on.

use super::journal::{Batch, warning};
use super::line::RecordLine;
use super::sink::{Gap, Sink, Standing, open_to_append};
use crate::event::{Level, Note};
use crate::units::{Bytes, clock_face};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Lines that are in no hurry wait this long for company.
const HELD: Duration = Duration::from_millis(250);

/// … or until there is this much of them.
const HELD_BYTES: Bytes = Bytes(64 << 10);

/// Notes that nobody collects do not pile up.
const NOTES_KEPT: usize = 16;

/// What the loop asks of the thread.
pub(super) enum Order {
    /// Write these.
    Write(Batch),
    /// Write these, bring the recent generations home, say when it is done, and end.
    Finish(Batch, SyncSender<()>),
}

/// What both sides of the queue see.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Bytes in the queue.
    pub queued: AtomicU64,
    notes: Mutex<VecDeque<Note>>,
}

impl Shared {
    pub(super) fn say(&self, level: Level, text: String) {
        // A poisoned lock only means that somebody panicked while holding a list of notes.
        let mut notes = self.notes.lock().unwrap_or_else(|held| held.into_inner());
        if notes.len() < NOTES_KEPT {
            notes.push_back(Note { level, text });
        }
    }

    pub(super) fn next_note(&self) -> Option<Note> {
        let mut notes = self.notes.lock().unwrap_or_else(|held| held.into_inner());
        notes.pop_front()
    }
}

/// Where the recent generations of a recording lie: beside it, so that they are on the same disk
/// and found by whoever reads the recording.
pub(super) fn generations(recording: &Path) -> [PathBuf; 2] {
    ["recent-0", "recent-1"].map(|suffix| {
        let mut name = recording.as_os_str().to_os_string();
        name.push(".");
        name.push(suffix);
        PathBuf::from(name)
    })
}

/// The thread's own state.
pub(super) struct Writer {
    main: Sink,
    /// `None` where the recording is no regular file and nothing can lie beside it.
    recent: Option<Recent>,
    shared: Arc<Shared>,
    retry: Duration,
}

struct Recent {
    current: usize,
    paths: [PathBuf; 2],
    sink: Option<Sink>,
    tried: Instant,
}

impl Writer {
    pub(super) fn new(main: Sink, beside: bool, retry: Duration, shared: Arc<Shared>) -> Writer {
        let recent = beside.then(|| Recent::begin(generations(main.path()), retry));
        Writer {
            main,
            recent,
            shared,
            retry,
        }
    }

    /// Writes until the loop is done or gone.
    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        let mut oldest: Option<Instant> = None;
        loop {
            let patience = match oldest {
                Some(since) => HELD.saturating_sub(since.elapsed()),
                None if self.main.is_failing() => self.retry.min(Duration::from_secs(1)),
                None => Duration::from_secs(3_600),
            };
            match orders.recv_timeout(patience) {
                Ok(Order::Write(batch)) => {
                    let urgent = batch.urgent;
                    self.take(batch);
                    oldest.get_or_insert_with(Instant::now);
                    if !urgent && self.main.waiting() < HELD_BYTES {
                        continue;
                    }
                }
                Ok(Order::Finish(batch, done)) => {
                    self.take(batch);
                    self.end();
                    // Nobody may be waiting any more.
                    let _ = done.try_send(());
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.flush(true);
                    return;
                }
            }
            self.flush(false);
            oldest = None;
        }
    }

    fn take(&mut self, batch: Batch) {
        self.shared
            .queued
            .fetch_sub(batch.cost().0, Ordering::Relaxed);
        self.main.push(batch.main);
        if let Some(recent) = &mut self.recent {
            if batch.rotate {
                recent.rotate(self.retry);
            }
            recent.push(batch.recent, self.retry);
        }
    }

    fn flush(&mut self, now_or_never: bool) {
        if let Some(sink) = self.recent.as_mut().and_then(|recent| recent.sink.as_mut()) {
            // What is lost here is thinned in the recording; one voice about the disk is enough.
            let _ = sink.flush(now_or_never);
        }
        match self.main.flush(now_or_never) {
            Standing::Unchanged => {}
            Standing::Failed(reason) => self.shared.say(
                Level::Warning,
                format!(
                    "not recording to {}: {reason}; tried again every {} s",
                    self.main.path().display(),
                    self.retry.as_secs(),
                ),
            ),
            Standing::Recovered(gap) => self.tell_gap(&gap),
        }
    }

    fn tell_gap(&mut self, gap: &Gap) {
        let text = format!(
            "the recording has a gap: {} events ({}) from {} to {} were not recorded ({})",
            gap.events,
            gap.bytes,
            clock_face(gap.from.since(crate::units::Moment::ZERO)),
            clock_face(gap.to.since(crate::units::Moment::ZERO)),
            gap.reason,
        );
        if let Ok(line) = RecordLine::of(&warning(gap.to, text.clone()), true) {
            self.main.push([line]);
            let _ = self.main.flush(false);
        }
        self.shared.say(Level::Info, text);
    }

    /// A clean end: what the generations hold goes to the recording, which then stands alone.
    fn end(&mut self) {
        self.flush(true);
        if let Some(recent) = self.recent.take() {
            drop(recent.sink);
            bring_home(&mut self.main, &recent.paths);
        }
        self.main.sync();
    }
}

/// Appends the generations to the recording and removes them. One that cannot be appended stays
/// where it is: the reader looks there as well.
pub(super) fn bring_home(main: &mut Sink, paths: &[PathBuf; 2]) {
    for path in paths {
        if path.exists() && main.append_file(path).is_ok() {
            // Left behind it costs space but no truth: the reader takes each event once.
            let _ = fs::remove_file(path);
        }
    }
}

impl Recent {
    fn begin(paths: [PathBuf; 2], retry: Duration) -> Recent {
        let mut recent = Recent {
            current: 1,
            paths,
            sink: None,
            tried: Instant::now(),
        };
        recent.rotate(retry);
        recent
    }

    /// Begins the other generation anew. A new file under the old name rather than the old one cut
    /// short: whoever is reading the old one keeps what it has.
    fn rotate(&mut self, retry: Duration) {
        if let Some(sink) = &mut self.sink {
            let _ = sink.flush(true);
        }
        self.current = 1 - self.current;
        self.open(retry);
    }

    fn open(&mut self, retry: Duration) {
        let path = &self.paths[self.current];
        let _ = fs::remove_file(path);
        self.tried = Instant::now();
        self.sink = open_to_append(path, true)
            .ok()
            .map(|file| Sink::new(path.clone(), file, retry));
    }

    fn push(&mut self, lines: Vec<RecordLine>, retry: Duration) {
        if self.sink.is_none() && self.tried.elapsed() >= retry {
            self.open(retry);
        }
        if let Some(sink) = &mut self.sink {
            sink.push(lines);
        }
    }
}
