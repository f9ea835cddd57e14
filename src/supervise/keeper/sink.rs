//! A writer for one of the user's own streams, in a thread of its own.
//!
//! The user's descriptors are shared with the user's other processes, so they must not be made
//! non-blocking; a thread may block in their stead. Nothing is ever dropped here: when the ring is
//! full the source stops being read, and the trainer feels the back-pressure that it would have
//! felt without us. A stream that is gone (`oomph … | head -1`) swallows the rest.

use super::descriptor::{self, Put};
use super::ring;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What waits to be written at most.
const CAPACITY: usize = 128 << 10;

/// The most that goes into one write. Small enough to be taken from a slow terminal's ring soon.
const PIECE: usize = 32 << 10;

/// The stack of a thread that only copies.
pub const STACK: usize = 128 << 10;

/// The writing end, held by the loop.
pub struct StreamWriter {
    shared: Arc<Shared>,
    unsaid: Cell<bool>,
}

struct Shared {
    state: Mutex<State>,
    more: Condvar,
    wake: OwnedFd,
}

struct State {
    ring: VecDeque<u8>,
    /// Taken from the ring and being written.
    in_hand: usize,
    /// The loop found no room and waits to be woken.
    wanted: bool,
    broken: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked would have left the bytes as they are; nothing here panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamWriter {
    /// Starts the thread that writes to `to`; `wake` is told when there is room again, or when
    /// everything is written.
    pub fn start(to: BorrowedFd<'static>, wake: OwnedFd) -> io::Result<StreamWriter> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                ring: VecDeque::new(),
                in_hand: 0,
                wanted: false,
                broken: false,
            }),
            more: Condvar::new(),
            wake,
        });
        let theirs = shared.clone();
        std::thread::Builder::new()
            .name("oomph-writer".into())
            .stack_size(STACK)
            .spawn(move || write_on(&theirs, to))?;
        Ok(StreamWriter {
            shared,
            unsaid: Cell::new(false),
        })
    }

    /// How many bytes it takes now. At 0 the loop is woken once there is room.
    pub fn room(&self) -> usize {
        let mut state = self.shared.lock();
        if state.broken {
            return usize::MAX;
        }
        let room = CAPACITY.saturating_sub(state.ring.len());
        // Less than a pipe's worth is none: better few large pieces than many small ones.
        if room < CAPACITY / 4 {
            state.wanted = true;
            return 0;
        }
        room
    }

    /// Takes bytes, never more than [`StreamWriter::room`] said.
    pub fn push(&self, bytes: &[u8]) {
        let mut state = self.shared.lock();
        if !state.broken {
            if state.ring.capacity() == 0 {
                state.ring.reserve_exact(CAPACITY);
            }
            state.ring.extend(bytes);
            self.unsaid.set(true);
            if state.ring.len() >= PIECE {
                drop(state);
                self.nudge();
            }
        }
    }

    /// Gives back the memory that only a flood of output needs.
    pub fn give_back(&self) {
        let mut state = self.shared.lock();
        if state.ring.is_empty() {
            state.ring = VecDeque::new();
        }
    }

    /// Lets the thread know of what was pushed; as for the log, not for each push.
    pub fn nudge(&self) {
        if self.unsaid.take() {
            self.shared.more.notify_one();
        }
    }

    /// Whether all is written that ever will be; the loop is woken when it comes to that.
    pub fn is_idle(&self) -> bool {
        let mut state = self.shared.lock();
        let idle = state.broken || (state.ring.is_empty() && state.in_hand == 0);
        state.wanted |= !idle;
        idle
    }
}

fn write_on(shared: &Shared, to: BorrowedFd<'_>) {
    let mut piece: Vec<u8> = Vec::with_capacity(PIECE);
    loop {
        {
            let mut state = shared.lock();
            state.in_hand = 0;
            if state.wanted && (state.ring.is_empty() || state.ring.len() <= CAPACITY / 2) {
                state.wanted = false;
                descriptor::wake(&shared.wake);
            }
            while state.ring.is_empty() {
                state = shared
                    .more
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            ring::take(&mut state.ring, PIECE, &mut piece);
            state.in_hand = piece.len();
        }
        if write_all(to, &piece).is_err() {
            let mut state = shared.lock();
            state.broken = true;
            state.ring.clear();
            state.in_hand = 0;
            descriptor::wake(&shared.wake);
            return;
        }
    }
}

/// Writes everything, however long that takes.
pub fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match descriptor::write(to, bytes) {
            Put::Bytes(n) => bytes = bytes.get(n..).unwrap_or_default(),
            // Somebody else made the user's stream non-blocking. Waiting in poll serves for that;
            // the limit is for a poll that returns at once without cause.
            Put::Full => {
                let mut wait = [PollFd::new(to, PollFlags::POLLOUT)];
                let _ = poll(&mut wait, PollTimeout::from(1000u16));
            }
            Put::Broken(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Writes what a terminal takes within `limit`; for last words that nobody may need.
pub fn write_within(to: BorrowedFd<'_>, mut bytes: &[u8], limit: Duration) {
    let began = std::time::Instant::now();
    while !bytes.is_empty() && began.elapsed() < limit {
        match descriptor::write(to, bytes) {
            Put::Bytes(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Put::Full => {
                let mut wait = [PollFd::new(to, PollFlags::POLLOUT)];
                let _ = poll(&mut wait, PollTimeout::from(50u16));
            }
            Put::Broken(_) => return,
        }
    }
}
