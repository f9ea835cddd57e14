//! Signals from outside, and which of them are passed on to the command.
//!
//! A signalfd rather than a handler, because the rules need the sender's PID: a signal from the
//! training's own tree is never sent back to it (sudo's rule). In a SLURM step every process has
//! already been signalled, and passing it on would deliver it twice.

use crate::supervise::Forwarding;
use crate::units::Pid;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use serde::{Deserialize, Serialize};
use std::io;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceivedSignal {
    pub signal: Signal,
    /// `None` if the kernel sent it.
    pub sender: Option<Pid>,
}

/// The signals that the front handles.
pub(crate) struct Signals {
    fd: AsyncFd<SignalFd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalAction {
    /// Pass it on to the training.
    Forward,
    /// The terminal is gone: drop the screen and continue.
    DropScreen,
    /// The terminal is gone: stop the training too.
    Stop,
    /// Read the terminal's new size.
    Resize,
    Ignore,
}

const TAKEN: [Signal; 7] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

impl Signals {
    /// Receives these signals from now on, except those that were ignored when oomph was started (`nohup`,
    /// `&` in sh). Call it before any thread is started, because threads inherit the mask. The keeper gives
    /// the command the original mask.
    pub(crate) fn take(ignored: impl Fn(Signal) -> bool) -> io::Result<Signals> {
        let mut set = SigSet::empty();
        for signal in TAKEN.into_iter().filter(|signal| !ignored(*signal)) {
            set.add(signal);
        }
        set.thread_block()?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        // SAFETY: a `SignalFd` owns its descriptor, which stays the same.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        Ok(Signals {
            fd: fd.map_err(|refused| refused.into_parts().1)?,
        })
    }

    /// The next signal.
    pub(crate) async fn next(&self) -> io::Result<ReceivedSignal> {
        loop {
            let mut ready = self.fd.readable().await?;
            match ready.get_inner().read_signal() {
                Ok(Some(info)) => {
                    if let Ok(signal) = Signal::try_from(info.ssi_signo as i32) {
                        let sender = (info.ssi_pid != 0).then_some(Pid(info.ssi_pid as i32));
                        return Ok(ReceivedSignal { signal, sender });
                    }
                }
                Ok(None) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
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
    pub(crate) fn action(self, signal: Signal, from_training: bool) -> SignalAction {
        match signal {
            Signal::SIGWINCH => SignalAction::Resize,
            Signal::SIGHUP if from_training => SignalAction::DropScreen,
            Signal::SIGHUP => self.hung_up(),
            _ if from_training || !self.forwarding.passes(self.in_slurm_step) => {
                SignalAction::Ignore
            }
            _ => SignalAction::Forward,
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

/// Whether `pid` descends from one of `roots`, by `/proc`.
pub(crate) fn descends_from(pid: Pid, roots: &[Pid]) -> bool {
    let mut pid = pid.0;
    // A deeper tree is a loop from reading /proc while it changes.
    for _ in 0..64 {
        if roots.contains(&Pid(pid)) {
            return true;
        }
        match procfs::process::Process::new(pid).and_then(|process| process.stat()) {
            Ok(stat) if stat.ppid > 1 => pid = stat.ppid,
            _ => return false,
        }
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
            assert_eq!(rules.action(Signal::SIGTERM, true), SignalAction::Ignore);
            assert_eq!(rules.action(Signal::SIGTERM, false), SignalAction::Forward);
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
            assert_eq!(rules.action(Signal::SIGUSR1, false), answer);
            assert_eq!(rules.action(Signal::SIGTERM, false), answer);
        }
    }

    #[test]
    fn the_terminals_own_signals_stay_here() {
        let keep = rules(false, Forwarding::Auto);
        assert_eq!(keep.action(Signal::SIGHUP, false), SignalAction::DropScreen);
        assert_eq!(keep.action(Signal::SIGWINCH, false), SignalAction::Resize);
        let stop = SignalRules {
            on_hup: OnHup::Stop,
            ..keep
        };
        assert_eq!(stop.action(Signal::SIGHUP, false), SignalAction::Stop);
        assert_eq!(stop.action(Signal::SIGHUP, true), SignalAction::DropScreen);
        assert_eq!(stop.hung_up(), SignalAction::Stop);
    }

    #[test]
    fn ancestry_is_read_from_proc() {
        let me = Pid(std::process::id() as i32);
        let parent = Pid(std::os::unix::process::parent_id() as i32);
        assert!(descends_from(me, &[parent]));
        assert!(!descends_from(parent, &[me]));
    }
}
