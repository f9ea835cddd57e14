//! Devices and ranks, one row each, with what NVML and the probe say of them. A rank far above the
//! others is marked, since it is the one that runs out of memory.

use super::{breakdown, rank_map};
use crate::state::{DeviceState, RankState, State};
use crate::ui::canvas::Canvas;
use crate::ui::canvas::Pen;
use crate::ui::pane::ListScroll;
use crate::ui::pane::spec::{PaneRows, PaneSpec, Scrolling};
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::View;
use crate::ui::words::ranks_on;
use crate::ui::words::{Figures, count};
use crate::units::Bytes;

pub(in crate::ui) const PANE: PaneSpec = PaneSpec {
    own_rows: |_, state, screen, _| match screen >= HEIGHT_FOR_DEVICES {
        false => 0,
        true if rank_map::is_wanted(state) => rank_map::rows(state) + 2,
        true => match length(state) {
            rows if rows > 1 => rows.min(9) as u16 + 2,
            _ => 0,
        },
    },
    scrolling: Scrolling::Devices,
    rows: PaneRows::Fixed(|_, scene, width| match rank_map::is_wanted(scene.state) {
        // A narrow map takes what there is.
        true if width < WIDE_MAP => u16::MAX,
        true => rank_map::rows(scene.state),
        false => 1 + length(scene.state) as u16,
    }),
    short: "gpu",
    is_there: |state| !state.devices.is_empty(),
    ..PaneSpec::plain("devices", draw)
};

/// From this height on several devices and ranks have a table of their own.
const HEIGHT_FOR_DEVICES: u16 = 32;

/// From this width on the map has as many nodes beside each other as in a place of its own.
const WIDE_MAP: u16 = 80;

/// Columns of the words at the end of a row.
const WORDS: u16 = 14;

/// A rank is marked if its peak is this much above the median.
const ODD: f64 = 1.1;

/// A device, with a rank on it if there is one.
struct DeviceRow<'a> {
    number: usize,
    device: &'a DeviceState,
    rank: Option<&'a RankState>,
    /// Whether it is the device's first row, and its only one.
    is_first: bool,
    is_alone: bool,
}

fn rows(state: &State) -> impl Iterator<Item = DeviceRow<'_>> {
    state
        .devices
        .iter()
        .enumerate()
        .flat_map(|(number, device)| {
            let ranks = || {
                let run = state.run().into_iter();
                run.flat_map(move |run| ranks_on(run, device))
            };
            let count = ranks().take(2).count();
            let bare = (count == 0).then_some(DeviceRow {
                number,
                device,
                rank: None,
                is_first: true,
                is_alone: true,
            });
            let with_ranks = ranks().enumerate().map(move |(place, rank)| DeviceRow {
                number,
                device,
                rank: Some(rank),
                is_first: place == 0,
                is_alone: count == 1,
            });
            bare.into_iter().chain(with_ranks)
        })
}

fn length(state: &State) -> usize {
    rows(state).count()
}

/// From this width on there is a column for what all processes use of the device.
const ROOM_FOR_USED: u16 = 96;

/// Columns of a sparkline, at most and at least.
const SPARK: (u16, u16) = (32, 8);

/// Draws the table, scrolled so that the selected device is in view.
fn draw(canvas: &mut Canvas, view: &View, scene: &Scene, _: ListScroll) {
    let (theme, state) = (canvas.theme, scene.state);
    if rank_map::is_wanted(state) {
        return rank_map::draw(canvas, view.rank_map.as_ref(), view.device, state);
    }
    let table = DeviceTable {
        view,
        state,
        used: canvas.area.width >= ROOM_FOR_USED,
        median: median_peak(state),
    };
    let mut pen = canvas.pen(0);
    pen.text("  GPU rank  alloc reserved  peak  ", Tone::Dim);
    if table.used {
        pen.text("  used ", Tone::Dim);
    }
    pen.text(" free  util  ", Tone::Dim)
        .text(theme.glyphs.celsius, Tone::Dim)
        .text("    W     step", Tone::Dim);
    if table.spark(&pen).is_some() {
        pen.skip(2).text("allocated", Tone::Dim);
    }
    let shown = usize::from(canvas.area.height.saturating_sub(1));
    let selected = rows(state).position(|row| row.number == view.device);
    let most = length(state).saturating_sub(shown);
    let first = selected.unwrap_or(0).saturating_sub(shown / 2).min(most);
    for (place, row) in (1..).zip(rows(state).skip(first).take(shown)) {
        table.draw_row(canvas.pen(place), &row);
    }
}

struct DeviceTable<'a> {
    view: &'a View,
    state: &'a State,
    used: bool,
    median: Option<Bytes>,
}

