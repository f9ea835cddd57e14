//! The limit by a rehearsal of one of a run's steps, whose allocations are replayed for other values.

use super::SizeSearch;
use crate::forecast::{ActivationReduction, Rehearsed, Target, edge};
use crate::units::Bytes;

/// What a rehearsed step may be off by, once the run it was taken from has shown by how much: in
/// the second run, and in a third where that failed; and where none has run yet. Two decoders under a
/// cap needed what was replayed to within 0.3 %: the largest batch that ran was the largest replayed.
pub(super) const LITTLE: f64 = 0.002;
pub(super) const MUCH: f64 = 0.03;
pub(super) const MOST: f64 = 0.2;
/// The same where no run will try it: four answers for capped cards were the truth, and the next larger
/// batch needed 0.4 % more. Where there are convolutions, cuDNN takes its workspaces as there is room.
const UNTRIED: f64 = 0.003;
const UNTRIED_CONVOLUTIONS: f64 = 0.03;
/// By how much the run's own peak may differ from its rehearsed one for it to be believed.
const BELIEVED: std::ops::Range<f64> = 0.9..1.35;

impl SizeSearch {
    /// The largest value whose rehearsed step runs in the room, with so much to spare. What the run
    /// had allocated beyond its rehearsal the others will have, too, unless it is of convolutions: where
    /// there was room, a U-Net took 27 % more than was rehearsed, and at its limit 1 % less.
    pub(super) fn by_rehearsal(&self, spare: f64) -> Option<u64> {
        self.limit_in(self.room?, spare)?
    }

    /// The largest value for a room that was not tried, if there is one; `None` where no rehearsal can
    /// say.
    pub(in crate::live::policy::fit) fn on(&self, room: Bytes) -> Option<Option<u64>> {
        let mut rehearsed = self
            .trials
            .iter()
            .filter_map(|trial| trial.rehearsed.as_ref());
        let spare = match rehearsed.any(Rehearsed::has_convolutions) {
            true => UNTRIED_CONVOLUTIONS,
            false => UNTRIED,
        };
        let limit = self.limit_in(room, spare)?;
        Some(limit.map(|limit| self.round(limit)))
    }

    fn limit_in(&self, room: Bytes, spare: f64) -> Option<Option<u64>> {
        let rehearsed = self.trials.iter().filter(|trial| trial.rehearsed.is_some());
        // Of those that ran the largest, whose kernels chose as they will near the limit.
        let trial = rehearsed.max_by_key(|trial| (trial.fits, trial.value))?;
        let rehearsed = trial.rehearsed.as_ref()?;
        if rehearsed.input_sizes().is_some() {
            // Another step's inputs may be larger than those of the step that was rehearsed.
            return None;
        }
        let of = |batch| self.target(batch);
        let foretold = rehearsed.peak(&of(trial.value))?.low;
        let off = match trial.fits {
            true => trial.peak?.fraction_of(foretold)?,
            false => 1.0,
        };
        if !BELIEVED.contains(&off) {
            return None;
        }
        let most = trial.value.saturating_mul(4096);
        let more = match rehearsed.has_convolutions() {
            true => 1.0,
            false => off.max(1.0),
        };
        let room = room.scale(1.0 / (more * (1.0 + self.margin.max(spare))));
        let limit = edge(most, |batch| {
            rehearsed.runs_in(&of(batch), room) == Some(true)
        });
        Some((limit > 0).then_some(limit))
    }

    pub(super) fn target(&self, batch: u64) -> Target {
        Target {
            batch,
            keeps_gradients: self.keeps_gradients,
            treatment: ActivationReduction::default(),
            allocator: self.allocator,
        }
    }
}
