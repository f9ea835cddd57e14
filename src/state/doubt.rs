//! Whether an OOM ended its run. It may only have been read in the output: quoted from an older log, or followed by a training
//! that went well. Or the exit status does not show it: a pipe into `tee` has that of tee, and a script goes on after a
//! program that failed.

use crate::event::Exit;
use crate::oom::OomOutcome;
use crate::state::{OomIncident, RankState, Run, RunOutcome};
use std::time::Duration;

/// A process that goes on for longer after an OOM was not ended by it. It unwinds, prints its
/// traceback, and is rehearsed.
const UNWINDS: Duration = Duration::from_secs(10);

/// The allocator whose OOMs the probe always sees.
const WATCHED_BACKEND: &str = "native";

/// Steps of others that may still end after an OOM: those that were under way.
const UNDER_WAY: usize = 1;

/// Statuses, as a shell has them, that nobody has for lack of memory: a limit of time, a program that can't be run or isn't
/// there, and the signals that people, terminals, timers and closed pipes send (HUP, INT, QUIT, PIPE, ALRM, TERM).
const OF_ANOTHER_END: [i32; 9] = [124, 126, 127, 129, 130, 131, 141, 142, 143];

/// Why an OOM is not taken for what ended a run that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// Training went on after it.
    WentOn,
    /// A message of one was read, and the probe saw none.
    Unseen,
    /// Its process lived on, and was killed later.
    KilledLater,
    /// Only the output has it, and the program's last error is another one.
    AnotherError,
    /// Only the output has it, and the exit status is none of an OOM.
    AnotherStatus,
}

impl RankState {
    /// Whether its probe records every OOM of PyTorch's allocator.
    fn is_watched(&self) -> bool {
        self.hello.resting.is_none() && self.hello.backend.as_deref() == Some(WATCHED_BACKEND)
    }

    fn steps_since(&self, oom: &OomIncident) -> usize {
        let steps = self.steps.recent.iter();
        steps.filter(|(at, _)| *at > oom.at).count()
    }
}

impl Run {
    /// Why an OOM that was not caught does not count as the end of a run that failed, if it does not.
    pub(super) fn doubt(&self, oom: &OomIncident) -> Option<Doubt> {
        let told = [
            (self.went_on_after(oom), Doubt::WentOn),
            // What its process has said of its end is no matter of the rest.
            (
                !self.is_end_of_process(oom) && self.is_hearsay(oom),
                Doubt::Unseen,
            ),
            (
                !self.is_end_of_process(oom) && self.was_killed_later(oom),
                Doubt::KilledLater,
            ),
            (self.failed_otherwise(oom), Doubt::AnotherError),
            (self.has_another_status(oom), Doubt::AnotherStatus),
        ];
        told.into_iter()
            .find(|(is_so, _)| *is_so)
            .map(|(_, doubt)| doubt)
    }

    /// The latest OOM that was not caught and did not count.
    fn doubtful_oom(&self) -> Option<(&OomIncident, Doubt)> {
        let oom = self.ooms.iter().rev().find(|oom| !oom.caught)?;
        Some((oom, self.doubt(oom)?))
    }

    /// Whether training went on after it: in a process that began later (a launcher or a script has
    /// started it again), or, where nobody knows whose it was, in any.
    fn went_on_after(&self, oom: &OomIncident) -> bool {
        let is_unclaimed = oom.record.is_none() && oom.pid.is_none() && oom.rank.is_none();
        self.ranks.iter().any(|rank| {
            let steps = rank.steps_since(oom);
            let is_later = rank.joined > oom.at && steps > 0;
            is_later || (is_unclaimed && steps > UNDER_WAY)
        })
    }

    /// Whether it was only read, of an allocator that every process of the run is watched for.
    fn is_hearsay(&self, oom: &OomIncident) -> bool {
        let is_of_the_allocator = |report: &crate::oom::OomReport| report.kind.spec().probed;
        oom.record.is_none()
            && oom.report.as_ref().is_some_and(is_of_the_allocator)
            && !self.ranks.is_empty()
            && self.ranks.iter().all(RankState::is_watched)
            && !self.ranks.iter().any(|rank| rank.ended_by_oom)
    }

    /// Whether nothing but the output has it, of a run whose last error is another one. Where a rank's failure had
    /// consequences, these are the last.
    fn failed_otherwise(&self, oom: &OomIncident) -> bool {
        self.is_only_text(oom) && self.has_another_error
    }

    /// Whether nothing but the output has it, and what ended the program is no error of its own: it was not found, was
    /// interrupted, or ran into a limit of time.
    fn has_another_status(&self, oom: &OomIncident) -> bool {
        let status = self.ended.map(|(_, exit)| exit.shell_code());
        // Who stops a run that hangs behind an OOM has not ended it.
        let is_one = status.is_some_and(|status| OF_ANOTHER_END.contains(&status));
        is_one && self.stopped().is_none() && self.is_only_text(oom)
    }

