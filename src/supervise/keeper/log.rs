//! The log: a raw copy of the output, kept by a thread of its own.
//!
//! The drain never waits for the disk. When the ring is full, or a write failed (ENOSPC, EDQUOT,
//! EIO, EROFS, ESTALE, EFBIG: containerd #12462 is what comes of giving up), bytes are dropped and
//! counted, and a line in the log says how many are missing where. A failed write is tried again
//! after a while. Nothing is synced: that would stall on a busy disk (cri-o #6743).

mod parts;

use super::ring;
use super::sink::STACK;
use parts::LogParts;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What waits to be written at most.
const CAPACITY: usize = 768 << 10;

/// How long the loop may wait for the thread in each second, when the ring is full: long enough for
/// a thread that only needs its turn on a busy processor, too short to be felt where the disk is
/// what is slow.
const PATIENCE: Duration = Duration::from_millis(20);

/// The most that goes into one write.
const PIECE: usize = 64 << 10;

/// The largest part. When one is full it becomes `NAME.1` and a new one is begun, so that a log
/// never holds more than two parts: weeks of output must not fill a disk.
pub const PART: u64 = 256 << 20;

/// The writing end, held by the loop.
pub struct Log {
    shared: Arc<Shared>,
    waited: Cell<(Instant, Duration)>,
    unsaid: Cell<bool>,
}

struct Shared {
    state: Mutex<State>,
    more: Condvar,
    idle: Condvar,
    retry: Duration,
}

struct State {
    ring: VecDeque<u8>,
    in_hand: bool,
    /// Bytes missing since the last byte in the ring, for the line that will say so.
    gap: u64,
    /// Bytes missing that have not been reported yet.
    unreported: u64,
    failed: Option<Instant>,
    error: Option<io::Error>,
    /// Whether there is no log, for its file is somebody else's.
    refused: bool,
    closing: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn marker(missing: u64) -> String {
    format!("\r\n[oomph: {missing} bytes of output are missing here]\r\n")
}

impl State {
    fn lose(&mut self, bytes: u64) {
        self.gap += bytes;
        self.unreported += bytes;
    }

    fn has_room(&self, bytes: usize) -> bool {
        // With room for the line that tells of a gap.
        self.ring.len() + bytes + 128 <= CAPACITY
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.ring.capacity() == 0 {
            // All at once: a ring that grows is copied, and held twice meanwhile.
            self.ring.reserve_exact(CAPACITY);
        }
        if self.gap > 0 {
            let marker = marker(self.gap);
            if self.ring.len() + marker.len() + bytes.len() > CAPACITY {
                return self.lose(bytes.len() as u64);
            }
            self.gap = 0;
            self.ring.extend(marker.as_bytes());
        }
        if self.ring.len() + bytes.len() > CAPACITY {
            return self.lose(bytes.len() as u64);
        }
        self.ring.extend(bytes);
    }
}

impl Log {
    /// Starts the thread that keeps the log at `path`, in parts of `part` bytes. The file itself
    /// may fail to open: that is tried again like a failed write, unless there is something of that
    /// name; then no log is kept, and [`Log::losses`] gives the reason, of the kind
    /// `AlreadyExists`.
    pub fn start(path: PathBuf, part: u64, retry: Duration) -> io::Result<Log> {
        Log::of(LogParts::new(path, part), retry)
    }

