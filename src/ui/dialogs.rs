//! Draws the dialogs: the command being edited, the search, questions. The help and the one after an OOM have
//! rooms of their own.

mod help;
pub(super) mod oom;

use super::available::is_available;
use super::canvas::{self, Canvas, StyledLine, columns};
use super::child::ChildScreen;
use super::dialog::Dialog;
use super::difference;
use super::editor::{Editor, LineEdit};
use super::keymap::{self, Binding};
use super::scene::Scene;
use super::theme::{Theme, Tone};
use super::view::View;
use crate::command::CommandLine;
use crate::event::EDITS;
use crate::state::RunOutcome;
use ratatui::layout::{Position, Rect};
use unicode_width::UnicodeWidthChar;

/// Draws a dialog; returns the position of the text cursor, if it has one.
pub(super) fn draw(
    canvas: &mut Canvas,
    view: &View,
    scene: &Scene,
    dialog: &Dialog,
) -> Option<Position> {
    match dialog {
        Dialog::Edit(editor) => return draw_edit(canvas, editor, scene),
        Dialog::Search(line) => return draw_search(canvas, view, line),
        Dialog::Oom(dialog) => oom::draw(canvas, dialog, scene),
        Dialog::Quit => {
            let title = "Quit? The training is still running";
            draw_question(canvas, view, scene, title);
        }
        Dialog::Stop => draw_question(canvas, view, scene, "Stop the training?"),
        Dialog::Help(help) => return help::draw(canvas, view, scene, help),
    }
    None
}

/// The width of a dialog: the whole screen if otherwise only a few columns of it would stay
/// visible.
fn width_within(area: Rect, wanted: u16) -> u16 {
    if area.width < wanted.saturating_add(8) {
        area.width
    } else {
        wanted
    }
}

/// A rectangle of at most this size at the bottom of the screen, so that the chart stays visible if
/// there is room.
fn place(area: Rect, width: u16, height: u16) -> Rect {
    let width = width.min(area.width);
    let room = area.height.saturating_sub(2);
    let height = height.min(room.max(area.height.min(3)));
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area
            .bottom()
            .saturating_sub(height + u16::from(area.height > height)),
        width,
        height,
    }
}

/// Returns the cursor's position.
fn draw_edit(canvas: &mut Canvas, editor: &Editor, scene: &Scene) -> Option<Position> {
    let area = canvas.area;
    let width = width_within(area, 110);
    let inner = width.saturating_sub(4).max(1);
    let (lines, (row, col)) = broken(editor, inner);
    let below = below(canvas.theme, editor, scene, inner);
    let height = (lines.len() + below.len() + 3) as u16;
    let run = scene.state.run();
    let title = match run.filter(|run| run.outcome() == RunOutcome::Running) {
        Some(run) => format!(
            "Relaunch with this command (stops run {} first)",
            run.number
        ),
        None => "Relaunch with this command".to_string(),
    };
    let rect = place(area, width, height);
    let mut canvas = canvas.boxed(rect, &title, Tone::Accent);
    let inside = canvas.area;
    // The cursor's line stays in view.
    let text_rows = (lines.len() as u16).min(inside.height);
    let first = (row + 1).saturating_sub(text_rows);
    for (y, line) in (0..text_rows).zip(&lines[usize::from(first)..]) {
        StyledLine::of(line.as_str(), Tone::Strong).draw(&mut canvas, y);
    }
    for (y, line) in (text_rows + 1..inside.height).zip(&below) {
        line.draw(&mut canvas, y);
    }
    let at = Position::new(inside.x + col, (inside.y + row).saturating_sub(first));
    inside.contains(at).then_some(at)
}

/// The lines below the text: what is wrong with it, or what it changes.
fn below(theme: &Theme, editor: &Editor, scene: &Scene, width: u16) -> Vec<StyledLine> {
    if let Some(error) = &editor.error {
        return canvas::text(error, width, Tone::Wrong);
    }
    let now = scene.state.run().map(|run| &run.command);
    let (Some(now), Some(edited)) = (now, editor.command()) else {
        return vec![StyledLine::of(
            "an unclosed quote, or no command",
            Tone::Dim,
        )];
    };
    let need = need(&edited, scene, width);
    let (before, after) = (now.without_secrets(), edited.without_secrets());
    let changes = crate::command::difference(&before, &after);
    if changes.is_empty() {
        let kept = difference::kept_edits(theme, &after);
        let mut lines = match kept.is_empty() {
            true => vec![StyledLine::of("the command is unchanged", Tone::Dim)],
            false => canvas::difference("unchanged, with  ", &kept, width),
        };
        lines.extend(need);
        return lines;
    }
    let mut pieces = difference::brief(theme, Some(&before), &changes);
    if before.env_value(EDITS) == after.env_value(EDITS) {
        pieces.extend(difference::kept_edits(theme, &after));
    }
    let mut lines = canvas::difference("changes  ", &pieces, width);
    lines.extend(need);
    lines
}

