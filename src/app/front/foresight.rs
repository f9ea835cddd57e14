//! What the model says while a run goes on or has ended: hints, and predictions made anew once
//! earlier sessions have been read.

use super::Front;
use crate::app::screen::Due;
use crate::event::Level;
use crate::forecast::hint;

/// Steps between two looks for a hint.
const NUDGED_EVERY: u64 = 25;

impl Front {
    /// Says once what there is to say while all is well. Looked at after the first step and then
    /// now and then.
    pub(super) fn hint(&mut self, step: u64) {
        if self.fitting.is_some() || (step > 1 && !step.is_multiple_of(NUDGED_EVERY)) {
            return;
        }
        let inputs = self.inputs();
        let hint = hint(&self.command, &self.state, &inputs.launch, &inputs.forecast);
        if let Some(hint) = hint.filter(|hint| self.hinted != Some(*hint)) {
            self.hinted = Some(hint);
            self.note(Level::Info, hint.to_string());
        }
    }

    /// Earlier sessions have been read: what they showed changes the predictions.
    pub(super) fn look_at_earlier(&mut self) {
        if self.earlier.look() {
            self.remedies = self.remedies_now();
            self.request(Due::Now);
        }
    }
}
