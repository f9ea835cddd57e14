//! The lines around the panes: header (command, run, time, steps, probe and NVML), footer (keys that do something now), the banner of a
//! session that can only be watched, and the one line of a tiny screen.

use crate::event::NvmlState;
use crate::state::{ProbeState, Run, RunOutcome, State};
use crate::ui::action::{Action, StepMove};
use crate::ui::available::is_listed;
use crate::ui::canvas::{Canvas, columns};
use crate::ui::keymap::{self, Binding, InputMode};
use crate::ui::scene::{Elsewhere, Pace, Scene, Subject};
use crate::ui::step::traced::StepView;
use crate::ui::theme::{Theme, Tone};
use crate::ui::view::{Notice, View};
use crate::ui::words::{Figures, count, outcome_words, patching_words, rate, steps_per_second};
use crate::units::{Moment, clock_face};
use std::borrow::Cow;
use std::time::Duration;

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

pub(super) fn draw_header(canvas: &mut Canvas, scene: &Scene) {
    let width = canvas.area.width;
    let mut pieces = pieces(canvas.theme, scene);
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
    let mut pen = canvas.pen(0);
    pen.text(" oomph ", Tone::Accent).skip(1);
    let room = pen.room().saturating_sub(right);
    let command = match scene.state.run() {
        Some(run) => Cow::Borrowed(run.shown.as_str()),
        None => scene
            .state
            .session
            .as_ref()
            .map(|session| Cow::Owned(session.command.shown()))
            .unwrap_or_default(),
    };
    pen.cut(&command, room, Tone::Strong);
    pen.to(width.saturating_sub(right));
    for piece in &pieces {
        pen.skip(2).text(&piece.text, piece.tone);
    }
}

fn pieces(theme: &Theme, scene: &Scene) -> Vec<HeaderItem> {
    let state = scene.state;
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
            if let Some(per_second) = steps_per_second(run).filter(|_| run.ended.is_none()) {
                pieces.push(piece(format!("{:>6}", rate(per_second)), Tone::Text, 3));
            }
        }
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
            Some(("out of memory".to_string(), Tone::Wrong))
        }
        RunOutcome::Running => None,
        RunOutcome::Finished
        | RunOutcome::TrainedNothing
        | RunOutcome::OutOfMemory
        | RunOutcome::Stopped
        | RunOutcome::Failed(_) => Some(outcome_words(run)),
    }
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
    let said = notes.find(|(at, note)| {
        let is_it = ["snapshot saved:", "no snapshot in"];
        Some(*at) >= since && is_it.iter().any(|begin| note.text.starts_with(begin))
    });
    let words = said.map_or("saving PyTorch's snapshot", |(_, note)| note.text.as_str());
    format!("{words}  ")
}

pub(super) fn draw_footer(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let theme = canvas.theme;
    let mode = view.mode();
    let is_narrow = canvas.area.width < NARROW;
    let entry = |binding: &Binding| {
        let words = words(binding, view, is_narrow);
        (binding.keys[0].name(theme.glyphs), words)
    };
    let bindings: Vec<&Binding> = keymap::bindings(mode)
        .filter(|binding| !binding.short.is_empty())
        .filter(|binding| is_listed(view, binding.action, scene))
        .collect();
    let width = |entry: &(String, &str)| columns(&entry.0) + 1 + columns(entry.1) + 2;
    let said = match view.notice(scene.state.now) {
        Some(Notice::Copied) => "copied  ".to_string(),
        Some(Notice::CopiedCommand) => "command copied  ".into(),
        Some(Notice::CopiedDiagnosis) => "diagnosis copied; y again: the next command  ".into(),
        Some(Notice::Text) => "text goes nowhere: type i to send it to the training  ".into(),
        Some(Notice::HeldInterrupt) => "Ctrl-C not sent: press it again to interrupt  ".into(),
        Some(Notice::NothingFits) => {
            "nothing started: no remedy is recommended; press one's key  ".into()
        }
        Some(Notice::NotOffered) => "nothing started: this one is not offered here  ".into(),
        Some(Notice::Theme) => format!("theme: {}  ", theme.scheme.name()),
        Some(Notice::Snapshot) => snapshot(view, scene),
        None => held(view, mode),
    };
    let staying = bindings.iter().filter(|binding| stays(binding, is_narrow));
    let staying = staying.map(|binding| width(&entry(binding))).sum::<u16>();
    let room = canvas.area.width.saturating_sub(1 + columns(&said));
    let mut room = room.saturating_sub(staying);
    let mut pen = canvas.pen(0);
    pen.skip(1).text(&said, Tone::Good);
    let mut all_fit = true;
    for binding in bindings {
        let (key, words) = entry(binding);
        if !stays(binding, is_narrow) {
            let needed = width(&(key.clone(), words));
            all_fit &= needed <= room;
            if !all_fit {
                continue;
            }
            room -= needed;
        }
        pen.text(&key, Tone::Accent)
            .skip(1)
            .text(words, Tone::Dim)
            .skip(2);
    }
}

/// Files of a session that runs are written more often; what is older is worth a colour.
const LATE: Duration = Duration::from_secs(60);

pub(super) fn draw_read_only(canvas: &mut Canvas, scene: &Scene) {
    let Subject::Elsewhere(session) = scene.subject else {
        return;
    };
    let Elsewhere { place, command, .. } = session;
    let (heard, tone) = heard(&session);
    let mut pen = canvas.pen(0);
    pen.skip(1).text("read-only", Tone::Warning);
    if session.heard.is_none() && session.trouble.is_none() {
        let words = format!(": it ran on {place} and has ended");
        pen.text(&words, Tone::Text);
        return;
    }
    pen.text(&format!(": it runs on {place} ("), Tone::Text)
        .text(&heard, tone)
        .text("), keys act only there: ", Tone::Text)
        .rest(command, Tone::Accent);
}

fn heard(session: &Elsewhere) -> (String, Tone) {
    match (session.trouble, session.heard) {
        (Some(trouble), _) => (trouble.to_string(), Tone::Wrong),
        (None, Some(heard)) if heard > LATE => {
            (format!("not heard for {}", clock_face(heard)), Tone::Wrong)
        }
        (None, Some(heard)) => (format!("heard {} s ago", heard.as_secs()), Tone::Dim),
        (None, None) => (String::new(), Tone::Dim),
    }
}

pub(super) fn draw_smallest(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let state = scene.state;
    let mut pen = canvas.pen(0);
    if let Subject::Elsewhere(_) = scene.subject {
        pen.text("read-only ", Tone::Warning);
    }
    if let Some(device) = view.device(state) {
        let figures = Figures::of(device.capacity);
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
