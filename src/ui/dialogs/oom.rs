//! The OOM dialog: the cause and its evidence, the lines with the most memory, the remedies with
//! what they change and are expected to need, and the next command as a diff.
//!
//! Here is how they share the rows. The remedies come first; if even they do not fit, they scroll with the
//! selection. No sentence is cut: a paragraph is there as a whole or left to the details, which scroll.

mod blocks;
mod diagnosis;
mod expected;
mod remedies;

use super::place::place;
use crate::diagnosis::Finding;
use crate::event::{OomRecord, Phase};
use crate::remedy::{UndoneRemedy, WhyUndone};
use crate::state::{OomIncident, Run, RunOutcome};
use crate::ui::canvas::{self, Canvas, StyledLine, columns};
use crate::ui::dialog::{Details, OomDialog};
use crate::ui::scene::Scene;
use crate::ui::theme::{Theme, Tone};
use crate::ui::words::count;
use crate::units::RunNumber;
pub(crate) use diagnosis::{command, markdown};
use ratatui::layout::{Position, Rect};
pub(super) use remedies::tone_of;
use std::ops::Range;

/// What the lines of the dialog are made from.
#[derive(Clone, Copy)]
struct Page<'a> {
    theme: &'a Theme,
    scene: &'a Scene<'a>,
    dialog: &'a OomDialog,
    /// Columns of a line.
    width: u16,
    /// Columns of the table of remedies, which may be wider.
    table: u16,
}

/// Below this width a row of the table has no room for a remedy's need beside its name, and what is
/// labelled goes on below its label.
const NARROW: u16 = 50;

impl<'a> Page<'a> {
    fn findings(&self) -> &'a [Finding] {
        self.dialog.findings(self.scene)
    }

    fn is_narrow(self) -> bool {
        self.width < NARROW
    }

    /// Wraps what has a label.
    fn labelled(self, label: &str, mut parts: Vec<(String, Tone)>) -> Vec<StyledLine> {
        if self.is_narrow() {
            parts.insert(0, (format!("{label} "), Tone::Dim));
            return canvas::labelled("", &parts, self.width);
        }
        canvas::labelled(&format!("{label:<LABEL$}"), &parts, self.width)
    }
}

/// Columns of a label.
const LABEL: usize = 10;

/// Draws the dialog as it was laid out.
pub(crate) fn draw(canvas: &mut Canvas, body: &OomLayout, dialog: &OomDialog, scene: &Scene) {
    let theme = canvas.theme;
    // Corners, and a rule and a space on both sides.
    let room = body.rect.width.saturating_sub(6);
    let title = title_within(scene, dialog.run, theme.glyphs.separator, room);
    // The ends of the output's rows, beside a dialog that is narrower than they are, are shreds.
    canvas.blank_rows(body.rect);
    let mut inside = canvas.boxed(body.rect, &title, Tone::Wrong);
    for (row, line) in (0..inside.area.height).zip(&body.lines) {
        line.draw(&mut inside, row);
    }
}

/// Which remedy lies under a place of the screen; within, `None` is what is to be changed in the
/// code.
pub(crate) fn remedy_at(
    area: Rect,
    theme: &Theme,
    dialog: &OomDialog,
    scene: &Scene,
    at: Position,
) -> Option<Option<usize>> {
    let body = compose(area, theme, dialog, scene);
    let row = usize::from(at.y.checked_sub(body.rect.y + 1)?);
    let inside = body.rect.contains(at);
    let place = row.checked_sub(body.offers.start).filter(|_| inside)?;
    (row < body.offers.end).then(|| (body.first + place).checked_sub(body.above))
}

/// How the details can be scrolled.
pub(crate) fn scrolling(
    area: Rect,
    theme: &Theme,
    dialog: &OomDialog,
    scene: &Scene,
) -> DetailsScroll {
    compose(area, theme, dialog, scene).reading
}

/// As many of its parts as have room, from the first on.
fn title_within(scene: &Scene, number: RunNumber, separator: &str, room: u16) -> String {
    let mut fitting = String::new();
    for part in title_parts(scene, number) {
        let longer = match fitting.is_empty() {
            true => part,
            false => format!("{fitting}{separator}{part}"),
        };
        if !fitting.is_empty() && columns(&longer) > room {
            break;
        }
        fitting = longer;
    }
    fitting
}

