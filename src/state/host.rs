//! The host's memory, folded: the latest reading, what it has grown by, and what the kernel has killed for it.
//!
//! A kill counts as the end of a run where three things come together: the kernel's counter has risen, a process of the run was
//! gone in the same moment, and the run failed then. Nothing else says so of a process that ends without a word.

mod growth;

pub use growth::{HostGrowth, HostLeak, RoleGrowth};

use crate::event::{
    Exit, HostKill, HostMemory, HostUnseen, KillCount, Level, LoaderSettings, ProcessHost, RoleUse,
};
use crate::oom::OomKind;
use crate::state::{HostAtOom, HostOomSource, OomIncident, Run, State};
use crate::units::{Bytes, Moment, Pid, RunNumber};
use std::collections::VecDeque;
use std::time::Duration;

/// Readings kept; beyond that every second one is dropped.
const KEPT: usize = 256;

/// A run that fails so soon after a kill was ended by it: a launcher takes a while to notice.
const ENDS_WITHIN: Duration = Duration::from_secs(15);

/// A message and a kill so close together are of one thing.
const TOGETHER: Duration = Duration::from_secs(10);

/// What counts as the time just before: who has grown in it is told.
const JUST_BEFORE: Duration = Duration::from_secs(60);

/// Above this share of the limit it is.
const FULL: f64 = 0.7;

/// From this share on, what ends without a word may have been ended for it: where its last reading is no older than this. Of
/// /dev/shm there is no new one while nothing moves in it.
const NEARLY_ALL: f64 = 0.9;
const LAST_WORDS: Duration = Duration::from_secs(5);
const LAST_OF_SHM: Duration = Duration::from_secs(70);

/// The time between two looks, at most: what comes between is seen by nobody.
const MOMENT: Duration = Duration::from_secs(1);

/// What a process is ended by that writes to a page of a file for which there is no room.
const SIGBUS: i32 = 7;

/// Processes without CUDA whose DataLoaders are kept.
const MOST_EARLY: usize = 64;

/// What is known of the host's memory.
#[derive(Debug, Clone, Default)]
pub struct HostState {
    latest: Option<(Moment, HostMemory)>,
    history: VecDeque<HostPoint>,
    spacing: Duration,
    unseen: Vec<HostUnseen>,
    /// All RAM of the machine.
    machine: Option<Bytes>,
    /// Its named processes.
    tracked: Vec<TrackedProcess>,
    /// When the kernel last killed, and what.
    kill: Option<(Moment, HostKill)>,
    /// What it has killed by now, of this run and before it.
    kills: Option<KillCount>,
}

/// What a process held one or two minutes ago, and what will be that.
#[derive(Debug, Clone)]
struct TrackedProcess {
    pid: Pid,
    before: (Moment, Bytes),
    next: (Moment, Bytes),
}

/// What was held at a moment.
#[derive(Debug, Clone, PartialEq)]
struct HostPoint {
    at: Moment,
    used: Bytes,
    shared: Bytes,
    roles: Vec<RoleUse>,
}

impl HostState {
    /// The latest reading, and when it was.
    pub fn latest(&self) -> Option<&(Moment, HostMemory)> {
        self.latest.as_ref()
    }

    /// What the kernel has killed by now, as far as it was told.
    pub fn kills(&self) -> Option<KillCount> {
        self.kills
    }

    /// What cannot be seen here.
    pub fn unseen(&self) -> &[HostUnseen] {
        &self.unseen
    }

    /// The readings so far, thinned: when, and what counted against the limit.
    pub fn history(&self) -> impl Iterator<Item = (Moment, Bytes)> {
        self.history.iter().map(|point| (point.at, point.used))
    }

    /// Keeps what each process held one or two minutes ago.
    fn track(&mut self, at: Moment, memory: &HostMemory) {
        let is_there = |pid| memory.processes.iter().any(|process| process.pid == pid);
        self.tracked.retain(|known| is_there(known.pid));
        for process in &memory.processes {
            let now = (at, process.resident);
            match self
                .tracked
                .iter_mut()
                .find(|known| known.pid == process.pid)
            {
                None => self.tracked.push(TrackedProcess {
                    pid: process.pid,
                    before: now,
                    next: now,
                }),
                Some(known) if at.since(known.next.0) >= JUST_BEFORE => {
                    (known.before, known.next) = (known.next, now);
                }
                Some(_) => {}
            }
        }
    }

