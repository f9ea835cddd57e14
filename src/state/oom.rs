//! An OOM: the probe's record and the message in the output, joined.

use crate::event::{
    DeviceProcess, HostKill, HostMemory, HostProcess, LoaderSettings, OomRecord, ShmUse,
};
use crate::oom::{OomKind, OomOutcome, OomReport, OomSign};
use crate::state::host::{HostLeak, RoleGrowth};
use crate::units::{Bytes, Moment, Pid, Rank, Uuid};
use std::time::Duration;

/// An OOM from the probe's record, a message, or both.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OomIncident {
    /// The time of the first of the two.
    pub at: Moment,
    /// The probe's record, with exact figures.
    pub record: Option<OomRecord>,
    /// The message.
    pub report: Option<OomReport>,
    /// The process, if known.
    pub pid: Option<Pid>,
    /// The rank, if known.
    pub rank: Option<Rank>,
    /// The device, if known.
    pub device: Option<Uuid>,
    /// NVML's reading at that time.
    pub nvml_at_oom: Option<NvmlAtOom>,
    /// The host's memory at that time, if that ran out.
    pub host: Option<Box<HostAtOom>>,
    /// Whether its process is known to have survived it: it ended another step, or its output says so.
    pub caught: bool,
}

/// NVML's last reading before an OOM. It is kept because the process may be gone in the next one.
#[derive(Debug, Clone, PartialEq)]
pub struct NvmlAtOom {
    pub at: Moment,
    /// The process's memory outside PyTorch's allocator, if known.
    pub non_pytorch: Option<Bytes>,
    /// The other processes on the device, also ranks of the same training; `None` if they cannot be
    /// told from the one that ran out of memory.
    pub others: Option<Vec<DeviceProcess>>,
}

/// The host's memory when it ran out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostAtOom {
    /// The latest reading before it, and when that was.
    pub memory: Option<(Moment, HostMemory)>,
    pub grew: Option<RoleGrowth>,
    /// What shared memory has grown by in that time, and the time.
    pub shared_grew: Option<(Bytes, Duration)>,
    /// What all together has grown by in that time.
    pub all_grew: Bytes,
    /// What became a process's own of what several shared, since there were as many workers.
    pub copied: Option<Bytes>,
    /// What one kind of process has leaked, if it has.
    pub leak: Option<HostLeak>,
    /// What the kernel killed, if it did.
    pub kill: Option<HostKill>,
    /// What says that it ran out.
    pub told_by: HostOomSource,
}

/// What says that the host's memory ran out, where no message of the program does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HostOomSource {
    /// A message, or the kernel's count of kills.
    #[default]
    Told,
    /// The run ended by SIGBUS with a full /dev/shm: whoever writes to it where nothing is left is ended so.
    BusError,
    /// The run failed with "No space left on device" and a full /dev/shm.
    NoSpace,
    /// The recording stops there in the middle of the run, and nobody goes on with it.
    BrokenOff,
}

impl HostOomSource {
    /// The sentence that says it; `None` where the message or the kill does.
    pub fn words(self) -> Option<&'static str> {
        match self {
            HostOomSource::Told => None,
            HostOomSource::BusError => Some(
                "It was ended by SIGBUS: it wrote to shared memory where there was no room for another page.",
            ),
            HostOomSource::NoSpace => {
                Some("Its output says \"No space left on device\", and /dev/shm had none left.")
            }
            HostOomSource::BrokenOff => Some(
                "The recording stops there in the middle of the run, and nobody goes on with it: what ended the run ended oomph too, as the kernel does with memory.oom.group, and SLURM at a job's limit.",
            ),
        }
    }
}

/// /dev/shm is full from here on: a batch more does not fit.
const SHM_FULL: f64 = 0.9;

/// What is asked for beyond what was needed: figures of a run that ran out are no proof.
const HEADROOM: f64 = 1.25;

/// What to ask for where this much was needed.
pub fn with_headroom(needed: Bytes) -> Bytes {
    needed.scale(HEADROOM)
}

impl HostAtOom {
    /// RAM that was needed, at least: what there was, and what grew most at the end had not come to its end.
    pub fn needed_ram(&self) -> Option<Bytes> {
        let (_, memory) = self.memory.as_ref()?;
        let grew = self.grew.map_or(Bytes::ZERO, |grew| grew.by);
        Some(memory.limit + grew.min(memory.limit))
    }

    /// What was needed of such a /dev/shm, at least: what was in it and what did not fit; of each batch that may wait, if one's
    /// size is known.
    pub fn needed_shm(
        &self,
        shm: ShmUse,
        requested: Option<Bytes>,
        loader: Option<&LoaderSettings>,
    ) -> Bytes {
        let batch = self.memory.as_ref().and_then(|(_, memory)| memory.batch);
        let requested = requested.or(batch).unwrap_or_default();
        let waiting = loader.map_or(1, LoaderSettings::waiting);
        (shm.used + requested)
            .max(Bytes(requested.0.saturating_mul(waiting)))
            .max(shm.size)
    }

