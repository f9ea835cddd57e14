//! The footer: keys that do something now.

use crate::ui::action::{Action, StepMove};
use crate::ui::available::is_listed;
use crate::ui::canvas::Canvas;
use crate::ui::keymap::{self, Binding, InputMode};
use crate::ui::pen::columns;
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::view::step::StepView;
use crate::ui::view::{Notice, View};

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

pub(crate) fn draw(canvas: &mut Canvas, view: &View, scene: &Scene) {
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
