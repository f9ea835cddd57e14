//! The panes on the screen: in a place of their own, or one of them below the chart, with the tabs of all that can be there.

use crate::ui::canvas::{Canvas, columns};
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
    let tabs = tabs.iter().map(|tab| (tab.text.as_str(), tab.tone));
    let title: Vec<(&str, Tone)> = tabs.chain([(note, Tone::Accent)]).collect();
    let mut inside = canvas.below_head(&title);
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
    for tab in tab_titles(tabs, view, row.width) {
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

/// The names of the panes with their numbers, which are keys: closer together, or from the chosen one on, where there is
/// not room for more.
fn tab_titles(tabs: &[Pane], view: &View, width: u16) -> Vec<TabTitle> {
    let of = |from: usize, separator: &str| {
        let mut title: Vec<TabTitle> = Vec::new();
        for pane in tabs.iter().skip(from) {
            if !title.is_empty() {
                title.push(TabTitle {
                    pane: None,
                    text: separator.into(),
                    tone: Tone::Faint,
                });
            }
            let tone = match *pane == view.pane {
                true => Tone::Strong,
                false => Tone::Dim,
            };
            let name = pane.spec().title;
            title.push(TabTitle {
                pane: Some(*pane),
                text: format!("{} {name}", pane.number()),
                tone,
            });
        }
        title
    };
    let wide = |title: &[TabTitle]| title.iter().map(|tab| columns(&tab.text)).sum::<u16>();
    let dotted = view.theme.glyphs.separator;
    let whole = [of(0, dotted), of(0, CLOSE)];
    let fitting = whole.into_iter().find(|title| wide(title) + 4 <= width);
    fitting.unwrap_or_else(|| {
        let chosen = tabs.iter().position(|pane| *pane == view.pane).unwrap_or(0);
        let mut rest = of(chosen, dotted);
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
