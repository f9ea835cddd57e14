//! What a recording keeps of the events: how exactly each kind, and within which limits.
//!
//! Events that a diagnosis or the list of runs is based on are kept in full. Readings that come many times a
//! second and only draw a curve are kept at full rate for the last minutes and around an OOM, and thinned out
//! before. The first day of a session, its largest, stays below 50 MB for any number of ranks; a test adds it
//! up. Time is that of the events, so that a simulated week costs the same as a real one.

use crate::event::EventKind;
use crate::units::{Bytes, Moment, Pid, Uuid};
use std::time::Duration;

const MB: u64 = 1_000_000;

/// Above this share of its limit the host's memory may be gone, and we with it, a second later.
const URGENT: f64 = 0.7;

/// Most trainings end within hours: their readings are thinned out less.
const FIRST_HOURS: Moment = Moment(2 * 3_600 * 1_000_000);

/// How large a recording may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes per second for thinned-out readings in the first two hours, …
    pub thinned_at_first: u32,
    /// … and after that.
    pub thinned_later: u32,
    /// For OOMs and the readings around them: a program that catches one in every step must not
    /// fill the disk.
    pub oom: Share,
    /// The part of that for the records only.
    pub oom_records: Bytes,
    /// For readings of the host's memory.
    pub host: Share,
    /// For occasional events: processes that come and go, notes, the structure of memory.
    pub exact: Share,
    /// How long before an OOM, or the end, readings are kept at full rate, …
    pub before_oom: Duration,
    /// … how many bytes of them are kept in memory for that, …
    pub before_oom_held: Bytes,
    /// … and how long after it.
    pub after_oom: Duration,
    /// The minimum duration of a bucket of thinned-out readings.
    pub bucket: Duration,
    /// A bucket of this size accepts no new streams.
    pub bucket_held: Bytes,
}

impl Limits {
    /// Bytes per second for thinned-out readings at `now`.
    pub(super) fn thinned_rate(&self, now: Moment) -> f64 {
        f64::from(if now < FIRST_HOURS {
            self.thinned_at_first
        } else {
            self.thinned_later
        })
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            thinned_at_first: 1_200,
            thinned_later: 200,
            oom: Share {
                burst: Bytes(9 * MB),
                per_day: Bytes(7 * MB),
            },
            oom_records: Bytes(3 * MB),
            host: Share {
                burst: Bytes(600_000),
                per_day: Bytes(1_200_000),
            },
            exact: Share {
                burst: Bytes(2 * MB),
                per_day: Bytes(2 * MB),
            },
            before_oom: Duration::from_secs(60),
            before_oom_held: Bytes(2 * MB),
            after_oom: Duration::from_secs(10),
            bucket: Duration::from_secs(1),
            bucket_held: Bytes(MB),
        }
    }
}

const DAY: f64 = 86_400.0;

/// A budget of bytes for a kind of event: a burst, then a rate per day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Available at once, at the beginning or after a quiet time.
    pub burst: Bytes,
    pub per_day: Bytes,
}

impl Share {
    /// The maximum cost of a day.
    pub const fn most_in_a_day(self) -> Bytes {
        Bytes(self.burst.0 + self.per_day.0)
    }
}

/// What is left of a [`Share`] at the last query.
#[derive(Debug)]
pub(super) struct Allowance {
    share: Share,
    left: f64,
    at: Moment,
}

impl Allowance {
    pub fn full(share: Share) -> Allowance {
        Allowance {
            share,
            left: share.burst.0 as f64,
            at: Moment::ZERO,
        }
    }

    fn per_second(&self) -> f64 {
        self.share.per_day.0 as f64 / DAY
    }

    /// What may be spent at `now`.
    pub fn left(&mut self, now: Moment) -> Bytes {
        let passed = now.since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.left = (self.left + passed * self.per_second()).min(self.share.burst.0 as f64);
        Bytes(self.left as u64)
    }

    /// Spends `cost` if enough is left.
    pub fn spend(&mut self, cost: Bytes, now: Moment) -> bool {
        let enough = self.left(now) >= cost;
        if enough {
            self.left -= cost.0 as f64;
        }
        enough
    }
}

/// How an event is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fidelity {
    /// Always, regardless of its size: the recording is unreadable without it. There are few of
    /// them.
    Vital,
    /// In full, within the budget for OOMs, and the readings just before are kept as well.
    Oom,
    /// In full, within the budget for occasional events.
    Exact,
    /// A reading of a stream whose smallest, largest and last values are kept.
    Thinned(ReadingStream, u64),
    /// A reading of the host's memory: the latest one of a stretch of time, within its own budget.
    Host { is_urgent: bool },
    /// Not recorded: a kind that this version can't write.
    Nothing,
}

