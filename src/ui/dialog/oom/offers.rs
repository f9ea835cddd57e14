//! The remedies as a table: key, name, what changes, what is expected, what it costs.

use super::OomDialog;
use crate::remedy::{Availability, Expectation, Remedy};
use crate::ui::dialog::paragraph::Line;
use crate::ui::pen::columns;
use crate::ui::scene::Scene;
use crate::ui::theme::{Theme, Tone};

/// Pointer, mark of the combination, key.
const LEAD: u16 = 6;

/// One line for each remedy.
pub fn lines(theme: &Theme, scene: &Scene, dialog: &OomDialog, width: u16) -> Vec<Line> {
    if scene.remedies.is_empty() {
        return vec![Line::of(
            "No remedy is known for this command: v edits it.",
            Tone::Dim,
        )];
    }
    let widths = Widths::of(scene.remedies, width);
    scene
        .remedies
        .iter()
        .enumerate()
        .map(|(n, remedy)| line(theme, dialog, remedy, n == dialog.selected, &widths))
        .collect()
}

/// The columns' widths, the same for all rows.
struct Widths {
    title: u16,
    changes: u16,
    expected: u16,
    cost: u16,
}

impl Widths {
    fn of(remedies: &[Remedy], width: u16) -> Widths {
        let widest = |text: fn(&Remedy) -> String, most: u16| {
            let widths = remedies.iter().map(|remedy| columns(&text(remedy)));
            widths.max().unwrap_or(0).min(most) + 2
        };
        let title = widest(|remedy| remedy.title.clone(), 22);
        let expected = widest(|remedy| expected(&remedy.expectation).0, 26);
        let changes = widest(|remedy| remedy.changes.clone(), 50);
        let room = width.saturating_sub(LEAD + title + expected);
        let changes = changes.min(room);
        Widths {
            title,
            changes,
            expected,
            cost: room - changes,
        }
    }
}

fn line(
    theme: &Theme,
    dialog: &OomDialog,
    remedy: &Remedy,
    selected: bool,
    widths: &Widths,
) -> Line {
    let glyphs = theme.glyphs;
    let pointer = if selected { glyphs.pointer } else { " " };
    let mut line = Line::of(format!("{pointer} "), Tone::Accent);
    match &remedy.availability {
        Availability::Offered => {
            let chosen = dialog.chosen.contains(&remedy.id);
            let (mark, mark_tone) = match (chosen, dialog.chosen.is_empty()) {
                (true, _) => (glyphs.ticked, Tone::Accent),
                (false, true) => (" ", Tone::Dim),
                (false, false) => (glyphs.unticked, Tone::Dim),
            };
            let title_tone = if selected { Tone::Strong } else { Tone::Text };
            let (words, tone) = expected(&remedy.expectation);
            line.column(theme, mark, 2, mark_tone)
                .column(theme, &remedy.key.to_string(), 2, Tone::Accent)
                .column(theme, &remedy.title, widths.title, title_tone)
                .column(
                    theme,
                    &gap(&remedy.changes, widths.changes),
                    widths.changes,
                    Tone::Text,
                )
                .column(theme, &words, widths.expected, tone);
            if widths.cost >= columns(&remedy.cost) {
                line.push(remedy.cost.as_str(), Tone::Dim);
            }
        }
        Availability::NotOffered(reason) => {
            line.column(theme, "", 2, Tone::Dim)
                .column(theme, "", 2, Tone::Dim)
                .column(theme, &remedy.title, widths.title, Tone::Dim)
                .push(format!("not offered: {reason}"), Tone::Dim);
        }
    }
    line
}

/// Cut text keeps one column between itself and the next.
fn gap(text: &str, width: u16) -> String {
    if columns(text) < width {
        return text.to_string();
    }
    let keep = usize::from(width.saturating_sub(2));
    let kept: String = text.chars().take(keep).collect();
    format!("{kept}… ")
}

/// The expectation in the least words.
fn expected(expectation: &Expectation) -> (String, Tone) {
    match (expectation.needs, expectation.fits) {
        (Some(needs), Some(true)) => (format!("{needs} fits"), Tone::Good),
        (Some(needs), Some(false)) => (format!("{needs} is too much"), Tone::Warning),
        (Some(needs), None) => (format!("{needs} may fit"), Tone::Text),
        (None, Some(true)) => ("fits".to_string(), Tone::Good),
        (None, Some(false)) => ("does not fit".to_string(), Tone::Warning),
        (None, None) => ("not known".to_string(), Tone::Dim),
    }
}
