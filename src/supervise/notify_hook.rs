//! The user's own command that is run beside the training, to tell somebody of it (`--notify`).
//!
//! It may fail, hang, or be written badly: nothing waits for it. It runs below a process of ours (the
//! *hook*), in a session and a process group of its own, so that it gets none of the terminal's keys;
//! whatever is left of it after its time is ended. The hook outlives the front: the news of the end is still
//! told when oomph has exited.

use crate::background::STACK;
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, killpg, signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid as ProcessId;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The first argument that makes this binary a notify hook.
pub const NOTIFY_HOOK_WORD: &str = "__notify";

/// Between SIGTERM and SIGKILL for a command that takes too long.
const GRACE: Duration = Duration::from_secs(2);

/// Between two looks at the command's processes.
const PAUSE: Duration = Duration::from_millis(20);

/// NotifyHooks that run at once; a command that hangs must not fill the machine with its copies.
const MOST: usize = 4;

/// The front's side: starts hooks, and tells of those that went wrong.
pub struct NotifyHooks {
    command: String,
    limit: Duration,
    shared: Arc<HookShare>,
}

struct HookShare {
    running: Mutex<usize>,
    fewer: Condvar,
    /// Told what went wrong, in words, by whatever thread finds it.
    tell: Box<dyn Fn(String) + Send + Sync>,
}

