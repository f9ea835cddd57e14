//! The line below the chart: how much is free, the peak, what batch there is room for, what grows. With little room the
//! words get fewer before a figure is left out.

use super::canvas::{Canvas, clauses_within, columns};
use super::chart::{Pointed, plot_of, pointed};
use super::layout::layout_of;
use super::scene::{RoomForBatch, Scene};
use super::theme::{Theme, Tone};
use super::view::{Keyboard, View};
use super::words::{Figures, count, outcome_words, rank_name, ranks_on};
use crate::calibration::NON_TORCH_USUAL;
use crate::diagnosis::{self, Certainty};
use crate::event::NvmlState;
use crate::forecast::RoomBasis;
use crate::state::{DeviceState, ProbeState, Run, RunOutcome, State};
use crate::units::{Bytes, Moment, clock_face};
use std::ops::RangeInclusive;

/// A figure of the line, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HeadroomFigure {
    text: String,
    /// The same in fewer words.
    brief: Option<String>,
    tone: Tone,
    /// What is there to be acted on: it keeps its place where there is little room.
    is_needed: bool,
}

impl HeadroomFigure {
    fn new(text: impl Into<String>, tone: Tone) -> HeadroomFigure {
        HeadroomFigure {
            text: text.into(),
            brief: None,
            tone,
            is_needed: matches!(tone, Tone::Warning | Tone::Wrong),
        }
    }

    fn or(self, brief: impl Into<String>) -> HeadroomFigure {
        HeadroomFigure {
            brief: Some(brief.into()),
            ..self
        }
    }

    fn needed(self) -> HeadroomFigure {
        HeadroomFigure {
            is_needed: true,
            ..self
        }
    }
}

/// Below this share of the capacity, free memory is drawn as a warning.
const LITTLE: f64 = 0.05;

/// A piece with at least so many columns is cut instead of dropped.
const WORTH_CUTTING: u16 = 24;

pub(super) fn draw_headroom(canvas: &mut Canvas, view: &View, scene: &Scene) {
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
    let pointed = pointed(scene.state, device, &view.time, columns_of_chart);
    let pieces = match pointed {
        Some(pointed) => pieces_at(scene.state, device, &pointed),
        None => headroom_pieces(theme, scene, device),
    };
    let gap = columns(theme.glyphs.separator);
    let pieces = fitted(pieces, pen.room(), gap);
    for (n, HeadroomFigure { text, tone, .. }) in pieces.into_iter().enumerate() {
        let separator = if n > 0 { theme.glyphs.separator } else { "" };
        let room = pen.room().saturating_sub(columns(separator));
        let text = theme.glyphs.spelled(&text);
        let whole = clauses_within(&text, room);
        if whole.is_none() && room < WORTH_CUTTING {
            break;
        }
        pen.text(separator, Tone::Faint)
            .cut(whole.unwrap_or(&text), room, tone);
        if whole != Some(&*text) {
            break;
        }
    }
}

/// Fewer words and then fewer pieces, the least important first, until all that is needed has room.
fn fitted(mut pieces: Vec<HeadroomFigure>, room: u16, gap: u16) -> Vec<HeadroomFigure> {
    let last_needed = |pieces: &[HeadroomFigure]| pieces.iter().rposition(|piece| piece.is_needed);
    let is_too_wide = |pieces: &[HeadroomFigure]| {
        let needed = last_needed(pieces).map_or(0, |last| last + 1);
        let width = pieces[..needed]
            .iter()
            .map(|piece| columns(&piece.text) + gap);
        width.sum::<u16>() > room.saturating_add(gap)
    };
    while is_too_wide(&pieces) {
        let last = last_needed(&pieces).unwrap_or(0);
        let quiet = |piece: &HeadroomFigure| !piece.is_needed;
        let wordy = |piece: &HeadroomFigure| quiet(piece) && piece.brief.is_some();
        if let Some(wordy) = pieces[..last].iter_mut().rfind(|piece| wordy(piece)) {
            wordy.text = wordy.brief.take().unwrap_or_default();
        } else if let Some(quiet) = pieces[..last].iter().rposition(quiet) {
            pieces.remove(quiet);
        } else if let Some(wordy) = pieces.iter_mut().rfind(|piece| piece.brief.is_some()) {
            wordy.text = wordy.brief.take().unwrap_or_default();
        } else {
            break;
        }
    }
    pieces
}

