//! The processes below this one, as /proc shows them.
//!
//! The keeper is a subreaper: it becomes the parent of all that the trainer leaves behind, in any
//! process group or session. So the tree below it is complete and holds nothing else; a process group
//! would miss torchrun's ranks, each of which has a session of its own. A process is identified by
//! PID *and* start time and signalled through a pidfd, so that a reused PID is never signalled.

use crate::supervise::SentSignal;
use nix::libc;
use rustix::process::{Pid as RawPid, PidfdFlags, pidfd_open};
use std::cell::OnceCell;
use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// The maximum number of processes in a tree: a fork storm must not fill our memory.
const MOST: usize = 16_384;

const SHELLS: [&str; 9] = [
    "sh", "dash", "bash", "ash", "busybox", "zsh", "ksh", "mksh", "fish",
];

/// A process as in `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    /// Its terminal, as a device's number; 0 without one.
    pub terminal: u32,
    /// The foreground group of its terminal, or −1.
    pub foreground: i32,
    /// Its start time, in clock ticks since boot.
    pub start: u64,
    /// The kernel's letter for its state.
    pub state: char,
    /// Its name (`comm`).
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// By a handler, or by waiting for it.
    Catches,
    Ignores,
    /// For most signals: it dies.
    Default,
}

impl Process {
    pub fn look(pid: i32) -> Option<Process> {
        parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether it is a zombie.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Whether it still lives: the same process, not another with its PID.
    pub fn lives(&self) -> bool {
        Process::look(self.pid).is_some_and(|now| now.start == self.start && !now.is_dead())
    }

    /// Whether the kernel lets us signal it, whichever user's it is: a training may have become another user
    /// (`setpriv`, `sudo -u`). For processes below us only; as root we could signal everybody's.
    pub fn can_be_signalled(&self) -> bool {
        let pid = nix::unistd::Pid::from_raw(self.pid);
        nix::sys::signal::kill(pid, None) != Err(nix::errno::Errno::EPERM)
    }

    /// Whether it has a device file of an NVIDIA GPU open.
    pub fn holds_gpu(&self) -> bool {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{}/fd", self.pid)) else {
            return false;
        };
        descriptors
            .flatten()
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .any(|target| {
                target
                    .to_str()
                    .is_some_and(|path| path.starts_with("/dev/nvidia"))
            })
    }

    /// Whether its environment has one of these variables.
    pub fn has_variable(&self, names: &[&str]) -> bool {
        let Ok(environment) = fs::read(format!("/proc/{}/environ", self.pid)) else {
            return false;
        };
        environment.split(|byte| *byte == 0).any(|entry| {
            names.iter().any(|name| {
                entry
                    .strip_prefix(name.as_bytes())
                    .is_some_and(|rest| rest.first() == Some(&b'='))
            })
        })
    }

    /// NUL-separated.
    pub fn command_line(&self) -> Vec<u8> {
        fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default()
    }

    /// The pending signals: bit n−1 for signal n.
    pub fn pending(&self) -> Option<u64> {
        signal_set(self.pid, "ShdPnd:")
    }

    pub fn reaction(&self, signal: i32) -> Option<Reaction> {
        let bit = 1u64.checked_shl(u32::try_from(signal).ok()?.checked_sub(1)?)?;
        let caught = signal_set(self.pid, "SigCgt:")?;
        Some(if caught & bit != 0 || self.waits_for(bit) {
            Reaction::Catches
        } else if signal_set(self.pid, "SigIgn:")? & bit != 0 {
            Reaction::Ignores
        } else {
            Reaction::Default
        })
    }

    /// Whether every thread of it blocks these signals, as programs do that take them with sigwait or a
    /// signalfd. No handler shows that, but they don't die of them.
    fn waits_for(&self, bits: u64) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid));
        let mut threads = (threads.into_iter().flatten().flatten())
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .peekable();
        threads.peek().is_some()
            && threads.all(|thread: i32| {
                signal_set(thread, "SigBlk:").is_some_and(|blocked| blocked & bits == bits)
                    || awaited(thread).is_some_and(|awaited| awaited & bits == bits)
            })
    }

    /// Whether it is a shell that has nothing of its own to do on this signal.
    pub fn is_a_shell_that_dies_of(&self, signal: i32) -> bool {
        // The name of a script that names its shell is the script's.
        let file = std::fs::read_link(format!("/proc/{}/exe", self.pid)).unwrap_or_default();
        let is_shell = SHELLS
            .iter()
            .any(|shell| file.file_name() == Some(OsStr::new(shell)));
        is_shell && self.reaction(signal) == Some(Reaction::Default)
    }

    pub fn signal(&self, signal: i32) {
        self.send(signal.into());
    }

    /// Sends it a signal, unless it is gone or its PID belongs to another process by now.
    pub fn send(&self, sent: SentSignal) {
        let Some(pid) = RawPid::from_raw(self.pid) else {
            return;
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // What the descriptor names cannot change any more: if it is the right one now, the
            // signal reaches the right one.
            Ok(fd) => {
                if self.lives() {
                    sent.send_to_pidfd(fd.as_raw_fd());
                }
            }
            // A kernel before 5.3, or a sandbox without pidfds: the best there is.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM | rustix::io::Errno::INVAL) => {
                if self.lives() {
                    sent.send_to(self.pid);
                }
            }
            Err(_) => {}
        }
    }
}

