//! The gate of a relaunch for a command that is started again from its recording: it waits until the devices of the
//! recorded run have the memory that was predicted for this one.

use super::gate::{Gate, GateSight, GateTiming, GateVerdict};
use crate::collect::nvml;
use crate::event::Clock;
use crate::state::Run;
use crate::units::{Bytes, Uuid};
use std::path::PathBuf;
use std::time::Duration;

/// A look at all devices may take this long; a driver that hangs is not waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits for the memory; `say` is told once why. Without a figure, or where the devices cannot be seen, there is nothing
/// to compare, and nothing is waited for: the recorded processes are long gone.
///
/// # Errors
/// It did not become free in time, and who has it.
pub(crate) fn wait_for_room(
    run: &Run,
    needed: Option<Bytes>,
    divisor: u32,
    say: impl Fn(&str),
) -> Result<(), String> {
    let devices: Vec<(Uuid, Option<Bytes>)> = run
        .ranks
        .iter()
        .filter_map(|rank| Some((rank.device.clone()?, None)))
        .collect();
    if needed.is_none() || devices.is_empty() {
        return Ok(());
    }
    let clock = Clock::start();
    let timing = GateTiming::scaled(divisor);
    let uuids: Vec<Uuid> = devices.iter().map(|(uuid, _)| uuid.clone()).collect();
    let mut gate = Gate::new(
        clock.now(),
        timing,
        devices,
        needed,
        Vec::new(),
        GateSight::Nvml,
    );
    let mut is_said = false;
    loop {
        match gate.verdict(clock.now()) {
            GateVerdict::Open => return Ok(()),
            GateVerdict::Refused(why) => return Err(why),
            GateVerdict::Wait(why) => {
                let library = std::env::var_os("OOMPH_NVML_LIBRARY").map(PathBuf::from);
                let Ok(seen) = nvml::survey(library, PATIENCE) else {
                    return Ok(());
                };
                let now = clock.now();
                let seen = seen.devices.into_iter();
                let ours: Vec<_> = seen
                    .filter(|device| uuids.contains(&device.reading.uuid))
                    .collect();
                // Another machine's devices, or others than there were.
                if ours.is_empty() {
                    return Ok(());
                }
                for device in &ours {
                    gate.read(now, &device.reading);
                }
                if !is_said && gate.verdict(now) != GateVerdict::Open && now.0 > 1_500_000 {
                    say(&why);
                    is_said = true;
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}
