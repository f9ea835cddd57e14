//! The processes of the run, and what each holds: found by their parents, told apart by their command lines, read from files
//! that are kept open.
//!
//! Three looks of different cost. `statm` of a known process takes a microsecond or two, so that is read each time. New
//! processes are searched for when there are any, and the whole tree at a pace that its cost sets. `smaps_rollup`, which walks
//! a process's page tables and holds up its `mmap` meanwhile, is only read near the limit, seldom, and not of giants.

use super::files::{KeptFile, first_number, read_small, value_of};
use crate::event::{HostProcess, HostRole};
use crate::units::{Bytes, Pid};
use nix::sys::resource::{Resource, getrlimit};
use nix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Processes that are followed: a fork storm must not fill our memory.
const MOST: usize = 2_048;

/// Processes whose `statm` is kept open; of the others it is opened each time.
const KEPT_OPEN: usize = 96;

/// A new process is looked at so often until it counts as what it seems: a fork becomes another program a moment later,
/// and a worker gives itself a name.
const FIRST_LOOKS: u8 = 4;

/// A process that could not be read so often is hidden; one that has just ended is not met again.
const HIDDEN_AFTER: u8 = 3;

/// A search may take one part in so many of the time.
const SHARE: u32 = 4_000;

/// The least time between two searches of the whole tree.
const BETWEEN_SEARCHES: Duration = Duration::from_secs(5);

/// The least time between two close looks.
const BETWEEN_CLOSE_LOOKS: Duration = Duration::from_secs(5);

/// Processes that are looked at closely, the largest first, how long that may take together, and the most that one may hold: a
/// look takes some milliseconds for each GiB.
const CLOSE_LOOKS: usize = 96;
const CLOSE_LOOKS_TAKE: Duration = Duration::from_millis(40);

/// How long they may take with what is waited for: a process without memory holds its `mmap`.
const CLOSE_LOOKS_WAIT: Duration = Duration::from_millis(200);

/// Open files of a worker that are looked at, and how torch names those of tensors.
const OPEN_FILES: usize = 4_096;
const TENSOR: &[u8] = b"torch_";

const CLOSE_LOOK_UP_TO: Bytes = Bytes::gib(32);

/// How the processes of oomph are named that are below the keeper.
const OURS: &str = "oomph";

/// The part of a command line that says what a process is.
const WORDS: usize = 4_096;

#[derive(Debug)]
pub(super) struct RunTree {
    proc: PathBuf,
    /// Its descendants are the run.
    root: i32,
    /// Not part of it, with what is below them.
    but: Vec<i32>,
    page: u64,
    kept_open: usize,
    known: BTreeMap<i32, Known>,
    /// When the next search is due, and what the last one cost.
    search_due: Instant,
    newest: Option<u64>,
    close_look_due: Instant,
    /// Whether somebody looks closely just now.
    is_looking: bool,
    /// What probes have said of processes.
    told: BTreeMap<i32, HostRole>,
    /// Processes that are listed and never could be read, and how often that was tried.
    unreadable: BTreeMap<i32, u8>,
}

#[derive(Debug)]
struct Known {
    parent: i32,
    role: HostRole,
    name: String,
    words: Vec<u8>,
    looks: u8,
    statm: KeptFile,
    resident: Bytes,
    shared: Bytes,
    /// What it shares with its parent since it was forked, at most; `None` if it is no fork.
    inherited: Option<Bytes>,
    close: Option<Close>,
}

/// Processes to look at closely.
#[derive(Debug)]
pub(super) struct CloseLook {
    proc: PathBuf,
    largest: Vec<Largest>,
}

#[derive(Debug)]
struct Largest {
    resident: Bytes,
    pid: i32,
    is_fork: bool,
    is_worker: bool,
}

/// What only a close look tells, and at which size it was taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Close {
    own: Option<Bytes>,
    locked: Option<Bytes>,
    resident: Bytes,
    /// Of a worker: batches that it has fetched and nobody has taken yet, and what they take.
    waiting: Option<(u64, Bytes)>,
}

