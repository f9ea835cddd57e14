//! What remedies and hints rest on. Predictions by a rehearsal replay its thousands of allocations dozens of times,
//! so the facts can travel to another thread.

use super::Session;
use super::earlier::Earlier;
use super::inputs::SessionInputs;
use crate::command::CommandLine;
use crate::diagnosis::Finding;
use crate::event::{EventKind, Level, Note, NoteSubject};
use crate::forecast::{BatchRoom, ForecastInputs, Hint, TracedHint, TracedSearch};
use crate::recognize::LaunchEnvironment;
use crate::remedy::{self, EditedNeed, Remedy, RemedyInputs};
use crate::report;
use crate::state::State;
use crate::units::{Bytes, RunNumber};

/// What remedies rest on, on its way to another thread.
pub(crate) struct RemedyFacts {
    pub command: CommandLine,
    pub state: State,
    pub findings: Vec<Finding>,
    pub inputs: SessionInputs,
    pub earlier: Earlier,
    /// The run that they are for.
    pub next: RunNumber,
}

impl RemedyFacts {
    pub(crate) fn remedies(&self) -> Vec<Remedy> {
        remedy::remedies(&self.command, &self.remedy_inputs())
    }

    /// What an edited command would need, where these remedies are offered for the one that ran.
    pub(crate) fn need_of(&self, edited: CommandLine, offered: &[Remedy]) -> EditedNeed {
        EditedNeed::new(&self.command, edited, &self.remedy_inputs(), offered)
    }

    fn remedy_inputs(&self) -> RemedyInputs<'_> {
        inputs_of(
            &self.state,
            &self.findings,
            &self.inputs,
            Some(&self.earlier),
            self.next,
        )
    }
}

pub(crate) fn inputs_of<'a>(
    state: &'a State,
    findings: &'a [Finding],
    inputs: &'a SessionInputs,
    earlier: Option<&'a Earlier>,
    next: RunNumber,
) -> RemedyInputs<'a> {
    let ranks = state.runs.iter().rev().find_map(|run| run.ranks.first());
    let probed = ranks.map(|rank| rank.hello.torch.as_str());
    RemedyInputs {
        launch: LaunchEnvironment {
            torch: probed.or(inputs.torch.as_deref()),
            copies: inputs.copies(next.0),
            told: state.knobs.as_ref(),
            ..inputs.launch()
        },
        forecast: ForecastInputs {
            oom: state.explained_oom(),
            state: Some(state),
            earlier: earlier.map_or(&[], |earlier| &earlier.observations),
            earlier_runs: earlier.map_or(&[], |earlier| &earlier.runs),
            ..ForecastInputs::default()
        },
        findings,
        batch_fits: true,
        leftovers: inputs.leftovers(),
        ..RemedyInputs::default()
    }
}

/// What the command in the editor would need: worked out beside the loop, for the latest text of it.
#[derive(Debug, Default)]
pub(crate) struct Foreseen {
    asked: Option<CommandLine>,
    said: Option<EditedNeed>,
}

impl Foreseen {
    pub(crate) fn ask(&mut self, command: CommandLine) {
        // The run may have shown more since.
        self.said.take_if(|said| said.command == command);
        self.asked = Some(command);
    }

    /// Takes what was worked out; `None` where that was not possible.
    pub(crate) fn take(&mut self, said: Option<EditedNeed>) {
        if said.is_none() {
            self.asked = None;
        }
        self.said = said;
    }

    /// What is asked for and not known yet.
    pub(crate) fn open(&self) -> Option<&CommandLine> {
        let said = self.said.as_ref().map(|said| &said.command);
        self.asked.as_ref().filter(|asked| Some(*asked) != said)
    }

    /// It rests on what has changed: what was asked for last is to be worked out again, for its editor may still be open.
    pub(crate) fn forget(&mut self) {
        self.said = None;
    }

    pub(crate) fn said(&self) -> Option<&EditedNeed> {
        self.said.as_ref()
    }
}

/// How often to look for a hint, in steps at least: of a fast program not each step is told of.
const STEPS_BETWEEN_HINTS: u64 = 25;
/// The same while a traced step waits for a few more steps to confirm its peak.
const STEPS_UNTIL_SETTLED: u64 = 5;
/// Another search is worth it where the room has changed by this share.
const OTHER_ROOM: f64 = 0.02;

/// The hints of the current run.
#[derive(Default)]
pub(crate) struct Hints {
    /// The latest one.
    pub given: Option<Hint>,
    /// The run's peak when it was given.
    pub peak: Bytes,
    /// What the traced step says, once it was searched.
    pub found: Option<TracedHint>,
    /// The step that was looked at last, of whichever rank came to it first.
    looked: u64,
    /// A step was traced since.
    pub is_wanted: bool,
    /// A step was traced, but whether its peak stays is not known yet.
    pub is_unsettled: bool,
    /// What was searched for last.
    searched: Option<Searched>,
}

/// What a search rests on.
#[derive(Debug, Clone, Copy)]
struct Searched {
    /// The traced step.
    step: u64,
    room: Bytes,
    /// The run's peak then: it may have needed more before the search has ended.
    peak: Bytes,
}

impl Hints {
    /// Whether this step is one to look after: the first, one behind a traced one, then now and then.
    pub(crate) fn is_due(&mut self, step: u64) -> bool {
        let Some(since) = step.checked_sub(self.looked).filter(|since| *since > 0) else {
            return false;
        };
        let pause = match self.is_unsettled {
            true => STEPS_UNTIL_SETTLED,
            false => STEPS_BETWEEN_HINTS,
        };
        let is_wanted = std::mem::take(&mut self.is_wanted);
        let is_due = is_wanted || self.looked == 0 || since >= pause;
        if is_due {
            self.looked = step;
        }
        is_due
    }

