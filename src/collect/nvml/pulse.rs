//! State shared by the polling thread, its watchdog and the event loop: since when a call into NVML
//! is in progress, and whether polling has ended.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub(super) struct Pulse {
    state: Mutex<PulseState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PulseState {
    stopped: bool,
    /// The start of the call in progress.
    calling: Option<Instant>,
}

impl Pulse {
    fn lock(&self) -> MutexGuard<'_, PulseState> {
        // None of our code can panic while it holds the lock, so a poisoned one is fine.
        self.state.lock().unwrap_or_else(|held| held.into_inner())
    }

    /// Ends polling and wakes waiting threads.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Waits for `duration`; returns whether to continue.
    pub(super) fn rest(&self, duration: Duration) -> bool {
        let (state, _) = self
            .changed
            .wait_timeout_while(self.lock(), duration, |state| !state.stopped)
            .unwrap_or_else(|held| held.into_inner());
        !state.stopped
    }

    /// Makes a call that may hang, observed by the watchdog.
    pub(super) fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        self.lock().calling = Some(Instant::now());
        let result = call();
        self.lock().calling = None;
        result
    }

    /// Whether a call has been in progress for longer than `patience`.
    pub(super) fn hangs(&self, patience: Duration) -> bool {
        let calling = self.lock().calling;
        calling.is_some_and(|since| since.elapsed() > patience)
    }
}
