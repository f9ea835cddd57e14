//! A thread that writes on behalf of a loop which must not wait: to the keeper's log, to the user's
//! own streams, to the recording.
//!
//! A disk may hang and a terminal may be stopped with Ctrl-S. So the loop only puts bytes into a
//! bounded queue; the thread owns the [`Destination`] and waits for it. An [`OverflowPolicy`] decides what
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
//!
//! The thread: takes what waits, writes it, and follows the policy if that fails.
//!
//! What a background thread writes to.

mod queue;

use crate::units::Moment;
pub(crate) use queue::first_bytes;
use queue::{Queue, Unit};
use std::cell::Cell;
use std::io::{self, Write};
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

/// How often an idle destination is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// What a background thread writes to. Every call may take any time.
pub(crate) trait Destination: Send + 'static {
    /// Called before there is anything to write; an error ends the writing for good.
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Writes everything, or says how much was written and why not more.
    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteFailure>;

    /// What is written in place of what is missing.
    fn gap(&self, _: &Gap) -> Vec<u8> {
        Vec::new()
    }

    /// Whether [`Destination::look`] is to be called.
    fn looks(&self) -> bool {
        false
    }

    /// Called every few seconds while there is nothing to write: the file may have been removed.
    fn look(&mut self) {}

    /// Called after the last write.
    fn end(&mut self) {}
}

/// A write that failed, entirely or in part.
#[derive(Debug)]
pub(crate) struct WriteFailure {
    pub written: usize,
    pub error: io::Error,
    /// Whether retrying is useless.
    pub for_good: bool,
}

/// What is missing at one place.
#[derive(Debug, Default)]
pub(crate) struct Gap {
    pub lines: u64,
    pub bytes: u64,
    /// When the first and the last of the lines happened.
    pub from: Moment,
    pub to: Moment,
    /// The error, or `None` if the destination was too slow.
    pub reason: Option<String>,
}

impl Gap {
    fn add(&mut self, other: &Gap) {
        if other.lines > 0 {
            self.from = match self.lines {
                0 => other.from,
                _ => self.from.min(other.from),
            };
            self.to = self.to.max(other.to);
        }
        self.lines += other.lines;
        self.bytes += other.bytes;
    }
}

