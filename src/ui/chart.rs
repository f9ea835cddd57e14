//! The memory of one device over time: allocated as an area, reserved and device use as lines,
//! capacity, limit and prediction as rules, and marks for OOMs, relaunches and epochs.
//!
//! ```text
//! 24 ┤┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈  capacity  23.6
//! 16 ┤      ▁▂▄▆✗   ╎       ╌╌╌╌╌╌╌╌╌╌╌╌╌  device    15.9
//!  8 ┤   ▂▅██████   ╎     ┌─▆▇▆▇▆▇▆▇▆▇▆▇─  allocated 14.7
//!  0 ┤ ▂█████████   ╎  ▂▅████████████████
//!    └── 0:10 ───── 0:20 ───── 0:30 ─────
//! ```

mod axis;
mod epochs;
mod legend;
mod marks;
mod overlay;
mod plot;
mod scale;
mod window;

pub(super) use axis::{BYTES_WIDTH, draw_bytes};
pub(super) use epochs::round_numbers;
pub(super) use scale::Scale;
pub use window::Move;
pub(super) use window::{TimeView, Window};

use super::canvas::Canvas;
use super::figures::Figures;
use super::theme::{Glyphs, Tone};
use crate::state::{DeviceState, Run, SeriesBucket, State};
use crate::units::{Bytes, Moment, Uuid};
use plot::{Plot, Stroke};
use ratatui::layout::Rect;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Height {
    /// Up to the device's capacity, to show how full it is.
    #[default]
    Capacity,
    /// Up to the largest value shown, to show how it moves.
    Data,
}

impl Height {
    pub(super) fn other(self) -> Height {
        match self {
            Height::Capacity => Height::Data,
            Height::Data => Height::Capacity,
        }
    }
}

/// How long a peak of allocated memory counts as current.
const RECENT: Duration = Duration::from_secs(5);

/// An earlier run's curve: a hue that no other curve of the chart has.
pub(super) const COMPARED: Tone = Tone::OtherProcesses;

/// Below this width the labels on the right are left out: the headroom line has the numbers.
const WIDTH_FOR_LEGEND: u16 = 60;

/// One quantity over the time that the chart shows.
struct Curve {
    name: &'static str,
    tone: Tone,
    columns: Vec<Option<SeriesBucket>>,
    /// The label's figure; a curve that has ended has none.
    latest: Option<Bytes>,
}

impl Curve {
    /// Takes the figure from the cursor's column.
    fn point_at(&mut self, column: u16) {
        let bucket = self.columns.get(usize::from(column)).copied().flatten();
        self.latest = bucket.map(|bucket| bucket.max);
    }
}

/// Used on the device, reserved and allocated, over the part `known` of the window, up to `until`.
fn curves(state: &State, device: &DeviceState, known: &Window, until: Moment) -> [Curve; 3] {
    let at = until.min(known.to);
    [
        ("device", Tone::Used, &device.used),
        ("reserved", Tone::Reserved, &device.reserved),
        ("allocated", Tone::Allocated, &device.allocated),
    ]
    .map(|(name, tone, series)| Curve {
        name,
        tone,
        columns: series.columns(known.from, known.to, known.columns.into()),
        // Allocated memory goes up and down several times a second within a step: the current
        // value could not be read.
        latest: match (series.value_at(at), tone) {
            (Some(_), Tone::Allocated) => series.max_between(recent(state, at), at),
            (latest, _) => latest,
        },
    })
}

/// From when on a peak counts as current at `at`, the run before left out.
pub(super) fn recent(state: &State, at: Moment) -> Moment {
    let recent = Moment(at.0.saturating_sub(RECENT.as_micros() as u64));
    let mut begun = state.runs.iter().rev().map(|run| run.started);
    let begun = begun.find(|begun| *begun <= at);
    begun.map_or(recent, |begun| begun.max(recent))
}

pub(super) struct Choice<'a> {
    pub time: &'a TimeView,
    pub height: Height,
    /// The run to overlay.
    pub compared: Option<&'a Run>,
}

/// The part of the chart's area for the curves, without axes and labels.
pub(super) fn plot_of(area: Rect) -> Rect {
    Rect {
        x: area.x.saturating_add(axis::BYTES_WIDTH),
        y: area.y,
        width: area
            .width
            .saturating_sub(axis::BYTES_WIDTH + legend_width(area)),
        height: area.height.saturating_sub(1),
    }
}

fn legend_width(area: Rect) -> u16 {
    match area.width >= WIDTH_FOR_LEGEND {
        true => legend::WIDTH,
        false => 0,
    }
}

