//! The line below the chart: how much is free, the peak, what batch there is room for, what grows. With little room the
//! words get fewer before a figure is left out.

use super::canvas::{Canvas, Pen, clauses_within, columns};
use super::chart::{Pointed, plot_of, pointed};
use super::layout::arranged;
use super::scene::{RoomForBatch, Scene};
use super::theme::{Theme, Tone};
use super::view::{Keyboard, View};
use super::words::{Figures, count, outcome_words, rank_name, ranks_on};
use crate::calibration::NON_TORCH_USUAL;
use crate::diagnosis::{self, Certainty, FittedGrowth, LeakForecast};
use crate::event::NvmlState;
use crate::forecast::{NoRoom, RoomBasis};
use crate::recognize::CommandLayout;
use crate::state::{DeviceState, ProbeState, Run, RunOutcome, State};
use crate::units::{Bytes, Moment, clock_face};
use std::ops::RangeInclusive;

/// A figure of the line, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HeadroomFigure {
    text: String,
    /// The same in fewer words, the fewest last.
    briefs: Vec<String>,
    tone: Tone,
    /// What is there to be acted on: it keeps its place where there is little room.
    is_needed: bool,
    /// What one would like to see: words of others make room for it, but no figure does.
    is_wished: bool,
}

impl HeadroomFigure {
    fn new(text: impl Into<String>, tone: Tone) -> HeadroomFigure {
        HeadroomFigure {
            text: text.into(),
            briefs: Vec::new(),
            tone,
            is_needed: matches!(tone, Tone::Warning | Tone::Wrong),
            is_wished: false,
        }
    }

    /// In fewer words than so far.
    fn or(mut self, brief: impl Into<String>) -> HeadroomFigure {
        self.briefs.push(brief.into());
        self
    }

    fn shorten(&mut self) {
        self.text = self.briefs.remove(0);
    }

