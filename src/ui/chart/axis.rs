//! The two axes: bytes to rows and the round numbers of GiB on the left, time below; and what is marked along
//! time: relaunches, OOMs and epochs.

use super::window::{DAY, HOUR, MIN, SECOND, Window};
use crate::event::{Note, NoteSubject};
use crate::state::{DeviceState, EpochMark, Run, State};
use crate::ui::canvas::{Canvas, columns};
use crate::ui::theme::{Glyphs, Tone};
use crate::units::{Bytes, Moment, RunNumber, clock_face};
use std::time::Duration;

/// Steps between the numbers of the axis, in GiB: round ones and powers of two.
const GIB_STEPS: [f64; 23] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 8.0, 10.0, 20.0, 25.0, 40.0, 50.0,
    100.0, 200.0, 250.0, 500.0, 1_000.0, 2_000.0,
];

/// At most every other row has a number.
const ROWS_PER_TICK: f64 = 2.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::ui) struct Scale {
    top: f64,
    rows: u16,
    /// Rows above them that are not to scale: the capacity, where the axis is broken below it.
    above: u16,
}

impl Scale {
    /// A scale with `top` in the middle of the first row.
    pub(in crate::ui) fn with_top(top: Bytes, rows: u16) -> Scale {
        let rows = rows.max(1);
        let share = f64::from(rows) / (f64::from(rows) - 0.5);
        Scale {
            top: (top.0.max(1) as f64) * share,
            rows,
            above: 0,
        }
    }

    /// The same below a few rows of all, of which the first is for what lies above `top`.
    pub(in crate::ui) fn broken(top: Bytes, rows: u16, above: u16) -> Scale {
        Scale {
            above,
            ..Scale::with_top(top, rows.saturating_sub(above))
        }
    }

    /// The rows above those that are to scale.
    pub(in crate::ui) fn above(&self) -> u16 {
        self.above
    }

    pub(in crate::ui) fn rows(&self) -> u16 {
        self.rows
    }

    /// How many eighths of a row are filled from below; at least one for anything above zero.
    pub(in crate::ui) fn eighths(&self, bytes: Bytes) -> u32 {
        let all = u32::from(self.rows) * 8;
        let filled = (bytes.0 as f64 / self.top * f64::from(all)).round() as u32;
        filled.clamp(u32::from(bytes > Bytes::ZERO), all)
    }

    /// The row of an amount, counted from the top.
    pub(in crate::ui) fn row(&self, bytes: Bytes) -> u16 {
        if self.above > 0 && bytes.0 as f64 > self.top {
            return 0;
        }
        let from_below = (bytes.0 as f64 / self.top * f64::from(self.rows)).floor() as u16;
        self.above + self.rows - 1 - from_below.min(self.rows - 1)
    }

    /// The numbers of the axis with their rows, from below.
    pub(in crate::ui) fn ticks(&self) -> Vec<(Bytes, u16)> {
        let gib = self.top / Bytes::gib(1).0 as f64;
        let least = gib / f64::from(self.rows) * ROWS_PER_TICK;
        let step = GIB_STEPS
            .into_iter()
            .find(|&step| step >= least)
            .unwrap_or(GIB_STEPS[GIB_STEPS.len() - 1]);
        (0..)
            .map(|n| f64::from(n) * step)
            .take_while(|&at| at < gib)
            .take(usize::from(self.rows))
            .map(|at| {
                let bytes = Bytes((at * Bytes::gib(1).0 as f64) as u64);
                (bytes, self.row(bytes))
            })
            .collect()
    }
}

