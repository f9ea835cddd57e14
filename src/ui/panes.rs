//! The panes: one row of a table each, with what layout, keys and drawing have to know of it, and one
//! file each with what is in it.

mod allocator;
pub(super) mod breakdown;
mod devices;
mod events;
mod memory;
mod output;
mod runs;

use super::canvas::Canvas;
use super::list::ListScroll;
use super::pane::Pane;
use super::pen::columns;
use super::scene::Scene;
use super::theme::Tone;
use super::view::{Keyboard, View};
use crate::state::State;
use ratatui::layout::{Position, Rect};

/// What there is to know of a pane beside what is in it.
pub struct PaneSpec {
    /// Its name, as title and as tab.
    pub title: &'static str,
    /// What stands beside the title in a place of its own.
    subtitle: fn(&View, &State) -> Option<(String, Tone)>,
    /// Rows that it takes of a screen with two columns, its title included: from the state, the rows
    /// of the screen and those that are left in its column. With none it has no place of its own.
    pub own_rows: fn(&State, u16, u16) -> u16,
    /// Whether the place below the chart shows more of it than its own: such a pane has both.
    pub gains_from_width: bool,
    /// What scrolling moves in it.
    pub scrolling: Scrolling,
    draw: Draw,
}

/// What scrolling moves in a pane.
#[derive(Clone, Copy)]
pub enum Scrolling {
    /// Nothing.
    Nothing,
    /// The program's output.
    Output,
    /// The selected device.
    Devices,
    /// A list.
    List {
        /// How many entries it has.
        length: fn(&Scene) -> usize,
        /// How many of them fit into a place.
        shown: fn(Rect) -> usize,
    },
}

/// From this height on devices and ranks have a table of their own, where there are several.
const HEIGHT_FOR_DEVICES: u16 = 32;

/// From this height on the allocator stands between memory and runs.
const HEIGHT_FOR_ALLOCATOR: u16 = 36;

type Draw = fn(&mut Canvas, &View, &Scene, ListScroll);

impl PaneSpec {
    /// A pane with nothing but a title and what is in it, below the chart.
    fn plain(title: &'static str, draw: Draw) -> PaneSpec {
        PaneSpec {
            title,
            subtitle: |_, _| None,
            own_rows: |_, _, _| 0,
            gains_from_width: false,
            scrolling: Scrolling::Nothing,
            draw,
        }
    }
}

impl Pane {
    /// Its row of the table.
    pub fn spec(self) -> PaneSpec {
        match self {
            Pane::Memory => PaneSpec {
                own_rows: |_, screen, _| (screen * 9 / 20).max(7),
                ..PaneSpec::plain("chart", memory::draw)
            },
            Pane::Breakdown => PaneSpec {
                subtitle: |view, state| Some(breakdown::moment_words(view, state)),
                own_rows: |_, _, _| breakdown::HEIGHT + 1,
                ..PaneSpec::plain("memory", breakdown::draw)
            },
            Pane::Output => PaneSpec {
                gains_from_width: true,
                scrolling: Scrolling::Output,
                ..PaneSpec::plain("output", output::draw)
            },
            Pane::Devices => PaneSpec {
                own_rows: |state, screen, _| match devices::length(state) {
                    rows if rows > 1 && screen >= HEIGHT_FOR_DEVICES => rows.min(9) as u16 + 2,
                    _ => 0,
                },
                scrolling: Scrolling::Devices,
                ..PaneSpec::plain("devices", devices::draw)
            },
            Pane::Runs => PaneSpec {
                own_rows: |_, _, rest| (rest * 2 / 5).max(5),
                gains_from_width: true,
                scrolling: Scrolling::List {
                    length: |scene| scene.state.runs.len(),
                    shown: runs::shown,
                },
                ..PaneSpec::plain("runs", runs::draw)
            },
            Pane::Events => PaneSpec {
                own_rows: |_, _, rest| rest,
                gains_from_width: true,
                scrolling: Scrolling::List {
                    length: events::length,
                    shown: |area| area.height.into(),
                },
                ..PaneSpec::plain("events", events::draw)
            },
            Pane::Allocator => PaneSpec {
                subtitle: |view, state| Some((allocator::rank_name(view, state)?, Tone::Dim)),
                own_rows: |_, screen, _| match screen >= HEIGHT_FOR_ALLOCATOR {
                    true => allocator::HEIGHT + 1,
                    false => 0,
                },
                ..PaneSpec::plain("allocator", allocator::draw)
            },
        }
    }
}

/// Draws a pane in a place of its own, where it follows what is new.
pub(super) fn draw_placed(canvas: &mut Canvas, pane: Pane, view: &View, scene: &Scene) {
    let spec = pane.spec();
    let list = ListScroll::default();
    // The chart's title is the device, which it draws itself.
    if pane == Pane::Memory {
        return (spec.draw)(canvas, view, scene, list);
    }
    let mut title = vec![(spec.title, Tone::Strong)];
    let subtitle = (spec.subtitle)(view, scene.state);
    if let Some((words, tone)) = &subtitle {
        title.extend([(canvas.theme.glyphs.separator, Tone::Dim), (words, *tone)]);
    }
    (spec.draw)(&mut canvas.below_head(&title), view, scene, list);
}

/// Draws the pane that the user has chosen, the others' names beside its own. Returns where the
/// program's cursor stands.
pub(super) fn draw_chosen(
    canvas: &mut Canvas,
    view: &View,
    scene: &Scene,
    tabs: &[Pane],
) -> Option<Position> {
    let mut title = tab_titles(tabs, view, canvas.area.width);
    let up = view.output.scrolled();
    let scrolled = format!(" {} {up} rows up", canvas.theme.glyphs.paused);
    match (view.pane, view.keyboard) {
        (Pane::Output, Keyboard::Training) => {
            title.push(("  your keys go to the training", Tone::Accent));
        }
        (Pane::Output, _) if up > 0 => title.push((&scrolled, Tone::Accent)),
        (_, _) => {}
    }
    let mut inside = canvas.below_head(&title);
    (view.pane.spec().draw)(&mut inside, view, scene, view.list);
    let is_output = view.pane == Pane::Output && scene.replay.is_none();
    is_output.then(|| output::cursor(&inside, &view.output))?
}

/// The names of the panes that Tab goes through; where there is no room for all, those from the
/// chosen one on.
fn tab_titles(tabs: &[Pane], view: &View, width: u16) -> Vec<(&'static str, Tone)> {
    let separator = view.theme.glyphs.separator;
    let of = |tabs: &[Pane]| {
        let mut title: Vec<(&'static str, Tone)> = Vec::new();
        for &pane in tabs {
            if !title.is_empty() {
                title.push((separator, Tone::Faint));
            }
            let tone = match pane == view.pane {
                true => Tone::Strong,
                false => Tone::Dim,
            };
            title.push((pane.spec().title, tone));
        }
        title
    };
    let all = of(tabs);
    if all.iter().map(|(text, _)| columns(text)).sum::<u16>() + 4 <= width {
        return all;
    }
    let chosen = tabs.iter().position(|pane| *pane == view.pane).unwrap_or(0);
    of(&tabs[chosen..])
}
