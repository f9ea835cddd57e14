//! From a launch to a running program: fork, set up, exec.
//!
//! Between fork and exec only system calls are made, on values that were laid out before: the
//! keeper has threads, and after a fork of a threaded process nothing else is safe. std's `Command`
//! would do, but it waits until the exec has happened, which on a hung file system is for ever, and
//! says of a failure only a number. Here a pipe says which step failed, whenever it does.
//!
//! On a terminal there is one process more, the *session holder*. The kernel hangs up the
//! foreground group of a terminal when its session's leader ends; were the trainer the leader, an
//! upload that it left to finish would be killed by its end. A shell is such a leader for what
//! runs in it. So the holder leads, the trainer is a group of its own in that session, as in a
//! shell, and a child of the keeper (`CLONE_PARENT`): no parent in its session, its group is an
//! orphaned one, which Ctrl-Z cannot stop. The holder sleeps, deaf to everything, until the
//! terminal is given up, or dies with the keeper, and then the trainer is hung up.

use super::descriptor;
use crate::supervise::inherited::InheritedSignals;
use nix::libc;
use nix::unistd::ForkResult;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Everything that a new process needs, laid out before there is one.
pub(super) struct Blueprint {
    /// The file to execute.
    pub path: CString,
    /// The program's words.
    pub argv: Vec<CString>,
    /// Its environment.
    pub env: Vec<CString>,
    /// Whether `/bin/sh` may try the file where the kernel does not know what it is.
    pub for_a_shell: bool,
    /// The directory to go to, where it is another than ours.
    pub cwd: Option<CString>,
    /// What becomes its stdin, stdout and stderr; `None` stays what it is.
    pub streams: [Option<RawFd>; 3],
    /// Its terminal, where it gets one.
    pub terminal: Option<RawFd>,
    /// Signals and streams as oomph found them.
    pub inherited: InheritedSignals,
}

/// A process that is on its way to its program.
#[derive(Debug)]
pub(super) struct Spawned {
    /// Says what became of it: see [`SpawnMessage`].
    pub words: OwnedFd,
    /// The holder of its session, where it has a terminal.
    pub holder: Option<i32>,
}

/// The steps that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpawnStep {
    /// Making the process, its session, its terminal.
    Setup,
    /// Going to its directory.
    Directory,
    /// Executing the file.
    Exec,
}

/// What a process says of itself before it becomes the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpawnMessage {
    /// Its id.
    Pid(i32),
    /// A step that failed, and the system's number for it. It ends then.
    Failed(SpawnStep, i32),
}

/// A word's length on the pipe: a letter and a number.
const LENGTH: usize = 8;

const PID: i32 = 0;
const SETUP: i32 = 1;
const DIRECTORY: i32 = 2;
const EXEC: i32 = 3;

/// The whole words in what came from the pipe.
pub(super) fn words(bytes: &[u8]) -> Vec<SpawnMessage> {
    bytes
        .chunks_exact(LENGTH)
        .filter_map(|chunk| {
            let (kind, number) = chunk.split_first_chunk::<4>()?;
            let number = i32::from_ne_bytes(*number.first_chunk::<4>()?);
            match i32::from_ne_bytes(*kind) {
                PID => Some(SpawnMessage::Pid(number)),
                SETUP => Some(SpawnMessage::Failed(SpawnStep::Setup, number)),
                DIRECTORY => Some(SpawnMessage::Failed(SpawnStep::Directory, number)),
                EXEC => Some(SpawnMessage::Failed(SpawnStep::Exec, number)),
                _ => None,
            }
        })
        .collect()
}

/// Starts the process. All signals must be blocked in this thread, and are in the new process
/// until just before the exec.
pub(super) fn spawn(plan: &Blueprint) -> io::Result<Spawned> {
    let (reading, writing) = descriptor::pipe()?;
    descriptor::set_nonblocking(&reading)?;
    let argv = pointers(&plan.argv);
    let env = pointers(&plan.env);
    // As execvp: the shell's own name, then the file in place of the script's first word.
    let mut shell: Vec<*const libc::c_char> = vec![c"sh".as_ptr(), plan.path.as_ptr()];
    shell.extend(argv.iter().skip(1));
    let mut ignored = [false; SIGNALS];
    for (signal, place) in (1..).zip(ignored.iter_mut()) {
        *place = plan.inherited.is_ignored(signal);
    }
    // SAFETY: a zeroed sigset_t is one that sigemptyset may fill.
    let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both work on the set above.
    unsafe {
        libc::sigemptyset(&mut mask);
        for signal in (1..=SIGNALS as i32).filter(|signal| plan.inherited.is_blocked(*signal)) {
            libc::sigaddset(&mut mask, signal);
        }
    }
    let child = Child {
        path: plan.path.as_ptr(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        shell: plan.for_a_shell.then_some(shell.as_ptr()),
        cwd: plan.cwd.as_ref().map(|cwd| cwd.as_ptr()),
        streams: plan.streams,
        closed: plan.inherited.closed(),
        terminal: plan.terminal,
        ignored,
        mask,
        words: writing.as_raw_fd(),
        keeper: std::process::id() as i32,
    };
    // SAFETY: the child makes system calls only, on `child`, which is its own copy.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Spawned {
            words: reading,
            holder: plan.terminal.map(|_| child.as_raw()),
        }),
        // SAFETY: this is the child.
        ForkResult::Child => unsafe { child.become_program() },
    }
}

