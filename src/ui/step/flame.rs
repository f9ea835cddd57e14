//! What is alive at the cursor as a flame graph of the modules, or of the lines where no module is known: each part has below it what it
//! contains, as wide as its share, and its name. One part is selected, and one may fill the whole width.
//!
//! ```text
//! ████████████████████████████████████████████ █████████████
//! transformer 20.1 GiB 81 %                    lm_head 3.1 GiB
//! ███████████████████████████████████████ ████
//! h.0–11 18.2 GiB                         wte
//! ❯ transformer → h.0–11  18.2 GiB, 73 % of what is alive, mostly activations
//! ```

use super::flame_place::{FlamePlace, along, names};
use super::holdings::{category_tone, draw_table, full_cell, percent};
use super::traced::ReadStep;
use crate::anatomy::FlameNode;
use crate::ui::action::FlameMove;
use crate::ui::canvas::{Canvas, columns};
use crate::ui::theme::Tone;
use crate::units::Bytes;
use ratatui::layout::{Position, Rect};

/// A part where it is drawn.
struct FlameCell<'n> {
    node: &'n FlameNode,
    path: Vec<&'n str>,
    area: Rect,
}

/// Rows of one level: its bar, and the row of names. Where there is room bars are taller.
const LEVEL: u16 = 2;
const TALLEST: u16 = 5;

/// Rows from which on a table below says something.
const WORTH_A_TABLE: u16 = 4;

/// Columns below which a part has no name.
const NAMED: u16 = 4;

fn depth(nodes: &[FlameNode]) -> u16 {
    let below = nodes.iter().map(|node| 1 + depth(&node.children));
    below.max().unwrap_or(0)
}

/// The parts in view, and how many rows they take.
fn cells<'n>(area: Rect, read: &'n ReadStep, place: &FlamePlace) -> (Vec<FlameCell<'n>>, u16) {
    let zoomed = along(&read.flame, &place.zoomed);
    let (nodes, whole, above) = match zoomed.split_last() {
        Some((node, above)) => (std::slice::from_ref(*node), node.bytes, above),
        None => (&read.flame[..], read.at_cursor(), &[][..]),
    };
    let levels = depth(nodes).max(1);
    let rows = (area.height / levels).clamp(LEVEL, TALLEST);
    let mut found = Vec::new();
    let path = above.iter().map(|node| node.name.as_str()).collect();
    level(area, rows, nodes, whole, path, &mut found);
    (found, (rows * levels).min(area.height))
}

/// Parts side by side, of a whole that is as wide as the area.
fn level<'n>(
    area: Rect,
    rows: u16,
    nodes: &'n [FlameNode],
    whole: Bytes,
    path: Vec<&'n str>,
    found: &mut Vec<FlameCell<'n>>,
) {
    if area.height < rows {
        return;
    }
    let column = |bytes: Bytes| {
        let share = bytes.fraction_of(whole).unwrap_or(0.0).min(1.0);
        (share * f64::from(area.width)).round() as u16
    };
    let mut before = Bytes::ZERO;
    for node in nodes {
        let (from, to) = (column(before), column(before + node.bytes));
        before += node.bytes;
        let part = Rect {
            x: area.x + from,
            // A column between two parts.
            width: (to - from).saturating_sub(u16::from(to < area.width)),
            height: rows,
            ..area
        };
        if part.width == 0 {
            continue;
        }
        let path = [&path[..], &[node.name.as_str()]].concat();
        let inside = Rect {
            y: part.y + rows,
            height: area.height - rows,
            ..part
        };
        found.push(FlameCell {
            node,
            path: path.clone(),
            area: part,
        });
        level(inside, rows, &node.children, node.bytes, path, found);
    }
}

/// The graph as a picture beside something else, where nothing is selected.
pub(super) fn draw(canvas: &mut Canvas, read: &ReadStep) {
    for cell in cells(canvas.area, read, &FlamePlace::default()).0 {
        draw_cell(
            &mut canvas.at(cell.area),
            cell.node,
            read.at_cursor(),
            Tone::Text,
        );
    }
}