impl DeviceTable<'_> {
    fn draw_row(&self, mut pen: Pen, row: &DeviceRow) {
        let theme = &self.view.theme;
        let figures = Figures::of(row.device);
        let gone = row.rank.is_some_and(|rank| rank.disconnected.is_some());
        let text = if gone { Tone::Dim } else { Tone::Text };
        let selected = row.number == self.view.device && row.is_first;
        let mark = if selected { theme.glyphs.pointer } else { " " };
        let name = row.rank.and_then(|rank| rank.hello.rank);
        let name = name.map_or("-".to_string(), |rank| rank.to_string());
        pen.text(mark, Tone::Accent)
            .text(&format!(" {:>3} {name:>4}", row.device.index), text);
        let sample = row.rank.and_then(|rank| rank.sample.as_ref());
        let peak = row.rank.map(|rank| rank.allocated_peak);
        let current = row.rank.and_then(|rank| rank.current_peak(self.state));
        // As beside the chart: the peak of the last seconds, or when memory ran out.
        let of_device = breakdown::device_figures(self.state, row.device);
        let is_over = self.state.run().is_some_and(|run| run.ended.is_some());
        let last = sample.map(|(_, sample)| sample.allocated);
        let at_peak = row.rank.and_then(|rank| rank.sample_at_peak());
        let reserved = at_peak.map(|sample| sample.reserved);
        let (allocated, reserved) = match (is_over, row.is_alone) {
            (_, true) if of_device.allocated.is_some() => (of_device.allocated, of_device.reserved),
            (true, _) => (current.or(last), reserved),
            (false, _) => (current, reserved),
        };
        let odd = peak
            .zip(self.median)
            .is_some_and(|(peak, median)| peak > median.scale(ODD));
        let peak_tone = if odd { Tone::Warning } else { Tone::Text };
        for (bytes, width, tone) in [
            (allocated, 7, Tone::Allocated),
            (reserved, 9, Tone::Reserved),
            (peak, 6, peak_tone),
        ] {
            pen.text(&format!("{:>width$}", figures.column(bytes)), tone);
        }
        let odd_mark = if odd { theme.glyphs.climb } else { " " };
        pen.text(odd_mark, Tone::Warning).text(" ", text);
        let reading = row.device.fresh(self.state).map(|(_, reading)| reading);
        if self.used {
            // A reading from after the run's end says nothing of what the rank had.
            let is_of_run = |used: &Bytes| allocated.is_none_or(|allocated| *used >= allocated);
            let read = reading.and_then(|r| r.used);
            // Of the moment that the other figures are of.
            let then = row.device.capacity.zip(of_device.free);
            let used = read.map(|used| then.map_or(used, |(all, free)| all - free));
            let used = figures.column(used.filter(is_of_run));
            pen.text(&format!("{used:>6} "), text);
        }
        pen.text(&figures.column(of_device.free), text);
        let number = |value: Option<u32>| value.map_or("-".to_string(), |value| value.to_string());
        let utilization = number(reading.and_then(|r| r.utilization));
        let degrees = number(reading.and_then(|r| r.temperature));
        let watts = number(reading.and_then(|r| r.power).map(|w| w.round() as u32));
        let steps = row.rank.map(|rank| count(rank.steps.count));
        let steps = steps.unwrap_or_default();
        let figures = format!("  {utilization:>3}%  {degrees:>3} {watts:>4} {steps:>8}");
        pen.text(&figures, text);
        if let Some(columns) = self.spark(&pen) {
            pen.skip(2);
            self.draw_spark(&mut pen, row, columns);
        }
        self.draw_words(&mut pen, row, odd, gone);
    }

    /// Columns of the sparkline from the pen on.
    fn spark(&self, pen: &Pen) -> Option<u16> {
        let (most, least) = SPARK;
        let room = pen.room().saturating_sub(2);
        // The words have room beside it if there is enough.
        let columns = if room > least + WORDS {
            room - WORDS
        } else {
            room
        };
        (columns >= least).then_some(columns.min(most))
    }

    /// Allocated over the chart's time, relative to the capacity; without the probe, device use.
    fn draw_spark(&self, pen: &mut Pen, row: &DeviceRow, columns: u16) {
        let theme = &self.view.theme;
        let end = pen.column() + columns;
        let window = self.view.time.window(self.state.now, columns);
        let known = window.until(self.view.time.seen_until(self.state.now));
        let (series, tone) = match row.rank {
            Some(rank) => (&rank.allocated, Tone::Allocated),
            None => (&row.device.used, Tone::NonPytorch),
        };
        let whole = row.device.capacity.unwrap_or(Bytes::gib(1));
        for bucket in series.columns(known.from, known.to, known.columns.into()) {
            let glyph = bucket.map_or(" ", |bucket| {
                let share = bucket.max.fraction_of(whole).unwrap_or(0.0).min(1.0);
                let eighths = (share * 8.0).ceil() as usize;
                theme.glyphs.eighths[eighths.clamp(1, 8)]
            });
            pen.text(glyph, tone);
        }
        pen.to(end);
    }

    fn draw_words(&self, pen: &mut Pen, row: &DeviceRow, odd: bool, gone: bool) {
        let lost = row.device.reading.as_ref();
        let lost = lost.and_then(|(_, reading)| reading.lost.as_deref());
        let (words, tone) = match (lost, gone, odd) {
            (Some(reason), _, _) => (reason, Tone::Wrong),
            (None, true, _) => ("gone", Tone::Warning),
            (None, false, true) => ("above median", Tone::Warning),
            (None, false, false) => return,
        };
        pen.skip(2).rest(words, tone);
    }
}

/// The median of the ranks' peaks; `None` for fewer than three ranks.
fn median_peak(state: &State) -> Option<Bytes> {
    let mut peaks: Vec<Bytes> = state
        .run()?
        .ranks
        .iter()
        .map(|rank| rank.allocated_peak)
        .collect();
    peaks.sort_unstable();
    (peaks.len() >= 3).then(|| peaks[peaks.len() / 2])
}