/// The pieces, the most important first.
fn headroom_pieces(theme: &Theme, scene: &Scene, device: &DeviceState) -> Vec<HeadroomFigure> {
    let state = scene.state;
    let figures = Figures::new(device.capacity);
    if let Some((run, at)) = state.run().and_then(|run| Some((run, run.ended?.0))) {
        return pieces_after(run, at, device, figures, scene);
    }
    let mut pieces = Vec::new();
    if let Some(room) = device.headroom(state) {
        // What a process holds beside PyTorch's memory is taken off here as it is where the need of a run is compared.
        let (about, why, free) = match (room.is_upper_bound, device.limit) {
            (true, None) => ("≈ ", " (no NVML)", room.bytes - NON_TORCH_USUAL),
            (true, Some(_)) => ("≤ ", " (no NVML)", room.bytes),
            (false, _) => ("", "", room.bytes),
        };
        let share = free.fraction_of(device.capacity.unwrap_or(Bytes::ZERO));
        let tone = match share {
            Some(share) if share < LITTLE => Tone::Warning,
            Some(_) | None => Tone::Strong,
        };
        let of = match (device.limit, device.capacity) {
            (Some(limit), _) => format!(" under the limit of {}", figures.gib(limit)),
            (None, Some(capacity)) => format!(" of {}", figures.gib(capacity)),
            (None, None) => String::new(),
        };
        let free = format!("{about}{} GiB free", figures.gib(free));
        pieces.push(HeadroomFigure::new(format!("{free}{of}{why}"), tone).or(free));
    }
    if let Some(run) = state.run() {
        pieces.extend(peak(run, device, figures));
        let seen = device.allocated.current().is_some();
        let climb = climb(theme, state, run, device);
        // What grows will take the room.
        let is_calm = seen && climb.is_none();
        match scene.room_for_batch {
            RoomForBatch::Known(room) if is_calm => {
                let batch = theme.glyphs.spelled(&room.batch_words());
                let about = theme.glyphs.about;
                let words = format!("room for batch {about} {batch}");
                pieces.push(HeadroomFigure::new(words, Tone::Good).needed());
            }
            RoomForBatch::InSearch if is_calm => {
                let words = "room for batch: working it out";
                pieces.push(HeadroomFigure::new(words, Tone::Dim).needed());
            }
            RoomForBatch::Known(_) | RoomForBatch::InSearch | RoomForBatch::Unknown => {}
        }
        pieces.extend(climb);
        pieces.extend(steady(run, device, figures));
        let retries: u64 = ranks_on(run, device)
            .filter_map(|rank| rank.sample.as_ref())
            .map(|(_, sample)| sample.alloc_retries)
            .sum();
        if retries > 0 {
            let words = format!("cache flushed {}× (slower)", count(retries));
            pieces.push(HeadroomFigure::new(words, Tone::Warning));
        }
    }
    if state.dropped.samples > 0 {
        let dropped = format!("{} samples dropped", count(state.dropped.samples));
        pieces.push(HeadroomFigure::new(dropped, Tone::Warning));
    }
    pieces.extend(sources(state, device));
    pieces
}

