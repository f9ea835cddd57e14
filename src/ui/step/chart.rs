//! What is allocated over the events of a step, by category, with its phases below. A column of the chart stands for several events, or
//! several columns for one.

use crate::anatomy::{Category, StepAnatomy};
use crate::event::Phase;
use crate::ui::canvas::{Canvas, columns as width_of};
use crate::ui::chart::axis::{BYTES_WIDTH, Scale, draw_bytes};
use crate::ui::step::holdings::{category_tone, full_cell};
use crate::ui::step::layout::StepLayout;
use crate::ui::step::traced::ReadStep;
use crate::ui::theme::{Theme, Tone};
use crate::units::Bytes;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::ops::Range;

#[derive(Debug, Clone, Copy)]
pub(in crate::ui) struct Columns {
    positions: usize,
    columns: usize,
}

impl Columns {
    pub(in crate::ui) fn new(anatomy: &StepAnatomy, columns: u16) -> Columns {
        Columns {
            positions: anatomy.end() + 1,
            columns: usize::from(columns).max(1),
        }
    }

    /// The column of a position; the last of them, if there are several.
    pub(in crate::ui) fn column(self, position: usize) -> u16 {
        let column = ((position + 1) * self.columns - 1) / self.positions;
        u16::try_from(column.min(self.columns - 1)).unwrap_or(u16::MAX)
    }

    /// The positions of a column; never none.
    fn positions(self, column: u16) -> Range<usize> {
        let column = usize::from(column).min(self.columns - 1);
        let begin = column * self.positions / self.columns;
        let end = (column + 1) * self.positions / self.columns;
        begin..end.max(begin + 1)
    }

    /// The position of a column with the most allocated, so that a peak of one event is never lost.
    pub(in crate::ui) fn highest(self, anatomy: &StepAnatomy, column: u16) -> usize {
        let positions = self.positions(column);
        let mut highest = positions.start;
        for position in positions {
            if anatomy.allocated[position] > anatomy.allocated[highest] {
                highest = position;
            }
        }
        highest
    }

    /// Where a cursor goes that moves to the left: by a column, or by an event if that is more.
    pub(in crate::ui) fn before(self, anatomy: &StepAnatomy, position: usize) -> usize {
        match self.column(position).checked_sub(1) {
            _ if self.positions <= self.columns => position.saturating_sub(1),
            Some(column) => self.highest(anatomy, column),
            None => 0,
        }
    }

    /// Where one goes that moves to the right.
    pub(in crate::ui) fn after(self, anatomy: &StepAnatomy, position: usize) -> usize {
        let column = self.column(position) + 1;
        match usize::from(column) < self.columns {
            _ if self.positions <= self.columns => (position + 1).min(anatomy.end()),
            true => self.highest(anatomy, column),
            false => anatomy.end(),
        }
    }
}

pub(super) fn draw(canvas: &mut Canvas, layout: &StepLayout, read: &ReadStep) {
    draw_up_to(canvas, layout, read, None);
}

/// The curve with its axes and nothing else, up to the device's capacity.
pub(in crate::ui) fn draw_alone(canvas: &mut Canvas, read: &ReadStep, capacity: Option<Bytes>) {
    let layout = StepLayout::of_curve(canvas.area);
    draw_up_to(canvas, &layout, read, capacity);
}

fn draw_up_to(canvas: &mut Canvas, layout: &StepLayout, read: &ReadStep, capacity: Option<Bytes>) {
    let plot = layout.plot;
    if plot.width < 4 || plot.height < 1 {
        return;
    }
    let columns = Columns::new(&read.anatomy, plot.width);
    let peak = read.anatomy.allocated[read.peak];
    let scale = Scale::with_top(capacity.unwrap_or(peak).max(peak), plot.height);
    let axis = Rect {
        x: plot.x - BYTES_WIDTH,
        width: BYTES_WIDTH,
        ..plot
    };
    draw_bytes(&mut canvas.at(axis), &scale, capacity);
    let mut area = canvas.at(plot);
    for column in 0..plot.width {
        let highest = columns.highest(&read.anatomy, column);
        stack(&mut area, column, &read.categories[highest], scale);
    }
    phases(canvas, layout, read, columns);
    let cursor = columns.column(read.cursor);
    let riser = canvas.theme.glyphs.riser;
    for row in 0..plot.height {
        canvas.at(plot).over(cursor, row, riser, Tone::Accent);
    }
    if let Some(area) = layout.labels {
        labels(&mut canvas.at(area), read, columns);
    }
}

/// One column: the categories on each other, the first one at the bottom.
fn stack(area: &mut Canvas, column: u16, bytes: &[Bytes; Category::ALL.len()], scale: Scale) {
    let mut so_far = Bytes::ZERO;
    let tops = bytes.map(|bytes| {
        so_far += bytes;
        scale.eighths(so_far)
    });
    let height = area.area.height;
    for row in 0..height {
        let below = u32::from(row) * 8;
        if below >= scale.eighths(so_far) {
            break;
        }
        let owner = |eighth: u32| {
            let place = tops.iter().position(|top| eighth < *top);
            place.map(|place| Category::ALL[place])
        };
        let (glyph, style) = match (owner(below), owner(below + 7)) {
            // Nearly all cells: they are not looked at closer.
            (Some(one), other) if other == Some(one) => full(area.theme, one),
            (_, _) => {
                let eighths = [0, 1, 2, 3, 4, 5, 6, 7];
                glyph_of(area.theme, eighths.map(|eighth| owner(below + eighth)))
            }
        };
        if let Some(cell) = area.cell(column, height - 1 - row) {
            cell.set_symbol(glyph).set_style(style);
        }
    }
}

