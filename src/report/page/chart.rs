//! Memory over the whole session: the numbers for the chart of each device, and what happened when.

use crate::command;
use crate::document::html::{json, text};
use crate::report::story::SessionStory;
use crate::report::time_axis::{TimeAxis, to_the_millisecond};
use crate::state::{DeviceState, Series, SeriesBucket, State};
use crate::units::{Bytes, Moment, RunNumber, clock_face};
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// Everything that the page's script draws.
#[derive(Serialize)]
struct ChartData {
    /// Bytes of one unit of the values.
    unit: u64,
    /// Seconds on the axis, which has no long waits: where each value begins.
    x: Vec<f64>,
    waits: Vec<AxisWait>,
    devices: Vec<DeviceCurves>,
    runs: Vec<RunSpan>,
    /// Seconds, and what they say.
    ooms: Vec<ChartMark>,
    epochs: Vec<ChartMark>,
}

/// A long wait between two runs, of which the axis has a small part only.
#[derive(Serialize)]
struct AxisWait {
    /// Where it begins and ends on the axis.
    from: f64,
    to: f64,
    /// Seconds that the axis does not have.
    left_out: f64,
    label: String,
}

#[derive(Serialize)]
struct DeviceCurves {
    name: String,
    capacity: Option<u64>,
    allocated: Vec<Option<u64>>,
    /// The smallest `allocated` of each part, where it isn't the largest.
    low: Vec<Option<u64>>,
    reserved: Vec<Option<u64>>,
    used: Vec<Option<u64>>,
    ranks: Vec<RankCurve>,
}

/// One process of several on a device.
#[derive(Serialize)]
struct RankCurve {
    name: String,
    allocated: Vec<Option<u64>>,
}

#[derive(Serialize)]
struct RunSpan {
    number: RunNumber,
    from: f64,
    to: f64,
}

#[derive(Serialize)]
struct ChartMark {
    at: f64,
    label: String,
}

/// Curves of single processes, for all devices together.
const MOST_RANKS: usize = 16;

/// A chart of a page tells as many columns apart as one of a screen.
const COLUMNS: f64 = 140.0;

/// Epochs marked on the chart.
const MOST_EPOCHS: u64 = 40;

pub(super) fn section(page: &mut String, story: &SessionStory) {
    let state = &story.state;
    let devices: Vec<&DeviceState> = shown(state);
    if devices.is_empty() {
        page.push_str("<section><h2>Memory</h2><p class=\"dim\">Nothing was measured: neither the probe nor NVML gave a reading.</p></section>\n");
        return;
    }
    let data = ChartData::new(story, &devices);
    page.push_str("<section class=\"chart\">\n<h2>Memory</h2>\n<nav id=\"ranges\"></nav>\n");
    for (number, device) in devices.iter().enumerate() {
        let name = name_of(device);
        let _ = writeln!(
            page,
            "<figure><figcaption>{}</figcaption><div class=\"plot\" data-device=\"{number}\" role=\"img\" aria-label=\"{}\"></div></figure>",
            text(&name),
            text(&format!("memory of {name} over time")),
        );
    }
    page.push_str("<p class=\"hint\">Drag to zoom, double-click for everything.</p>\n");
    let _ = writeln!(
        page,
        "<script type=\"application/json\" id=\"memory\">{}</script>\n</section>",
        json(&data)
    );
}

/// The devices that the training used; all of them if none is known to be.
fn shown(state: &State) -> Vec<&DeviceState> {
    let with_curves = || {
        let devices = state.devices.iter();
        devices.filter(|device| device.used.last().is_some() || device.allocated.last().is_some())
    };
    let ours: Vec<&DeviceState> = with_curves()
        .filter(|device| device.allocated.last().is_some())
        .collect();
    match ours.is_empty() {
        true => with_curves().collect(),
        false => ours,
    }
}

/// `GPU 0 · NVIDIA H200`.
fn name_of(device: &DeviceState) -> String {
    format!("{} · {}", device.label(), device.name)
}

