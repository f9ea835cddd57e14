//! This process itself: what it inherited, how it becomes the command or ends like it, and whether another
//! oomph is above it.
//!
//! *Inherited*: `nohup` is an ignored SIGHUP, `cmd &` in a plain `sh` an ignored SIGINT, systemd's
//! `IgnoreSIGPIPE=` an ignored SIGPIPE; `<&-` closes a stream. The trainer is to inherit the same, but Rust's
//! runtime ignores SIGPIPE and opens `/dev/null` for every closed stream before `main`. So the original
//! state can only be read earlier: by a function in `.init_array`, which the loader calls first.
//!
//! *Becomes the command*, as `env` and `nohup` do: where the system hasn't the resources for oomph beside
//! it, because the training comes first.
//!
//! *Below another*: an oomph in a script that oomph runs stands aside, since its output and its probe belong
//! to the session above. Told by the kernel alone, so that neither `env -i` nor a variable that outlived its
//! session misleads: an ancestor is a keeper, and so alive. A controlling terminal that isn't that session's
//! is somebody else's: of tmux, of a notebook's shell or of `script`, started below an oomph. An oomph there
//! is a person's own.

use super::program::{self, Missing, resolve};
use crate::command::CommandLine;
use crate::event::Exit;
use nix::errno::Errno;
use nix::libc;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::execve;
use procfs::process::{Process, Stat};
use serde::{Deserialize, Serialize};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The keeper's name among processes, of at most 15 bytes.
pub(super) const KEEPER_NAME: &str = "oomph-keeper";

/// The signals that were ignored and blocked at the start (bit n−1 for signal n), and the standard
/// streams that were closed (bit n for stream n).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InheritedSignals {
    ignored: u64,
    blocked: u64,
    #[serde(default)]
    closed: u8,
}

impl InheritedSignals {
    /// A signal that was ignored must stay ignored: install no handler for it.
    pub fn is_ignored(self, signal: i32) -> bool {
        self.ignored & bit(signal) != 0
    }

    pub fn is_blocked(self, signal: i32) -> bool {
        self.blocked & bit(signal) != 0
    }

    /// Ignores what was ignored and nothing else, for the program that this process becomes.
    /// Async-signal-safe.
    pub(super) fn ignore_again(self) {
        for signal in 1..=SIGNALS {
            let action = match self.is_ignored(signal) {
                true => libc::SIG_IGN,
                false => libc::SIG_DFL,
            };
            // Fails for KILL, STOP and the two that the C library keeps for itself.
            // SAFETY: no handler.
            unsafe { libc::signal(signal, action) };
        }
    }

    /// Blocks what was blocked and nothing else, for the program that this process becomes.
    fn block_again(self) {
        // SAFETY: the set lives on this stack.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in (1..=SIGNALS).filter(|signal| self.is_blocked(*signal)) {
                libc::sigaddset(&mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
        }
    }

    /// Closes the standard streams that were closed, but for those with something new in their
    /// place: Rust's runtime has opened `/dev/null` there. Async-signal-safe.
    ///
    /// # Safety
    /// Nobody uses these descriptors from here on.
    pub(super) unsafe fn close_again(self, replaced: [bool; 3]) {
        for (number, replaced) in (0..).zip(replaced) {
            if self.closed & (1 << number) != 0 && !replaced {
                // SAFETY: as above.
                unsafe { libc::close(number) };
            }
        }
    }
}

/// The place of a command in its process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupPlace {
    /// A command of a script: it is in the script's group.
    #[default]
    Member,
    /// A command of an interactive shell, which gives each a group of its own.
    Leader,
}

impl GroupPlace {
    /// Of this process, and so of the command without oomph.
    pub fn of_this_process() -> GroupPlace {
        match nix::unistd::getpgrp() == nix::unistd::getpid() {
            true => GroupPlace::Leader,
            false => GroupPlace::Member,
        }
    }
}

/// Linux's signals are 1 to 64.
pub(super) const SIGNALS: i32 = 64;

const fn bit(signal: i32) -> u64 {
    if signal >= 1 && signal <= SIGNALS {
        1 << (signal - 1)
    } else {
        0
    }
}

static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);
static CLOSED: AtomicU8 = AtomicU8::new(0);
static KNOWN: AtomicBool = AtomicBool::new(false);

/// The state at the start. Call this first in `main`, in case the loader did not run our function.
pub fn inherited() -> InheritedSignals {
    if !KNOWN.load(Ordering::Acquire) {
        record();
    }
    InheritedSignals {
        ignored: IGNORED.load(Ordering::Acquire),
        blocked: BLOCKED.load(Ordering::Acquire),
        closed: CLOSED.load(Ordering::Acquire),
    }
}

