//! Names and latest figures of curves and rules on the right, each on the row of its line or as
//! near to it as the other labels allow.

use super::scale::Scale;
use super::{COMPARED, ChartRule, Curve};
use crate::ui::canvas::Canvas;
use crate::ui::figures::Figures;
use crate::ui::theme::{Depth, Tone};
use crate::units::Bytes;
use std::borrow::Cow;

pub(super) const WIDTH: u16 = 16;

pub(super) struct Label {
    at: Bytes,
    name: Cow<'static, str>,
    tone: Tone,
}

/// The labels of rules and curves; of two at one height the first is drawn above.
pub(super) fn labels(
    curves: &[Curve],
    rules: &[ChartRule],
    compared: Option<(String, Bytes)>,
) -> Vec<Label> {
    let rules = rules
        .iter()
        .map(|rule| (rule.name, Some(rule.at), rule.tone));
    let curves = curves
        .iter()
        .map(|curve| (curve.name, curve.latest, curve.tone));
    let named = rules.chain(curves).filter_map(|(name, at, tone)| {
        let name = name.into();
        Some(Label {
            at: at?,
            name,
            tone,
        })
    });
    let compared = compared.map(|(name, at)| Label {
        at,
        name: name.into(),
        tone: COMPARED,
    });
    named.chain(compared).collect()
}

pub(super) fn draw(canvas: &mut Canvas, mut labels: Vec<Label>, scale: &Scale, figures: Figures) {
    labels.sort_by_key(|label| std::cmp::Reverse(label.at));
    let wished: Vec<u16> = labels.iter().map(|label| scale.row(label.at)).collect();
    for (label, row) in labels.iter().zip(apart(&wished, canvas.area.height)) {
        canvas
            .pen(row)
            .skip(1)
            .text(&format!("{:<9}", label.name), label.tone)
            .text(" ", Tone::Dim)
            .text(&figures.column(Some(label.at)), Tone::Text);
    }
}

/// What the two colours of the area are: the least and the most allocated within a column.
pub(super) fn draw_band(canvas: &mut Canvas) {
    let theme = canvas.theme;
    if theme.depth == Depth::None {
        return;
    }
    let full = theme.glyphs.full;
    canvas
        .pen(0)
        .skip(1)
        .text(full, Tone::Allocated)
        .text(" least ", Tone::Dim)
        .text(full, Tone::AllocatedBand)
        .text(" most", Tone::Dim);
}

/// The wished rows, ascending, moved so that no two labels share one. Labels without room are
/// dropped from the end.
fn apart(wished: &[u16], rows: u16) -> Vec<u16> {
    let mut placed: Vec<u16> = Vec::with_capacity(wished.len());
    for &row in wished {
        let least = placed.last().map_or(0, |above| above + 1);
        placed.push(row.max(least));
    }
    // Labels pushed beyond the last row move up, and move those above them.
    let mut most = rows;
    for row in placed.iter_mut().rev() {
        most = most.saturating_sub(1);
        *row = (*row).min(most);
        most = *row;
    }
    placed.truncate(usize::from(rows));
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_never_share_a_row() {
        for (wished, rows, expected) in [
            (&[0, 4, 4, 4][..], 10, &[0, 4, 5, 6][..]),
            (&[0, 8, 9, 9], 10, &[0, 7, 8, 9]),
            (&[0, 0, 0], 3, &[0, 1, 2]),
            (&[9, 9], 10, &[8, 9]),
            (&[], 10, &[]),
        ] {
            assert_eq!(apart(wished, rows), expected);
        }
        assert_eq!(apart(&[0, 0, 0], 2).len(), 2);
    }
}
