//! The devices as seen by the driver, read through NVML on a separate thread.
//!
//! NVML is a foreign library: it may be missing, refuse, hang, lose a device or crash the process.
//! A crash is survived by the keeper; everything else ends in an event that says so, and the rest
//! continues. Nothing waits for NVML here: neither the event loop nor the exit.

mod outbox;
mod owners;
mod poll;
mod pulse;
mod reading;
mod reason;
mod survey;

pub use survey::{NoSurvey, Survey, SurveyedDevice, survey};

use crate::event::{Clock, Event, EventKind, NvmlState};
use outbox::Outbox;
use pulse::Pulse;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// How NVML is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The time between two readings of a device.
    pub interval: Duration,
    /// The library to load instead of the driver's `libnvidia-ml.so.1`; for tests.
    pub library: Option<PathBuf>,
    /// The time before NVML, or a lost device, is tried again after a failure.
    pub retry: Duration,
    /// The duration of a call from which NVML counts as stale.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            interval: Duration::from_millis(500),
            library: None,
            // A driver that was updated on a running machine only works again after its modules are
            // reloaded, which takes longer than that.
            retry: Duration::from_secs(60),
            patience: Duration::from_secs(3),
        }
    }
}

/// Polls the devices until it is dropped; dropping does not wait for a call that hangs.
#[derive(Debug)]
pub struct NvmlWatch {
    pulse: Arc<Pulse>,
}

impl Drop for NvmlWatch {
    fn drop(&mut self) {
        self.pulse.stop();
    }
}

/// Starts polling. Readings that `sender` has no room for are dropped and counted; changes of
/// [`NvmlState`] wait for room.
pub fn watch(options: Options, clock: Clock, sender: Sender<Event>) -> NvmlWatch {
    let pulse = Arc::new(Pulse::default());
    let outbox = Arc::new(Outbox::new(clock, sender));
    let watch = NvmlWatch {
        pulse: Arc::clone(&pulse),
    };
    let (patience, watchdog_pulse, watchdog_outbox) =
        (options.patience, Arc::clone(&pulse), Arc::clone(&outbox));
    let failed_outbox = Arc::clone(&outbox);
    // Without its watchdog polling still works; only a hanging call would not be reported.
    let _ = spawn("nvml-watchdog", move || {
        report_hanging_calls(patience, &watchdog_pulse, &watchdog_outbox);
    });
    if let Err(error) = spawn("nvml", move || poll::run(&options, &pulse, &outbox)) {
        failed_outbox.report_state(NvmlState::Unavailable {
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

/// Reports each call that hangs once, as NVML being stale; if the call returns after all, its own
/// thread reports the result.
fn report_hanging_calls(patience: Duration, pulse: &Pulse, outbox: &Outbox) {
    while pulse.rest(patience / 4) {
        if pulse.hangs(patience) {
            outbox.report_state(NvmlState::Stale);
            outbox.flush();
        }
    }
}

fn state(state: NvmlState) -> EventKind {
    EventKind::Nvml(state)
}