    /// Whether a person should see it: it is nearly full, or will be within the hour.
    pub fn matters(&self) -> bool {
        let was_full = self.latest.as_ref().is_some_and(|(at, memory)| {
            // What goes to and fro about that share is not told and untold with it.
            let lately = self.history.iter().rev();
            let mut lately = lately.take_while(|point| at.since(point.at) <= JUST_BEFORE);
            let full = memory.limit.scale(FULL);
            memory.used > full || lately.any(|point| point.used > full)
        });
        was_full || self.growth().is_some()
    }

    fn read(&mut self, at: Moment, memory: &HostMemory) {
        for what in &memory.unseen {
            if !self.unseen.contains(what) {
                self.unseen.push(*what);
            }
        }
        if self.latest.as_ref().is_some_and(|(last, _)| at < *last) {
            return;
        }
        self.machine = memory.machine.or(self.machine);
        let known = HostMemory {
            machine: self.machine,
            ..memory.clone()
        };
        self.latest = Some((at, known));
        self.kills = memory.kills.or(self.kills);
        self.track(at, memory);
        let is_due = |last: &HostPoint| at.since(last.at) >= self.spacing;
        if self.history.back().is_none_or(is_due) {
            self.history.push_back(HostPoint {
                at,
                used: memory.used,
                shared: memory.shared.unwrap_or_default(),
                roles: memory.roles.clone(),
            });
        }
        if self.history.len() > KEPT {
            let mut place = 0..;
            self.history
                .retain(|_| place.next().is_some_and(|n| n % 2 == 0));
            self.spacing = (self.spacing * 2).max(Duration::from_secs(2));
        }
    }

    /// The figures for an OOM at a moment.
    fn at_oom(&self, at: Moment) -> HostAtOom {
        let from = Moment(at.0.saturating_sub(JUST_BEFORE.as_micros() as u64));
        let kill = self
            .kill
            .as_ref()
            .filter(|(killed, _)| apart(*killed, at) <= TOGETHER);
        HostAtOom {
            memory: self.latest.clone(),
            grew: self.grown_since(from),
            shared_grew: self.shared_grown_since(from),
            all_grew: self.used_grown_since(from),
            copied: self.copied(),
            leak: None,
            kill: kill.map(|(_, kill)| kill.clone()),
            told_by: HostOomSource::Told,
        }
    }

    /// Whether nearly all of it was used by a recent reading, or would have been within a moment, as it grew.
    fn is_nearly_gone(&self, now: Moment) -> bool {
        self.latest.as_ref().is_some_and(|(at, memory)| {
            let soon = memory.used + self.grows_in_a_moment(*at, memory.used);
            soon >= memory.limit.scale(NEARLY_ALL) && now.since(*at) <= LAST_WORDS
        })
    }

    /// What is added within a moment after the latest reading, by that and the one before it.
    fn grows_in_a_moment(&self, at: Moment, used: Bytes) -> Bytes {
        let before = self.history.iter().rfind(|point| point.at < at);
        before.map_or(Bytes::ZERO, |point| {
            let over = at.since(point.at).as_secs_f64();
            (used - point.used).scale(MOMENT.as_secs_f64() / over.max(MOMENT.as_secs_f64()))
        })
    }

    /// Whether /dev/shm had no room for another batch by such a reading.
    fn is_shm_full(&self, now: Moment) -> bool {
        self.latest.as_ref().is_some_and(|(at, memory)| {
            let shm = memory.shm;
            shm.is_some_and(|shm| shm.used >= shm.size.scale(NEARLY_ALL))
                && now.since(*at) <= LAST_OF_SHM
        })
    }
}

fn apart(a: Moment, b: Moment) -> Duration {
    a.since(b).max(b.since(a))
}

impl State {
    /// What torch's allocators of pinned memory hold, of all living processes; `None` where no probe knows it.
    pub fn pinned(&self) -> Option<Bytes> {
        let ranks = self.run().into_iter().flat_map(Run::alive);
        ranks
            .filter_map(|rank| rank.host.pinned)
            .reduce(|all, more| all + more)
    }

