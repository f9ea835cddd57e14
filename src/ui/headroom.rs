//! The headroom line: free memory, the peak and its step, the prediction, a leak.

use crate::diagnosis;
use crate::event::NvmlState;
use crate::forecast::RoomBasis;
use crate::state::{DeviceState, ProbeState, Run, RunOutcome, State};
use crate::ui::canvas::{Canvas, columns};
use crate::ui::chart::plot_of;
use crate::ui::layout::layout_of;
use crate::ui::scene::Scene;
use crate::ui::theme::{Theme, Tone};
use crate::ui::view::{Keyboard, View};
use crate::ui::words::{Figures, count, outcome_words, ranks_on};
use crate::units::{Bytes, Moment, clock_face};
use std::ops::RangeInclusive;

/// Below this share of the capacity, free memory is drawn as a warning.
const LITTLE: f64 = 0.05;

/// A piece with at least so many columns is cut instead of dropped.
const WORTH_CUTTING: u16 = 24;

pub(super) fn draw(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let theme = canvas.theme;
    let mut pen = canvas.pen(0);
    pen.skip(1);
    if let Some(waiting) = scene.waiting {
        pen.text(waiting, Tone::Accent);
        return;
    }
    if view.output.awaits_input() {
        let words = match view.keyboard {
            Keyboard::Oomph => "the training is waiting for input: press i to type",
            Keyboard::Selection | Keyboard::Training => "the training is waiting for input",
        };
        pen.text(words, Tone::Warning);
        return;
    }
    let Some(device) = view.device(scene.state) else {
        return;
    };
    let chart = layout_of(view, scene).chart();
    let columns_of_chart = chart.map_or(1, |area| plot_of(area).width);
    let window = view.time.window(scene.state.now, columns_of_chart);
    let pointed = view.time.cursor().and_then(|at| window.column(at));
    let pieces = match pointed.map(|column| window.begin_of(column)) {
        Some(at) => {
            let to = Moment(at.0 + window.column_us());
            pieces_at(scene.state, device, at, to)
        }
        None => pieces(theme, scene, device),
    };
    let gap = columns(theme.glyphs.separator);
    let pieces = with_warnings(pieces, pen.room(), gap);
    for (n, (text, tone)) in pieces.into_iter().enumerate() {
        let separator = if n > 0 { theme.glyphs.separator } else { "" };
        let room = pen.room().saturating_sub(columns(separator));
        if columns(&text) > room && room < WORTH_CUTTING {
            break;
        }
        pen.text(separator, Tone::Faint)
            .cut(&theme.glyphs.spelled(&text), room, tone);
    }
}

/// Leaves out what does not warn, the least important first, until all that warns has room.
fn with_warnings(mut pieces: Vec<(String, Tone)>, room: u16, gap: u16) -> Vec<(String, Tone)> {
    let warns = |(_, tone): &(String, Tone)| matches!(tone, Tone::Warning | Tone::Wrong);
    let width = |pieces: &[(String, Tone)]| -> u16 {
        let last = pieces.iter().rposition(warns).map_or(0, |last| last + 1);
        pieces[..last]
            .iter()
            .map(|(text, _)| columns(text) + gap)
            .sum()
    };
    while width(&pieces) > room.saturating_add(gap) {
        let last = pieces.iter().rposition(warns).unwrap_or(0);
        match pieces[..last].iter().rposition(|piece| !warns(piece)) {
            Some(quiet) => pieces.remove(quiet),
            None => break,
        };
    }
    pieces
}

