//! Signals from outside, and which of them are passed on to the command.
//!
//! A signalfd rather than a handler, because the rules need the sender's PID: a signal from the
//! training's own tree is never sent back to it (sudo's rule). In a SLURM step every process has
//! already been signalled, and passing it on would deliver it twice.

use super::display::screen::terminal_size;
use crate::supervise::{self, Forwarding, Sender, SentSignal};
use crate::units::Pid;
use nix::libc;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, killpg, raise, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{getpgid, getpgrp, getppid, getsid};
use procfs::process::Process;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceivedSignal {
    pub sent: SentSignal,
    pub sender: Sender,
    /// Whether it tells that the terminal is gone: the kernel says so, or a shell that has heard it passes it on. Any other
    /// SIGHUP is somebody's word to the training ("read your settings again").
    pub is_hang_up: bool,
}

/// Where a signal came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalOrigin {
    /// The training itself.
    Training,
    /// A terminal that is gone.
    HangUp,
    /// Somebody else, or a key.
    Elsewhere,
}

impl ReceivedSignal {
    pub(crate) fn is(self, signal: Signal) -> bool {
        self.sent.number() == signal as i32
    }

    /// Whether it tells of a change of our terminal's size: without a terminal others mean the training.
    pub(crate) fn is_of_the_terminal(self) -> bool {
        self.is(Signal::SIGWINCH) && (self.sender == Sender::Kernel || terminal_size().is_some())
    }

    /// Where it came from, if `is_of_the_training` says what a process is.
    pub(crate) fn origin(self, is_of_the_training: impl FnOnce(Pid) -> bool) -> SignalOrigin {
        match self.sender {
            Sender::Process(sender) if is_of_the_training(sender) => SignalOrigin::Training,
            Sender::Process(_) | Sender::Kernel if self.is_hang_up => SignalOrigin::HangUp,
            Sender::Process(_) | Sender::Kernel => SignalOrigin::Elsewhere,
        }
    }

    /// Whether the keeper has woken this process, which was stopped.
    pub(crate) fn is_wake_up(self, keeper: Pid) -> bool {
        self.is(Signal::SIGCONT) && self.sender == Sender::Process(keeper)
    }

    /// Whether a key at the terminal sent it.
    pub(crate) fn is_from_keyboard(self) -> bool {
        self.sender == Sender::Kernel
    }
}

/// A signal's name.
pub(crate) fn name_of(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(signal) => signal.to_string(),
        Err(_) => format!("SIGRTMIN+{}", number - libc::SIGRTMIN()),
    }
}