    fn of(parts: LogParts, retry: Duration) -> io::Result<Log> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                ring: VecDeque::new(),
                in_hand: false,
                gap: 0,
                unreported: 0,
                failed: None,
                error: None,
                refused: false,
                closing: false,
            }),
            more: Condvar::new(),
            idle: Condvar::new(),
            retry,
        });
        let theirs = shared.clone();
        std::thread::Builder::new()
            .name("oomph-log".into())
            .stack_size(STACK)
            .spawn(move || keep(&theirs, parts))?;
        Ok(Log {
            shared,
            waited: Cell::new((Instant::now(), Duration::ZERO)),
            unsaid: Cell::new(false),
        })
    }

    /// Takes a copy of some output, or counts it as missing.
    pub fn push(&self, bytes: &[u8]) {
        let mut state = self.shared.lock();
        if let Some(since) = state.failed {
            if since.elapsed() < self.shared.retry {
                return state.lose(bytes.len() as u64);
            }
            state.failed = None;
        }
        if !state.has_room(bytes.len()) {
            state = self.wait_for_room(state, bytes.len());
        }
        if state.refused {
            return;
        }
        state.take(bytes);
        self.unsaid.set(true);
        if state.ring.len() >= PIECE {
            drop(state);
            self.nudge();
        }
    }

    /// Gives back the memory that only a flood of output needs.
    pub fn give_back(&self) {
        let mut state = self.shared.lock();
        if state.ring.is_empty() {
            state.ring = VecDeque::new();
        }
    }

    /// Lets the thread know of what was pushed. Not done for each push: waking it for every line
    /// would cost more than writing the line.
    pub fn nudge(&self) {
        if self.unsaid.take() {
            self.shared.more.notify_one();
        }
    }

    /// Waits for the thread, as long as there is patience left for this second.
    fn wait_for_room<'a>(
        &self,
        state: MutexGuard<'a, State>,
        bytes: usize,
    ) -> MutexGuard<'a, State> {
        let now = Instant::now();
        let (mut since, mut waited) = self.waited.get();
        if now.duration_since(since) >= Duration::from_secs(1) {
            (since, waited) = (now, Duration::ZERO);
        }
        let left = PATIENCE.saturating_sub(waited);
        let (state, _) = self
            .shared
            .idle
            .wait_timeout_while(state, left, |state| {
                state.failed.is_none() && !state.has_room(bytes)
            })
            .unwrap_or_else(PoisonError::into_inner);
        self.waited.set((since, waited + now.elapsed()));
        state
    }

    /// Bytes missing since this was last asked, and why, where a write failed.
    pub fn losses(&self) -> (u64, Option<io::Error>) {
        let mut state = self.shared.lock();
        (std::mem::take(&mut state.unreported), state.error.take())
    }

    /// Lets the thread write what it has, for no longer than `limit`.
    pub fn close(self, limit: Duration) {
        let mut state = self.shared.lock();
        if state.refused {
            return;
        }
        if state.gap > 0 {
            // One last attempt to say what is missing, even on a disk that was full.
            let marker = marker(state.gap);
            state.gap = 0;
            state.failed = None;
            state.ring.extend(marker.as_bytes());
        }
        state.closing = true;
        self.shared.more.notify_one();
        let _ = self
            .shared
            .idle
            .wait_timeout_while(state, limit, |state| {
                state.failed.is_none() && (state.in_hand || !state.ring.is_empty())
            })
            .unwrap_or_else(PoisonError::into_inner);
    }
}

fn keep(shared: &Shared, mut parts: LogParts) {
    // At once, so that a name that is taken is known before there is anything to write. Any other
    // failure is one of the first write, if it lasts until then.
    if let Err(error) = parts.open()
        && error.kind() == io::ErrorKind::AlreadyExists
    {
        return refuse(shared, error);
    }
    let mut piece: Vec<u8> = Vec::with_capacity(PIECE);
    loop {
        {
            let mut state = shared.lock();
            state.in_hand = false;
            while state.ring.is_empty() {
                shared.idle.notify_all();
                if state.closing {
                    return;
                }
                state = shared
                    .more
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            ring::take(&mut state.ring, PIECE, &mut piece);
            state.in_hand = true;
            // The loop may be waiting for room.
            shared.idle.notify_all();
        }
        if let Err((written, error)) = parts.write(&piece) {
            if error.kind() == io::ErrorKind::AlreadyExists {
                return refuse(shared, error);
            }
            let mut state = shared.lock();
            let lost = piece.len().saturating_sub(written) + state.ring.len();
            // What is missing follows what was written, so the gap's line comes before what is
            // pushed from now on.
            state.ring.clear();
            state.lose(lost as u64);
            state.failed = Some(Instant::now());
            state.error = Some(error);
            shared.idle.notify_all();
        }
    }
}

/// Gives the log up.
fn refuse(shared: &Shared, error: io::Error) {
    let mut state = shared.lock();
    state.ring = VecDeque::new();
    state.gap = 0;
    state.in_hand = false;
    state.error = Some(error);
    state.refused = true;
    shared.idle.notify_all();
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
