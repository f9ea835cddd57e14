//! The panes: for each a row of a table for layout, keys and drawing, and a file that draws it.

mod allocator;
pub(super) mod breakdown;
mod devices;
mod events;
mod memory;
mod output;
pub(super) mod rank_map;
mod runs;
mod step;

use super::canvas::Canvas;
use super::pane::Pane;
use super::scene::Scene;
use super::theme::Tone;
use super::view::{Keyboard, View};
use crate::state::State;
use crate::ui::canvas::columns;
use crate::ui::pane::ListScroll;
use ratatui::layout::{Position, Rect};

/// A pane's row of the table.
pub struct PaneSpec {
    /// Its title and the name of its tab.
    pub title: &'static str,
    /// Words beside the title in a place of its own.
    subtitle: fn(&View, &State) -> Option<(String, Tone)>,
    /// Rows of its own place on a screen with two columns, with its title; none for no such place.
    /// Depends on the state, the screen's rows and the rows left in its column.
    pub own_rows: fn(&State, u16, u16) -> u16,
    /// Whether it is also shown below the chart, because more of it fits there.
    pub gains_from_width: bool,
    pub scrolling: Scrolling,
    draw: Draw,
}

/// What scrolling moves in a pane.
#[derive(Clone, Copy)]
pub enum Scrolling {
    Nothing,
    Output,
    /// The selected device.
    Devices,
    List {
        /// How many entries it has.
        length: fn(&Scene) -> usize,
        /// How many of them fit.
        shown: fn(Rect) -> usize,
    },
}

/// From this height on several devices and ranks have a table of their own.
const HEIGHT_FOR_DEVICES: u16 = 32;

/// From this height on the allocator has a place of its own.
const HEIGHT_FOR_ALLOCATOR: u16 = 36;

type Draw = fn(&mut Canvas, &View, &Scene, ListScroll);

impl PaneSpec {
    /// A pane that is only shown below the chart and does not scroll.
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
                own_rows: |state, screen, _| match screen >= HEIGHT_FOR_DEVICES {
                    false => 0,
                    true if rank_map::is_wanted(state) => rank_map::rows(state) + 2,
                    true => match devices::length(state) {
                        rows if rows > 1 => rows.min(9) as u16 + 2,
                        _ => 0,
                    },
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
            Pane::Step => PaneSpec {
                subtitle: |view, _| step::moment_words(view),
                gains_from_width: true,
                ..PaneSpec::plain("step", step::draw)
            },
            Pane::Allocator => PaneSpec {
                subtitle: |view, state| Some((allocator::shown_rank(view, state)?, Tone::Dim)),
                own_rows: |_, screen, _| match screen >= HEIGHT_FOR_ALLOCATOR {
                    true => allocator::HEIGHT + 1,
                    false => 0,
                },
                ..PaneSpec::plain("allocator", allocator::draw)
            },
        }
    }
}

/// Draws a pane in a place of its own.
pub(super) fn draw_placed(canvas: &mut Canvas, pane: Pane, view: &View, scene: &Scene) {
    let spec = pane.spec();
    let list = ListScroll::default();
    // The chart draws its title itself: the device.
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

/// Draws the chosen pane below the tabs. Returns the position of the program's cursor.
pub(super) fn draw_chosen(
    canvas: &mut Canvas,
    view: &View,
    scene: &Scene,
    tabs: &[Pane],
) -> Option<Position> {
    let up = view.output.scrolled();
    let scrolled = format!(" {} {up} rows up", canvas.theme.glyphs.paused);
    let note = match (view.pane, view.keyboard) {
        (Pane::Output, Keyboard::Training) => "  your keys go to the training",
        (Pane::Output, _) if up > 0 => &scrolled,
        (_, _) => "",
    };
    let room = canvas.area.width.saturating_sub(columns(note));
    let tabs = tab_titles(tabs, view, room);
    let tabs = tabs.iter().map(|(text, tone)| (text.as_str(), *tone));
    let title: Vec<(&str, Tone)> = tabs.chain([(note, Tone::Accent)]).collect();
    let mut inside = canvas.below_head(&title);
    match view.pane {
        Pane::Output => draw_output(&mut inside, view, scene),
        pane => {
            (pane.spec().draw)(&mut inside, view, scene, view.list);
            None
        }
    }
}

/// Draws the program's output without a head. Returns the position of the program's cursor.
pub(super) fn draw_output(canvas: &mut Canvas, view: &View, scene: &Scene) -> Option<Position> {
    output::draw(canvas, view, scene, view.list);
    scene
        .is_live()
        .then(|| output::cursor(canvas, &view.output))?
}

/// The names of the panes with their numbers; without them, or from the chosen one on, where there is not
/// room for more.
fn tab_titles(tabs: &[Pane], view: &View, width: u16) -> Vec<(String, Tone)> {
    let separator = view.theme.glyphs.separator;
    let of = |from: usize, numbered: bool| {
        let mut title: Vec<(String, Tone)> = Vec::new();
        for (number, pane) in (1..).zip(tabs).skip(from) {
            if !title.is_empty() {
                title.push((separator.into(), Tone::Faint));
            }
            let tone = match *pane == view.pane {
                true => Tone::Strong,
                false => Tone::Dim,
            };
            let name = pane.spec().title;
            let name = match numbered {
                true => format!("{number} {name}"),
                false => name.into(),
            };
            title.push((name, tone));
        }
        title
    };
    let wide = |title: &[(String, Tone)]| title.iter().map(|(text, _)| columns(text)).sum::<u16>();
    let whole = [of(0, true), of(0, false)];
    let fitting = whole.into_iter().find(|title| wide(title) + 4 <= width);
    fitting.unwrap_or_else(|| {
        let chosen = tabs.iter().position(|pane| *pane == view.pane).unwrap_or(0);
        let mut rest = of(chosen, true);
        while rest.len() > 1 && wide(&rest) + 4 > width {
            rest.pop();
        }
        if rest.len() > 1 && rest.len().is_multiple_of(2) {
            // A separator with nothing behind it.
            rest.pop();
        }
        rest
    })
}
