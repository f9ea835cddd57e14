//! Ending a run: from SIGTERM to SIGKILL, and which processes belong to it.

use super::KeeperLoop;
use crate::supervise::keeper::run::{Stage, Stop, TrainerRun};
use crate::supervise::keeper::sweep::{self, Sweep, SweepScope};
use crate::supervise::keeper::tree::{self, Process};
use crate::supervise::{KeeperReport, Rung};
use crate::units::Pid;
use nix::libc;
use std::time::Instant;

/// The most processes that are named in one line.
const NAMED: usize = 5;

impl KeeperLoop {
    pub(super) fn stop(&mut self) {
        let now = Instant::now();
        let timing = self.hello.timing;
        let Some(run) = self.runs.last_mut() else {
            self.swept = Some(Vec::new());
            return;
        };
        run.limit_readers(now + timing.stop);
        match (&run.stage, run.stop) {
            // One TERM: a second would disturb a launcher in its own shutdown.
            (_, Some(Stop::Asked(_) | Stop::Sweeping)) => {}
            (Stage::Starting { .. }, _) => run.stop = Some(Stop::Asked(now)),
            (Stage::Running(pid), _) => {
                tree::kill(*pid, libc::SIGTERM);
                // A stopped process gets no TERM before it continues.
                tree::kill(*pid, libc::SIGCONT);
                run.forwarded.push(libc::SIGTERM);
                run.stop = Some(Stop::Asked(now + timing.stop));
                self.fanout.report(KeeperReport::Stopping {
                    rung: Rung::Asked,
                    within: timing.stop,
                });
            }
            (Stage::Draining { .. } | Stage::Over, _) => self.begin_sweep(SweepScope::All),
        }
    }

    pub(super) fn kill(&mut self) {
        let timing = &self.hello.timing;
        self.sweep = Some(Sweep::kill(SweepScope::All, Instant::now(), timing));
        if let Some(run) = self.runs.last_mut() {
            run.limit_readers(Instant::now() + timing.unkillable);
            run.stop = Some(Stop::Sweeping);
        }
        self.fanout.report(KeeperReport::Stopping {
            rung: Rung::Killed,
            within: timing.unkillable,
        });
    }

    pub(super) fn begin_sweep(&mut self, scope: SweepScope) {
        if let Some(run) = self.runs.last_mut()
            && scope == SweepScope::All
        {
            run.stop = Some(Stop::Sweeping);
        }
        self.sweep = Some(Sweep::ask(scope, Instant::now(), &self.hello.timing));
    }

    pub(super) fn sweep_leftovers(&mut self) {
        match self.runs.last().and_then(TrainerRun::pid) {
            Some(pid) => {
                self.fanout
                    .note("the program is still running; nothing was cleaned up".into());
                self.fanout.report(KeeperReport::Swept {
                    left: vec![Pid(pid)],
                });
            }
            // A stop in progress ends more than this would.
            None if self.sweep.is_some() => {}
            None => self.begin_sweep(SweepScope::Training),
        }
    }

    pub(super) fn act_on_stop(&mut self, now: Instant) {
        let Some(run) = self.runs.last() else {
            return;
        };
        if let Some(Stop::Asked(until)) = run.stop {
            let gone = matches!(run.stage, Stage::Draining { .. } | Stage::Over);
            if gone || (run.pid().is_some() && until <= now) {
                if !gone {
                    self.fanout.report(KeeperReport::Stopping {
                        rung: Rung::TreeAsked,
                        within: self.hello.timing.sweep,
                    });
                }
                self.begin_sweep(SweepScope::All);
            }
        }
    }

    pub(super) fn act_on_sweep(&mut self, now: Instant) {
        let Some(scope) = self
            .sweep
            .as_ref()
            .filter(|sweep| sweep.due() <= now)
            .map(|sweep| sweep.scope)
        else {
            return;
        };
        let living = self.tree();
        let (targets, others): (Vec<Process>, Vec<Process>) =
            living.into_iter().partition(|process| {
                process.is_ours()
                    && match (scope, self.runs.last()) {
                        (SweepScope::All, _) | (_, None) => true,
                        (SweepScope::Training, Some(run)) => {
                            sweep::is_of_the_training(process, run.ranked, &run.words)
                        }
                    }
            });
        let Some(sweep) = &mut self.sweep else {
            return;
        };
        let round = sweep.round(now, targets.clone());
        if round.killing {
            self.fanout.report(KeeperReport::Stopping {
                rung: Rung::Killed,
                within: self.hello.timing.unkillable,
            });
        }
        if round.signal() {
            for process in &targets {
                self.fanout.note(unkillable(process));
            }
            self.sweep = None;
            if !others.is_empty() {
                let names: Vec<String> = others
                    .iter()
                    .take(NAMED)
                    .map(|process| format!("{} ({})", process.pid, process.name))
                    .collect();
                let more = if others.len() > NAMED { ", …" } else { "" };
                (self.fanout).note(format!("left to finish: {}{more}", names.join(", ")));
            }
            self.swept = Some(targets);
            if let Some(run) = self.runs.last_mut()
                && run.stop.is_some()
            {
                run.stop = Some(Stop::Swept);
            }
        }
    }

    pub(super) fn tell_swept(&mut self) {
        // Report the run's end first, unless its process can't be ended.
        let draining = matches!(
            self.runs.last().map(|run| &run.stage),
            Some(Stage::Draining { .. } | Stage::Starting { .. })
        );
        if !draining && let Some(left) = self.swept.take() {
            self.fanout.report(KeeperReport::Swept {
                left: left.iter().map(|process| Pid(process.pid)).collect(),
            });
        }
    }

    /// The living processes below us that aren't older than the run: an upload that an earlier run left
    /// isn't part of it.
    pub(super) fn below(&self, since: u64) -> Vec<Process> {
        let me = std::process::id() as i32;
        let all = tree::below(me, &self.holders);
        let mut strangers: Vec<i32> = Vec::new();
        all.into_iter()
            .filter(|process| {
                let older = process.start < since || strangers.contains(&process.parent);
                if older {
                    strangers.push(process.pid);
                }
                !older
            })
            .collect()
    }

    pub(super) fn tree(&self) -> Vec<Process> {
        self.below(self.runs.last().map_or(0, |run| run.since))
    }
}

fn unkillable(process: &Process) -> String {
    let now = Process::look(process.pid);
    let Process {
        pid, name, state, ..
    } = now.as_ref().unwrap_or(process);
    match state {
        'D' => format!(
            "process {pid} ({name}) cannot be killed: it is in uninterruptible sleep (D), in a driver or on a file system; the host may need a reboot"
        ),
        _ => format!("process {pid} ({name}) did not end after SIGKILL (state {state})"),
    }
}