fn title_parts(scene: &Scene, number: RunNumber) -> Vec<String> {
    let state = scene.state;
    let run = state.run_numbered(number);
    let oom = run.and_then(Run::explained_oom);
    let is_told = |oom: &&OomIncident| oom.report.is_some() || oom.host.is_some();
    let kind = oom.filter(is_told).map(OomIncident::kind);
    if run.is_some_and(|run| run.ooms.is_empty()) {
        // Opened because the program did not take a remedy's change.
        let is_without_effect = |undone: &UndoneRemedy| match undone.why {
            WhyUndone::WithoutEffect(_) => true,
            WhyUndone::Said(_) | WhyUndone::Exited { .. } | WhyUndone::OursFailed(_) => false,
        };
        return vec![match scene.undone.is_some_and(is_without_effect) {
            true => format!("The change of run {number} had no effect"),
            false => format!("Run {number} rejected the change"),
        }];
    }
    let is_memory = oom.is_none_or(|oom| oom.what() == "memory");
    let mut parts = vec![match is_memory {
        true => kind.unwrap_or_default().spec().title.to_string(),
        false => format!("out of {}", oom.map_or("memory", OomIncident::what)),
    }];
    if let Some(device) = oom
        .and_then(|oom| oom.device.as_ref())
        .and_then(|uuid| state.device(uuid))
    {
        parts.push(device.label());
    }
    if let Some(rank) = oom.and_then(|oom| oom.rank) {
        parts.push(format!("rank {rank}"));
    }
    parts.push(match run.map(|run| run.outcome()) {
        Some(RunOutcome::Running) => format!("run {number}, still running"),
        Some(
            RunOutcome::Finished
            | RunOutcome::TrainedNothing
            | RunOutcome::Stopped
            | RunOutcome::Failed(_),
        ) => format!("run {number}, which continued"),
        Some(RunOutcome::OutOfMemory) | None => format!("run {number}"),
    });
    if let Some(record) = oom.and_then(|oom| oom.record.as_ref()) {
        parts.push(phase_of(record));
    }
    parts
}

/// Whether memory ran out in a step, and not in what comes after one.
pub(in crate::ui) fn is_in_step(record: &OomRecord) -> bool {
    match record.phase {
        Phase::Load | Phase::Evaluation => false,
        Phase::Forward | Phase::Backward | Phase::Optimizer | Phase::Unknown => {
            record.activity().is_none()
        }
    }
}

/// Where in the training. The record counts ended steps; the OOM was in the next one.
pub(in crate::ui) fn phase_of(record: &OomRecord) -> String {
    let ended = record.step;
    let step = count(ended + 1);
    if let Some(activity) = record.activity() {
        let words = activity.words();
        return match ended {
            0 => words.into(),
            _ => format!("{words} after step {}", count(ended)),
        };
    }
    match record.phase {
        Phase::Load => String::from("while loading"),
        Phase::Forward => format!("in the forward pass of step {step}"),
        Phase::Backward => format!("in the backward pass of step {step}"),
        Phase::Optimizer => format!("in optimizer step {step}"),
        Phase::Evaluation if ended == 0 => String::from("during evaluation"),
        Phase::Evaluation => format!("during evaluation after step {}", count(ended)),
        Phase::Unknown => format!("in step {step}"),
    }
}

/// The dialog, laid out.
#[derive(Debug, Clone)]
pub(in crate::ui) struct OomLayout {
    pub rect: Rect,
    pub lines: Vec<StyledLine>,
    /// The lines that are remedies.
    pub offers: Range<usize>,
    /// The row on the first of them.
    pub first: usize,
    /// Rows above the first remedy.
    pub above: usize,
    pub reading: DetailsScroll,
}

/// How the details are read: the lines in view, the most that can be above them, and where their sections begin.
#[derive(Debug, Clone, Default)]
pub(crate) struct DetailsScroll {
    pub shown: usize,
    pub most: usize,
    pub sections: Vec<usize>,
}

/// Lines of the cause, at least.
const HEADLINE: usize = 2;

/// Lines of what is expected and of the command, at least.
const NEXT: usize = 2;

/// Remedies in view, at least.
const REMEDIES: usize = 3;

/// Lines of the details in view, at least, where what follows from the selection stays below the table.
const DETAILS: usize = 5;

/// Below so many lines the table gives its own to the details.
const ROOM_FOR_TABLE: usize = 26;