/// A tick's number without trailing zeros.
fn tick_label(bytes: Bytes) -> String {
    let text = format!("{:.2}", bytes.as_gib());
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A capacity's number, in the four columns that there are.
fn capacity_label(bytes: Bytes) -> String {
    match bytes.as_gib() {
        gib if gib < 100.0 => format!("{gib:.1}"),
        gib => format!("{gib:.0}"),
    }
}

pub(in crate::ui) const BYTES_WIDTH: u16 = 5;

/// Steps between the numbers of the time axis, in seconds.
const TIME_STEPS: [u64; 22] = [
    1,
    2,
    5,
    10,
    15,
    30,
    MIN,
    2 * MIN,
    5 * MIN,
    10 * MIN,
    15 * MIN,
    30 * MIN,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    28 * DAY,
    91 * DAY,
];

/// Columns between two numbers of the time axis, at least.
const COLUMNS_PER_TICK: u64 = 12;

/// Draws the bytes axis beside the plot's rows: `1000 ┤`. Its top is the capacity, where that is known.
pub(in crate::ui) fn draw_bytes(canvas: &mut Canvas, scale: &Scale, capacity: Option<Bytes>) {
    let (area, glyphs) = (canvas.area, canvas.theme.glyphs);
    let last = area.width.saturating_sub(1);
    for row in 0..area.height {
        let is_broken = (1..scale.above()).contains(&row);
        let axis = match is_broken {
            true => glyphs.broken_axis,
            false => glyphs.axis,
        };
        canvas.pen(row).skip(last).text(axis, Tone::Faint);
    }
    let round = scale.ticks().into_iter();
    // The number below it would stand too near.
    let round = round.filter(|(_, row)| capacity.is_none() || *row > 1);
    let labels = round.map(|(at, row)| (tick_label(at), row));
    for (label, row) in labels.chain(capacity.map(|at| (capacity_label(at), 0))) {
        let pad = last.saturating_sub(columns(&label) + 1);
        canvas
            .pen(row)
            .skip(pad)
            .text(&label, Tone::Dim)
            .to(last)
            .text(glyphs.axis_tick, Tone::Faint);
    }
}

/// Draws the time axis on one row, `└── 1:00 ────── 2:00 ──`, each number centred on its time. The
/// row starts at the bytes axis, `BYTES_WIDTH` columns to the left of the plot. Each run's time begins with it, as in the header;
/// what was spent between two runs has no numbers.
/// A start that is left out on the left of the plot is said there.
pub(super) fn draw_time(
    canvas: &mut Canvas,
    state: &State,
    window: &Window,
    left_out: Option<Duration>,
) {
    let (rule, glyphs) = (Tone::Faint, canvas.theme.glyphs);
    canvas
        .pen(0)
        .text("GiB", Tone::Dim)
        .to(BYTES_WIDTH - 1)
        .text(glyphs.origin, rule)
        .fill(glyphs.line, rule);
    let end = (BYTES_WIDTH + window.columns).min(canvas.area.width);
    let mut free_from = BYTES_WIDTH;
    if let Some(left_out) = left_out {
        let label = format!(" {} left out ", clock_face(left_out));
        if BYTES_WIDTH + columns(&label) < end {
            canvas
                .pen(0)
                .to(BYTES_WIDTH - 1)
                .text(glyphs.broken_axis, rule)
                .text(&label, Tone::Dim);
            free_from += columns(&label) + 1;
        }
    }
    for (at, label) in ticks(state, window) {
        let Some(column) = window.column(at) else {
            continue;
        };
        let width = columns(&label) + 2;
        let x = (BYTES_WIDTH + column)
            .saturating_sub(width / 2)
            .max(BYTES_WIDTH);
        if x < free_from || x + width > end {
            continue;
        }
        free_from = x + width + 1;
        canvas
            .pen(0)
            .to(x)
            .text(" ", rule)
            .text(&label, Tone::Dim)
            .text(" ", rule);
    }
}

/// Round times of the runs in the window, since the run's start. Where there are several, one begins with its name: a second 0:00
/// would be a riddle.
fn ticks(state: &State, window: &Window) -> impl Iterator<Item = (Moment, String)> + use<> {
    let step = step_of(window);
    let (from, to) = (window.from, window.to);
    let is_one_of_several = state.runs.len() > 1;
    let of_run = move |stretch: Stretch| {
        let Stretch { run, begin, end } = stretch;
        let run = run.filter(|_| is_one_of_several);
        let first = from.since(begin).as_micros() as u64;
        let first = first.div_ceil(step * SECOND);
        (first..)
            .map(move |n| Duration::from_secs(n * step))
            .map(move |since_start| {
                let label = match run {
                    Some(run) if since_start.is_zero() => format!("run {run}"),
                    Some(_) | None => time_label(since_start, step),
                };
                (begin + since_start, label)
            })
            .take_while(move |(at, _)| *at < to && *at <= end)
    };
    stretches(state, window).into_iter().flat_map(of_run)
}

/// What has numbers of its own on the axis.
struct Stretch {
    /// `None` of a session without one.
    run: Option<RunNumber>,
    begin: Moment,
    end: Moment,
}

/// From when to when each run in the window has numbers; the one that goes on up to the edge. Without a run it is the session.
fn stretches(state: &State, window: &Window) -> Vec<Stretch> {
    let of_run = |run: &Run| Stretch {
        run: Some(run.number),
        begin: run.started,
        end: run.ended.map_or(window.to, |(at, _)| at),
    };
    let runs = state.runs.iter().map(of_run);
    let seen = runs.filter(|run| run.begin < window.to && run.end >= window.from);
    match state.runs.is_empty() {
        true => vec![Stretch {
            run: None,
            begin: Moment::ZERO,
            end: window.to,
        }],
        false => seen.collect(),
    }
}

/// Seconds between two numbers.
fn step_of(window: &Window) -> u64 {
    let span = window.span().as_secs().max(1);
    let most = (u64::from(window.columns) / COLUMNS_PER_TICK).max(1);
    TIME_STEPS
        .into_iter()
        .find(|step| span / step <= most)
        .unwrap_or(TIME_STEPS[TIME_STEPS.len() - 1])
}

/// A time of a run, as exact as the step needs: `1:30`, `20m`, `1h20`, `2d 4h`.
fn time_label(since_start: Duration, step: u64) -> String {
    let total = since_start.as_secs();
    let (days, hours, minutes) = (total / 86_400, total / 3_600 % 24, total / 60 % 60);
    match (days, hours, minutes) {
        _ if step < 60 => clock_face(since_start),
        (0, 0, 0) => String::from("0"),
        (0, 0, _) => format!("{minutes}m"),
        (0, _, 0) => format!("{hours}h"),
        (0, _, _) => format!("{hours}h{minutes:02}"),
        (_, 0, 0) => format!("{days}d"),
        (_, _, 0) => format!("{days}d {hours}h"),
        (_, _, _) => format!("{days}d {hours}h{minutes:02}"),
    }
}

pub(super) fn draw_marks(plot: &mut Canvas, state: &State, device: &DeviceState, window: &Window) {
    for run in state.runs.iter().skip(1) {
        if let Some(column) = window.column(run.started) {
            named_line(plot, column, &format!("run {}", run.number));
        }
    }
    draw_program_marks(plot, state, window);
    let mut crosses = Vec::new();
    for run in &state.runs {
        for oom in &run.ooms {
            let elsewhere = oom.device.as_ref().is_some_and(|uuid| *uuid != device.uuid);
            if let Some(column) = window.column(oom.at).filter(|_| !elsewhere) {
                let (tone, words) = match run.survived_oom(oom) {
                    true => (Tone::Warning, "OOM caught".to_string()),
                    false => (Tone::Wrong, format!("out of {}", oom.what())),
                };
                crosses.push((column, tone, words));
            }
        }
    }
    draw_crosses(plot, &crosses);
}

/// Just below the capacity's rule, where the curve ran into it. Of several near each other the last one has its words.
fn draw_crosses(plot: &mut Canvas, crosses: &[(u16, Tone, String)]) {
    let row = u16::from(plot.area.height > 2);
    let theme = plot.theme;
    for (column, tone, _) in crosses {
        if let Some(cell) = plot.cell(*column, row) {
            cell.set_symbol(theme.glyphs.cross)
                .set_style(theme.style(*tone));
        }
    }
    for (at, (column, tone, name)) in crosses.iter().enumerate() {
        let end = column + 2 + columns(name);
        let is_last = crosses[at + 1..].iter().all(|(next, ..)| *next > end);
        if is_last {
            words(plot, &[row], column + 2, name, *tone);
        }
    }
}

/// What the text of a program's mark begins with in the recording.
const MARK: &str = "mark: ";
/// Characters of a mark's name.
const MARK_SHOWN: usize = 16;

/// The program's own marks: a line each, but for those too near to the one before.
fn draw_program_marks(plot: &mut Canvas, state: &State, window: &Window) {
    let mut free_from = 0;
    let of_program = |note: &Note| note.about == Some(NoteSubject::Mark);
    for (at, note) in state.notes.iter().filter(|(_, note)| of_program(note)) {
        let text = note.text.strip_prefix(MARK).unwrap_or(&note.text);
        let name: String = text.chars().take(MARK_SHOWN).collect();
        if let Some(column) = window.column(*at).filter(|column| *column >= free_from) {
            named_line(plot, column, &name);
            free_from = column + columns(&name) + 2;
        }
    }
}

fn named_line(plot: &mut Canvas, column: u16, name: &str) {
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
    use crate::event::Exit;
    use crate::ui::theme::Theme;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    fn labels(top: Bytes, rows: u16) -> Vec<String> {
        let ticks = Scale::with_top(top, rows).ticks();
        ticks.into_iter().map(|(at, _)| tick_label(at)).collect()
    }

    #[test]
    fn axes_have_round_numbers() {
        for (gib, rows, expected) in [
            (24.0, 10, "0 8 16 24"),
            (23.6, 16, "0 4 8 12 16 20 24"),
            (80.0, 12, "0 20 40 60 80"),
            (141.0, 12, "0 25 50 75 100 125"),
            (8.0, 10, "0 2 4 6 8"),
            (1.0, 8, "0 0.5 1"),
            (24.0, 3, "0 20"),
            (24.0, 1, "0"),
        ] {
            let top = Bytes::gib(1).scale(gib);
            assert_eq!(labels(top, rows).join(" "), expected, "{gib} on {rows}");
        }
    }

    #[test]
    fn no_two_numbers_share_a_row() {
        for rows in 1..60 {
            for mib in (64..200_000).step_by(1_777) {
                let scale = Scale::with_top(Bytes::mib(mib), rows);
                let mut taken: Vec<u16> = scale.ticks().into_iter().map(|(_, row)| row).collect();
                let all = taken.len();
                taken.dedup();
                assert_eq!(taken.len(), all, "{mib} MiB on {rows} rows");
                assert!(taken.iter().all(|&row| row < rows));
            }
        }
    }

    #[test]
    fn something_is_never_drawn_as_nothing() {
        let scale = Scale::with_top(Bytes::gib(80), 10);
        assert_eq!(scale.eighths(Bytes::ZERO), 0);
        assert_eq!(scale.eighths(Bytes(1)), 1);
        assert_eq!(scale.eighths(Bytes::gib(500)), 80);
        assert_eq!(scale.row(Bytes::gib(80)), 0);
        assert_eq!(scale.row(Bytes::ZERO), 9);
        // What lies above the top of a broken one is on the first row, and never within the scale.
        let broken = Scale::broken(Bytes::gib(5), 10, 2);
        assert_eq!(
            (broken.row(Bytes::gib(80)), broken.row(Bytes::gib(5))),
            (0, 2)
        );
        assert_eq!((broken.row(Bytes::ZERO), broken.rows()), (9, 8));
        assert!(broken.ticks().iter().all(|(_, row)| *row >= 2));
    }

    fn time_labels(state: &State, from: u64, to: u64, columns: u16) -> String {
        let window = Window {
            from: Moment(from * 1_000_000),
            to: Moment(to * 1_000_000),
            columns,
        };
        ticks(state, &window)
            .map(|(_, label)| label)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn time_axes_have_round_numbers() {
        for (from, to, columns, expected) in [
            (0, 60, 80, "0:00 0:10 0:20 0:30 0:40 0:50"),
            (0, 120, 60, "0:00 0:30 1:00 1:30"),
            (300, 900, 60, "6m 8m 10m 12m 14m"),
            (3_500, 4_100, 72, "1h 1h02 1h04 1h06 1h08"),
            (86_000, 96_800, 72, "1d 1d 0h30 1d 1h 1d 1h30 1d 2h 1d 2h30"),
            (0, 7 * 86_400, 100, "0 1d 2d 3d 4d 5d 6d"),
            (0, 10, 5, "0:00"),
        ] {
            let nothing = State::default();
            let labels = time_labels(&nothing, from, to, columns);
            assert_eq!(labels, expected, "{from}..{to}");
        }
    }

    #[test]
    fn the_time_of_each_run_begins_with_it_and_a_wait_has_none() {
        let run = |number: u32, started: u64, ended: Option<u64>| Run {
            number: RunNumber(number),
            started: Moment(started * SECOND),
            ended: ended.map(|at| (Moment(at * SECOND), Exit::Code(1))),
            ..Run::default()
        };
        let state = State {
            runs: vec![run(1, 2, Some(14)), run(2, 47, None)],
            ..State::default()
        };
        assert_eq!(
            time_labels(&state, 0, 80, 96),
            "run 1 0:10 run 2 0:10 0:20 0:30"
        );
        assert_eq!(time_labels(&state, 60, 80, 36), "0:20 0:30");
        assert_eq!(time_labels(&state, 20, 40, 36), "", "nothing ran");
        for (at, expected) in [(1, 0), (10, 8), (50, 3)] {
            assert_eq!(state.since_start(Moment(at * SECOND)).as_secs(), expected);
        }
    }

    #[test]
    fn axes_of_any_size_stay_inside() {
        for width in 0..40 {
            let area = Rect::new(0, 0, width, 3);
            let mut buf = Buffer::empty(area);
            let window = Window {
                from: Moment::ZERO,
                to: Moment(60_000_000),
                columns: width.saturating_sub(BYTES_WIDTH).max(1),
            };
            let mut canvas = Canvas {
                buf: &mut buf,
                area,
                theme: &Theme::full(),
            };
            draw_time(&mut canvas, &State::default(), &window, None);
            let scale = Scale::with_top(crate::units::Bytes::gib(24), 3);
            draw_bytes(
                &mut canvas.at(Rect::new(0, 0, width.min(5), 3)),
                &scale,
                None,
            );
        }
    }
}

#[cfg(test)]
mod marks_tests {
    use super::*;
    use crate::event::{Epoch, EventKind, Level};
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

    #[test]
    fn of_many_ooms_near_each_other_the_words_stand_behind_the_last() {
        let theme = Theme::full();
        let area = Rect::new(0, 0, 40, 4);
        let mut buf = Buffer::empty(area);
        let mut canvas = Canvas {
            buf: &mut buf,
            theme: &theme,
            area,
        };
        let crosses: Vec<(u16, Tone, String)> = (3..9)
            .map(|column| (column, Tone::Wrong, "out of memory".to_string()))
            .collect();
        draw_crosses(&mut canvas, &crosses);
        let row: String = (0..40).map(|x| buf[(x, 1)].symbol()).collect();
        assert_eq!(row.trim(), "✗✗✗✗✗✗ out of memory");
    }

    #[test]
    fn a_programs_own_mark_is_a_line_with_its_name() {
        let mut scene = StagedSession::training();
        for (second, text) in [
            (10.0, "mark: warm-up over"),
            (11.0, "mark: too near"),
            (30.0, "mark: epoch 3"),
        ] {
            let note = Note {
                about: Some(NoteSubject::Mark),
                ..Note::new(Level::Info, text)
            };
            scene.add(second, EventKind::Note(note));
        }
        let window = Window {
            from: Moment::ZERO,
            to: Moment(60_000_000),
            columns: 60,
        };
        let area = Rect::new(0, 0, 60, 5);
        let mut buf = Buffer::empty(area);
        let mut canvas = Canvas {
            buf: &mut buf,
            area,
            theme: &Theme::full(),
        };
        draw_program_marks(&mut canvas, &scene.state, &window);
        let row = |y: u16| -> String { (0..60).map(|x| buf[(x, y)].symbol()).collect() };
        assert_eq!(row(1).matches('╎').count(), 2, "{:?}", row(1));
        assert!(row(4).contains("╎warm-up over"), "{:?}", row(4));
        assert!(row(4).contains("╎epoch 3"), "{:?}", row(4));
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
