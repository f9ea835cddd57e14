//! Fork, set up, exec.
//!
//! Between fork and exec only system calls are made, on values prepared before: the keeper has
//! threads, and in the child of a threaded process nothing else is safe. std's `Command` waits for
//! the exec, which on a hung file system never happens, and reports a failure only as a number.
//! Here a pipe reports which step failed, whenever it does.
//!
//! Each run has a second process, the *session holder*: it leads the session in which the trainer is, as
//! a shell does for its commands. The trainer never leads one, because setsid(2) and setpgid(2) fail for
//! a session's leader, and util-linux's `setsid` doesn't wait for its command if it leads a group. It has a
//! process group of its own where oomph has one, as a command of an interactive shell; otherwise it is in
//! the holder's, as a command of a script is in the script's. It is a child of the keeper (`CLONE_PARENT`).
//! Since its parent is in another session, its group is orphaned, and Ctrl-Z can't stop it.
//!
//! The holder sleeps with all signals blocked. The kernel hangs up a terminal's foreground group when the
//! session leader ends, so on a terminal it stays until nobody has the terminal open: the trainer's end must not
//! kill an upload that it left in the background. One that has its output in a file (`tensorboard … >log 2>&1 &` in
//! a script) may live on even then, so before it ends the holder makes another group the foreground one, which is empty
//! by then ([`ask_to_step_aside`]). If the keeper dies, so does the holder, and the trainer is
//! hung up: its streams are gone. A trainer that has its streams still, without a terminal or with one for
//! questions only, loses nothing but that terminal: its holder stays until it has ended. Such a holder also keeps the reading
//! ends of the trainer's pipes, without reading: from its first instant on the trainer can't be ended by a pipe that broke
//! with the keeper, and a front opens them there.

use super::descriptor;
use crate::supervise::this_process::{GroupPlace, InheritedSignals, SIGNALS};
use nix::errno::Errno;
use nix::libc;
use nix::unistd::ForkResult;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Everything that the new process needs, prepared before the fork.
pub(super) struct Blueprint {
    /// The file to execute.
    pub path: CString,
    pub argv: Vec<CString>,
    pub env: Vec<CString>,
    /// Whether `/bin/sh` may try the file if the kernel can't run it.
    pub for_a_shell: bool,
    /// The directory to change to, if it isn't ours.
    pub cwd: Option<CString>,
    /// Its stdin, stdout and stderr; `None` is inherited.
    pub streams: [Option<RawFd>; 3],
    /// The reading ends of its pipes, stdout's and stderr's.
    pub outputs: [Option<RawFd>; 2],
    /// Its controlling terminal.
    pub terminal: Option<RawFd>,
    pub group: GroupPlace,
    pub holder: HolderEnd,
    pub inherited: InheritedSignals,
}

/// When the holder ends at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HolderEnd {
    WithKeeper,
    /// With the trainer, if the keeper is gone before it.
    WithTrainer,
}

/// The keeper's signals to a holder: to end without hanging anybody up. Of the first kind the kernel keeps each, also
/// behind one of somebody else's; of the second it keeps who sent it even where the user may have no signal waiting
/// (`ulimit -i 0`).
fn step_aside_signals() -> [libc::c_int; 2] {
    [libc::SIGRTMIN(), libc::SIGURG]
}

/// Has a holder end, so that nobody is hung up by it.
pub(super) fn ask_to_step_aside(holder: i32) {
    for signal in step_aside_signals() {
        super::tree::kill(holder, signal);
    }
    // Whoever has stopped the program's group may have stopped it as well.
    super::tree::kill(holder, libc::SIGCONT);
}

/// The holder's name among processes.
pub(in crate::supervise) const HOLDER: &str = "oomph-session";
const HOLDER_NAME: &std::ffi::CStr = c"oomph-session";

/// The holder's descriptors: a pidfd of the trainer, the reading ends of its pipes, a pidfd of the keeper.
const TRAINER: RawFd = 0;
const OUTPUTS: [RawFd; 2] = [1, 2];
const KEEPER: RawFd = 3;

/// How long the trainer's pipes are held for a front whose keeper is gone. If there is no front either, they must break:
/// a full one would let the trainer wait, and keep its GPU, forever.
const HELD_MILLIS: libc::c_int = 10_000;

/// A process between fork and exec.
#[derive(Debug)]
pub(super) struct Spawned {
    /// Where its [`SpawnMessage`]s come from.
    pub messages: OwnedFd,
    /// The holder of its session; where there can be none, the process itself.
    pub holder: i32,
}

