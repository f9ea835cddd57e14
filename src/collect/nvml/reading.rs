//! One reading of one device. What a device does not answer is missing, never zero, and does not
//! affect the rest.

use crate::event::{DeviceProcess, DeviceReading};
use crate::units::{Bytes, Pid, Uuid};
use nix::unistd::{Uid, User};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{MemoryInfo, ProcessInfo};
use procfs::process::Process;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

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
    pub fn ask(&mut self, owners: &mut Owners) -> DeviceAnswer {
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
    pub fn silent(&self, lost: Option<&str>) -> DeviceReading {
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
                orphaned: is_orphaned(pid),
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

// The name and the user of a process that NVML lists, as far as `/proc` shows them.
//
// In a container a PID may be the host's and belong to nothing here, or to another process: names
// are for display only, and no signal is ever sent because of them.

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Owner {
    pub name: Option<String>,
    pub user: Option<String>,
}

/// Processes that were looked up already. The start time detects a reused PID.
#[derive(Debug, Default)]
pub(super) struct Owners {
    known: HashMap<Pid, (u64, Owner)>,
    users: HashMap<u32, Option<String>>,
}

impl Owners {
    /// Looks `pid` up.
    fn of(&mut self, pid: Pid) -> Owner {
        let Ok(process) = Process::new(pid.0) else {
            self.known.remove(&pid);
            return Owner::default();
        };
        let Ok(stat) = process.stat() else {
            return Owner::default();
        };
        if let Some((started, owner)) = self.known.get(&pid)
            && *started == stat.starttime
        {
            return owner.clone();
        }
        let owner = Owner {
            name: Some(shown_name(
                &process.cmdline().unwrap_or_default(),
                &stat.comm,
            )),
            user: process.uid().ok().and_then(|uid| self.user(uid)),
        };
        self.known.insert(pid, (stat.starttime, owner.clone()));
        owner
    }

    /// Forgets all but `pids`.
    pub fn keep(&mut self, pids: &[Pid]) {
        self.known.retain(|pid, _| pids.contains(pid));
    }

    /// A user's name; looked up once, since a directory service may be slow.
    fn user(&mut self, uid: u32) -> Option<String> {
        self.users
            .entry(uid)
            .or_insert_with(|| User::from_uid(Uid::from_raw(uid)).ok()??.name.into())
            .clone()
    }
}

/// Who takes over the children of processes that have ended, and starts few trainings itself.
const REAPERS: [&str; 6] = [
    "systemd",
    "init",
    "tini",
    "dumb-init",
    "docker-init",
    "catatonit",
];

/// What torchrun gives its workers, each of which has a session of its own.
const OF_A_WORKER: &str = "TORCHELASTIC_RUN_ID";

/// Whether it is this user's process and nothing is left of what started it.
fn is_orphaned(pid: Pid) -> bool {
    let look = || {
        let process = Process::new(pid.0).ok()?;
        let stat = process.stat().ok()?;
        if process.uid().ok()? != nix::unistd::geteuid().as_raw() {
            return None;
        }
        let parent = Process::new(stat.ppid).ok()?.stat().ok()?;
        if stat.ppid != 1 && parent.comm != "systemd" {
            return None;
        }
        let leads = stat.session == stat.pid;
        let is_worker = || {
            let environ = process.environ().ok()?;
            Some(environ.contains_key(std::ffi::OsStr::new(OF_A_WORKER)))
        };
        Some(match leads {
            true => REAPERS.contains(&parent.comm.as_str()) || is_worker()?,
            false => Process::new(stat.session).is_err(),
        })
    };
    look().unwrap_or(false)
}

/// The program, and the script of an interpreter; never more of the command line, which may contain
/// secrets.
fn shown_name(cmdline: &[String], comm: &str) -> String {
    let base = |word: &str| {
        let name = Path::new(word).file_name();
        name.map(|name| name.to_string_lossy().into_owned())
    };
    let Some(program) = cmdline.first().and_then(|word| base(word)) else {
        return comm.to_string();
    };
    match cmdline.get(1) {
        Some(script) if program.starts_with("python") && script.ends_with(".py") => {
            format!("{program} {}", base(script).unwrap_or_default())
        }
        Some(_) | None => program,
    }
}

/// Why NVML can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvmlProblem {
    pub what: String,
    /// What to do about it.
    pub mend: &'static str,
}

impl NvmlProblem {
    pub(super) fn new(what: impl Into<String>, mend: &'static str) -> NvmlProblem {
        NvmlProblem {
            what: what.into(),
            mend,
        }
    }
}

/// In one line.
impl fmt::Display for NvmlProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.mend)
    }
}