impl ChartData {
    fn new(story: &SessionStory, devices: &[&DeviceState]) -> ChartData {
        let state = &story.state;
        let axis = TimeAxis::new(state);
        let mut bounds = moments(story);
        bounds.retain(|at| axis.has(*at));
        bounds.extend(axis.cuts.iter().flat_map(|(from, to)| [*from, *to]));
        bounds.sort_unstable();
        bounds.dedup();
        let seconds = |at: Moment| axis.seconds(at);
        let largest = devices.iter().filter_map(|device| device.capacity).max();
        // Of four digits at the least, for small (simulated) devices too.
        let unit = match largest {
            Some(capacity) if capacity < Bytes::gib(4) => 1 << 10,
            Some(_) | None => 1 << 20,
        };
        let x = bounds[..bounds.len() - 1].iter();
        let mut ranks_left = MOST_RANKS;
        ChartData {
            unit,
            x: x.map(|at| seconds(*at)).collect(),
            devices: devices
                .iter()
                .map(|device| {
                    DeviceCurves::of(state, device, &axis, &bounds, unit, &mut ranks_left)
                })
                .collect(),
            runs: (state.runs.iter())
                .map(|run| RunSpan {
                    number: run.number,
                    from: seconds(run.started),
                    to: seconds(run.ended.map_or(state.now, |(at, _)| at)),
                })
                .collect(),
            ooms: (story.ooms.iter())
                .map(|oom| ChartMark {
                    at: seconds(oom.incident.at),
                    label: "out of memory".into(),
                })
                .collect(),
            epochs: epochs(state, &axis),
            waits: waits(&axis),
        }
    }
}

impl DeviceCurves {
    fn of(
        state: &State,
        device: &DeviceState,
        axis: &TimeAxis,
        bounds: &[Moment],
        unit: u64,
        ranks_left: &mut usize,
    ) -> DeviceCurves {
        let curve = |series: &Series, of: fn(&SeriesBucket) -> Bytes| -> Vec<Option<u64>> {
            let buckets = series.between(bounds);
            (buckets.iter())
                .map(|bucket| bucket.as_ref().map(|bucket| of(bucket).0.div_ceil(unit)))
                .collect()
        };
        let allocated = axis.allocated(state, device, bounds, COLUMNS);
        let edge = |of: fn(&SeriesBucket) -> Bytes| -> Vec<Option<u64>> {
            let each = allocated.iter();
            each.map(|bucket| bucket.as_ref().map(|bucket| of(bucket).0.div_ceil(unit)))
                .collect()
        };
        let (low, allocated) = (edge(|bucket| bucket.min), edge(|bucket| bucket.max));
        let on_it: Vec<_> = (state.runs.iter())
            .flat_map(|run| run.ranks.iter().map(move |rank| (run, rank)))
            .filter(|(_, rank)| rank.device.as_ref() == Some(&device.uuid))
            .collect();
        let shared = state.runs.iter().any(|run| {
            let of_run = on_it.iter().filter(|(other, _)| other.number == run.number);
            of_run.count() > 1
        });
        let mut ranks = Vec::new();
        for (run, rank) in on_it.into_iter().filter(|_| shared) {
            if *ranks_left == 0 {
                break;
            }
            *ranks_left -= 1;
            let number = match rank.hello.rank {
                Some(number) => format!("rank {number}"),
                None => format!("process {}", rank.hello.pid),
            };
            ranks.push(RankCurve {
                name: match state.runs.len() {
                    1 => number,
                    _ => format!("run {} {number}", run.number),
                },
                allocated: curve(&rank.allocated, |bucket| bucket.max),
            });
        }
        DeviceCurves {
            name: clean(&name_of(device)),
            capacity: device.capacity.map(|capacity| capacity.0 / unit),
            allocated,
            low,
            reserved: curve(&device.reserved, |bucket| bucket.max),
            used: curve(&device.used, |bucket| bucket.max),
            ranks,
        }
    }
}

fn waits(axis: &TimeAxis) -> Vec<AxisWait> {
    let wait = |cut: &(Moment, Moment)| AxisWait {
        from: axis.seconds(cut.0),
        to: axis.seconds(cut.1),
        left_out: to_the_millisecond(axis.left_out(cut)),
        label: format!("{} left out", clock_face(cut.1.since(cut.0))),
    };
    axis.cuts.iter().map(wait).collect()
}

