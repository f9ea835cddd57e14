//! What happened, with its time: runs, out-of-memories, notes; the newest last.

use super::header::outcome_words;
use crate::event::Level;
use crate::state::Outcome;
use crate::ui::pen::Pen;
use crate::ui::scene::Scene;
use crate::ui::theme::{Theme, Tone};
use crate::ui::view::List;
use crate::units::{Moment, clock_face};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

struct Line {
    at: Moment,
    tone: Tone,
    text: String,
}

fn lines(scene: &Scene) -> Vec<Line> {
    let state = scene.state;
    let mut lines: Vec<Line> = Vec::new();
    let mut push = |at, tone, text| lines.push(Line { at, tone, text });
    if let Some(path) = scene.recording {
        let text = format!("recording to {}", path.display());
        push(Moment::ZERO, Tone::Dim, text);
    }
    for run in &state.runs {
        let remedies = match run.remedies.is_empty() {
            true => String::new(),
            false => format!(" with {}", run.remedies.join(", ")),
        };
        push(
            run.started,
            Tone::Text,
            format!("run {} started{remedies}", run.number),
        );
        for rank in &run.ranks {
            if let Some(at) = rank.gone.filter(|_| run.ended.is_none()) {
                let pid = rank.hello.pid;
                push(
                    at,
                    Tone::Warning,
                    format!("the probe in process {pid} is gone"),
                );
            }
        }
        for oom in &run.ooms {
            let device = oom.device.as_ref().and_then(|uuid| state.device(uuid));
            // The column is narrow, and the figure is what counts.
            let place = device.map_or(String::new(), |d| format!(", GPU {}", d.index));
            let asked = oom
                .requested()
                .map_or(String::new(), |b| format!(": {b} asked"));
            let (words, tone) = match oom.caught {
                true => ("OOM caught", Tone::Warning),
                false => ("OOM", Tone::Wrong),
            };
            push(oom.at, tone, format!("{words}{place}{asked}"));
        }
        if let Some(at) = run.stop_requested {
            push(at, Tone::Text, format!("run {} asked to stop", run.number));
        }
        if let Some((at, exit)) = run.ended {
            let (words, tone) = outcome_words(run.outcome());
            let how = match run.outcome() {
                Outcome::Failed(_) | Outcome::Running | Outcome::Finished => String::new(),
                Outcome::OutOfMemory | Outcome::Stopped => format!(" ({exit})"),
            };
            push(at, tone, format!("run {} ended: {words}{how}", run.number));
        }
    }
    for (at, note) in &state.notes {
        let tone = match note.level {
            Level::Info => Tone::Text,
            Level::Warning => Tone::Warning,
        };
        push(*at, tone, note.text.clone());
    }
    lines.sort_by_key(|line| line.at);
    lines
}

/// How many lines there are.
pub fn length(scene: &Scene) -> usize {
    let state = scene.state;
    let of_runs = state.runs.iter().map(|run| {
        let gone = run.ranks.iter().filter(|rank| rank.gone.is_some()).count();
        1 + run.ooms.len()
            + usize::from(run.stop_requested.is_some())
            + usize::from(run.ended.is_some())
            + if run.ended.is_none() { gone } else { 0 }
    });
    of_runs.sum::<usize>() + state.notes.len() + usize::from(scene.recording.is_some())
}

/// Draws the list.
pub fn draw(buf: &mut Buffer, area: Rect, theme: &Theme, scene: &Scene, list: List) {
    let lines = lines(scene);
    let shown = usize::from(area.height);
    let first = list.first(lines.len(), shown);
    for (row, line) in (0..).zip(lines.iter().skip(first).take(shown)) {
        let time = clock_face(line.at.since(Moment::ZERO));
        let mut pen = Pen::new(buf, area, row);
        pen.text(&format!("{time:>7}  "), theme.style(Tone::Dim));
        let room = pen.room();
        pen.cut(&line.text, room, theme, theme.style(line.tone));
    }
}
