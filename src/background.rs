//! A thread that writes on behalf of a loop which must not wait: to the keeper's log, to the user's
//! own streams, to the recording.
//!
//! A disk may hang and a terminal may be stopped with Ctrl-S. So the loop only puts bytes into a
//! bounded queue; the thread owns the destination and waits for it. An [`OverflowPolicy`] decides what
//! happens when the queue is full or a write fails. The keeper depends on this: nothing here panics,
//! and memory is bounded.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unreachable
    )
)]

mod destination;
mod queue;
pub(crate) mod ring;
mod thread;

pub(crate) use destination::{Destination, Gap, WriteFailure, write_counted};

use crate::units::Moment;
use queue::{Queue, Unit};
use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The maximum of one write, unless a line is longer. Small enough that a slow terminal takes it
/// soon.
const PIECE: usize = 32 << 10;

/// The stack of a thread that only copies.
pub(crate) const STACK: usize = 128 << 10;

/// How long pushes may wait in each second if the queue is full and the policy is to drop: long enough
/// for a thread that only needs its turn on a busy CPU, too short to notice if the disk is slow.
const PATIENCE: Duration = Duration::from_millis(20);

/// What happens when the queue is full or a write fails.
#[derive(Debug)]
pub(crate) enum OverflowPolicy {
    /// Nothing is dropped: the loop asks for [`BackgroundWriter::room`] before it pushes. This
    /// eventfd wakes it when there is room again, or when everything is written.
    Block { wake: OwnedFd },
    /// What does not fit, or could not be written, is dropped and counted, and a gap stands in its
    /// place. A failed write is tried again after `retry`.
    Drop { retry: Duration },
    /// The same, but lines that must be kept wait for the next try, up to `kept` bytes of them.
    Retry { retry: Duration, kept: usize },
}

impl OverflowPolicy {
    fn retry(&self) -> Duration {
        match self {
            OverflowPolicy::Block { .. } => Duration::ZERO,
            OverflowPolicy::Drop { retry } | OverflowPolicy::Retry { retry, .. } => *retry,
        }
    }

    fn kept(&self) -> usize {
        match self {
            OverflowPolicy::Block { .. } | OverflowPolicy::Drop { .. } => 0,
            OverflowPolicy::Retry { kept, .. } => *kept,
        }
    }
}

/// What happened since the last query.
#[derive(Debug, Default)]
pub(crate) struct WriterNews {
    /// Bytes that were dropped.
    pub dropped: u64,
    /// The queue was full: the destination is too slow.
    pub slow: bool,
    /// Writing has begun to fail.
    pub failed: Option<io::Error>,
    /// Writing works again; this is missing.
    pub recovered: Option<Gap>,
}

#[derive(Debug)]
pub(crate) struct BackgroundWriter {
    shared: Arc<Shared>,
    /// The start of the current second, and how long pushes have waited in it.
    waited: Cell<(Instant, Duration)>,
    /// Something was pushed without waking the thread.
    unannounced: Cell<bool>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<WriterState>,
    /// There is something to write.
    more: Condvar,
    /// There is room, or the thread has ended.
    less: Condvar,
    policy: OverflowPolicy,
}

#[derive(Debug)]
struct WriterState {
    queue: Queue,
    /// A write is in progress.
    in_hand: bool,
    /// The loop waits to be woken.
    wanted: bool,
    /// When the last write failed, and why, until one succeeds.
    failed: Option<(Instant, String)>,
    /// The last push found no room.
    full: bool,
    news: WriterNews,
    closing: bool,
    /// The thread has ended; pushes are discarded.
    ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, WriterState> {
        // Nothing here panics, so a poisoned lock is fine.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self, state: &WriterState, bytes: usize, keep: bool) -> bool {
        let room = match (&self.policy, keep) {
            (OverflowPolicy::Block { .. }, _) => usize::MAX,
            (OverflowPolicy::Retry { kept, .. }, true) if state.failed.is_some() => *kept,
            (_, true) => state.queue.capacity() * 2,
            (_, false) => state.queue.capacity(),
        };
        state.queue.len().saturating_add(bytes) <= room
    }
}

impl WriterState {
    /// The time until a failed write is retried.
    fn rest(&self, retry: Duration) -> Duration {
        (self.failed.as_ref()).map_or(Duration::ZERO, |(since, _)| {
            retry.saturating_sub(since.elapsed())
        })
    }

    fn drop_unit(&mut self, unit: Unit, bytes: usize) {
        self.news.dropped += bytes as u64;
        self.queue.drop_unit(unit, bytes, self.failed.is_some());
    }
}

