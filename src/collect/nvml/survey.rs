//! One look at all devices, for `oomph doctor`: with what only a person wants to know.

use super::Options;
use super::reading::{DeviceAnswer, NvmlProblem, Owners, problem};
use crate::collect::nvml::{MIG_ENABLED, MOST_DEVICES, start, watched};
use crate::event::DeviceReading;
use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::ComputeMode;
use nvml_wrapper::error::NvmlError;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// The driver's version.
    pub driver: Option<String>,
    /// The newest CUDA that it runs, major and minor.
    pub cuda: Option<(u32, u32)>,
    pub devices: Vec<SurveyedDevice>,
    /// Devices that cannot be read, and why.
    pub unreadable: Vec<String>,
}

/// A device, or an instance of one that is divided.
#[derive(Debug, Clone)]
pub struct SurveyedDevice {
    pub reading: DeviceReading,
    /// MIG is enabled on the GPU.
    pub mig: bool,
    /// This is a MIG instance.
    pub is_instance: bool,
    /// Its compute mode lets one process in.
    pub exclusive: bool,
    /// Its compute mode lets no process in.
    pub prohibited: bool,
}

/// Why there is no survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoSurvey {
    Unavailable(NvmlProblem),
    /// A call hangs.
    Silent,
}

/// Asks NVML, for at most `patience`: a call that hangs is left behind.
///
/// # Errors
/// NVML can't be used, or does not answer.
pub fn survey(library: Option<PathBuf>, patience: Duration) -> Result<Survey, NoSurvey> {
    let (sender, answer) = channel();
    let options = Options {
        library,
        ..Options::default()
    };
    let asking = super::spawn("nvml-survey", move || {
        let seen = start(&options).and_then(|nvml| look(&nvml));
        let _ = sender.send(seen.map_err(|error| problem(&error)));
    });
    if let Err(error) = asking {
        return Err(NoSurvey::Unavailable(NvmlProblem::new(
            format!("cannot start a thread ({error})"),
            "is there a limit on processes (ulimit -u)?",
        )));
    }
    match answer.recv_timeout(patience) {
        Ok(seen) => seen.map_err(NoSurvey::Unavailable),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(NoSurvey::Silent),
    }
}

fn look(nvml: &Nvml) -> Result<Survey, NvmlError> {
    let count = nvml.device_count()?;
    let version = nvml.sys_cuda_driver_version().ok();
    let mut survey = Survey {
        driver: nvml.sys_driver_version().ok(),
        cuda: version
            .and_then(|version| u32::try_from(version).ok())
            .map(|version| (version / 1_000, version % 1_000 / 10)),
        ..Survey::default()
    };
    let mut owners = Owners::default();
    for index in 0..count.min(MOST_DEVICES) {
        match nvml.device_by_index(index) {
            Ok(device) => {
                let mig = device
                    .mig_mode()
                    .is_ok_and(|mode| mode.current == MIG_ENABLED);
                let mode = device.compute_mode().ok();
                for mut watched in watched(device, index)? {
                    let is_instance = watched.sensors.is_some();
                    let reading = match watched.ask(&mut owners) {
                        DeviceAnswer::Reading(reading) | DeviceAnswer::Lost(reading) => reading,
                        DeviceAnswer::Uninitialized => watched.silent(Some("does not answer")),
                    };
                    survey.devices.push(SurveyedDevice {
                        reading,
                        mig,
                        is_instance,
                        exclusive: matches!(
                            mode,
                            Some(ComputeMode::ExclusiveProcess | ComputeMode::ExclusiveThread)
                        ),
                        prohibited: mode == Some(ComputeMode::Prohibited),
                    });
                }
            }
            Err(error) => {
                let said = format!("GPU {index} cannot be read: {error}");
                survey.unreadable.push(said);
            }
        }
    }
    Ok(survey)
}
