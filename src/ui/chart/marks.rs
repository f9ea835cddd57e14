//! Marks on the chart: where a run started, memory ran out, or an epoch began. An epoch has a tick on the time axis and its number
//! above the curves, `e3`; of many epochs only round numbers are marked.

use crate::state::{DeviceState, EpochMark, State};
use crate::ui::canvas::{Canvas, columns};
use crate::ui::chart::axis::BYTES_WIDTH;
use crate::ui::chart::window::Window;
use crate::ui::theme::{Glyphs, Tone};

pub(super) fn draw(plot: &mut Canvas, state: &State, device: &DeviceState, window: &Window) {
    for run in state.runs.iter().skip(1) {
        if let Some(column) = window.column(run.started) {
            relaunch(plot, column, &format!("run {}", run.number));
        }
    }
    for run in &state.runs {
        for oom in &run.ooms {
            let elsewhere = oom.device.as_ref().is_some_and(|uuid| *uuid != device.uuid);
            if let Some(column) = window.column(oom.at).filter(|_| !elsewhere) {
                let (tone, words) = match run.survived_oom(oom) {
                    true => (Tone::Warning, "OOM caught"),
                    false => (Tone::Wrong, "out of memory"),
                };
                out_of_memory(plot, column, tone, words);
            }
        }
    }
}

fn relaunch(plot: &mut Canvas, column: u16, name: &str) {
    let theme = plot.theme;
    for row in 0..plot.area.height {
        if plot.is_free(column..column + 1, row, &background(theme.glyphs))
            && let Some(cell) = plot.cell(column, row)
        {
            cell.set_symbol(theme.glyphs.relaunch)
                .set_style(theme.style(Tone::Dim));
        }
    }
    let bottom = plot.area.height.saturating_sub(1);
    words(plot, &[bottom, 2, 0], column + 1, name, Tone::Dim);
}

fn out_of_memory(plot: &mut Canvas, column: u16, tone: Tone, name: &str) {
    // Just below the capacity's rule, where the curve ran into it.
    let row = u16::from(plot.area.height > 2);
    let theme = plot.theme;
    if let Some(cell) = plot.cell(column, row) {
        cell.set_symbol(theme.glyphs.cross)
            .set_style(theme.style(tone));
    }
    words(plot, &[row], column + 2, name, tone);
}

/// Writes beside a mark, on the first of these rows that has no curve in the way.
fn words(plot: &mut Canvas, rows: &[u16], column: u16, text: &str, tone: Tone) {
    let wanted = column..column + columns(text);
    let over = background(plot.theme.glyphs);
    let free = |row: &&u16| plot.is_free(wanted.clone(), **row, &over);
    if let Some(row) = rows.iter().find(free) {
        plot.pen(*row).to(column).text(text, tone);
    }
}

/// What a mark may be drawn over.
fn background(glyphs: &Glyphs) -> [&'static str; 2] {
    [glyphs.relaunch, glyphs.dots]
}

/// Columns between two marks, at least.
const COLUMNS_PER_MARK: u64 = 8;

/// A mark: its column, counted from the start of the session, and its name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EpochTick {
    column: u64,
    name: String,
}

/// The marks of the whole session at the window's scale. The choice does not depend on the window's
/// position, so that marks do not come and go while the chart scrolls.
pub(super) fn epoch_ticks(state: &State, window: &Window) -> Vec<EpochTick> {
    let column_us = window.column_us().max(1);
    let mut shown: Vec<EpochTick> = Vec::new();
    let mut free_from = 0;
    for run in &state.runs {
        let step = step(run.epochs.marks(), column_us);
        for mark in run.epochs.every(step) {
            let column = mark.at.0 / column_us;
            if column >= free_from {
                let name = format!("e{}", mark.number);
                free_from = column + u64::from(columns(&name)) + 1;
                shown.push(EpochTick { column, name });
            }
        }
    }
    shown
}

/// Every how many epochs one is marked: 1, 2, 5, 10 and so on.
fn step(marks: &[EpochMark], column_us: u64) -> u64 {
    let mut lengths: Vec<u64> = marks
        .windows(2)
        .filter(|pair| pair[1].number > pair[0].number)
        .map(|pair| {
            pair[1].at.since(pair[0].at).as_micros() as u64 / (pair[1].number - pair[0].number)
        })
        .collect();
    // The median: an epoch that was cut short or waited for a disk changes nothing.
    lengths.sort_unstable();
    let Some(length) = lengths.get(lengths.len() / 2) else {
        return 1;
    };
    let needed = COLUMNS_PER_MARK * column_us;
    let fits = |step: &u64| length.saturating_mul(*step) >= needed;
    round_numbers().find(fits).unwrap_or(u64::MAX)
}