    /// Whether nothing but the output has it: no probe, no kernel, no rank, nor what others print where a rank fails.
    fn is_only_text(&self, oom: &OomIncident) -> bool {
        oom.record.is_none()
            && oom.report.is_some()
            && oom.rank.is_none()
            && oom.kill().is_none()
            && !self.is_end_of_process(oom)
            && self.consequences.is_empty()
    }

    /// Whether more than a text speaks for an OOM, or the text alone for itself: it is no shell's "Killed", and the run has
    /// ended with it. A log may be shown, or two programs write into one file. What nobody is asked about needs no less.
    pub fn is_borne_out(&self, oom: &OomIncident) -> bool {
        let ended_with_it = || {
            let ended = self.ended.map(|(ended, _)| ended);
            ended.is_none_or(|ended| ended.since(oom.at) <= UNWINDS)
        };
        !oom.is_hearsay() && (!self.is_only_text(oom) || ended_with_it())
    }

    /// Whether its process lived on, and somebody has killed the run since. (One that nobody killed may
    /// have saved a checkpoint before it failed.)
    fn was_killed_later(&self, oom: &OomIncident) -> bool {
        let Some((ended, Exit::Signal(_))) = self.ended else {
            return false;
        };
        let process = oom.pid.and_then(|pid| self.rank_with(pid));
        self.stopped().is_none()
            && process
                .is_some_and(|rank| rank.disconnected.unwrap_or(ended).since(oom.at) > UNWINDS)
    }
}

// An OOM that the command's exit status does not show: `python train.py | tee log` has tee's, and a
// script goes on after a program that failed.

