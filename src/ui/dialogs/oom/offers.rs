//! The remedies as a table: key, name, change, need, whether it fits, what it does to the numbers.

use super::Page;
use crate::diagnosis::Finding;
use crate::remedy::{Availability, Expectation, Remedy};
use crate::ui::dialog::OomDialog;
use crate::ui::paragraph::StyledLine;
use crate::ui::pen::columns;
use crate::ui::scene::{Scene, Subject};
use crate::ui::theme::Tone;
use crate::units::Bytes;

/// Columns of pointer, combination mark and key.
const LEAD: u16 = 6;

/// Columns before the words of what is to be changed in the code.
pub(super) const CODE: u16 = 19;

/// Columns of a change that are worth showing; the line below the table has it whole.
const CHANGES: u16 = 16;

/// Below this width a row has the need alone; its colour and the line below the table say whether
/// it fits.
const WIDTH_FOR_VERDICT: u16 = 50;

pub(super) fn lines(page: Page) -> Vec<StyledLine> {
    let all = page.scene.remedies;
    if all.is_empty() {
        let words = match page.scene.subject {
            Subject::Own => "No known remedy for this command: press v to edit it.",
            Subject::Recording(_) => "Remedies are offered while a session runs.",
            Subject::Elsewhere(_) => "Remedies are offered where it runs.",
        };
        return vec![StyledLine::of(words, Tone::Dim)];
    }
    let remedies = page.dialog.listed(all);
    let widths = Widths::of(page, remedies);
    let code = OomDialog::leads_with_code(page.scene).then(|| code(page));
    let each = remedies.iter().enumerate();
    let each = each.map(|(n, remedy)| line(page, remedy, Some(n) == page.dialog.selected, &widths));
    code.into_iter().chain(each).collect()
}

/// How many remedies are not listed.
pub(super) fn hidden(page: Page) -> usize {
    let all = page.scene.remedies;
    all.len() - page.dialog.listed(all).len()
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
pub(super) fn cuts_title(page: Page, remedy: &Remedy) -> bool {
    let listed = page.dialog.listed(page.scene.remedies);
    columns(&remedy.title) >= Widths::of(page, listed).title
}

/// The widths of the columns; 0 for one that has no room.
struct Widths {
    title: u16,
    changes: u16,
    need: u16,
    verdict: u16,
    numbers: u16,
}

impl Widths {
    /// What a remedy does to the numbers goes before its change: it warns, and the change is also
    /// below the table.
    fn of(page: Page, remedies: &[Remedy]) -> Widths {
        let width = page.width;
        let widest = |text: &dyn Fn(&Remedy) -> String, most: u16| {
            let offered = remedies.iter().filter(|remedy| remedy.is_offered());
            let widths = offered.map(|remedy| columns(&text(remedy)));
            widths.max().unwrap_or(0).min(most) + 2
        };
        let titles = remedies.iter().map(|remedy| columns(&remedy.title));
        let title = titles
            .max()
            .unwrap_or(0)
            .min((width * 3 / 10).clamp(16, 40))
            + 2;
        let need = widest(&|remedy| need(&remedy.expectation), 14);
        let verdict = match width < WIDTH_FOR_VERDICT {
            true => 0,
            false => widest(
                &|remedy| verdict(page.scene, &remedy.expectation).0.into(),
                20,
            ),
        };
        let title = title.min(width.saturating_sub(LEAD + need + verdict));
        let room = width.saturating_sub(LEAD + title + need + verdict);
        let numbers = widest(&|remedy| remedy.numerics(), 40) - 2;
        let numbers = if numbers <= room { numbers } else { 0 };
        let changes = widest(&|remedy| remedy.changes.clone(), 50).min(room - numbers);
        Widths {
            title,
            changes: if changes < CHANGES { 0 } else { changes },
            need,
            verdict,
            numbers,
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
            let (words, tone) = verdict(page.scene, &remedy.expectation);
            line.column(mark, 2, mark_tone)
                .column(&remedy.key.to_string(), 2, Tone::Accent);
            for (text, width, tone) in [
                (remedy.title.as_str(), widths.title, title_tone),
                (&remedy.changes, widths.changes, Tone::Text),
                (&need(&remedy.expectation), widths.need, tone),
                (words, widths.verdict, tone),
                (&remedy.numerics(), widths.numbers + 1, Tone::Text),
            ] {
                field(&mut line, glyphs.spelled(text), width, tone);
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

/// Whether it fits, or what it does against a cause that it does not remove.
pub(super) fn verdict(scene: &Scene, expectation: &Expectation) -> (&'static str, Tone) {
    let cause = scene.findings.first().map(|finding| finding.cause.spec());
    let futile = cause.and_then(|cause| cause.futile);
    let futile = futile.filter(|futile| expectation.words.starts_with(futile.verdict));
    match (expectation.fits, futile) {
        (Some(true), _) => ("fits", Tone::Good),
        (Some(false), _) => ("won't fit", Tone::Warning),
        (None, Some(futile)) => (futile.verdict, Tone::Warning),
        (None, None) if expectation.needs.is_some() => ("may not fit", Tone::Text),
        (None, None) => ("unknown", Tone::Text),
    }
}

/// What it needs: a figure, a lower bound, or an interval where that is what is open.
pub(super) fn need(expectation: &Expectation) -> String {
    let open = expectation.fits.is_none();
    match (expectation.needs, expectation.at_least) {
        (Some(needs), _) => match expectation.within.zip(expectation.room) {
            Some(((low, high), room)) if open => {
                let [low, high] = [low, high].map(|bytes| round_gib(bytes, room));
                format!("{low}–{high} GiB")
            }
            Some(_) | None => needs.to_string(),
        },
        (None, Some(least)) => format!("≥ {least}"),
        (None, None) => String::new(),
    }
}

/// A figure of an interval, with a decimal only on small devices.
fn round_gib(bytes: Bytes, room: Bytes) -> String {
    let decimals = usize::from(room < Bytes::gib(10));
    format!("{:.decimals$}", bytes.as_gib())
}