    /// Takes the latest hint back where the run has needed more since: it was told of smaller steps. The next step is looked
    /// after.
    pub(crate) fn outgrown_by(&mut self, peak: Bytes) {
        if self.given.is_some() && is_above(peak, self.peak) {
            self.forget();
        }
    }

    fn forget(&mut self) {
        (self.given, self.found, self.searched) = (None, None, None);
        self.is_wanted = true;
    }

    /// Takes what a search has found back where the run has needed more since it began.
    pub(crate) fn found_is_outgrown_by(&mut self, peak: Bytes) -> bool {
        let then = self.searched.map(|searched| searched.peak);
        let is_outgrown = self.found.is_some() && then.is_some_and(|then| is_above(peak, then));
        if is_outgrown {
            self.forget();
        }
        is_outgrown
    }

    /// Whether a search would not find the same again; it counts as begun.
    pub(crate) fn begins(&mut self, search: &TracedSearch) -> bool {
        let TracedSearch { room, peak, .. } = *search;
        let step = search.step.step;
        let is_known = self.searched.is_some_and(|then| {
            let change = room.0.abs_diff(then.room.0) as f64;
            then.step == step && change <= then.room.0 as f64 * OTHER_ROOM
        });
        if !is_known {
            (self.searched, self.found) = (Some(Searched { step, room, peak }), None);
        }
        !is_known
    }
}

/// Whether a peak is another than the one that something was said of.
fn is_above(peak: Bytes, then: Bytes) -> bool {
    peak > then.scale(1.0 + OTHER_ROOM)
}

impl Session {
    /// The largest batch that would fit, where that was worked out.
    pub(crate) fn room_for_batch(&self) -> Option<BatchRoom> {
        match self.hints.given {
            Some(Hint::RoomForBatch(room)) => Some(room),
            Some(Hint::StateWillNotFit { .. }) | None => None,
        }
    }

    /// Records how far the batch of a run could have gone that has ended and went well, for lists and replays.
    pub(crate) fn record_room(&mut self) {
        let room = self.room_for_batch();
        let is_flat = report::growth(&self.state).is_none();
        let words = room.filter(|_| is_flat);
        let words = words.and_then(|room| report::larger_batch(&self.state, room));
        if let Some(words) = words {
            self.record(EventKind::Note(Note {
                about: Some(NoteSubject::Room),
                ..Note::new(Level::Info, words)
            }));
        }
    }

    /// Whether that is being worked out.
    pub(crate) fn is_searching_room(&self) -> bool {
        self.pending.hint.is_some()
    }

    /// Whether a traced step says that the batch could go little further, or no further.
    pub(crate) fn has_little_room(&self) -> bool {
        matches!(self.hints.found, Some(TracedHint::NoGain))
    }

    /// Whether that waits for the peak of later steps.
    pub(crate) fn is_peak_unsettled(&self) -> bool {
        self.hints.is_unsettled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_of_smaller_steps_is_taken_back() {
        let mut hints = Hints {
            given: Some(Hint::StateWillNotFit {
                needs: Bytes::gib(9),
                room: Bytes::gib(8),
            }),
            peak: Bytes::gib(4),
            ..Hints::default()
        };
        assert!(hints.is_due(7));
        hints.outgrown_by(Bytes::mib(4_150));
        assert!(hints.given.is_some() && !hints.is_due(8));
        hints.outgrown_by(Bytes::gib(5));
        assert_eq!(hints.given, None);
        assert!(hints.is_due(9), "it is looked for again");
    }

    #[test]
    fn what_was_searched_for_before_a_larger_step_is_not_told() {
        let search = |peak| TracedSearch {
            step: crate::event::StepTrace::default(),
            batch: 24,
            parts: 1,
            settings: crate::forecast::replay::AllocatorSettings::default(),
            peak,
            reserved: peak,
            peak_step: None,
            room: Bytes::gib(23),
            is_alone: false,
            margin: 0.02,
        };
        let mut hints = Hints::default();
        assert!(hints.begins(&search(Bytes::gib(4))));
        hints.found = Some(TracedHint::NoGain);
        assert!(!hints.found_is_outgrown_by(Bytes::mib(4_150)));
        assert!(
            hints.found_is_outgrown_by(Bytes::gib(10)),
            "while it was searched"
        );
        assert_eq!(hints.found, None);
        assert!(
            hints.begins(&search(Bytes::gib(10))),
            "it is searched for again"
        );
    }

    #[test]
    fn a_step_is_looked_after_though_not_each_is_told_of() {
        let mut hints = Hints::default();
        let due = |hints: &mut Hints, steps: &[u64]| -> Vec<u64> {
            steps
                .iter()
                .copied()
                .filter(|step| hints.is_due(*step))
                .collect()
        };
        // Told of every third step, none of which is a multiple of the pause.
        let told: Vec<u64> = (0..=33).map(|n| 1 + 3 * n).collect();
        assert_eq!(due(&mut hints, &told), [1, 28, 55, 82]);
        // Other ranks come to the same step later.
        assert!(due(&mut hints, &[82, 81]).is_empty());
        hints.is_wanted = true;
        assert_eq!(due(&mut hints, &[101, 102]), [101]);
        hints.is_unsettled = true;
        assert_eq!(due(&mut hints, &[103, 106, 108, 112]), [106, 112]);
    }
}
