//! The control group of the run: its limit or the tightest of those above it, what counts against that, and how often the
//! kernel has killed in it. Version 1 and 2, and both side by side.

use super::files::{KeptFile, first_number, read_small, value_of};
use crate::event::LimitedBy;
use crate::units::Bytes;
use std::path::{Path, PathBuf};

/// A limit of this size means that there is none: version 1 has no other word for it.
const NONE_AT: u64 = 1 << 60;

/// From this share of the cap on.
const CAPPED: f64 = 0.9;

/// A process that is ending, in its flags: the kernel's `PF_EXITING`.
const ENDING: u64 = 4;

/// More groups than are nested anywhere.
const DEEPEST: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn limit(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }

    fn current(self) -> &'static str {
        match self {
            Version::One => "memory.usage_in_bytes",
            Version::Two => "memory.current",
        }
    }

    fn kills(self) -> &'static str {
        match self {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        }
    }

    /// The names in `memory.stat` for what groups below count in as well.
    fn name(self, of_two: &'static str) -> &'static str {
        match (self, of_two) {
            (Version::One, "shmem") => "total_shmem",
            (Version::One, "active_file") => "total_active_file",
            (Version::One, "inactive_file") => "total_inactive_file",
            (Version::One, "swap") => "total_swap",
            (_, name) => name,
        }
    }
}

/// The groups of the run that say something of memory, from its own to the outermost that can be seen.
#[derive(Debug)]
pub(super) struct Cgroup {
    version: Version,
    limited: Vec<LimitedGroup>,
    kills: KeptFile,
    /// Whether that counts the group of the process alone: version 2 says nothing in a group whose parent keeps the memory of
    /// all below it (`cgroup.subtree_control` without memory, threaded groups).
    counts_own: bool,
    pressure: KeptFile,
}

/// A group with a limit.
#[derive(Debug)]
struct LimitedGroup {
    directory: PathBuf,
    /// Whether the process's memory is counted in it, and not in a group below.
    is_own: bool,
    limit: Bytes,
    /// Where the kernel takes back the files' cache before it gives more: at the limit, or earlier.
    cap: Bytes,
    by: LimitedBy,
    current: KeptFile,
    stat: StatFiles,
    known: Option<(Bytes, LevelStat)>,
}

/// Where a group says what it consists of.
#[derive(Debug)]
struct StatFiles {
    version: Version,
    stat: KeptFile,
    /// Version 1 has it in the other one.
    swap: KeptFile,
}

/// What `memory.stat` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LevelStat {
    /// The cache of files, and what else is given back when memory is short.
    pub reclaimable: Bytes,
    pub cache: Bytes,
    pub shared: Bytes,
    pub swap: Option<Bytes>,
}

/// What counts against the tightest limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CgroupUse {
    pub used: Bytes,
    pub limit: Bytes,
    pub by: LimitedBy,
    pub stat: LevelStat,
}

impl Cgroup {
    /// The groups of a process, by what the kernel says of it below `system`; `None` if no file says anything of memory.
    pub fn of(system: &Path, membership: &str) -> Option<Cgroup> {
        let mounts = read_small(&system.join("proc/self/mountinfo"))?;
        let (version, mount, path) = find(&mounts, membership)?;
        let top = system.join(mount.strip_prefix("/").unwrap_or(&mount));
        let own = top.join(path.strip_prefix("/").unwrap_or(&path));
        // A path that is not in this mount is outside of the container's view.
        let own = match own.is_dir() {
            true => own,
            false => top.clone(),
        };
        let levels: Vec<PathBuf> = own
            .ancestors()
            .take_while(|level| level.starts_with(&top))
            .take(DEEPEST)
            .map(Path::to_path_buf)
            .collect();
        // The nearest group that says something is the one that the process's memory is counted in.
        let says_something = |level: &&PathBuf| level.join(version.current()).exists();
        let counted_in = levels.iter().find(says_something)?.clone();
        let limited = levels.iter().filter_map(|directory| {
            LimitedGroup::of(system, version, directory, directory == &counted_in)
        });
        Some(Cgroup {
            version,
            kills: KeptFile::new(counted_in.join(version.kills())),
            counts_own: counted_in == own,
            pressure: KeptFile::new(counted_in.join("memory.pressure")),
            limited: limited.collect(),
        })
    }