/// For an error of initialisation. The return values are those of `nvmlReturn_t` in NVIDIA's nvml.h.
pub(super) fn problem(error: &NvmlError) -> NvmlProblem {
    match error {
        NvmlError::LibloadingError(error) => missing(&error.to_string()),
        NvmlError::LibraryNotFound => missing("a library it needs is missing"),
        NvmlError::FailedToLoadSymbol(symbol) => NvmlProblem::new(
            format!("this NVML is too old, or not NVML at all ({symbol})"),
            "is libnvidia-ml.so.1 the driver's?",
        ),
        NvmlError::DriverNotLoaded => NvmlProblem::new(
            "the NVIDIA driver is not loaded",
            "load it (modprobe nvidia), or give the container its GPUs (docker run --gpus all)",
        ),
        NvmlError::LibRmVersionMismatch => NvmlProblem::new(
            "the NVIDIA driver and its library differ in version (updated while in use)",
            "reload the nvidia modules or reboot",
        ),
        NvmlError::NoPermission => NvmlProblem::new(
            "no permission to use the NVIDIA driver",
            "check the modes of /dev/nvidia* and the groups of your user",
        ),
        NvmlError::GpuLost => {
            NvmlProblem::new("the GPU is lost (fallen off the bus)", "reset it or reboot")
        }
        error => NvmlProblem::new(
            format!("NVML does not start ({error})"),
            "nvidia-smi may say more",
        ),
    }
}

fn missing(error: &str) -> NvmlProblem {
    // Of the loader's words only what is not said here anyway: why a library that is there won't do.
    let is_absent = error.contains("No such file") || error.contains("cannot open shared object");
    let what = match is_absent {
        true => String::from("no libnvidia-ml.so.1"),
        false => format!(
            "libnvidia-ml.so.1 cannot be loaded ({})",
            error.split(": ").last().unwrap_or(error)
        ),
    };
    NvmlProblem::new(
        what,
        "install the NVIDIA driver, or run the container with --gpus all",
    )
}

/// Why a device gives no more readings, if that is what `error` means.
fn lost(error: &NvmlError) -> Option<&'static str> {
    match error {
        NvmlError::GpuLost => Some("GPU is lost"),
        NvmlError::ResetRequired => Some("GPU needs a reset"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_name_and_a_user() {
        let mut owners = Owners::default();
        let this = Pid(std::process::id() as i32);
        let owner = owners.of(this);
        assert!(owner.name.is_some_and(|name| !name.contains('/')));
        assert_eq!(owners.of(this), owners.of(this));
        owners.keep(&[]);
        assert!(owners.known.is_empty());
    }

    #[test]
    fn a_process_that_is_not_seen_has_neither() {
        assert_eq!(Owners::default().of(Pid(i32::MAX)), Owner::default());
        assert_eq!(Owners::default().of(Pid(-1)), Owner::default());
    }

    #[test]
    fn only_what_nobody_started_any_more_is_orphaned() {
        assert!(!is_orphaned(Pid(std::process::id() as i32)));
        assert!(!is_orphaned(Pid(i32::MAX)));
        // A shell with a session of its own leaves a process behind and says which.
        let script = "sleep 600 </dev/null >/dev/null 2>&1 & echo $!";
        let mut shell = std::process::Command::new("setsid");
        let said = shell.args(["-w", "sh", "-c", script]).output().unwrap();
        let left: i32 = String::from_utf8(said.stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // A subreaper between here and PID 1 has it where the tests run below one.
        let parent = Process::new(left).unwrap().stat().unwrap().ppid;
        let is_one = is_orphaned(Pid(left));
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(left), nix::sys::signal::SIGKILL)
            .unwrap();
        assert!(is_one || parent != 1, "taken over by {parent}");
    }

    #[test]
    fn names_say_the_script_and_nothing_else() {
        let name = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            shown_name(&words, "pt_main_thread")
        };
        assert_eq!(
            name(&["/opt/bin/python3", "/x/train.py", "--key", "s"]),
            "python3 train.py"
        );
        assert_eq!(name(&["python", "-c", "secret"]), "python");
        assert_eq!(name(&["/usr/bin/nvtop", "train.py"]), "nvtop");
        assert_eq!(name(&[]), "pt_main_thread");
    }

    #[test]
    fn each_reason_is_one_line_that_says_what_to_do() {
        for (error, words) in [
            (NvmlError::DriverNotLoaded, "--gpus all"),
            (NvmlError::LibRmVersionMismatch, "reboot"),
            (NvmlError::NoPermission, "/dev/nvidia*"),
            (NvmlError::LibraryNotFound, "install the NVIDIA driver"),
            (NvmlError::Unknown, "nvidia-smi"),
            (
                NvmlError::FailedToLoadSymbol("nvmlInit_v2".into()),
                "nvmlInit_v2",
            ),
        ] {
            let line = problem(&error).to_string();
            assert!(line.contains(words), "{line}");
            assert!(!line.contains('\n') && !line.contains("  "), "{line}");
        }
    }
}
