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

/// Rows of one level.
const LEVEL: u16 = 2;

/// Columns below which a part has no name.
const NAMED: u16 = 4;

pub(super) fn draw(canvas: &mut Canvas, read: &ReadStep) {
    level(canvas, &read.flame, read.at_cursor(), read.at_cursor());
}

/// Parts side by side, of a whole that is as wide as the canvas.
fn level(canvas: &mut Canvas, nodes: &[FlameNode], whole: Bytes, all: Bytes) {
    let area = canvas.area;
    if area.height < LEVEL {
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
        cell(&mut canvas.at(part), node, all);
        let inside = Rect {
            y: part.y + LEVEL,
            height: part.height - LEVEL,
            ..part
        };
        level(&mut canvas.at(inside), &node.children, node.bytes, all);
    }
}

fn cell(canvas: &mut Canvas, node: &FlameNode, all: Bytes) {
    let theme = canvas.theme;
    let full = look::full(theme, node.category);
    canvas.pen(0).fill(full, look::tone(node.category));
    if canvas.area.width < NAMED {
        return;
    }
    let mut pen = canvas.pen(1);
    pen.rest(&theme.glyphs.spelled(&node.name), Tone::Text);
    let percent = look::percent(node.bytes.fraction_of(all).unwrap_or(0.0));
    for figure in [format!(" {}", node.bytes), format!(" {percent}")] {
        if columns(&figure) <= pen.room() {
            pen.text(&figure, Tone::Dim);
        }
    }
}