/// An OOM of a run whose outcome does not show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HiddenOom<'a> {
    /// It ended its process, and no other process has trained since.
    Fatal(&'a OomIncident),
    /// It may have: its process ended soon after it, or trained no more.
    Possible(&'a OomIncident),
    /// The run failed, and one is in its output, or was followed by a training that went well: it is not
    /// taken for the end.
    Doubtful(&'a OomIncident, Doubt),
}

impl<'a> HiddenOom<'a> {
    pub fn incident(self) -> &'a OomIncident {
        match self {
            HiddenOom::Fatal(oom) | HiddenOom::Possible(oom) | HiddenOom::Doubtful(oom, _) => oom,
        }
    }
}

impl Run {
    /// The OOM that the outcome does not show, if there is one.
    pub fn hidden_oom(&self) -> Option<HiddenOom<'_>> {
        if let RunOutcome::Failed(_) = self.outcome() {
            let doubtful = self.doubtful_oom();
            return doubtful.map(|(oom, doubt)| HiddenOom::Doubtful(oom, doubt));
        }
        if !self.ended.is_some_and(|(_, exit)| exit.is_success()) {
            return None;
        }
        if let Some(oom) = self.oom() {
            let stepped =
                |rank: &crate::state::RankState| rank.steps.last.as_ref().map(|(at, _)| *at);
            return Some(match self.ranks.iter().filter_map(stepped).max() {
                // A launcher has started it again, or the script's next program trains.
                Some(last) if last > oom.at => HiddenOom::Possible(oom),
                Some(_) | None => HiddenOom::Fatal(oom),
            });
        }
        let may_have_ended = |oom: &&OomIncident| !oom.caught && !self.outlived(oom);
        self.ooms
            .iter()
            .rev()
            .find(may_have_ended)
            .map(HiddenOom::Possible)
    }

    /// Whether an OOM has ended it though its command ended with success.
    pub fn is_hidden_failure(&self) -> bool {
        matches!(self.hidden_oom(), Some(HiddenOom::Fatal(_)))
    }

    /// The outcome for display.
    pub fn outcome_words(&self) -> String {
        match self.is_hidden_failure() {
            true => "OOM, exit 0".into(),
            false if self.outcome() == RunOutcome::OutOfMemory => {
                format!("out of {}", self.what_ran_out())
            }
            false if self.ended.is_some() && self.measured.is_some() => "measured".into(),
            false => self.outcome().to_string(),
        }
    }

    /// Whether an OOM did not end its process: the evidence of `caught`, or the process lived on in a run
    /// that ended well.
    pub fn survived_oom(&self, oom: &OomIncident) -> bool {
        let well = self.ended.is_some_and(|(_, exit)| exit.is_success());
        oom.caught || (well && !self.is_end_of_process(oom) && self.outlived(oom))
    }

    /// Whether the process of an OOM ended well or was there long after it, or some process has stepped
    /// since.
    fn outlived(&self, oom: &OomIncident) -> bool {
        let says_so = (oom.report.as_ref()).is_some_and(|said| said.outcome == OomOutcome::Caught);
        let stepped = |rank: &crate::state::RankState| {
            let last = rank.steps.last.as_ref();
            last.is_some_and(|(at, _)| *at > oom.at)
        };
        let lived = |rank: &crate::state::RankState| {
            let until = rank.disconnected.or(self.ended.map(|(at, _)| at));
            until.is_some_and(|until| until.since(oom.at) > UNWINDS)
        };
        says_so
            // Its own status is the command's.
            || oom.pid == Some(self.pid)
            || self.ranks.iter().any(stepped)
            || oom
                .pid
                .and_then(|pid| self.rank_with(pid))
                .is_some_and(lived)
    }

    /// Whether an OOM is the one that ended its process, as that has said.
    pub(super) fn is_end_of_process(&self, oom: &OomIncident) -> bool {
        let Some(pid) = oom.pid else {
            return false;
        };
        let rank = self.rank_with(pid);
        let latest = self.ooms.iter().rfind(|other| other.pid == Some(pid));
        rank.is_some_and(|rank| rank.ended_by_oom)
            && latest.is_some_and(|latest| std::ptr::eq(latest, oom))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Exit, UncaughtOom};
    use crate::oom::OomReport;
    use crate::state::tests::staged::{StagedSession, exited, gib, hello, record, started, step};
    use crate::units::Pid;

    /// A shell (process 10) whose program, process 100, runs out of memory in its second step.
    fn piped() -> StagedSession {
        let mut scene = StagedSession::default();
        scene.add(0.0, started(1, 10, "sh -c train"));
        scene.add(1.0, hello(1, 100, None));
        scene.add(2.0, step(100, 1, gib(3.0), gib(9.0)));
        let oom = record(100, gib(20.0), gib(21.0), gib(4.0), gib(1.0));
        scene.add(3.0, EventKind::Oom(oom));
        scene
    }

    fn ended(pid: i32) -> EventKind {
        EventKind::UncaughtOom(UncaughtOom { pid: Pid(pid) })
    }

    fn hidden(scene: &StagedSession) -> Option<HiddenOom<'_>> {
        scene.state.run().expect("a run").hidden_oom()
    }

    #[test]
    fn one_that_has_ended_its_process_is_no_success() {
        let mut scene = piped();
        scene.add(3.1, ended(100));
        assert_eq!(hidden(&scene), None, "it still runs");
        scene.add(3.5, exited(1, Exit::Code(0)));
        assert!(matches!(hidden(&scene), Some(HiddenOom::Fatal(_))));
        let run = scene.state.run().expect("a run");
        assert_eq!(run.outcome_words(), "OOM, exit 0");
        assert!(scene.state.oom().is_some());
        assert!(!run.survived_oom(&run.ooms[0]));
    }

    #[test]
    fn where_another_has_trained_since_it_may_have_been_made_good() {
        let mut scene = piped();
        scene.add(3.1, ended(100));
        scene.add(4.0, hello(1, 200, None));
        scene.add(5.0, step(200, 1, gib(3.0), gib(9.0)));
        scene.add(6.0, exited(1, Exit::Code(0)));
        assert!(matches!(hidden(&scene), Some(HiddenOom::Possible(_))));
    }

    #[test]
    fn nobody_knows_of_one_whose_process_ends_soon_after_it() {
        let mut scene = piped();
        scene.add(3.5, exited(1, Exit::Code(0)));
        assert!(matches!(hidden(&scene), Some(HiddenOom::Possible(_))));
        let run = scene.state.run().expect("a run");
        assert_eq!(run.outcome_words(), "finished");
        // As one that only the output tells of.
        let mut scene = StagedSession::default();
        scene.add(0.0, started(1, 10, "sh -c train"));
        scene.add(3.0, EventKind::OomText(OomReport::default()));
        scene.add(3.5, exited(1, Exit::Code(0)));
        assert!(matches!(hidden(&scene), Some(HiddenOom::Possible(_))));
    }

    #[test]
    fn one_that_was_survived_is_not_hidden() {
        let mut stepped = piped();
        stepped.add(4.0, step(100, 2, gib(3.0), gib(9.0)));
        stepped.add(5.0, exited(1, Exit::Code(0)));
        let mut lived = piped();
        lived.add(14.0, exited(1, Exit::Code(0)));
        // Not behind a shell: the status is its own.
        let mut direct = StagedSession::default();
        direct.add(0.0, started(1, 100, "python train.py"));
        direct.add(1.0, hello(1, 100, None));
        let oom = record(100, gib(20.0), gib(21.0), gib(4.0), gib(1.0));
        direct.add(3.0, EventKind::Oom(oom));
        direct.add(3.5, exited(1, Exit::Code(0)));
        for scene in [stepped, lived, direct] {
            assert_eq!(hidden(&scene), None);
            let run = scene.state.run().expect("a run");
            assert!(run.survived_oom(&run.ooms[0]));
            assert_eq!(scene.state.oom(), None);
        }
        let mut failed = piped();
        failed.add(3.5, exited(1, Exit::Code(1)));
        assert_eq!(hidden(&failed), None, "its status says so");
    }
}
