//! OOMs: the probe's record and the message in the output are joined to one incident, whichever
//! comes first.

use crate::event::{OomRecord, Sample};
use crate::oom::{self, OomReport};
use crate::state::{NvmlAtOom, OomIncident, Run, State};
use crate::units::{Bytes, Moment, Pid, Rank, Uuid};
use std::time::Duration;

/// Time between record and message of one OOM: the exception unwinds, the traceback is printed and
/// a launcher passes it on.
const TOGETHER: Duration = Duration::from_secs(10);

/// The same if they agree on requested and allocated memory to the last printed digit: a program
/// may save a checkpoint before it lets the exception through.
const TOGETHER_BY_FIGURES: Duration = Duration::from_secs(120);

/// Incidents kept: the first of a run, and in total.
const FIRST_KEPT: usize = 16;
const KEPT: usize = 128;

impl State {
    pub(super) fn oom_recorded(&mut self, at: Moment, record: &OomRecord) {
        // The chart needs this sample: those around it may be from before the step or after the
        // unwinding.
        if record.sample.allocated > Bytes::ZERO {
            self.sampled(
                at,
                &Sample {
                    pid: record.pid,
                    device: record.device,
                    ..record.sample.clone()
                },
            );
        }
        let device = self.device_of(record.pid, record.device);
        let nvml_at_oom = self.nvml_at_oom_of(device.as_ref(), Some(record.pid));
        let of_process = |run: &Run| run.rank_with(record.pid).is_some();
        let place = self.runs.iter().rposition(of_process);
        // If its hello was missed, the record must not be lost.
        let place = place.unwrap_or(self.runs.len().saturating_sub(1));
        let Some(run) = self.runs.get_mut(place) else {
            return;
        };
        if let Some(rank) = run.rank_mut(record.pid) {
            rank.allocated_peak = rank.allocated_peak.max(record.sample.allocated_peak);
            rank.reserved_peak = rank.reserved_peak.max(record.sample.reserved_peak);
        }
        let rank = run.rank_with(record.pid).and_then(|rank| rank.hello.rank);
        let twin = run.nearest(at, TOGETHER_BY_FIGURES, |oom| {
            oom.record.is_none()
                && (oom.pid.is_none() || oom.pid == Some(record.pid))
                && oom
                    .report
                    .as_ref()
                    .is_some_and(|report| alike(record, rank, report, apart(oom.at, at)))
        });
        match twin {
            Some(twin) => {
                twin.record = Some(record.clone());
                twin.at = twin.at.min(at);
                twin.pid = Some(record.pid);
                twin.rank = rank.or(twin.rank);
                twin.device = device.or(twin.device.take());
                twin.nvml_at_oom = twin.nvml_at_oom.take().or(nvml_at_oom);
            }
            None => run.keep(OomIncident {
                at,
                record: Some(record.clone()),
                pid: Some(record.pid),
                rank,
                device,
                nvml_at_oom,
                ..OomIncident::default()
            }),
        }
        run.settle_ooms();
    }

    pub(super) fn oom_read(&mut self, at: Moment, report: &OomReport) {
        let (pid, device) = self.speaker(at, report);
        let nvml_at_oom = self.nvml_at_oom_of(device.as_ref(), pid);
        let Some(run) = run_at(&mut self.runs, at) else {
            return;
        };
        let twin = run.nearest(at, TOGETHER_BY_FIGURES, |oom| {
            oom.report.is_none()
                && oom
                    .record
                    .as_ref()
                    .is_some_and(|record| alike(record, oom.rank, report, apart(oom.at, at)))
        });
        if let Some(twin) = twin {
            twin.report = Some(report.clone());
            twin.rank = twin.rank.or(report.rank);
            twin.at = twin.at.min(at);
            twin.caught |= report.outcome == oom::OomOutcome::Caught;
            run.settle_ooms();
            return;
        }
        // The same message again, from the program, its logger or its launcher. (Messages of two
        // equal OOMs have found their records above.)
        let again = run.nearest(at, TOGETHER, |oom| {
            oom.report.as_ref().is_some_and(|known| same(known, report))
        });
        if let Some(again) = again {
            again.caught |= report.outcome == oom::OomOutcome::Caught;
            return;
        }
        run.keep(OomIncident {
            at,
            pid,
            rank: report
                .rank
                .or_else(|| pid.and_then(|pid| run.rank_with(pid)?.hello.rank)),
            device,
            nvml_at_oom,
            ..OomIncident::of_report(at, report.clone())
        });
        run.settle_ooms();
    }

    fn nvml_at_oom_of(&self, device: Option<&Uuid>, pid: Option<Pid>) -> Option<NvmlAtOom> {
        self.device(device?)?.nvml_at_oom(self, pid)
    }

