//! The screen: draws the state, changes nothing of it.
//!
//! Three things meet here. A [`Scene`] is what the loop knows, borrowed for one frame or one key. A
//! [`View`] is how the user wants to see it: pane, zoom, dialog. [`draw`] turns both into cells, from
//! shared borrows alone. Keys go through one table ([`keymap`]) to an [`Action`]; an action changes
//! the view, or comes out as an [`Effect`] for the loop to carry out. Nothing here does I/O but
//! [`terminal`], which is the one place that knows escape sequences of the user's terminal.
//!
//! ```text
//! scene.rs view.rs action.rs keymap.rs    what is drawn, how, what keys mean, what follows
//! layout.rs panes/ chart/ dialog/         who gets which part, and what is in it
//! theme.rs pen.rs figures.rs              colours and glyphs, text, numbers that keep their width
//! child.rs editor.rs typing.rs            the program's terminal, a command being edited, keys as bytes
//! terminal.rs                             the user's terminal: entered, drawn on, left whole
//! ```

pub mod action;
mod chart;
mod child;
mod dialog;
mod difference;
mod editor;
mod figures;
pub mod keymap;
mod layout;
mod panes;
mod pen;
mod scene;
pub mod terminal;
pub mod theme;
mod typing;
mod view;

pub use action::{Action, Effect, Find, ReplayControl, Scroll, Select};
pub use chart::Move;
pub use child::ChildScreen;
pub use editor::restore_masked;
pub use scene::{Pace, Replay, Scene};
pub use theme::Theme;
pub use view::{Keyboard, Pane, Spread, View};

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

/// Draws one frame.
pub fn draw(frame: &mut Frame, view: &View, scene: &Scene) {
    let area = frame.area();
    let cursor = draw_screen(frame.buffer_mut(), area, view, scene);
    if let Some(at) = cursor.filter(|at| area.contains(*at)) {
        frame.set_cursor_position(at);
    }
}

/// Draws the screen; returns where the text cursor belongs, if anywhere.
fn draw_screen(buf: &mut Buffer, area: Rect, view: &View, scene: &Scene) -> Option<Position> {
    let state = scene.state;
    let layout = layout::arrange(area, view.spread, state);
    if let Some(area) = layout.line {
        panes::line::draw(buf, area, view, state);
    }
    if let Some(area) = layout.header {
        panes::header::draw(buf, area, view, scene);
    }
    if let Some(area) = layout.chart {
        panes::memory::draw(buf, area, view, scene);
    }
    if let Some(area) = layout.bar {
        panes::bar::draw(buf, area, view, state);
    }
    if let Some(area) = layout.headroom {
        panes::headroom::draw(buf, area, view, scene);
    }
    if let Some(area) = layout.make_up {
        panes::make_up::draw(buf, area, view, state);
    }
    draw_side(buf, view, scene, &layout);
    let child_cursor = layout
        .pane
        .and_then(|area| panes::draw_chosen(buf, area, view, scene, panes_of(&layout)));
    if let Some(area) = layout.footer {
        panes::footer::draw(buf, area, view, scene);
    }
    match &view.dialog {
        Some(dialog) => dialog::draw(buf, area, view, scene, dialog),
        None => child_cursor.filter(|_| view.keyboard == Keyboard::Training),
    }
}

/// The panes that Tab goes through on this screen.
fn panes_of(layout: &layout::Layout) -> &'static [Pane] {
    match layout.devices {
        Some(_) => &[Pane::Output, Pane::Runs, Pane::Events],
        None => &Pane::ALL,
    }
}

/// The lists beside or above the pane that is chosen, where there is room for them.
fn draw_side(buf: &mut Buffer, view: &View, scene: &Scene, layout: &layout::Layout) {
    use theme::Tone;
    let theme = &view.theme;
    let list = view::List::default();
    if let Some(area) = layout.devices {
        let inside = pen::head(buf, area, theme, &[("devices and ranks", Tone::Strong)]);
        panes::devices::draw(buf, inside, view, scene.state);
    }
    if let Some(area) = layout.runs {
        let inside = pen::head(buf, area, theme, &[("runs", Tone::Strong)]);
        panes::runs::draw(buf, inside, theme, scene.state, list);
    }
    if let Some(area) = layout.events {
        let inside = pen::head(buf, area, theme, &[("events", Tone::Strong)]);
        panes::events::draw(buf, inside, theme, scene, list);
    }
}
