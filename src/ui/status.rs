//! The lines around the panes: how full the GPU is and what is to come (headroom), header (command, run, time, steps, probe and NVML), footer (keys that do something now),
//! and the one line of a tiny screen.

use super::action::{Action, StepMove};
use super::available::is_listed;
use super::canvas::{Canvas, columns};
use super::chart::plot_of;
use super::keymap::{self, Binding, InputMode};
use super::layout::layout_of;
use super::ram;
use super::scene::{Pace, RoomForBatch, Scene, Subject};
use super::step::traced::StepView;
use super::theme::{Theme, Tone};
use super::view::{Keyboard, Mouse, Notice, View};
use super::words::{
    Figures, count, outcome_words, patching_words, ranks_on, rate, steps_per_second,
};
use crate::diagnosis::{self, Certainty};
use crate::event::{NoteSubject, NvmlState, displayed};
use crate::forecast::RoomBasis;
use crate::state::{DeviceState, ProbeState, Run, RunOutcome, State};
use crate::units::{Bytes, Moment, clock_face};
use ratatui::layout::Rect;
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// A piece of the right half; the one with the least weight is dropped first.
struct HeaderItem {
    text: String,
    tone: Tone,
    weight: u8,
}

fn piece(text: impl Into<String>, tone: Tone, weight: u8) -> HeaderItem {
    HeaderItem {
        text: text.into(),
        tone,
        weight,
    }
}

/// Columns of the command, at least.
const COMMAND_AT_LEAST: u16 = 20;

pub(super) fn draw_header(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let width = canvas.area.width;
    let mut pieces = pieces(view, scene);
    let total = |pieces: &[HeaderItem]| -> u16 {
        pieces.iter().map(|piece| columns(&piece.text) + 2).sum()
    };
    let most = width.saturating_sub(COMMAND_AT_LEAST + 8);
    while total(&pieces) > most {
        let Some(least) = (0..pieces.len()).min_by_key(|&n| pieces[n].weight) else {
            break;
        };
        pieces.remove(least);
    }
    let right = total(&pieces);
    let ellipsis = canvas.theme.glyphs.ellipsis;
    let mut pen = canvas.pen(0);
    pen.text(" oomph ", Tone::Accent).skip(1);
    let room = pen.room().saturating_sub(right);
    let command = match scene.state.run() {
        Some(run) => Cow::Borrowed(run.shown.as_str()),
        None => scene
            .state
            .session
            .as_ref()
            .map(|session| Cow::Owned(displayed(&session.command)))
            .unwrap_or_default(),
    };
    pen.cut(&short_command(&command, room, ellipsis), room, Tone::Strong);
    pen.to(width.saturating_sub(right));
    for piece in &pieces {
        pen.skip(2).text(&piece.text, piece.tone);
    }
}

/// Where there is no room for the command, the script and the batch: it is the batch that is changed from run to run.
fn short_command<'a>(command: &'a str, room: u16, ellipsis: &str) -> Cow<'a, str> {
    if columns(command) <= room {
        return Cow::Borrowed(command);
    }
    let words: Vec<&str> = command.split(' ').collect();
    let names_batch = |word: &&str| word.starts_with('-') && word.contains("batch");
    let Some(at) = words.iter().position(names_batch) else {
        return Cow::Borrowed(command);
    };
    let batch = match (words[at].contains('='), words.get(at + 1)) {
        (false, Some(value)) => format!("{} {value}", words[at]),
        (true, _) | (false, None) => words[at].to_string(),
    };
    let script = words.iter().find(|word| word.ends_with(".py"));
    let script = script
        .and_then(|path| path.rsplit('/').next())
        .unwrap_or(words[0]);
    let shorter = [
        format!("{script} {ellipsis} {batch}"),
        format!("{script} {batch}"),
    ];
    let fitting = shorter.into_iter().find(|short| columns(short) <= room);
    Cow::Owned(fitting.unwrap_or(batch))
}

