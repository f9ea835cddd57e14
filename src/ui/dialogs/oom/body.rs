//! The layout of the OOM dialog: how cause, remedies and next command share the rows. The remedies
//! come first; if even they do not fit, they scroll with the selection.

use super::{Page, evidence, next, offers};
use crate::ui::dialog::{Details, OomDialog};
use crate::ui::dialogs::{place, width_within};
use crate::ui::paragraph::{self, StyledLine};
use crate::ui::scene::Scene;
use crate::ui::theme::{Theme, Tone};
use ratatui::layout::Rect;
use std::ops::Range;

/// The dialog, laid out.
pub(super) struct Body {
    pub rect: Rect,
    pub lines: Vec<StyledLine>,
    /// The lines that are remedies.
    pub offers: Range<usize>,
    /// The row on the first of them.
    pub first: usize,
    /// Rows above the first remedy.
    pub above: usize,
}

/// Lines of the cause, at least.
const HEADLINE: usize = 2;

/// Lines of what is expected and of the command, at least.
const NEXT: usize = 2;

/// Remedies in view, at least.
const REMEDIES: usize = 3;

/// Lines longer than this are tiring to read.
const WIDEST: u16 = 118;

pub(super) fn compose(area: Rect, theme: &Theme, dialog: &OomDialog, scene: &Scene) -> Body {
    let width = width_within(area, WIDEST);
    let inner = width.saturating_sub(4).max(1);
    let room = usize::from(area.height.saturating_sub(4)).max(1);

    let page = Page {
        theme,
        scene,
        dialog,
        width: inner,
    };
    let all = offers::lines(page);
    let mut next = next::lines(page);
    let most = room.saturating_sub(HEADLINE + next.len().min(NEXT));
    let above = usize::from(OomDialog::leads_with_code(scene));
    let selected = dialog.selected.map_or(0, |selected| selected + above);
    let window = window(all.len(), selected, most.max(REMEDIES));
    let (first, offers) = cut(all, window, theme);

    let left = room.saturating_sub(offers.len());
    let mut evidence = match dialog.details {
        Details::Brief => evidence::brief(page),
        Details::Full { scrolled } => {
            let all = evidence::full(page);
            let shown = left.saturating_sub(next.len() + 1).max(1);
            part_of(all, scrolled, shown)
        }
    };
    let for_next = left.saturating_sub(evidence.len().min(HEADLINE));
    next.truncate(for_next);
    let for_evidence = left.saturating_sub(next.len());
    paragraph::shorten(&mut evidence, for_evidence, theme, inner);
    let spare = left - next.len() - evidence.len();

    let mut lines = evidence;
    if spare > 0 {
        lines.push(StyledLine::default());
    }
    let begin = lines.len();
    lines.extend(offers);
    let offers = begin..lines.len();
    if spare > 1 && !next.is_empty() {
        lines.push(StyledLine::default());
    }
    lines.extend(next);
    Body {
        rect: place(area, width, lines.len() as u16 + 2),
        lines,
        offers,
        first,
        above,
    }
}

/// Which of `rows` rows to show if `most` fit: with the selected one and its neighbours.
fn window(rows: usize, selected: usize, most: usize) -> Range<usize> {
    if rows <= most {
        return 0..rows;
    }
    let first = (selected + 2).saturating_sub(most).min(rows - most);
    first..first + most
}

/// The lines of a window; its first and last say how many are hidden.
fn cut(mut all: Vec<StyledLine>, window: Range<usize>, theme: &Theme) -> (usize, Vec<StyledLine>) {
    let rows = all.len();
    let [up, down, ..] = theme.glyphs.arrow_keys;
    if window.end < rows {
        let more = format!("  {down} {} more", rows - window.end + 1);
        all[window.end - 1] = StyledLine::of(more, Tone::Dim);
    }
    if window.start > 0 {
        let more = format!("  {up} {} more", window.start + 1);
        all[window.start] = StyledLine::of(more, Tone::Dim);
    }
    all.truncate(window.end);
    (window.start, all.split_off(window.start))
}

/// So many lines from one on; the last tells the position if they are not all.
fn part_of(mut all: Vec<StyledLine>, from: usize, shown: usize) -> Vec<StyledLine> {
    if all.len() <= shown {
        return all;
    }
    let shown = shown.saturating_sub(1).max(1);
    let first = from.min(all.len() - shown);
    let place = format!(
        "PgUp PgDn: lines {}-{} of {}",
        first + 1,
        first + shown,
        all.len()
    );
    all.truncate(first + shown);
    all.drain(..first);
    all.push(StyledLine::of(place, Tone::Dim));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_remedy_is_never_behind_an_end() {
        for rows in 0..20 {
            for most in 3..12 {
                for selected in 0..rows {
                    let window = window(rows, selected, most);
                    assert!(window.end <= rows && window.len() <= most);
                    assert!(window.contains(&selected), "{selected} in {window:?}");
                    let hidden_above = window.start > 0 && selected == window.start;
                    let hidden_below = window.end < rows && selected + 1 == window.end;
                    assert!(
                        !hidden_above && !hidden_below,
                        "{selected} in {window:?} of {rows}"
                    );
                }
            }
        }
    }
}
