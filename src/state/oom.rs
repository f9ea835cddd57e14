//! One out-of-memory: what the probe's observer saw and what was read in the output, joined.

use crate::event::OomRecord;
use crate::oom::Report;
use crate::units::{Bytes, Moment, Pid, Rank, Uuid};

/// An out-of-memory with one witness or both.
#[derive(Debug, Clone, PartialEq)]
pub struct OomIncident {
    /// When the first witness spoke.
    pub at: Moment,
    /// What the observer recorded: exact, at the moment.
    pub record: Option<OomRecord>,
    /// What the text said.
    pub report: Option<Report>,
    /// The process, where it can be told.
    pub pid: Option<Pid>,
    /// The rank, where either says it.
    pub rank: Option<Rank>,
    /// The device, where it can be told.
    pub device: Option<Uuid>,
    /// Whether the program survived it: it went on stepping, or ended well.
    pub caught: bool,
}

impl OomIncident {
    /// Whose it is, as far as that is known: by this, incidents of two processes are told apart.
    pub(super) fn who(&self) -> (Option<Pid>, Option<Rank>) {
        (self.pid, self.rank)
    }

    /// The segment that the allocator asked for.
    pub fn requested(&self) -> Option<Bytes> {
        self.record
            .as_ref()
            .map(|record| record.requested)
            .or_else(|| self.report.as_ref()?.requested)
    }

    /// Allocated by PyTorch at that moment.
    pub fn allocated(&self) -> Option<Bytes> {
        self.record
            .as_ref()
            .map(|record| record.sample.allocated)
            .or_else(|| self.report.as_ref()?.allocated)
    }

    /// Reserved by PyTorch at that moment, allocated included.
    pub fn reserved(&self) -> Option<Bytes> {
        self.record
            .as_ref()
            .map(|record| record.sample.reserved)
            .or_else(|| self.report.as_ref()?.reserved)
    }

    /// Reserved but unallocated.
    pub fn unallocated(&self) -> Option<Bytes> {
        match (self.reserved(), self.allocated()) {
            (Some(reserved), Some(allocated)) => Some(reserved - allocated),
            _ => self.report.as_ref()?.unallocated,
        }
    }

    /// The device's capacity (never the cap).
    pub fn capacity(&self) -> Option<Bytes> {
        let of_record = self
            .record
            .as_ref()
            .filter(|record| record.limit.is_none())
            .map(|record| record.total);
        of_record.or_else(|| self.report.as_ref()?.total)
    }

    /// The cap that the program or the environment set, if one.
    pub fn limit(&self) -> Option<Bytes> {
        self.record
            .as_ref()
            .and_then(|record| record.limit)
            .or_else(|| self.report.as_ref()?.limit)
    }

    /// Free on the whole device at that moment.
    pub fn free(&self) -> Option<Bytes> {
        self.record
            .as_ref()
            .map(|record| record.free)
            .or_else(|| self.report.as_ref()?.free)
    }
}
