//! The curves: allocated as a filled area, the others as lines over it, rules behind them.
//!
//! A column holds what happened in its stretch of time: the area is solid up to the least and of a
//! weaker shade up to the most, so that a peak of one sample never vanishes. A stretch of which
//! nothing is known stays empty.

use super::scale::Scale;
use crate::state::SeriesBucket;
use crate::ui::theme::{Depth, Theme, Tone};
use crate::units::Bytes;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Fills the area below a quantity.
pub fn area(
    buf: &mut Buffer,
    plot: Rect,
    theme: &Theme,
    scale: &Scale,
    columns: &[Option<SeriesBucket>],
    (solid, band): (Tone, Tone),
) {
    let look = AreaLook::of(theme, solid, band);
    for (x, bucket) in (plot.left()..plot.right()).zip(columns) {
        let Some(bucket) = bucket else { continue };
        let (least, most) = (scale.eighths(bucket.min), scale.eighths(bucket.max));
        for row in 0..plot.height.min(scale.rows()) {
            let below = u32::from(row) * 8;
            if below >= most {
                break;
            }
            let of_row = |eighths: u32| eighths.saturating_sub(below).min(8) as usize;
            let y = plot.bottom() - 1 - row;
            if let Some(cell) = buf.cell_mut((x, y)) {
                let (glyph, style) = look.cell(of_row(least), of_row(most));
                cell.set_symbol(glyph).set_style(style);
            }
        }
    }
}

struct AreaLook<'t> {
    theme: &'t Theme,
    solid: Style,
    band: Style,
    solid_on_band: Style,
}

impl AreaLook<'_> {
    fn of(theme: &Theme, solid: Tone, band: Tone) -> AreaLook<'_> {
        let solid_style = theme.style(solid);
        AreaLook {
            theme,
            solid: solid_style,
            band: theme.style(band),
            solid_on_band: match theme.depth {
                Depth::None => solid_style,
                Depth::Sixteen | Depth::TwoFiftySix | Depth::True => {
                    solid_style.patch(theme.ground(band))
                }
            },
        }
    }

    /// One cell, filled by so many eighths at least and at most. A cell has two colours only:
    /// where both edges lie in it, the solid part is drawn if it is the larger.
    fn cell(&self, least: usize, most: usize) -> (&'static str, Style) {
        let eighths = &self.theme.glyphs.eighths;
        match self.theme.depth {
            _ if least == 8 => (eighths[8], self.solid),
            Depth::None if most == 8 && least * 2 < 8 => (self.theme.glyphs.band, self.band),
            Depth::None => (eighths[most], self.solid),
            Depth::Sixteen | Depth::TwoFiftySix | Depth::True => match (least, most) {
                (0, _) => (eighths[most], self.band),
                (_, 8) => (eighths[least], self.solid_on_band),
                (_, _) if least * 2 >= most => (eighths[most], self.solid),
                (_, _) => (eighths[most], self.band),
            },
        }
    }
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stroke {
    /// Solid, with risers where it changes its row.
    Solid,
    /// Dashed, without risers.
    Dashed,
}

/// Draws a quantity as a line through the most of each column. `ground` is the area it may cross:
/// there it is drawn on the area's colour, so that it cuts no hole.
pub fn line(
    buf: &mut Buffer,
    plot: Rect,
    theme: &Theme,
    scale: &Scale,
    columns: &[Option<SeriesBucket>],
    tone: Tone,
    stroke: Stroke,
) {
    let style = theme.style(tone);
    let glyphs = theme.glyphs;
    let mut before: Option<u16> = None;
    for (x, bucket) in (plot.left()..plot.right()).zip(columns) {
        let row = bucket.map(|bucket| scale.row(bucket.max));
        match (stroke, before, row) {
            (_, _, None) => {}
            (Stroke::Dashed, _, Some(row)) => over(buf, plot, theme, x, row, glyphs.dashes, style),
            (Stroke::Solid, Some(was), Some(row)) if was != row => {
                let [down_from, up_from, from_above, from_below] = glyphs.corners;
                let (start, end) = if was < row {
                    (down_from, from_above)
                } else {
                    (up_from, from_below)
                };
                over(buf, plot, theme, x, was, start, style);
                for between in was.min(row) + 1..was.max(row) {
                    over(buf, plot, theme, x, between, glyphs.riser, style);
                }
                over(buf, plot, theme, x, row, end, style);
            }
            (Stroke::Solid, _, Some(row)) => over(buf, plot, theme, x, row, glyphs.line, style),
        }
        before = row;
    }
}

/// Draws a rule across the whole plot, behind everything that is there.
pub fn rule(
    buf: &mut Buffer,
    plot: Rect,
    theme: &Theme,
    scale: &Scale,
    at: Bytes,
    tone: Tone,
    glyph: &str,
) {
    let y = plot.top() + scale.row(at);
    if y >= plot.bottom() {
        return;
    }
    for x in plot.left()..plot.right() {
        if let Some(cell) = buf.cell_mut((x, y))
            && cell.symbol() == " "
        {
            cell.set_symbol(glyph).set_style(theme.style(tone));
        }
    }
}

/// The cursor: a line down the column, where nothing but background is.
pub fn cursor(buf: &mut Buffer, plot: Rect, theme: &Theme, column: u16) {
    let style = theme.style(Tone::Accent);
    for row in 0..plot.height {
        over(
            buf,
            plot,
            theme,
            plot.x + column,
            row,
            theme.glyphs.riser,
            style,
        );
    }
}

/// A line's cell over what is there: over a full cell of the area on the area's colour. A cell that
/// is filled in part gives way: the line lies above what it is drawn over.
fn over(buf: &mut Buffer, plot: Rect, theme: &Theme, x: u16, row: u16, glyph: &str, style: Style) {
    let y = plot.top() + row;
    if y >= plot.bottom() {
        return;
    }
    let Some(cell) = buf.cell_mut((x, y)) else {
        return;
    };
    let filled = theme
        .glyphs
        .eighths
        .iter()
        .position(|eighth| *eighth == cell.symbol());
    let ground = match filled {
        Some(8) => cell.fg,
        Some(_) | None => cell.bg,
    };
    cell.reset();
    cell.set_symbol(glyph).set_style(style).set_bg(ground);
}
