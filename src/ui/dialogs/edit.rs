//! The command being edited: its text, what is wrong with it or what it changes, and what it would need.

use super::oom::tone_of;
use super::place::{place, width_within};
use crate::command::CommandLine;
use crate::event::EDITS;
use crate::remedy::EditedNeed;
use crate::state::{Run, RunOutcome};
use crate::ui::canvas::{self, Canvas, StyledLine, columns};
use crate::ui::difference;
use crate::ui::editor::Editor;
use crate::ui::scene::Scene;
use crate::ui::theme::{Theme, Tone};
use ratatui::layout::{Position, Rect};
use unicode_width::UnicodeWidthChar;

/// Returns the cursor's position.
pub(super) fn draw(canvas: &mut Canvas, editor: &Editor, scene: &Scene) -> Option<Position> {
    let area = canvas.area;
    let (width, inner) = widths(area);
    let (lines, (row, col)) = broken(editor, inner);
    let below = below(canvas.theme, editor, scene, inner);
    let height = height(&lines, &below);
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

/// Rows of the dialog, with its frame.
pub(in crate::ui) fn rows(area: Rect, theme: &Theme, editor: &Editor, scene: &Scene) -> u16 {
    let (_, inner) = widths(area);
    let (lines, _) = broken(editor, inner);
    height(&lines, &below(theme, editor, scene, inner))
}

/// Columns of the dialog, and within its frame.
fn widths(area: Rect) -> (u16, u16) {
    let width = width_within(area, 110);
    (width, width.saturating_sub(4).max(1))
}

fn height(text: &[String], below: &[StyledLine]) -> u16 {
    (text.len() + below.len() + 3) as u16
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
        // What it takes where it goes well is on the screen, and no estimate beside it would be better.
        let ran_out = scene.state.run().is_some_and(|run| run.oom_count > 0);
        lines.extend(need.into_iter().filter(|_| ran_out));
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
    // The status line names the largest one, by what the steps have shown: no estimate beside it would be better.
    let steps = scene.state.run().map_or(0, Run::steps);
    let is_futile =
        |need: &EditedNeed| (need.need.as_ref()).is_ok_and(|expected| expected.futile.is_some());
    let larger = (said.filter(|need| !is_futile(need)))
        .and_then(|need| need.batch)
        .zip(scene.room_for_batch.known())
        .and_then(|(batch, room)| Some((batch, room, room.verdict(batch, steps)?)));
    if let Some((batch, room, verdict)) = larger {
        let words = match batch == room.could {
            true => format!("a batch of {batch} {verdict}"),
            false => format!("a batch of {batch} {verdict}, like {}", room.could),
        };
        return canvas::labelled("memory   ", &[(words, Tone::Good)], width);
    }
    let (words, tone) = match said.map(|need| &need.need) {
        Some(Ok(need)) => (need.words.to_string(), tone_of(need.verdict())),
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