    pub(super) fn host_read(&mut self, at: Moment, memory: &HostMemory) {
        self.host.read(at, memory);
        let own: Bytes = memory.roles.iter().map(|role| role.held).sum();
        if let Some(run) = self.runs.last_mut().filter(|run| run.ended.is_none())
            && own > run.own_host_peak.unwrap_or_default()
        {
            run.own_host_peak = Some(own);
        }
        if let Some(run) = self.runs.last_mut().filter(|run| run.ended.is_none())
            && run.host_peak < Some(memory.used)
        {
            run.host_peak = Some(memory.used);
            run.host_at_peak = Some(Box::new((at, memory.clone())));
        }
    }

    /// Keeps the latest of what a process says of its use of the host's memory.
    pub(super) fn process_host(&mut self, at: Moment, said: &ProcessHost) {
        let Some(rank) = self.rank_mut(said.pid) else {
            let run = self.runs.last_mut().filter(|run| run.ended.is_none());
            if let (Some(run), Some(loaders)) = (run, &said.loaders) {
                run.keep_early_loaders(said.pid, loaders);
            }
            return;
        };
        let host = &mut rank.host;
        if let Some(loaders) = &said.loaders {
            host.loaders.clone_from(loaders);
        }
        if let Some(growth) = &said.growth {
            host.growth = Some((at, growth.clone()));
        }
        host.pinned = said.pinned.or(host.pinned);
    }

    /// What a run begins with is its own; its first reading may come before the word that it has started.
    pub(super) fn host_run_started(&mut self, pid: Pid) {
        let is_of_run = |(_, memory): &(Moment, HostMemory)| {
            memory.processes.iter().any(|process| process.pid == pid)
        };
        self.host = HostState {
            latest: self.host.latest.take().filter(is_of_run),
            unseen: std::mem::take(&mut self.host.unseen),
            machine: self.host.machine,
            kills: self.host.kills,
            ..HostState::default()
        };
    }

    pub(super) fn host_killed(&mut self, at: Moment, kill: &HostKill) {
        let first = match &self.host.kill {
            Some((first, known)) if known.total == kill.total => *first,
            Some(_) | None => at,
        };
        self.host.kill = Some((first, kill.clone()));
        self.host.kills = Some(KillCount {
            total: kill.total,
            of_machine: kill.of_machine,
        });
        let Some(run) = self.runs.last_mut() else {
            return;
        };
        for oom in &mut run.ooms {
            if let Some(host) = &mut oom.host
                && apart(oom.at, first) <= TOGETHER
            {
                host.kill = Some(kill.clone());
            }
        }
        let number = run.number;
        self.end_by_kill(number);
    }

    /// A kind of process of the current run that leaks the host's memory, for certain.
    pub fn host_leak(&self) -> Option<HostLeak> {
        let epochs = self.run()?.epochs.marks().iter();
        self.host.leak(epochs.map(|mark| mark.at))
    }

    fn host_at_oom(&self, at: Moment) -> HostAtOom {
        HostAtOom {
            leak: self.host_leak(),
            ..self.host.at_oom(at)
        }
    }

    /// The figures for a message that says that the host's memory ran out.
    pub(super) fn host_at(&self, at: Moment, kind: OomKind) -> Option<Box<HostAtOom>> {
        (kind == OomKind::HostOom).then(|| Box::new(self.host_at_oom(at)))
    }

    /// If a run failed when the kernel had killed a process of it, and nothing in its output says so: that is its end.
    pub(super) fn end_by_kill(&mut self, number: RunNumber) {
        let Some((killed, kill)) = self.host.kill.clone() else {
            return;
        };
        let host = self.host_at_oom(killed);
        let mut runs = self.runs.iter_mut();
        let Some(run) = runs.find(|run| run.number == number) else {
            return;
        };
        if !run.failed_soon_after(killed, &kill) || run.has_host_oom(killed) {
            return;
        }
        run.keep(OomIncident {
            at: killed,
            pid: kill.gone.first().map(|process| process.pid),
            host: Some(Box::new(host)),
            ..OomIncident::default()
        });
        run.settle_ooms();
    }

    /// If a run ended by a bus error when /dev/shm was full, and nothing in its output says so: that is its end.
    pub(super) fn end_by_bus_error(&mut self, number: RunNumber) {
        let run = self.runs.iter().find(|run| run.number == number);
        let Some((run, (at, exit))) = run.and_then(|run| Some((run, run.ended?))) else {
            return;
        };
        let is_bus_error = [Exit::Signal(SIGBUS), Exit::Code(128 + SIGBUS)].contains(&exit);
        if is_bus_error && self.host.is_shm_full(at) && !run.has_host_oom(at) {
            self.keep_host_oom(number, at, HostOomSource::BusError);
        }
    }

