//! The curves: allocated as a filled area, the others as lines over it, rules behind them, and those of an
//! earlier run moved in time so that both runs start at the same column.
//!
//! A column stands for a stretch of time. The area is solid up to its minimum and lighter up to its
//! maximum, so that a peak of one sample is never lost. Where nothing is known it stays empty.

use crate::state::{DeviceState, Run, RunOutcome, SeriesBucket, State, StepBand, stay_below};
use crate::ui::canvas::Canvas;
use crate::ui::chart::axis::Scale;
use crate::ui::chart::model::{self, ModelParts};
use crate::ui::chart::window::{self, Window};
use crate::ui::theme::{Depth, Theme, Tone};
use crate::units::{Bytes, Moment};
use ratatui::style::Style;
use std::time::Duration;

/// An earlier run's curve: a hue that no other curve of the chart has.
pub(in crate::ui) const COMPARED: Tone = Tone::OtherProcesses;

/// One quantity over the time that the chart shows.
pub(super) struct Curve {
    pub name: &'static str,
    pub tone: Tone,
    pub columns: Vec<Option<SeriesBucket>>,
    /// The figure now; a curve that has ended has none, only its last one.
    pub latest: Option<Bytes>,
    /// Where its label stands: a curve that has ended is still to be known by its name.
    pub at: Option<Bytes>,
    /// Whether a step went at least as far as it is drawn.
    pub is_at_least: bool,
}

impl Curve {
    /// What is drawn in a column.
    pub fn bucket(&self, column: u16) -> Option<SeriesBucket> {
        self.columns.get(usize::from(column)).copied().flatten()
    }

    /// Takes the figure from the cursor's column.
    pub fn point_at(&mut self, column: u16) {
        self.latest = self.bucket(column).map(|bucket| bucket.max);
        self.at = self.latest;
    }

    /// Draws over each stretch of steps what they reached and what was left between them, where steps are too short to be
    /// told apart: a look at the allocator falls on any part of a step.
    pub fn over_steps(&mut self, state: &State, device: &DeviceState, known: &Window) {
        let column_us = known.column_us().max(1) as f64;
        let bands = StepBand::all(state, device);
        for band in bands.filter(|band| !band.is_told_apart(column_us)) {
            let columns = &mut self.columns;
            self.is_at_least |= band.draw(columns, column_us, |at| match known.column(at) {
                Some(column) => (usize::from(column), true),
                None => (usize::from(known.first_column(at)), false),
            });
        }
    }

    /// No more is allocated than reserved, in the columns and as a figure.
    pub fn stay_below(&mut self, reserved: &Curve) {
        stay_below(&mut self.columns, &reserved.columns);
        // The peak of the last seconds may be of a moment before the cache was given back.
        let below = |own: Option<Bytes>, above: Option<Bytes>| match (own, above) {
            (Some(own), Some(above)) => Some(own.min(above)),
            (own, _) => own,
        };
        self.latest = below(self.latest, reserved.latest);
        self.at = below(self.at, reserved.at);
    }

    /// Whether the curve is drawn as a band: a column of it has a least and a most that differ.
    pub fn is_band(&self) -> bool {
        let mut buckets = self.columns.iter().flatten();
        self.tone == Tone::Allocated && buckets.any(|bucket| bucket.min != bucket.max)
    }
}

/// Columns before a run's end in which the device's use is looked for: it falls before the end is known.
const BEFORE_END: usize = 6;

/// The curves as they are drawn: what is allocated is a band where steps are too short to be told apart, and no more than what is reserved.
pub(super) fn drawn(
    state: &State,
    device: &DeviceState,
    known: &Window,
    until: Moment,
) -> [Curve; 3] {
    let mut curves = curves(state, device, known, until);
    let [_, reserved, allocated] = &mut curves;
    allocated.over_steps(state, device, known);
    allocated.stay_below(reserved);
    curves
}

