//! The mouse: what a click, the wheel and a drag change in a [`View`].

use super::action::{Action, Effect, Scroll};
use super::available::is_available;
use super::chart::{self, Move};
use super::dialog::{Details, Dialog};
use super::keymap::{self, InputMode};
use super::layout::layout_of;
use super::pane::{ListScroll, Pane};
use super::scene::Scene;
use super::step::choice;
use super::update::{act, begin_selecting, scroll};
use super::view::{Keyboard, View};
use super::{dialogs, panes, status};
use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

/// Lines by which a notch of the wheel scrolls.
const NOTCH: usize = 3;

impl View {
    /// A click selects a remedy, a pane or a key of the footer, or puts the chart's cursor, the wheel scrolls or zooms the chart,
    /// and dragging selects rows of the output.
    pub fn mouse(&mut self, event: MouseEvent, scene: &Scene) -> Option<Effect> {
        let chart = layout_of(self, scene).chart();
        let at = Position::new(event.column, event.row);
        let on_chart = self.dialog.is_none()
            && self.step.is_none()
            && chart.is_some_and(|area| area.contains(at));
        if let Some(scrolled) = self.wheel_in_details(event.kind) {
            scroll(self, scrolled, scene);
            return None;
        }
        let action = match (event.kind, on_chart) {
            (MouseEventKind::ScrollUp, true) => Action::Time(Move::In),
            (MouseEventKind::ScrollDown, true) => Action::Time(Move::Out),
            (MouseEventKind::ScrollUp, false) => Action::Up,
            (MouseEventKind::ScrollDown, false) => Action::Down,
            (MouseEventKind::Drag(MouseButton::Left), false) if self.mode() != InputMode::Step => {
                drag(self, at, scene);
                return None;
            }
            (
                MouseEventKind::Down(MouseButton::Left) | MouseEventKind::Drag(MouseButton::Left),
                _,
            ) => {
                self.pressed = at;
                match (on_chart, self.mode()) {
                    (true, _) => point(self, at, scene),
                    (false, InputMode::Step) => choice::point(self, at, scene),
                    (false, _) => {}
                }
                return match (on_chart, event.kind) {
                    (false, MouseEventKind::Down(_)) => click(self, at, scene),
                    (_, _) => None,
                };
            }
            (_, _) => return None,
        };
        let bound = keymap::bindings(self.mode()).any(|binding| binding.action == action);
        (bound && is_available(self, action, scene))
            .then(|| act(self, action, scene))
            .flatten()
    }
}

impl View {
    /// The wheel over the evidence scrolls it: a remedy is selected by a click.
    fn wheel_in_details(&self, kind: MouseEventKind) -> Option<Scroll> {
        let Some(Dialog::Oom(dialog)) = &self.dialog else {
            return None;
        };
        match (dialog.details, kind) {
            (Details::Full { .. }, MouseEventKind::ScrollUp) => Some(Scroll::Up(NOTCH)),
            (Details::Full { .. }, MouseEventKind::ScrollDown) => Some(Scroll::Down(NOTCH)),
            (Details::Full { .. } | Details::Brief, _) => None,
        }
    }
}

/// Moves the chart's cursor to the mouse.
fn point(view: &mut View, at: Position, scene: &Scene) {
    if let Some(chart) = layout_of(view, scene).chart() {
        let plot = chart::plot_of(chart);
        let column = at.x.saturating_sub(plot.x);
        view.time.point(column, scene.state.now, plot.width);
    }
}

/// Selects a remedy or a pane, or does what a key of the footer does. What ends a training is done by its key alone: a click
/// may go astray.
fn click(view: &mut View, at: Position, scene: &Scene) -> Option<Effect> {
    let layout = layout_of(view, scene);
    let is_covered = matches!(view.dialog, Some(Dialog::Search(_)));
    if let Some(row) = layout.footer.filter(|row| row.contains(at) && !is_covered) {
        let action = status::footer_action(view, scene, row, at.x)?;
        let ends = matches!(
            action,
            Action::StopAndRelaunch | Action::QuitAndStop | Action::Stop | Action::Kill
        );
        return (!ends).then(|| act(view, action, scene)).flatten();
    }
    if view.dialog.is_none() && view.step.is_none() {
        let tabs = &layout.tabs;
        let of_tab = layout
            .tab_row()
            .and_then(|row| panes::tab_at(row, tabs, view, at));
        let mut placed = layout.placed.iter();
        let of_place = placed
            .find(|(_, area)| area.contains(at))
            .map(|(pane, _)| *pane);
        let pane = of_tab.or(of_place.filter(|pane| tabs.contains(pane)));
        if let Some(pane) = pane {
            view.pane = pane;
            view.list = ListScroll::default();
        }
    }
    if let Some(Dialog::Oom(dialog)) = &mut view.dialog
        && let Some(row) = dialogs::oom::remedy_at(view.size, &view.theme, dialog, scene, at)
    {
        dialog.select(row, scene.remedies);
    }
    None
}

/// Selects the rows from where the button went down to the mouse.
fn drag(view: &mut View, at: Position, scene: &Scene) {
    let on_output = view.dialog.is_none() && view.pane == Pane::Output && scene.has_output();
    let pane = layout_of(view, scene).inside_pane();
    let Some(pane) = pane.filter(|pane| on_output && pane.contains(view.pressed)) else {
        return;
    };
    let top = pane.y;
    let row = |y: u16| y.saturating_sub(top).min(pane.height.saturating_sub(1));
    match view.keyboard {
        Keyboard::Selection => view.output.select_to(row(at.y)),
        Keyboard::Oomph => begin_selecting(view, Some(row(view.pressed.y))),
        Keyboard::Training => {}
    }
}