fn pieces(view: &View, scene: &Scene) -> Vec<HeaderItem> {
    let (theme, state) = (&view.theme, scene.state);
    let mut pieces = Vec::new();
    if let Subject::Recording(replay) = scene.subject {
        let mark = match replay.pace {
            Pace::Playing => theme.glyphs.playing,
            Pace::Paused => theme.glyphs.paused,
            Pace::AtEnd => theme.glyphs.dot,
        };
        pieces.push(piece(
            format!(
                "{mark} replay x{} at {}",
                replay.speed,
                clock_face(replay.position.since(Moment::ZERO))
            ),
            Tone::Accent,
            9,
        ));
    }
    if state
        .devices
        .iter()
        .any(|device| device.uuid.is_simulated())
    {
        pieces.push(piece("simulated GPU", Tone::Warning, 6));
    }
    if let Some(run) = state.run() {
        pieces.push(piece(format!("run {}", run.number), Tone::Text, 5));
        if let Some(patching) = run.patching() {
            let (words, tone) = patching_words(patching);
            pieces.push(piece(words, tone, 10));
        }
        if let Some((words, tone)) = activity(run, scene) {
            pieces.push(piece(words, tone, 8));
        }
        let ended = run.ended.map_or(state.now, |(at, _)| at);
        let time = clock_face(ended.since(run.started));
        pieces.push(piece(format!("{time:>5}"), Tone::Text, 7));
        if run.steps() > 0 {
            // Only ended steps are counted.
            let steps = match run.steps() {
                1 => String::from("1 step"),
                n => format!("{} steps", count(n)),
            };
            pieces.push(piece(steps, Tone::Text, 4));
            // The program's own figure goes first: another one beside it would only be doubted.
            let ours = || steps_per_second(run).map(rate);
            let pace = view.output.printed_pace().or_else(ours);
            if let Some(pace) = pace.filter(|_| run.ended.is_none()) {
                pieces.push(piece(format!("{pace:>6}"), Tone::Text, 3));
            }
        }
    }
    if let Some((text, tone)) = ram(view, scene) {
        pieces.push(piece(text, tone, 8));
    }
    let (text, tone) = probe(theme, state);
    pieces.push(piece(text, tone, 2));
    let (text, tone) = nvml(theme, state);
    pieces.push(piece(text, tone, 1));
    pieces
}

/// The run's status, unless it simply runs.
fn activity(run: &Run, scene: &Scene) -> Option<(String, Tone)> {
    match run.outcome() {
        RunOutcome::Running if scene.waiting.is_some() || run.stop_requested.is_some() => {
            Some(("stopping".to_string(), Tone::Warning))
        }
        // The other ranks may hang for minutes after one has run out of memory.
        RunOutcome::Running if run.oom().is_some() => {
            Some((format!("out of {}", run.what_ran_out()), Tone::Wrong))
        }
        RunOutcome::Running => None,
        RunOutcome::Finished
        | RunOutcome::TrainedNothing
        | RunOutcome::OutOfMemory
        | RunOutcome::Stopped
        | RunOutcome::Failed(_) => Some(outcome_words(run)),
    }
}

/// The host's memory, once it matters, where it has no line of its own.
fn ram(view: &View, scene: &Scene) -> Option<(String, Tone)> {
    let is_missing = ram::is_there(scene.state) && layout_of(view, scene).ram.is_none();
    let (_, memory) = scene.state.host.latest().filter(|_| is_missing)?;
    let words = format!("RAM {} of {}", memory.used, memory.limit);
    Some((words, ram::tone(memory)))
}

fn probe(theme: &Theme, state: &State) -> (String, Tone) {
    let glyphs = theme.glyphs;
    if state.run().is_some_and(|run| run.ended.is_some()) {
        return (format!("{} probe", glyphs.ring), Tone::Dim);
    }
    match state.probe() {
        ProbeState::Off => (format!("{} no probe", glyphs.ring), Tone::Dim),
        ProbeState::Waiting => (format!("{} probe", glyphs.ring), Tone::Dim),
        ProbeState::Live(1) => (format!("{} probe", glyphs.dot), Tone::Good),
        ProbeState::Live(n) => (format!("{} {n} probes", glyphs.dot), Tone::Good),
        ProbeState::Resting(_) => (format!("{} probe paused", glyphs.rest), Tone::Warning),
        ProbeState::Lost => (format!("{} probe lost", glyphs.cross), Tone::Warning),
    }
}

fn nvml(theme: &Theme, state: &State) -> (String, Tone) {
    let glyphs = theme.glyphs;
    match &state.nvml {
        None => (format!("{} NVML", glyphs.ring), Tone::Dim),
        Some(NvmlState::Live { .. }) => (format!("{} NVML", glyphs.dot), Tone::Good),
        Some(NvmlState::Unavailable { .. }) => (format!("{} no NVML", glyphs.cross), Tone::Warning),
        Some(NvmlState::Stale) => (format!("{} NVML stale", glyphs.rest), Tone::Warning),
        Some(NvmlState::Off) => (format!("{} NVML off", glyphs.ring), Tone::Dim),
    }
}