/// Used on the device, reserved and allocated, over the part `known` of the window, up to `until`.
fn curves(state: &State, device: &DeviceState, known: &Window, until: Moment) -> [Curve; 3] {
    let at = until.min(known.to);
    let ended = state
        .run()
        .filter(|run| window::last_of(run).is_some_and(|last| last <= at));
    let at_end = ended.and_then(|run| device.at_end(state, run));
    [
        ("device", Tone::Used, &device.used),
        ("reserved", Tone::Reserved, &device.reserved),
        ("allocated", Tone::Allocated, &device.allocated),
    ]
    .map(|(name, tone, series)| {
        let mut columns = series.columns(known.from, known.to, known.columns.into());
        for run in &state.runs {
            let next = state.runs.iter().find(|next| next.number > run.number);
            leave_out_the_end(&mut columns, run, next, known);
            let of_oom = run
                .oom()
                .filter(|oom| oom.device.as_ref() == Some(&device.uuid));
            let most = of_oom.and_then(|oom| match tone {
                Tone::Allocated => oom.allocated(),
                Tone::Reserved => oom.reserved(),
                _ => None,
            });
            reach_the_oom(&mut columns, run, most, known);
        }
        let latest = match tone {
            Tone::Allocated => device.current_peak(state, at),
            Tone::Reserved => device.recently_reserved(state, at),
            _ => series.value_at(at),
        };
        let last = columns.iter().rev().flatten().next();
        // The device is empty once the run has ended: its line is known by where it was.
        let ended = state.run().and_then(window::last_of);
        let before_end = ended.filter(|ended| tone == Tone::Used && *ended <= at);
        let of_run = before_end.and_then(|ended| {
            let to = usize::from(known.first_column(ended)) + 1;
            let shown = columns.iter().take(to).rev().take(BEFORE_END).flatten();
            shown.map(|bucket| bucket.max).max()
        });
        // All labels are of one moment, that of the parts beside the chart.
        let of_end = at_end.and_then(|end| match tone {
            Tone::Allocated => Some(end.allocated),
            Tone::Reserved => end.reserved,
            _ => end.used.filter(|_| of_run.is_some()),
        });
        let of_run = of_end.or(of_run);
        let latest = latest.filter(|_| of_run.is_none());
        Curve {
            name,
            tone,
            latest,
            at: latest.or(of_run).or(last.map(|bucket| bucket.max)),
            columns,
            is_at_least: false,
        }
    })
}

/// What a program still holds that has run out of memory, while it ends, would look like more of the training.
fn leave_out_the_end(
    columns: &mut [Option<SeriesBucket>],
    run: &Run,
    next: Option<&Run>,
    known: &Window,
) {
    let (Some(last), Some((ended, _))) = (window::last_of(run), run.ended) else {
        return;
    };
    if last < ended {
        let column = |at| usize::from(known.first_column(at));
        let next = next.map_or(usize::MAX, |next| column(next.started));
        let to = (column(ended) + 1).min(next);
        let left = columns.iter_mut().take(to).skip(column(last) + 1);
        left.for_each(|column| *column = None);
    }
}

/// What there was when memory ran out is known exactly, and may never have been seen by a look at the allocator.
fn reach_the_oom(
    columns: &mut [Option<SeriesBucket>],
    run: &Run,
    most: Option<Bytes>,
    known: &Window,
) {
    let ended = run.outcome() == RunOutcome::OutOfMemory;
    let at = run
        .oom()
        .filter(|_| ended)
        .and_then(|oom| known.column(oom.at));
    let column = at.and_then(|at| columns.get_mut(usize::from(at)));
    if let (Some(Some(bucket)), Some(most)) = (column, most) {
        bucket.max = bucket.max.max(most);
    }
}

/// An earlier run's allocated memory, drawn over the current run's.
pub(super) struct Overlay {
    name: String,
    /// What the run had allocated at the same ages as the current run's columns; empty if it is the current run.
    columns: Vec<Option<SeriesBucket>>,
}

impl Overlay {
    pub fn new(state: &State, device: &DeviceState, earlier: &Run, known: &Window) -> Overlay {
        Overlay {
            name: format!("run {}", earlier.number),
            columns: columns_of_earlier(state, device, earlier, known),
        }
    }

    pub fn draw(&self, plot: &mut Plot) {
        plot.line(&self.columns, COMPARED, Stroke::Solid);
    }

    /// The run's name and its figure at the cursor's column, or its largest one if there is no cursor. `None` where the run has no
    /// figure.
    pub fn label(self, cursor: Option<u16>) -> Option<(String, Bytes)> {
        let most = match cursor {
            Some(column) => *self.columns.get(usize::from(column))?,
            None => self.columns.iter().flatten().copied().max_by_key(|b| b.max),
        };
        Some((self.name, most?.max))
    }
}

fn columns_of_earlier(
    state: &State,
    device: &DeviceState,
    earlier: &Run,
    known: &Window,
) -> Vec<Option<SeriesBucket>> {
    let Some(current) = state.run().filter(|run| run.number != earlier.number) else {
        return Vec::new();
    };
    let ended = earlier.ended.map_or(state.now, |(at, _)| at);
    let column_us = known.column_us();
    let mut columns = vec![None; usize::from(known.columns)];
    for (place, column) in (0..).zip(&mut columns) {
        let begin = known.begin_of(place);
        if begin + Duration::from_micros(column_us) <= current.started {
            continue;
        }
        let age = begin.since(current.started);
        let from = earlier.started + age;
        let to = Moment(from.0.saturating_add(column_us)).min(ended);
        if from < to {
            *column = device.allocated.columns(from, to, 1).pop().flatten();
        }
    }
    columns
}

