//! What the probe found in a process: what can be patched and what became of it, its traced steps, who
//! keeps its memory alive.

use crate::event::{Level, PatchOutcome, Patchable, Patched, Rehearsal, Retainers, StepTrace};
use crate::state::State;
use crate::units::Moment;

/// Patches kept of a process: more than there are kinds.
const KINDS: usize = 16;

impl State {
    pub(super) fn patchable_found(&mut self, found: &Patchable) {
        if let Some(rank) = self.rank_mut(found.pid) {
            rank.patchable = Some(found.clone());
        }
    }

    /// Keeps the rehearsed step, or notes why it could not be rehearsed.
    pub(super) fn rehearsed(&mut self, at: Moment, rehearsal: &Rehearsal) {
        let Some(rank) = self.rank_mut(rehearsal.pid) else {
            return;
        };
        rank.rehearsal = Some(rehearsal.clone());
        if let Some(why) = rehearsal.why_not() {
            let text = format!("the step that failed can't be rehearsed: {why}");
            self.note(at, Level::Info, text);
        }
    }

    /// A step, allocation by allocation.
    pub(super) fn step_traced(&mut self, trace: &StepTrace) {
        if let Some(rank) = self.rank_mut(trace.pid) {
            rank.traces.keep(trace);
        }
    }

    /// Keeps the latest search for who keeps its memory alive.
    pub(super) fn retainers_found(&mut self, at: Moment, found: &Retainers) {
        if let Some(rank) = self.rank_mut(found.pid) {
            rank.retainers = Some((at, found.clone()));
        }
    }

    /// Keeps a patch's latest outcome in a process. An outcome that is new to the run is noted.
    pub(super) fn patched(&mut self, at: Moment, patched: &Patched) {
        let Some(run) = self.run_of_mut(patched.pid) else {
            return;
        };
        let is_said = run.ranks.iter().flat_map(|rank| &rank.patches).any(|said| {
            (&said.patch, said.outcome, &said.words)
                == (&patched.patch, patched.outcome, &patched.words)
        });
        let Some(rank) = run.rank_mut(patched.pid) else {
            return;
        };
        let known = rank
            .patches
            .iter()
            .position(|said| said.patch == patched.patch);
        match known {
            Some(known) => rank.patches[known] = patched.clone(),
            None if rank.patches.len() < KINDS => rank.patches.push(patched.clone()),
            None => return,
        }
        if !is_said {
            let (level, verb) = match patched.outcome {
                PatchOutcome::Applied => (Level::Info, "patched at runtime"),
                PatchOutcome::Declined => (Level::Warning, "not patched at runtime"),
            };
            let text = format!("{verb}, {}: {}", patched.patch, patched.words);
            self.note(at, level, text);
        }
    }
}