/// The graph with its selected part, what is known of that, and the modules below where there is room for some of
/// them.
pub(super) fn draw_with_modules(canvas: &mut Canvas, read: &ReadStep) {
    let area = graph_area(canvas.area);
    let (cells, used) = cells(area, read, &read.flame_place);
    let selection = read.flame_place.selection(&read.flame);
    let is_selected = |cell: &FlameCell| {
        let names = selection.iter().map(|node| node.name.as_str());
        names.eq(cell.path.iter().copied())
    };
    for cell in &cells {
        let tone = match is_selected(cell) {
            true => Tone::Accent,
            false => Tone::Text,
        };
        draw_cell(&mut canvas.at(cell.area), cell.node, read.at_cursor(), tone);
    }
    let area = canvas.area;
    said_of(&mut canvas.at(area), used, &selection, read.at_cursor());
    let below = Rect {
        y: area.y.saturating_add(used + 2),
        height: area.height.saturating_sub(used + 2),
        ..area
    };
    if below.height >= WORTH_A_TABLE && !read.modules.is_empty() {
        draw_table(&mut canvas.at(below), read, None, None);
    }
}

/// What is said of the selected part has the last row.
fn graph_area(area: Rect) -> Rect {
    Rect {
        height: area.height.saturating_sub(1),
        ..area
    }
}

/// `❯ transformer → h.0–11  18.2 GiB, 73% of what is alive, mostly activations`.
fn said_of(canvas: &mut Canvas, row: u16, selection: &[&FlameNode], all: Bytes) {
    let Some(node) = selection.last() else { return };
    let glyphs = canvas.theme.glyphs;
    let path: Vec<&str> = selection.iter().map(|node| node.name.as_str()).collect();
    let path = glyphs.spelled(&path.join(&format!(" {} ", glyphs.arrow)));
    let share = percent(node.bytes.fraction_of(all).unwrap_or(0.0));
    let facts = format!(
        "  {}, {share} of what is alive, mostly {}",
        node.bytes,
        node.category.title()
    );
    let mut pen = canvas.pen(row);
    pen.text(glyphs.pointer, Tone::Accent).skip(1);
    let room = pen.room().saturating_sub(columns(&facts));
    match room >= columns(&path) {
        true => pen.text(&path, Tone::Strong).text(&facts, Tone::Text),
        // The figures stand in its cell as well; the whole name stands nowhere else.
        false => pen.rest(&path, Tone::Strong),
    };
}

fn draw_cell(canvas: &mut Canvas, node: &FlameNode, all: Bytes, tone: Tone) {
    let theme = canvas.theme;
    let rows = canvas.area.height;
    let full = full_cell(theme, node.category);
    for row in 0..rows - 1 {
        canvas.pen(row).fill(full, category_tone(node.category));
    }
    let mut pen = canvas.pen(rows - 1);
    let is_selected = tone == Tone::Accent;
    if is_selected {
        pen.text(theme.glyphs.pointer, tone);
    }
    if pen.room() < NAMED {
        return;
    }
    // A part of a name says less than the colour: `nar` may be any of three.
    let last = node.name.rsplit('.').next().unwrap_or_default();
    let names = [node.name.as_str(), last].map(|name| theme.glyphs.spelled(name));
    let Some(name) = names.iter().find(|name| columns(name) <= pen.room()) else {
        return;
    };
    pen.text(name, tone);
    let share = percent(node.bytes.fraction_of(all).unwrap_or(0.0));
    for figure in [format!(" {}", node.bytes), format!(" {share}")] {
        if columns(&figure) <= pen.room() {
            pen.text(&figure, Tone::Dim);
        }
    }
}

/// Selects the part at a place of the screen; the one that is selected already fills the width.
pub(super) fn click(area: Rect, read: &mut ReadStep, at: Position) {
    let (cells, _) = cells(graph_area(area), read, &read.flame_place);
    let Some(cell) = cells.iter().find(|cell| cell.area.contains(at)) else {
        return;
    };
    let path: Vec<String> = cell.path.iter().map(|name| (*name).to_string()).collect();
    match names(&read.flame_place.selection(&read.flame)) == path {
        true => read.flame_place.go(FlameMove::ZoomIn, &read.flame),
        false => read.flame_place.select(path),
    }
}
