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

pub(super) mod axis;
pub(super) mod curves;
mod model;
pub(super) mod window;

use crate::state::{DeviceState, Run, Series, SeriesBucket, State};
use crate::ui::canvas::{Canvas, clauses_within, columns};
use crate::ui::chart::axis::Scale;
use crate::ui::chart::curves::{COMPARED, Curve, Overlay, Plot};
pub use crate::ui::chart::window::Move;
use crate::ui::chart::window::TimeView;
use crate::ui::theme::{Depth, Glyphs, Tone};
use crate::ui::words::Figures;
use crate::units::{Bytes, Moment, Uuid};
use ratatui::layout::Rect;
use std::borrow::Cow;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Height {
    /// Up to the device's capacity, to show how full it is; where little of it is used, the axis is broken below it.
    #[default]
    Unasked,
    /// Up to the device's capacity, however little is used.
    Capacity,
    /// Up to the largest value shown, to show how it moves.
    Data,
}

impl Height {
    /// The next one that differs.
    pub fn other(self, state: &State, device: Option<&DeviceState>) -> Height {
        let is_broken = device.is_some_and(|device| top_if_broken(state, device).is_some());
        match self {
            Height::Unasked if is_broken => Height::Capacity,
            Height::Unasked | Height::Capacity => Height::Data,
            Height::Data => Height::Unasked,
        }
    }
}

/// Parts of the capacity up to which the axis is drawn where little of it is used: the smallest that holds all. They are far apart, so
/// that the scale changes when what is used has grown by a third at least, and not before.
const PARTS: [u64; 12] = [3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128];

/// Rows of a plot that has one above a broken axis, and one more that says so.
const ROWS_TO_BREAK: u16 = 3;
const ROWS_TO_SAY_SO: u16 = 8;

/// From this share of what there is on, allocated memory is drawn as a danger.
const DANGER: f64 = 0.9;

/// Below this width the labels on the right are left out: the headroom line has the numbers.
const WIDTH_FOR_LEGEND: u16 = 60;

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