impl RunTree {
    pub fn new(proc: PathBuf, root: i32, but: Vec<i32>) -> RunTree {
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
        let now = Instant::now();
        RunTree {
            proc,
            root,
            but,
            page: page
                .ok()
                .flatten()
                .and_then(|n| u64::try_from(n).ok())
                .unwrap_or(4_096),
            kept_open: kept_open(),
            known: BTreeMap::new(),
            search_due: now,
            newest: None,
            close_look_due: now,
            is_looking: false,
            told: BTreeMap::new(),
            unreadable: BTreeMap::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.known.values().all(Known::is_ours)
    }

    /// Whether processes of the run are listed, and none of their files can be read: /proc is mounted with hidepid, and they
    /// are another user's.
    pub fn is_hidden(&self) -> bool {
        let is_unread = |known: &Known| known.is_ours() || known.resident == Bytes::ZERO;
        self.known.values().all(is_unread)
            && self.unreadable.values().any(|tries| *tries >= HIDDEN_AFTER)
    }

    /// Whether a process is there, and not dead.
    pub fn has(&self, pid: Pid) -> bool {
        self.known.contains_key(&pid.0)
    }

    /// Whether some process was not read yet.
    pub fn has_new(&self) -> bool {
        self.known.values().any(|known| known.looks == 0)
    }

    /// Takes what probes have said.
    pub fn take_told(&mut self, told: &mut Vec<(Pid, HostRole)>) {
        for (pid, role) in told.drain(..) {
            if let Some(known) = self.known.get_mut(&pid.0) {
                known.role = role;
            }
            self.told.insert(pid.0, role);
        }
        while self.told.len() > MOST {
            self.told.pop_first();
        }
    }

    /// A process whose control group is the run's: the largest, since what starts a container or a unit is in another one. Of
    /// those that are about alike the first, so that it stays the same.
    pub fn main(&self) -> Option<i32> {
        let of_run = || self.known.iter().filter(|(_, known)| !known.is_ours());
        let largest = of_run().map(|(_, known)| known.resident).max()?;
        let is_large = |known: &Known| known.resident >= largest.scale(0.5);
        of_run()
            .find(|(_, known)| is_large(known))
            .map(|(pid, _)| *pid)
    }

    /// Looks for new processes: `newest` is the machine's latest.
    pub fn find(&mut self, newest: Option<u64>) {
        let now = Instant::now();
        let is_news = newest.is_none() || newest != self.newest || self.is_empty();
        if !is_news {
            return;
        }
        if now < self.search_due && !self.is_empty() {
            return self.find_at_first_hand();
        }
        self.newest = newest;
        let before = cpu_time();
        self.search();
        let cost = cpu_time().saturating_sub(before);
        self.search_due = now + (cost * SHARE).max(BETWEEN_SEARCHES);
    }

    /// The children of the main threads of what is no worker: where workers come from.
    fn find_at_first_hand(&mut self) {
        let is_worker = |known: &Known| {
            !matches!(
                known.role,
                HostRole::Main | HostRole::Rank | HostRole::Other
            )
        };
        let parents = self.known.iter().filter(|(_, known)| !is_worker(known));
        let parents = parents.map(|(pid, _)| *pid).take(KEPT_OPEN);
        let parents: Vec<i32> = std::iter::once(self.root).chain(parents).collect();
        for parent in parents {
            for pid in children_of_thread(&self.proc, parent, parent).unwrap_or_default() {
                self.meet(pid, parent);
            }
        }
    }

    fn search(&mut self) {
        let mut queue = VecDeque::from([self.root]);
        let mut seen: HashSet<i32> = self.but.iter().copied().collect();
        while let Some(parent) = queue.pop_front() {
            for pid in children(&self.proc, parent) {
                if seen.insert(pid) && seen.len() < MOST {
                    self.meet(pid, parent);
                    queue.push_back(pid);
                }
            }
        }
    }

    fn meet(&mut self, pid: i32, parent: i32) {
        if self.known.contains_key(&pid) || self.but.contains(&pid) || self.known.len() >= MOST {
            return;
        }
        let known = Known {
            parent,
            role: HostRole::Other,
            name: String::new(),
            words: Vec::new(),
            looks: 0,
            statm: KeptFile::new(self.proc.join(format!("{pid}/statm"))),
            resident: Bytes::ZERO,
            shared: Bytes::ZERO,
            inherited: None,
            close: None,
        };
        self.known.insert(pid, known);
    }

    /// Reads what each holds; returns those that have ended since, as they were.
    pub fn read(&mut self) -> Vec<HostProcess> {
        let mut gone = Vec::new();
        let page = self.page;
        let keeps_open = self.known.len() <= self.kept_open;
        for (pid, known) in &mut self.known {
            let figures = known.statm.read().and_then(|text| {
                let mut words = text.split_ascii_whitespace().skip(1);
                let pages = |word: Option<&str>| Some(Bytes(word?.parse::<u64>().ok()? * page));
                Some((pages(words.next())?, pages(words.next())?))
            });
            match figures {
                // One that has ended and was not waited for has nothing left.
                Some((resident, _)) if resident == Bytes::ZERO => gone.push(*pid),
                Some((resident, shared)) => {
                    (known.resident, known.shared) = (resident, shared);
                    self.unreadable.remove(pid);
                }
                None => {
                    gone.push(*pid);
                    if known.resident == Bytes::ZERO {
                        let tries = self.unreadable.entry(*pid).or_default();
                        *tries = tries.saturating_add(1);
                    }
                }
            }
            if !keeps_open {
                known.statm.close();
            }
        }
        let ended = gone.into_iter().filter_map(|pid| {
            let known = self.known.remove(&pid)?;
            self.told.remove(&pid);
            (known.resident > Bytes::ZERO && !known.is_ours()).then(|| known.told(pid))
        });
        let ended = ended.collect();
        while self.unreadable.len() > KEPT_OPEN {
            self.unreadable.pop_first();
        }
        self.tell_apart();
        ended
    }

    /// Says what new processes are.
    fn tell_apart(&mut self) {
        let new = self
            .known
            .iter()
            .filter(|(_, known)| known.looks < FIRST_LOOKS);
        let new: Vec<i32> = new.map(|(pid, _)| *pid).collect();
        for pid in new {
            let name = read_small(&self.proc.join(format!("{pid}/comm"))).unwrap_or_default();
            let name = name.trim_end().to_string();
            let mut words = fs::read(self.proc.join(format!("{pid}/cmdline"))).unwrap_or_default();
            words.truncate(WORDS);
            let parent = self
                .known
                .get(&pid)
                .and_then(|known| self.known.get(&known.parent));
            let role = role(
                &name,
                &words,
                parent.map(|parent| (&parent.words[..], parent.role)),
            );
            let role = self.told.get(&pid).copied().unwrap_or(role);
            let forked_from = parent
                .filter(|parent| !parent.is_ours() && !words.is_empty() && parent.words == words);
            // By the first look it may have become larger; it shares no more than its parent has.
            let inherited = forked_from.map(Known::held);
            if let Some(known) = self.known.get_mut(&pid) {
                let held = known.held();
                known.inherited = match (inherited, known.inherited) {
                    (Some(now), before) => Some(now.min(held).min(before.unwrap_or(held))),
                    (None, _) => None,
                };
                (known.name, known.words, known.role) = (name, words, role);
                known.looks += 1;
            }
        }
    }

    /// The largest ones, if it is time to look at them closely and nobody does. The caller looks without this, since a process
    /// without memory may keep it waiting.
    pub fn close_look(&mut self) -> Option<CloseLook> {
        if Instant::now() < self.close_look_due || self.known.is_empty() || self.is_looking {
            return None;
        }
        self.is_looking = true;
        let mut largest: Vec<Largest> = self
            .known
            .iter()
            .map(|(pid, known)| Largest {
                resident: known.resident,
                pid: *pid,
                is_fork: known.inherited.is_some(),
                is_worker: known.role.is_worker(),
            })
            .collect();
        largest.sort_unstable_by_key(|each| std::cmp::Reverse((each.resident, each.pid)));
        largest.truncate(CLOSE_LOOKS);
        Some(CloseLook {
            proc: self.proc.clone(),
            largest,
        })
    }

    /// What was found, and what finding it cost.
    pub fn looked_closely(&mut self, found: Vec<(i32, Option<Close>)>, cost: Duration) {
        for (pid, close) in found {
            if let Some(known) = self.known.get_mut(&pid) {
                known.close = close;
            }
        }
        self.is_looking = false;
        self.close_look_due = Instant::now() + (cost * SHARE).max(BETWEEN_CLOSE_LOOKS);
    }

    /// What a batch takes that waits, by the last close look.
    pub fn batch(&self) -> Option<Bytes> {
        let known = self.known.values();
        let waiting = known.filter_map(|known| known.close?.waiting);
        let (count, held) = waiting.reduce(|all, more| (all.0 + more.0, all.1 + more.1))?;
        Some(Bytes(held.0.checked_div(count)?))
    }

    /// All of them, largest first.
    pub fn processes(&self) -> Vec<HostProcess> {
        let of_run = self.known.iter().filter(|(_, known)| !known.is_ours());
        let mut all: Vec<HostProcess> = of_run.map(|(pid, known)| known.told(*pid)).collect();
        all.sort_by_key(|process| (std::cmp::Reverse(process.held()), process.pid));
        all
    }
}

impl Known {
    /// Holds the run's terminal, or runs the user's own command for news.
    fn is_ours(&self) -> bool {
        self.name.starts_with(OURS)
    }

