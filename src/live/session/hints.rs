//! Hints during a run, and new predictions once earlier sessions were read.

use super::Session;
use crate::event::Level;
use crate::forecast::{Hint, TracedHint, TracedSearch, hint, traced_search};
use crate::live::beside::BesideLoop;
use crate::state::RunOutcome;
use crate::units::Bytes;

/// How often to look for a hint, in steps.
const STEPS_BETWEEN_HINTS: u64 = 25;
/// Another search is worth it where the room has changed by this share.
const OTHER_ROOM: f64 = 0.02;

/// The hints of the current run.
#[derive(Default)]
pub(crate) struct Hints {
    /// The latest one.
    pub(crate) given: Option<Hint>,
    /// The step that was looked at last, of whichever rank came to it first.
    looked: u64,
    /// The traced step and the room that were searched for last, and what came of it.
    searched: Option<(u64, Bytes)>,
    found: Option<TracedHint>,
    search: Option<BesideLoop<TracedHint>>,
}

impl Hints {
    /// Begins a search, unless it would find the same again.
    fn begin(&mut self, search: TracedSearch) {
        let (step, room) = (search.step.step, search.room);
        let is_known = self.searched.is_some_and(|(searched, then)| {
            let change = room.0.abs_diff(then.0) as f64;
            searched == step && change <= then.0 as f64 * OTHER_ROOM
        });
        if is_known || self.search.is_some() {
            return;
        }
        (self.searched, self.found) = (Some((step, room)), None);
        self.search = BesideLoop::begin("headroom", move || TracedHint::of(&search));
    }
}

impl Session {
    /// Gives at most one hint while all is well. Looks after the first step, then now and then.
    pub(crate) fn hint(&mut self, step: u64) {
        let is_time = step <= 1 || step.is_multiple_of(STEPS_BETWEEN_HINTS);
        if !is_time || (step <= self.hints.looked && self.hints.looked > 0) {
            return;
        }
        self.hints.looked = step;
        let inputs = self.remedy_inputs();
        let (launch, forecast) = (&inputs.launch, &inputs.forecast);
        match traced_search(self.command(), &self.state, launch, forecast) {
            Some(search) => self.hints.begin(search),
            None => self.hints.found = None,
        }
        self.give_hint();
    }

    /// What a traced step says goes before what the peaks say.
    fn give_hint(&mut self) {
        if self.hints.search.is_some() {
            return;
        }
        let inputs = self.remedy_inputs();
        let hint = match self.hints.found {
            // Memory may have run out, or the run ended, while it was searched for.
            Some(TracedHint::Gain(_)) if !self.is_well() => None,
            Some(TracedHint::Gain(room)) => Some(Hint::RoomForBatch(room)),
            Some(TracedHint::NoGain) => {
                self.hints.given = None;
                None
            }
            Some(TracedHint::NotBelieved) | None => hint(
                self.command(),
                &self.state,
                &inputs.launch,
                &inputs.forecast,
            ),
        };
        if let Some(hint) = hint.filter(|hint| self.hints.given != Some(*hint)) {
            self.hints.given = Some(hint);
            self.note(Level::Info, hint.to_string());
        }
    }

    /// Whether a search for a hint has ended.
    pub(crate) fn look_at_hints(&mut self) -> bool {
        let found = BesideLoop::look(&mut self.hints.search);
        if found.is_some() {
            self.hints.found = found;
            self.give_hint();
        }
        found.is_some()
    }

    fn is_well(&self) -> bool {
        let run = self.state.run();
        run.is_some_and(|run| run.outcome() == RunOutcome::Running && run.oom_count == 0)
    }

    /// Whether the loop is to look soon for what is worked out beside it.
    pub(crate) fn is_working(&self) -> bool {
        self.hints.search.is_some()
            || self.is_finding_remedies()
            || self.is_reading_earlier()
            || self.is_reading_source()
    }

    pub(crate) fn forget_hint(&mut self) {
        self.hints = Hints::default();
    }

    /// Starts reading earlier sessions once memory has run out.
    pub(crate) fn ask_earlier(&mut self) {
        self.earlier
            .ask(&self.handover.command, &self.handover.header.id);
    }

    pub(crate) fn is_reading_earlier(&self) -> bool {
        self.earlier.is_reading()
    }

    /// Whether earlier sessions were just read and have changed the predictions.
    pub(crate) fn look_at_earlier(&mut self) -> bool {
        let is_news = self.earlier.look();
        if is_news {
            self.find_remedies();
        }
        is_news
    }
}
