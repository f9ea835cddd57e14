//! The curves: allocated as a filled area, the others as lines over it, rules behind them.
//!
//! A column stands for a stretch of time. The area is solid up to its minimum and lighter up to its
//! maximum, so that a peak of one sample is never lost. Where nothing is known it stays empty.

use super::scale::Scale;
use crate::state::SeriesBucket;
use crate::ui::canvas::Canvas;
use crate::ui::theme::{Depth, Theme, Tone};
use crate::units::Bytes;
use ratatui::style::Style;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stroke {
    /// Solid, with risers where it changes its row.
    Solid,
    /// Dashed, without risers.
    Dashed,
}

pub(super) struct Plot<'p> {
    pub canvas: Canvas<'p>,
    pub scale: Scale,
}

impl Plot<'_> {
    /// Fills the area below a curve.
    pub(super) fn fill_below(&mut self, columns: &[Option<SeriesBucket>], solid: Tone, band: Tone) {
        let look = AreaLook::of(self.canvas.theme, solid, band);
        let (scale, height) = (self.scale, self.canvas.area.height);
        for (column, bucket) in (0..).zip(columns) {
            let Some(bucket) = bucket else { continue };
            let (least, most) = (scale.eighths(bucket.min), scale.eighths(bucket.max));
            for row in 0..height.min(scale.rows()) {
                let below = u32::from(row) * 8;
                if below >= most {
                    break;
                }
                let of_row = |eighths: u32| eighths.saturating_sub(below).min(8) as usize;
                if let Some(cell) = self.canvas.cell(column, height - 1 - row) {
                    let (glyph, style) = look.cell(of_row(least), of_row(most));
                    cell.set_symbol(glyph).set_style(style);
                }
            }
        }
    }

    /// Draws a line through the maximum of each column.
    pub(super) fn line(&mut self, columns: &[Option<SeriesBucket>], tone: Tone, stroke: Stroke) {
        let glyphs = self.canvas.theme.glyphs;
        let mut before: Option<u16> = None;
        for (x, bucket) in (0..).zip(columns) {
            let row = bucket.map(|bucket| self.scale.row(bucket.max));
            match (stroke, before, row) {
                (_, _, None) => {}
                (Stroke::Dashed, _, Some(row)) => self.canvas.over(x, row, glyphs.dashes, tone),
                (Stroke::Solid, Some(was), Some(row)) if was != row => {
                    let [down_from, up_from, from_above, from_below] = glyphs.corners;
                    let (start, end) = match was < row {
                        true => (down_from, from_above),
                        false => (up_from, from_below),
                    };
                    self.canvas.over(x, was, start, tone);
                    for between in was.min(row) + 1..was.max(row) {
                        self.canvas.over(x, between, glyphs.riser, tone);
                    }
                    self.canvas.over(x, row, end, tone);
                }
                (Stroke::Solid, _, Some(row)) => self.canvas.over(x, row, glyphs.line, tone),
            }
            before = row;
        }
    }

    /// Draws a rule from a column on, behind everything already drawn.
    pub(super) fn rule(&mut self, from: u16, at: Bytes, tone: Tone, glyph: &str) {
        let style = self.canvas.theme.style(tone);
        for column in from..self.canvas.area.width {
            if let Some(cell) = self.canvas.cell(column, self.scale.row(at))
                && cell.symbol() == " "
            {
                cell.set_symbol(glyph).set_style(style);
            }
        }
    }

    /// Draws the cursor as a vertical line.
    pub(super) fn cursor(&mut self, column: u16) {
        for row in 0..self.canvas.area.height {
            let riser = self.canvas.theme.glyphs.riser;
            self.canvas.over(column, row, riser, Tone::Accent);
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

    /// One cell with the area's minimum and maximum in eighths. A cell has only two colours: if
    /// both edges lie in it, the solid part is drawn if it is the larger one.
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