    /// What is closest to its limit; `None` if no group has one.
    pub fn tightest(&mut self) -> Option<CgroupUse> {
        let uses = self.limited.iter_mut();
        uses.filter_map(LimitedGroup::look)
            .min_by_key(|found| found.limit - found.used)
    }

    /// How many processes of it the kernel has killed for memory: `memory.events`, which has those of groups below as well, unless
    /// cgroups are mounted with `memory_localevents`. The second says whether only processes of its own group are counted.
    pub fn kills(&mut self) -> Option<(u64, bool)> {
        Some((value_of(self.kills.read()?, "oom_kill")?, self.counts_own))
    }

    /// Reads limits anew: they may be changed while the run goes on (`systemctl set-property`, `docker update`).
    pub fn read_limits(&mut self) {
        for group in &mut self.limited {
            if let Some((limit, cap)) = group.limits() {
                (group.limit, group.cap) = (limit, cap);
            }
        }
    }

    /// The share of the last ten seconds in which some process of it waited for memory, in thousandths.
    pub fn pressure(&mut self) -> Option<u32> {
        match self.version {
            Version::One => None,
            Version::Two => pressure(self.pressure.read()?),
        }
    }
}

/// The groups of a process; `None` of one that is ending: version 1 then says `/`, whatever they were.
pub(super) fn of_process(system: &Path, pid: i32) -> Option<String> {
    let membership = read_small(&system.join(format!("proc/{pid}/cgroup")))?;
    let stat = read_small(&system.join(format!("proc/{pid}/stat"))).unwrap_or_default();
    // Behind the name, which may have anything in it, the seventh is the flags.
    let behind = stat.rsplit_once(") ").map_or("", |(_, behind)| behind);
    let flags = behind.split(' ').nth(6).and_then(first_number);
    flags
        .is_none_or(|flags| flags & ENDING == 0)
        .then_some(membership)
}

/// `some avg10=12.34 …`, in thousandths.
pub(super) fn pressure(text: &str) -> Option<u32> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let word = some.split(' ').find_map(|word| word.strip_prefix("avg10="));
    let percent: f64 = word?.parse().ok()?;
    Some((percent * 10.0).round().max(0.0) as u32)
}

impl LimitedGroup {
    fn of(system: &Path, version: Version, directory: &Path, is_own: bool) -> Option<LimitedGroup> {
        let (limit, cap) = limits(version, directory, is_own)?;
        Some(LimitedGroup {
            directory: directory.into(),
            is_own,
            limit,
            cap,
            by: named(system, directory),
            current: KeptFile::new(directory.join(version.current())),
            stat: StatFiles {
                version,
                stat: KeptFile::list(directory.join("memory.stat")),
                swap: KeptFile::new(directory.join("memory.swap.current")),
            },
            known: None,
        })
    }

    fn limits(&self) -> Option<(Bytes, Bytes)> {
        limits(self.stat.version, &self.directory, self.is_own)
    }

    fn look(&mut self) -> Option<CgroupUse> {
        let current = Bytes(first_number(self.current.read()?)?);
        let moved = |(at, _): &(Bytes, LevelStat)| at.0.abs_diff(current.0) > self.limit.0 / 200;
        // There programs grow at the cost of the files' cache, and the sum stays as it is.
        let is_capped = current > self.cap.scale(CAPPED);
        if is_capped || self.known.as_ref().is_none_or(moved) {
            self.known = Some((current, self.stat.read()?));
        }
        let (_, stat) = self.known?;
        Some(CgroupUse {
            used: current - stat.reclaimable,
            limit: self.limit,
            by: self.by,
            stat,
        })
    }
}