/// The pieces for the cursor's column: what each quantity is drawn from and to in it.
fn pieces_at(state: &State, device: &DeviceState, pointed: &Pointed) -> Vec<HeadroomFigure> {
    let figures = Figures::new(device.capacity);
    let (from, to) = (pointed.from, pointed.to);
    let time = clock_face(state.since_start(from));
    let mut pieces = vec![HeadroomFigure::new(format!("at {time}"), Tone::Accent)];
    let begun = |run: &&Run| run.started < to && run.ended.is_none_or(|(at, _)| at >= from);
    let run = state.runs.iter().rfind(begun);
    if let Some(epochs) = run.and_then(|run| run.epochs.between(from, to)) {
        pieces.push(HeadroomFigure::new(epoch_words(&epochs), Tone::Dim));
    }
    if pointed.figures.iter().all(|(.., held)| held.is_none()) {
        pieces.push(HeadroomFigure::new("nothing was seen then", Tone::Dim));
        return pieces;
    }
    for (name, tone, held) in pointed.figures.iter().rev() {
        let words = match held.map(|held| [held.min, held.max].map(|bytes| figures.gib(bytes))) {
            None => format!("{name} unknown"),
            Some([least, most]) if least == most => format!("{name} {most}"),
            Some([least, most]) => format!("{name} {least} to {most}"),
        };
        let tone = if held.is_some() { *tone } else { Tone::Dim };
        pieces.push(HeadroomFigure::new(words, tone));
    }
    if let Some(run) = run {
        pieces.push(HeadroomFigure::new(
            format!("run {}", run.number),
            Tone::Dim,
        ));
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
    scene: &Scene,
) -> Vec<HeadroomFigure> {
    let (words, tone) = outcome_words(run);
    let after = clock_face(ended.since(run.started));
    let ended = format!("{words} after {after}");
    let mut pieces = vec![HeadroomFigure::new(ended, tone).or(words)];
    if run.outcome() == RunOutcome::OutOfMemory {
        pieces.extend(
            held_at_oom(run, device, figures).map(|words| HeadroomFigure::new(words, Tone::Strong)),
        );
    }
    // What was allocated when memory ran out was the peak.
    if !peaked_at_oom(run, device) {
        pieces.extend(peak(run, device, figures));
    }
    let went_well = run.went_well();
    if let Some(room) = scene.room_for_batch.known().filter(|_| went_well) {
        let unused = device.unused_in(run);
        let unused = unused.map_or("batch ".to_string(), |bytes| {
            format!("{} GiB unused: ", figures.gib(bytes))
        });
        let could = room.batch_words();
        let (fits, tone) = match room.basis {
            RoomBasis::Step(_) if room.is_shown_by(run.steps()) => {
                (format!("{could} would fit"), Tone::Good)
            }
            RoomBasis::Step(_) => (format!("{could} may fit"), Tone::Text),
            RoomBasis::Peaks => (format!("est. {could} fits"), Tone::Text),
        };
        pieces.push(HeadroomFigure::new(format!("{unused}{fits}"), tone).needed());
    }
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

/// Whether the step that ran out of memory had the peak.
fn peaked_at_oom(run: &Run, device: &DeviceState) -> bool {
    let highest = ranks_on(run, device).max_by_key(|rank| rank.allocated_peak);
    let is_last = highest.is_some_and(|rank| rank.peak_step > Some(rank.steps.count));
    run.outcome() == RunOutcome::OutOfMemory && is_last && run.oom().is_some()
}

/// Which sources are silent, and why.
fn sources(state: &State, device: &DeviceState) -> impl Iterator<Item = HeadroomFigure> {
    let probe = match state.probe() {
        ProbeState::Live(_) => None,
        ProbeState::Off => Some(HeadroomFigure::new(
            "probe off: no allocator data",
            Tone::Dim,
        )),
        ProbeState::Waiting => {
            let ours = device.breakdown(state).non_pytorch;
            let words = match ours.is_some_and(|bytes| bytes > Bytes::ZERO) {
                true => "on the GPU without PyTorch: device memory only",
                false => "waiting for the program to use the GPU",
            };
            Some(HeadroomFigure::new(words, Tone::Dim))
        }
        ProbeState::Resting(reason) => Some(HeadroomFigure::new(
            format!("probe paused: {reason}"),
            Tone::Warning,
        )),
        ProbeState::Lost => {
            let words = "probe lost: no more allocator data";
            Some(HeadroomFigure::new(words, Tone::Warning))
        }
    };
    let nvml = match &state.nvml {
        Some(NvmlState::Stale) => Some(HeadroomFigure::new("NVML is not answering", Tone::Warning)),
        // The header says that there is none, and the events why and what to do about it.
        Some(NvmlState::Unavailable { .. } | NvmlState::Live { .. } | NvmlState::Off) | None => {
            None
        }
    };
    probe.into_iter().chain(nvml)
}

fn peak(run: &Run, device: &DeviceState, figures: Figures) -> Option<HeadroomFigure> {
    let rank = ranks_on(run, device).max_by_key(|rank| rank.allocated_peak)?;
    if rank.allocated_peak == Bytes::ZERO {
        return None;
    }
    // On a GPU of several processes it is no peak of the GPU.
    let name = match ranks_on(run, device).count() {
        0 | 1 => String::new(),
        _ => rank_name(run, rank).map_or(String::new(), |name| format!(" ({name})")),
    };
    let peak = format!("peak {}{name}", figures.gib(rank.allocated_peak));
    let mut words = peak.clone();
    if let Some(step) = rank.peak_step {
        // The header counts the steps that have ended: the number of one that has not would contradict it.
        let is_under_way = step > rank.steps.count && run.outcome() == RunOutcome::Running;
        words.push_str(&match is_under_way {
            true => " in this step".to_string(),
            false => format!(" at step {}", count(step)),
        });
    }
    if let Some(predicted) = run.predicted_peak {
        words.push_str(&format!(" (predicted {})", figures.gib(predicted)));
    }
    Some(HeadroomFigure::new(words, Tone::Text).or(peak))
}

/// By the same rule as the diagnosis: a baseline that settles is no leak, and one that grows is called a leak once
/// that is certain.
fn climb(theme: &Theme, state: &State, run: &Run, device: &DeviceState) -> Option<HeadroomFigure> {
    let rank = ranks_on(run, device).find(|rank| rank.disconnected.is_none())?;
    let climb = diagnosis::baseline_growth(&rank.steps, device.capacity)?;
    let up = theme.glyphs.climb;
    let per_step = Bytes(climb.per_step as u64);
    let certainty = climb.certainty(device.capacity);
    let coming = diagnosis::certain_leak(state, certainty);
    let coming = coming.filter(|coming| coming.device == device.uuid);
    let words = match coming {
        Some(coming) => format!(": {}", coming.words()),
        None => full_soon(theme, state, device).unwrap_or_default(),
    };
    let what = match certainty {
        Certainty::Certain => "leak",
        Certainty::Likely | Certainty::Possible => "grows",
    };
    let grows = format!("{up} {what} +{per_step}/step{words}");
    Some(HeadroomFigure::new(grows, Tone::Warning))
}

/// Whether what a process has allocated on the device between steps grows.
pub(super) fn grows(state: &State, device: &DeviceState) -> bool {
    let ranks = state
        .run()
        .into_iter()
        .flat_map(|run| ranks_on(run, device));
    let mut growth =
        ranks.filter_map(|rank| diagnosis::baseline_growth(&rank.steps, device.capacity));
    growth.next().is_some()
}

/// Growth that is not certain to go on, and would fill the GPU soon.
fn full_soon(theme: &Theme, state: &State, device: &DeviceState) -> Option<String> {
    let coming = diagnosis::leak_forecast(state)?;
    let is_soon = coming.device == device.uuid && coming.is_soon();
    let steps = count(coming.in_steps);
    is_soon.then(|| {
        format!(
            ": full in {} {steps} steps at this rate",
            theme.glyphs.about
        )
    })
}

/// What stays between steps, where nothing grows.
fn steady(run: &Run, device: &DeviceState, figures: Figures) -> Option<HeadroomFigure> {
    let rank = ranks_on(run, device).find(|rank| rank.disconnected.is_none())?;
    let level = diagnosis::steady_baseline(&rank.steps, device.capacity)?;
    let words = format!("steady: {} between steps", figures.gib(level));
    Some(HeadroomFigure::new(words, Tone::Good))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::staged::{StagedSession, gib, step};

    fn shown(pieces: &[HeadroomFigure], room: u16) -> Vec<String> {
        let kept = fitted(pieces.to_vec(), room, 3);
        kept.into_iter().map(|piece| piece.text).collect()
    }

    /// What is said of the growth of a training after so many steps that each keep so much.
    fn growth(steps: u32, gib_a_step: f64) -> String {
        let mut scene = StagedSession::training();
        for n in 1..=steps {
            let floor = 1.0 + gib_a_step * f64::from(n);
            let at = 2.0 + f64::from(n);
            scene.add(at, step(100, u64::from(n), gib(floor), gib(floor + 8.0)));
            scene.sampled(at + 0.1, floor, floor + 8.0);
        }
        let state = &scene.state;
        let (run, device) = (&state.runs[0], &state.devices[0]);
        climb(&Theme::full(), state, run, device)
            .expect("growth")
            .text
    }

    #[test]
    fn growth_is_a_leak_once_it_is_certain_and_fast_growth_is_told_when_it_fills_the_gpu() {
        let fast = growth(20, 0.5);
        assert!(
            fast.starts_with("▲ grows +512 MiB/step: full in ≈ "),
            "{fast}"
        );
        assert!(fast.ends_with(" steps at this rate"), "{fast}");
        assert_eq!(
            growth(25, 0.0625),
            "▲ grows +64 MiB/step",
            "it may still end"
        );
        let certain = growth(210, 0.03125);
        assert!(
            certain.starts_with("▲ leak +32 MiB/step: out of memory in about "),
            "{certain}"
        );
    }

    #[test]
    fn what_warns_takes_the_room_of_what_does_not() {
        let leak = "leak +3.00 GiB/step: out of memory in 4 steps";
        let pieces = [
            HeadroomFigure::new("7.9 GiB free", Tone::Strong),
            HeadroomFigure::new("peak 14.6 at step 812", Tone::Text),
            HeadroomFigure::new(leak, Tone::Warning),
        ];
        assert_eq!(shown(&pieces, 120).len(), 3);
        assert_eq!(shown(&pieces, 64), ["7.9 GiB free", leak]);
        assert_eq!(shown(&pieces, 50), [leak]);
        assert_eq!(shown(&pieces, 10), [leak], "cut, but first");
        // Where both warn, words go before one of them does.
        let leak = "leak +12 MiB/step";
        let both = [
            HeadroomFigure::new("0.7 GiB free of 23.6", Tone::Warning).or("0.7 GiB free"),
            HeadroomFigure::new(leak, Tone::Warning),
        ];
        assert_eq!(shown(&both, 39), ["0.7 GiB free", leak]);
    }

    #[test]
    fn words_go_before_figures_where_the_room_for_a_batch_has_no_place() {
        let room = "room for batch ≈ 48";
        let pieces = [
            HeadroomFigure::new("7.9 GiB free of 23.6", Tone::Strong).or("7.9 GiB free"),
            HeadroomFigure::new("peak 14.7 at step 463", Tone::Text).or("peak 14.7"),
            HeadroomFigure::new(room, Tone::Good).needed(),
            HeadroomFigure::new("steady", Tone::Good),
        ];
        for (columns, expected) in [
            (
                66,
                &["7.9 GiB free of 23.6", "peak 14.7 at step 463", room][..],
            ),
            (58, &["7.9 GiB free of 23.6", "peak 14.7", room][..]),
            (50, &["7.9 GiB free", "peak 14.7", room]),
            (38, &["7.9 GiB free", room]),
            (20, &[room]),
        ] {
            assert_eq!(
                shown(&pieces, columns)[..expected.len()],
                *expected,
                "{columns}"
            );
        }
    }
}
