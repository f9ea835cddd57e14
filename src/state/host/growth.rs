//! Growth of the host's memory: who grew, whether all of it fills within the hour, whether it leaks, and what workers copied.

use super::{HostPoint, HostState, JUST_BEFORE};
use crate::event::{HostRole, LimitedBy, RoleUse};
use crate::units::{Bytes, Moment, Pid};
use std::time::Duration;

/// The stretch that growth is told from, at least and at most.
const GROWS_FOR: Duration = Duration::from_secs(120);
const GROWS_OVER: Duration = Duration::from_secs(600);

/// A leak is told from a stretch of this length, at least and at most, in so many parts, and from this share of the limit on.
const LEAKS_FOR: Duration = Duration::from_secs(300);
const LEAKS_OVER: Duration = Duration::from_secs(1_800);
const LEAKS_LONG: Duration = Duration::from_secs(1_500);
const LEAK_PARTS: u32 = 8;
const LEAK_SHARE: f64 = 0.05;

/// What is full within this time is worth a word.
const SOON: Duration = Duration::from_secs(3_600);

/// Whoever has grown by this share of the limit within a minute is named.
const GROWS: f64 = 0.02;

/// Growth of a process is told after it was seen for so long: what a process takes as it starts is no rate.
const A_MINUTE: Duration = Duration::from_secs(60);

/// Whose memory has grown most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleGrowth {
    pub role: HostRole,
    pub count: u32,
    pub by: Bytes,
    pub over: Duration,
}

/// Steady growth of all that counts against the limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostGrowth {
    pub per_minute: Bytes,
    /// When nothing will be left, if it goes on.
    pub full_in: Duration,
    /// Who grows, if one role has most of it.
    pub role: Option<HostRole>,
}

/// A kind of process that grows at one rate and gives nothing back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostLeak {
    pub role: HostRole,
    pub count: u32,
    pub per_minute: Bytes,
    /// What it has grown by, over this time.
    pub total: Bytes,
    pub over: Duration,
}

impl HostState {
    /// Who has grown most in the last minute, if that is worth a word.
    pub fn grows(&self) -> Option<RoleGrowth> {
        let (at, memory) = self.latest.as_ref()?;
        let from = Moment(at.0.saturating_sub(JUST_BEFORE.as_micros() as u64));
        self.grown_since(from)
            .filter(|grew| grew.by >= memory.limit.scale(GROWS))
    }

    /// What a process has grown by in a minute, of the last one or two; `None` if it is not known for so long.
    pub fn process_growth(&self, pid: Pid) -> Option<Bytes> {
        let (at, memory) = self.latest.as_ref()?;
        let now = memory.processes.iter().find(|process| process.pid == pid)?;
        let known = self.tracked.iter().find(|known| known.pid == pid)?;
        let (since, then) = known.before;
        let over = at.since(since);
        (over >= A_MINUTE).then(|| {
            let grown = (now.resident - then).0 as f64;
            Bytes((grown * 60.0 / over.as_secs_f64()) as u64)
        })
    }

    /// Steady growth that fills what is left within the hour; `None` if it is not steady: a leak is told for certain or not at
    /// all.
    pub fn growth(&self) -> Option<HostGrowth> {
        let (_, memory) = self.latest.as_ref()?;
        let end = self.history.back()?.at;
        let first = self
            .history
            .iter()
            .find(|point| end.since(point.at) <= GROWS_OVER)?;
        let span = end.since(first.at);
        if span < GROWS_FOR {
            return None;
        }
        // The least of each quarter: what a cache gives back between two epochs is no leak.
        let quarter = |n: u32| self.least(first.at + span * n / 4, first.at + span * (n + 1) / 4);
        let least = [quarter(0)?, quarter(1)?, quarter(2)?, quarter(3)?];
        let all = least[3] - least[0];
        if all < memory.limit.scale(0.02) {
            return None;
        }
        let is_steady = least
            .windows(2)
            .all(|pair| pair[1] - pair[0] > all.scale(0.15));
        let per_second = all.0 as f64 / (span.as_secs_f64() * 0.75);
        let left = (memory.limit - memory.used).0 as f64 / per_second;
        let full_in = Duration::try_from_secs_f64(left).ok()?;
        (is_steady && full_in <= SOON).then(|| HostGrowth {
            per_minute: Bytes((per_second * 60.0) as u64),
            full_in,
            role: (self.grown_since(first.at))
                .filter(|grown| grown.by > all.scale(0.6))
                .map(|grown| grown.role),
        })
    }

