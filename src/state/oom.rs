//! One out-of-memory: what the probe's observer saw and what was read in the output, joined.

use crate::event::{DeviceProcess, OomRecord};
use crate::oom::{OomOutcome, OomReport};
use crate::units::{Bytes, Moment, Pid, Rank, Uuid};

/// An out-of-memory with one witness or both.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OomIncident {
    /// When the first witness spoke.
    pub at: Moment,
    /// What the observer recorded: exact, at the moment.
    pub record: Option<OomRecord>,
    /// What the text said.
    pub report: Option<OomReport>,
    /// The process, where it can be told.
    pub pid: Option<Pid>,
    /// The rank, where either says it.
    pub rank: Option<Rank>,
    /// The device, where it can be told.
    pub device: Option<Uuid>,
    /// What NVML last said of the device when the first witness spoke.
    pub nvml_at_oom: Option<NvmlAtOom>,
    /// Whether the program survived it: it went on stepping, or ended well.
    pub caught: bool,
}

/// What NVML said of a device just before it ran out of memory. It is kept with the incident since
/// afterwards the device looks different: the process has gone.
#[derive(Debug, Clone, PartialEq)]
pub struct NvmlAtOom {
    /// When it was read.
    pub at: Moment,
    /// The process's memory outside PyTorch's allocator, where NVML's figures tell.
    pub non_pytorch: Option<Bytes>,
    /// The other processes on the device, further ranks of the same training among them; `None`
    /// where they cannot be told from the one that ran out of memory.
    pub others: Option<Vec<DeviceProcess>>,
}

impl OomIncident {
    /// One of which only a text is known.
    pub fn of_report(at: Moment, report: OomReport) -> OomIncident {
        OomIncident {
            at,
            rank: report.rank,
            caught: report.outcome == OomOutcome::Caught,
            report: Some(report),
            ..OomIncident::default()
        }
    }

    /// Whose it is, as far as that is known: by this, incidents of two processes are told apart.
    pub(super) fn who(&self) -> (Option<Pid>, Option<Rank>) {
        (self.pid, self.rank)
    }

    /// A figure of the observer's record, or else of the text.
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
        // Texts since 2.1 say the two parts, those before it the sum.
        self.figure(
            |record| Some(record.sample.reserved),
            |text| {
                text.reserved
                    .or_else(|| Some(text.allocated? + text.unallocated?))
            },
        )
    }

    /// Reserved but unallocated.
    pub fn cached(&self) -> Option<Bytes> {
        self.figure(
            |record| Some(record.sample.reserved - record.sample.allocated),
            |text| {
                text.unallocated
                    .or_else(|| Some(text.reserved? - text.allocated?))
            },
        )
    }

    /// The device's capacity (never the cap).
    pub fn capacity(&self) -> Option<Bytes> {
        self.figure(
            |record| record.limit.is_none().then_some(record.total),
            |text| text.total,
        )
    }

    /// The cap that the program or the environment set.
    pub fn limit(&self) -> Option<Bytes> {
        self.figure(|record| record.limit, |text| text.limit)
    }

    /// Free on the whole device.
    pub fn free(&self) -> Option<Bytes> {
        self.figure(|record| Some(record.free), |text| text.free)
    }
}