    /// Without files and shared memory; with what it shares with its parent.
    fn held(&self) -> Bytes {
        self.resident - self.shared
    }

    fn told(&self, pid: i32) -> HostProcess {
        // What it grew by since the close look is its own; what it shrank by may have been shared.
        let closely = self.close.and_then(|close| {
            let own = close.own?;
            Some((own + (self.resident - close.resident)) - (close.resident - self.resident))
        });
        let own = closely.or_else(|| Some(self.held() - self.inherited?));
        HostProcess {
            pid: Pid(pid),
            role: self.role,
            name: self.name.clone(),
            resident: self.resident,
            shared: self.shared,
            own,
            locked: self.close.and_then(|close| close.locked),
        }
    }
}

impl CloseLook {
    /// Looks at them, and says what that cost of a core.
    pub fn take(self) -> (Vec<(i32, Option<Close>)>, Duration) {
        let (now, before) = (Instant::now(), cpu_time());
        let mut found = Vec::new();
        for each in self.largest {
            let is_late = now.elapsed() > CLOSE_LOOKS_WAIT;
            if is_late || cpu_time().saturating_sub(before) > CLOSE_LOOKS_TAKE {
                break;
            }
            let close = (each.resident <= CLOSE_LOOK_UP_TO).then(|| Close::take(&self.proc, &each));
            found.push((each.pid, close.flatten()));
        }
        (found, cpu_time().saturating_sub(before))
    }
}

impl Close {
    fn take(proc: &Path, of: &Largest) -> Option<Close> {
        let (pid, resident, is_fork) = (of.pid, of.resident, of.is_fork);
        let kib = |text: &str, name| value_of(text, name).map(|kib| Bytes(kib << 10));
        // Another user's process does not show it.
        let rollup = read_small(&proc.join(format!("{pid}/smaps_rollup"))).unwrap_or_default();
        // What forks share counts as their parent's: it was there before them.
        let own = match is_fork {
            true => kib(&rollup, "Private_Dirty"),
            false => kib(&rollup, "Anonymous"),
        };
        let locked = kib(&rollup, "Locked");
        let status = match locked {
            Some(locked) if locked > Bytes::ZERO => None,
            // What a driver has pinned is only here.
            _ => read_small(&proc.join(format!("{pid}/status"))),
        };
        let pinned = status.and_then(|text| Some(kib(&text, "VmLck")?.max(kib(&text, "VmPin")?)));
        Some(Close {
            own,
            locked: pinned.or(locked).filter(|bytes| *bytes > Bytes::ZERO),
            resident,
            waiting: of.is_worker.then(|| waiting(proc, pid)).flatten(),
        })
    }
}

/// The tensors that a worker has open in shared memory: it closes them as the batch is taken. Their large ones are counted as
/// batches: labels and lengths are far smaller than what they belong to.
fn waiting(proc: &Path, pid: i32) -> Option<(u64, Bytes)> {
    let directory = proc.join(format!("{pid}/fd"));
    let files = fs::read_dir(directory).ok()?.flatten().take(OPEN_FILES);
    let is_tensor = |path: &Path| {
        fs::read_link(path).is_ok_and(|target| {
            let name = target.file_name().unwrap_or_default();
            name.as_encoded_bytes().starts_with(TENSOR)
        })
    };
    let tensors = files
        .map(|file| file.path())
        .filter(|path| is_tensor(path))
        .filter_map(|path| Some(fs::metadata(path).ok()?.len()));
    let sizes: Vec<u64> = tensors.collect();
    let largest = *sizes.iter().max()?;
    let count = sizes.iter().filter(|size| **size > largest / 2).count();
    Some((count as u64, Bytes(sizes.iter().sum())))
}

/// What a process is there for.
pub(super) fn role(name: &str, words: &[u8], parent: Option<(&[u8], HostRole)>) -> HostRole {
    let has = |needle: &str| {
        words
            .windows(needle.len())
            .any(|part| part == needle.as_bytes())
    };
    if name.starts_with(OURS) {
        return HostRole::Other;
    }
    if has("compile_worker") || has("_inductor/") {
        return HostRole::CompileWorker;
    }
    if name.starts_with("pt_data_worker") {
        return HostRole::LoaderWorker;
    }
    if has("multiprocessing.resource_tracker") || has("multiprocessing.forkserver") {
        return HostRole::Other;
    }
    if has("multiprocessing.spawn") {
        return HostRole::Worker;
    }
    match parent {
        None => HostRole::Main,
        // A fork that has not become another program has its parent's words; a program that starts itself again has others.
        Some((of_parent, role)) if is_python(words) && of_parent == words => match role {
            HostRole::CompileWorker => HostRole::CompileWorker,
            _ => HostRole::Worker,
        },
        Some(_) if is_python(words) => HostRole::Main,
        Some(_) => HostRole::Other,
    }
}

fn is_python(words: &[u8]) -> bool {
    let program = words.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = program
        .rsplit(|byte| *byte == b'/')
        .next()
        .unwrap_or_default();
    name.windows(6).any(|part| part == b"python")
}

/// The children of all threads of a process.
fn children(proc: &Path, pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(proc.join(format!("{pid}/task")));
    let threads = tasks.into_iter().flatten().flatten();
    let threads = threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut known = false;
    let mut found = Vec::new();
    for thread in threads {
        if let Some(children) = children_of_thread(proc, pid, thread) {
            known = true;
            found.extend(children);
        }
    }
    match known {
        true => found,
        // A kernel without such lists.
        false => children_by_parent(proc, pid),
    }
}

fn children_of_thread(proc: &Path, pid: i32, thread: i32) -> Option<Vec<i32>> {
    let text = read_small(&proc.join(format!("{pid}/task/{thread}/children")))?;
    let words = text.split_ascii_whitespace();
    Some(words.filter_map(|word| word.parse().ok()).collect())
}

fn children_by_parent(proc: &Path, parent: i32) -> Vec<i32> {
    let all = fs::read_dir(proc).into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let stat = read_small(&proc.join(format!("{pid}/stat"))).unwrap_or_default();
        // Behind the name, which may have anything in it: state, parent.
        let behind = stat.rsplit_once(") ").map_or("", |(_, behind)| behind);
        behind.split(' ').nth(1).and_then(first_number) == Some(parent as u64)
    })
    .collect()
}

/// Processes whose files may stay open: a small part of what this process may open.
fn kept_open() -> usize {
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
    KEPT_OPEN.min(usize::try_from(soft / 8).unwrap_or(KEPT_OPEN))
}

/// What this thread has used of a core so far.
pub(super) fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