fn epochs(state: &State, axis: &TimeAxis) -> Vec<ChartMark> {
    let all = || state.runs.iter().flat_map(|run| run.epochs.marks());
    let every = (all().count() as u64 / MOST_EPOCHS).max(1);
    let runs = state.runs.iter();
    runs.flat_map(|run| run.epochs.every(every))
        .map(|mark| ChartMark {
            at: axis.seconds(mark.at),
            label: format!("epoch {}", mark.number),
        })
        .collect()
}

/// What the script writes on a canvas needs no escapes, but no secrets either.
fn clean(name: &str) -> String {
    command::without_secrets(name).into_owned()
}

/// Parts of the whole session, of a run, and of the time around an OOM.
const WHOLE: u64 = 1_600;
const OF_A_RUN: u64 = 500;
const AROUND_AN_OOM: u64 = 160;

/// Runs and OOMs with a finer grid: the latest.
const FINER: usize = 6;

/// The time around an OOM that one wants to zoom into.
const AROUND: Duration = Duration::from_secs(10);

/// In order, without repetitions; at least two.
pub(super) fn moments(story: &SessionStory) -> Vec<Moment> {
    let end = Moment(story.state.now.0.max(1).saturating_add(1));
    let mut all = Vec::new();
    part(&mut all, Moment::ZERO, end, WHOLE);
    for run in story.state.runs.iter().rev().take(FINER) {
        let ended = run.ended.map_or(end, |(at, _)| at).min(end);
        part(&mut all, run.started, ended, OF_A_RUN);
        // A run's start and end are where its curves begin and end.
        all.extend([run.started, ended]);
    }
    for oom in story.ooms.iter().rev().take(FINER) {
        let at = oom.incident.at;
        let from = Moment(at.0.saturating_sub(AROUND.as_micros() as u64));
        part(&mut all, from, (at + AROUND).min(end), AROUND_AN_OOM);
        all.push(at);
    }
    all.retain(|at| *at <= end);
    all.sort_unstable();
    all.dedup();
    all
}

fn part(all: &mut Vec<Moment>, from: Moment, to: Moment, parts: u64) {
    let span = to.0.saturating_sub(from.0);
    // A millisecond is finer than anything that was sampled.
    let parts = parts.min(span / 1_000).max(1);
    all.extend(
        (0..=parts).map(|n| {
            Moment(from.0 + (u128::from(span) * u128::from(n) / u128::from(parts)) as u64)
        }),
    );
}

#[cfg(test)]
mod grid_tests {
    use super::*;

    #[test]
    fn a_day_has_no_more_parts_than_a_page_takes() {
        let mut story = SessionStory::default();
        story.state.now = Moment::from_secs_f64(86_400.0);
        let all = moments(&story);
        assert!((1_500..1_700).contains(&all.len()), "{}", all.len());
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        story.state.now = Moment::ZERO;
        assert!(moments(&story).len() >= 2);
    }

    #[test]
    fn a_night_between_two_runs_is_left_out_of_the_axis() {
        let mut story = SessionStory::new(crate::report::recorded("capacity"));
        let mut second = story.state.runs[0].clone();
        let (ended, _) = story.state.runs[0].ended.expect("an end");
        let night = Duration::from_secs(9 * 3_600);
        second.started = ended + night;
        let end = second.started + Duration::from_secs(50);
        second.ended = second.ended.map(|(_, exit)| (end, exit));
        story.state.now = end;
        story.state.runs.push(second.clone());
        let axis = TimeAxis::new(&story.state);
        let [wait] = &waits(&axis)[..] else {
            panic!("one wait");
        };
        assert_eq!(wait.label, "8:59:56 left out");
        // What ran is as long as before, with the mark of the wait between.
        let length = |from, to| axis.seconds(to) - axis.seconds(from);
        let ran = length(second.started, story.state.now);
        assert!((ran - 50.0).abs() < 0.002, "{ran}");
        let between = length(ended, second.started);
        assert!((4.0..8.0).contains(&between), "{between}");
        let data = ChartData::new(&story, &shown(&story.state));
        assert!(data.x.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(data.x[data.x.len() - 1] < 90.0);
        assert!(
            data.devices
                .iter()
                .all(|device| device.used.len() == data.x.len())
        );
        // A short one stays.
        story.state.runs[1].started = ended + Duration::from_secs(30);
        assert!(waits(&TimeAxis::new(&story.state)).is_empty());
    }
}