    /// The process and the device of a message, if that can be told.
    fn speaker(&self, at: Moment, report: &OomReport) -> (Option<Pid>, Option<Uuid>) {
        let run = self
            .runs
            .iter()
            .rfind(|run| run.started <= at)
            .or(self.runs.first());
        let ranks = run.map_or(&[][..], |run| &run.ranks[..]);
        let speaker = match (report.rank, ranks) {
            (Some(rank), _) => ranks
                .iter()
                .rfind(|known| known.hello.rank == Some(rank))
                .or(match ranks {
                    [only] if only.hello.rank.is_none() => Some(only),
                    _ => None,
                }),
            // The others of a job may not have said hello yet.
            (None, [only]) if only.hello.world_size.unwrap_or(1) <= 1 => Some(only),
            (None, _) => None,
        };
        let ordinal = report.device;
        let device = match (speaker, ordinal) {
            (Some(rank), Some(ordinal)) => self.device_of(rank.hello.pid, ordinal),
            (Some(rank), None) => rank.device.clone(),
            // It is unknown how this process counts its devices, unless there is only one.
            (None, _) => match &self.devices[..] {
                [only] => Some(only.uuid.clone()),
                _ => None,
            },
        };
        (speaker.map(|rank| rank.hello.pid), device)
    }
}

/// The run at a moment.
fn run_at(runs: &mut [Run], at: Moment) -> Option<&mut Run> {
    let place = runs.iter().rposition(|run| run.started <= at).unwrap_or(0);
    runs.get_mut(place)
}

impl Run {
    /// The nearest incident in time among those that fit.
    fn nearest(
        &mut self,
        at: Moment,
        within: Duration,
        fits: impl Fn(&OomIncident) -> bool,
    ) -> Option<&mut OomIncident> {
        self.ooms
            .iter_mut()
            .filter(|oom| apart(oom.at, at) <= within && fits(oom))
            .min_by_key(|oom| apart(oom.at, at))
    }

    fn keep(&mut self, oom: OomIncident) {
        self.oom_count = self.oom_count.saturating_add(1);
        if self.ooms.len() >= KEPT {
            self.ooms.remove(FIRST_KEPT);
        }
        self.ooms.push(oom);
    }

    /// Sorts the incidents and marks those that were survived, in whatever order record, message
    /// and next step arrived.
    fn settle_ooms(&mut self) {
        self.ooms.sort_by_key(|oom| oom.at);
        let stepped: Vec<(Pid, Moment)> = self
            .ranks
            .iter()
            .filter_map(|rank| Some((rank.hello.pid, rank.steps.last.as_ref()?.0)))
            .collect();
        for (pid, at) in stepped {
            self.survived(pid, at);
        }
    }
}

fn apart(a: Moment, b: Moment) -> Duration {
    a.since(b).max(b.since(a))
}

/// Whether a record and a message so far apart can be of one OOM.
fn alike(record: &OomRecord, rank: Option<Rank>, report: &OomReport, apart: Duration) -> bool {
    let by_figures = report.requested.is_some() && report.allocated.is_some();
    if apart > TOGETHER && !by_figures {
        return false;
    }
    let outside_the_allocator = !report.kind.spec().probed;
    let ranks_differ = matches!((rank, report.rank), (Some(a), Some(b)) if a != b);
    let devices_differ = report.device.is_some_and(|device| device != record.device);
    // The message's "allocated" includes free blocks of private pools.
    let pooled = report.private_pools.is_some();
    !outside_the_allocator
        && !ranks_differ
        && !devices_differ
        && prints_as(record.requested, report.requested)
        && (pooled || prints_as(record.sample.allocated, report.allocated))
}

/// Whether two messages say the same.
fn same(a: &OomReport, b: &OomReport) -> bool {
    let ranks_differ = matches!((a.rank, b.rank), (Some(a), Some(b)) if a != b);
    !ranks_differ
        && (a.kind, a.device, a.requested, a.allocated, a.free)
            == (b.kind, b.device, b.requested, b.allocated, b.free)
}

/// Whether an exact figure can be printed like this: with two decimals of its unit (`format_size`
/// in PyTorch's CUDACachingAllocator.cpp). A missing figure fits.
fn prints_as(exact: Bytes, printed: Option<Bytes>) -> bool {
    printed.is_none_or(|printed| {
        let unit = match exact.0 {
            0..=0x400 => 1,
            0x401..=0x10_0000 => 1 << 10,
            0x10_0001..=0x4000_0000 => 1 << 20,
            0x4000_0001.. => 1 << 30,
        };
        // Half of the last digit, and a little for rounding.
        exact.0.abs_diff(printed.0) <= unit / 150 + 1
    })
}
