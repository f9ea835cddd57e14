//! The host's memory, on a thread of its own: what the run's processes hold, what they may hold, and whether the kernel has
//! killed for it.
//!
//! It only reads files of the kernel; nothing is sent to the processes and nothing waits for it. A look at what counts against
//! the limit is a read or two; the processes are only read when that has moved.

mod cgroup;
mod files;
mod machine;
#[cfg(test)]
mod tests;
mod tree;

use crate::event::{
    Clock, Event, EventKind, HostKill, HostMemory, HostProcess, HostRole, HostUnseen, KillCount,
    LimitedBy, RoleUse,
};
use crate::units::{Bytes, Moment, Pid};
use cgroup::{Cgroup, LevelStat};
use files::read_small;
use machine::{Machine, MachineUse};
use nix::sys::resource::{Resource, getrlimit};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;
use tree::{Close, CloseLook, RunTree};

/// Where the kernel's files are, and whose processes are the run.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The root of the files that say what the machine and the control group have: `/`, or another for tests.
    pub system: PathBuf,
    /// Its descendants are the run: the keeper, which becomes the parent of whatever the run leaves behind.
    pub root: i32,
    /// Descendants of it that are not: a front that the keeper started.
    pub but: Vec<i32>,
    /// The time between two looks.
    pub interval: Duration,
    /// What an earlier front of this session knew, if there was one.
    pub earlier: Option<HostEarlier>,
}

/// What the recording says of the run that goes on: a front that the kernel killed did not live to tell what else it killed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostEarlier {
    pub kills: KillCount,
    /// Its processes, as they were last.
    pub processes: Vec<HostProcess>,
}

/// Above this share of the limit it is looked closely.
const NEAR: f64 = 0.7;

/// There the looks come this much closer together: what is known before a kill is then younger.
const NEAR_FACTOR: u32 = 2;

/// What grows so fast that nothing is left after this is looked at more often still.
const FAST: Duration = Duration::from_secs(10);
const FAST_FACTOR: u32 = 5;

/// From this share of the limit on any change is news: the next may be the last.
const LAST: f64 = 0.95;

/// A change by this part of the limit is news; any change is, after a while.
const NEWS: u64 = 100;
const NEWS_AFTER: Duration = Duration::from_secs(60);

/// Of /dev/shm a change by this part of its size is.
const SHM_NEWS: u64 = 16;

/// Processes are read again after this even if nothing has moved.
const PROCESSES_AFTER: Duration = Duration::from_secs(10);

/// How often the control group is looked up anew: the program may have been moved.
const LOOKED_UP: Duration = Duration::from_secs(15);

/// A run that is younger is looked up at each look: systemd-run moves itself before it becomes the program, and a container's
/// first process is not the one that was started.
const YOUNG: Duration = Duration::from_secs(30);

/// A process may take so long to end after it was killed, and the news of it to be taken.
const DYING: Duration = Duration::from_secs(3);

/// Milliseconds that the end of a run waits for a look under way: longer than a close one takes.
const PATIENCE: u32 = 500;

/// What probes may say between two looks.
const MOST_TOLD: usize = 4_096;

/// Processes named in a reading.
const NAMED: usize = 6;

/// A process that holds less than this is not worth a word.
const WORTH_NAMING: Bytes = Bytes::mib(1);

/// Looks until it is dropped; dropping does not wait for a look under way.
#[derive(Debug)]
pub struct HostWatch {
    shared: Arc<SharedWatch>,
}

#[derive(Debug)]
struct SharedWatch {
    watcher: Mutex<Watcher>,
    stop: Mutex<bool>,
    stopped: Condvar,
    clock: Clock,
    /// What probes have said of processes since the last look.
    told: Mutex<Vec<(Pid, HostRole)>>,
}

impl HostWatch {
    /// A probe has said what a process is there for. Nothing waits for a look.
    pub fn is_told(&self, pid: Pid, role: HostRole) {
        let mut told = lock(&self.shared.told);
        if told.len() < MOST_TOLD {
            told.push((pid, role));
        }
    }

