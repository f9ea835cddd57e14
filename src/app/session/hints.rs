//! Hints during a run, and new predictions once earlier sessions were read.

use super::Session;
use crate::event::Level;
use crate::forecast::hint;

/// How often to look for a hint, in steps.
const STEPS_BETWEEN_HINTS: u64 = 25;

impl Session {
    /// Gives at most one hint while all is well. Looks after the first step, then now and then.
    pub(crate) fn hint(&mut self, step: u64) {
        if step > 1 && !step.is_multiple_of(STEPS_BETWEEN_HINTS) {
            return;
        }
        let inputs = self.remedy_inputs();
        let hint = hint(
            self.command(),
            &self.state,
            &inputs.launch,
            &inputs.forecast,
        );
        if let Some(hint) = hint.filter(|hint| self.hinted != Some(*hint)) {
            self.hinted = Some(hint);
            self.note(Level::Info, hint.to_string());
        }
    }

    pub(crate) fn forget_hint(&mut self) {
        self.hinted = None;
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
            self.remedies = self.remedies_now();
        }
        is_news
    }
}
