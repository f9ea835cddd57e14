//! What earlier sessions of the command showed: what failed bounds the answer, and the search begins at what ran to its end.

use super::search::{SearchStep, Trial};
use super::{FailedBefore, Fit, trial_of};
use crate::live::session::earlier::{EarlierEnds, EarlierFinish};
use crate::recognize::{LaunchEnvironment, WorkloadKey};
use crate::remedy::Setting;
use crate::units::Bytes;

/// With less than this share of the memory that there is now, a failure says nothing of what fits now.
const AS_MUCH_ROOM: f64 = 0.95;

impl Fit {
    /// Uses earlier sessions of the user's command that ran out of memory.
    pub(crate) fn look_back(&mut self, ends: &EarlierEnds) {
        let earlier = &ends.ooms;
        self.grows_by = earlier.iter().filter_map(|oom| oom.grew_by).max();
        let command = self.typed.without_secrets();
        let at_once = WorkloadKey::new(&command, &LaunchEnvironment::default()).at_once;
        let failed = earlier.iter().map(|oom| FailedBefore {
            value: self.in_setting(oom.at_once, at_once),
            step: oom.step,
            room: oom.room,
        });
        // Of several with the same value the one that got furthest.
        self.failed_before = failed.min_by_key(|failed| (failed.value, u64::MAX - failed.step));
        self.search.bound = self.failed_before.map(|failed| failed.value);
        let foreseen = earlier.iter().filter_map(|oom| oom.foreseen).min();
        self.search.foreseen = foreseen.map(|batch| self.in_setting(batch, at_once));
        let fragmented = earlier.iter().filter(|oom| oom.is_fragmentation);
        self.fragmented = (fragmented.map(|oom| self.in_setting(oom.at_once, at_once))).min();
        if !self.rivals.is_empty() {
            return;
        }
        let finished = ends.finished.iter().filter_map(|one| self.of_earlier(one));
        let below = self.search.bound.unwrap_or(u64::MAX);
        let largest = finished.filter(|(trial, _)| trial.value < below);
        if let Some((trial, room)) = largest.max_by_key(|(trial, _)| trial.value) {
            (self.value, self.search.room) = (trial.value, Some(room));
            self.search.trials.push(trial);
        }
        // What ran to its end with nothing above it runs once more: here it may have less room.
        if let SearchStep::Run(value) = self.search.next() {
            self.value = value;
        }
    }

    /// A run of this very command, but for the value, that ended by itself in an earlier session; and what it could reserve.
    fn of_earlier(&self, earlier: &EarlierFinish) -> Option<(Trial, Bytes)> {
        let run = &earlier.run;
        let launch = LaunchEnvironment::default();
        let value = Setting::find_all(&run.command, &self.options.which(), &launch).ok()?;
        let value = value.all.first()?.value;
        let is_same = self.setting.config_line().is_none()
            && self.setting.to(&self.typed, value).without_secrets()
                == run.command.without_secrets();
        let is_shown = run.steps() > 0 && run.peak().is_some();
        (is_same && is_shown).then(|| {
            let trial = Trial {
                began: Some(earlier.began.clone()),
                rehearsed: None,
                ..trial_of(run, &launch, value, true)
            };
            (trial, earlier.room)
        })
    }

    /// A batch that the device takes at once, as the setting counts it.
    fn in_setting(&self, batch: u64, at_once: u64) -> u64 {
        batch.saturating_mul(self.setting.value) / at_once.max(1)
    }

    /// The earlier failure that bounds the answer, in words.
    pub(crate) fn failed_before(&self) -> Option<String> {
        let failed = self.failed_before?;
        Some(format!(
            "{} {} ran out of memory in an earlier session, in step {}",
            self.setting.name, failed.value, failed.step
        ))
    }

    /// The largest value that ran to its end in an earlier session, in words.
    pub(crate) fn finished_before(&self) -> Option<String> {
        let trial = (self.search.trials.iter()).find(|trial| trial.began.is_some())?;
        let began = trial.began.as_ref()?;
        Some(format!(
            "{} {} ran to its end here at {began} ({} steps)",
            self.setting.name, trial.value, trial.steps
        ))
    }

    /// An earlier session had less memory: what failed there may fit now. Or more: what ran there may not.
    pub(super) fn forget_what_had_other_room(&mut self) {
        let room = self.search.room;
        self.search.trials.retain(|trial| {
            let is_too_much = trial.peak.zip(room).is_some_and(|(peak, room)| peak > room);
            trial.began.is_none() || !is_too_much
        });
        let (Some(now), Some(failed)) = (self.search.room, self.failed_before) else {
            return;
        };
        if failed
            .room
            .is_some_and(|then| then < now.scale(AS_MUCH_ROOM))
        {
            self.failed_before = None;
            self.search.bound = None;
        }
    }
}
