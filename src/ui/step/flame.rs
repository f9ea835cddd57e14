//! What is alive at the cursor as a flame graph: below each part what it contains, as wide as its
//! share. A part is a bar in the colour of what most of it is, with its name below.
//!
//! ```text
//! ████████████████████████████████████████████ █████████████
//! transformer 20.1 GiB 81 %                    lm_head 3.1 GiB
//! ███████████████████████████████████████ ████
//! h.0–11 18.2 GiB                         wte
//! ```

use super::look;
use crate::anatomy::FlameNode;
use crate::ui::canvas::Canvas;
use crate::ui::pen::columns;
use crate::ui::theme::Tone;
use crate::ui::view::step::ReadStep;
use crate::units::Bytes;
use ratatui::layout::Rect;

/// Rows of one level: its bar, and the row of names. Where there is room bars are taller.
const LEVEL: u16 = 2;
const TALLEST: u16 = 5;

/// Columns below which a part has no name.
const NAMED: u16 = 4;

pub(super) fn draw(canvas: &mut Canvas, read: &ReadStep) {
    let levels = depth(&read.flame).max(1);
    let rows = (canvas.area.height / levels).clamp(LEVEL, TALLEST);
    level(canvas, rows, &read.flame, [read.at_cursor(); 2]);
}

fn depth(nodes: &[FlameNode]) -> u16 {
    let below = nodes.iter().map(|node| 1 + depth(&node.children));
    below.max().unwrap_or(0)
}

/// Parts side by side, of a whole that is as wide as the canvas and itself a part of all.
fn level(canvas: &mut Canvas, rows: u16, nodes: &[FlameNode], [whole, all]: [Bytes; 2]) {
    let area = canvas.area;
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
            ..area
        };
        if part.width == 0 {
            continue;
        }
        cell(&mut canvas.at(part), rows, node, all);
        let inside = Rect {
            y: part.y + rows,
            height: part.height - rows,
            ..part
        };
        let within = [node.bytes, all];
        level(&mut canvas.at(inside), rows, &node.children, within);
    }
}

fn cell(canvas: &mut Canvas, rows: u16, node: &FlameNode, all: Bytes) {
    let theme = canvas.theme;
    let full = look::full(theme, node.category);
    for row in 0..rows - 1 {
        canvas.pen(row).fill(full, look::tone(node.category));
    }
    if canvas.area.width < NAMED {
        return;
    }
    let mut pen = canvas.pen(rows - 1);
    pen.rest(&theme.glyphs.spelled(&node.name), Tone::Text);
    let percent = look::percent(node.bytes.fraction_of(all).unwrap_or(0.0));
    for figure in [format!(" {}", node.bytes), format!(" {percent}")] {
        if columns(&figure) <= pen.room() {
            pen.text(&figure, Tone::Dim);
        }
    }
}