/// `kill(2)`, for our children, whose PIDs can't be reused before we reap them.
pub(crate) fn kill(pid: i32, signal: i32) {
    if pid > 1 {
        // SAFETY: no memory is involved.
        unsafe {
            libc::kill(pid, signal);
        }
    }
}

/// `killpg(2)`.
pub(crate) fn kill_group(group: i32, signal: i32) {
    if group > 1 {
        // SAFETY: no memory is involved.
        unsafe {
            libc::killpg(group, signal);
        }
    }
}

/// The processes below `root`, parents before children, without those in `but` and below them,
/// and without the dead.
pub(crate) fn below(root: i32, but: &[i32]) -> Vec<Process> {
    let everybody = OnceCell::new();
    let children = |parent| {
        children(parent).unwrap_or_else(|| children_among(everybody.get_or_init(everyone), parent))
    };
    walk_until_nobody_moves(root, but, children, Process::look)
}

/// The most walks for one list: in a storm of forks somebody dies during each of them.
const MOST_WALKS: usize = 8;

/// A process that dies gives its children to one above it. Where that one was read before, and the dead one
/// after, a walk sees them in neither place; so a walk in which somebody died is repeated. A zombie that was there
/// in the walk before has moved its children already.
fn walk_until_nobody_moves(
    root: i32,
    but: &[i32],
    mut children: impl FnMut(i32) -> Vec<i32>,
    mut look: impl FnMut(i32) -> Option<Process>,
) -> Vec<Process> {
    let mut dead_before = HashSet::new();
    for _ in 1..MOST_WALKS {
        let (found, dead) = walk(root, but, &mut children, &mut look);
        if dead.is_subset(&dead_before) {
            return found;
        }
        dead_before = dead;
    }
    walk(root, but, children, look).0
}

/// The living processes below `root`, and those that were found dead or died while their children were read.
fn walk(
    root: i32,
    but: &[i32],
    mut children: impl FnMut(i32) -> Vec<i32>,
    mut look: impl FnMut(i32) -> Option<Process>,
) -> (Vec<Process>, HashSet<i32>) {
    let mut found = Vec::new();
    let mut dead = HashSet::new();
    let mut seen: HashSet<i32> = but.iter().copied().collect();
    let mut queue = VecDeque::from([root]);
    // A PID that was reused since isn't a child of this parent any more.
    let mut living = |pid| look(pid).filter(|process| !process.is_dead());
    while let Some(parent) = queue.pop_front() {
        let below = children(parent);
        if parent != root && living(parent).is_none() {
            dead.insert(parent);
        }
        for pid in below {
            if found.len() >= MOST || !seen.insert(pid) {
                continue;
            }
            match living(pid) {
                Some(process) => {
                    queue.push_back(pid);
                    found.push(process);
                }
                None => {
                    dead.insert(pid);
                }
            }
        }
    }
    (found, dead)
}

/// The children of all threads of a process; `None` if the kernel doesn't list them
/// (CONFIG_PROC_CHILDREN) or the process is gone.
fn children(pid: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    let mut known = false;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        if let Ok(text) = fs::read_to_string(task.path().join("children")) {
            known = true;
            found.extend(
                text.split_whitespace()
                    .filter_map(|p| p.parse::<i32>().ok()),
            );
        }
    }
    known.then_some(found)
}

/// The PIDs of those of `all` that have this parent.
fn children_among(all: &[Process], parent: i32) -> Vec<i32> {
    let children = all.iter().filter(|process| process.parent == parent);
    children.map(|process| process.pid).collect()
}

/// The children of a process, the dead ones too.
pub(crate) fn children_of(parent: i32) -> impl Iterator<Item = Process> {
    let pids = children(parent).unwrap_or_else(|| children_among(&everyone(), parent));
    pids.into_iter().filter_map(Process::look)
}

pub(super) fn everyone() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| Process::look(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

fn status_field(pid: i32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::to_string)
}

fn signal_set(pid: i32, name: &str) -> Option<u64> {
    u64::from_str_radix(status_field(pid, name)?.trim(), 16).ok()
}

