//! The fold itself: one event into the state.

use super::State;
use crate::event::Event;

impl State {
    /// Takes one event in.
    pub fn apply(&mut self, event: &Event) {
        self.now = self.now.max(event.at);
    }
}
