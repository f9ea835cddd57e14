//! Start and end of runs.

use crate::command::{CommandLine, difference};
use crate::event::{Exited, Started};
use crate::state::non_torch::NonTorch;
use crate::state::{Run, State};
use crate::units::{Moment, Pid, RunNumber, Uuid};

/// Buckets kept of the series of a past run's processes: as many as a wide screen has columns.
const PAST: usize = 256;

/// Past runs kept with all their details: their traced steps, the marks of single steps, every OOM.
const DETAILED: usize = 16;

/// Runs kept: the first, with which others are compared, and the latest. A session that relaunches
/// every ten minutes has more than 4,000 in a month.
const RUNS: usize = 256;

impl State {
    pub(super) fn run_started(&mut self, at: Moment, started: &Started) {
        self.spawn_failed = None;
        for device in &mut self.devices {
            device.limit = None;
            device.non_torch = NonTorch::default();
        }
        for rank in self
            .runs
            .last_mut()
            .iter_mut()
            .flat_map(|run| &mut run.ranks)
        {
            rank.allocated.thin(PAST);
        }
        let changes = self
            .runs
            .iter()
            .rfind(|run| run.number < started.run)
            .map(|before| difference(&before.command, &started.command))
            .unwrap_or_default();
        let earlier = self.runs.iter().filter(|run| run.number < started.run);
        let before = earlier.map(|run| run.came_to().max(run.before)).max();
        let run = self.run_or_new(at, started.run);
        run.before = before.unwrap_or_default();
        run.command = started.command.clone();
        run.shown = started.command.shown();
        run.changes = changes;
        run.remedies = started.remedies.clone();
        run.pid = started.pid;
        run.started = at;
        run.predicted_peak = started.predicted_peak;
        run.prediction = started.prediction.clone();
        self.bound_runs();
        if let Some(run) = self.runs.last() {
            for device in &mut self.devices {
                device.holders.retain(|pid| run.rank_with(*pid).is_some());
            }
        }
        let devices: Vec<Uuid> = self.devices.iter().map(|d| d.uuid.clone()).collect();
        for device in devices {
            self.sum_up(at, &device);
        }
    }

    pub(super) fn run_exited(&mut self, at: Moment, exited: &Exited) {
        let Some(run) = self.runs.iter_mut().find(|run| run.number == exited.run) else {
            return;
        };
        run.ended = Some((at, exited.exit));
        run.survivors = exited.left.clone();
        if exited.exit.is_success() {
            // `timeout -s KILL` in a script, for example.
            run.ooms.retain(|oom| !oom.is_hearsay());
        }
        // Processes that outlived the direct child are still sampled.
        let ended: Vec<Pid> = run
            .ranks
            .iter()
            .map(|rank| rank.hello.pid)
            .filter(|pid| !exited.left.contains(pid))
            .collect();
        for pid in ended {
            self.rank_ended(at, exited.run, pid);
        }
    }

    fn bound_runs(&mut self) {
        if self.runs.len() > RUNS {
            self.runs.remove(1);
        }
        if let Some(past) = self.runs.len().checked_sub(DETAILED + 2) {
            self.runs[past].condense();
        }
    }

    /// The run with this number; a new one if its start was missed (a front that came later, a
    /// recording that was cut).
    pub(super) fn run_or_new(&mut self, at: Moment, number: RunNumber) -> &mut Run {
        let place = match self.runs.binary_search_by_key(&number, |run| run.number) {
            Ok(place) => place,
            Err(place) => {
                let command = match (&self.session, number) {
                    (Some(session), RunNumber::FIRST) => session.command.clone(),
                    _ => CommandLine::default(),
                };
                self.runs.insert(place, Run::new(number, command, at));
                place
            }
        };
        &mut self.runs[place]
    }
}
