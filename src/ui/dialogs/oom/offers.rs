//! The remedies as a table: key, name, change, expected memory, cost.

use super::Page;
use crate::diagnosis::Finding;
use crate::remedy::{Availability, Expectation, Remedy};
use crate::ui::dialog::OomDialog;
use crate::ui::paragraph::StyledLine;
use crate::ui::pen::columns;
use crate::ui::theme::Tone;
use crate::units::Bytes;

/// Columns of pointer, combination mark and key.
const LEAD: u16 = 6;

pub(super) fn lines(page: Page) -> Vec<StyledLine> {
    let remedies = page.scene.remedies;
    if remedies.is_empty() {
        return vec![StyledLine::of(
            "No known remedy for this command: press v to edit it.",
            Tone::Dim,
        )];
    }
    let widths = Widths::of(remedies, page.width);
    let code = OomDialog::leads_with_code(page.scene).then(|| code(page));
    let each = remedies.iter().enumerate();
    let each = each.map(|(n, remedy)| line(page, remedy, Some(n) == page.dialog.selected, &widths));
    code.into_iter().chain(each).collect()
}

/// What is to be changed in the code; where the details say more.
fn code(page: Page) -> StyledLine {
    let glyphs = page.theme.glyphs;
    let (pointer, tone) = match page.dialog.selected {
        None => (glyphs.pointer, Tone::Strong),
        Some(_) => (" ", Tone::Text),
    };
    let in_code = page.scene.findings.first().and_then(Finding::in_code);
    let words = in_code.unwrap_or_else(|| "no remedy here helps: see the details".into());
    let mut line = StyledLine::of(format!("{pointer}     "), Tone::Accent);
    line.push("in the code  ", tone)
        .push(glyphs.spelled(&words), Tone::Good);
    line
}

/// Whether the table cuts a remedy's title.
pub(super) fn cuts_title(remedies: &[Remedy], remedy: &Remedy, width: u16) -> bool {
    columns(&remedy.title) >= Widths::of(remedies, width).title
}

/// The widths of the columns.
struct Widths {
    form: VerdictForm,
    title: u16,
    changes: u16,
    expected: u16,
    cost: u16,
}

impl Widths {
    fn of(remedies: &[Remedy], width: u16) -> Widths {
        let widest = |text: &dyn Fn(&Remedy) -> String, most: u16| {
            let widths = remedies.iter().map(|remedy| columns(&text(remedy)));
            widths.max().unwrap_or(0).min(most) + 2
        };
        let form = VerdictForm::of(width);
        let title = widest(
            &|remedy| remedy.title.clone(),
            (width * 3 / 10).clamp(16, 40),
        );
        let expected = widest(&|remedy| expected(&remedy.expectation, form).0, 30);
        let changes = widest(&|remedy| remedy.changes.clone(), 50);
        // It is the last column of a narrow table and needs no gap.
        let expected = match form {
            VerdictForm::Short => expected - 2,
            VerdictForm::Full => expected,
        };
        let title = title.min(width.saturating_sub(LEAD + expected));
        let room = width.saturating_sub(LEAD + title + expected);
        let changes = changes.min(room);
        Widths {
            title,
            form,
            changes,
            expected,
            cost: room - changes,
        }
    }
}

fn line(page: Page, remedy: &Remedy, selected: bool, widths: &Widths) -> StyledLine {
    let (glyphs, dialog) = (page.theme.glyphs, page.dialog);
    let pointer = if selected { glyphs.pointer } else { " " };
    let mut line = StyledLine::of(format!("{pointer} "), Tone::Accent);
    match &remedy.availability {
        Availability::Offered => {
            let chosen = dialog.chosen.contains(&remedy.id);
            let (mark, mark_tone) = match (chosen, dialog.chosen.is_empty()) {
                (true, _) => (glyphs.ticked, Tone::Accent),
                (false, true) => (" ", Tone::Dim),
                (false, false) => (glyphs.unticked, Tone::Dim),
            };
            let title_tone = if selected { Tone::Strong } else { Tone::Text };
            let (words, tone) = expected(&remedy.expectation, widths.form);
            line.column(mark, 2, mark_tone)
                .column(&remedy.key.to_string(), 2, Tone::Accent);
            field(
                &mut line,
                glyphs.spelled(&remedy.title),
                widths.title,
                title_tone,
            );
            field(
                &mut line,
                glyphs.spelled(&remedy.changes),
                widths.changes,
                Tone::Text,
            );
            line.column(&glyphs.spelled(&words), widths.expected, tone);
            if widths.cost >= columns(&remedy.cost) {
                line.push(remedy.cost.as_str(), Tone::Dim);
            }
        }
        Availability::NotOffered(reason) => {
            line.column("", 4, Tone::Dim);
            field(
                &mut line,
                glyphs.spelled(&remedy.title),
                widths.title,
                Tone::Dim,
            );
            line.push(format!("not offered: {reason}"), Tone::Dim);
        }
    }
    line
}

/// A column with a gap behind it, even if its text is cut.
fn field(line: &mut StyledLine, text: String, width: u16, tone: Tone) {
    line.column(&text, width.saturating_sub(1), tone)
        .column("", width.min(1), tone);
}

/// How an expectation is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VerdictForm {
    /// The figure, and whether it fits.
    Full,
    /// The figure alone; its colour and the line below the table say whether it fits.
    Short,
}

impl VerdictForm {
    fn of(width: u16) -> VerdictForm {
        if width < 50 {
            VerdictForm::Short
        } else {
            VerdictForm::Full
        }
    }
}

/// Whether it fits, as the table says it.
pub(super) fn verdict(expectation: &Expectation) -> (String, Tone) {
    expected(expectation, VerdictForm::Full)
}

/// The expectation in few words.
fn expected(expectation: &Expectation, form: VerdictForm) -> (String, Tone) {
    let (verdict, tone) = match expectation.fits {
        Some(true) => ("fits", Tone::Good),
        Some(false) => ("won't fit", Tone::Warning),
        None => ("may not fit", Tone::Text),
    };
    let interval = expectation.within.zip(expectation.room);
    let words = match (expectation.needs, expectation.at_least, form) {
        (Some(_), _, VerdictForm::Full) if expectation.fits.is_none() && interval.is_some() => {
            let range = interval.map(|((low, high), room)| {
                let [low, high] = [low, high].map(|bytes| round_gib(bytes, room));
                format!(" ({low}–{high} of {} GiB)", round_gib(room, room))
            });
            format!("{verdict}{}", range.unwrap_or_default())
        }
        (Some(needs), _, VerdictForm::Full) => format!("{needs} {verdict}"),
        (Some(needs), _, VerdictForm::Short) => needs.to_string(),
        (None, Some(least), VerdictForm::Full) if expectation.fits == Some(false) => {
            format!("won't fit (≥ {least})")
        }
        (None, Some(least), _) => format!("≥ {least}"),
        (None, None, _) => match expectation.fits {
            Some(true) => "fits".to_string(),
            Some(false) => "won't fit".to_string(),
            None => "unknown".to_string(),
        },
    };
    (words, tone)
}

/// A figure of an interval, with a decimal only on small devices.
fn round_gib(bytes: Bytes, room: Bytes) -> String {
    let decimals = usize::from(room < Bytes::gib(10));
    format!("{:.decimals$}", bytes.as_gib())
}