/// The pieces, the most important first.
fn pieces(theme: &Theme, scene: &Scene, device: &DeviceState) -> Vec<(String, Tone)> {
    let state = scene.state;
    let figures = Figures::of(device.capacity);
    if let Some((run, at)) = state.run().and_then(|run| Some((run, run.ended?.0))) {
        return pieces_after(run, at, device, figures);
    }
    let mut pieces = Vec::new();
    if let Some(room) = device.headroom(state) {
        let (bound, why) = match room.is_upper_bound {
            true => ("≤ ", " (no NVML)"),
            false => ("", ""),
        };
        let share = room
            .bytes
            .fraction_of(device.capacity.unwrap_or(Bytes::ZERO));
        let tone = match share {
            Some(share) if share < LITTLE => Tone::Warning,
            Some(_) | None => Tone::Strong,
        };
        let of = match (device.limit, device.capacity) {
            (Some(limit), _) => format!(" under the limit of {}", figures.gib(limit)),
            (None, Some(capacity)) => format!(" of {}", figures.gib(capacity)),
            (None, None) => String::new(),
        };
        let words = format!("{bound}{} GiB free{of}{why}", figures.gib(room.bytes));
        pieces.push((words, tone));
    }
    if let Some(run) = state.run() {
        pieces.extend(peak(run, device, figures));
        let seen = device.allocated.current().is_some();
        if let Some(room) = scene.room_for_batch.filter(|_| seen) {
            let batch = count(room.could);
            let words = match room.basis {
                RoomBasis::Peaks => format!("batch {batch} would fit"),
                RoomBasis::Step(_) => format!("batch up to {batch} fits"),
            };
            pieces.push((words, Tone::Good));
        }
        pieces.extend(climb(theme, state, run, device));
        let retries: u64 = ranks_on(run, device)
            .filter_map(|rank| rank.sample.as_ref())
            .map(|(_, sample)| sample.alloc_retries)
            .sum();
        if retries > 0 {
            pieces.push((
                format!("{} allocator retries", count(retries)),
                Tone::Warning,
            ));
        }
    }
    if state.dropped.samples > 0 {
        let dropped = format!("{} samples dropped", count(state.dropped.samples));
        pieces.push((dropped, Tone::Warning));
    }
    pieces.extend(sources(state, device));
    pieces
}

/// The pieces for the cursor's column: each quantity's minimum and maximum in it.
fn pieces_at(state: &State, device: &DeviceState, from: Moment, to: Moment) -> Vec<(String, Tone)> {
    let figures = Figures::of(device.capacity);
    let time = clock_face(from.since(Moment::ZERO));
    let mut pieces = vec![(format!("at {time}"), Tone::Accent)];
    let begun = |run: &&Run| run.started < to && run.ended.is_none_or(|(at, _)| at >= from);
    let run = state.runs.iter().rfind(begun);
    if let Some(epochs) = run.and_then(|run| run.epochs.between(from, to)) {
        pieces.push((epoch_words(&epochs), Tone::Dim));
    }
    for (name, series, tone) in [
        ("allocated", &device.allocated, Tone::Allocated),
        ("reserved", &device.reserved, Tone::Reserved),
        ("device", &device.used, Tone::Used),
    ] {
        let held = series.columns(from, to, 1).pop().flatten();
        let words = match held.map(|held| [held.min, held.max].map(|bytes| figures.gib(bytes))) {
            None => format!("{name} unknown"),
            Some([least, most]) if least == most => format!("{name} {most}"),
            Some([least, most]) => format!("{name} {least} to {most}"),
        };
        pieces.push((words, if held.is_some() { tone } else { Tone::Dim }));
    }
    if let Some(run) = run {
        pieces.push((format!("run {}", run.number), Tone::Dim));
    }
    pieces
}

fn epoch_words(epochs: &RangeInclusive<u64>) -> String {
    match epochs.start() == epochs.end() {
        true => format!("epoch {}", epochs.start()),
        false => format!("epochs {} to {}", epochs.start(), epochs.end()),
    }
}

/// The pieces after a run: how it ended and what it held. What is free now says nothing about it.
fn pieces_after(
    run: &Run,
    ended: Moment,
    device: &DeviceState,
    figures: Figures,
) -> Vec<(String, Tone)> {
    let (words, tone) = outcome_words(run);
    let after = clock_face(ended.since(run.started));
    let mut pieces = vec![(format!("{words} after {after}"), tone)];
    if run.outcome() == RunOutcome::OutOfMemory {
        pieces.extend(held_at_oom(run, device, figures).map(|words| (words, Tone::Strong)));
    }
    pieces.extend(peak(run, device, figures));
    pieces
}