/// What is allocated above `danger` is drawn in the colour of what is wrong; the model from its run's first column on.
pub(super) fn draw(
    plot: &mut Plot,
    [used, reserved, allocated]: &[Curve; 3],
    danger: Option<Bytes>,
    of_model: Option<(u16, ModelParts)>,
) {
    if allocated.columns.iter().any(Option::is_some) {
        let tones = (allocated.tone, Tone::AllocatedBand);
        plot.fill_below(&allocated.columns, tones, danger);
        if let Some((from, parts)) = of_model {
            let scale = plot.scale;
            model::draw(&mut plot.canvas, scale, &allocated.columns, from, parts);
        }
        plot.line(&used.columns, used.tone, Stroke::Dashed);
        plot.line(&reserved.columns, reserved.tone, Stroke::Solid);
    } else {
        // Without the allocator's figures there is only device use to show.
        plot.fill_below(&used.columns, (Tone::NonPytorch, Tone::Free), None);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stroke {
    /// Solid, with risers where it changes its row.
    Solid,
    /// Dashed, without risers.
    Dashed,
}

pub(super) struct Plot<'p> {
    pub canvas: Canvas<'p>,
    pub scale: Scale,
}

impl Plot<'_> {
    /// Fills the area below a curve.
    fn fill_below(
        &mut self,
        columns: &[Option<SeriesBucket>],
        (solid, band): (Tone, Tone),
        danger: Option<Bytes>,
    ) {
        let usual = AreaLook::new(self.canvas.theme, solid, band);
        let alarming = AreaLook::new(self.canvas.theme, Tone::Wrong, Tone::Wrong);
        let danger = danger.map_or(u32::MAX, |danger| self.scale.eighths(danger));
        let (scale, height) = (self.scale, self.canvas.area.height);
        for (column, bucket) in (0..).zip(columns) {
            let Some(bucket) = bucket else { continue };
            let (least, most) = (scale.eighths(bucket.min), scale.eighths(bucket.max));
            for row in 0..height.min(scale.rows()) {
                let below = u32::from(row) * 8;
                if below >= most {
                    break;
                }
                // A row is of several GiB: the one that a column is in danger within, too.
                let is_danger = most >= danger && below + 8 > danger;
                let look = if is_danger { &alarming } else { &usual };
                let of_row = |eighths: u32| eighths.saturating_sub(below).min(8) as usize;
                if let Some(cell) = self.canvas.cell(column, height - 1 - row) {
                    let (glyph, style) = look.cell(of_row(least), of_row(most));
                    cell.set_symbol(glyph).set_style(style);
                }
            }
        }
    }

    /// Draws a line through the maximum of each column.
    fn line(&mut self, columns: &[Option<SeriesBucket>], tone: Tone, stroke: Stroke) {
        let glyphs = self.canvas.theme.glyphs;
        let mut before: Option<u16> = None;
        for (x, bucket) in (0..).zip(columns) {
            let row = bucket.map(|bucket| self.scale.row(bucket.max));
            match (stroke, before, row) {
                (_, _, None) => {}
                (Stroke::Dashed, _, Some(row)) => self.canvas.over(x, row, glyphs.dashes, tone),
                (Stroke::Solid, Some(was), Some(row)) if was != row => {
                    let [down_from, up_from, from_above, from_below] = glyphs.corners;
                    let (start, end) = match was < row {
                        true => (down_from, from_above),
                        false => (up_from, from_below),
                    };
                    self.canvas.over(x, was, start, tone);
                    for between in was.min(row) + 1..was.max(row) {
                        self.canvas.over(x, between, glyphs.riser, tone);
                    }
                    self.canvas.over(x, row, end, tone);
                }
                (Stroke::Solid, _, Some(row)) => self.canvas.over(x, row, glyphs.line, tone),
            }
            before = row;
        }
    }

    /// Draws a rule from a column on, behind everything already drawn.
    pub fn rule(&mut self, from: u16, at: Bytes, tone: Tone, glyph: &str) {
        let style = self.canvas.theme.style(tone);
        for column in from..self.canvas.area.width {
            if let Some(cell) = self.canvas.cell(column, self.scale.row(at))
                && cell.symbol() == " "
            {
                cell.set_symbol(glyph).set_style(style);
            }
        }
    }

    /// Draws the cursor as a vertical line.
    pub fn cursor(&mut self, column: u16) {
        for row in 0..self.canvas.area.height {
            let riser = self.canvas.theme.glyphs.riser;
            self.canvas.over(column, row, riser, Tone::Accent);
        }
    }
}

