//! What time alone brings about, and when the loop must look for it.

use super::{Front, relaunch};
use crate::app::earlier;
use crate::app::phase::Phase;
use crate::app::screen::Screen;
use crate::event::What;
use crate::units::Moment;
use std::time::Duration;

impl Front {
    /// When the loop must look again even if nothing comes in.
    pub(super) fn next_wake(&self) -> Option<Moment> {
        let phase = match &self.phase {
            Phase::Settling { .. } => Some(self.clock.now() + relaunch::SETTLING_STEP),
            Phase::Gating { .. } => Some(self.clock.now() + Duration::from_millis(100)),
            Phase::Starting | Phase::Running { .. } => None,
            Phase::Asking { .. } | Phase::Sweeping { .. } | Phase::Leaving(_) => None,
        };
        let frame = self.screen.as_ref().map(Screen::next_frame);
        let foreground = self
            .parked
            .as_ref()
            .map(|_| self.clock.now() + Duration::from_millis(500));
        let prompt = self.screen.as_ref().and(self.prompt.due());
        let awaited = self.earlier.is_reading() || self.undecided.is_some();
        let earlier = awaited.then(|| self.clock.now() + earlier::LOOK_AGAIN);
        [phase, frame, foreground, prompt, earlier]
            .into_iter()
            .flatten()
            .min()
    }

    /// What time alone brings about.
    pub(super) fn progress(&mut self) {
        let now = self.clock.now();
        while let Some(note) = self.recorder.note() {
            self.record(What::Note(note));
        }
        self.look_at_earlier();
        for note in self.watch.look(&self.state) {
            self.record(What::Note(note));
        }
        self.settle(now);
        self.decide_when_known(now);
        self.pass_gate(now);
        self.take_terminal_again();
        self.look_for_prompt(now);
        self.describe(now);
    }
}