    /// A kind of process that has grown at one rate for minutes and gave nothing back. For certain, or `None`: what is cached of a
    /// data set also grows for a while, but it ends with the first epoch. So an epoch must have begun meanwhile, or a long time
    /// have passed. `epochs`: when they began.
    pub(in crate::state) fn leak(
        &self,
        mut epochs: impl Iterator<Item = Moment>,
    ) -> Option<HostLeak> {
        let end = self.history.back()?.at;
        let first = self
            .history
            .iter()
            .find(|point| end.since(point.at) <= LEAKS_OVER)?;
        let span = end.since(first.at);
        let (_, memory) = self.latest.as_ref()?;
        let meanwhile = |at: Moment| at >= first.at + span / 4 && at <= end;
        if span < LEAKS_FOR || (span < LEAKS_LONG && !epochs.any(meanwhile)) {
            return None;
        }
        let grown = self.grown_since(first.at)?;
        let least = |n: u32| {
            let (from, to) = (span * n / LEAK_PARTS, span * (n + 1) / LEAK_PARTS);
            self.least_of(grown.role, first.at + from, first.at + to)
        };
        let least: Vec<Bytes> = (0..LEAK_PARTS).map(least).collect::<Option<_>>()?;
        let all = *least.last()? - *least.first()?;
        let mean = all.scale(1.0 / f64::from(LEAK_PARTS - 1));
        let is_steady = least.windows(2).all(|pair| {
            let step = pair[1] - pair[0];
            step >= mean.scale(0.5) && step <= mean.scale(1.5)
        });
        let is_much = all >= memory.limit.scale(LEAK_SHARE);
        let per_second =
            all.0 as f64 / (span.as_secs_f64() * f64::from(LEAK_PARTS - 1) / f64::from(LEAK_PARTS));
        (is_steady && is_much).then_some(HostLeak {
            role: grown.role,
            count: grown.count,
            per_minute: Bytes((per_second * 60.0) as u64),
            total: grown.by,
            over: span,
        })
    }

    /// The least that a role held in a stretch.
    fn least_of(&self, role: HostRole, from: Moment, to: Moment) -> Option<Bytes> {
        let held = |point: &HostPoint| {
            let of_role = point.roles.iter().find(|known| known.role == role);
            of_role.map_or(Bytes::ZERO, |known| known.held)
        };
        let before = self.history.iter().rfind(|point| point.at <= from);
        let inside = self
            .history
            .iter()
            .filter(|point| point.at > from && point.at < to);
        before.into_iter().chain(inside).map(held).min()
    }

    /// The least that was used in a stretch; a reading holds until the next.
    fn least(&self, from: Moment, to: Moment) -> Option<Bytes> {
        let before = self.history.iter().rfind(|point| point.at <= from);
        let inside = self
            .history
            .iter()
            .filter(|point| point.at > from && point.at < to);
        before
            .into_iter()
            .chain(inside)
            .map(|point| point.used)
            .min()
    }

    pub(super) fn shared_grown_since(&self, from: Moment) -> Option<(Bytes, Duration)> {
        let (at, memory) = self.latest.as_ref()?;
        let before = self.history.iter().rfind(|point| point.at <= from);
        let before = before.or(self.history.front())?;
        Some((memory.shared? - before.shared, at.since(before.at)))
    }

    pub(super) fn used_grown_since(&self, from: Moment) -> Bytes {
        let before = self.history.iter().rfind(|point| point.at <= from);
        match (&self.latest, before.or(self.history.front())) {
            (Some((_, memory)), Some(before)) => memory.used - before.used,
            _ => Bytes::ZERO,
        }
    }

    /// The role that has grown most since a moment.
    pub(super) fn grown_since(&self, from: Moment) -> Option<RoleGrowth> {
        let (at, memory) = self.latest.as_ref()?;
        let before = self.history.iter().rfind(|point| point.at <= from);
        let before = before.or(self.history.front())?;
        let grown = memory.roles.iter().filter_map(|now| {
            let then = before.roles.iter().find(|then| then.role == now.role);
            let then = then.copied().unwrap_or(RoleUse {
                exact: now.exact,
                ..RoleUse::default()
            });
            // A bound and a figure do not compare.
            (then.exact == now.exact).then(|| RoleGrowth {
                role: now.role,
                count: now.count,
                by: now.held - then.held,
                over: at.since(before.at),
            })
        });
        grown
            .max_by_key(|grown| grown.by)
            .filter(|grown| grown.by > Bytes::ZERO)
    }

    /// What is used more, without files and shared memory, than processes have become larger by: pages that they shared are
    /// no longer shared. Since there were as many workers as now; only in a control group of its own, which nobody else fills.
    pub(super) fn copied(&self) -> Option<Bytes> {
        let (_, memory) = self.latest.as_ref()?;
        let workers = |roles: &[RoleUse]| -> u32 {
            let workers = roles.iter().filter(|role| role.role.is_worker());
            workers.map(|role| role.count).sum()
        };
        let count = workers(&memory.roles);
        let points = self.history.iter().rev();
        let first = points
            .take_while(|point| workers(&point.roles) == count)
            .last()?;
        if count < 2 || memory.limited_by == LimitedBy::Machine {
            return None;
        }
        let mapped = |roles: &[RoleUse]| -> Bytes { roles.iter().map(|role| role.mapped).sum() };
        // A recording of an earlier version.
        let is_known = |roles: &[RoleUse]| mapped(roles) > Bytes::ZERO;
        if !is_known(&memory.roles) || !is_known(&first.roles) {
            return None;
        }
        let shared = memory.shared.unwrap_or_default() - first.shared;
        let larger = mapped(&memory.roles) - mapped(&first.roles);
        Some(memory.used - first.used - shared - larger)
    }
}
