//! Whether an action does something now: the footer and the help list no other keys.

use super::{Keyboard, View};
use crate::remedy::{Availability, RemedyId};
use crate::state::Outcome;
use crate::ui::action::Action;
use crate::ui::chart::Move;
use crate::ui::pane::Pane;
use crate::ui::scene::Scene;

impl View {
    /// Whether an action does something now.
    pub fn is_available(&self, action: Action, scene: &Scene) -> bool {
        let run = scene.state.run();
        let live = scene.replay.is_none();
        let running = live && run.is_some_and(|run| run.outcome() == Outcome::Running);
        let devices = scene.state.devices.len();
        let charted = self.layout(scene).chart().is_some();
        match action {
            Action::NextPane
            | Action::PreviousPane
            | Action::Spread
            | Action::SpreadChart
            | Action::Suspend
            | Action::Redraw
            | Action::Help
            | Action::Quit
            | Action::Mouse
            | Action::NextTheme
            | Action::Details
            | Action::Interrupt
            | Action::Back
            | Action::QuitAndStop
            | Action::QuitAndLeave => true,
            Action::NextDevice | Action::PreviousDevice => devices > 1,
            Action::Time(Move::CursorForward) => charted && self.time.cursor().is_some(),
            Action::Time(Move::Reset) => charted && self.time.is_chosen(),
            // A recording is held as a whole.
            Action::Time(Move::PauseOrGoOn) => live && charted && devices > 0,
            Action::Time(_) | Action::OtherHeight => charted && devices > 0,
            Action::Up | Action::Down | Action::PageUp | Action::PageDown => {
                self.dialog.is_some() || self.is_selecting() || self.pane_scrolls(scene)
            }
            Action::OpenOom => {
                let refused = || scene.remedies.iter().any(|r| r.id == RemedyId::Without);
                scene.state.oom().is_some() || refused()
            }
            Action::ToStart | Action::ToEnd => self.is_selecting() || self.pane_scrolls(scene),
            Action::Find => live && run.is_some(),
            Action::FindOlder | Action::FindNewer | Action::EndFind => {
                live && scene.child.search().is_some()
            }
            Action::Select => live && run.is_some(),
            Action::TakeFind => true,
            Action::EditCommand => live && run.is_some() && scene.waiting.is_none(),
            Action::Relaunch => live && run.is_some() && scene.waiting.is_none(),
            Action::Combine => {
                let mut remedies = scene.remedies.iter();
                live && remedies.any(|r| matches!(r.availability, Availability::Offered))
            }
            Action::Compare => charted && scene.state.runs.len() > 1,
            Action::Copy => run.is_some(),
            Action::TypeToTraining | Action::AskToStop => running,
            Action::Stop | Action::Kill => running,
            Action::PlayOrPause | Action::Faster | Action::Slower => !live,
        }
    }

    /// Whether footer and help name an action: where it is available and its words are so. Ctrl-C
    /// leaves a recording, which has no training to be interrupted.
    pub fn is_listed(&self, action: Action, scene: &Scene) -> bool {
        let interrupts = action == Action::Interrupt;
        self.is_available(action, scene) && !(interrupts && scene.replay.is_some())
    }

    fn is_selecting(&self) -> bool {
        self.keyboard == Keyboard::Selection
    }

    fn pane_scrolls(&self, scene: &Scene) -> bool {
        match self.pane {
            Pane::Memory | Pane::MakeUp | Pane::Allocator => false,
            Pane::Output => scene.child.has_scrollback(),
            Pane::Devices => scene.state.devices.len() > 1,
            Pane::Runs | Pane::Events => self.pane_length(scene) > self.pane_shown(scene),
        }
    }
}
