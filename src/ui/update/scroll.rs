//! Scrolling, in whatever has the keyboard: a dialog, the step view, the output, a list, the devices.

use crate::ui::action::Scroll;
use crate::ui::available::list_rows;
use crate::ui::dialog::Dialog;
use crate::ui::dialogs::oom;
use crate::ui::layout::layout_of;
use crate::ui::pane::rank_map;
use crate::ui::pane::spec::Scrolling;
use crate::ui::scene::Scene;
use crate::ui::step::choice;
use crate::ui::step::layout::step_layout;
use crate::ui::view::{Keyboard, View};

pub(in crate::ui) fn scroll(view: &mut View, scroll: Scroll, scene: &Scene) {
    match &mut view.dialog {
        Some(Dialog::Oom(dialog)) => {
            let reading = oom::scrolling(view.size, &view.theme, dialog, scene);
            return dialog.scroll(scroll, reading.most, scene);
        }
        Some(Dialog::Help(help)) => return help.scroll(scroll),
        Some(Dialog::Edit(_) | Dialog::Quit | Dialog::Stop | Dialog::Search(_)) => return,
        None => {}
    }
    if view.step.is_some() {
        return choice::scroll(view, scroll, scene);
    }
    if view.keyboard == Keyboard::Selection {
        return view.output.extend_selection(scroll);
    }
    match view.pane.spec().scrolling {
        Scrolling::Nothing => {}
        Scrolling::Output => view.output.scroll(scroll),
        Scrolling::Devices if rank_map::is_wanted(scene.state) => {
            let order = rank_map::order(scene.state);
            let at = order
                .iter()
                .position(|place| *place == view.device)
                .unwrap_or(0);
            let last = order.len().saturating_sub(1);
            let to = match scroll {
                Scroll::Up(by) => at.saturating_sub(by),
                Scroll::Down(by) => (at + by).min(last),
                Scroll::Start => 0,
                Scroll::End => last,
            };
            view.device = order.get(to).copied().unwrap_or(view.device);
        }
        Scrolling::Devices => {
            let last = scene.state.devices.len().saturating_sub(1);
            view.device = match scroll {
                Scroll::Up(_) => view.device.saturating_sub(1),
                Scroll::Down(_) => (view.device + 1).min(last),
                Scroll::Start => 0,
                Scroll::End => last,
            };
        }
        Scrolling::List { .. } => {
            let (all, shown) = list_rows(view, scene);
            view.list.scroll(scroll, all, shown);
        }
    }
}

pub(super) fn page(view: &View, scene: &Scene) -> usize {
    if let Some(Dialog::Oom(dialog)) = &view.dialog {
        let reading = oom::scrolling(view.size, &view.theme, dialog, scene);
        return reading.shown.max(1);
    }
    let rows = match view.step {
        Some(_) if view.dialog.is_none() => step_layout(view, scene).lines_shown(),
        Some(_) | None => layout_of(view, scene).pane_rows(),
    };
    rows.saturating_sub(1).max(1)
}