/// Makes `ulimit -f` an error of this process's writes instead of a fatal signal: it then only costs
/// the recording. The trainer still inherits the original state. For the front; the keeper
/// ignores the signal by itself.
pub fn ignore_own_limits() {
    // Read the original state first.
    inherited();
    // SAFETY: no handler, only ignored.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// As process 1 of a container, lets the kernel reap all orphans, so that no zombies pile up. The
/// trainer still inherits the original state. For the front, which waits for no children; the keeper
/// reaps by itself.
pub fn reap_strangers() {
    if std::process::id() == 1 {
        // Read the original state first.
        inherited();
        // SAFETY: no handler, only ignored.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        }
    }
}

/// Puts `/dev/null` in the place of a pipe or socket as standard input, once it is not needed any more: whoever writes to it
/// learns that nobody reads (SIGPIPE) when the program has closed it, not when oomph ends.
pub(super) fn give_up_piped_input() {
    let stdin = io::stdin();
    let is_piped = fstat(&stdin).is_ok_and(|about| {
        let kind = SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT;
        kind == SFlag::S_IFIFO || kind == SFlag::S_IFSOCK
    });
    if is_piped && let Ok(null) = File::open("/dev/null") {
        // SAFETY: two open descriptors; what leads to the pipe is closed by it, and nobody here reads it.
        unsafe { libc::dup2(null.as_raw_fd(), stdin.as_raw_fd()) };
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = record;

extern "C" fn record() {
    let (mut ignored, mut blocked, mut closed) = (0, 0, 0);
    // SAFETY: only queries; every out-pointer is a zeroed local of the right type. Nothing here needs
    // Rust's runtime, which isn't up yet.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
        for signal in 1..=SIGNALS {
            let mut action: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
            {
                ignored |= bit(signal);
            }
            if libc::sigismember(&mask, signal) == 1 {
                blocked |= bit(signal);
            }
        }
        for number in 0..3 {
            if libc::fcntl(number, libc::F_GETFD) < 0 {
                closed |= 1 << number;
            }
        }
    }
    IGNORED.store(ignored, Ordering::Release);
    BLOCKED.store(blocked, Ordering::Release);
    CLOSED.store(closed, Ordering::Release);
    KNOWN.store(true, Ordering::Release);
}

/// The minimum that front, screen, recording and probe need; the keeper has its own.
const DESCRIPTORS: usize = 28;

/// The processes and threads of front, keeper and probe, and a few for the command's own.
const TASKS: usize = 24;

/// The stack of a thread that only waits.
const TASK_STACK: usize = 32 << 10;

/// The main thread's stack: the screen and the command line's parser need some hundred KiB.
const STACK: u64 = 1 << 20;

/// What oomph needs and the system doesn't have; `None` if nothing is missing. Call it before any thread
/// is started.
pub fn lacking() -> Option<String> {
    if std::fs::metadata("/proc/self/exe").is_err() {
        return Some("/proc is not mounted".into());
    }
    // Tried rather than read from the limit, because those that are already open count as well.
    let mut opened = Vec::with_capacity(DESCRIPTORS);
    while opened.len() < DESCRIPTORS {
        match File::open("/dev/null") {
            Ok(file) => opened.push(file),
            Err(error) => return Some(format!("{error}; `ulimit -n` says how many")),
        }
    }
    drop(opened);
    if !has_memory() {
        return Some(
            "too little memory for oomph beside the command (see `ulimit -v` and `ulimit -d`)"
                .into(),
        );
    }
    if has_small_stack() {
        return Some("the stack is too small for oomph (see `ulimit -s`)".into());
    }
    let error = begin_tasks().err()?;
    Some(format!(
        "too few processes for oomph beside the command ({error}; see `ulimit -u`)"
    ))
}

/// What the front takes beside what it has from its start, with room to spare.
const MEMORY: usize = 64 << 20;

/// Whether the address space that is allowed has room for the front. Tried, because what is mapped already counts as
/// well; nothing of it is touched.
fn has_memory() -> bool {
    // Private memory that can be written counts for `ulimit -d`, all addresses for `ulimit -v`.
    let limits = [Resource::RLIMIT_AS, Resource::RLIMIT_DATA];
    let is_limited =
        |limit: &Resource| getrlimit(*limit).is_ok_and(|(soft, _)| soft != RLIM_INFINITY);
    if !limits.iter().any(is_limited) {
        return true;
    }
    // glibc maps 64 MiB and more for each thread that allocates, most of which is never used.
    #[cfg(target_env = "gnu")]
    // SAFETY: no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
    Vec::<u8>::new().try_reserve_exact(MEMORY).is_ok()
}

/// Whether this process's stack is too small for the front.
pub fn has_small_stack() -> bool {
    getrlimit(Resource::RLIMIT_STACK).is_ok_and(|(soft, _)| soft < STACK)
}

/// Tries whether as many tasks may exist at a time as oomph needs. Threads, because they count like
/// processes and cost less.
fn begin_tasks() -> io::Result<()> {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock();
    let mut begun = Vec::with_capacity(TASKS);
    let mut outcome = Ok(());
    while begun.len() < TASKS && outcome.is_ok() {
        let gate = gate.clone();
        let task = std::thread::Builder::new().stack_size(TASK_STACK);
        match task.spawn(move || drop(gate.lock())) {
            Ok(thread) => begun.push(thread),
            Err(error) => outcome = Err(error),
        }
    }
    drop(closed);
    for thread in begun {
        let _ = thread.join();
    }
    outcome
}

/// Becomes the command. Returns only if that isn't possible, with the reason.
pub fn become_command(command: &CommandLine) -> Missing {
    let search = std::env::var_os("PATH");
    let path = match resolve(command, search.as_deref()) {
        Ok(path) => path,
        Err(missing) => return missing,
    };
    let c_string = |word: &OsStr| CString::new(word.as_bytes()).unwrap_or_default();
    let file = c_string(path.as_os_str());
    let argv: Vec<CString> = command.argv.iter().map(|word| c_string(&word.0)).collect();
    let environment = program::for_exec(program::changed(
        std::env::vars_os().collect(),
        &command.env,
    ));
    inherited().ignore_again();
    inherited().block_again();
    // SAFETY: this process does nothing more with its streams.
    unsafe { inherited().close_again([false; 3]) };
    let Err(errno) = execve(&file, &argv, &environment);
    let errno = match errno {
        // As execvp: a file without a first line that says so is the shell's.
        Errno::ENOEXEC => {
            let mut words = vec![c"sh".to_owned(), file];
            words.extend(argv.into_iter().skip(1));
            let Err(errno) = execve(c"/bin/sh", &words, &environment);
            errno
        }
        errno => errno,
    };
    Missing::explain(Path::new(&command.cwd), &path, errno as i32)
}

/// Exits as the trainer did, with the same code or by the same signal, so that a shell, a scheduler or a
/// script sees no difference.
///
/// The signal is raised with its default action and without a core dump (the trainer has left its
/// own). If that doesn't end us (process 1 of a container can't die of its own signals), the code is
/// 128 + the signal's number, as a shell would show it. GNU timeout does the same. The terminal must
/// have been restored.
pub fn exit_like(exit: Exit) -> ! {
    if let Exit::Signal(signal) = exit {
        die_by(signal);
    }
    std::process::exit(exit.shell_code())
}

fn die_by(signal: i32) {
    // If either call fails, the worst that happens is a second core file.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_CORE) {
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, hard);
    }
    let _ = nix::sys::prctl::set_dumpable(false);
    // SAFETY: plain system calls; no handler is installed, the sets live on this stack.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// More ancestors than any process has.
const MOST_ANCESTORS: usize = 4096;

/// Whether another oomph, above this process, watches what it runs.
pub fn is_below_another() -> bool {
    let Ok(own) = Process::myself().and_then(|process| process.stat()) else {
        return false;
    };
    let Some(keeper) = keeper_above(&own, look) else {
        return false;
    };
    own.tty_nr == 0 || terminals_below(keeper).any(|terminal| terminal == own.tty_nr)
}

fn look(pid: i32) -> Option<Stat> {
    Process::new(pid).ok()?.stat().ok()
}

/// The nearest ancestor that is a keeper.
fn keeper_above(own: &Stat, look: impl Fn(i32) -> Option<Stat>) -> Option<i32> {
    let mut parent = own.ppid;
    for _ in 0..MOST_ANCESTORS {
        // The first process of the machine, or one outside our PID namespace.
        if parent <= 1 {
            return None;
        }
        let stat = look(parent)?;
        if stat.comm == KEEPER_NAME {
            return Some(parent);
        }
        parent = stat.ppid;
    }
    None
}

/// The controlling terminals of a keeper's children: the session holder, or the program, has the session's.
fn terminals_below(keeper: i32) -> impl Iterator<Item = i32> {
    let all = procfs::process::all_processes().into_iter().flatten();
    all.filter_map(|process| process.ok()?.stat().ok())
        .filter(move |stat| stat.ppid == keeper)
        .map(|stat| stat.tty_nr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn was_looked_up_before_rusts_runtime_changed_anything() {
        assert!(KNOWN.load(Ordering::Acquire), "by the loader");
        // cargo runs tests with SIGPIPE at its default, and Rust's runtime ignores it by now.
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let now = text
            .lines()
            .find_map(|l| l.strip_prefix("SigIgn:"))
            .unwrap();
        let now = u64::from_str_radix(now.trim(), 16).unwrap();
        assert_ne!(now & bit(libc::SIGPIPE), 0);
        assert!(!inherited().is_ignored(0) && !inherited().is_ignored(65));
    }
}