/// What the edited command would need.
fn need(edited: &CommandLine, scene: &Scene, width: u16) -> Vec<StyledLine> {
    let said = scene.edited.filter(|need| need.command == *edited);
    let (words, tone) = match said.map(|need| &need.need) {
        Some(Ok(need)) => (need.words.to_string(), oom::tone_of(need.verdict())),
        Some(Err(why)) => (format!("not known: {why}"), Tone::Dim),
        None => ("being worked out".into(), Tone::Dim),
    };
    canvas::labelled("memory   ", &[(words, tone)], width)
}

/// The text wrapped at the width, with the cursor's row and column.
fn broken(editor: &Editor, width: u16) -> (Vec<String>, (u16, u16)) {
    let (before, after) = editor.line.halves();
    let text = before.chars().chain(after.chars());
    // The cursor needs a cell at the end of the text.
    let text = text.chain(after.is_empty().then_some(' '));
    let cursor_at = before.chars().count();
    let mut cursor = (0, 0);
    let mut lines = vec![String::new()];
    for (n, c) in text.enumerate() {
        let row = lines.len() - 1;
        let column = columns(&lines[row]);
        if column + c.width().unwrap_or(0) as u16 > width {
            lines.push(String::new());
        }
        let row = lines.len() - 1;
        if n == cursor_at {
            cursor = (row as u16, columns(&lines[row]));
        }
        lines[row].push(c);
    }
    (lines, cursor)
}

/// The answers are the keys of the mode.
fn draw_question(canvas: &mut Canvas, view: &View, scene: &Scene, title: &str) {
    let (area, theme) = (canvas.area, canvas.theme);
    let answers = |words: fn(&Binding) -> &'static str| -> Vec<(String, &'static str)> {
        keymap::bindings(view.mode())
            .filter(|binding| !binding.short.is_empty())
            .filter(|binding| is_available(view, binding.action, scene))
            .map(|binding| (binding.keys[0].name(theme.glyphs), words(binding)))
            .collect()
    };
    let width = |answers: &[(String, &str)]| {
        let widest = answers.iter().map(|(_, words)| columns(words)).max();
        (widest.unwrap_or(0) + 14).max(columns(title) + 8)
    };
    let answers = [
        answers(|binding| binding.help),
        answers(|binding| binding.short),
    ];
    // The footer's words if the help's are too long.
    let [long, short] = &answers;
    let answers = if width(long) <= area.width {
        long
    } else {
        short
    };
    let width = width(answers);
    let rect = place(area, width, answers.len() as u16 + 4);
    let mut inside = canvas.boxed(rect, title, Tone::Accent);
    let first = u16::from(inside.area.height > answers.len() as u16);
    for (row, (key, words)) in (first..).zip(answers.iter()) {
        let mut pen = inside.pen(row);
        pen.text(key, Tone::Accent).to(8);
        pen.rest(words, Tone::Text);
    }
}

/// Returns the cursor's position.
fn draw_search(canvas: &mut Canvas, view: &View, searched: &LineEdit) -> Option<Position> {
    let area = canvas.area;
    let line = Rect {
        y: area.bottom().saturating_sub(1),
        height: area.height.min(1),
        ..area
    };
    let mut row = canvas.at(line);
    row.pen(0).fill(" ", Tone::Text);
    let mut pen = row.pen(0);
    let (before, after) = searched.halves();
    pen.skip(1)
        .text("/", Tone::Accent)
        .text(before, Tone::Strong);
    let cursor = Position::new(line.x + pen.column(), line.y);
    let (words, tone) = found(&view.output, searched.text());
    pen.text(after, Tone::Strong)
        .skip(2)
        .text(&words, tone)
        .skip(2)
        .text("Enter", Tone::Accent)
        .text(" keep  ", Tone::Dim)
        .text("Esc", Tone::Accent)
        .text(" back", Tone::Dim);
    line.contains(cursor).then_some(cursor)
}

fn found(output: &ChildScreen, text: &str) -> (String, Tone) {
    match output.search() {
        _ if text.is_empty() => ("type to search the output".into(), Tone::Dim),
        Some((_, place, of)) if of > 0 => (format!("{place} of {of}"), Tone::Text),
        Some(_) | None => ("not found".into(), Tone::Warning),
    }
}