/// Columns and lines in the smallest screen that is drawn in full, 40x12.
const LEAST: (u16, usize) = (36, 8);

/// Lines longer than this are tiring to read.
const WIDEST: u16 = 118;

/// With less room beside it than this on both sides together, the dialog has the whole width: what is cut there cannot be read.
const BESIDE: u16 = 44;

/// What stands in the dialog's last line where not all of it has room.
const MORE: &str = "d: more of this, and the evidence";

pub(in crate::ui) fn compose(
    area: Rect,
    theme: &Theme,
    dialog: &OomDialog,
    scene: &Scene,
) -> OomLayout {
    let room = usize::from(area.height.saturating_sub(4)).max(1);
    let page = |width: u16| Page {
        theme,
        scene,
        dialog,
        width: width.min(WIDEST).saturating_sub(4).max(1),
        table: width.saturating_sub(4).max(1),
    };
    let wanted = (remedies::wanted(page(area.width)) + 4).max(WIDEST);
    let width = match area.width < wanted.saturating_add(BESIDE) {
        true => area.width,
        false => wanted,
    };
    let page = page(width);
    let parts = match dialog.details {
        Details::Brief => brief(page, room),
        Details::Full { scrolled } => full(page, room, scrolled),
    };
    let used = parts.over.len() + parts.offers.len() + parts.under.len();
    let spare = room.saturating_sub(used);
    let is_tiny = room < LEAST.1 || page.width < LEAST.0;
    debug_assert!(is_tiny || used <= room, "{used} of {room} lines");

    let mut lines = parts.over;
    if spare > 0 {
        lines.push(StyledLine::default());
    }
    let begin = lines.len();
    lines.extend(parts.offers);
    let offers = begin..lines.len();
    if spare > 1 && !parts.under.is_empty() {
        lines.push(StyledLine::default());
    }
    lines.extend(parts.under);
    lines.truncate(room);
    OomLayout {
        rect: place(area, width, lines.len() as u16 + 2),
        lines,
        offers,
        first: parts.first,
        above: usize::from(OomDialog::leads_with_code(scene)),
        reading: parts.reading,
    }
}

/// What stands over the remedies, the remedies in view, and what stands under them.
#[derive(Default)]
struct Parts {
    over: Vec<StyledLine>,
    offers: Vec<StyledLine>,
    under: Vec<StyledLine>,
    first: usize,
    reading: DetailsScroll,
}

/// The cause, the remedies, and of the rest each paragraph that has room as a whole: those first that
/// help to decide.
fn brief(page: Page, room: usize) -> Parts {
    let mut fits_all = true;
    let cause = diagnosis::cause(page, (room / 2).max(HEADLINE));
    let below = diagnosis::below(page);
    let expected = expected::expected(page);
    let others = [
        remedies::later(page),
        remedies::command(page),
        remedies::kept(page),
        remedies::meanwhile(page),
    ];
    let longest = expected.first().map_or(0, Vec::len);
    let under: usize = longest + others.iter().map(Vec::len).sum::<usize>();
    // What is to be changed in the code has the row of a remedy that would only delay it.
    let for_more = usize::from(OomDialog::leads_with_code(page.scene) && expected.len() > 1);
    let most = room.saturating_sub(cause.len().max(HEADLINE) + under.min(NEXT) + for_more);
    let (first, offers) = offers_within(page, most, room.saturating_sub(cause.len() + 1));

    let mut parts = Parts {
        offers,
        first,
        over: cause,
        ..Parts::default()
    };
    let whole = below.iter().chain(&others).map(Vec::len).sum::<usize>() + longest;
    let mut left = room.saturating_sub(parts.over.len() + parts.offers.len());
    if whole > left || diagnosis::cause(page, usize::MAX).len() > parts.over.len() {
        fits_all = false;
        left = left.saturating_sub(1);
    }
    let mut take = |paragraph: Vec<StyledLine>, into: &mut Vec<StyledLine>| {
        let fits = paragraph.len() <= left;
        if fits {
            left -= paragraph.len();
            into.extend(paragraph);
        }
        fits
    };
    let [later, command, kept, meanwhile] = others;
    take(later, &mut parts.under);
    for shorter in expected {
        if take(shorter, &mut parts.under) {
            break;
        }
    }
    take(command, &mut parts.under);
    take(kept, &mut parts.under);
    for paragraph in below {
        take(paragraph, &mut parts.over);
    }
    match fits_all {
        true => drop(take(meanwhile, &mut parts.under)),
        false => parts.under.push(StyledLine::of(MORE, Tone::Dim)),
    }
    parts
}

