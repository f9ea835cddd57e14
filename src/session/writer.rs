//! The thread that owns a recording's file, so that a slow or hanging disk never stops the loop:
//! the loop hands it lines through a bounded queue and goes on.

use super::journal::warning;
use super::line::RecordLine;
use super::sink::{RecordingGap, RecordingSink, SinkHealth};
use crate::event::{Level, Note};
use crate::units::{Moment, clock_face};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Notes that nobody collects do not pile up.
const NOTES_KEPT: usize = 16;

/// What the loop asks of the thread.
pub(super) enum WriterOrder {
    Write(Vec<RecordLine>),
    /// Write these, say when they are on the disk, and end.
    Finish(Vec<RecordLine>, SyncSender<()>),
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

/// Writes what `orders` bring until the loop is done or gone; a failed write is tried again after
/// `retry`.
pub(super) fn write_lines(
    mut sink: RecordingSink,
    orders: &Receiver<WriterOrder>,
    shared: &Arc<Shared>,
    retry: Duration,
) {
    loop {
        let patience = if sink.is_failing() {
            retry.min(Duration::from_secs(1))
        } else {
            Duration::from_secs(3_600)
        };
        match orders.recv_timeout(patience) {
            Ok(WriterOrder::Write(lines)) => take(&mut sink, lines, shared),
            Ok(WriterOrder::Finish(lines, done)) => {
                take(&mut sink, lines, shared);
                flush(&mut sink, shared, retry, true);
                sink.sync();
                // Nobody may be waiting any more.
                let _ = done.try_send(());
                return;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return flush(&mut sink, shared, retry, true),
        }
        flush(&mut sink, shared, retry, false);
    }
}

fn take(sink: &mut RecordingSink, lines: Vec<RecordLine>, shared: &Shared) {
    let cost: u64 = lines.iter().map(|line| line.cost().0).sum();
    shared.queued.fetch_sub(cost, Ordering::Relaxed);
    sink.push(lines);
}

fn flush(sink: &mut RecordingSink, shared: &Shared, retry: Duration, last_chance: bool) {
    match sink.flush(last_chance) {
        SinkHealth::Unchanged => {}
        SinkHealth::Failed(reason) => shared.say(
            Level::Warning,
            format!(
                "not recording to {}: {reason}; retrying every {} s",
                sink.path().display(),
                retry.as_secs(),
            ),
        ),
        SinkHealth::Recovered(gap) => tell_gap(sink, &gap, shared),
    }
}

fn tell_gap(sink: &mut RecordingSink, gap: &RecordingGap, shared: &Shared) {
    let text = format!(
        "the recording has a gap: {} events ({}) from {} to {} were not recorded ({})",
        gap.events,
        gap.bytes,
        clock_face(gap.from.since(Moment::ZERO)),
        clock_face(gap.to.since(Moment::ZERO)),
        gap.reason,
    );
    if let Ok(line) = RecordLine::of(&warning(gap.to, text.clone()), true) {
        sink.push([line]);
        let _ = sink.flush(false);
    }
    shared.say(Level::Info, text);
}
