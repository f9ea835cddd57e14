//! The layout of what a step is made of.
//!
//! ```text
//! 110 columns and more     less              little
//! title                    title             title
//! chart                    chart             chart
//! head                     head              head
//! categories │ lines       categories        lines
//!            │             lines
//! flame graph, from 48 rows on
//! ```
//!
//! What stays between steps is of no one step: it has the head, and all the rows below it.

use crate::ui::chart::axis::BYTES_WIDTH;
use crate::ui::layout::arranged;
use crate::ui::scene::Scene;
use crate::ui::step::traced::{Grouping, StepView};
use crate::ui::view::View;
use ratatui::layout::Rect;

/// From this width on the categories stand beside the lines.
const BESIDE: u16 = 110;

/// From this height on the flame graph stands below them, and its rows with those of its head: five
/// levels of two.
const ROWS_FOR_FLAME: u16 = 48;
const FLAME: u16 = 11;

/// From this width on the categories stand in two columns.
const TWO_COLUMNS: u16 = 70;

/// Below this the chart has no row for what is said of the peak.
const ROWS_FOR_LABELS: u16 = 7;

/// Lines in view, at least, where the categories have rows above them.
const LINES: u16 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ui) struct StepLayout {
    pub title: Rect,
    /// The row above the curve, with what is said of the peak.
    pub labels: Option<Rect>,
    /// The curve, without its axes.
    pub plot: Rect,
    /// The row of the phases, as wide as the screen.
    pub phases: Rect,
    pub head: Rect,
    /// The categories.
    pub bars: Option<Rect>,
    /// The lines of the program, with the titles of their columns if there is room.
    pub table: Rect,
    /// The flame graph where it stands below the table, with its head.
    pub flame: Option<Rect>,
}

impl StepLayout {
    /// The curve with its axes, and nothing else.
    pub(super) fn of_curve(chart: Rect) -> StepLayout {
        let labels = u16::from(chart.height >= ROWS_FOR_LABELS);
        let inner = Rect {
            x: chart.x + BYTES_WIDTH.min(chart.width),
            width: chart.width.saturating_sub(BYTES_WIDTH),
            ..chart
        };
        StepLayout {
            title: Rect::ZERO,
            labels: (labels > 0).then_some(Rect { height: 1, ..inner }),
            plot: Rect {
                y: inner.y + labels,
                height: inner.height.saturating_sub(labels + 1),
                ..inner
            },
            phases: Rect {
                y: chart.bottom() - chart.height.min(1),
                height: chart.height.min(1),
                ..chart
            },
            head: Rect::ZERO,
            bars: None,
            table: Rect::ZERO,
            flame: None,
        }
    }

    /// Rows for the titles of the table's columns.
    pub(in crate::ui) fn titles(table: Rect) -> u16 {
        u16::from(table.height > LINES)
    }

    /// All that is below the head.
    pub(in crate::ui) fn below(&self) -> Rect {
        let parts = [self.bars, self.flame].into_iter().flatten();
        parts.fold(self.table, Rect::union)
    }

    /// How many lines of the program are in view.
    pub(in crate::ui) fn lines_shown(&self) -> usize {
        let titles = StepLayout::titles(self.table);
        usize::from(self.table.height.saturating_sub(titles))
    }
}

/// The layout of a step that fills the screen between header and footer.
pub(in crate::ui) fn step_layout(view: &View, scene: &Scene) -> StepLayout {
    let read = view.step.as_ref().and_then(StepView::read);
    let grouping = read.map_or(Grouping::default(), |read| read.grouping);
    arrange(arranged(view, scene).body, grouping)
}

pub(super) fn arrange(area: Rect, grouping: Grouping) -> StepLayout {
    let mut rest = area;
    let mut top = |height: u16| {
        let height = height.min(rest.height);
        let taken = Rect { height, ..rest };
        rest.y += height;
        rest.height -= height;
        taken
    };
    let (of_title, of_chart) = match grouping {
        Grouping::Lines | Grouping::Modules | Grouping::Flame => (1, (area.height * 9 / 20).max(4)),
        // What stays is of no one step: neither its title nor its curve says anything of it.
        Grouping::Growth => (0, 0),
    };
    let title = top(of_title);
    let chart = top(of_chart);
    let head = top(1);
    let is_large = area.height >= ROWS_FOR_FLAME && area.width >= BESIDE;
    let flame = is_large.then(|| {
        rest.height -= FLAME;
        Rect {
            y: rest.bottom(),
            height: FLAME,
            ..rest
        }
    });
    let (bars, table) = below(rest);
    StepLayout {
        title,
        head,
        bars,
        table,
        flame,
        ..StepLayout::of_curve(chart)
    }
}

/// Categories and table of a pane, which has no rows to spare.
pub(in crate::ui) fn beside(area: Rect) -> (Option<Rect>, Rect) {
    match area.width >= BESIDE && area.height > LINES {
        true => below(area),
        false => (None, area),
    }
}

fn below(rest: Rect) -> (Option<Rect>, Rect) {
    if rest.width >= BESIDE {
        let width = (rest.width * 6 / 20).clamp(38, 60);
        let table = Rect {
            x: rest.x + width + 2,
            width: rest.width - width - 2,
            ..rest
        };
        return (Some(Rect { width, ..rest }), table);
    }
    let rows = match rest.width >= TWO_COLUMNS {
        true => 3,
        false => 6,
    };
    if rest.height < rows + LINES {
        return (None, rest);
    }
    let table = Rect {
        y: rest.y + rows,
        height: rest.height - rows,
        ..rest
    };
    let bars = Rect {
        height: rows,
        ..rest
    };
    (Some(bars), table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_overlap_and_never_leave_the_screen() {
        for width in (0..230).step_by(7) {
            for height in 0..70 {
                let area = Rect::new(0, 1, width, height);
                let layout = arrange(area, Grouping::Lines);
                let all = [
                    Some(layout.title),
                    layout.labels,
                    Some(layout.plot),
                    Some(layout.phases),
                    Some(layout.head),
                    layout.bars,
                    Some(layout.table),
                    layout.flame,
                ];
                let parts = all.into_iter().flatten().filter(|part| !part.is_empty());
                let parts: Vec<Rect> = parts.collect();
                for (n, part) in parts.iter().enumerate() {
                    assert_eq!(part.intersection(area), *part, "{width}x{height}");
                    for other in &parts[n + 1..] {
                        assert!(!part.intersects(*other), "{width}x{height} {layout:?}");
                    }
                }
            }
        }
    }
}