impl BackgroundWriter {
    /// Starts a thread of this name that writes to `destination`; at most `capacity` bytes wait.
    pub(crate) fn start(
        name: &str,
        capacity: usize,
        policy: OverflowPolicy,
        destination: impl Destination,
    ) -> io::Result<BackgroundWriter> {
        let shared = Arc::new(Shared {
            state: Mutex::new(WriterState {
                queue: Queue::new(capacity),
                in_hand: false,
                wanted: false,
                failed: None,
                full: false,
                news: WriterNews::default(),
                closing: false,
                ended: false,
            }),
            more: Condvar::new(),
            less: Condvar::new(),
            policy,
        });
        let theirs = shared.clone();
        std::thread::Builder::new()
            .name(name.into())
            .stack_size(STACK)
            .spawn(move || thread::write(&theirs, destination))?;
        Ok(BackgroundWriter {
            shared,
            waited: Cell::new((Instant::now(), Duration::ZERO)),
            unannounced: Cell::new(false),
        })
    }

    /// How many bytes it takes now without dropping any. At 0 the loop is woken once there is room.
    pub(crate) fn room(&self) -> usize {
        let mut state = self.shared.lock();
        if state.ended {
            return usize::MAX;
        }
        let capacity = state.queue.capacity();
        let room = capacity.saturating_sub(state.queue.len());
        // Little room counts as none: a few large pieces are better than many small ones.
        if room < capacity / 4 {
            state.wanted = true;
            return 0;
        }
        room
    }

    pub(crate) fn push(&self, bytes: &[u8]) {
        self.take(bytes, Unit::Bytes);
    }

    /// Takes a line, which is written whole or not at all. One that must be kept (`keep`) may use more of
    /// the queue than others.
    pub(crate) fn push_line(&self, line: &[u8], keep: bool, at: Moment) {
        self.take(line, Unit::Line { keep, at });
    }

    fn take(&self, bytes: &[u8], unit: Unit) {
        let keep = matches!(unit, Unit::Line { keep: true, .. });
        let mut state = self.shared.lock();
        if state.ended {
            return;
        }
        if !keep && !state.rest(self.shared.policy.retry()).is_zero() {
            return state.drop_unit(unit, bytes.len());
        }
        if let OverflowPolicy::Drop { .. } = self.shared.policy
            && !self.shared.has_room(&state, bytes.len(), keep)
        {
            state = self.wait_for_room(state, bytes.len());
            if state.ended {
                return;
            }
        }
        let fits = self.shared.has_room(&state, bytes.len(), keep);
        if fits {
            state.queue.push(unit, bytes);
        } else {
            state.news.slow |= !state.full && state.failed.is_none();
            state.drop_unit(unit, bytes.len());
        }
        state.full = !fits;
        self.unannounced.set(true);
        if state.queue.len() >= PIECE {
            drop(state);
            self.nudge();
        }
    }

    /// Wakes the thread. Not done by each push: waking it for every line would cost more than writing
    /// the line.
    pub(crate) fn nudge(&self) {
        if self.unannounced.take() {
            self.shared.more.notify_one();
        }
    }

    /// Waits for the thread, within [`PATIENCE`].
    fn wait_for_room<'a>(
        &self,
        state: MutexGuard<'a, WriterState>,
        bytes: usize,
    ) -> MutexGuard<'a, WriterState> {
        let now = Instant::now();
        let (mut since, mut waited) = self.waited.get();
        if now.duration_since(since) >= Duration::from_secs(1) {
            (since, waited) = (now, Duration::ZERO);
        }
        let left = PATIENCE.saturating_sub(waited);
        let (state, _) = self
            .shared
            .less
            .wait_timeout_while(state, left, |state| {
                state.failed.is_none() && !state.ended && !self.shared.has_room(state, bytes, false)
            })
            .unwrap_or_else(PoisonError::into_inner);
        self.waited.set((since, waited + now.elapsed()));
        state
    }

    /// Frees the memory that only a flood needs.
    pub(crate) fn give_back(&self) {
        self.shared.lock().queue.give_back();
    }

    /// Whether everything is written, or never will be; the loop is woken once that is true.
    pub(crate) fn is_idle(&self) -> bool {
        let mut state = self.shared.lock();
        let idle = state.ended || (state.queue.is_empty() && !state.in_hand);
        state.wanted |= !idle;
        idle
    }

    pub(crate) fn news(&self) -> WriterNews {
        std::mem::take(&mut self.shared.lock().news)
    }

    /// How many bytes wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// Waits up to `limit` for the thread to write what it has and end; whether it did.
    pub(crate) fn close(&self, limit: Duration) -> bool {
        let mut state = self.shared.lock();
        state.closing = true;
        self.shared.more.notify_one();
        let (state, _) = self
            .shared
            .less
            .wait_timeout_while(state, limit, |state| !state.ended)
            .unwrap_or_else(PoisonError::into_inner);
        state.ended
    }
}

/// The thread writes what it has and ends, without being waited for.
impl Drop for BackgroundWriter {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.more.notify_one();
    }
}

#[cfg(test)]
mod tests;