pub(super) fn draw(canvas: &mut Canvas, state: &State, device: &DeviceState, choice: &Choice) {
    let (area, theme) = (canvas.area, canvas.theme);
    let plot = plot_of(area);
    if plot.width < 4 || plot.height < 1 {
        return;
    }
    let time = choice.time;
    let window = time.window(state.now, plot.width);
    // A series holds its latest value until the next one: without a limit it would be drawn into
    // the future, or past the moment at which the chart was paused.
    let until = time.seen_until(state.now);
    let known = window.until(until);
    let mut curves = curves(state, device, &known, until);
    let cursor = time.cursor().and_then(|at| known.column(at));
    if let Some(column) = cursor {
        curves.iter_mut().for_each(|curve| curve.point_at(column));
    }
    let laid_over = choice.compared.map(|run| Overlay {
        name: format!("run {}", run.number),
        columns: overlay::columns(state, device, run, &known),
    });
    let top = top_of(device, &curves, choice.height);
    let scale = Scale::with_top(top, plot.height);
    let mut drawn = Plot {
        canvas: canvas.at(plot),
        scale,
    };
    draw_curves(&mut drawn, &curves);
    if let Some(overlay) = &laid_over {
        drawn.line(&overlay.columns, COMPARED, Stroke::Solid);
    }
    let rules = rules_of(state, device, top);
    for rule in &rules {
        let from = rule.since.map_or(0, |since| known.first_column(since));
        drawn.rule(from, rule.at, rule.tone, (rule.glyph)(theme.glyphs));
    }
    let epochs = epochs::shown(state, &known);
    epochs::draw_names(&mut drawn.canvas, &epochs, &known);
    marks::draw(&mut drawn.canvas, state, device, &known);
    if let Some(column) = cursor {
        drawn.cursor(column);
    }
    let beside = Rect {
        width: axis::BYTES_WIDTH,
        height: plot.height,
        ..area
    };
    axis::draw_bytes(&mut canvas.at(beside), &scale);
    let below = Rect {
        y: plot.bottom(),
        height: 1,
        width: area.width - legend_width(area),
        ..area
    };
    let mut below = canvas.at(below);
    axis::draw_time(&mut below, &window);
    epochs::draw_ticks(&mut below, &epochs, &known);
    if legend_width(area) > 0 {
        let gutter = Rect {
            x: plot.right(),
            width: legend_width(area),
            ..plot
        };
        let figures = Figures::of(device.capacity);
        let overlay = laid_over.and_then(|overlay| overlay.label(cursor));
        let labels = legend::labels(&curves, &rules, overlay);
        legend::draw(&mut canvas.at(gutter), labels, &scale, figures);
        let corner = Rect {
            y: plot.bottom(),
            height: 1,
            ..gutter
        };
        if curves.iter().any(is_band) {
            legend::draw_band(&mut canvas.at(corner));
        }
    }
}

/// Whether its columns have a least and a most that differ.
fn is_band(curve: &Curve) -> bool {
    let mut buckets = curve.columns.iter().flatten();
    curve.tone == Tone::Allocated && buckets.any(|bucket| bucket.min != bucket.max)
}

/// A curve of an earlier run.
struct Overlay {
    name: String,
    columns: Vec<Option<SeriesBucket>>,
}

impl Overlay {
    /// Its name and figure: that of the cursor's column, or the largest shown.
    fn label(self, cursor: Option<u16>) -> Option<(String, Bytes)> {
        let most = match cursor {
            Some(column) => *self.columns.get(usize::from(column))?,
            None => self.columns.iter().flatten().copied().max_by_key(|b| b.max),
        };
        Some((self.name, most?.max))
    }
}

/// A rule of the chart.
struct ChartRule {
    at: Bytes,
    name: &'static str,
    tone: Tone,
    glyph: fn(&Glyphs) -> &'static str,
    /// From when on it holds, if not always.
    since: Option<Moment>,
}

/// The rules below the chart's top, the most important first.
fn rules_of(state: &State, device: &DeviceState, top: Bytes) -> Vec<ChartRule> {
    // The prediction is for one device and says nothing about ranks on others.
    let here = |uuid: Option<&Uuid>| uuid.is_none_or(|uuid| *uuid == device.uuid);
    let run = state
        .run()
        .filter(|run| run.ranks.iter().all(|rank| here(rank.device.as_ref())));
    let predicted = run.and_then(|run| run.predicted_peak);
    let begun = run.map(|run| run.started);
    const DOTS: fn(&Glyphs) -> &'static str = |glyphs| glyphs.dots;
    const SPARSE: fn(&Glyphs) -> &'static str = |glyphs| glyphs.sparse_dots;
    [
        (device.capacity, "capacity", Tone::Capacity, DOTS, None),
        (device.limit, "limit", Tone::Limit, DOTS, None),
        (predicted, "predicted", Tone::Predicted, SPARSE, begun),
    ]
    .into_iter()
    .filter_map(|(at, name, tone, glyph, since)| {
        Some(ChartRule {
            at: at.filter(|at| *at <= top)?,
            name,
            tone,
            glyph,
            since,
        })
    })
    .collect()
}

fn top_of(device: &DeviceState, curves: &[Curve], height: Height) -> Bytes {
    let buckets = curves.iter().flat_map(|curve| &curve.columns).flatten();
    let most = buckets.map(|bucket| bucket.max).max();
    // Room above the highest curve, so that it is not mistaken for a rule.
    let of_data = most.map_or(Bytes::gib(1), |most| most.scale(1.15));
    match height {
        Height::Capacity => device.capacity.unwrap_or(of_data),
        // Nothing lies above the capacity.
        Height::Data => of_data.min(device.capacity.unwrap_or(Bytes(u64::MAX))),
    }
}

fn draw_curves(plot: &mut Plot, [used, reserved, allocated]: &[Curve; 3]) {
    if allocated.columns.iter().any(Option::is_some) {
        plot.fill_below(&allocated.columns, allocated.tone, Tone::AllocatedBand);
        plot.line(&used.columns, used.tone, Stroke::Dashed);
        plot.line(&reserved.columns, reserved.tone, Stroke::Solid);
    } else {
        // Without the allocator's figures there is only device use to show.
        plot.fill_below(&used.columns, Tone::NonPytorch, Tone::Free);
    }
}
