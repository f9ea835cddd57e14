//! Clearing a tree away: who is to get which signal when. Pure: time and tree are arguments.
//!
//! TERM goes to everybody once; after a grace, KILL goes to whoever is there, round after round,
//! for a storm of forks makes new ones between two looks. All of it is bounded: a process in
//! uninterruptible sleep cannot be ended by anybody, and waiting for it would wedge us too.

use super::tree::Process;
use nix::libc::{SIGCONT, SIGKILL, SIGTERM};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Whom a sweep is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SweepScope {
    /// Everybody: the user asked for the end.
    All,
    /// Before a relaunch: ranks, workers and whoever holds a GPU. A daemon that was left on
    /// purpose (an upload, tensorboard) is let finish.
    Training,
}

/// How long to wait between two looks.
const ROUND: Duration = Duration::from_millis(25);

/// A sweep under way.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// Whom it is for.
    pub scope: SweepScope,
    phase: SweepPhase,
    until: Instant,
    next: Instant,
    told: HashSet<(i32, u64)>,
    unkillable: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SweepPhase {
    Asking,
    Killing,
}

/// What one round comes to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Round {
    /// Signals to send.
    pub signals: Vec<(Process, i32)>,
    /// Whether KILL begins with this round.
    pub killing: bool,
    /// Whether the sweep is over: nobody is left, or nobody who can be ended.
    pub over: bool,
}

impl Sweep {
    /// A sweep that asks first.
    pub(crate) fn ask(
        scope: SweepScope,
        now: Instant,
        grace: Duration,
        unkillable: Duration,
    ) -> Sweep {
        Sweep {
            scope,
            phase: SweepPhase::Asking,
            until: now + grace,
            next: now,
            told: HashSet::new(),
            unkillable,
        }
    }

    /// A sweep that kills at once.
    pub(crate) fn kill(scope: SweepScope, now: Instant, unkillable: Duration) -> Sweep {
        Sweep {
            phase: SweepPhase::Killing,
            ..Sweep::ask(scope, now, unkillable, unkillable)
        }
    }

    /// When the next round is due.
    pub(crate) fn due(&self) -> Instant {
        self.next
    }

    /// One round: `targets` are those of the scope that live now.
    pub(crate) fn round(&mut self, now: Instant, targets: Vec<Process>) -> Round {
        let mut round = Round {
            over: targets.is_empty(),
            ..Round::default()
        };
        if now >= self.until {
            match self.phase {
                SweepPhase::Asking => {
                    self.phase = SweepPhase::Killing;
                    self.until = now + self.unkillable;
                    round.killing = !targets.is_empty();
                }
                SweepPhase::Killing => round.over = true,
            }
        }
        self.next = now + ROUND;
        for process in targets {
            match self.phase {
                SweepPhase::Asking => {
                    if self.told.insert((process.pid, process.start)) {
                        // A stopped process takes no TERM before it goes on.
                        round.signals.push((process.clone(), SIGTERM));
                        round.signals.push((process, SIGCONT));
                    }
                }
                SweepPhase::Killing => round.signals.push((process, SIGKILL)),
            }
        }
        round
    }
}

/// Variables by which launchers tell a process that it is a rank.
const RANK_VARIABLES: [&str; 3] = ["LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"];

/// Daemons that a rank may leave behind on purpose; they inherit its variables.
const LEFT_ON_PURPOSE: [&[u8]; 3] = [b"wandb", b"tensorboard", b"mlflow"];

/// Who of a tree is of the training, when what is left of an ended run must make room: holders of
/// a GPU; workers that were forked or spawned by Python's multiprocessing; ranks. `ranked` says
/// whether the command itself was started as a rank, when the variables tell nothing.
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
        // Forked without an exec, as DataLoader's workers are: the same words as the trainer.
        || (!trainer.is_empty() && words == trainer)
        || (is_python
            && !ranked
            && process.has_variable(&RANK_VARIABLES)
            && !LEFT_ON_PURPOSE.iter().any(|daemon| has(daemon)))
}

/// Whether a command with this environment is started as a rank of something larger.
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
            foreground: -1,
            start,
            state: 'S',
            name: "x".into(),
        }
    }

    const GRACE: Duration = Duration::from_secs(5);

    #[test]
    fn each_is_asked_once_then_killed_until_gone() {
        let start = Instant::now();
        let mut sweep = Sweep::ask(SweepScope::All, start, GRACE, GRACE);
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
        let mut sweep = Sweep::kill(SweepScope::All, start, GRACE);
        assert!(!sweep.round(start, vec![process(7, 1)]).over);
        let end = sweep.round(start + GRACE, vec![process(7, 1)]);
        assert!(end.over, "7 is in uninterruptible sleep");
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let start = Instant::now();
        let mut sweep = Sweep::ask(SweepScope::All, start, GRACE, GRACE);
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