fn pointers(words: &[CString]) -> Vec<*const libc::c_char> {
    words
        .iter()
        .map(|word| word.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

/// Linux's signals, 1 to 64.
const SIGNALS: usize = 64;

/// What the new process works on.
struct Child {
    path: *const libc::c_char,
    argv: *const *const libc::c_char,
    env: *const *const libc::c_char,
    shell: Option<*const *const libc::c_char>,
    cwd: Option<*const libc::c_char>,
    streams: [Option<RawFd>; 3],
    closed: [bool; 3],
    terminal: Option<RawFd>,
    ignored: [bool; SIGNALS],
    mask: libc::sigset_t,
    words: RawFd,
    keeper: i32,
}

impl Child {
    /// # Safety
    /// In a freshly forked process only.
    unsafe fn become_program(&self) -> ! {
        // SAFETY: system calls on values of our own; every pointer was laid out before the fork.
        unsafe {
            if libc::setsid() < 0 {
                self.fail(SETUP);
            }
            match self.terminal {
                Some(terminal) => self.hold_session(terminal),
                None => self.say(PID, libc::getpid()),
            }
            for ((target, source), closed) in (0..).zip(self.streams).zip(self.closed) {
                if let Some(source) = source {
                    if libc::dup2(source, target) < 0 {
                        self.fail(SETUP);
                    }
                } else if closed {
                    // Rust's runtime has opened /dev/null in the place of what was closed.
                    libc::close(target);
                }
            }
            if let Some(cwd) = self.cwd
                && libc::chdir(cwd) < 0
            {
                self.fail(DIRECTORY);
            }
            for (signal, ignored) in (1..).zip(self.ignored) {
                // Fails for KILL, STOP and the two that the C library keeps for itself.
                libc::signal(
                    signal,
                    if ignored {
                        libc::SIG_IGN
                    } else {
                        libc::SIG_DFL
                    },
                );
            }
            libc::sigprocmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut());
            libc::execve(self.path, self.argv, self.env);
            if let Some(shell) = self.shell
                && *libc::__errno_location() == libc::ENOEXEC
            {
                libc::execve(c"/bin/sh".as_ptr(), shell, self.env);
            }
            self.fail(EXEC)
        }
    }

    /// Makes this process the holder of the terminal's session; returns in the trainer-to-be.
    ///
    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn hold_session(&self, terminal: RawFd) {
        // SAFETY: as above.
        unsafe {
            if libc::ioctl(terminal, libc::TIOCSCTTY, 0) < 0 {
                self.fail(SETUP);
            }
            // The keeper's main thread is its only one that forks, and lives as long as it does.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() != self.keeper {
                libc::_exit(1);
            }
            let flags = (libc::CLONE_PARENT | libc::SIGCHLD) as libc::c_long;
            match libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) {
                0 => {
                    libc::setpgid(0, 0);
                    // From the background that would stop us, but all signals are blocked.
                    libc::tcsetpgrp(terminal, libc::getpid());
                    self.say(PID, libc::getpid());
                }
                // A sandbox that knows no CLONE_PARENT: then the trainer leads its session itself.
                -1 => {
                    libc::prctl(libc::PR_SET_PDEATHSIG, 0);
                    self.say(PID, libc::getpid());
                }
                _ => self.sleep(),
            }
        }
    }

    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn sleep(&self) -> ! {
        // SAFETY: as above.
        unsafe {
            libc::prctl(libc::PR_SET_NAME, c"oomph-session".as_ptr());
            // Nothing may be held open here: not the trainer's streams, nor the user's pipes.
            if libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0) < 0 {
                for fd in 0..65_536 {
                    libc::close(fd);
                }
            }
            libc::chdir(c"/".as_ptr());
            loop {
                // All signals but KILL and STOP are blocked: this is for ever.
                libc::pause();
            }
        }
    }

    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn say(&self, kind: i32, number: i32) {
        let words = [kind, number];
        // SAFETY: a write of our own eight bytes, which a pipe takes whole.
        unsafe {
            libc::write(self.words, words.as_ptr().cast(), LENGTH);
        }
    }

    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn fail(&self, step: i32) -> ! {
        // SAFETY: as above.
        unsafe {
            let errno = *libc::__errno_location();
            self.say(step, errno);
            libc::_exit(127)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_whole_or_not_at_all() {
        let mut bytes = Vec::new();
        for number in [PID, 4711, EXEC, libc::ENOENT] {
            bytes.extend(number.to_ne_bytes());
        }
        assert_eq!(
            words(&bytes),
            [
                SpawnMessage::Pid(4711),
                SpawnMessage::Failed(SpawnStep::Exec, libc::ENOENT)
            ]
        );
        bytes.truncate(12);
        assert_eq!(words(&bytes), [SpawnMessage::Pid(4711)]);
    }
}
