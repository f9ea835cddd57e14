//! The two axes: GiB on the left, time below.

use super::scale::{Scale, tick_label};
use super::window::{DAY, HOUR, MIN, Window};
use crate::ui::canvas::Canvas;
use crate::ui::pen::columns;
use crate::ui::theme::Tone;
use crate::units::{Moment, clock_face};
use std::time::Duration;

pub(in crate::ui) const BYTES_WIDTH: u16 = 5;

/// Steps between the numbers of the time axis, in seconds.
const STEPS: [u64; 22] = [
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

/// Draws the bytes axis beside the plot's rows: `1000 ┤`.
pub(in crate::ui) fn draw_bytes(canvas: &mut Canvas, scale: &Scale) {
    let (area, glyphs) = (canvas.area, canvas.theme.glyphs);
    let last = area.width.saturating_sub(1);
    for row in 0..area.height {
        canvas.pen(row).skip(last).text(glyphs.axis, Tone::Faint);
    }
    for (at, row) in scale.ticks() {
        let label = tick_label(at);
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
/// row starts at the bytes axis, `BYTES_WIDTH` columns to the left of the plot.
pub(super) fn draw_time(canvas: &mut Canvas, window: &Window) {
    let (rule, glyphs) = (Tone::Faint, canvas.theme.glyphs);
    canvas
        .pen(0)
        .skip(BYTES_WIDTH - 1)
        .text(glyphs.origin, rule)
        .fill(glyphs.line, rule);
    let end = (BYTES_WIDTH + window.columns).min(canvas.area.width);
    let mut free_from = BYTES_WIDTH;
    for (at, step) in ticks(window) {
        let Some(column) = window.column(at) else {
            continue;
        };
        let label = time_label(at.since(Moment::ZERO), step);
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

/// Round times in the window and the step between them.
fn ticks(window: &Window) -> impl Iterator<Item = (Moment, u64)> + use<> {
    let span = window.span().as_secs().max(1);
    let most = (u64::from(window.columns) / COLUMNS_PER_TICK).max(1);
    let step = STEPS
        .into_iter()
        .find(|step| span / step <= most)
        .unwrap_or(STEPS[STEPS.len() - 1]);
    let first = window.from.0.div_ceil(step * 1_000_000);
    let end = window.to;
    (first..)
        .map(move |n| Moment(n * step * 1_000_000))
        .take_while(move |at| *at < end)
        .map(move |at| (at, step))
}

/// A time of the session, as exact as the step needs: `1:30`, `20m`, `1h20`, `2d 4h`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::theme::Theme;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    fn labels(from: u64, to: u64, columns: u16) -> String {
        let window = Window {
            from: Moment(from * 1_000_000),
            to: Moment(to * 1_000_000),
            columns,
        };
        ticks(&window)
            .map(|(at, step)| time_label(at.since(Moment::ZERO), step))
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
            assert_eq!(labels(from, to, columns), expected, "{from}..{to}");
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
            draw_time(&mut canvas, &window);
            let scale = Scale::with_top(crate::units::Bytes::gib(24), 3);
            draw_bytes(&mut canvas.at(Rect::new(0, 0, width.min(5), 3)), &scale);
        }
    }
}