struct AreaLook<'t> {
    theme: &'t Theme,
    solid: Style,
    band: Style,
    solid_on_band: Style,
}

impl AreaLook<'_> {
    fn new(theme: &Theme, solid: Tone, band: Tone) -> AreaLook<'_> {
        let solid_style = theme.style(solid);
        AreaLook {
            theme,
            solid: solid_style,
            band: theme.style(band),
            solid_on_band: match theme.depth {
                Depth::None => solid_style,
                Depth::Sixteen | Depth::TwoFiftySix | Depth::True => {
                    solid_style.patch(theme.ground(band))
                }
            },
        }
    }

    /// One cell with the area's minimum and maximum in eighths. A cell has only two colours: if
    /// both edges lie in it, the solid part is drawn if it is the larger one.
    fn cell(&self, least: usize, most: usize) -> (&'static str, Style) {
        let eighths = &self.theme.glyphs.eighths;
        match self.theme.depth {
            _ if least == 8 => (eighths[8], self.solid),
            Depth::None if most == 8 && least * 2 < 8 => (self.theme.glyphs.band, self.band),
            Depth::None => (eighths[most], self.solid),
            Depth::Sixteen | Depth::TwoFiftySix | Depth::True => match (least, most) {
                (0, _) => (eighths[most], self.band),
                (_, 8) => (eighths[least], self.solid_on_band),
                (_, _) if least * 2 >= most => (eighths[most], self.solid),
                (_, _) => (eighths[most], self.band),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{
        BackwardReading, EventKind, Exit, Exited, Phase, PhaseStart, Started, StepTrace,
    };
    use crate::state::tests::staged::{StagedSession, gib, step};
    use crate::ui::chart::{TimeView, pointed};
    use crate::units::{Pid, RunNumber};

    #[test]
    fn the_label_of_what_is_allocated_is_never_above_that_of_what_is_reserved() {
        let mut scene = StagedSession::training();
        scene.sampled(10.0, 15.0, 16.0);
        // The cache was given back, and the peak of the last seconds is of before.
        scene.sampled(11.0, 9.0, 13.0);
        let state = &scene.state;
        let window = Window {
            from: Moment::ZERO,
            to: state.now,
            columns: 20,
        };
        let [_, reserved, allocated] = curves(state, &state.devices[0], &window, state.now);
        assert_eq!(allocated.latest, Some(gib(15.0)));
        assert_eq!(reserved.latest, Some(gib(16.0)), "of the same seconds");
    }

    #[test]
    fn looks_at_parts_of_steps_become_a_band() {
        let mut scene = StagedSession::training();
        // Ten steps a second, and each look falls on another part of one.
        for n in 1..=100_u32 {
            let at = 2.0 + f64::from(n) * 0.1;
            let reading = step(100, u64::from(n), gib(4.0), gib(20.0));
            scene.add(at, reading);
            scene.sampled(at + 0.05, 4.0 + f64::from(n * 7 % 17), 21.0);
        }
        let state = &scene.state;
        let window = |to: u64, columns| Window {
            from: Moment(5_000_000),
            to: Moment(to),
            columns,
        };
        let heights = |known: &Window| {
            let device = &state.devices[0];
            let [_, _, mut allocated] = curves(state, device, known, state.now);
            allocated.over_steps(state, device, known);
            let of = |of: fn(&SeriesBucket) -> Bytes| {
                let buckets = allocated.columns.iter().flatten();
                buckets.map(of).collect::<std::collections::BTreeSet<_>>()
            };
            (of(|bucket| bucket.min), of(|bucket| bucket.max))
        };
        let (floors, peaks) = heights(&window(10_000_000, 80));
        assert_eq!(floors, [gib(4.0)].into(), "one floor");
        assert!(peaks.first() >= Some(&gib(18.0)), "{peaks:?}");
        let (_, peaks) = heights(&window(6_000_000, 160));
        assert!(
            peaks.first() < Some(&gib(10.0)),
            "single steps are as they were seen: {peaks:?}"
        );
    }

    #[test]
    fn a_band_has_neither_towers_nor_holes_where_looks_fall_on_parts_of_steps() {
        let mut scene = StagedSession::training();
        // Every seventeenth look falls on the peak, and now and then one on less than what steps leave.
        for n in 1..=200_u32 {
            let at = 2.0 + f64::from(n) * 0.1;
            scene.add(at, step(100, u64::from(n), gib(4.0), gib(22.0)));
            scene.sampled(at + 0.04, 4.0 + f64::from(n * 7 % 17), 23.0);
            if n % 23 == 0 {
                scene.sampled(at + 0.06, 2.0, 23.0);
            }
        }
        let state = &scene.state;
        let device = &state.devices[0];
        let known = Window {
            from: Moment(5_000_000),
            to: Moment(20_000_000),
            columns: 80,
        };
        let [_, _, mut allocated] = curves(state, device, &known, state.now);
        allocated.over_steps(state, device, &known);
        let distinct = |of: fn(&SeriesBucket) -> Bytes| {
            let buckets = allocated.columns.iter().flatten();
            buckets.map(of).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(distinct(|bucket| bucket.max), [gib(20.0)].into());
        assert_eq!(distinct(|bucket| bucket.min), [gib(4.0)].into());
        assert!(allocated.is_at_least, "no step's peak was seen");
    }

    #[test]
    fn steps_like_a_traced_one_are_a_calm_band() {
        let mut scene = StagedSession::training();
        let bytes = |gib: u64| gib << 30;
        scene.add(
            1.9,
            EventKind::StepTrace(Box::new(StepTrace {
                pid: Pid(100),
                step: 1,
                trace: format!("{} | {} {} -1 -2", bytes(4), bytes(14), bytes(2)),
                phases: vec![PhaseStart {
                    phase: Phase::Backward,
                    from: 1,
                }],
                ..StepTrace::default()
            })),
        );
        // One step of ten is read, and looks fall on its beginning.
        for n in 1..=50_u32 {
            let at = 2.0 + f64::from(n) * 0.5;
            let mut reading = step(100, u64::from(n) * 10, gib(4.0), gib(21.0));
            if let EventKind::Step(step) = &mut reading {
                step.backward = Some(BackwardReading {
                    step: step.count - 9,
                    before: gib(4.0),
                    allocated: gib(18.0),
                });
            }
            scene.add(at, reading);
            scene.sampled(at + 0.05, 5.0, 21.0);
        }
        let state = &scene.state;
        let known = Window {
            from: Moment(10_000_000),
            to: Moment(26_000_000),
            columns: 80,
        };
        let device = &state.devices[0];
        let [_, _, mut allocated] = curves(state, device, &known, state.now);
        allocated.over_steps(state, device, &known);
        let tops: Vec<Bytes> = (allocated.columns.iter().flatten())
            .map(|bucket| bucket.max)
            .collect();
        assert_eq!(tops, vec![gib(20.0); 80]);
        assert!(!allocated.is_at_least);
        assert_eq!(device.current_peak(state, state.now), Some(gib(20.0)));
        // The cursor says what the band shows, not what one look saw.
        let mut time = TimeView::default();
        for column in [45, 50, 55] {
            time.point(column, state.now, 60);
            let pointed = pointed(state, device, &time, 60).expect("a cursor");
            let (name, _, held) = pointed.figures[2];
            let held = held.map(|held| (held.min, held.max));
            assert_eq!((name, held), ("allocated", Some((gib(4.0), gib(20.0)))));
        }
    }

    #[test]
    fn both_runs_begin_at_the_same_place() {
        let mut scene = StagedSession::training();
        for second in 0..10 {
            scene.sampled(2.0 + f64::from(second), f64::from(second), 12.0);
        }
        let run = RunNumber(1);
        let exit = Exit::Code(1);
        let left = Vec::new();
        scene.add(12.0, EventKind::Exited(Exited { run, exit, left }));
        let second = Started {
            run: RunNumber(2),
            pid: Pid(200),
            command: scene.state.runs[0].command.clone(),
            remedies: Vec::new(),
            predicted_peak: None,
            prediction: None,
            numerics: None,
        };
        scene.add(100.0, EventKind::Started(second));
        let known = Window {
            from: Moment(90_000_000),
            to: Moment(120_000_000),
            columns: 30,
        };
        let state = &scene.state;
        let laid = columns_of_earlier(state, &state.devices[0], &state.runs[0], &known);
        let most = |column: usize| laid[column].map(|bucket| bucket.max);
        assert_eq!(most(9), None, "before the second run");
        assert_eq!(
            most(11),
            None,
            "the first run's second second: no sample yet"
        );
        assert_eq!(most(12), Some(Bytes::ZERO));
        assert_eq!(most(15), Some(Bytes::gib(3)));
        assert_eq!(most(22), None, "after its end");
        let itself = columns_of_earlier(state, &state.devices[0], &state.runs[1], &known);
        assert!(itself.is_empty());
    }
}