/// A stream of readings that are compared with each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ReadingStream {
    Sample(Pid, u32),
    Step(Pid, u32),
    Device(Uuid),
    Output,
}

/// How `what` is kept. The number of a reading is the one whose extremes matter: a sample's
/// allocated bytes, a step's peak, a device's used bytes, the log's length.
pub(super) fn fidelity(what: &EventKind) -> Fidelity {
    match what {
        EventKind::SessionStarted(_)
        | EventKind::Started(_)
        | EventKind::SpawnFailed(_)
        | EventKind::Exited(_)
        | EventKind::StopRequested(_) => Fidelity::Vital,
        EventKind::Oom(_) | EventKind::OomText(_) => Fidelity::Oom,
        EventKind::HostMemory(reading) => Fidelity::Host {
            is_urgent: reading.used > reading.limit.scale(URGENT),
        },
        EventKind::HostKill(_) => Fidelity::Oom,
        EventKind::Nvml(_)
        | EventKind::LaunchFacts(_)
        | EventKind::Hello(_)
        | EventKind::Structure(_)
        | EventKind::Patchable(_)
        | EventKind::Rehearsal(_)
        | EventKind::Knobs(_)
        | EventKind::Called(_)
        | EventKind::ProcessHost(_)
        | EventKind::PeakActivity(_)
        | EventKind::StepTrace(_)
        | EventKind::Retainers(_)
        | EventKind::SourceText(_)
        | EventKind::Patch(_)
        | EventKind::UncaughtOom(_)
        | EventKind::ProbeErrors(_)
        | EventKind::ProbeGone(_)
        | EventKind::Losses(_)
        | EventKind::PrintedLoss(_)
        | EventKind::Epoch(_)
        | EventKind::Consequence(_)
        | EventKind::PredictionOutcome(_)
        | EventKind::Note(_)
        | EventKind::Dropped(_) => Fidelity::Exact,
        EventKind::Device(reading) if reading.lost.is_some() => Fidelity::Exact,
        EventKind::Device(reading) => Fidelity::Thinned(
            ReadingStream::Device(reading.uuid.clone()),
            reading.used.unwrap_or_default().0,
        ),
        EventKind::Sample(sample) => Fidelity::Thinned(
            ReadingStream::Sample(sample.pid, sample.device),
            sample.allocated.0,
        ),
        EventKind::Step(step) => Fidelity::Thinned(
            ReadingStream::Step(step.pid, step.device),
            step.after.peak.max(step.before.peak).0,
        ),
        EventKind::Logged(logged) => Fidelity::Thinned(ReadingStream::Output, logged.bytes.0),
        EventKind::Unknown => Fidelity::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_day_stays_under_fifty_megabytes() {
        let limits = Limits::default();
        let at_first = u64::from(limits.thinned_at_first) * 2 * 3_600;
        let later = u64::from(limits.thinned_later) * 22 * 3_600;
        let host = limits.host.most_in_a_day().0;
        assert!(host <= 2 * MB);
        let exact = host + limits.oom.most_in_a_day().0 + limits.exact.most_in_a_day().0;
        // The open bucket and the last minute are written at the end.
        let at_end = limits.bucket_held.0 + limits.before_oom_held.0;
        let most = at_first + later + exact + at_end;
        assert!(most <= 50 * MB, "{most}");
    }

    const SHARE: Share = Share {
        burst: Bytes(1_000),
        per_day: Bytes(86_400),
    };

    #[test]
    fn a_burst_is_spent_once_and_comes_back_slowly() {
        let mut allowance = Allowance::full(SHARE);
        assert!(allowance.spend(Bytes(1_000), Moment::ZERO));
        assert!(!allowance.spend(Bytes(1), Moment::ZERO));
        let later = Moment::from_secs_f64(10.0);
        assert!(!allowance.spend(Bytes(11), later));
        assert!(allowance.spend(Bytes(10), later));
        assert_eq!(allowance.left(Moment::from_secs_f64(1e6)), SHARE.burst);
    }

    #[test]
    fn stamps_out_of_order_give_nothing_back_twice() {
        let mut allowance = Allowance::full(SHARE);
        assert!(allowance.spend(Bytes(1_000), Moment::from_secs_f64(100.0)));
        for _ in 0..10 {
            allowance.left(Moment::from_secs_f64(50.0));
            allowance.left(Moment::from_secs_f64(101.0));
        }
        assert_eq!(allowance.left(Moment::from_secs_f64(101.0)), Bytes(1));
    }
}
