//! What the screen shows follows the session: the device and the ranks that a run uses.

use crate::state::State;
use crate::ui::layout::layout_of;
use crate::ui::pane::{Pane, rank_map};
use crate::ui::scene::Scene;
use crate::ui::view::View;
use crate::units::Uuid;

/// Keeps what the map of ranks shows, where it is on the screen.
pub(super) fn follow_ranks(view: &mut View, scene: &Scene) {
    let before = view.rank_map.take();
    let is_placed = || layout_of(view, scene).place(Pane::Devices).is_some();
    if rank_map::is_wanted(scene.state) && (view.pane == Pane::Devices || is_placed()) {
        view.rank_map = rank_map::followed(before, scene.state);
    }
}

/// Selects the first device that the run uses, until the user selects another.
pub(super) fn follow_device(view: &mut View, state: &State) {
    let Some(run) = state.run().filter(|_| view.device == view.followed) else {
        return;
    };
    let is_used = |uuid: &Uuid| (run.ranks.iter()).any(|rank| rank.device.as_ref() == Some(uuid));
    let mut devices = state.devices.iter();
    if let Some(first) = devices.position(|device| is_used(&device.uuid)) {
        view.device = first;
        view.followed = first;
    }
}

pub(super) fn select_device_of_oom(view: &mut View, state: &State) {
    let device = (state.explained_oom()).and_then(|oom| oom.device.as_ref());
    let at = device.and_then(|uuid| state.devices.iter().position(|d| d.uuid == *uuid));
    view.device = at.unwrap_or(view.device);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::state::tests::staged::{StagedSession, gib, hello, reading, record, started, uuid};
    use crate::ui::theme::Theme;

    #[test]
    fn what_stands_around_the_dialog_is_of_its_device() {
        let mut scene = StagedSession::default();
        scene.add(0.0, started(1, 10, "torchrun train.py"));
        for device in [0, 1] {
            let mut seen = reading(&[]);
            (seen.uuid, seen.index) = (uuid(device), device);
            scene.add(0.5, EventKind::Device(seen));
        }
        scene.add(1.0, hello(1, 100, Some(0)));
        scene.add(1.0, hello(1, 101, Some(1)));
        let mut out = record(101, gib(22.0), gib(22.0), gib(3.0), gib(0.1));
        out.device = 1;
        scene.add(3.0, EventKind::Oom(out));
        let mut view = View::new(Theme::full(), 100, 30);
        let shown = Scene::of(&scene.state);
        view.open_remedies(&shown);
        let device = view.device(&scene.state).expect("a device");
        assert_eq!(device.uuid, uuid(1));
    }
}
