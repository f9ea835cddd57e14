//! One reading of one device. What a device does not answer is missing, never zero, and does not
//! affect the rest.

use super::owners::Owners;
use super::reason::lost;
use crate::event::{DeviceProcess, DeviceReading};
use crate::units::{Bytes, Pid, Uuid};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{MemoryInfo, ProcessInfo};
use std::collections::BTreeMap;

/// More processes than any device has; NVML has been seen to report four billion, and the wrapper
/// allocates room for them.
const MOST_PROCESSES: u32 = 10_000;

/// Rounds from one reading of the sensors to the next, and of the processes where the memory in use stays the
/// same: some drivers take 0.5 ms a call.
const SENSORS_EVERY: u32 = 4;
const PROCESSES_EVERY: u32 = 16;

/// A device that is polled: a whole one, or a MIG instance.
pub(super) struct WatchedDevice<'nvml> {
    pub device: Device<'nvml>,
    /// For a MIG instance the physical device, which has the sensors.
    pub sensors: Option<Device<'nvml>>,
    pub uuid: Uuid,
    pub index: u32,
    pub name: String,
    pub seldom: SeldomAsked,
}

/// The latest answers to what is not asked in every round.
#[derive(Debug, Default)]
pub(super) struct SeldomAsked {
    round: u32,
    /// When the processes were listed.
    pub used: Option<Bytes>,
    processes: Option<Vec<DeviceProcess>>,
    utilization: Option<u32>,
    temperature: Option<u32>,
    power: Option<f32>,
}

/// The result of reading a device.
pub(super) enum DeviceAnswer {
    /// A reading, possibly incomplete.
    Reading(DeviceReading),
    /// The device is gone; the reading says so.
    Lost(DeviceReading),
    /// NVML must be reinitialised.
    Uninitialized,
}

impl WatchedDevice<'_> {
    /// Reads the device. The lists of processes are the expensive part: 42 µs per call on an H200, where no
    /// other call here takes 10.
    pub(super) fn ask(&mut self, owners: &mut Owners) -> DeviceAnswer {
        let mut reading = self.silent(None);
        match self.device.memory_info() {
            Ok(memory) => put_memory(&mut reading, &memory),
            Err(NvmlError::Uninitialized) => return DeviceAnswer::Uninitialized,
            Err(error) => {
                if let Some(reason) = lost(&error) {
                    return DeviceAnswer::Lost(self.silent(Some(reason)));
                }
            }
        }
        let round = self.seldom.round;
        self.seldom.round = round.wrapping_add(1);
        if round.is_multiple_of(PROCESSES_EVERY) || reading.used != self.seldom.used {
            self.seldom.used = reading.used;
            self.seldom.processes = self.processes(owners);
        }
        if round.is_multiple_of(SENSORS_EVERY) {
            self.ask_sensors();
        }
        let seldom = &self.seldom;
        reading.processes.clone_from(&seldom.processes);
        reading.utilization = seldom.utilization;
        reading.temperature = seldom.temperature;
        reading.power = seldom.power;
        DeviceAnswer::Reading(reading)
    }

    fn ask_sensors(&mut self) {
        let sensors = self.sensors.as_ref().unwrap_or(&self.device);
        let seldom = &mut self.seldom;
        seldom.utilization = self.device.utilization_rates().ok().map(|rates| rates.gpu);
        seldom.temperature = sensors.temperature(TemperatureSensor::Gpu).ok();
        seldom.power = sensors.power_usage().ok().map(|mw| mw as f32 / 1_000.0);
    }

    /// A reading without any values.
    pub(super) fn silent(&self, lost: Option<&str>) -> DeviceReading {
        DeviceReading {
            uuid: self.uuid.clone(),
            index: self.index,
            name: self.name.clone(),
            total: None,
            used: None,
            free: None,
            driver_reserved: None,
            processes: None,
            utilization: None,
            temperature: None,
            power: None,
            lost: lost.map(str::to_string),
        }
    }

    /// The processes with memory on the device, each once: one that uses both compute and graphics
    /// is in both of NVML's lists.
    fn processes(&self, owners: &mut Owners) -> Option<Vec<DeviceProcess>> {
        let device = &self.device;
        let compute = listed(device.running_compute_processes_count(), || {
            device.running_compute_processes()
        });
        let graphics = listed(device.running_graphics_processes_count(), || {
            device.running_graphics_processes()
        });
        if compute.is_none() && graphics.is_none() {
            return None;
        }
        let mut by_pid: BTreeMap<Pid, Option<Bytes>> = BTreeMap::new();
        for process in compute.into_iter().chain(graphics).flatten() {
            let Ok(pid) = i32::try_from(process.pid) else {
                continue;
            };
            let used = by_pid.entry(Pid(pid)).or_default();
            *used = (*used).max(bytes_of(&process));
        }
        let list = by_pid.into_iter().map(|(pid, used)| {
            let owner = owners.of(pid);
            DeviceProcess {
                pid,
                used,
                name: owner.name,
                user: owner.user,
            }
        });
        Some(list.collect())
    }
}

/// A list of so many processes; `None` if it can't be told.
fn listed(
    count: Result<u32, NvmlError>,
    list: impl FnOnce() -> Result<Vec<ProcessInfo>, NvmlError>,
) -> Option<Vec<ProcessInfo>> {
    match count.ok()? {
        0 => Some(Vec::new()),
        1..=MOST_PROCESSES => list().ok(),
        _ => None,
    }
}

/// A size, unless it stands for "not available".
fn bytes(n: u64) -> Option<Bytes> {
    (n < 1 << 63).then_some(Bytes(n))
}

fn bytes_of(process: &ProcessInfo) -> Option<Bytes> {
    match process.used_gpu_memory {
        UsedGpuMemory::Used(n) => bytes(n),
        UsedGpuMemory::Unavailable => None,
    }
}

/// No memory at all is not a value, nor is more used than there is.
fn put_memory(reading: &mut DeviceReading, memory: &MemoryInfo) {
    let Some(total) = bytes(memory.total).filter(|total| *total > Bytes::ZERO) else {
        return;
    };
    let within = |n| bytes(n).filter(|n| *n <= total);
    reading.total = Some(total);
    reading.used = within(memory.used);
    reading.free = within(memory.free);
    reading.driver_reserved = within(memory.reserved);
}