/// The signals that a thread waits for at this moment. While it does, the kernel does not count them as
/// blocked.
fn awaited(thread: i32) -> Option<u64> {
    let call = fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
    let mut words = call.split_whitespace();
    if words.next()?.parse() != Ok(libc::SYS_rt_sigtimedwait) {
        return None;
    }
    let set = u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
    let mut bytes = [0; 8];
    let memory = fs::File::open(format!("/proc/{thread}/mem")).ok()?;
    memory.read_exact_at(&mut bytes, set).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// Parses `/proc/PID/stat`. The name may contain spaces and brackets: the last bracket ends it.
fn parse(stat: &[u8]) -> Option<Process> {
    let text = String::from_utf8_lossy(stat);
    let (pid, rest) = text.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    // proc(5) counts from 1, and field 3 is the first here.
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    Some(Process {
        pid: pid.parse().ok()?,
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        terminal: field(7)?.parse::<i32>().ok()? as u32,
        foreground: field(8)?.parse().ok()?,
        start: field(22)?.parse().ok()?,
        state: field(3)?.chars().next()?,
        name: name.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_confuse() {
        let stat = b"42 (a) S (b) R 7 8 9 34816 8 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";
        let process = parse(stat).unwrap();
        assert_eq!(process.name, "a) S (b");
        assert_eq!(
            (
                process.pid,
                process.parent,
                process.group,
                process.foreground
            ),
            (42, 7, 8, 8)
        );
        assert_eq!((process.state, process.start), ('R', 987654));
        assert_eq!(parse(b"42 (half"), None);
    }

    #[test]
    fn this_process_is_found_below_its_parent_and_knows_itself() {
        let me = Process::look(std::process::id() as i32).unwrap();
        assert!(me.lives() && me.can_be_signalled() && !me.holds_gpu());
        assert!(below(me.parent, &[]).iter().any(|p| p.pid == me.pid));
        assert!(below(me.parent, &[me.pid]).iter().all(|p| p.pid != me.pid));
        assert_eq!(me.reaction(libc::SIGPIPE), Some(Reaction::Ignores));
        assert_eq!(me.reaction(libc::SIGUSR1), Some(Reaction::Default));
        let mut other = me.clone();
        other.start += 1;
        assert!(!other.lives(), "the same number, another process");
        other.signal(libc::SIGKILL);
    }

    fn process(pid: i32, parent: i32, state: char) -> Process {
        Process {
            pid,
            parent,
            group: pid,
            terminal: 0,
            foreground: -1,
            start: 1,
            state,
            name: "x".into(),
        }
    }

    /// 1 has 2, which has 3; 2 dies between two reads, so that 3 becomes a child of 1, which was read before.
    fn after_a_death_at_read(death: usize) -> Vec<i32> {
        let reads = std::cell::Cell::new(0);
        let is_dead = || {
            reads.set(reads.get() + 1);
            reads.get() > death
        };
        let children = |pid| match (pid, is_dead()) {
            (1, false) => vec![2],
            (1, true) => vec![2, 3],
            (2, false) => vec![3],
            _ => vec![],
        };
        let look = |pid| {
            let (parent, state) = match (pid, is_dead()) {
                (2, true) => (1, 'Z'),
                (2, false) => (1, 'S'),
                (_, true) => (1, 'S'),
                (_, false) => (2, 'S'),
            };
            Some(process(pid, parent, state))
        };
        let found = walk_until_nobody_moves(1, &[], children, look);
        found.iter().map(|process| process.pid).collect()
    }

    #[test]
    fn children_that_a_death_moves_during_the_walk_are_not_lost() {
        for death in 0..12 {
            let found = after_a_death_at_read(death);
            assert!(found.contains(&3), "dead after {death} reads: {found:?}");
        }
    }

    #[test]
    fn a_storm_of_deaths_ends_the_walks() {
        let mut newest = 1;
        let mut walks = 0;
        let children = |pid| {
            if pid != 1 {
                return vec![];
            }
            walks += 1;
            newest += 1;
            vec![newest]
        };
        let found = walk_until_nobody_moves(1, &[], children, |pid| Some(process(pid, 1, 'Z')));
        assert_eq!((found, walks), (vec![], MOST_WALKS));
    }

    #[test]
    fn a_signal_that_every_thread_blocks_is_waited_for() {
        let mut command = std::process::Command::new("sleep");
        // SAFETY: between fork and exec two calls on a set of this stack.
        unsafe {
            command.arg("60").pre_exec(|| {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&mut set);
                libc::sigaddset(&mut set, libc::SIGUSR1);
                libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        let process = Process::look(child.id() as i32).unwrap();
        let reactions = [libc::SIGUSR1, libc::SIGUSR2].map(|signal| process.reaction(signal));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(
            reactions,
            [Some(Reaction::Catches), Some(Reaction::Default)]
        );
    }
}