/// The steps that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpawnStep {
    /// Creating the process, its session, its terminal.
    Setup = 1,
    /// Changing to its directory.
    Directory = 2,
    Exec = 3,
}

/// What a process reports before it becomes the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpawnMessage {
    Pid(i32),
    /// A step that failed, with its errno; the process ends then.
    Failed(SpawnStep, i32),
}

/// The size of a message on the pipe: the step (0: none, the PID follows) and a number.
const LENGTH: usize = 8;

/// The complete messages in what came from the pipe.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = SpawnMessage> {
    bytes.chunks_exact(LENGTH).filter_map(|chunk| {
        let (kind, number) = chunk.split_first_chunk::<4>()?;
        let number = i32::from_ne_bytes(*number.first_chunk::<4>()?);
        let steps = [SpawnStep::Setup, SpawnStep::Directory, SpawnStep::Exec];
        match i32::from_ne_bytes(*kind) {
            0 => Some(SpawnMessage::Pid(number)),
            kind => (steps.into_iter().find(|step| *step as i32 == kind))
                .map(|step| SpawnMessage::Failed(step, number)),
        }
    })
}

/// Starts the process. All signals must be blocked in this thread; in the new process they are
/// unblocked just before the exec.
pub(super) fn spawn(plan: &Blueprint) -> io::Result<Spawned> {
    let (reading, writing) = descriptor::pipe()?;
    descriptor::set_nonblocking(&reading)?;
    let argv = pointers(&plan.argv);
    let env = pointers(&plan.env);
    // As execvp: the shell's own name, then the file in place of the script's first word.
    let mut shell: Vec<*const libc::c_char> = vec![c"sh".as_ptr(), plan.path.as_ptr()];
    shell.extend(argv.iter().skip(1));
    // SAFETY: a zeroed sigset_t is one that sigemptyset may fill.
    let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both work on the set above.
    unsafe {
        libc::sigemptyset(&mut mask);
        for signal in (1..=SIGNALS).filter(|signal| plan.inherited.is_blocked(*signal)) {
            libc::sigaddset(&mut mask, signal);
        }
    }
    let child = Child {
        plan,
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        shell: shell.as_ptr(),
        mask,
        report: writing.as_raw_fd(),
        keeper: std::process::id() as i32,
    };
    // SAFETY: the child makes system calls only, on its own copy of `child` and the plan.
    match patiently(|| unsafe { nix::unistd::fork() }, std::thread::sleep)? {
        ForkResult::Parent { child } => Ok(Spawned {
            messages: reading,
            holder: child.as_raw(),
        }),
        // SAFETY: this is the child.
        ForkResult::Child => unsafe { child.become_program() },
    }
}

/// How often to try again, and after which time, where the user's other processes leave none for the
/// moment: two seconds, in which no trainer of ours waits for us.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);

/// Tries again as long as the system has no process to give (EAGAIN).
fn patiently<T>(attempt: impl Fn() -> nix::Result<T>, sleep: impl Fn(Duration)) -> nix::Result<T> {
    for _ in 0..TRIES {
        match attempt() {
            Err(Errno::EAGAIN) => sleep(PAUSE),
            outcome => return outcome,
        }
    }
    attempt()
}

fn pointers(words: &[CString]) -> Vec<*const libc::c_char> {
    let words = words.iter().map(|word| word.as_ptr());
    words.chain([std::ptr::null()]).collect()
}

/// The status of a holder that ends because of its keeper's or its trainer's end; one that is on a terminal is killed.
pub(in crate::supervise) const ENDED_ITSELF: i32 = 1;

/// What the new process works on.
struct Child<'a> {
    plan: &'a Blueprint,
    argv: *const *const libc::c_char,
    env: *const *const libc::c_char,
    shell: *const *const libc::c_char,
    mask: libc::sigset_t,
    report: RawFd,
    keeper: i32,
}

