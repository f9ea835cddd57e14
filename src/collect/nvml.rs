//! The devices as seen by the driver, read through NVML on a separate thread.
//!
//! NVML is a foreign library: it may be missing, refuse, hang, lose a device or crash the process.
//! A crash is survived by the keeper; everything else ends in an event that says so, and the rest
//! continues. Nothing waits for NVML here: neither the event loop nor the exit.

mod outbox;
mod reading;
mod survey;

pub use reading::NvmlProblem;
pub use survey::{NoSurvey, Survey, SurveyedDevice, survey};

use crate::event::{Clock, Event, EventKind, NvmlState};
use crate::units::{Pid, Uuid};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use outbox::Outbox;
use reading::{DeviceAnswer, Owners, SeldomAsked, WatchedDevice, problem};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
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
    if let Err(error) = spawn("nvml", move || run(&options, &pulse, &outbox)) {
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
    while pulse.rest(patience / 2) {
        if pulse.hangs(patience) {
            outbox.report_state(NvmlState::Stale);
            outbox.flush();
        }
    }
}

fn state(state: NvmlState) -> EventKind {
    EventKind::Nvml(state)
}

/// How often the number of devices is checked.
const RECOUNT: Duration = Duration::from_secs(5);

/// Rounds in which no device's memory has changed, after which they come more rarely by this factor: a steady
/// training, or a device that nobody uses, has nothing new ten times a second.
const QUIET_ROUNDS: u32 = 20;

const QUIET_FACTOR: u32 = 5;

/// The longest that this makes them: a long interval is not made longer.
const LONGEST_QUIET: Duration = Duration::from_millis(500);

/// More devices than any machine has.
const MOST_DEVICES: u32 = 256;

/// `NVML_DEVICE_MIG_ENABLE` of nvml.h.
const MIG_ENABLED: u32 = 1;

/// Polls until it is stopped. NVML is tried again after a failure: a driver may be loaded later, or
/// work again after an update.
fn run(options: &Options, pulse: &Pulse, outbox: &Outbox) {
    loop {
        match pulse.call(|| start(options)) {
            Ok(nvml) => {
                PollRound::new(&nvml, options, pulse, outbox).run();
                // The last call; it may hang like any other, and nothing waits for it.
                pulse.call(|| drop(nvml));
            }
            Err(error) => outbox.report_state(NvmlState::Unavailable {
                reason: problem(&error).to_string(),
            }),
        }
        if !rest(options.retry, options, pulse, outbox) {
            return;
        }
    }
}

pub(super) fn start(options: &Options) -> Result<Nvml, NvmlError> {
    match &options.library {
        Some(path) => Nvml::builder().lib_path(path.as_os_str()).init(),
        None => Nvml::init(),
    }
}

/// Waits while sending what is queued. Returns whether to continue.
fn rest(duration: Duration, options: &Options, pulse: &Pulse, outbox: &Outbox) -> bool {
    let end = Instant::now() + duration;
    loop {
        outbox.flush();
        let left = end.saturating_duration_since(Instant::now());
        let nap = match outbox.is_waiting() {
            true => left.min(options.interval),
            false => left,
        };
        if outbox.is_closed() || !pulse.rest(nap) {
            return false;
        }
        if left.is_zero() {
            return true;
        }
    }
}

/// A device that is polled.
struct WatchedSlot<'nvml> {
    device: WatchedDevice<'nvml>,
    /// When it was last reported lost; it is retried after a while.
    lost_at: Option<Instant>,
}

impl<'nvml> WatchedSlot<'nvml> {
    fn new(device: WatchedDevice<'nvml>) -> WatchedSlot<'nvml> {
        WatchedSlot {
            device,
            lost_at: None,
        }
    }
}

/// The devices of one initialised NVML.
struct PollRound<'a, 'nvml> {
    nvml: &'nvml Nvml,
    options: &'a Options,
    pulse: &'a Pulse,
    outbox: &'a Outbox,
    devices: Vec<WatchedSlot<'nvml>>,
    owners: Owners,
    count: u32,
    counted: Instant,
    /// Rounds in a row in which no device's memory has changed.
    quiet: u32,
}

impl<'a, 'nvml> PollRound<'a, 'nvml> {
    fn new(
        nvml: &'nvml Nvml,
        options: &'a Options,
        pulse: &'a Pulse,
        outbox: &'a Outbox,
    ) -> PollRound<'a, 'nvml> {
        PollRound {
            nvml,
            options,
            pulse,
            outbox,
            devices: Vec::new(),
            owners: Owners::default(),
            count: 0,
            counted: Instant::now(),
            quiet: 0,
        }
    }

    /// Reads all devices in rounds, until polling ends or NVML must be reinitialised.
    fn run(&mut self) {
        let driver = self.pulse.call(|| self.nvml.sys_driver_version());
        let driver = driver.unwrap_or_else(|_| "unknown".into());
        if !self.recount(true) {
            return;
        }
        let mut next = Instant::now();
        loop {
            if self.counted.elapsed() >= RECOUNT.min(self.pause() * 10) && !self.recount(false) {
                return;
            }
            self.outbox.report_state(NvmlState::Live {
                driver: driver.clone(),
                devices: self.count,
            });
            if !self.read_all() {
                return;
            }
            // The time lost in a slow round is not made up for.
            next = (next + self.pause()).max(Instant::now());
            let nap = next.saturating_duration_since(Instant::now());
            if self.outbox.is_closed() || !self.pulse.rest(nap) {
                return;
            }
        }
    }

