//! Whether a call into NVML is under way and since when, and whether the watch is over: all that
//! the polling thread, its watchdog and the loop share.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The state shared between the threads of one watch.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    state: Mutex<PulseState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PulseState {
    stopped: bool,
    /// Since when a call has been under way.
    calling: Option<Instant>,
}

impl Pulse {
    fn lock(&self) -> MutexGuard<'_, PulseState> {
        // No code of ours can panic while it holds the lock; a poisoned one is as good.
        self.state.lock().unwrap_or_else(|held| held.into_inner())
    }

    /// Ends the watch; whoever rests is woken.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Waits for `duration`; returns whether the watch goes on.
    pub(super) fn rest(&self, duration: Duration) -> bool {
        let (state, _) = self
            .changed
            .wait_timeout_while(self.lock(), duration, |state| !state.stopped)
            .unwrap_or_else(|held| held.into_inner());
        !state.stopped
    }

    /// Makes a call that may hang, in sight of the watchdog.
    pub(super) fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        self.lock().calling = Some(Instant::now());
        let result = call();
        self.lock().calling = None;
        result
    }

    /// Whether a call has been under way for longer than `patience`.
    pub(super) fn hangs(&self, patience: Duration) -> bool {
        let calling = self.lock().calling;
        calling.is_some_and(|since| since.elapsed() > patience)
    }
}