pub(crate) fn round_numbers() -> impl Iterator<Item = u64> {
    let decades = std::iter::successors(Some(1_u64), |ten| ten.checked_mul(10));
    decades.flat_map(|ten| [1, 2, 5].map(|n| ten.saturating_mul(n)))
}

/// Columns and names of the marks inside the window.
fn in_window<'a>(shown: &'a [EpochTick], window: &Window) -> impl Iterator<Item = (u16, &'a str)> {
    let first = window.from.0 / window.column_us().max(1);
    let end = u64::from(window.columns);
    shown.iter().filter_map(move |mark| {
        let column = mark.column.checked_sub(first).filter(|at| *at < end)?;
        Some((column as u16, mark.name.as_str()))
    })
}

/// Draws the names on the plot's first row, where only a rule may be below them.
pub(super) fn draw_epoch_names(plot: &mut Canvas, shown: &[EpochTick], window: &Window) {
    // A plot of few rows needs them all for the curves.
    if plot.area.height < 4 {
        return;
    }
    for (column, name) in in_window(shown, window) {
        let to = column + columns(name);
        if plot.is_free(column..to, 0, &[plot.theme.glyphs.dots]) {
            plot.pen(0).to(column).text(name, Tone::Dim);
        }
    }
}

/// Draws the ticks on the time axis, which must have been drawn already.
pub(super) fn draw_epoch_ticks(axis: &mut Canvas, shown: &[EpochTick], window: &Window) {
    let theme = axis.theme;
    for (column, _) in in_window(shown, window) {
        if let Some(cell) = axis.cell(BYTES_WIDTH + column, 0)
            && cell.symbol() == theme.glyphs.line
        {
            cell.set_symbol(theme.glyphs.epoch)
                .set_style(theme.style(Tone::Dim));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Epoch, EventKind};
    use crate::state::tests::staged::StagedSession;
    use crate::ui::theme::Theme;
    use crate::units::Moment;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    fn window(from: u64, columns: u16) -> Window {
        // A second a column.
        Window {
            from: Moment(from * 1_000_000),
            to: Moment((from + u64::from(columns)) * 1_000_000),
            columns,
        }
    }

    /// Epochs of so many seconds each.
    fn scene(count: u64, seconds: f64) -> StagedSession {
        let mut scene = StagedSession::training();
        for number in 1..=count {
            scene.add(
                2.0 + number as f64 * seconds,
                EventKind::Epoch(Epoch { number }),
            );
        }
        scene
    }

    fn names(scene: &StagedSession, window: &Window) -> String {
        let shown = epoch_ticks(&scene.state, window);
        let names: Vec<&str> = in_window(&shown, window).map(|(_, name)| name).collect();
        names.join(" ")
    }

    #[test]
    fn of_many_the_round_numbers_are_shown() {
        for (seconds, expected) in [
            (10.0, "e1 e2 e3 e4 e5"),
            (4.0, "e2 e4 e6 e8 e10 e12 e14"),
            (1.0, "e10 e20 e30 e40 e50"),
            (0.1, "e100 e200 e300 e400 e500"),
        ] {
            assert_eq!(names(&scene(500, seconds), &window(0, 60)), expected);
        }
        assert_eq!(names(&scene(0, 1.0), &window(0, 60)), "");
        assert_eq!(names(&scene(1, 1.0), &window(0, 60)), "e1");
    }

    #[test]
    fn what_is_shown_stays_while_the_chart_scrolls() {
        let scene = scene(400, 1.3);
        let whole = epoch_ticks(&scene.state, &window(0, 600));
        for from in 0..400 {
            assert_eq!(epoch_ticks(&scene.state, &window(from, 60)), whole);
        }
    }

    #[test]
    fn names_do_not_touch() {
        let mut scene = StagedSession::training();
        for (at, number) in [(10.0, 1), (30.0, 2), (31.0, 3), (33.5, 4), (60.0, 5)] {
            scene.add(at, EventKind::Epoch(Epoch { number }));
        }
        assert_eq!(names(&scene, &window(0, 90)), "e1 e2 e4 e5");
    }

    #[test]
    fn any_size_can_be_drawn() {
        let scene = scene(50, 3.0);
        for (width, height) in (0..40).flat_map(|width| (0..6).map(move |height| (width, height))) {
            let area = Rect::new(0, 0, width, height);
            let mut buf = Buffer::empty(area);
            let window = window(20, width.max(1));
            let shown = epoch_ticks(&scene.state, &window);
            let mut canvas = Canvas {
                buf: &mut buf,
                area,
                theme: &Theme::full(),
            };
            draw_epoch_names(&mut canvas, &shown, &window);
            draw_epoch_ticks(&mut canvas, &shown, &window);
        }
    }
}
