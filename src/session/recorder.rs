//! The loop's handle on a recording. Writing to it never fails and never waits for the disk: the
//! training is not worth less because its recording cannot be kept.

use super::journal::{Journal, warning};
use super::limits::Limits;
use super::line::RecordLine;
use super::sink::{RecordingSink, open_to_append};
use super::writer::{Shared, WriterOrder, write_lines};
use crate::event::{Event, Level, Note};
use crate::units::{Bytes, Moment};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// What may wait for a slow disk, in orders …
const QUEUE: usize = 4_096;

/// … and in bytes, out-of-memory and other lines that count aside, which may take twice as much.
const QUEUE_BYTES: Bytes = Bytes(4 << 20);

/// How a recording is kept.
#[derive(Debug, Clone, Copy)]
pub struct RecorderOptions {
    /// What it may cost.
    pub limits: Limits,
    /// How long after a failed write it is tried again.
    pub retry: Duration,
}

impl Default for RecorderOptions {
    fn default() -> RecorderOptions {
        RecorderOptions {
            limits: Limits::default(),
            retry: Duration::from_secs(30),
        }
    }
}

/// A recording that is being written, or one that is not kept.
#[derive(Debug)]
pub struct Recorder {
    open: Option<Open>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    journal: Journal,
    orders: SyncSender<WriterOrder>,
    dropped: u64,
}

impl Open {
    /// What a queue that was full cost, as a line for when there is room again.
    fn gap_line(&self, at: Moment) -> Option<RecordLine> {
        let text = format!(
            "the recording has a gap: {} events were not recorded (the disk was too slow)",
            self.dropped
        );
        (self.dropped > 0)
            .then(|| RecordLine::of(&warning(at, text), false).ok())
            .flatten()
    }
}

impl Recorder {
    /// No recording: events are accepted and forgotten.
    pub fn off() -> Recorder {
        Recorder {
            open: None,
            shared: Arc::default(),
        }
    }

    /// Begins a recording at `path` (mode 0600). A recording that is there already is refused, not
    /// overwritten; devices and pipes are written to as they are.
    pub fn create(path: &Path, options: RecorderOptions) -> Result<Recorder> {
        let special = fs::metadata(path).is_ok_and(|meta| !meta.is_file());
        if !special && fs::metadata(path).is_ok_and(|meta| meta.len() > 0) {
            bail!(
                "{} already exists: name another file, or remove it",
                path.display()
            );
        }
        let file = open_to_append(path, false)
            .with_context(|| format!("cannot record to {}", path.display()))?;
        Recorder::start(
            RecordingSink::new(path.to_owned(), file, options.retry),
            options,
        )
    }

    /// Goes on with the recording of a front that is gone, which may have left half a line.
    pub fn resume(path: &Path, options: RecorderOptions) -> Result<Recorder> {
        let file = fs::OpenOptions::new()
            .append(true)
            .open(path)
            .with_context(|| format!("cannot continue the recording {}", path.display()))?;
        let mut sink = RecordingSink::new(path.to_owned(), file, options.retry);
        sink.end_line();
        Recorder::start(sink, options)
    }

    fn start(sink: RecordingSink, options: RecorderOptions) -> Result<Recorder> {
        let shared = Arc::new(Shared::default());
        let path = sink.path().to_owned();
        let (orders, received) = sync_channel(QUEUE);
        let writer_shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("recording".into())
            .spawn(move || write_lines(sink, &received, &writer_shared, options.retry))
            .context("cannot start the recording thread")?;
        Ok(Recorder {
            open: Some(Open {
                path,
                journal: Journal::new(options.limits),
                orders,
                dropped: 0,
            }),
            shared,
        })
    }

    /// The recording's path, where there is one.
    pub fn path(&self) -> Option<&Path> {
        self.open.as_ref().map(|open| open.path.as_path())
    }

    /// Records an event. Never fails, never waits; what goes wrong is told by [`Recorder::note`].
    pub fn write(&mut self, event: &Event) {
        let Some(open) = &mut self.open else { return };
        let lines = match open.journal.accept(event) {
            Ok(lines) if lines.is_empty() => return,
            Ok(mut lines) => {
                lines.extend(open.gap_line(event.at));
                lines
            }
            Err(error) => {
                self.shared.say(
                    Level::Warning,
                    format!("an event could not be recorded: {error}"),
                );
                return;
            }
        };
        let cost = cost(&lines);
        let vital = lines.iter().any(|line| line.vital);
        let room = QUEUE_BYTES.0 * if vital { 2 } else { 1 };
        let queued = self.shared.queued.fetch_add(cost, Ordering::Relaxed);
        let events = lines.len() as u64;
        let sent = queued + cost <= room && open.orders.try_send(WriterOrder::Write(lines)).is_ok();
        if sent {
            open.dropped = 0;
            return;
        }
        self.shared.queued.fetch_sub(cost, Ordering::Relaxed);
        if open.dropped == 0 {
            self.shared.say(
                Level::Warning,
                format!(
                    "writing to {} is too slow: events are not being recorded",
                    open.path.display()
                ),
            );
        }
        open.dropped += events;
    }

    /// Something that the user should know of the recording, once.
    pub fn note(&mut self) -> Option<Note> {
        self.shared.next_note()
    }

    /// Ends the recording and waits until it is whole on the disk, but no longer than `patience`.
    /// Returns whether it was.
    pub fn finish(&mut self, patience: Duration) -> bool {
        let Some(mut open) = self.open.take() else {
            return true;
        };
        let last = open.journal.finish();
        self.shared.queued.fetch_add(cost(&last), Ordering::Relaxed);
        let (done, ended) = sync_channel(1);
        open.orders
            .try_send(WriterOrder::Finish(last, done))
            .is_ok()
            && ended.recv_timeout(patience).is_ok()
    }
}

fn cost(lines: &[RecordLine]) -> u64 {
    lines.iter().map(|line| line.cost().0).sum()
}

/// A loop that panics still leaves what it had written so far.
impl Drop for Recorder {
    fn drop(&mut self) {
        self.finish(Duration::from_millis(500));
    }
}