    /// A /dev/shm into which nothing more fits, where the kernel did not kill for want of RAM.
    pub fn full_shm(&self) -> Option<ShmUse> {
        let shm = self.memory.as_ref().and_then(|(_, memory)| memory.shm)?;
        (self.kill.is_none() && shm.used >= shm.size.scale(SHM_FULL)).then_some(shm)
    }

    /// The process that the kernel killed: it takes the largest.
    pub fn victim(&self) -> Option<&HostProcess> {
        self.kill.as_ref()?.gone.first()
    }
}

impl OomIncident {
    /// An OOM known only from a message.
    pub fn of_report(at: Moment, report: OomReport) -> OomIncident {
        OomIncident {
            at,
            rank: report.rank,
            caught: report.outcome == OomOutcome::Caught,
            report: Some(report),
            ..OomIncident::default()
        }
    }

    /// Whose memory ran out.
    pub fn kind(&self) -> OomKind {
        match (&self.report, &self.record) {
            (Some(report), _) => report.kind,
            // The kernel's kill is all there is of it.
            (None, None) if self.host.is_some() => OomKind::HostOom,
            (None, _) => OomKind::CudaOom,
        }
    }

    /// What ran out, in words: "memory".
    pub fn what(&self) -> &'static str {
        match self.report.as_ref().and_then(|report| report.sign) {
            Some(OomSign::Descriptors) => "file descriptors",
            Some(
                OomSign::SharedMemory
                | OomSign::Pinned
                | OomSign::Slurm
                | OomSign::Refused
                | OomSign::Fork
                | OomSign::Mappings
                | OomSign::Gone
                | OomSign::Killed
                | OomSign::EngineShare
                | OomSign::EngineWarmUp
                | OomSign::EngineWakes
                | OomSign::EngineGraphs
                | OomSign::Preallocation
                | OomSign::Overflow
                | OomSign::PageFile
                | OomSign::RayMonitor
                | OomSign::Dask
                | OomSign::OneBuffer
                | OomSign::Resources
                | OomSign::Platform
                | OomSign::MapWorker
                | OomSign::LockedPages
                | OomSign::Cufft
                | OomSign::Cusolver
                | OomSign::Cusparse
                | OomSign::Rmm
                | OomSign::Dali
                | OomSign::Physics
                | OomSign::TinyCudaNn
                | OomSign::Other,
            )
            | None => "memory",
        }
    }

    /// What the kernel killed, if it did.
    pub fn kill(&self) -> Option<&HostKill> {
        self.host.as_ref()?.kill.as_ref()
    }

    /// Whether a shell's "Killed" is all there is of it.
    pub(super) fn is_hearsay(&self) -> bool {
        self.record.is_none()
            && self.kill().is_none()
            && self.report.as_ref().is_some_and(|report| report.hearsay)
    }

    /// The process, as far as known, to tell the OOMs of two processes apart.
    pub(super) fn who(&self) -> (Option<Pid>, Option<Rank>) {
        (self.pid, self.rank)
    }

    /// A figure of the record, or else of the message.
    fn figure(
        &self,
        of_record: impl Fn(&OomRecord) -> Option<Bytes>,
        of_text: impl Fn(&OomReport) -> Option<Bytes>,
    ) -> Option<Bytes> {
        (self.record.as_ref().and_then(of_record)).or_else(|| of_text(self.report.as_ref()?))
    }

    /// The segment that the allocator requested.
    pub fn requested(&self) -> Option<Bytes> {
        self.figure(|record| Some(record.requested), |text| text.requested)
    }

    pub fn allocated(&self) -> Option<Bytes> {
        self.figure(
            |record| Some(record.sample.allocated),
            |text| text.allocated,
        )
    }

    pub fn reserved(&self) -> Option<Bytes> {
        // Messages have the sum before torch 2.1, and the two parts since.
        self.figure(
            |record| Some(record.sample.reserved),
            |text| {
                text.reserved
                    .or_else(|| Some(text.allocated? + text.unallocated?))
            },
        )
    }

    /// Reserved but unallocated.
    /// Without what is free in private pools, which PyTorch's message counts as allocated.
    pub fn cached(&self) -> Option<Bytes> {
        let pools = self.report.as_ref().and_then(|text| text.private_pools);
        let pools = pools.unwrap_or(Bytes::ZERO);
        self.figure(
            |record| Some(record.sample.reserved - record.sample.allocated - pools),
            |text| {
                text.unallocated
                    .or_else(|| Some(text.reserved? - text.allocated?))
            },
        )
    }

    /// The device's capacity, not the limit.
    pub fn capacity(&self) -> Option<Bytes> {
        self.figure(
            |record| record.limit.is_none().then_some(record.total),
            |text| text.total,
        )
    }

    /// The limit that the program or the environment set.
    pub fn limit(&self) -> Option<Bytes> {
        self.figure(|record| record.limit, |text| text.limit)
    }

    /// What the process could have reserved in all.
    pub fn room(&self) -> Option<Bytes> {
        let room = self.reserved()? + self.free()?;
        Some(self.limit().map_or(room, |limit| room.min(limit)))
    }

    /// Free on the whole device.
    pub fn free(&self) -> Option<Bytes> {
        self.figure(|record| Some(record.free), |text| text.free)
    }
}
