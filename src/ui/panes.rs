//! The panes on the screen: in a place of their own, or one of them below the chart, above the tabs of all that can be there.

use crate::ui::canvas::{Canvas, columns};
use crate::ui::layout::Layout;
use crate::ui::pane::spec::PaneSpec;
use crate::ui::pane::{ListScroll, Pane, output, spec_of_pane};
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::{Keyboard, View};
use ratatui::layout::{Position, Rect};

impl Pane {
    /// What layout, keys and drawing need to know of the pane.
    pub(super) const fn spec(self) -> &'static PaneSpec {
        spec_of_pane!(self)
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

/// Draws the chosen pane, and the tabs below it. Returns the position of the program's cursor.
pub(super) fn draw_chosen(
    canvas: &mut Canvas,
    view: &View,
    scene: &Scene,
    layout: &Layout,
) -> Option<Position> {
    let up = view.output.scrolled();
    let scrolled = format!(" {} {up} rows up", canvas.theme.glyphs.paused);
    let note = match (view.pane, view.keyboard) {
        (Pane::Output, Keyboard::Training) => "  your keys go to the training",
        (Pane::Output, _) if up > 0 => &scrolled,
        (_, _) => "",
    };
    let row = layout.tab_row()?;
    let mut tabs = tab_titles(&layout.tabs, &layout.absent, view, row.width);
    // The tabs stay where they are: the last ones give way to the note.
    while wide(&tabs) + columns(note) + AROUND > row.width && tabs.len() > 1 {
        tabs.pop();
    }
    let tabs = tabs.iter().map(|tab| (tab.text.as_str(), tab.tone));
    let title: Vec<(&str, Tone)> = tabs.chain([(note, Tone::Accent)]).collect();
    canvas.at(row).rule(&title);
    let mut inside = canvas.at(layout.inside_pane()?);
    match view.pane {
        Pane::Output => draw_output(&mut inside, view, scene),
        pane => {
            let rows = (pane.spec().first_rows)(&mut inside, view, scene);
            inside.area.y += rows;
            inside.area.height -= rows;
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

/// The pane whose name stands at a position of the tabs' row.
pub(super) fn tab_at(row: Rect, tabs: &[Pane], view: &View, at: Position) -> Option<Pane> {
    let mut from = row.x + 2;
    for tab in tab_titles(tabs, &[], view, row.width) {
        let to = from + columns(&tab.text);
        if at.y == row.y && (from..to).contains(&at.x) {
            return tab.pane;
        }
        from = to;
    }
    None
}

/// A name in the row of tabs, or what stands between two.
struct TabTitle {
    pane: Option<Pane>,
    text: String,
    tone: Tone,
}

/// Between two tabs where there is no room for a dot.
const CLOSE: &str = "  ";

/// Columns around the titles in their row.
const AROUND: u16 = 4;

/// How much of the panes' names there is room for.
#[derive(Clone, Copy)]
enum TabNames {
    Whole,
    Short,
    /// The numbers, which are keys, and the chosen one's name behind them.
    OfChosen,
}

/// The panes with their numbers, which are keys. Their places depend on the width alone, so that a second click at the same place meets
/// the same tab; those of `absent` have nothing to show yet.
fn tab_titles(tabs: &[Pane], absent: &[Pane], view: &View, width: u16) -> Vec<TabTitle> {
    let of = |names: TabNames, separator: &str| {
        let mut title: Vec<TabTitle> = Vec::new();
        for pane in tabs {
            if !title.is_empty() {
                title.push(TabTitle {
                    pane: None,
                    text: separator.into(),
                    tone: Tone::Faint,
                });
            }
            let tone = match (*pane == view.pane, absent.contains(pane)) {
                (true, _) => Tone::Strong,
                (false, false) => Tone::Dim,
                (false, true) => Tone::Faint,
            };
            let number = pane.number();
            let text = match names {
                TabNames::Whole => format!("{number} {}", pane.spec().title),
                TabNames::Short => format!("{number} {}", pane.spec().short),
                TabNames::OfChosen => number.to_string(),
            };
            title.push(TabTitle {
                pane: Some(*pane),
                text,
                tone,
            });
        }
        if let TabNames::OfChosen = names {
            title.push(TabTitle {
                pane: None,
                text: format!("{CLOSE}{}", view.pane.spec().title),
                tone: Tone::Strong,
            });
        }
        title
    };
    let dotted = view.theme.glyphs.separator;
    let fuller = [
        (TabNames::Whole, dotted),
        (TabNames::Whole, CLOSE),
        (TabNames::Short, CLOSE),
        (TabNames::Short, " "),
    ];
    let fuller = fuller.map(|(names, separator)| of(names, separator));
    let fitting = fuller
        .into_iter()
        .find(|title| wide(title) + AROUND <= width);
    fitting.unwrap_or_else(|| of(TabNames::OfChosen, CLOSE))
}

fn wide(title: &[TabTitle]) -> u16 {
    title.iter().map(|tab| columns(&tab.text)).sum()
}
