//! The lines around the panes: header (command, run, time, steps, probe and NVML), footer (keys that do something now),
//! and the one line of a tiny screen.

use super::action::{Action, StepMove};
use super::available::{edits_code, is_listed};
use super::canvas::{Canvas, columns};
use super::keymap::{self, Binding, InputMode};
use super::layout::arranged;
use super::ram;
use super::scene::{Pace, Scene, Subject};
use super::step::traced::StepView;
use super::theme::{Theme, Tone};
use super::view::{Mouse, Notice, View};
use super::words::{
    Figures, count, outcome_words, patching_words, rate, short_command, shortest_with_name,
    steps_per_second,
};
use crate::event::{NoteSubject, NvmlState, displayed};
use crate::state::{ProbeState, Run, RunOutcome, State};
use crate::units::{Moment, clock_face};
use ratatui::layout::Rect;
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
/// The most that is kept for the script's name beside the batch.
const COMMAND_WITH_NAME: u16 = 30;
/// Columns before the command.
const LEFT_OF_IT: u16 = 8;
/// What weighs no more than this is told elsewhere, too: the sources, the pace, the number of the only run.
const SOURCES: u8 = 3;

pub(super) fn draw_header(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let width = canvas.area.width;
    let mut pieces = pieces(view, scene);
    let total = |pieces: &[HeaderItem]| -> u16 {
        pieces.iter().map(|piece| columns(&piece.text) + 2).sum()
    };
    let ellipsis = canvas.theme.glyphs.ellipsis;
    let command = match scene.state.run() {
        Some(run) => Cow::Borrowed(run.shown.as_str()),
        None => scene
            .state
            .session
            .as_ref()
            .map(|session| Cow::Owned(displayed(&session.command)))
            .unwrap_or_default(),
    };
    // Which program it is stands only here.
    let with_name = shortest_with_name(&command).map_or(0, |short| columns(&short));
    let others = pieces.iter().filter(|piece| piece.weight > SOURCES);
    let others: u16 = others.map(|piece| columns(&piece.text) + 2).sum();
    let room_for_name = width.saturating_sub(others + LEFT_OF_IT);
    let with_name = match with_name.min(COMMAND_WITH_NAME) {
        with_name if with_name <= room_for_name => with_name.max(COMMAND_AT_LEAST),
        // They would be left out for nothing.
        _ => COMMAND_AT_LEAST,
    };
    while let Some(least) = (0..pieces.len()).min_by_key(|&n| pieces[n].weight) {
        let at_least = match pieces[least].weight <= SOURCES {
            true => with_name,
            false => COMMAND_AT_LEAST,
        };
        if total(&pieces) <= width.saturating_sub(at_least + LEFT_OF_IT) {
            break;
        }
        pieces.remove(least);
    }
    let right = total(&pieces);
    let mut pen = canvas.pen(0);
    pen.text(" oomph ", Tone::Accent).skip(1);
    let room = pen.room().saturating_sub(right);
    pen.cut(&short_command(&command, room, ellipsis), room, Tone::Strong);
    pen.to(width.saturating_sub(right));
    for piece in &pieces {
        pen.skip(2).text(&piece.text, piece.tone);
    }
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
            match state.run() {
                // The run's own time stands beside it: a second clock would only be compared with that.
                Some(_) => format!("{mark} replay x{}", replay.speed),
                None => format!(
                    "{mark} replay x{} at {}",
                    replay.speed,
                    clock_face(replay.position.since(Moment::ZERO))
                ),
            },
            Tone::Accent,
            9,
        ));
    }
    if state
        .devices
        .iter()
        .any(|device| device.uuid.is_simulated())
    {
        // The title of the chart says so, too.
        pieces.push(piece("simulated GPU", Tone::Warning, SOURCES));
    }
    if let Some(run) = state.run() {
        // Of the only run nobody asks which it is.
        let weight = if state.runs.len() > 1 { 5 } else { SOURCES };
        pieces.push(piece(format!("run {}", run.number), Tone::Text, weight));
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
            // The dialog and the line below the chart say in which step a run ended.
            let weight = if run.ended.is_some() { SOURCES } else { 4 };
            pieces.push(piece(steps, Tone::Text, weight));
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
    let is_missing = ram::is_there(scene.state) && arranged(view, scene).ram.is_none();
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
        Some(NvmlState::Unavailable { .. }) => (format!("{} no NVML", glyphs.ring), Tone::Dim),
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

/// From this width on there is room to say what the letters of a dialog do.
const WIDE: u16 = 100;

/// What the key does now, in the first word where there is little room.
fn words(binding: &Binding, view: &View, scene: &Scene, width: u16) -> &'static str {
    let read = view.step.as_ref().and_then(StepView::read);
    let words = match (binding.mode, binding.action, read) {
        (_, Action::Step(StepMove::Regroup), Some(read)) => read.grouping.next().title(),
        (InputMode::Oom, Action::Relaunch, _) if edits_code(view, scene) => "open the line",
        // Whoever presses one to select its row has started it.
        (InputMode::Oom, Action::Relaunch, _) if width >= WIDE => "relaunch (letters: at once)",
        (_, _, _) => binding.short,
    };
    match (width < NARROW, binding.action) {
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
        let words = words(binding, view, scene, width);
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
    // Behind long words not even those that stay have room: half a word of one says nothing.
    entries.retain(|entry| entry.columns.1 <= width);
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
        Some(Notice::HeldInterrupt) => {
            "Ctrl-C not sent: again interrupts the training, q leaves it running  ".into()
        }
        Some(Notice::NothingFits) => {
            "nothing started: no remedy is recommended; press one's key  ".into()
        }
        Some(Notice::NotOffered) => "nothing started: this one is not offered here  ".into(),
        Some(Notice::Theme) => format!("theme: {}  ", view.theme.scheme.name()),
        Some(Notice::Told | Notice::NoUse) => format!("{}  ", view.words),
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
        let figures = Figures::of(device);
        let reserved = || device.recently_reserved(state, state.now);
        let held = device.used.current().or_else(reserved);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_stays_in_a_narrow_header() {
        let command = "python3 demo/train.py --simulated --batch-size 64 --steps 300";
        for (room, expected) in [
            (80, command),
            (50, "train.py --simulated --batch-size 64 --steps 300"),
            (40, "train.py … --batch-size 64 --steps 300"),
            (30, "train.py … --batch-size 64 …"),
            (26, "train.py … --batch-size 64"),
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
}