impl HookShare {
    fn running(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NotifyHooks {
    /// Each runs this shell command for at most `limit`; `tell` hears, in words, of each that went wrong.
    pub fn new(
        command: String,
        limit: Duration,
        tell: impl Fn(String) + Send + Sync + 'static,
    ) -> NotifyHooks {
        NotifyHooks {
            command,
            limit,
            shared: Arc::new(HookShare {
                running: Mutex::new(0),
                fewer: Condvar::new(),
                tell: Box::new(tell),
            }),
        }
    }

    /// Starts one with this text on its standard input.
    pub fn start(&self, input: String) {
        let mut running = self.shared.running();
        if *running >= MOST {
            let words = format!("not run: {MOST} earlier ones have not ended yet");
            return (self.shared.tell)(words);
        }
        let (command, limit, shared) = (self.command.clone(), self.limit, self.shared.clone());
        // In a thread: starting a process waits for the disk that the program is on.
        let thread = std::thread::Builder::new()
            .name("notify-hook".into())
            .stack_size(STACK)
            .spawn(move || {
                if let Some(problem) = run(&command, limit, &input) {
                    (shared.tell)(problem);
                }
                *shared.running() -= 1;
                shared.fewer.notify_all();
            });
        match thread {
            Ok(_) => *running += 1,
            Err(error) => (self.shared.tell)(error.to_string()),
        }
    }

    /// Waits until all have ended, for at most `patience`.
    pub fn wait(&self, patience: Duration) {
        let run = |running: &mut usize| *running > 0;
        let _ = (self.shared.fewer).wait_timeout_while(self.shared.running(), patience, run);
    }
}

/// Runs the hook's process and waits for it; returns what went wrong, in words.
fn run(command: &str, limit: Duration, input: &str) -> Option<String> {
    let run = || -> io::Result<String> {
        let mut child = start(command, limit)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that doesn't read it is no failure.
            let _ = stdin.write_all(input.as_bytes());
        }
        let mut words = String::new();
        if let Some(mut stdout) = child.stdout.take() {
            stdout.read_to_string(&mut words)?;
        }
        // As process 1 we aren't told how it ended.
        let _ = child.wait();
        Ok(words)
    };
    match run() {
        Ok(words) => (!words.is_empty()).then_some(words),
        Err(error) => Some(format!("cannot be started: {error}")),
    }
}

fn start(command: &str, limit: Duration) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("oomph")
        .arg(NOTIFY_HOOK_WORD)
        .arg(limit.as_millis().to_string())
        .arg(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// The hook's process: runs the shell command with its own standard input, ends what takes too long,
/// and says on standard output what went wrong. Never fails by itself.
pub fn notify_hook(words: &[OsString]) -> ExitCode {
    let word = |at: usize| words.get(at).and_then(|word| word.to_str());
    let limit = word(0).and_then(|text| text.parse().ok());
    if let (Some(limit), Some(command)) = (limit.map(Duration::from_millis), word(1)) {
        let _ = leave_the_front();
        if let Some(problem) = follow(command, limit) {
            // The front may have exited.
            let _ = io::stdout().write_all(problem.as_bytes());
        }
    }
    ExitCode::SUCCESS
}

/// Leaves the front's session, signal mask and files.
fn leave_the_front() -> nix::Result<()> {
    // SAFETY: nothing in this process has opened a descriptor above 2; they are the user's, inherited
    // by the front, and somebody may wait until the training's processes have closed them.
    unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
    nix::unistd::setsid()?;
    // As process 1 the front lets the kernel reap.
    // SAFETY: no handler.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }?;
    // What leaves the command's group is still below this process.
    nix::sys::prctl::set_child_subreaper(true)?;
    nix::sys::signal::sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

/// Runs the command to its end or to its limit; returns what went wrong, in words.
fn follow(command: &str, limit: Duration) -> Option<String> {
    let deadline = Instant::now() + limit;
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command);
    shell.stdout(Stdio::null()).stderr(Stdio::null());
    shell.process_group(0);
    // The training's directory may have files that the command would take for its own: `python3 -c`
    // imports from there.
    let home = std::env::var_os("HOME").filter(|home| std::path::Path::new(home).is_dir());
    shell.current_dir(home.unwrap_or_else(|| "/".into()));
    let group = match shell.spawn() {
        Ok(shell) => ProcessId::from_raw(shell.id() as i32),
        Err(error) => return Some(format!("/bin/sh: {error}")),
    };
    let mut ended = None;
    if settles(group, deadline, &mut ended) {
        return ended.and_then(failure);
    }
    let _ = killpg(group, Signal::SIGTERM);
    if !settles(group, Instant::now() + GRACE, &mut ended) {
        let _ = killpg(group, Signal::SIGKILL);
        settles(group, Instant::now() + GRACE, &mut ended);
    }
    Some(format!(
        "took longer than {} s and was ended",
        limit.as_secs()
    ))
}

/// Waits until no process of the group is left; whether that was before `deadline`. Keeps how its first
/// process ended.
fn settles(group: ProcessId, deadline: Instant, ended: &mut Option<WaitStatus>) -> bool {
    loop {
        // Those whose parent has ended are this process's children too.
        let of_group = ProcessId::from_raw(-group.as_raw());
        while let Ok(status) = waitpid(of_group, Some(WaitPidFlag::WNOHANG)) {
            match status.pid() {
                Some(pid) if pid == group => *ended = Some(status),
                Some(_) => {}
                None => break,
            }
        }
        if ended.is_some() && killpg(group, None) == Err(Errno::ESRCH) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}

fn failure(ended: WaitStatus) -> Option<String> {
    match ended {
        WaitStatus::Exited(_, 0) => None,
        WaitStatus::Exited(_, 127) => Some("ended with exit 127: a program was not found".into()),
        WaitStatus::Exited(_, code) => Some(format!("ended with exit {code}")),
        WaitStatus::Signaled(_, signal, _) => Some(format!("was ended by {signal}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::mpsc::{TryRecvError, channel};

    // Not `run` and `start`: the test's own binary is no hook.

    #[test]
    fn a_failure_is_said_in_words() {
        let limit = Duration::from_secs(60);
        assert_eq!(follow("exit 0", limit), None);
        assert_eq!(follow("exit 7", limit).unwrap(), "ended with exit 7");
        let missing = follow("no-such-program-here", limit).unwrap();
        assert!(missing.contains("not found"), "{missing}");
        assert_eq!(follow("kill -9 $$", limit).unwrap(), "was ended by SIGKILL");
    }

    #[test]
    fn what_takes_too_long_is_ended_with_its_children() {
        let place = tempfile::tempdir().unwrap();
        let pids = place.path().join("pids");
        let command = format!(
            "trap '' TERM; sleep 600 & echo $! > {0}; echo $$ >> {0}; wait; sleep 600",
            pids.display()
        );
        let began = Instant::now();
        let words = follow(&command, Duration::from_millis(300)).unwrap();
        assert!(words.contains("took longer"), "{words}");
        assert!(began.elapsed() < Duration::from_secs(30));
        for pid in fs::read_to_string(pids).unwrap().lines() {
            let pid = ProcessId::from_raw(pid.parse().unwrap());
            let gone = |pid| nix::sys::signal::kill(pid, None) == Err(Errno::ESRCH);
            // A child of the ended shell is reaped by whoever adopts it.
            while !gone(pid) && !is_zombie(pid) {
                assert!(began.elapsed() < Duration::from_secs(60), "{pid} lives");
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn is_zombie(pid: ProcessId) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'))
    }

    #[test]
    fn no_more_than_a_few_at_once() {
        let (tell, told) = channel();
        let hooks = NotifyHooks::new("true".into(), Duration::from_secs(1), move |words| {
            tell.send(words).unwrap();
        });
        *hooks.shared.running() = MOST;
        hooks.start(String::new());
        let problem = told.try_recv().unwrap();
        assert!(problem.contains("not run"), "{problem}");
        assert_eq!(told.try_recv(), Err(TryRecvError::Empty));
        hooks.wait(Duration::ZERO);
    }
}