fn full(theme: &Theme, category: Category) -> (&'static str, Style) {
    (
        full_cell(theme, category),
        theme.style(category_tone(category)),
    )
}

/// The glyph of a cell whose eighths from below belong to these categories. A cell has only two
/// colours: those of the lowest category and of the largest above it, or, where the curve ends in it,
/// that of the largest.
fn glyph_of(theme: &Theme, owners: [Option<Category>; 8]) -> (&'static str, Style) {
    let largest = |owners: &[Option<Category>]| {
        let count = |of: Category| owners.iter().filter(|owner| **owner == Some(of)).count();
        let all = Category::ALL.into_iter();
        all.max_by_key(|of| count(*of)).unwrap_or(Category::Other)
    };
    let style = |of: Category| theme.style(category_tone(of));
    let filled = owners.iter().flatten().count();
    let most = largest(&owners);
    let lowest = owners[0].unwrap_or(most);
    let same = owners.iter().take_while(|owner| **owner == owners[0]);
    match (theme.has_letters(), filled, same.count()) {
        (true, 4.., _) => full(theme, most),
        (true, _, _) => (theme.glyphs.eighths[filled], style(most)),
        (_, 8, 8) => (theme.glyphs.eighths[8], style(lowest)),
        (_, 8, same) => {
            let above = category_tone(largest(&owners[same..]));
            let both = style(lowest).patch(theme.ground(above));
            (theme.glyphs.eighths[same], both)
        }
        (_, filled, _) => (theme.glyphs.eighths[filled], style(most)),
    }
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Load => "before",
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        Phase::Optimizer => "optimizer",
        Phase::Evaluation => "evaluation",
        Phase::Unknown => "unknown",
    }
}

/// The row below the curve, `└─ forward ──┴─ backward ──`, and an upright where a phase begins.
fn phases(canvas: &mut Canvas, layout: &StepLayout, read: &ReadStep, columns: Columns) {
    let theme = canvas.theme;
    canvas
        .at(layout.phases)
        .pen(0)
        .to(BYTES_WIDTH - 1)
        .text(theme.glyphs.origin, Tone::Faint)
        .fill(theme.glyphs.line, Tone::Faint);
    let below = Rect {
        x: layout.plot.x,
        width: layout.plot.width,
        ..layout.phases
    };
    let column = |from: usize| columns.column(from.min(read.anatomy.end()));
    let phases = &read.anatomy.phases;
    for (n, start) in phases.iter().enumerate() {
        let begin = match n {
            0 => 0,
            _ => column(start.from),
        };
        let next = phases.get(n + 1).map(|next| column(next.from));
        let room = next.unwrap_or(below.width).saturating_sub(begin);
        let text = format!(" {} ", name(start.phase));
        if n > 0 {
            boundary(&mut canvas.at(layout.plot), begin);
            if let Some(cell) = canvas.at(below).cell(begin, 0) {
                cell.set_symbol(theme.glyphs.epoch);
            }
        }
        // Recomputation goes to and fro: a phase too short for its name has none.
        if width_of(&text) + 2 <= room {
            let at = begin + 1;
            canvas.at(below).pen(0).to(at).text(&text, Tone::Dim);
        }
    }
}

/// Where a phase begins, as far as the curve leaves it visible.
fn boundary(plot: &mut Canvas, column: u16) {
    let theme = plot.theme;
    for row in 0..plot.area.height {
        if plot.is_free(column..column + 1, row, &[])
            && let Some(cell) = plot.cell(column, row)
        {
            cell.set_symbol(theme.glyphs.relaunch)
                .set_style(theme.style(Tone::Faint));
        }
    }
}

/// Where memory ran out, and where the peak is.
fn labels(canvas: &mut Canvas, read: &ReadStep, columns: Columns) {
    let glyphs = canvas.theme.glyphs;
    if read.anatomy.failed {
        let end = columns.column(read.anatomy.end());
        label(canvas, end, glyphs.cross, "out of memory", Tone::Wrong);
    }
    let peak = read.anatomy.allocated[read.peak];
    let text = format!("peak {peak}");
    let at = columns.column(read.peak);
    label(canvas, at, glyphs.peak, &text, Tone::Strong);
}

/// A mark and its words, to the right of it or to the left, where that is free.
fn label(canvas: &mut Canvas, column: u16, glyph: &str, text: &str, tone: Tone) {
    let wide = width_of(text) + 1;
    let right = column + 1 + wide <= canvas.area.width;
    let (begin, end) = match right {
        true => (column, column + 1 + wide),
        false => (column.saturating_sub(wide), column + 1),
    };
    if !canvas.is_free(begin..end, 0, &[]) {
        return;
    }
    let words = match right {
        true => begin + 2,
        false => begin,
    };
    canvas.pen(0).to(words).text(text, tone);
    canvas.pen(0).to(column).text(glyph, tone);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_is_in_its_column() {
        for positions in 1..60 {
            for columns in 1..60 {
                let columns = Columns { positions, columns };
                for position in 0..positions {
                    let of = columns.positions(columns.column(position));
                    assert!(of.contains(&position), "{position}: {columns:?}");
                }
                for column in 0..columns.columns as u16 {
                    let of = columns.positions(column);
                    assert!(!of.is_empty() && of.end <= positions, "{of:?}: {columns:?}");
                }
            }
        }
    }
}