/// The signals that the front handles.
pub(crate) struct Signals {
    fd: AsyncFd<SignalFd>,
    /// The processes that this one was started by, if it has a terminal: its shell is among them.
    above: Vec<Pid>,
    /// One that is not told before this time.
    held: Cell<Option<(ReceivedSignal, Instant)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalAction {
    /// Pass it on to the training.
    Forward,
    /// The terminal is gone: drop the screen and continue.
    DropScreen,
    /// The terminal is gone: stop the training too.
    Stop,
    Ignore,
}

impl Signals {
    /// Receives signals from now on that are meant for the training, and the terminal's resizes, except
    /// those that were ignored when oomph was started (`nohup`, `&` in sh). Call it before any thread is
    /// started, because threads inherit the mask. The keeper gives the command the original mask.
    pub(crate) fn take(ignored: impl Fn(i32) -> bool) -> io::Result<Signals> {
        let taken = |number: &i32| *number == libc::SIGWINCH || supervise::is_passed_on(*number);
        // SAFETY: a zeroed set is one that sigemptyset may fill; sigaddset works on it.
        let set = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for number in (1..=libc::SIGRTMAX()).filter(taken) {
                if !ignored(number) {
                    libc::sigaddset(&mut set, number);
                }
            }
            SigSet::from_sigset_t_unchecked(set)
        };
        set.thread_block()?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        // SAFETY: a `SignalFd` owns its descriptor, which stays the same.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        Ok(Signals {
            fd: fd.map_err(|refused| refused.into_parts().1)?,
            above: match File::open("/dev/tty") {
                Ok(_) => ancestors(),
                Err(_) => Vec::new(),
            },
            held: Cell::new(None),
        })
    }

    /// The next signal that is not about this process itself. Whoever waits for it may wait for something else in between.
    pub(crate) async fn next(&self) -> io::Result<ReceivedSignal> {
        let (next, until) = match self.held.get() {
            Some(held) => held,
            None => {
                let next = self.read().await?;
                if !next.sender.is_service_manager() {
                    return Ok(next);
                }
                (next, Instant::now() + TO_EACH_PROCESS)
            }
        };
        self.held.set(Some((next, until)));
        tokio::time::sleep_until(until).await;
        self.held.set(None);
        Ok(next)
    }

    async fn read(&self) -> io::Result<ReceivedSignal> {
        let own = Pid(std::process::id() as i32);
        loop {
            let mut ready = self.fd.readable().await?;
            match ready.get_inner().read_signal() {
                Ok(Some(info)) => {
                    let (sent, sender) = SentSignal::read(&info);
                    if supervise::is_meant(sent.number(), sender, own) {
                        let is_from_above = match sender {
                            Sender::Kernel => true,
                            Sender::Process(sender) => self.above.contains(&sender),
                        };
                        return Ok(ReceivedSignal {
                            sent,
                            sender,
                            is_hang_up: sent.number() == libc::SIGHUP && is_from_above,
                        });
                    }
                }
                Ok(None) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// How long who stops a unit takes for all of its processes. The keeper knows by then whether it is one of them, and that the
/// training so has the signal already.
const TO_EACH_PROCESS: Duration = Duration::from_millis(100);

/// While it is held, no handler hears that the terminal has another size; who draws looks at the size instead. crossterm, which
/// reads the keys, would lose the first key after that signal: where both are there at once it takes the signal, and is not
/// told of the key again.
pub(crate) struct HeldResizes {
    before: SigSet,
}

impl HeldResizes {
    /// To be called before any thread is started, because threads inherit the mask.
    ///
    /// # Errors
    /// The mask could not be changed.
    pub(crate) fn hold() -> io::Result<HeldResizes> {
        let resizes = SigSet::from(Signal::SIGWINCH);
        let before = resizes.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(HeldResizes { before })
    }
}

impl Drop for HeldResizes {
    fn drop(&mut self) {
        // What is started in the place of this process is to hear it again.
        let _ = self.before.thread_set_mask();
    }
}

/// What to do with the training when the terminal hangs up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum, Default)]
#[serde(rename_all = "snake_case")]
pub enum OnHup {
    /// Training continues without a screen.
    #[default]
    Keep,
    /// The training is stopped.
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SignalRules {
    /// We are a task of an `srun` step, of which slurmstepd signals every process.
    pub in_slurm_step: bool,
    pub forwarding: Forwarding,
    pub on_hup: OnHup,
}

impl SignalRules {
    pub(crate) fn action(self, signal: i32, origin: SignalOrigin) -> SignalAction {
        let is_passed = self.forwarding.passes(self.in_slurm_step);
        match (signal, origin) {
            (libc::SIGHUP, SignalOrigin::Training) => SignalAction::DropScreen,
            (libc::SIGHUP, SignalOrigin::HangUp) => self.hung_up(),
            (libc::SIGHUP, SignalOrigin::Elsewhere) if self.on_hup == OnHup::Stop => {
                SignalAction::Stop
            }
            (_, SignalOrigin::Training) => SignalAction::Ignore,
            (_, SignalOrigin::HangUp | SignalOrigin::Elsewhere) if is_passed => {
                SignalAction::Forward
            }
            (_, SignalOrigin::HangUp | SignalOrigin::Elsewhere) => SignalAction::Ignore,
        }
    }

    /// What to do when the terminal hangs up, with or without a SIGHUP.
    pub(crate) fn hung_up(self) -> SignalAction {
        match self.on_hup {
            OnHup::Keep => SignalAction::DropScreen,
            OnHup::Stop => SignalAction::Stop,
        }
    }
}

/// The parent of this process, and theirs, in this PID namespace; 0 stands for one in another.
fn ancestors() -> Vec<Pid> {
    let mut found = Vec::new();
    let mut ancestor = getppid().as_raw();
    while !found.contains(&Pid(ancestor)) {
        found.push(Pid(ancestor));
        match Process::new(ancestor).and_then(|process| process.stat()) {
            Ok(stat) => ancestor = stat.ppid,
            Err(_) => break,
        }
    }
    found.push(Pid(0));
    found
}

/// Whether `pid` descends from one of `roots`, by `/proc`.
pub(crate) fn descends_from(pid: Pid, roots: &[Pid]) -> bool {
    let mut pid = pid.0;
    // A deeper tree is a loop from reading /proc while it changes.
    for _ in 0..64 {
        if roots.contains(&Pid(pid)) {
            return true;
        }
        match Process::new(pid).and_then(|process| process.stat()) {
            Ok(stat) if stat.ppid > 1 => pid = stat.ppid,
            _ => return false,
        }
    }
    false
}

/// Ctrl-Z as the terminal would send it, to every process of the job: where a script started oomph and
/// only oomph stopped, the shell would go on waiting for a job that never stops, with a terminal that
/// nobody reads. Stops the job, and returns once it was resumed. The others are stopped first, and this process by a signal to this thread:
/// that has stopped it when the call returns, whichever thread would take one to the process.
pub(crate) fn suspend() {
    // SAFETY: no handler is installed, and what was set before is set again.
    let before = unsafe { signal(Signal::SIGTSTP, SigHandler::SigIgn) };
    let _ = killpg(getpgrp(), Signal::SIGTSTP);
    if let Ok(before) = before {
        // SAFETY: it was set before.
        let _ = unsafe { signal(Signal::SIGTSTP, before) };
    }
    let _ = raise(Signal::SIGTSTP);
}

/// Whether a shell could resume the job: whether an ancestor outside it has the same terminal. Else it is
/// what POSIX calls an orphaned process group, as where the terminal is oomph's own (`ssh -t HOST oomph …`,
/// `docker run -it`, a new window of tmux), and the kernel discards the signal.
pub(crate) fn has_shell() -> bool {
    let Ok(session) = getsid(None) else {
        return false;
    };
    let mut ancestor = getppid();
    // Its parent may be in another PID namespace.
    while ancestor.as_raw() > 0 && getsid(Some(ancestor)) == Ok(session) {
        if getpgid(Some(ancestor)) != Ok(getpgrp()) {
            return true;
        }
        let stat = Process::new(ancestor.as_raw()).and_then(|process| process.stat());
        let Ok(stat) = stat else {
            return false;
        };
        ancestor = nix::unistd::Pid::from_raw(stat.ppid);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(in_slurm_step: bool, forwarding: Forwarding) -> SignalRules {
        SignalRules {
            in_slurm_step,
            forwarding,
            on_hup: OnHup::Keep,
        }
    }

    #[test]
    fn what_the_training_sent_is_not_sent_back() {
        for forwarding in [Forwarding::Auto, Forwarding::Always] {
            let rules = rules(false, forwarding);
            assert_eq!(
                rules.action(libc::SIGTERM, SignalOrigin::Training),
                SignalAction::Ignore
            );
            assert_eq!(
                rules.action(libc::SIGTERM, SignalOrigin::Elsewhere),
                SignalAction::Forward
            );
        }
    }

    #[test]
    fn a_slurm_step_has_signalled_everybody_already() {
        use SignalAction::{Forward, Ignore};
        for (in_step, forwarding, answer) in [
            (true, Forwarding::Auto, Ignore),
            (false, Forwarding::Auto, Forward),
            (true, Forwarding::Always, Forward),
            (false, Forwarding::Never, Ignore),
        ] {
            let rules = rules(in_step, forwarding);
            assert_eq!(rules.action(libc::SIGUSR1, SignalOrigin::Elsewhere), answer);
            assert_eq!(rules.action(libc::SIGTERM, SignalOrigin::Elsewhere), answer);
        }
    }

    #[test]
    fn the_terminals_own_signals_stay_here() {
        let keep = rules(false, Forwarding::Auto);
        let hung_up = (libc::SIGHUP, SignalOrigin::HangUp);
        let act = |rules: SignalRules, (signal, origin)| rules.action(signal, origin);
        assert_eq!(act(keep, hung_up), SignalAction::DropScreen);
        let stop = SignalRules {
            on_hup: OnHup::Stop,
            ..keep
        };
        assert_eq!(act(stop, hung_up), SignalAction::Stop);
        let of_the_training = (libc::SIGHUP, SignalOrigin::Training);
        assert_eq!(act(stop, of_the_training), SignalAction::DropScreen);
        // Somebody else's word is the training's.
        let word = (libc::SIGHUP, SignalOrigin::Elsewhere);
        assert_eq!(act(keep, word), SignalAction::Forward);
        assert_eq!(act(stop, word), SignalAction::Stop);
        assert_eq!(
            act(rules(true, Forwarding::Auto), word),
            SignalAction::Ignore
        );
        assert_eq!(stop.hung_up(), SignalAction::Stop);
    }

    #[test]
    fn where_a_signal_came_from() {
        let shell = Sender::Process(Pid(7));
        let of = |sender, is_hang_up| {
            let received = ReceivedSignal {
                sent: libc::SIGHUP.into(),
                sender,
                is_hang_up,
            };
            received.origin(|pid| pid == Pid(100))
        };
        assert_eq!(of(Sender::Kernel, true), SignalOrigin::HangUp);
        assert_eq!(of(shell, true), SignalOrigin::HangUp);
        assert_eq!(of(shell, false), SignalOrigin::Elsewhere);
        assert_eq!(of(Sender::Process(Pid(100)), false), SignalOrigin::Training);
    }

    #[test]
    fn ancestry_is_read_from_proc() {
        assert!(ancestors().contains(&Pid(std::os::unix::process::parent_id() as i32)));
        let me = Pid(std::process::id() as i32);
        let parent = Pid(std::os::unix::process::parent_id() as i32);
        assert!(descends_from(me, &[parent]));
        assert!(!descends_from(parent, &[me]));
    }
}