    fn wished(self) -> HeadroomFigure {
        HeadroomFigure {
            is_wished: true,
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

/// Draws the line between the chart and the pane, with the headroom's figures in it.
pub(super) fn draw_headroom(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let theme = canvas.theme;
    let line = theme.glyphs.line;
    let mut pen = canvas.pen(0);
    pen.text(line, Tone::Faint).skip(1);
    draw_figures(&mut pen, theme, view, scene);
    pen.skip(1).fill(line, Tone::Faint);
}

fn draw_figures(pen: &mut Pen, theme: &Theme, view: &View, scene: &Scene) {
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
    let chart = arranged(view, scene).chart();
    let columns_of_chart = chart.map_or(1, |area| plot_of(area).width);
    let pointed = pointed(scene.state, device, &view.time, columns_of_chart);
    let pieces = match pointed {
        Some(pointed) => pieces_at(scene.state, device, &pointed),
        None => headroom_pieces(theme, &view.fitted, scene, device),
    };
    let gap = columns(theme.glyphs.separator);
    let pieces = fitted(pieces, pen.room(), gap);
    for (
        n,
        HeadroomFigure {
            text, briefs, tone, ..
        },
    ) in pieces.into_iter().enumerate()
    {
        let separator = if n > 0 { theme.glyphs.separator } else { "" };
        let room = pen.room().saturating_sub(columns(separator));
        let text = theme.glyphs.spelled(&text);
        let whole = clauses_within(&text, room);
        let brief = briefs.iter().find(|brief| columns(brief) <= room);
        let text = match (whole, brief) {
            (None, Some(brief)) => brief.as_str().into(),
            (_, _) => text,
        };
        let whole = clauses_within(&text, room);
        if whole.is_none() && room < WORTH_CUTTING {
            break;
        }
        pen.text(separator, Tone::Faint)
            .words_within(whole.unwrap_or(&text), room, tone);
        if whole != Some(&*text) {
            break;
        }
    }
}

/// Fewer words and then fewer pieces, the least important first, until all that is needed has room. What is wished for has it where
/// words alone make room.
fn fitted(pieces: Vec<HeadroomFigure>, room: u16, gap: u16) -> Vec<HeadroomFigure> {
    let is_too_wide = |pieces: &[HeadroomFigure]| {
        let width = pieces.iter().map(|piece| columns(&piece.text) + gap);
        width.sum::<u16>() > room.saturating_add(gap)
    };
    let quiet = |piece: &HeadroomFigure| !piece.is_needed;
    let wordy = |piece: &HeadroomFigure| !piece.briefs.is_empty();
    // The one with the most words to spare, the least important first.
    let wordiest = |pieces: &[HeadroomFigure]| {
        let places = (0..pieces.len()).filter(|at| quiet(&pieces[*at]) && wordy(&pieces[*at]));
        places.max_by_key(|at| pieces[*at].briefs.len())
    };
    let needed = pieces.iter().rposition(|piece| piece.is_needed);
    let wished = (0..pieces.len()).rev();
    for wished in wished.filter(|at| pieces[*at].is_wished) {
        let mut shorter = pieces.clone();
        let wanted = ..=wished.max(needed.unwrap_or(0));
        while is_too_wide(&shorter[wanted]) {
            match wordiest(&shorter[wanted]).or_else(|| shorter[wanted].iter().position(wordy)) {
                Some(at) => shorter[at].shorten(),
                None => break,
            }
        }
        if !is_too_wide(&shorter[wanted]) {
            return shorter;
        }
    }
    let mut pieces = pieces;
    while let Some(last) = pieces.iter().rposition(|piece| piece.is_needed)
        && is_too_wide(&pieces[..=last])
    {
        if let Some(at) = wordiest(&pieces[..last]) {
            pieces[at].shorten();
        } else if let Some(piece) = pieces[..last].iter().rposition(quiet) {
            pieces.remove(piece);
        } else if let Some(piece) = pieces.iter_mut().find(|piece| wordy(piece)) {
            piece.shorten();
        } else {
            break;
        }
    }
    pieces
}

/// Memory has run out, and the run has not ended: what is free, and what batch there would be room for, is of no use now.
fn pieces_while_failing(run: &Run, device: &DeviceState, figures: Figures) -> Vec<HeadroomFigure> {
    let what = run.what_ran_out();
    let is_told = run.oom().is_some_and(|oom| oom.record.is_some());
    let doing = match is_told {
        true => "waiting for the program to end",
        false => "looking at what has the memory",
    };
    let words = format!("out of {what}: {doing}");
    let first = HeadroomFigure::new(words, Tone::Wrong).or(format!("out of {what}"));
    std::iter::once(first)
        .chain(held_at_oom(run, device, figures).map(|held| HeadroomFigure::new(held, Tone::Text)))
        .collect()
}

/// The pieces, the most important first.
fn headroom_pieces(
    theme: &Theme,
    fitted: &FittedGrowth,
    scene: &Scene,
    device: &DeviceState,
) -> Vec<HeadroomFigure> {
    let state = scene.state;
    let figures = Figures::of(device);
    if let Some((run, at)) = state.run().and_then(|run| Some((run, run.ended?.0))) {
        return pieces_after(run, at, device, figures, fitted, scene);
    }
    if let Some(run) = state.run().filter(|run| run.oom().is_some()) {
        return pieces_while_failing(run, device, figures);
    }
    let mut pieces = Vec::new();
    if let Some(room) = device.headroom_at_peak(state) {
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
        let free_of = format!("{free}{of}");
        let mut figure = HeadroomFigure::new(format!("{free_of}{why}"), tone);
        if !why.is_empty() {
            figure = figure.or(free_of);
        }
        pieces.push(figure.or(free));
    }
    if let Some(run) = state.run() {
        pieces.extend(peak(run, device, figures));
        let seen = device.allocated.current().is_some();
        let climb = climb(theme, fitted, state, run, device);
        // What grows will take the room.
        let beside = beside_steps(state, run, device, figures);
        let is_calm = seen && climb.is_none() && beside.is_none();
        match scene.room_for_batch {
            RoomForBatch::Known(room) if is_calm => {
                let batch = theme.glyphs.spelled(&room.batch_words());
                let about = theme.glyphs.about;
                let brief = format!("room for batch {about} {batch}");
                let figure = match room.inputs() {
                    // Later steps may be given more.
                    Some(inputs) => {
                        let words = format!("{brief} with inputs of {inputs}");
                        HeadroomFigure::new(words, Tone::Good).or(format!("{brief} at {inputs}"))
                    }
                    None => HeadroomFigure::new(brief, Tone::Good),
                };
                pieces.push(figure.needed());
            }
            RoomForBatch::InSearch if is_calm => {
                let words = "room for batch: working it out";
                pieces.push(HeadroomFigure::new(words, Tone::Dim).wished());
            }
            RoomForBatch::Unsettled if is_calm => {
                let words = "room for batch: not known yet";
                pieces.push(HeadroomFigure::new(words, Tone::Dim).wished());
            }
            RoomForBatch::Little if is_calm => {
                let words = "room for batch: little or none";
                pieces.push(HeadroomFigure::new(words, Tone::Dim).wished());
            }
            RoomForBatch::Known(_)
            | RoomForBatch::InSearch
            | RoomForBatch::Unsettled
            | RoomForBatch::Little
            | RoomForBatch::Without(_)
            | RoomForBatch::Unknown => {}
        }
        pieces.extend(climb);
        pieces.extend(beside);
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
    let figures = Figures::of(device);
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
    fitted: &FittedGrowth,
    scene: &Scene,
) -> Vec<HeadroomFigure> {
    let (words, tone) = outcome_words(run);
    let after = clock_face(ended.since(run.started));
    let ended = format!("{words} after {after}");
    let mut pieces = vec![HeadroomFigure::new(ended, tone).or(words).needed()];
    if run.outcome() == RunOutcome::OutOfMemory {
        pieces.extend(
            held_at_oom(run, device, figures).map(|words| HeadroomFigure::new(words, Tone::Strong)),
        );
    }
    // What was allocated when memory ran out was the peak.
    if !peaked_at_oom(run, device) {
        pieces.extend(peak(run, device, figures).map(HeadroomFigure::needed));
    }
    pieces.extend(grew(fitted, scene.state, run, device));
    let went_well = run.went_well();
    if let Some(room) = scene.room_for_batch.known().filter(|_| went_well) {
        let unused = device.unused_in(run);
        let unused = unused.map_or("batch ".to_string(), |bytes| {
            format!("{} GiB unused: ", figures.gib(bytes))
        });
        let could = room.batch_words();
        let (fits, tone) = match room.basis {
            RoomBasis::Step(_) if room.is_shown_by(run.steps()) => {
                (format!("a batch of {could} would fit"), Tone::Good)
            }
            RoomBasis::Step(_) => (format!("a batch of {could} may fit"), Tone::Text),
            RoomBasis::Peaks => (format!("est. {could} fits"), Tone::Text),
        };
        let figure = HeadroomFigure::new(format!("{unused}{fits}"), tone).or(fits);
        pieces.push(figure.needed());
    }
    let why = match scene.room_for_batch {
        RoomForBatch::Without(why) => why.brief(),
        RoomForBatch::Little => NoRoom::NoGain.brief(),
        RoomForBatch::Known(_)
        | RoomForBatch::InSearch
        | RoomForBatch::Unsettled
        | RoomForBatch::Unknown => None,
    };
    if let Some(why) = why.filter(|_| went_well) {
        let unused = device.unused_in(run);
        let unused = unused.map_or(String::new(), |bytes| {
            format!("{} GiB unused, ", figures.gib(bytes))
        });
        let brief = format!("{unused}no larger batch");
        let figure = HeadroomFigure::new(format!("{brief}: {why}"), Tone::Dim).or(brief);
        pieces.push(figure.wished());
    }
    pieces
}

/// `leak: +256 MiB/step`, of a run that ended before that filled the GPU; what ran out of memory has its cause beside it.
fn grew(
    fitted: &FittedGrowth,
    state: &State,
    run: &Run,
    device: &DeviceState,
) -> Option<HeadroomFigure> {
    if run.outcome() == RunOutcome::OutOfMemory {
        return None;
    }
    let mut growth = ranks_on(run, device).filter_map(|rank| {
        let climb = fitted.growth(rank, device.capacity)?;
        Some((rank, climb))
    });
    let (rank, climb) = growth.next()?;
    let what = match diagnosis::growth_certainty(state, fitted, rank, &climb) {
        Certainty::Certain => "leak",
        Certainty::Likely | Certainty::Possible => "grew",
    };
    let per_step = Bytes(climb.per_step as u64);
    let words = format!("{what}: +{per_step}/step");
    Some(HeadroomFigure::new(words, Tone::Warning).needed())
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

/// The option of Python's with which no probe comes into the run.
fn kept_out(state: &State) -> Option<String> {
    let command = &state.run()?.command;
    CommandLayout::new(command).keeps_probe_out(command)
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
            let words = match (
                kept_out(state),
                ours.is_some_and(|bytes| bytes > Bytes::ZERO),
            ) {
                (Some(option), _) => {
                    format!("python {option} keeps the probe out: device memory only")
                }
                (None, true) => "on the GPU without PyTorch: device memory only".into(),
                (None, false) => "waiting for the program to use the GPU".into(),
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
    let last = device.allocated.last().filter(|_| !name.is_empty());
    if let Some((last, _)) = last {
        // As the chart has them.
        let together = device.allocated.max_between(run.started, last);
        words.extend(together.map(|bytes| format!(", {} together", figures.gib(bytes))));
    }
    Some(HeadroomFigure::new(words, Tone::Text).or(peak))
}

/// By the same rule as the diagnosis: a baseline that settles is no leak, and one that grows is called a leak once
/// that is certain.
fn climb(
    theme: &Theme,
    fitted: &FittedGrowth,
    state: &State,
    run: &Run,
    device: &DeviceState,
) -> Option<HeadroomFigure> {
    let rank = ranks_on(run, device).find(|rank| rank.disconnected.is_none())?;
    let climb = fitted.growth(rank, device.capacity)?;
    let up = theme.glyphs.climb;
    let per_step = Bytes(climb.per_step as u64);
    let certainty = diagnosis::growth_certainty(state, fitted, rank, &climb);
    let coming = diagnosis::leak_forecast(state, fitted);
    let coming = coming.filter(|coming| coming.device == device.uuid);
    let words = match diagnosis::certain_leak(coming.as_ref(), certainty) {
        Some(coming) => format!(": {}", coming.words()),
        None => coming
            .and_then(|coming| full_soon(theme, &coming))
            .unwrap_or_default(),
    };
    let what = match certainty {
        Certainty::Certain => "leak",
        Certainty::Likely | Certainty::Possible => "grows",
    };
    let grows = format!("{up} {what} +{per_step}/step{words}");
    Some(HeadroomFigure::new(grows, Tone::Warning))
}

/// Whether what a process has allocated on the device between steps grows.
pub(super) fn grows(view: &View, state: &State, device: &DeviceState) -> bool {
    let ranks = state
        .run()
        .into_iter()
        .flat_map(|run| ranks_on(run, device));
    let mut growth = ranks.filter_map(|rank| view.fitted.growth(rank, device.capacity));
    growth.next().is_some()
}

/// Growth that is not certain to go on, and would fill the GPU soon.
fn full_soon(theme: &Theme, coming: &LeakForecast) -> Option<String> {
    let is_soon = coming.is_soon();
    let [steps, soonest, latest] = [coming.in_steps, coming.soonest, coming.latest].map(count);
    // By the free memory and the growth alone it would be fewer: what is cached is used up, too.
    is_soon.then(|| {
        format!(
            ": full in {} {steps} steps ({soonest}–{latest})",
            theme.glyphs.about
        )
    })
}

/// What is between two steps and takes much more memory than they do: most often an evaluation.
fn beside_steps(
    state: &State,
    run: &Run,
    device: &DeviceState,
    figures: Figures,
) -> Option<HeadroomFigure> {
    let rank = ranks_on(run, device).find(|rank| rank.disconnected.is_none())?;
    let (ended, _) = rank.steps.last.as_ref()?;
    // While oomph looked for who keeps memory, the training waited for it.
    let waited = rank.retainers.as_ref().map(|(found, _)| *found);
    let since = waited.map_or(*ended, |found| found.max(*ended));
    let for_s = state.now.since(since).as_secs_f64();
    let usual_s = 1.0 / rank.steps.rate?;
    // What was between two steps counts as the peak of the next: half of them are without it. Of most steps it is not known.
    let marks = rank.steps.marks.ended.iter().map(|mark| mark.top());
    let mut tops: Vec<Bytes> = marks
        .filter_map(|(top, is_known)| is_known.then_some(top))
        .collect();
    tops.sort_unstable();
    let step = (tops.len() > 1).then(|| tops[tops.len() / 2]);
    let step = step.or(rank.steps.peak)?;
    let now = device.allocated.current()?;
    let is_long = for_s >= BESIDE_S && for_s >= usual_s * LONGER;
    if !is_long || run.oom().is_some() || now < step.scale(MORE) {
        return None;
    }
    let (now, step) = (figures.gib(now), figures.gib(step));
    let brief = format!("no step for {for_s:.0} s: {now} GiB, a step has {step}");
    let words = format!("{brief} (an evaluation?)");
    Some(HeadroomFigure::new(words, Tone::Warning).or(brief))
}

/// What takes so many seconds, and so many times a step, is no step; and it is told where it takes so many times its memory.
const BESIDE_S: f64 = 1.0;
const LONGER: f64 = 4.0;
const MORE: f64 = 1.25;

/// What is allocated after each optimizer step, where nothing grows: gradients and the last outputs are still there, so that it is more
/// than the least in a step.
fn steady(run: &Run, device: &DeviceState, figures: Figures) -> Option<HeadroomFigure> {
    let rank = ranks_on(run, device).find(|rank| rank.disconnected.is_none())?;
    let level = diagnosis::steady_baseline(&rank.steps, device.capacity)?;
    let words = format!("steady: {} GiB after optimizer.step()", figures.gib(level));
    let figure = HeadroomFigure::new(words, Tone::Good).or("steady");
    Some(figure.wished())
}

#[cfg(test)]
mod tests;