/// All of it: where it has no room, it is scrolled, what follows from the selection with it if
/// need be.
fn full(page: Page, room: usize, scrolled: usize) -> Parts {
    let mut under = next_lines(page);
    let (mut text, mut sections) = diagnosis::full(page);
    let least = text.len().min(DETAILS) + under.len();
    // Whoever reads on a low screen has seen the table: the selected row stays, and what follows from it is among what is read.
    let is_low = room < ROOM_FOR_TABLE;
    let (first, offers) = match is_low {
        true => only_selected(page),
        false => offers_within(page, room.saturating_sub(least), room / 2),
    };
    let left = room.saturating_sub(offers.len());
    if left < least || is_low {
        let cause = diagnosis::cause(page, usize::MAX).len();
        for (at, _) in &mut sections {
            *at += under.len();
        }
        text.splice(cause..cause, under.drain(..));
    }
    let blank = usize::from(!under.is_empty());
    let height = left.saturating_sub(under.len() + blank).max(1);
    let (over, reading) = part_of(text, sections, scrolled, height, page.width);
    Parts {
        over,
        offers,
        under,
        first,
        reading,
    }
}

fn next_lines(page: Page) -> Vec<StyledLine> {
    let mut lines = remedies::later(page);
    let expected = expected::expected(page).into_iter().next();
    lines.extend(expected.unwrap_or_default());
    lines.extend(remedies::command(page));
    lines.extend(remedies::kept(page));
    lines.extend(remedies::meanwhile(page));
    lines
}

/// The remedies around the selected one, at most so many, but a few if they have room; without that
/// the selected one alone. Also which is the first.
fn offers_within(page: Page, most: usize, room: usize) -> (usize, Vec<StyledLine>) {
    let all = remedies::lines(page);
    let above = usize::from(OomDialog::leads_with_code(page.scene));
    let selected = page
        .dialog
        .selected(page.scene)
        .map_or(0, |selected| selected + above);
    let most = most.max(REMEDIES.min(room));
    let window = match most < REMEDIES && all.len() > most {
        true => selected..(selected + 1).min(all.len()),
        false => window(all.len(), selected, most),
    };
    cut(all, window, page.theme)
}

/// The row of the selected remedy.
fn only_selected(page: Page) -> (usize, Vec<StyledLine>) {
    let above = usize::from(OomDialog::leads_with_code(page.scene));
    let selected = page.dialog.selected(page.scene);
    let at = selected.map_or(0, |selected| selected + above);
    let row = remedies::lines(page).into_iter().nth(at);
    (at, row.into_iter().collect())
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
    if window.len() == 1 {
        return (window.start, all.drain(window).collect());
    }
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

/// So many lines from one on; the last tells the position if they are not all, and what Tab leads to.
fn part_of(
    mut all: Vec<StyledLine>,
    sections: Vec<(usize, String)>,
    from: usize,
    height: usize,
    width: u16,
) -> (Vec<StyledLine>, DetailsScroll) {
    if all.len() <= height {
        let shown = all.len();
        let reading = DetailsScroll {
            shown,
            ..DetailsScroll::default()
        };
        return (all, reading);
    }
    let shown = height.saturating_sub(1).max(1);
    let most = all.len() - shown;
    let first = from.min(most);
    let mut place = format!(
        "PgUp PgDn: lines {}-{} of {}",
        first + 1,
        first + shown,
        all.len()
    );
    // At the end Tab leads back to the beginning.
    let next = sections.iter().find(|(at, _)| *at > first);
    if let Some((_, words)) = next.filter(|_| first < most) {
        let words = words.split(" (").next().unwrap_or_default();
        let longer = format!("{place}  Tab: {words}");
        if columns(&longer) <= width {
            place = longer;
        }
    }
    all.truncate(first + shown);
    all.drain(..first);
    all.push(StyledLine::of(place, Tone::Dim));
    let reading = DetailsScroll {
        shown,
        most,
        sections: sections.into_iter().map(|(at, _)| at).collect(),
    };
    (all, reading)
}

#[cfg(test)]
mod body_tests {
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
