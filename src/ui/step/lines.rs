//! The lines that hold memory at the cursor, the largest first.

use super::layout::StepLayout;
use super::look;
use crate::anatomy::Holding;
use crate::ui::canvas::Canvas;
use crate::ui::figures::count;
use crate::ui::pen::columns;
use crate::ui::theme::Tone;
use crate::ui::view::step::ReadStep;

/// Columns of a figure: `1023 KiB`.
const FIGURE: u16 = 9;

/// Columns of the other parts of a row with the space behind them; 0 for a part that is left out.
#[derive(Clone, Copy)]
struct LineWidths {
    bar: u16,
    category: u16,
    blocks: u16,
}

impl LineWidths {
    fn of(width: u16) -> LineWidths {
        let (bar, category, blocks) = match width {
            100.. => ((width / 8).min(24), 16, 8),
            70.. => (9, 16, 8),
            56.. => (0, 16, 8),
            _ => (0, 12, 0),
        };
        LineWidths {
            bar,
            category,
            blocks,
        }
    }
}

pub(super) fn draw(canvas: &mut Canvas, read: &ReadStep) {
    let widths = LineWidths::of(canvas.area.width);
    let titles = StepLayout::titles(canvas.area);
    let shown = usize::from(canvas.area.height.saturating_sub(titles));
    let most = read.lines.len().saturating_sub(shown);
    let first = read.scrolled.min(most);
    if titles > 0 {
        head(canvas, widths, most - first);
    }
    let whole = read.at_cursor();
    for (row, holding) in (titles..).zip(read.lines.iter().skip(first).take(shown)) {
        let share = holding.bytes.fraction_of(whole).unwrap_or(0.0);
        line(canvas, row, widths, holding, share);
    }
}

/// The titles of the columns, and how many lines are below those in view.
fn head(canvas: &mut Canvas, widths: LineWidths, below: usize) {
    let [_, down, ..] = canvas.theme.glyphs.arrow_keys;
    let width = canvas.area.width;
    let mut pen = canvas.pen(0);
    pen.to(FIGURE - columns("held"))
        .text("held", Tone::Dim)
        .to(FIGURE + 1 + widths.bar)
        .text("what", Tone::Dim)
        .to(FIGURE + 1 + widths.bar + widths.category);
    if widths.blocks > 0 {
        pen.text("blocks  ", Tone::Dim);
    }
    pen.text("allocated by", Tone::Dim);
    if below > 0 {
        let more = format!("  {down} {} more", count(below as u64));
        pen.to(width.saturating_sub(columns(&more)))
            .text(&more, Tone::Dim);
    }
}

fn line(canvas: &mut Canvas, row: u16, widths: LineWidths, holding: &Holding, share: f64) {
    let theme = canvas.theme;
    let tone = look::tone(holding.category);
    let bytes = holding.bytes.to_string();
    let mut pen = canvas.pen(row);
    pen.to(FIGURE.saturating_sub(columns(&bytes)))
        .text(&bytes, Tone::Text)
        .to(FIGURE + 1);
    if widths.bar > 0 {
        let bar = look::bar(theme, holding.category, share, widths.bar - 1);
        pen.text(&bar, tone).to(FIGURE + 1 + widths.bar);
    }
    pen.cut(holding.category.title(), widths.category - 1, tone)
        .to(FIGURE + 1 + widths.bar + widths.category);
    if widths.blocks > 0 {
        let width = usize::from(widths.blocks - 2);
        let blocks = count(holding.blocks as u64);
        pen.text(&format!("{blocks:>width$}  "), Tone::Dim);
    }
    let Some(own) = &holding.line else {
        pen.rest("line not known", Tone::Dim);
        return;
    };
    let own = own.path_to(None, "");
    pen.rest(&own, Tone::Text);
    let inside = holding.inside.as_ref();
    let inside =
        inside.map(|inside| format!(" {} {}", theme.glyphs.arrow, inside.path_to(None, "")));
    if let Some(inside) = inside.filter(|inside| columns(inside) <= pen.room()) {
        pen.text(&inside, Tone::Dim);
    }
}