impl Child<'_> {
    /// # Safety
    /// In a freshly forked process only.
    unsafe fn become_program(&self) -> ! {
        let plan = self.plan;
        // SAFETY: system calls on our own values; all pointers were prepared before the fork.
        unsafe {
            if libc::setsid() < 0 {
                self.fail(SpawnStep::Setup);
            }
            if let Some(terminal) = plan.terminal
                && libc::ioctl(terminal, libc::TIOCSCTTY, 0) < 0
            {
                self.fail(SpawnStep::Setup);
            }
            self.hold_session();
            for (target, source) in (0..).zip(plan.streams) {
                if source.is_some_and(|source| libc::dup2(source, target) < 0) {
                    self.fail(SpawnStep::Setup);
                }
            }
            plan.inherited
                .close_again(plan.streams.map(|s| s.is_some()));
            if let Some(cwd) = &plan.cwd
                && libc::chdir(cwd.as_ptr()) < 0
            {
                self.fail(SpawnStep::Directory);
            }
            plan.inherited.ignore_again();
            libc::sigprocmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut());
            libc::execve(plan.path.as_ptr(), self.argv, self.env);
            if plan.for_a_shell && *libc::__errno_location() == libc::ENOEXEC {
                libc::execve(c"/bin/sh".as_ptr(), self.shell, self.env);
            }
            self.fail(SpawnStep::Exec)
        }
    }

    /// Makes this process the session holder; returns in the process that becomes the trainer.
    ///
    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn hold_session(&self) {
        // SAFETY: as above.
        unsafe {
            let mut trainer: libc::c_int = -1;
            let mut flags = (libc::CLONE_PARENT | libc::SIGCHLD) as libc::c_long;
            match self.plan.holder {
                HolderEnd::WithKeeper => self.die_with_keeper(),
                HolderEnd::WithTrainer => {
                    // Nobody would learn of a program that is started without a keeper.
                    self.end_without_keeper();
                    flags |= libc::CLONE_PIDFD as libc::c_long;
                }
            }
            let mut tries = TRIES;
            let cloned = loop {
                let cloned = libc::syscall(libc::SYS_clone, flags, 0, &mut trainer, 0, 0);
                if cloned != -1 || *libc::__errno_location() != libc::EAGAIN || tries == 0 {
                    break cloned;
                }
                tries -= 1;
                libc::poll(std::ptr::null_mut(), 0, PAUSE.as_millis() as libc::c_int);
            };
            match cloned {
                0 => {
                    self.take_place();
                    self.say(0, libc::getpid());
                }
                // A sandbox without CLONE_PARENT, or no process left: the trainer leads its session itself.
                -1 => {
                    libc::prctl(libc::PR_SET_PDEATHSIG, 0);
                    self.say(0, libc::getpid());
                }
                _ => {
                    if trainer < 0 {
                        // Not asked for, or a kernel before 5.2.
                        self.die_with_keeper();
                    }
                    self.sleep(trainer)
                }
            }
        }
    }

    /// A group of its own, in the terminal's foreground, or the session holder's, which is there already.
    ///
    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn take_place(&self) {
        match self.plan.group {
            GroupPlace::Member => {}
            // SAFETY: as above.
            GroupPlace::Leader => unsafe {
                libc::setpgid(0, 0);
                if let Some(terminal) = self.plan.terminal {
                    // In the background this would stop us (SIGTTOU), but all signals are blocked.
                    libc::tcsetpgrp(terminal, libc::getpid());
                }
            },
        }
    }

    /// Bound to the thread that forked: the keeper's main thread, which lives as long as it.
    ///
    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn die_with_keeper(&self) {
        // SAFETY: as above.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            self.end_without_keeper();
        }
    }

    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn end_without_keeper(&self) {
        // SAFETY: as above.
        unsafe {
            if libc::getppid() != self.keeper {
                libc::_exit(ENDED_ITSELF);
            }
        }
    }

    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn sleep(&self, trainer: RawFd) -> ! {
        // SAFETY: as above.
        unsafe {
            let kept = match trainer {
                0.. => self.keep(trainer),
                _ => 0,
            };
            // Close everything else: the trainer's streams, the user's pipes.
            close_from(kept);
            libc::chdir(c"/".as_ptr());
            // Whoever reads this name may rely on the descriptors.
            libc::prctl(libc::PR_SET_NAME, HOLDER_NAME.as_ptr());
            if kept > 0 {
                self.wait_for(kept > KEEPER);
                close_from(0);
                self.die_with_keeper();
            }
            let mut asked: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut asked);
            for signal in step_aside_signals() {
                libc::sigaddset(&mut asked, signal);
            }
            let mut info: libc::siginfo_t = std::mem::zeroed();
            loop {
                // All signals but KILL and STOP are blocked. Others may signal the group that it is in.
                if libc::sigwaitinfo(&asked, &mut info) > 0 && info.si_pid() == self.keeper {
                    self.leave_the_foreground();
                    libc::_exit(0);
                }
            }
        }
    }

    /// Puts what the holder needs in its place; the first number that isn't needed. Without a pidfd of the keeper it
    /// couldn't tell when to let go of the pipes, and keeps none.
    ///
    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn keep(&self, trainer: RawFd) -> RawFd {
        // SAFETY: as above. All sources are above the standard streams.
        unsafe {
            let keeper = libc::syscall(libc::SYS_pidfd_open, self.keeper, 0) as RawFd;
            for (place, output) in OUTPUTS.into_iter().zip(self.plan.outputs) {
                match output {
                    Some(output) if keeper >= 0 => libc::dup2(output, place),
                    _ => libc::close(place),
                };
            }
            libc::dup2(trainer, TRAINER);
            match keeper {
                0.. => libc::dup2(keeper, KEEPER) + 1,
                _ => TRAINER + 1,
            }
        }
    }

    /// Waits for the trainer's end; lets go of its pipes some time after the keeper's.
    ///
    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn wait_for(&self, sees_keeper: bool) {
        let entry = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut trainer = entry(TRAINER);
        // SAFETY: as above.
        unsafe {
            if sees_keeper {
                let mut both = [trainer, entry(KEEPER)];
                // It may have ended before it was opened, and its number be another's.
                while libc::getppid() == self.keeper && libc::poll(both.as_mut_ptr(), 2, -1) < 0 {}
                if both[0].revents != 0 {
                    return;
                }
                if libc::poll(&mut trainer, 1, HELD_MILLIS) > 0 {
                    return;
                }
                for output in OUTPUTS {
                    libc::close(output);
                }
            }
            while libc::poll(&mut trainer, 1, -1) < 0 {}
        }
    }

    /// Makes a group the terminal's foreground that nobody is in any more. The kernel tells the foreground group of the end of
    /// the session's leader.
    ///
    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn leave_the_foreground(&self) {
        // SAFETY: as above.
        unsafe {
            let terminal = libc::open(c"/dev/tty".as_ptr(), libc::O_RDWR | libc::O_NOCTTY);
            if terminal < 0 {
                return;
            }
            match libc::syscall(libc::SYS_clone, libc::SIGCHLD as libc::c_long, 0, 0, 0, 0) {
                0 => {
                    libc::setpgid(0, 0);
                    libc::tcsetpgrp(terminal, libc::getpid());
                    libc::_exit(0)
                }
                -1 => {}
                child => {
                    libc::waitpid(child as libc::pid_t, std::ptr::null_mut(), 0);
                }
            }
        }
    }

    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn say(&self, kind: i32, number: i32) {
        let message = [kind, number];
        // SAFETY: a write of our own eight bytes, which a pipe takes whole.
        unsafe {
            libc::write(self.report, message.as_ptr().cast(), LENGTH);
        }
    }

    /// # Safety
    /// As [`Child::become_program`].
    unsafe fn fail(&self, step: SpawnStep) -> ! {
        // SAFETY: as above.
        unsafe {
            self.say(step as i32, *libc::__errno_location());
            libc::_exit(127)
        }
    }
}