    /// Whether the kernel has killed by now: a run has ended, and that must not be told a second later. A look under way is
    /// waited for a moment.
    pub fn look_at_the_end(&self) -> Vec<Event> {
        for _ in 0..PATIENCE {
            if let Ok(mut watcher) = self.shared.watcher.try_lock() {
                watcher.tree.take_told(&mut lock(&self.shared.told));
                let began = self.shared.clock.now();
                return self.shared.stamped(began, watcher.look(true));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Vec::new()
    }
}

impl Drop for HostWatch {
    fn drop(&mut self) {
        *lock(&self.shared.stop) = true;
        self.shared.stopped.notify_all();
    }
}

impl SharedWatch {
    /// What a look found that began then: figures are of its beginning, however long it took at a limit, and a kill came before
    /// its end.
    fn stamped(&self, began: Moment, found: Vec<EventKind>) -> Vec<Event> {
        let ended = self.clock.now();
        let stamp = |what: EventKind| Event {
            at: match what {
                EventKind::HostMemory(_) => began,
                _ => ended,
            },
            what,
        };
        found.into_iter().map(stamp).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|held| held.into_inner())
}

/// Starts looking. Readings that `sender` has no room for are dropped: the next one says the same.
pub fn watch(options: HostOptions, clock: Clock, sender: Sender<Event>) -> HostWatch {
    let interval = options.interval;
    let shared = Arc::new(SharedWatch {
        watcher: Mutex::new(Watcher::new(options)),
        stop: Mutex::new(false),
        stopped: Condvar::new(),
        clock,
        told: Mutex::default(),
    });
    if has_address_space() {
        let of_thread = Arc::clone(&shared);
        // Without its thread the host's memory is not told; the training is unharmed.
        let _ = std::thread::Builder::new()
            .name("host-memory".into())
            .spawn(move || run(&of_thread, interval, &sender));
    }
    HostWatch { shared }
}

/// Whether a further thread leaves the others their room: each reserves up to 128 MiB of addresses for its
/// allocations (glibc's arenas), and under `ulimit -v` what then cannot be allocated ends this process.
fn has_address_space() -> bool {
    const ENOUGH: u64 = 4 << 30;
    getrlimit(Resource::RLIMIT_AS).is_ok_and(|(soft, _)| soft >= ENOUGH)
}

/// Near the limit, now and then: a reading in which each process has what is its own. Beside the usual looks, which do not wait
/// for it: what is read of a process that waits for memory itself comes late.
fn look_closely(shared: &Arc<SharedWatch>, sender: &Sender<Event>) {
    let Some(look) = lock(&shared.watcher).close_look() else {
        return;
    };
    let (shared, sender) = (Arc::clone(shared), sender.clone());
    // Without this thread nobody looks closely again; all else is told.
    let _ = std::thread::Builder::new()
        .name("host-closely".into())
        .spawn(move || {
            let (found, cost) = look.take();
            let (began, closer) = {
                let mut watcher = lock(&shared.watcher);
                (shared.clock.now(), watcher.looked_closely(found, cost))
            };
            send(shared.stamped(began, closer.into_iter().collect()), &sender);
        });
}

fn run(shared: &Arc<SharedWatch>, interval: Duration, sender: &Sender<Event>) {
    loop {
        let (began, found, factor) = {
            let mut watcher = lock(&shared.watcher);
            watcher.tree.take_told(&mut lock(&shared.told));
            let began = shared.clock.now();
            (began, watcher.look(false), watcher.closeness())
        };
        send(shared.stamped(began, found), sender);
        look_closely(shared, sender);
        let pause = interval / factor;
        let stop = lock(&shared.stop);
        let (stop, _) = shared
            .stopped
            .wait_timeout_while(stop, pause, |stop| !*stop)
            .unwrap_or_else(|held| held.into_inner());
        if *stop || sender.is_closed() {
            return;
        }
    }
}

fn send(found: Vec<Event>, sender: &Sender<Event>) {
    for event in found {
        let _ = sender.try_send(event);
    }
}

#[derive(Debug)]
struct Watcher {
    options: HostOptions,
    machine: Machine,
    tree: RunTree,
    membership: String,
    cgroup: Option<Cgroup>,
    looked_up: Option<Instant>,
    /// When the first process of the run was seen.
    run_since: Option<Instant>,
    /// Whether that was for a process of the run, or only for what it inherits.
    has_looked_at_run: bool,
    /// The kernel's counter at the last look, and whether it is the machine's.
    kills: Option<(u64, bool)>,
    /// The latest kill: it is told again while its victims end.
    killed: Option<(Instant, HostKill)>,
    told: Option<(Instant, HostMemory)>,
    /// When the processes were read, and what counted against the limit then.
    read: Option<(Instant, Bytes)>,
    /// Whether what is used is near the limit.
    is_near: bool,
    /// Whether it will have reached it in a moment, and what it was at the last look.
    is_fast: bool,
    seen: Option<(Instant, Bytes)>,
}

impl Watcher {
    fn new(options: HostOptions) -> Watcher {
        let tree = RunTree::new("/proc".into(), options.root, options.but.clone());
        Watcher {
            machine: Machine::of(&options.system),
            tree,
            membership: String::new(),
            cgroup: None,
            looked_up: None,
            run_since: None,
            has_looked_at_run: false,
            kills: None,
            killed: None,
            told: None,
            read: None,
            is_near: false,
            is_fast: false,
            seen: None,
            options,
        }
    }

    /// How much more often than usual it is to be looked.
    fn closeness(&self) -> u32 {
        match (self.is_fast, self.is_near) {
            (true, _) => FAST_FACTOR,
            (false, true) => NEAR_FACTOR,
            (false, false) => 1,
        }
    }

    /// Whether what is used will have come to the limit in a moment, by the last two looks.
    fn is_fast(&mut self, now: Instant, reading: &HostMemory) -> bool {
        let before = self.seen.replace((now, reading.used));
        before.is_some_and(|(at, used)| {
            let grown = (reading.used - used).0 as f64 / now.duration_since(at).as_secs_f64();
            (reading.limit - reading.used).0 as f64 <= grown * FAST.as_secs_f64() && grown > 0.0
        })
    }

    /// What is new. `is_end`: a run has ended, and whatever is known counts.
    fn look(&mut self, is_end: bool) -> Vec<EventKind> {
        let now = Instant::now();
        self.tree.find(self.machine.last_pid());
        self.look_up(now);
        let Some(machine) = self.machine.used() else {
            return Vec::new();
        };
        let reading = self.measured(&machine);
        let moved = self.read.is_none_or(|(at, used)| {
            now.duration_since(at) >= PROCESSES_AFTER
                || used.0.abs_diff(reading.used.0) > reading.limit.0 / (NEWS * 10)
        });
        let is_shm_near = reading
            .shm
            .is_some_and(|shm| shm.used > shm.size.scale(NEAR));
        self.is_near = reading.used > reading.limit.scale(NEAR) || is_shm_near;
        self.is_fast = self.is_fast(now, &reading);
        let mut found = Vec::new();
        let more = self.count_kills();
        let is_dying = self
            .killed
            .as_ref()
            .is_some_and(|(at, _)| now.duration_since(*at) < DYING);
        let moved = moved || self.tree.has_new();
        if moved || more > 0 || is_dying || is_end {
            let mut gone = self.tree.read();
            if more > 0 {
                gone.extend(self.gone_since_earlier());
            }
            self.read = Some((now, reading.used));
            found.extend(self.kill(now, more, gone, is_end));
        }
        // What is left of a run that has ended says nothing of what it held.
        if !is_end
            && more == 0
            && (!self.tree.is_empty() || self.tree.is_hidden())
            && let Some(reading) = self.news(now, reading, false)
        {
            found.push(EventKind::HostMemory(Box::new(reading)));
        }
        self.options.earlier = None;
        found
    }

    /// What is to be looked at closely, if it is time for that.
    fn close_look(&mut self) -> Option<CloseLook> {
        if !self.is_near || self.tree.is_empty() {
            return None;
        }
        self.tree.close_look()
    }

    /// A reading with what a close look found. After a kill it would say what is left.
    fn looked_closely(
        &mut self,
        found: Vec<(i32, Option<Close>)>,
        cost: Duration,
    ) -> Option<EventKind> {
        self.tree.looked_closely(found, cost);
        let is_dying = self
            .killed
            .as_ref()
            .is_some_and(|(at, _)| at.elapsed() < DYING);
        if is_dying || self.kills_now() != self.kills || self.tree.is_empty() {
            return None;
        }
        let machine = self.machine.used()?;
        let reading = self.measured(&machine);
        let reading = self.news(Instant::now(), reading, true)?;
        Some(EventKind::HostMemory(Box::new(reading)))
    }

    /// What the kernel has killed, with those that have ended since; told again as more of them do.
    fn kill(
        &mut self,
        now: Instant,
        more: u64,
        gone: Vec<HostProcess>,
        is_end: bool,
    ) -> Option<EventKind> {
        let is_dying = |at: Instant| now.duration_since(at) < DYING;
        self.killed.take_if(|(at, _)| !is_dying(*at));
        let is_news = more > 0 || !gone.is_empty() || is_end;
        if more > 0 {
            let (total, of_machine) = self.kills?;
            let (_, kill) = self.killed.get_or_insert((now, HostKill::default()));
            kill.count += more;
            (kill.total, kill.of_machine) = (total, of_machine);
        }
        let (_, kill) = self.killed.as_mut()?;
        kill.gone.extend(gone);
        kill.gone
            .sort_by_key(|process| std::cmp::Reverse(process.resident));
        kill.gone = named(std::mem::take(&mut kill.gone));
        is_news.then(|| EventKind::HostKill(Box::new(kill.clone())))
    }

    /// The reading with its processes, if it is news.
    fn news(&mut self, now: Instant, reading: HostMemory, is_closer: bool) -> Option<HostMemory> {
        let step = reading.limit.0 / NEWS;
        // A container's /dev/shm has 64 MiB, whatever the limit is.
        let shm_step = (reading.shm).map_or(step, |shm| step.min(shm.size.0 / SHM_NEWS));
        let is_news = self.told.as_ref().is_none_or(|(at, told)| {
            let moved = |a: Bytes, b: Bytes| a.0.abs_diff(b.0) > step;
            let shm = |reading: &HostMemory| reading.shm.map_or(Bytes::ZERO, |shm| shm.used);
            moved(told.used, reading.used)
                || shm(told).0.abs_diff(shm(&reading).0) > shm_step
                || told.limit != reading.limit
                || (reading.used > reading.limit.scale(LAST) && told.used != reading.used)
                || reading
                    .unseen
                    .iter()
                    .any(|what| !told.unseen.contains(what))
                || (now.duration_since(*at) >= NEWS_AFTER && told.used != reading.used)
        });
        if !is_news && !is_closer {
            return None;
        }
        let processes = self.tree.processes();
        let count = |(total, of_machine): (u64, bool)| KillCount { total, of_machine };
        let kills = self.kills.map(count);
        let known_kills = self.told.as_ref().and_then(|(_, told)| told.kills);
        let machine = reading.machine;
        let known_machine = self.told.as_ref().and_then(|(_, told)| told.machine);
        let mut reading = HostMemory {
            roles: by_role(&processes),
            processes: named(processes),
            batch: self.tree.batch(),
            kills: kills.filter(|_| kills != known_kills),
            machine: machine.filter(|_| machine != known_machine),
            ..reading
        };
        // Told once, not in every line.
        let is_known = |what: &HostUnseen| {
            self.told
                .as_ref()
                .is_some_and(|(_, told)| told.unseen.contains(what))
        };
        let all = reading.unseen.clone();
        reading.unseen.retain(|what| !is_known(what));
        let told = HostMemory {
            unseen: all,
            kills,
            machine,
            ..reading.clone()
        };
        self.told = Some((now, told));
        Some(reading)
    }

    /// The figures but for the processes'.
    fn measured(&mut self, machine: &MachineUse) -> HostMemory {
        let of_cgroup = self.cgroup.as_mut().and_then(Cgroup::tightest);
        let mut unseen = Vec::new();
        if of_cgroup.is_none() {
            unseen.push(HostUnseen::CgroupLimit);
        }
        if self.kills.is_none() && self.has_looked_at_run {
            unseen.push(HostUnseen::Kills);
        }
        if self.tree.is_hidden() {
            unseen.push(HostUnseen::Processes);
        }
        // All that the machine has may be nearer than a limit.
        let of_cgroup =
            of_cgroup.filter(|group| group.limit - group.used < machine.total - machine.used);
        let shm = self.machine.shm();
        match of_cgroup {
            Some(group) => {
                let LevelStat {
                    cache,
                    shared,
                    swap,
                    ..
                } = group.stat;
                HostMemory {
                    used: group.used,
                    limit: group.limit,
                    limited_by: group.by,
                    machine: Some(machine.total),
                    cache: Some(cache),
                    shared: Some(shared),
                    swap: swap.filter(|swap| *swap > Bytes::ZERO),
                    pressure: self.pressure(),
                    shm,
                    unseen,
                    ..HostMemory::default()
                }
            }
            None => HostMemory {
                used: machine.used,
                limit: machine.total,
                limited_by: LimitedBy::Machine,
                cache: machine.cache,
                shared: machine.shared,
                swap: machine.swap.filter(|swap| *swap > Bytes::ZERO),
                pressure: self.pressure(),
                shm,
                unseen,
                ..HostMemory::default()
            },
        }
    }

    /// Only near the limit: elsewhere nobody waits for memory.
    fn pressure(&mut self) -> Option<u32> {
        if !self.is_near {
            return None;
        }
        let of_cgroup = self.cgroup.as_mut().and_then(Cgroup::pressure);
        of_cgroup.or_else(|| self.machine.pressure())
    }

    fn look_up(&mut self, now: Instant) {
        let main = self.tree.main();
        if main.is_none() {
            self.run_since = None;
        }
        let since = main.map(|_| *self.run_since.get_or_insert(now));
        let is_young = since.is_none_or(|since| now.duration_since(since) < YOUNG);
        let is_due = |at: Instant| now.duration_since(at) >= LOOKED_UP;
        let is_due = self.looked_up.is_none_or(is_due);
        if !is_due && !is_young && self.has_looked_at_run {
            return;
        }
        self.has_looked_at_run = main.is_some();
        if is_due {
            self.looked_up = Some(now);
        }
        let system = &self.options.system;
        // Before there is a run: what it will inherit.
        let of_process = main.and_then(|main| cgroup::of_process(system, main));
        // A run that has ended says nothing of itself: what was known of it stays.
        let of_this = || match self.cgroup {
            None => read_small(&system.join("proc/self/cgroup")),
            Some(_) => Some(self.membership.clone()),
        };
        let membership = of_process.or_else(of_this).unwrap_or_default();
        // Near its limit nothing is opened that need not be: who asks for memory there waits.
        if is_due
            && !self.is_near
            && let Some(cgroup) = &mut self.cgroup
        {
            cgroup.read_limits();
        }
        if self.cgroup.is_none() || membership != self.membership {
            self.cgroup = Cgroup::of(system, &membership);
            self.membership = membership;
            self.kills = None;
            self.count_kills();
            let earlier = self.options.earlier.as_ref().map(|earlier| earlier.kills);
            let is_same = |of: &KillCount| self.kills.is_some_and(|(_, now)| now == of.of_machine);
            if let Some(earlier) = earlier.filter(is_same) {
                self.kills = Some((earlier.total, earlier.of_machine));
            }
        }
    }

    /// What an earlier front knew of and is no longer there; once.
    fn gone_since_earlier(&mut self) -> Vec<HostProcess> {
        let earlier = self.options.earlier.take();
        let mut known = earlier.map_or(Vec::new(), |earlier| earlier.processes);
        known.retain(|process| !self.tree.has(process.pid));
        known
    }

    /// The kernel's counter, and whether it is the machine's.
    fn kills_now(&mut self) -> Option<(u64, bool)> {
        let of_cgroup = self.cgroup.as_mut().and_then(Cgroup::kills);
        match of_cgroup {
            Some((count, is_own)) => Some((count, !is_own)),
            None => self.machine.kills().map(|count| (count, true)),
        }
    }

    /// How many more the kernel has killed since the last look.
    fn count_kills(&mut self) -> u64 {
        let now = self.kills_now();
        match (self.kills, now) {
            (Some((before, of)), Some((now, still))) if of == still => {
                self.kills = Some((now, of));
                now.saturating_sub(before)
            }
            (None, now) | (Some((_, true)), now @ Some((_, false))) => {
                self.kills = now;
                0
            }
            // What could not be read this time is read the next.
            (Some(_), _) => 0,
        }
    }
}

/// The largest, as far as a reading names them.
fn named(mut processes: Vec<HostProcess>) -> Vec<HostProcess> {
    processes.retain(|process| process.resident >= WORTH_NAMING);
    processes.truncate(NAMED);
    processes
}

fn by_role(processes: &[HostProcess]) -> Vec<RoleUse> {
    let roles = [
        HostRole::Main,
        HostRole::Rank,
        HostRole::LoaderWorker,
        HostRole::Worker,
        HostRole::CompileWorker,
        HostRole::Other,
    ];
    let of = |role| {
        let of_role = || processes.iter().filter(move |process| process.role == role);
        RoleUse {
            role,
            count: of_role().count() as u32,
            held: of_role().map(HostProcess::held).sum(),
            exact: of_role().all(|process| process.own.is_some()),
            mapped: of_role()
                .map(|process| process.resident - process.shared)
                .sum(),
        }
    };
    let mut all: Vec<RoleUse> = roles
        .into_iter()
        .map(of)
        .filter(|role| role.count > 0)
        .collect();
    all.sort_by_key(|role| std::cmp::Reverse(role.held));
    all
}