/// A group's limit, and where the kernel takes back what it can before it gives more; `None` if it has none, `max`.
fn limits(version: Version, directory: &Path, is_own: bool) -> Option<(Bytes, Bytes)> {
    let text = read_small(&directory.join(version.limit()))?;
    let own = first_number(&text).filter(|limit| *limit < NONE_AT);
    // Version 1 says here what a group above allows that cannot be seen.
    let above = (is_own && version == Version::One).then(|| {
        let stat = read_small(&directory.join("memory.stat"))?;
        value_of(&stat, "hierarchical_memory_limit").filter(|limit| *limit < NONE_AT)
    });
    let hard = [own, above.flatten()].into_iter().flatten().min();
    let high = read_small(&directory.join("memory.high"));
    let high = high.and_then(|text| first_number(&text));
    // Nothing is killed at `memory.high` alone, but what is above it stands still, or is ended by systemd-oomd.
    let limit = hard.or(high)?;
    Some((
        Bytes(limit),
        Bytes(high.map_or(limit, |high| high.min(limit))),
    ))
}

impl StatFiles {
    fn read(&mut self) -> Option<LevelStat> {
        let version = self.version;
        let text = self.stat.read()?;
        let value = |name| value_of(text, version.name(name)).map(Bytes);
        let cache =
            value("active_file").unwrap_or_default() + value("inactive_file").unwrap_or_default();
        let stat = LevelStat {
            reclaimable: cache + value("slab_reclaimable").unwrap_or_default(),
            cache,
            shared: value("shmem").unwrap_or_default(),
            swap: value("swap"),
        };
        let swap = match version {
            Version::One => stat.swap,
            Version::Two => self.swap.read().and_then(first_number).map(Bytes),
        };
        Some(LevelStat { swap, ..stat })
    }
}

/// The hierarchy that has memory: its version, where it is mounted, and the process's path in that mount.
fn find(mounts: &str, membership: &str) -> Option<(Version, PathBuf, PathBuf)> {
    let of = |line: &str| -> Option<(Version, PathBuf, PathBuf)> {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let version = match controllers.split(',').any(|name| name == "memory") {
            true => Version::One,
            false if number == "0" && controllers.is_empty() => Version::Two,
            false => return None,
        };
        let (root, mount) = mount_of(mounts, version)?;
        let inside = match Path::new(path).strip_prefix(&root) {
            Ok(inside) if !path.contains("/..") => inside.to_path_buf(),
            Ok(_) | Err(_) => PathBuf::new(),
        };
        Some((version, mount, inside))
    };
    let found: Vec<_> = membership.lines().filter_map(of).collect();
    // Where both are mounted, memory is in one of them: version 1 says so in its list of controllers.
    let one = found.iter().find(|(version, ..)| *version == Version::One);
    one.or(found.first()).cloned()
}

/// The root and the place of a mount, by `/proc/self/mountinfo`.
fn mount_of(mounts: &str, version: Version) -> Option<(PathBuf, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1).unwrap_or(""));
        let fits = match version {
            Version::One => kind == "cgroup" && options.split(',').any(|word| word == "memory"),
            Version::Two => kind == "cgroup2",
        };
        let mut before = before.split(' ').skip(3);
        let (root, place) = (before.next()?, before.next()?);
        fits.then(|| (root.into(), place.into()))
    })
}

/// Whose limit it is, by the group's path.
fn named(system: &Path, directory: &Path) -> LimitedBy {
    let path = directory.to_string_lossy();
    let has = |words: &[&str]| words.iter().any(|word| path.contains(word));
    let in_container = || {
        let marks = [
            ".dockerenv",
            "run/.containerenv",
            // With a namespace of its own a container's path is `/`: Kubernetes, and systemd in LXC or nspawn.
            "run/secrets/kubernetes.io",
            "var/run/secrets/kubernetes.io",
            "run/systemd/container",
        ];
        marks.iter().any(|mark| system.join(mark).exists())
    };
    if has(&["slurm", "/job_"]) {
        LimitedBy::Slurm
    } else if has(&["docker", "kubepods", "containerd", "libpod", "crio", "/lxc"]) || in_container()
    {
        LimitedBy::Container
    } else if has(&[".scope", ".service", ".slice"]) {
        LimitedBy::Systemd
    } else {
        LimitedBy::Cgroup
    }
}