/// `23.4 of 24.0 GiB allocated, 312 MiB requested`, if memory ran out on this device.
fn held_at_oom(run: &Run, device: &DeviceState, figures: Figures) -> Option<String> {
    let oom = run.oom()?;
    if oom.device.as_ref().is_some_and(|uuid| *uuid != device.uuid) {
        return None;
    }
    let allocated = oom.allocated()?;
    let bound = match (oom.limit(), oom.capacity().or(device.capacity)) {
        (Some(limit), _) => format!(" of a limit of {}", figures.gib(limit)),
        (None, Some(capacity)) => format!(" of {}", figures.gib(capacity)),
        (None, None) => String::new(),
    };
    let asked = oom
        .requested()
        .map_or(String::new(), |bytes| format!(", {bytes} requested"));
    let allocated = figures.gib(allocated);
    Some(format!("{allocated}{bound} GiB allocated{asked}"))
}

/// Which sources are silent, and why.
fn sources(state: &State, device: &DeviceState) -> impl Iterator<Item = (String, Tone)> {
    let probe = match state.probe() {
        ProbeState::Live(_) => None,
        ProbeState::Off => Some(("probe off: no allocator data".to_string(), Tone::Dim)),
        ProbeState::Waiting => {
            let ours = device.breakdown(state).non_pytorch;
            let words = match ours.is_some_and(|bytes| bytes > Bytes::ZERO) {
                true => "on the GPU without PyTorch: device memory only",
                false => "waiting for the program to use the GPU",
            };
            Some((words.to_string(), Tone::Dim))
        }
        ProbeState::Resting(reason) => Some((format!("probe paused: {reason}"), Tone::Warning)),
        ProbeState::Lost => {
            let words = "probe lost: no more allocator data".to_string();
            Some((words, Tone::Warning))
        }
    };
    let nvml = match &state.nvml {
        Some(NvmlState::Unavailable { reason }) => {
            // What to do about it stands among the events.
            let what = reason.split(": ").next().unwrap_or_default();
            Some((format!("no NVML: {what}"), Tone::Dim))
        }
        Some(NvmlState::Stale) => Some(("NVML is not answering".to_string(), Tone::Warning)),
        Some(NvmlState::Live { .. } | NvmlState::Off) | None => None,
    };
    probe.into_iter().chain(nvml)
}

fn peak(run: &Run, device: &DeviceState, figures: Figures) -> Option<(String, Tone)> {
    let rank = ranks_on(run, device).max_by_key(|rank| rank.allocated_peak)?;
    if rank.allocated_peak == Bytes::ZERO {
        return None;
    }
    let mut words = format!("peak {}", figures.gib(rank.allocated_peak));
    if let Some(step) = rank.peak_step {
        words.push_str(&format!(" at step {}", count(step)));
    }
    if let Some(predicted) = run.predicted_peak {
        words.push_str(&format!(" (predicted {})", figures.gib(predicted)));
    }
    Some((words, Tone::Text))
}

/// By the same rule as the diagnosis: a baseline that settles is no leak.
fn climb(theme: &Theme, state: &State, run: &Run, device: &DeviceState) -> Option<(String, Tone)> {
    let rank = ranks_on(run, device).find(|rank| rank.disconnected.is_none())?;
    let climb = diagnosis::baseline_growth(&rank.steps, device.capacity)?;
    let up = theme.glyphs.climb;
    let per_step = Bytes(climb.per_step as u64);
    let coming = diagnosis::leak_forecast(state).filter(|coming| coming.device == device.uuid);
    let words = coming.map_or(String::new(), |coming| format!(": {}", coming.words()));
    Some((format!("{up} leak +{per_step}/step{words}"), Tone::Warning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_warns_takes_the_room_of_what_does_not() {
        let piece = |text: &str, tone| (text.to_string(), tone);
        let pieces = vec![
            piece("7.9 GiB free", Tone::Strong),
            piece("peak 14.6 at step 812", Tone::Text),
            piece(
                "leak +3.00 GiB/step: out of memory in 4 steps",
                Tone::Warning,
            ),
        ];
        let shown = |room| {
            let kept = with_warnings(pieces.clone(), room, 3);
            kept.into_iter().map(|(text, _)| text).collect::<Vec<_>>()
        };
        assert_eq!(shown(120).len(), 3);
        assert_eq!(shown(64), [&pieces[0].0, &pieces[2].0].map(String::clone));
        assert_eq!(shown(50), [pieces[2].0.clone()]);
        assert_eq!(shown(10), [pieces[2].0.clone()], "cut, but first");
    }
}
