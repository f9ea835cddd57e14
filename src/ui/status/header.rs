//! The header: command, run, time, steps, and whether probe and NVML answer.

use crate::event::NvmlState;
use crate::state::{ProbeState, Run, RunOutcome, State};
use crate::ui::canvas::Canvas;
use crate::ui::figures::{count, rate};
use crate::ui::pen::columns;
use crate::ui::scene::{Pace, Scene, Subject};
use crate::ui::theme::{Theme, Tone};
use crate::ui::words::{outcome_words, patching_words, steps_per_second};
use crate::units::{Moment, clock_face};
use std::borrow::Cow;

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

pub(crate) fn draw(canvas: &mut Canvas, scene: &Scene) {
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