/// What the cursor stands on.
pub(super) struct Pointed {
    pub from: Moment,
    pub to: Moment,
    /// Each quantity's name, tone, and what it is drawn from and to there.
    pub figures: [(&'static str, Tone, Option<SeriesBucket>); 3],
}

/// What is drawn under the cursor in a plot of so many columns: the figures below the chart are those that it shows.
pub(super) fn pointed(
    state: &State,
    device: &DeviceState,
    time: &TimeView,
    columns: u16,
) -> Option<Pointed> {
    let window = time.window(state.now, columns);
    let until = time.seen_until(state.now);
    let known = window.until(until);
    let column = window.column(time.cursor()?)?;
    let from = window.begin_of(column);
    let curves = curves::drawn(state, device, &known, until);
    Some(Pointed {
        from,
        to: Moment(from.0 + window.column_us()),
        figures: curves.map(|curve| (curve.name, curve.tone, curve.bucket(column))),
    })
}

fn legend_width(area: Rect) -> u16 {
    match has_legend(area) {
        true => LEGEND_WIDTH,
        false => 0,
    }
}

/// Whether the curves' figures stand beside them.
pub(super) fn has_legend(area: Rect) -> bool {
    area.width >= WIDTH_FOR_LEGEND
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
    let mut curves = curves::drawn(state, device, &known, until);
    let cursor = time.cursor().and_then(|at| known.column(at));
    if let Some(column) = cursor {
        curves.iter_mut().for_each(|curve| curve.point_at(column));
    }
    if choice.height == Height::Data || low_limit(device).is_some() {
        leave_out_others(&mut curves);
    }
    let laid_over = choice
        .compared
        .map(|run| Overlay::new(state, device, run, &known));
    let top = top_of(device, &curves, choice.height);
    let broken = top_if_broken(state, device)
        .filter(|_| choice.height == Height::Unasked && plot.height >= ROWS_TO_BREAK);
    let scale = match broken {
        Some(part) => Scale::broken(
            part,
            plot.height,
            1 + u16::from(plot.height >= ROWS_TO_SAY_SO),
        ),
        None => Scale::with_top(top, plot.height),
    };
    let mut drawn = Plot {
        canvas: canvas.at(plot),
        scale,
    };
    let danger = device
        .limit
        .or(device.capacity)
        .map(|all| all.scale(DANGER));
    let began = state.run().map_or(0, |run| known.first_column(run.started));
    let model = model::ModelParts::new(state, device).map(|parts| (began, parts));
    curves::draw(&mut drawn, &curves, danger, model);
    if let Some(overlay) = &laid_over {
        overlay.draw(&mut drawn);
    }
    let rules = rules_of(state, device, top);
    for rule in &rules {
        let from = rule.since.map_or(0, |since| known.first_column(since));
        drawn.rule(from, rule.at, rule.tone, (rule.glyph)(theme.glyphs));
    }
    let epochs = axis::epoch_ticks(state, &known);
    axis::draw_epoch_names(&mut drawn.canvas, &epochs, &known);
    axis::draw_marks(&mut drawn.canvas, state, device, &known);
    if let Some((part, capacity)) = broken.zip(device.capacity) {
        draw_gap(&mut drawn, part, capacity);
    }
    if let Some(column) = cursor {
        drawn.cursor(column);
    }
    let beside = Rect {
        width: axis::BYTES_WIDTH,
        height: plot.height,
        ..area
    };
    let capacity = device.capacity.filter(|capacity| *capacity == top);
    axis::draw_bytes(&mut canvas.at(beside), &scale, capacity);
    let below = Rect {
        y: plot.bottom(),
        height: 1,
        width: area.width - legend_width(area),
        ..area
    };
    let mut below = canvas.at(below);
    axis::draw_time(&mut below, state, &window, time.left_out(state, &window));
    axis::draw_epoch_ticks(&mut below, &epochs, &known);
    if legend_width(area) > 0 {
        let gutter = Rect {
            x: plot.right(),
            width: legend_width(area),
            ..plot
        };
        let figures = Figures::of(device);
        let overlay = laid_over.and_then(|overlay| overlay.label(cursor));
        let labels = labels(&curves, &rules, overlay, moment_of_last(state, device));
        draw_legend(&mut canvas.at(gutter), labels, &scale, figures);
        let corner = Rect {
            y: plot.bottom(),
            height: 1,
            ..gutter
        };
        if let Some(band) = curves.iter().find(|curve| curve.is_band()) {
            draw_band(&mut canvas.at(corner), band.is_at_least);
        }
    }
}

/// Says what is left out between the scale and the capacity.
fn draw_gap(plot: &mut Plot, part: Bytes, capacity: Bytes) {
    if plot.scale.above() < 2 {
        return;
    }
    let figures = Figures::new(Some(capacity));
    let (from, to) = (figures.gib(part), figures.gib(capacity));
    let whole = format!("{from} to {to} GiB left out: z shows all");
    let room = plot.canvas.area.width.saturating_sub(2);
    let words = clauses_within(&whole, room);
    // The marks of runs and of what ran out stand on this row, too.
    let is_free = |words: &&str| plot.canvas.is_free(1..1 + columns(words), 1, &[]);
    if let Some(words) = words.filter(is_free) {
        plot.canvas.pen(1).skip(1).text(words, Tone::Faint);
    }
}

/// Up to where little use is drawn; `None` where it is enough to be seen below the capacity. It follows the most that was ever in
/// use, so that it only grows.
fn top_if_broken(state: &State, device: &DeviceState) -> Option<Bytes> {
    let capacity = device.capacity.filter(|_| device.limit.is_none())?;
    let predicted = state.run().and_then(|run| run.predicted_peak);
    let most_of = |series: &Series| series.max_between(Moment::ZERO, state.now);
    // Before PyTorch uses the GPU there is nothing to look at closely.
    let reserved = most_of(&device.reserved).filter(|most| *most > Bytes::ZERO)?;
    let others = [most_of(&device.used), most_of(&device.allocated), predicted];
    let most = others.into_iter().flatten().fold(reserved, Bytes::max);
    let holds = |part: u64| most.scale(1.15) <= Bytes(capacity.0 / part);
    let smallest = PARTS.into_iter().take_while(|part| holds(*part)).last()?;
    Some(Bytes(capacity.0 / smallest))
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

/// From a limit below this share of the capacity on, the chart shows what may be used: of all of the device, a tenth would be a row.
const LOW_LIMIT: f64 = 0.55;

fn low_limit(device: &DeviceState) -> Option<Bytes> {
    let capacity = device.capacity?;
    device
        .limit
        .filter(|limit| *limit < capacity.scale(LOW_LIMIT))
}

/// From so many times of what the run has reserved on, all that the device holds is not drawn beside it where the run's own memory
/// is to be seen: it would be pressed into a row. The device's figure stays, at the top.
const OTHERS: f64 = 2.5;

fn leave_out_others(curves: &mut [Curve; 3]) {
    let [device, own @ ..] = curves;
    let most = |curve: &Curve| {
        let buckets = curve.columns.iter().flatten();
        buckets.map(|bucket| bucket.max).max()
    };
    let own = own
        .iter()
        .filter_map(most)
        .max()
        .filter(|own| *own > Bytes::ZERO);
    if most(device)
        .zip(own)
        .is_some_and(|(all, own)| all > own.scale(OTHERS))
    {
        device.columns.fill(None);
    }
}

fn top_of(device: &DeviceState, curves: &[Curve], height: Height) -> Bytes {
    let buckets = curves.iter().flat_map(|curve| &curve.columns).flatten();
    let most = buckets.map(|bucket| bucket.max).max();
    // Room above the highest curve, so that it is not mistaken for a rule.
    let of_data = most.map_or(Bytes::gib(1), |most| most.scale(1.15));
    let Some(capacity) = device.capacity else {
        return of_data;
    };
    match (height, low_limit(device)) {
        // What was requested and refused is marked above the limit.
        (Height::Unasked | Height::Capacity, Some(limit)) => {
            of_data.max(limit.scale(1.15)).min(capacity)
        }
        (Height::Unasked | Height::Capacity, None) => capacity,
        // Nothing lies above the capacity.
        (Height::Data, _) => of_data.min(capacity),
    }
}

const LEGEND_WIDTH: u16 = 16;

/// What stands above the labels of curves that have ended.
const BEFORE_END: &str = "before the end";
const AT_OOM: &str = "out of memory";

/// The moment of the figures of curves that have ended.
fn moment_of_last(state: &State, device: &DeviceState) -> &'static str {
    let run = state.run();
    match run.and_then(|run| device.at_end(state, run)) {
        Some(end) if end.is_oom => AT_OOM,
        Some(_) | None => BEFORE_END,
    }
}

struct Label {
    at: Bytes,
    /// `None` of words alone.
    figure: Option<Bytes>,
    name: Cow<'static, str>,
    tone: Tone,
}

/// The labels of rules and curves; of two at one height the first is drawn above.
fn labels(
    curves: &[Curve],
    rules: &[ChartRule],
    compared: Option<(String, Bytes)>,
    moment: &'static str,
) -> Vec<Label> {
    let rules = rules
        .iter()
        .map(|rule| (rule.name, Some(rule.at), Some(rule.at), rule.tone));
    // What has ended has no figure now: it has its last one, and that is said above them.
    let ended = curves.iter().filter(|curve| curve.latest.is_none());
    let last = ended.filter_map(|curve| curve.at).max();
    let last = last.map(|at| (moment, Some(at), None, Tone::Dim));
    let curves = last.into_iter().chain(curves.iter().map(|curve| {
        let figure = curve.latest.or(curve.at);
        (curve.name, curve.at, figure, curve.tone)
    }));
    let named = rules.chain(curves).filter_map(|(name, at, figure, tone)| {
        let name = name.into();
        Some(Label {
            at: at?,
            figure,
            name,
            tone,
        })
    });
    let compared = compared.map(|(name, at)| Label {
        at,
        figure: Some(at),
        name: name.into(),
        tone: COMPARED,
    });
    named.chain(compared).collect()
}

fn draw_legend(canvas: &mut Canvas, mut labels: Vec<Label>, scale: &Scale, figures: Figures) {
    if labels.len() > usize::from(canvas.area.height) {
        labels.retain(|label| label.figure.is_some());
    }
    labels.sort_by_key(|label| std::cmp::Reverse(label.at));
    let wished: Vec<u16> = labels.iter().map(|label| scale.row(label.at)).collect();
    for (label, row) in labels.iter().zip(apart(&wished, canvas.area.height)) {
        canvas
            .pen(row)
            .skip(1)
            .text(&format!("{:<9}", label.name), label.tone)
            .text(" ", Tone::Dim)
            .text(&figure(label, figures), Tone::Text);
    }
}

fn figure(label: &Label, figures: Figures) -> String {
    match label.figure {
        Some(figure) => figures.column(Some(figure)),
        None => String::new(),
    }
}

/// What the two colours of the area are: the least and the most allocated within a column, or at least the most that was seen.
fn draw_band(canvas: &mut Canvas, is_at_least: bool) {
    let theme = canvas.theme;
    let full = theme.glyphs.full;
    let band = match theme.depth {
        Depth::None => theme.glyphs.band,
        Depth::Sixteen | Depth::TwoFiftySix | Depth::True => full,
    };
    // Where some of a step was missed, its peak is not known.
    let most = match is_at_least {
        true => theme.glyphs.spelled(" peak ≥"),
        false => " peak".to_string(),
    };
    canvas
        .pen(0)
        .skip(1)
        .text(full, Tone::Allocated)
        .text(" lowest ", Tone::Dim)
        .text(band, Tone::AllocatedBand)
        .text(&most, Tone::Dim);
}

/// The wished rows, ascending, moved so that no two labels share one. Labels without room are
/// dropped from the end.
fn apart(wished: &[u16], rows: u16) -> Vec<u16> {
    let mut placed: Vec<u16> = Vec::with_capacity(wished.len());
    for &row in wished {
        let least = placed.last().map_or(0, |above| above + 1);
        placed.push(row.max(least));
    }
    // Labels pushed beyond the last row move up, and move those above them.
    let mut most = rows;
    for row in placed.iter_mut().rev() {
        most = most.saturating_sub(1);
        *row = (*row).min(most);
        most = *row;
    }
    placed.truncate(usize::from(rows));
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_hold_is_left_out_where_it_would_press_the_run_into_a_row() {
        let curve = |gib: u64| Curve {
            name: "",
            tone: Tone::Used,
            columns: vec![Some(SeriesBucket {
                min: Bytes::gib(gib),
                max: Bytes::gib(gib),
                last: Bytes::gib(gib),
            })],
            latest: None,
            at: None,
            is_at_least: false,
        };
        for (all, is_drawn) in [(5, true), (6, false)] {
            let mut curves = [curve(all), curve(2), curve(1)];
            leave_out_others(&mut curves);
            assert_eq!(curves[0].bucket(0).is_some(), is_drawn, "{all}");
            assert!(curves[1].bucket(0).is_some() && curves[2].bucket(0).is_some());
        }
    }

    #[test]
    fn labels_never_share_a_row() {
        for (wished, rows, expected) in [
            (&[0, 4, 4, 4][..], 10, &[0, 4, 5, 6][..]),
            (&[0, 8, 9, 9], 10, &[0, 7, 8, 9]),
            (&[0, 0, 0], 3, &[0, 1, 2]),
            (&[9, 9], 10, &[8, 9]),
            (&[], 10, &[]),
        ] {
            assert_eq!(apart(wished, rows), expected);
        }
        assert_eq!(apart(&[0, 0, 0], 2).len(), 2);
    }
}
