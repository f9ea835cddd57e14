//! The modules of the model that held memory, each within the one that contains it, as a flame graph and
//! as a list with bars.

use super::escape::text;
use super::lines::{self, HoldingBar};
use crate::anatomy::{FlameNode, ModuleHolding, StepAnatomy, by_module, flame};
use crate::units::Bytes;
use std::fmt::Write;

/// Rows of the graph: what lies deeper is in the list.
const MOST_ROWS: usize = 7;

/// Nobody sees a share less than this, …
const LEAST: f64 = 0.003;

/// … and a name has no room in one less than this.
const LEAST_NAMED: f64 = 0.045;

/// The modules at a position of the step; nothing where no module is known.
pub(super) fn section(page: &mut String, step: &StepAnatomy, position: usize) {
    let held: Vec<HoldingBar> = by_module(step, position).iter().map(bar).collect();
    if held.is_empty() {
        return;
    }
    page.push_str("<h4>Modules at its peak</h4>\n");
    let mut graph = FlameGraph {
        whole: held.iter().map(|module| module.bytes).sum(),
        rows: 0,
        boxes: String::new(),
    };
    graph.row(&flame(step, position), 0, 0.0);
    let _ = writeln!(
        page,
        "<div class=\"flame\" aria-hidden=\"true\" style=\"--rows:{}\">\n{}</div>",
        graph.rows, graph.boxes
    );
    lines::table(page, &held, "modules");
}

fn bar(holding: &ModuleHolding) -> HoldingBar {
    let name = holding.module.as_deref().unwrap_or("outside of modules");
    HoldingBar {
        place: match holding.alike {
            0 | 1 => name.into(),
            alike => format!("{name}, {alike} of them"),
        },
        inside: None,
        says: None,
        what: Some(holding.category.title()),
        class: lines::class_of(holding.category),
        bytes: holding.bytes,
        blocks: holding.blocks as u64,
    }
}

/// Boxes in rows, from the outermost modules down; widths are shares of the whole.
struct FlameGraph {
    whole: Bytes,
    rows: usize,
    boxes: String,
}

impl FlameGraph {
    /// These nodes from `left` on, and below them what they contain.
    fn row(&mut self, nodes: &[FlameNode], depth: usize, left: f64) {
        let mut left = left;
        for node in nodes {
            let width = node.bytes.fraction_of(self.whole).unwrap_or(0.0);
            if width < LEAST || depth >= MOST_ROWS {
                continue;
            }
            self.rows = self.rows.max(depth + 1);
            let size = format!("{} {}", node.name, node.bytes);
            let label = match width >= LEAST_NAMED {
                true => text(&size),
                false => String::new(),
            };
            let _ = writeln!(
                self.boxes,
                "<div class=\"c-{}\" style=\"left:{:.3}%;width:{:.3}%;top:{}px\" title=\"{}\">{label}</div>",
                lines::class_of(node.category),
                left * 100.0,
                width * 100.0,
                depth * ROW,
                text(&size),
            );
            self.row(&node.children, depth + 1, left);
            left += width;
        }
    }
}

/// The height of a row in pixels: the style sheet has the same.
const ROW: usize = 27;