/// Below this width keys are told in a word.
const NARROW: u16 = 60;

/// Whether a key stays if there is not room for all: those that lead out, to the training or to what
/// had no room. A question has its answers in its box.
fn stays(binding: &Binding, is_narrow: bool) -> bool {
    match (binding.mode, binding.action) {
        (InputMode::Watching, Action::TypeToTraining | Action::Help | Action::Quit) => true,
        (InputMode::Oom, Action::Details | Action::Back) => true,
        (InputMode::Oom, Action::Quit) => !is_narrow,
        (InputMode::Step, Action::Help | Action::Back) => true,
        (_, _) => false,
    }
}

/// What the key does now, in the first word where there is little room.
fn words(binding: &Binding, view: &View, is_narrow: bool) -> &'static str {
    let read = view.step.as_ref().and_then(StepView::read);
    let words = match (binding.action, read) {
        (Action::Step(StepMove::Regroup), Some(read)) => read.grouping.next().title(),
        (_, _) => binding.short,
    };
    match (is_narrow, binding.action) {
        (true, Action::Step(StepMove::WhatLeaks)) => "leaks",
        (true, _) => words.split(' ').next().unwrap_or_default(),
        (false, _) => words,
    }
}

/// The selection or the search in the output.
fn held(view: &View, mode: InputMode) -> String {
    match (mode, view.output.selected(), view.output.search()) {
        (InputMode::Selecting, Some(1), _) => "1 row selected  ".into(),
        (InputMode::Selecting, Some(rows), _) => format!("{rows} rows selected  "),
        (InputMode::Watching, _, Some((text, place, of))) => format!("/{text}  {place} of {of}  "),
        (_, _, _) => String::new(),
    }
}

/// Where PyTorch's snapshot is, once the probe has said so.
fn snapshot(view: &View, scene: &Scene) -> String {
    let since = view.notice.map(|(_, at)| at);
    let mut notes = scene.state.notes.iter().rev();
    let said =
        notes.find(|(at, note)| Some(*at) >= since && note.about == Some(NoteSubject::Snapshot));
    let words = said.map_or("saving PyTorch's snapshot", |(_, note)| note.text.as_str());
    format!("{words}  ")
}

/// A key of the footer, and where it stands.
struct FooterKey {
    binding: &'static Binding,
    key: String,
    words: &'static str,
    /// The first column, and the one after the last.
    columns: (u16, u16),
}

/// The keys of the footer that fit behind what is said.
fn footer_keys(view: &View, scene: &Scene, width: u16, said: &str) -> Vec<FooterKey> {
    let mode = view.mode();
    let is_narrow = width < NARROW;
    let listed = keymap::bindings(mode)
        .filter(|binding| !binding.short.is_empty())
        .filter(|binding| is_listed(view, binding.action, scene));
    let mut entries: Vec<FooterKey> = Vec::new();
    for binding in listed {
        let key = binding.keys[0].name(view.theme.glyphs);
        let words = words(binding, view, is_narrow);
        let columns = (0, columns(&key) + 1 + columns(words) + 2);
        entries.push(FooterKey {
            binding,
            key,
            words,
            columns,
        });
    }
    let begin = 1 + columns(said);
    let staying = entries
        .iter()
        .filter(|entry| stays(entry.binding, is_narrow));
    let staying = staying.map(|entry| entry.columns.1).sum::<u16>();
    let mut room = width.saturating_sub(begin).saturating_sub(staying);
    let mut all_fit = true;
    entries.retain(|entry| {
        if stays(entry.binding, is_narrow) {
            return true;
        }
        all_fit &= entry.columns.1 <= room;
        if all_fit {
            room -= entry.columns.1;
        }
        all_fit
    });
    let mut from = begin;
    for entry in &mut entries {
        let to = from + entry.columns.1;
        entry.columns = (from, to - 2);
        from = to;
    }
    entries
}

