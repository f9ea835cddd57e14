//! What layout, keys and drawing need to know of a pane.

use super::ListScroll;
use crate::state::State;
use crate::ui::canvas::Canvas;
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use ratatui::layout::Rect;

/// What layout, keys and drawing need to know of a pane: its file has it as `PANE`.
pub(in crate::ui) struct PaneSpec {
    /// The pane's title and the name of its tab.
    pub title: &'static str,
    /// The tab's name where the whole names have no room.
    pub short: &'static str,
    /// Words beside the title in a place of its own.
    pub subtitle: fn(&View, &State) -> Option<(String, Tone)>,
    /// Draws what its title would say beside it where it stands above the tabs, which leave no room for that; returns how many rows
    /// that took.
    pub first_rows: fn(&mut Canvas, &View, &Scene) -> u16,
    /// Rows of a place of its own on a screen with two columns, the title's row included; 0 where it has no such place. The arguments
    /// are the view, the state, the screen's rows and the rows left in its column.
    pub own_rows: fn(&View, &State, u16, u16) -> u16,
    pub scrolling: Scrolling,
    /// Rows in which all of it is shown below the chart, which has those that are left.
    pub rows: PaneRows,
    /// Whether there is anything to be shown: else its tab is dim.
    pub is_there: fn(&State) -> bool,
    /// Whether there is a tab at all. Only the last one may be without, so that none changes its place.
    pub has_tab: fn(&State) -> bool,
    pub draw: Draw,
}

/// Rows in which all that a pane has to show is shown, at a width.
#[derive(Clone, Copy)]
pub(in crate::ui) enum PaneRows {
    /// As many as there are.
    Any,
    Fixed(fn(&View, &Scene, u16) -> u16),
    /// A list that becomes longer while the training runs.
    Growing(fn(&View, &Scene, u16) -> u16),
}

/// What scrolling moves in a pane.
#[derive(Clone, Copy)]
pub(in crate::ui) enum Scrolling {
    Nothing,
    Output,
    /// The selected device.
    Devices,
    List {
        /// How many entries the list has.
        length: fn(&Scene) -> usize,
        /// How many of them fit.
        shown: fn(Rect) -> usize,
    },
}

type Draw = fn(&mut Canvas, &View, &Scene, ListScroll);

impl PaneSpec {
    /// A pane that is only shown below the chart and does not scroll.
    pub const fn plain(title: &'static str, draw: Draw) -> PaneSpec {
        PaneSpec {
            title,
            short: title,
            subtitle: |_, _| None,
            first_rows: |_, _, _| 0,
            own_rows: |_, _, _, _| 0,
            scrolling: Scrolling::Nothing,
            rows: PaneRows::Any,
            is_there: |_| true,
            has_tab: |_| true,
            draw,
        }
    }
}
