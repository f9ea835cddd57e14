//! The runs of `fit`: stopped after their steps, and followed by what the search asks for.

use super::Front;
use crate::app::Ending;
use crate::app::fit::{Next as Asked, Shown, Trial};
use crate::app::phase::{Next, Phase};
use crate::event::{Exit, Level};
use crate::forecast::{Allocator, Observation};
use crate::measured::NON_TORCH_USUAL;
use crate::state::RunOutcome;
use crate::supervise::KeeperOrder;
use crate::units::Bytes;

impl Front {
    /// A step was seen: after the last of those that were asked for the run has shown enough.
    pub(super) fn fit_stepped(&mut self) {
        let Some(run) = self.state.run() else {
            return;
        };
        let (number, steps) = (run.number, run.steps());
        let held = run.ranks.iter().map(|rank| rank.reserved_peak).max();
        let room = self.room_now();
        let Some(fitting) = &mut self.fitting else {
            return;
        };
        fitting.room = room.or(fitting.room);
        fitting.shown.take(steps, held.unwrap_or(Bytes::ZERO));
        let is_enough = fitting.shown.is_enough(steps, fitting.options.steps);
        if !is_enough || fitting.stopped == Some(number) {
            return;
        }
        fitting.stopped = Some(number);
        self.note(
            Level::Info,
            format!("fit: {steps} steps were seen; stopping run {number}"),
        );
        self.order(KeeperOrder::Stop);
    }

    /// What the current run's process may reserve of its device in all.
    fn room_now(&self) -> Option<Bytes> {
        let run = self.state.run()?;
        let rank = run.ranks.iter().max_by_key(|rank| rank.reserved_peak)?;
        let device = self.state.device(rank.device.as_ref()?)?;
        let headroom = device.headroom(&self.state)?;
        let reserved = rank.sample.as_ref().map(|(_, sample)| sample.reserved)?;
        let room = reserved + headroom.bytes;
        Some(if headroom.is_upper_bound {
            room - NON_TORCH_USUAL
        } else {
            room
        })
    }

    /// A run of the search has ended.
    pub(super) fn fit_ended(&mut self, exit: Exit) {
        self.phase = Phase::Leaving(Ending::Like(exit));
        let Some(run) = self.state.run() else {
            return;
        };
        let outcome = run.outcome();
        let was_told = self
            .fitting
            .as_ref()
            .is_some_and(|fitting| fitting.stopped == Some(run.number));
        let stopped_by_user = run.stop_requested.is_some();
        let fits = match outcome {
            RunOutcome::Finished => true,
            RunOutcome::OutOfMemory => false,
            RunOutcome::Running | RunOutcome::Stopped | RunOutcome::Failed(_) => was_told,
        };
        let reserved = run.ranks.iter().map(|rank| rank.reserved_peak).max();
        let (seen, peak) = (Observation::of_run(run, &self.inputs().launch), run.peak());
        let expandable = run
            .ranks
            .iter()
            .any(|rank| rank.hello.expandable_segments == Some(true));
        let at_oom = run
            .oom()
            .and_then(|oom| Some((oom.reserved()? + oom.free()?, oom.limit())));
        // A run that was over before anything was sampled.
        let devices = run.ranks.iter().flat_map(|rank| &rank.hello.devices);
        let whole = devices.map(|device| device.total - NON_TORCH_USUAL).min();
        let (number, steps) = (run.number, run.steps());
        let Some(fitting) = &mut self.fitting else {
            return;
        };
        if stopped_by_user {
            fitting.given_up = Some("stopped".into());
            return;
        }
        if !fits && outcome != RunOutcome::OutOfMemory {
            fitting.given_up = Some(format!(
                "run {number} ended by itself ({exit}) before its steps, and not for want of memory; \
                 its output stands above"
            ));
            return;
        }
        let value = fitting.value;
        if let Some((room, limit)) = at_oom {
            fitting.room = Some(limit.map_or(room, |limit| room.min(limit)));
        }
        fitting.search.room = fitting.room.or(fitting.search.room).or(whole);
        fitting.search.allocator = match expandable {
            true => Allocator::Expandable,
            false => Allocator::Fixed,
        };
        fitting.search.trials.push(Trial {
            value,
            seen: seen.map(|seen| Observation {
                batch: value,
                ..seen
            }),
            peak,
            reserved,
            fits,
            steps,
        });
        let verdict = if fits { "fits" } else { "runs out of memory" };
        let said = peak.map_or(String::new(), |peak| format!(", peak {peak}"));
        eprintln!(
            "oomph: fit: {} {value} {verdict}{said}",
            fitting.setting.name
        );
        match fitting.search.next() {
            Asked::Done(answer) => fitting.answer = Some(answer),
            Asked::Run(value) => {
                fitting.value = value;
                fitting.shown = Shown::default();
                let command = fitting.trial(value);
                let name = fitting.setting.name.clone();
                self.note(Level::Info, format!("fit: next {name} {value}"));
                self.sweep(
                    exit,
                    Next {
                        command,
                        remedies: vec![format!("fit: {name} {value}")],
                        predicted_peak: None,
                        applied: Vec::new(),
                        files: Vec::new(),
                        awaited: Vec::new(),
                        ending: None,
                    },
                );
            }
        }
    }
}
