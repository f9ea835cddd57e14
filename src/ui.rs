//! The screen: draws the state and never changes it.
//!
//! A [`Scene`] is what the loop knows, borrowed for one frame or one key. A [`View`] is how the
//! user wants to see it: pane, zoom, dialog. [`draw`] turns both into cells. Keys go through one
//! table ([`keymap`]) to an [`Action`], which changes the view or returns an [`Effect`] for the
//! loop to carry out. Only [`terminal`] does I/O and knows the escape sequences of the user's
//! terminal.
//!
//! ```text
//! scene.rs view.rs dialog.rs             what is drawn and how, as data
//! keymap.rs action.rs available.rs        what keys mean, and whether they mean it now
//! update.rs mouse.rs                      what keys, the mouse and events of the session change
//! layout.rs status.rs headroom.rs         the parts of the screen and what is in them
//! pane.rs pane/ panes.rs                  the panes, and the tabs for them
//! dialogs.rs dialogs/                     what lies over it
//! chart/                                  memory over time
//! step/                                   what one step is made of
//! canvas.rs difference.rs                 a part of the screen and text on it, the difference of two commands
//! theme.rs words.rs                       colours and characters, words and figures
//! child.rs emulator.rs                    the program's terminal
//! output_rows.rs reflow.rs                what is searched and selected in it; its rows at another width
//! editor.rs                               a line of text or a command being edited
//! picker.rs picker/                       the list of sessions, which is no session's screen
//! terminal.rs                             the user's terminal
//! ```

pub mod action;
mod available;
mod banner;
mod batches;
mod canvas;
mod chart;
mod child;
mod dialog;
mod dialogs;
mod difference;
mod editor;
mod emulator;
mod headroom;
pub mod keymap;
mod layout;
mod mouse;
mod no_use;
mod output_rows;
mod pane;
mod panes;
pub mod picker;
mod ram;
mod reflow;
mod scene;
mod status;
mod step;
pub mod terminal;
pub mod theme;
mod update;
mod view;
mod words;

pub use action::{
    Action, ActionReach, Effect, FlameMove, ReplayControl, Scroll, SeekTarget, StepMove,
};
pub use chart::Move;
pub use child::ChildScreen;
pub use editor::restore_masked;
pub use pane::Pane;
pub use scene::{
    Elsewhere, LaterRun, Pace, RanWell, RecordedOutput, Replay, RoomForBatch, Scene, ShownRun,
    Subject,
};
pub use theme::Theme;
pub use view::{Keyboard, Maximized, Mouse, Preferences, View};

use canvas::Canvas;
use layout::Layout;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

pub fn draw(frame: &mut Frame, view: &View, scene: &Scene) {
    let area = frame.area();
    let cursor = draw_screen(frame.buffer_mut(), area, view, scene);
    if let Some(at) = cursor.filter(|at| area.contains(*at)) {
        frame.set_cursor_position(at);
    }
}

/// Draws chart and panes; returns the position of the program's cursor.
fn draw_body(screen: &mut Canvas, view: &View, scene: &Scene, layout: &Layout) -> Option<Position> {
    for (pane, area) in &layout.placed {
        panes::draw_placed(&mut screen.at(*area), *pane, view, scene);
    }
    if let Some(area) = layout.ram {
        ram::draw(&mut screen.at(area), scene.state);
    }
    if let Some(area) = layout.bar {
        pane::breakdown::draw_bar(&mut screen.at(area), view, scene);
    }
    if let Some(area) = layout.headroom {
        headroom::draw_headroom(&mut screen.at(area), view, scene);
    }
    let area = layout.pane?;
    panes::draw_chosen(&mut screen.at(area), view, scene, layout)
}

/// What changes with the program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OutputPlace {
    /// The line above, of which the count of steps is compared with the program's own.
    header: Rect,
    /// Above the row with the names of the panes.
    output: Rect,
}

/// Where the program's output is, if nothing lies over it.
fn output_place(view: &View, scene: &Scene) -> Option<OutputPlace> {
    let is_seen = view.shows_output() && view.dialog.is_none();
    // While it is scrolled back, that row says by how much.
    let is_scrolled = view.output.scrolled() > 0;
    if !is_seen || is_scrolled || !scene.is_live() {
        return None;
    }
    let layout = layout::layout_of(view, scene);
    Some(OutputPlace {
        header: layout.header?,
        output: layout.inside_pane()?,
    })
}

/// Draws the program's output and the line above alone; returns where the text cursor belongs, if anywhere.
fn draw_output(
    buf: &mut Buffer,
    place: OutputPlace,
    view: &View,
    scene: &Scene,
) -> Option<Position> {
    let theme = &view.theme;
    let mut screen = Canvas {
        buf,
        area: place.header.union(place.output),
        theme,
    };
    status::draw_header(&mut screen.at(place.header), view, scene);
    let cursor = panes::draw_output(&mut screen.at(place.output), view, scene);
    cursor.filter(|_| view.keyboard == Keyboard::Training)
}

/// Draws the screen; returns where the text cursor belongs, if anywhere.
fn draw_screen(buf: &mut Buffer, area: Rect, view: &View, scene: &Scene) -> Option<Position> {
    let layout = layout::layout_of(view, scene);
    let theme = &view.theme;
    let mut screen = Canvas { buf, area, theme };
    if let Some(area) = layout.line {
        status::draw_smallest(&mut screen.at(area), view, scene);
    }
    if let Some(area) = layout.header {
        status::draw_header(&mut screen.at(area), view, scene);
    }
    if let Some(area) = layout.banner {
        banner::draw(&mut screen.at(area), scene);
    }
    let child_cursor = match &view.step {
        Some(open) => {
            step::draw(&mut screen.at(layout.body), open, view, scene);
            None
        }
        None => draw_body(&mut screen, view, scene, &layout),
    };
    if let Some(area) = layout.footer {
        status::draw_footer(&mut screen.at(area), view, scene);
    }
    match &view.dialog {
        Some(dialog) => dialogs::draw(&mut screen, view, scene, dialog, layout.oom.as_ref()),
        None => child_cursor.filter(|_| view.keyboard == Keyboard::Training),
    }
}