/// Writes everything; `written` says how much of it was, even after an error.
pub(crate) fn write_counted(
    to: &mut impl Write,
    bytes: &[u8],
    written: &mut usize,
) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match to.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                *written += n;
                rest = rest.get(n..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What happens when the queue is full or a write fails.
#[derive(Debug)]
pub(crate) enum OverflowPolicy {
    /// Nothing is dropped: the loop asks for [`BackgroundWriter::room`] before it pushes. This
    /// eventfd wakes it when there is room again, or when everything is written.
    Block { wake: OwnedFd },
    /// What does not fit, or could not be written, is dropped and counted, and a gap stands in its
    /// place. A failed write is tried again after `retry`.
    Drop { retry: Duration },
    /// As [`OverflowPolicy::Drop`], but lines that must be kept wait for the next try, up to `kept` bytes of them.
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
    /// Why it could not write the last of them.
    unwritten: Option<String>,
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
    pub fn start(
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
                unwritten: None,
            }),
            more: Condvar::new(),
            less: Condvar::new(),
            policy,
        });
        let theirs = shared.clone();
        std::thread::Builder::new()
            .name(name.into())
            .stack_size(STACK)
            .spawn(move || write_in_background(&theirs, destination))?;
        Ok(BackgroundWriter {
            shared,
            waited: Cell::new((Instant::now(), Duration::ZERO)),
            unannounced: Cell::new(false),
        })
    }

    /// How many bytes it takes now without dropping any. At 0 the loop is woken once there is room.
    pub fn room(&self) -> usize {
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

    pub fn push(&self, bytes: &[u8]) {
        self.take(bytes, Unit::Bytes);
    }

    /// Takes a line, which is written whole or not at all. One that must be kept (`keep`) may use more of
    /// the queue than others.
    pub fn push_line(&self, line: &[u8], keep: bool, at: Moment) {
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
    pub fn nudge(&self) {
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
    pub fn give_back(&self) {
        self.shared.lock().queue.give_back();
    }

    /// Whether everything is written, or never will be; the loop is woken once that is true.
    pub fn is_idle(&self) -> bool {
        let mut state = self.shared.lock();
        let idle = state.ended || (state.queue.is_empty() && !state.in_hand);
        state.wanted |= !idle;
        idle
    }

    /// Whether nothing is written any more: everything was, or a write has failed for good.
    pub fn has_ended(&self) -> bool {
        self.shared.lock().ended
    }

    pub fn news(&self) -> WriterNews {
        std::mem::take(&mut self.shared.lock().news)
    }

    /// Why the end of what was pushed is not written; `None` as long as the thread writes.
    pub fn unwritten(&self) -> Option<String> {
        self.shared.lock().unwritten.clone()
    }

    /// How many bytes wait to be written.
    pub fn waiting(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// Waits up to `limit` for the thread to write what it has and end; whether it did.
    pub fn close(&self, limit: Duration) -> bool {
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

/// The thread: takes what waits, writes it, and follows the policy if that fails.
fn write_in_background(shared: &Shared, mut destination: impl Destination) {
    if let Err(error) = destination.begin() {
        return end(shared, Some(error));
    }
    let mut piece = Vec::with_capacity(PIECE);
    let look = destination.looks().then_some(LOOK);
    while let Some(mut state) = something_to_write(shared, look) {
        if state.queue.is_empty() {
            drop(state);
            destination.look();
            continue;
        }
        let reason = state.failed.as_ref().map(|(_, reason)| reason.clone());
        let taken = state.queue.take(&destination, reason.as_ref(), &mut piece);
        state.in_hand = true;
        // A write that began before the end was in sight is not the last attempt.
        let is_last = state.closing;
        drop(state);
        // The loop may be waiting for room.
        shared.less.notify_all();
        let outcome = match piece.is_empty() {
            true => Ok(()),
            false => destination.write(&piece),
        };
        let mut state = shared.lock();
        match outcome {
            Ok(()) if state.failed.take().is_some() => {
                state.news.recovered = taken.into_iter().find_map(|(segment, _)| segment.missing());
            }
            Ok(()) => {}
            Err(failure) if failure.for_good => {
                drop(state);
                return end(shared, Some(failure.error));
            }
            Err(failure) => {
                let kept = shared.policy.kept();
                let dropped = (state.queue).give_up(taken, &piece, failure.written, kept);
                state.news.dropped += dropped;
                let reason = failure.error.to_string();
                if state.failed.replace((Instant::now(), reason)).is_none() {
                    state.news.failed = Some(failure.error);
                }
                shared.less.notify_all();
                if is_last {
                    break;
                }
            }
        }
        // A line may have been long.
        piece.shrink_to(PIECE);
    }
    destination.end();
    end(shared, None);
}

/// Waits until there is something to write and no retry to wait for, or it is time to look; `None` at
/// the end.
fn something_to_write(
    shared: &Shared,
    look: Option<Duration>,
) -> Option<MutexGuard<'_, WriterState>> {
    let mut state = shared.lock();
    state.in_hand = false;
    loop {
        if state.wanted && state.queue.len() <= state.queue.capacity() / 2 {
            state.wanted = false;
            wake(shared);
        }
        let rest = match state.closing {
            true => Duration::ZERO,
            false => state.rest(shared.policy.retry()),
        };
        match (state.queue.is_empty(), state.closing) {
            (true, true) => return None,
            (false, _) if rest.is_zero() => return Some(state),
            (true, false) | (false, _) => {}
        }
        shared.less.notify_all();
        state = if !rest.is_zero() {
            let wait = shared.more.wait_timeout(state, rest);
            wait.unwrap_or_else(PoisonError::into_inner).0
        } else if let Some(look) = look {
            let wait = shared.more.wait_timeout(state, look);
            let (state, timeout) = wait.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() && state.queue.is_empty() && !state.closing {
                return Some(state);
            }
            state
        } else {
            let wait = shared.more.wait(state);
            wait.unwrap_or_else(PoisonError::into_inner)
        };
    }
}

/// Gives up, or has finished: from here on everything is discarded.
fn end(shared: &Shared, error: Option<io::Error>) {
    let mut state = shared.lock();
    state.queue = Queue::new(0);
    state.in_hand = false;
    let last = state.failed.take().map(|(_, reason)| reason);
    state.unwritten = error.as_ref().map(io::Error::to_string).or(last);
    if error.is_some() {
        state.news.failed = error;
    }
    state.ended = true;
    shared.less.notify_all();
    wake(shared);
}

fn wake(shared: &Shared) {
    if let OverflowPolicy::Block { wake } = &shared.policy {
        // A counter that is full has woken them already.
        let _ = nix::unistd::write(wake, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests;