    /// If a run failed for want of space on a file system: where nothing more fitted into /dev/shm it was that one, else a disk.
    pub(super) fn end_without_space(&mut self, number: RunNumber) {
        let run = self.runs.iter().find(|run| run.number == number);
        let Some((run, (ended, exit))) = run.and_then(|run| Some((run, run.ended?))) else {
            return;
        };
        let is_its_end = |at: Moment| apart(at, ended) <= ENDS_WITHIN;
        if exit.is_success() || !run.no_space.is_some_and(is_its_end) || run.oom().is_some() {
            return;
        }
        match self.host.is_shm_full(ended) {
            true => self.keep_host_oom(number, ended, HostOomSource::NoSpace),
            false => self.note(
                ended,
                Level::Warning,
                "its output says that no space is left on a device: a disk is full (of checkpoints, of TMPDIR), not memory".into(),
            ),
        }
    }

    /// The recording ends here, and nobody goes on with it. Where it stops in the middle of a run with nearly all RAM in use, what
    /// ended the run ended oomph too: the kernel does so with `memory.oom.group`, SLURM at a job's limit. Whether it is so.
    pub fn breaks_off(&mut self) -> bool {
        if !self.may_break_off() {
            return false;
        }
        let now = self.now;
        let Some(run) = self.runs.last_mut() else {
            return false;
        };
        run.broke_off = true;
        let number = run.number;
        if !run.has_host_oom(now) {
            self.keep_host_oom(number, now, HostOomSource::BrokenOff);
        }
        true
    }

    /// Whether that would be so if nobody went on with it.
    pub fn may_break_off(&self) -> bool {
        let is_open = self.run().is_some_and(|run| run.ended.is_none());
        is_open && self.host.is_nearly_gone(self.now)
    }

    fn keep_host_oom(&mut self, number: RunNumber, at: Moment, told_by: HostOomSource) {
        let host = HostAtOom {
            told_by,
            ..self.host_at_oom(at)
        };
        let mut runs = self.runs.iter_mut();
        if let Some(run) = runs.find(|run| run.number == number) {
            run.keep(OomIncident {
                at,
                host: Some(Box::new(host)),
                ..OomIncident::default()
            });
            run.settle_ooms();
        }
    }
}

impl Run {
    /// The DataLoaders of all its processes that have had workers.
    pub fn loaders(&self) -> impl Iterator<Item = &LoaderSettings> {
        let is_early = |(pid, _): &&(Pid, Vec<LoaderSettings>)| self.rank_with(*pid).is_none();
        let early = self.early_loaders.iter().filter(is_early);
        let of_ranks = self.ranks.iter().flat_map(|rank| &rank.host.loaders);
        of_ranks.chain(early.flat_map(|(_, loaders)| loaders))
    }

    /// Those of a process that has not initialised CUDA.
    fn keep_early_loaders(&mut self, pid: Pid, loaders: &[LoaderSettings]) {
        self.early_loaders.retain(|(known, _)| *known != pid);
        if self.early_loaders.len() < MOST_EARLY {
            self.early_loaders.push((pid, loaders.to_vec()));
        }
    }

    fn failed_soon_after(&self, killed: Moment, kill: &HostKill) -> bool {
        let Some((ended, exit)) = self.ended else {
            return false;
        };
        let is_killed = matches!(exit, Exit::Signal(9) | Exit::Code(137));
        // Where all of the machine is counted it may have been somebody else's process.
        let is_ours = !kill.gone.is_empty() && (is_killed || !kill.of_machine);
        !exit.is_success()
            && is_ours
            && apart(killed, ended) <= ENDS_WITHIN
            && self.started <= killed
    }

    /// Whether its output says it already.
    fn has_host_oom(&self, at: Moment) -> bool {
        let is_of_host = |oom: &OomIncident| oom.kind() == OomKind::HostOom;
        self.ooms
            .iter()
            .any(|oom| is_of_host(oom) && apart(oom.at, at) <= ENDS_WITHIN)
    }
}