/// The action whose key stands in a column of the footer.
pub(super) fn footer_action(view: &View, scene: &Scene, row: Rect, column: u16) -> Option<Action> {
    let keys = footer_keys(view, scene, row.width, &said(view, scene));
    let column = column.checked_sub(row.x)?;
    let at = |entry: &&FooterKey| (entry.columns.0..entry.columns.1).contains(&column);
    keys.iter().find(at).map(|entry| entry.binding.action)
}

fn mouse(view: &View) -> &'static str {
    match view.mouse {
        Mouse::Off => "mouse left to the terminal  ",
        Mouse::On if view.captures_mouse() => "mouse on: Shift selects text  ",
        Mouse::On => "the program uses the mouse: left to the terminal  ",
    }
}

/// What the last key did.
fn said(view: &View, scene: &Scene) -> String {
    match view.notice(scene.state.now) {
        Some(Notice::Copied) => "copied  ".to_string(),
        Some(Notice::CopiedCommand) => "command copied  ".into(),
        Some(Notice::CopiedDiagnosis) => "diagnosis copied; y again: the next command  ".into(),
        Some(Notice::Text) => "text goes nowhere: type i to send it to the training  ".into(),
        Some(Notice::HeldInterrupt) => "Ctrl-C not sent: press it again to interrupt  ".into(),
        Some(Notice::NothingFits) => {
            "nothing started: no remedy is recommended; press one's key  ".into()
        }
        Some(Notice::NotOffered) => "nothing started: this one is not offered here  ".into(),
        Some(Notice::Theme) => format!("theme: {}  ", view.theme.scheme.name()),
        Some(Notice::Told) => format!("{}  ", view.words),
        Some(Notice::Mouse) => mouse(view).into(),
        Some(Notice::Snapshot) => snapshot(view, scene),
        None => held(view, view.mode()),
    }
}

pub(super) fn draw_footer(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let said = said(view, scene);
    let keys = footer_keys(view, scene, canvas.area.width, &said);
    let mut pen = canvas.pen(0);
    pen.skip(1).text(&said, Tone::Good);
    for entry in keys {
        pen.to(entry.columns.0)
            .text(&entry.key, Tone::Accent)
            .skip(1)
            .text(entry.words, Tone::Dim);
    }
}