    /// The time between this round and the next.
    fn pause(&self) -> Duration {
        let interval = self.options.interval;
        match self.quiet >= QUIET_ROUNDS {
            true => interval.max((interval * QUIET_FACTOR).min(LONGEST_QUIET)),
            false => interval,
        }
    }

    /// Checks the number of devices, and lists them if it changed. Returns whether NVML answers.
    fn recount(&mut self, first: bool) -> bool {
        self.counted = Instant::now();
        let count = match self.pulse.call(|| self.nvml.device_count()) {
            Ok(count) => count,
            Err(error) => {
                self.outbox.report_state(NvmlState::Unavailable {
                    reason: problem(&error).to_string(),
                });
                return false;
            }
        };
        if first || count != self.count {
            self.count = count;
            self.look_up(count);
        }
        true
    }

    fn look_up(&mut self, count: u32) {
        let (pulse, outbox, nvml) = (self.pulse, self.outbox, self.nvml);
        let mut before = std::mem::take(&mut self.devices);
        // A number that no machine has means a broken library.
        for index in 0..count.min(MOST_DEVICES) {
            match pulse.call(|| nvml.device_by_index(index).and_then(|d| watched(d, index))) {
                Ok(devices) => {
                    before.retain(|old| devices.iter().all(|new| new.uuid != old.device.uuid));
                    self.devices
                        .extend(devices.into_iter().map(WatchedSlot::new));
                }
                // A known device is still polled: it will report that it is lost.
                Err(_) if before.iter().any(|old| old.device.index == index) => {
                    let known = before.extract_if(.., |old| old.device.index == index);
                    self.devices.extend(known);
                }
                Err(error) => outbox.note(format!("cannot read GPU {index}: {error}")),
            }
        }
        for old in before {
            outbox.send_surely(EventKind::Device(
                old.device.silent(Some("no longer there")),
            ));
        }
    }

    /// Reads each device once. Returns whether NVML is still initialised. A call that hangs holds back the
    /// readings of its round; that NVML is stale is told meanwhile.
    fn read_all(&mut self) -> bool {
        let mut pids: Vec<Pid> = Vec::new();
        let mut round = Vec::with_capacity(self.devices.len());
        self.quiet = self.quiet.saturating_add(1);
        for WatchedSlot { device, lost_at } in &mut self.devices {
            if lost_at.is_some_and(|at| at.elapsed() < self.options.retry) {
                continue;
            }
            let before = device.seldom.used;
            match self.pulse.call(|| device.ask(&mut self.owners)) {
                DeviceAnswer::Reading(reading) => {
                    *lost_at = None;
                    if reading.used != before {
                        self.quiet = 0;
                    }
                    let processes = reading.processes.iter().flatten();
                    pids.extend(processes.map(|process| process.pid));
                    round.push(self.outbox.read_now(EventKind::Device(reading)));
                }
                DeviceAnswer::Lost(reading) => {
                    *lost_at = Some(Instant::now());
                    self.outbox.send_surely(EventKind::Device(reading));
                }
                DeviceAnswer::Uninitialized => {
                    self.outbox.readings(round);
                    return false;
                }
            }
        }
        self.outbox.readings(round);
        self.owners.keep(&pids);
        true
    }
}

/// The device at `index`, or its MIG instances: a program gets an instance's memory and sees its
/// UUID.
fn watched<'nvml>(
    device: Device<'nvml>,
    index: u32,
) -> Result<Vec<WatchedDevice<'nvml>>, NvmlError> {
    let slices = slices(&device);
    if slices.is_empty() {
        let uuid = device.uuid()?;
        return Ok(vec![WatchedDevice {
            name: shown_name(&device),
            uuid: Uuid::new(&uuid),
            sensors: None,
            device,
            index,
            seldom: SeldomAsked::default(),
        }]);
    }
    let whole = |slice: Device<'nvml>| {
        let uuid = slice.uuid().ok()?;
        Some(WatchedDevice {
            name: shown_name(&slice),
            uuid: Uuid::new(&uuid),
            sensors: slice.mig_parent_device().ok(),
            device: slice,
            index,
            seldom: SeldomAsked::default(),
        })
    };
    Ok(slices.into_iter().filter_map(whole).collect())
}

fn slices<'nvml>(device: &Device<'nvml>) -> Vec<Device<'nvml>> {
    // Most devices don't support MIG and return an error.
    if !device
        .mig_mode()
        .is_ok_and(|mode| mode.current == MIG_ENABLED)
    {
        return Vec::new();
    }
    let most = device.mig_device_count().unwrap_or(0).min(16);
    (0..most)
        .filter_map(|slot| device.mig_device_by_index(slot).ok())
        .collect()
}

fn shown_name(device: &Device<'_>) -> String {
    device.name().unwrap_or_else(|_| "NVIDIA GPU".into())
}

// State shared by the polling thread, its watchdog and the event loop: since when a call into NVML
// is in progress, and whether polling has ended.

#[derive(Debug, Default)]
struct Pulse {
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
    fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    /// Waits for `duration`; returns whether to continue.
    pub fn rest(&self, duration: Duration) -> bool {
        let (state, _) = self
            .changed
            .wait_timeout_while(self.lock(), duration, |state| !state.stopped)
            .unwrap_or_else(|held| held.into_inner());
        !state.stopped
    }

    /// Makes a call that may hang, observed by the watchdog.
    fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        self.lock().calling = Some(Instant::now());
        let result = call();
        self.lock().calling = None;
        result
    }

    /// Whether a call has been in progress for longer than `patience`.
    pub fn hangs(&self, patience: Duration) -> bool {
        let calling = self.lock().calling;
        calling.is_some_and(|since| since.elapsed() > patience)
    }
}