/// # Safety
/// As [`Child::become_program`].
unsafe fn close_from(first: RawFd) {
    // SAFETY: as above.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) < 0 {
            for fd in first..65_536 {
                libc::close(fd);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_process_is_asked_for_again_while_there_is_none() {
        let tries = |refused: u32, errno: Errno| {
            let (asked, waited) = (Cell::new(0), Cell::new(Duration::ZERO));
            let attempt = || {
                asked.set(asked.get() + 1);
                match asked.get() > refused {
                    true => Ok(()),
                    false => Err(errno),
                }
            };
            let outcome = patiently(attempt, |pause| waited.set(waited.get() + pause));
            (outcome, waited.get())
        };
        assert_eq!(tries(0, Errno::EAGAIN), (Ok(()), Duration::ZERO));
        assert_eq!(tries(3, Errno::EAGAIN), (Ok(()), 3 * PAUSE));
        let in_vain = (Err(Errno::EAGAIN), Duration::from_secs(2));
        assert_eq!(tries(u32::MAX, Errno::EAGAIN), in_vain);
        let other = (Err(Errno::EPERM), Duration::ZERO);
        assert_eq!(tries(u32::MAX, Errno::EPERM), other);
    }

    #[test]
    fn messages_are_read_whole_or_not_at_all() {
        let mut bytes = Vec::new();
        for number in [0, 4711, SpawnStep::Exec as i32, libc::ENOENT] {
            bytes.extend(number.to_ne_bytes());
        }
        let read = |bytes: &[u8]| messages(bytes).collect::<Vec<_>>();
        assert_eq!(
            read(&bytes),
            [
                SpawnMessage::Pid(4711),
                SpawnMessage::Failed(SpawnStep::Exec, libc::ENOENT)
            ]
        );
        assert_eq!(read(&bytes[..12]), [SpawnMessage::Pid(4711)]);
    }
}