pub(super) fn draw_smallest(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let state = scene.state;
    let mut pen = canvas.pen(0);
    if let Subject::Elsewhere(_) = scene.subject {
        pen.text("read-only ", Tone::Warning);
    }
    if let Some(device) = view.device(state) {
        let figures = Figures::new(device.capacity);
        let held = device.used.current().or(device.reserved.current());
        let held = held.map_or("?".to_string(), |bytes| figures.gib(bytes));
        let of = device.capacity.map_or(String::new(), |capacity| {
            format!("/{}", figures.gib(capacity))
        });
        pen.text(&format!("{held}{of} GiB "), Tone::Strong);
    }
    if let Some(run) = state.run() {
        let (words, tone) = outcome_words(run);
        pen.text(&words, tone)
            .text(&format!(" step {}", count(run.steps())), Tone::Dim);
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
    let window = view.time.window(scene.state.now, columns_of_chart);
    let pointed = view.time.cursor().and_then(|at| window.column(at));
    let pieces = match pointed.map(|column| window.begin_of(column)) {
        Some(at) => {
            let to = Moment(at.0 + window.column_us());
            pieces_at(scene.state, device, at, to)
        }
        None => headroom_pieces(theme, scene, device),
    };
    let gap = columns(theme.glyphs.separator);
    let pieces = with_warnings(pieces, pen.room(), gap);
    for (n, (text, tone)) in pieces.into_iter().enumerate() {
        let separator = if n > 0 { theme.glyphs.separator } else { "" };
        let room = pen.room().saturating_sub(columns(separator));
        let text = theme.glyphs.spelled(&text);
        let whole = shortened(&text, room);
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

/// What of a piece fits whole: all of it, or what stands before its parenthesis, its reason, its second clause.
fn shortened(text: &str, room: u16) -> Option<&str> {
    let ends = [" (", ": ", ", "]
        .into_iter()
        .filter_map(|end| text.find(end));
    let parts = ends.map(|end| &text[..end]);
    [text]
        .into_iter()
        .chain(parts)
        .filter(|part| columns(part) <= room)
        .max_by_key(|part| part.len())
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
fn headroom_pieces(theme: &Theme, scene: &Scene, device: &DeviceState) -> Vec<(String, Tone)> {
    let state = scene.state;
    let figures = Figures::new(device.capacity);
    if let Some((run, at)) = state.run().and_then(|run| Some((run, run.ended?.0))) {
        return pieces_after(run, at, device, figures, scene);
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
        let climb = climb(theme, state, run, device);
        // What grows will take the room.
        let is_calm = seen && climb.is_none();
        match scene.room_for_batch {
            RoomForBatch::Known(room) if is_calm => {
                let batch = theme.glyphs.spelled(&room.batch_words());
                let about = theme.glyphs.about;
                pieces.push((format!("room for batch {about} {batch}"), Tone::Good));
            }
            RoomForBatch::InSearch if is_calm => {
                pieces.push(("room for batch: working it out".into(), Tone::Dim));
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
            pieces.push((
                format!("cache flushed {}× (slower)", count(retries)),
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
    let figures = Figures::new(device.capacity);
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
    scene: &Scene,
) -> Vec<(String, Tone)> {
    let (words, tone) = outcome_words(run);
    let after = clock_face(ended.since(run.started));
    let mut pieces = vec![(format!("{words} after {after}"), tone)];
    if run.outcome() == RunOutcome::OutOfMemory {
        pieces.extend(held_at_oom(run, device, figures).map(|words| (words, Tone::Strong)));
    }
    pieces.extend(peak(run, device, figures));
    let went_well = run.outcome() == RunOutcome::Finished;
    if let Some(room) = scene.room_for_batch.known().filter(|_| went_well) {
        let unused = device.unused_in(run);
        let unused = unused.map_or("batch ".to_string(), |bytes| {
            format!("{} GiB unused: ", figures.gib(bytes))
        });
        let could = room.batch_words();
        let (fits, tone) = match room.basis {
            RoomBasis::Step(_) => (format!("{could} would fit"), Tone::Good),
            RoomBasis::Peaks => (format!("est. {could} fits"), Tone::Text),
        };
        pieces.push((format!("{unused}{fits}"), tone));
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
        Some(NvmlState::Stale) => Some(("NVML is not answering".to_string(), Tone::Warning)),
        // The header says that there is none, and the events why and what to do about it.
        Some(NvmlState::Unavailable { .. } | NvmlState::Live { .. } | NvmlState::Off) | None => {
            None
        }
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

/// By the same rule as the diagnosis: a baseline that settles is no leak, and one that grows is called a leak once
/// that is certain.
fn climb(theme: &Theme, state: &State, run: &Run, device: &DeviceState) -> Option<(String, Tone)> {
    let rank = ranks_on(run, device).find(|rank| rank.disconnected.is_none())?;
    let climb = diagnosis::baseline_growth(&rank.steps, device.capacity)?;
    let up = theme.glyphs.climb;
    let per_step = Bytes(climb.per_step as u64);
    let certainty = climb.certainty(device.capacity);
    let coming = diagnosis::certain_leak(state, certainty);
    let coming = coming.filter(|coming| coming.device == device.uuid);
    let words = coming.map_or(String::new(), |coming| format!(": {}", coming.words()));
    let what = match certainty {
        Certainty::Certain => "leak",
        Certainty::Likely | Certainty::Possible => "grows",
    };
    Some((
        format!("{up} {what} +{per_step}/step{words}"),
        Tone::Warning,
    ))
}

/// What stays between steps, where nothing grows.
fn steady(run: &Run, device: &DeviceState, figures: Figures) -> Option<(String, Tone)> {
    let rank = ranks_on(run, device).find(|rank| rank.disconnected.is_none())?;
    let level = diagnosis::steady_baseline(&rank.steps, device.capacity)?;
    let words = format!("steady: {} between steps", figures.gib(level));
    Some((words, Tone::Good))
}

#[cfg(test)]
mod headroom_tests {
    use super::*;

    #[test]
    fn the_batch_stays_in_a_narrow_header() {
        let command = "python3 demo/train.py --simulated --batch-size 64 --steps 300";
        for (room, expected) in [
            (80, command),
            (30, "train.py … --batch-size 64"),
            (25, "train.py --batch-size 64"),
            (18, "--batch-size 64"),
        ] {
            assert_eq!(short_command(command, room, "…"), expected);
        }
        assert_eq!(
            short_command("python3 train.py --lr 0.1", 9, "…"),
            "python3 train.py --lr 0.1"
        );
    }

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
