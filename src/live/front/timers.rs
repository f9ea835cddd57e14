//! What happens without an event, and when the loop must wake for it.

use super::Front;
use crate::event::{EventKind, Level};
use crate::live::beside::LOOK_AGAIN;
use crate::live::display::screen::Due;
use crate::live::link::SessionPhase;
use crate::state::RunOutcome;
use crate::units::Moment;
use std::time::{Duration, Instant};

/// How often to look while a run settles.
const SETTLING: Duration = Duration::from_millis(10);
/// While waiting for the device's memory.
const GATING: Duration = Duration::from_millis(100);
const PARKED: Duration = Duration::from_millis(500);

impl Front {
    /// When the loop must wake even without an event.
    pub(super) fn next_wake(&self) -> Option<Moment> {
        let phase = match self.link.phase() {
            SessionPhase::Settling { .. } => Some(SETTLING),
            SessionPhase::Proving { .. } | SessionPhase::Gating { .. } => Some(GATING),
            SessionPhase::Asking {
                decide_by: Some(_), ..
            } => Some(LOOK_AGAIN),
            SessionPhase::Starting
            | SessionPhase::Running { .. }
            | SessionPhase::Asking { .. }
            | SessionPhase::Sweeping { .. }
            | SessionPhase::Leaving(_) => None,
        };
        let parked = self.display.is_parked().then_some(PARKED);
        let working = self.session.is_working().then_some(LOOK_AGAIN);
        let soonest = [phase, parked, working].into_iter().flatten().min();
        let soonest = soonest.map(|after| self.session.clock.now() + after);
        [
            soonest,
            self.display.next_frame(),
            self.display.prompt_due(),
            self.display.leaving,
            Some(self.look_due()),
            self.session.metrics_due(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// A last screen that was held has no use once it is gone, unless a decision is awaited.
    fn end_what_nobody_sees(&mut self) {
        let is_seen = self.display.is_up() || self.display.is_parked();
        if is_seen || !self.policy.holds_the_screen() {
            return;
        }
        let run = self.session.state.run();
        let is_over = run.is_some_and(|run| run.outcome() != RunOutcome::OutOfMemory);
        if let (SessionPhase::Asking { .. }, true) = (self.link.phase(), is_over) {
            self.quit(false);
        }
    }

    pub(super) fn progress(&mut self) {
        let now = self.session.clock.now();
        for words in std::mem::take(&mut self.link.refused) {
            self.session.note(Level::Warning, words);
        }
        for words in self.session.look_around() {
            self.display.say(words);
        }
        let is_news = [
            self.session.look_at_hints(),
            self.session.look_at_earlier(),
            self.session.look_at_remedies(),
            self.session.look_at_source(),
        ];
        if is_news.contains(&true) {
            self.display.request(Due::Now);
        }
        self.settle(now);
        self.decide_when_known(now);
        self.prove(now);
        self.pass_gate(now);
        self.unpark();
        self.stay_reachable(now);
        if let Some(spool) = &mut self.spool {
            if let Some(note) = spool.note(Instant::now()) {
                self.session.record(EventKind::Note(note));
            }
            spool.hurry(match self.link.phase() {
                SessionPhase::Settling { .. }
                | SessionPhase::Sweeping { .. }
                | SessionPhase::Proving { .. }
                | SessionPhase::Gating { .. } => true,
                SessionPhase::Starting
                | SessionPhase::Running { .. }
                | SessionPhase::Asking { .. }
                | SessionPhase::Leaving(_) => false,
            });
        }
        self.end_what_nobody_sees();
        if self.display.takes_leave(now) {
            self.quit(false);
        }
        self.tell_news();
        let trainer = self.session.state.run().map(|run| run.pid);
        self.display.look_for_prompt(now, trainer);
        let is_stopping = self.display.waiting.is_some();
        let attached = self.display.is_up();
        self.link
            .describe(&self.session, attached, is_stopping, now);
    }
}
