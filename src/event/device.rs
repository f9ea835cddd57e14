//! What NVML says of a device: the device's own view, which knows nothing of PyTorch's allocator.

use crate::units::{Bytes, Pid, Uuid};
use serde::{Deserialize, Serialize};

/// One reading of one device. What a device does not support is `None`, never zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceReading {
    pub uuid: Uuid,
    /// NVML's index (not CUDA's ordinal: `CUDA_VISIBLE_DEVICES` reorders those).
    pub index: u32,
    /// Its name, as the driver says it.
    pub name: String,
    /// The memory on the card (NVML v2 `total`, which includes what the driver keeps).
    pub total: Option<Bytes>,
    /// In use by processes (NVML v2 `used`, without what the driver keeps).
    pub used: Option<Bytes>,
    /// Free.
    pub free: Option<Bytes>,
    /// Kept by the driver (NVML's word is "reserved").
    pub driver_reserved: Option<Bytes>,
    /// Processes with memory on the device; `None` where NVML would not say.
    pub processes: Option<Vec<DeviceProcess>>,
    /// Busy time of the last sample period, in percent.
    pub utilization: Option<u32>,
    /// Degrees Celsius.
    pub temperature: Option<u32>,
    /// Watts.
    pub power: Option<f32>,
    /// Why the device gives no readings any more ("GPU is lost"), where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// A process that holds memory of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProcess {
    /// Its id as NVML says it; in a container this may be the host's number.
    pub pid: Pid,
    /// Its memory on the device; `None` where NVML says "not available".
    pub used: Option<Bytes>,
    /// Its name, where `/proc` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its user, where `/proc` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Whether NVML can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum NvmlState {
    /// It answers.
    Live {
        /// The driver's version.
        driver: String,
        /// How many devices it shows.
        devices: u32,
    },
    /// It does not, and this is why, in one line.
    Unavailable {
        /// The reason.
        reason: String,
    },
    /// It has not answered a call for a while.
    Stale,
    /// The user switched it off.
    Off,
}
