//! What NVML reports about a device, without any knowledge of PyTorch's allocator.

use crate::units::{Bytes, Pid, Uuid};
use serde::{Deserialize, Serialize};

/// A reading of a device. What it does not support is `None`, never zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeviceReading {
    pub uuid: Uuid,
    /// NVML's index (not CUDA's, which `CUDA_VISIBLE_DEVICES` reorders).
    pub index: u32,
    /// From the driver.
    pub name: String,
    /// All memory of the GPU (NVML v2 `total`, which includes the driver's own).
    pub total: Option<Bytes>,
    /// Used by processes (NVML v2 `used`, without the driver's own).
    pub used: Option<Bytes>,
    pub free: Option<Bytes>,
    /// Kept by the driver (NVML calls it "reserved").
    pub driver_reserved: Option<Bytes>,
    /// Processes with memory on the device; `None` if NVML does not say.
    pub processes: Option<Vec<DeviceProcess>>,
    /// Busy time in the last sampling period, in percent.
    pub utilization: Option<u32>,
    /// Degrees Celsius.
    pub temperature: Option<u32>,
    /// Watts.
    pub power: Option<f32>,
    /// Why the device gives no more readings ("GPU is lost"), if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// A process with memory on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProcess {
    /// As reported by NVML; in a container this may be the host's PID.
    pub pid: Pid,
    /// Its memory on the device; `None` if NVML says "not available".
    pub used: Option<Bytes>,
    /// From `/proc`, if available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// From `/proc`, if available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Whether it is this user's and what started it is gone, as far as that is certain.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub orphaned: bool,
}

/// Whether NVML can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum NvmlState {
    Live {
        /// The driver's version.
        driver: String,
        /// The number of devices.
        devices: u32,
    },
    /// It can't be used.
    Unavailable {
        /// In one line.
        reason: String,
    },
    /// It has not answered a call for a while.
    Stale,
    /// Turned off by the user.
    Off,
}
