//! Ending a process tree: which process gets which signal when. Pure: time and tree are arguments.
//!
//! Every process gets TERM once. After a grace period all that are left get KILL, round after round,
//! because a fork storm creates new ones in between. It ends in any case: nobody can kill a process
//! in uninterruptible sleep, and waiting for it would hang us too.

use super::tree::Process;
use crate::supervise::KeeperTimeouts;
use nix::libc::{SIGCONT, SIGKILL, SIGTERM};
use std::collections::HashSet;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SweepScope {
    /// All processes: the user asked for the end.
    All,
    /// Before a relaunch: ranks, workers and everything that holds a GPU. A daemon that was left on
    /// purpose (an upload, tensorboard) may finish.
    Training,
}

/// Between two rounds.
const ROUND: Duration = Duration::from_millis(25);

#[derive(Debug)]
pub(crate) struct Sweep {
    pub scope: SweepScope,
    /// KILL is sent, no longer TERM.
    killing: bool,
    until: Instant,
    next: Instant,
    told: HashSet<(i32, u64)>,
    unkillable: Duration,
}

impl Round {
    /// Sends the signals; whether the sweep is over.
    pub fn signal(self) -> bool {
        for (process, signal) in self.signals {
            process.signal(signal);
        }
        self.over
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    pub signals: Vec<(Process, i32)>,
    /// Whether this is the first round of KILL.
    pub killing: bool,
    /// Whether the sweep is over: no process is left, or none that can be ended.
    pub over: bool,
}

impl Sweep {
    /// Begins with TERM.
    pub fn ask(scope: SweepScope, now: Instant, timing: &KeeperTimeouts) -> Sweep {
        Sweep {
            scope,
            killing: false,
            until: now + timing.sweep,
            next: now,
            told: HashSet::new(),
            unkillable: timing.unkillable,
        }
    }

    /// Begins with KILL.
    pub fn kill(scope: SweepScope, now: Instant, timing: &KeeperTimeouts) -> Sweep {
        Sweep {
            killing: true,
            until: now + timing.unkillable,
            ..Sweep::ask(scope, now, timing)
        }
    }

    pub fn due(&self) -> Instant {
        self.next
    }

    /// `targets` are the living processes in the scope.
    pub fn round(&mut self, now: Instant, targets: Vec<Process>) -> Round {
        let mut round = Round {
            over: targets.is_empty(),
            ..Round::default()
        };
        if now >= self.until {
            round.over |= self.killing;
            if !self.killing {
                self.killing = true;
                self.until = now + self.unkillable;
                round.killing = !targets.is_empty();
            }
        }
        self.next = now + ROUND;
        for process in targets {
            if self.killing {
                round.signals.push((process, SIGKILL));
            } else if self.told.insert((process.pid, process.start)) {
                // A stopped process gets no TERM before it continues.
                round.signals.push((process.clone(), SIGTERM));
                round.signals.push((process, SIGCONT));
            }
        }
        round
    }
}

/// Variables by which launchers mark ranks.
const RANK_VARIABLES: [&str; 3] = ["LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"];

/// Daemons that a rank may leave behind on purpose; they inherit its variables.
const LEFT_ON_PURPOSE: [&[u8]; 3] = [b"wandb", b"tensorboard", b"mlflow"];

/// Whether a process that an ended run left belongs to the training: it holds a GPU, was forked or
/// spawned by Python's multiprocessing, or is a rank. `ranked`: the command itself was started as a
/// rank, so that the variables tell nothing.
pub(crate) fn is_of_the_training(process: &Process, ranked: bool, trainer: &[u8]) -> bool {
    let words = process.command_line();
    let has = |needle: &[u8]| words.windows(needle.len()).any(|window| window == needle);
    let is_python = words
        .split(|byte| *byte == 0)
        .next()
        .and_then(|program| program.rsplit(|byte| *byte == b'/').next())
        .is_some_and(|name| name.starts_with(b"python"));
    process.holds_gpu()
        || process.name.starts_with("pt_")
        || has(b"multiprocessing.spawn")
        || has(b"multiprocessing.forkserver")
        || has(b"multiprocessing.resource_tracker")
        // Forked without an exec, as DataLoader's workers are: the same command line as the trainer.
        || (!trainer.is_empty() && words == trainer)
        || (is_python
            && !ranked
            && process.has_variable(&RANK_VARIABLES)
            && !LEFT_ON_PURPOSE.iter().any(|daemon| has(daemon)))
}

/// Whether these variables mark a rank.
pub(crate) fn is_ranked<'a>(mut names: impl Iterator<Item = &'a std::ffi::OsStr>) -> bool {
    names.any(|name| RANK_VARIABLES.iter().any(|rank| name == *rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, start: u64) -> Process {
        Process {
            pid,
            parent: 1,
            group: pid,
            terminal: 0,
            foreground: -1,
            start,
            state: 'S',
            name: "x".into(),
        }
    }

    const GRACE: Duration = Duration::from_secs(5);

    fn timing() -> KeeperTimeouts {
        KeeperTimeouts {
            sweep: GRACE,
            unkillable: GRACE,
            ..KeeperTimeouts::default()
        }
    }

    #[test]
    fn each_is_asked_once_then_killed_until_gone() {
        let start = Instant::now();
        let mut sweep = Sweep::ask(SweepScope::All, start, &timing());
        let first = sweep.round(start, vec![process(7, 1)]);
        assert_eq!(
            first.signals,
            [(process(7, 1), SIGTERM), (process(7, 1), SIGCONT)]
        );
        let second = sweep.round(start + ROUND, vec![process(7, 1), process(8, 2)]);
        assert_eq!(second.signals[0], (process(8, 2), SIGTERM));
        assert_eq!(second.signals.len(), 2, "7 knows already");
        let late = start + GRACE;
        let third = sweep.round(late, vec![process(7, 1)]);
        assert!(third.killing && !third.over);
        assert_eq!(third.signals, [(process(7, 1), SIGKILL)]);
        assert!(sweep.round(late + ROUND, Vec::new()).over);
    }

    #[test]
    fn what_cannot_be_killed_does_not_hold_us_up() {
        let start = Instant::now();
        let mut sweep = Sweep::kill(SweepScope::All, start, &timing());
        assert!(!sweep.round(start, vec![process(7, 1)]).over);
        let end = sweep.round(start + GRACE, vec![process(7, 1)]);
        assert!(end.over, "7 is in uninterruptible sleep");
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let start = Instant::now();
        let mut sweep = Sweep::ask(SweepScope::All, start, &timing());
        sweep.round(start, vec![process(7, 1)]);
        assert_eq!(
            sweep
                .round(start + ROUND, vec![process(7, 9)])
                .signals
                .len(),
            2
        );
    }
}
