//! The devices as the driver sees them, asked through NVML from a thread of its own.
//!
//! NVML is a foreign library: it can be missing, refuse, hang in a call for ever, lose a device, or
//! take the process down. All but the last end in an event that says so, and the rest goes on;
//! against the last there is the keeper. Nothing here waits for NVML: not the loop, not the exit.

mod outbox;
mod owners;
mod poll;
mod pulse;
mod reading;
mod reason;

use crate::event::{Clock, Event, NvmlState, What};
use outbox::Outbox;
use pulse::Pulse;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// How NVML is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How often each device is read.
    pub interval: Duration,
    /// The library to load in place of the driver's `libnvidia-ml.so.1`; for tests.
    pub library: Option<PathBuf>,
    /// How long after a failure NVML, or a lost device, is asked again.
    pub retry: Duration,
    /// How long a call may take before NVML counts as stale.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            interval: Duration::from_millis(500),
            library: None,
            // A driver that was updated under a running machine is whole again after a reload of
            // its modules, which nobody does twice a minute.
            retry: Duration::from_secs(60),
            patience: Duration::from_secs(3),
        }
    }
}

/// A watch over the devices; it ends when this is dropped, without waiting for a call that hangs.
#[derive(Debug)]
pub struct NvmlWatch {
    pulse: Arc<Pulse>,
}

impl Drop for NvmlWatch {
    fn drop(&mut self) {
        self.pulse.stop();
    }
}

/// Begins to watch. Readings that `sender` has no room for are dropped and counted; changes of
/// [`NvmlState`] wait for room.
pub fn watch(options: Options, clock: Clock, sender: Sender<Event>) -> NvmlWatch {
    let pulse = Arc::new(Pulse::default());
    let outbox = Arc::new(Outbox::new(clock, sender));
    let watch = NvmlWatch {
        pulse: Arc::clone(&pulse),
    };
    let (patience, dog_pulse, dog_outbox) =
        (options.patience, Arc::clone(&pulse), Arc::clone(&outbox));
    let failed_outbox = Arc::clone(&outbox);
    // Without its watchdog the watch still works; only a hanging call would go unsaid.
    let _ = spawn("nvml-watchdog", move || {
        bark(patience, &dog_pulse, &dog_outbox);
    });
    if let Err(error) = spawn("nvml", move || poll::run(&options, &pulse, &outbox)) {
        failed_outbox.say(NvmlState::Unavailable {
            reason: format!("NVML is off: cannot start its thread ({error})"),
        });
    }
    watch
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .map(drop)
}

/// Says once of each call that hangs that NVML is stale; what the call brings when it returns after
/// all is said by the thread that made it.
fn bark(patience: Duration, pulse: &Pulse, outbox: &Outbox) {
    while pulse.rest(patience / 4) {
        if pulse.hangs(patience) {
            outbox.say(NvmlState::Stale);
            outbox.flush();
        }
    }
}

fn state(state: NvmlState) -> What {
    What::Nvml(state)
}
