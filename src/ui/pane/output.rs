//! The program's output, as its terminal shows it.

use crate::ui::canvas::Canvas;
use crate::ui::child::ChildScreen;
use crate::ui::pane::ListScroll;
use crate::ui::pane::spec::{PaneSpec, Scrolling};
use crate::ui::scene::{RecordedOutput, Scene, Subject};
use crate::ui::theme::{Depth, Theme, Tone};
use crate::ui::view::View;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthChar;

pub(in crate::ui) const PANE: PaneSpec = PaneSpec {
    scrolling: Scrolling::Output,
    short: "out",
    ..PaneSpec::plain("output", draw)
};

/// Draws the program's screen, or the part around its cursor if it is higher than the pane.
pub(in crate::ui) fn draw(canvas: &mut Canvas, view: &View, scene: &Scene, _: ListScroll) {
    let child = &view.output;
    if let Some(words) = missing(scene) {
        canvas.pen(0).skip(1).rest(words, Tone::Dim);
        return;
    }
    let screen = child.screen();
    let Rect { width, height, .. } = canvas.area.intersection(canvas.buf.area);
    let first = first_row(height, child);
    // What is below them is empty, as the buffer is.
    let used = child.used_rows().saturating_sub(first);
    let rows = screen.rows_formatted(0, width).skip(first.into());
    for (y, row) in (0..height.min(used)).zip(rows) {
        match is_plain(&row) {
            true => draw_text(canvas, y, &row),
            false => draw_cells(canvas, y, screen, first + y, width),
        }
    }
    if child.search().is_some() || child.selected().is_some() {
        draw_marks(canvas, child, first);
    }
}

/// A row without colours, of characters that take a column each: most are, and a cell of the emulator has to be looked for.
fn is_plain(row: &str) -> bool {
    let takes_one = |c: char| (' '..='~').contains(&c) || c.width() == Some(1);
    row.chars().all(takes_one)
}

fn draw_text(canvas: &mut Canvas, y: u16, text: &str) {
    for (x, c) in (0..).zip(text.chars()) {
        match canvas.cell(x, y) {
            // The buffer is empty already.
            Some(target) if c != ' ' => drop(target.set_char(c)),
            _ => {}
        }
    }
}

fn draw_cells(canvas: &mut Canvas, y: u16, screen: &vt100::Screen, row: u16, width: u16) {
    for x in 0..width {
        let Some(cell) = screen.cell(row, x) else {
            break;
        };
        // Most cells are empty, and the buffer is empty already.
        if cell.is_wide_continuation() || is_blank(cell) {
            continue;
        }
        let theme = canvas.theme;
        let Some(target) = canvas.cell(x, y) else {
            continue;
        };
        // A wide character whose second half has no room would be drawn over the edge.
        let spills = cell.is_wide() && x + 1 >= width;
        if cell.has_contents() && !spills {
            target.set_symbol(cell.contents());
        }
        target.set_style(style_of(cell, theme));
    }
}

/// Why a replay shows no output.
fn missing(scene: &Scene) -> Option<&'static str> {
    let Subject::Recording(replay) = scene.subject else {
        return None;
    };
    match replay.output {
        RecordedOutput::Shown => None,
        RecordedOutput::NotThere => Some("no output log beside the recording"),
        RecordedOutput::AtTheEnd => Some("its output is shown at the recording's end"),
    }
}

/// The first row of the program's screen to show.
fn first_row(height: u16, child: &ChildScreen) -> u16 {
    let (rows, _) = child.size();
    let (cursor_row, _) = child.screen().cursor_position();
    let hidden = rows.saturating_sub(height);
    cursor_row
        .saturating_sub(height.saturating_sub(1))
        .min(hidden)
}

/// The position of the program's cursor, if it is shown and in view.
pub(in crate::ui) fn cursor(canvas: &Canvas, child: &ChildScreen) -> Option<Position> {
    let area = canvas.area.intersection(canvas.buf.area);
    let first = first_row(area.height, child);
    let screen = child.screen();
    let (row, column) = screen.cursor_position();
    let at = Position::new(area.x + column, area.y + row.checked_sub(first)?);
    let in_view = child.scrolled() == 0 && area.contains(at);
    (in_view && !screen.hide_cursor()).then_some(at)
}

/// Reverses the selected rows and highlights the matches, the current one more strongly.
fn draw_marks(canvas: &mut Canvas, child: &ChildScreen, first: u16) {
    let Canvas { buf, area, theme } = canvas;
    let area = area.intersection(buf.area);
    for y in 0..area.height {
        let marks = child.marks(first + y);
        let row = Rect {
            y: area.y + y,
            height: 1,
            ..area
        };
        if marks.selected {
            buf.set_style(row, Style::new().add_modifier(Modifier::REVERSED));
        }
        let tone = match marks.current {
            true => Tone::Warning,
            false => Tone::Faint,
        };
        for columns in marks.found {
            let found = Rect {
                x: area.x.saturating_add(columns.start),
                width: columns.end - columns.start,
                ..row
            };
            let style = match marks.current {
                true => theme.on_ground().patch(theme.ground(tone)),
                false => theme.ground(tone),
            };
            buf.set_style(found.intersection(area), style);
        }
    }
}

fn is_blank(cell: &vt100::Cell) -> bool {
    !cell.has_contents() && cell.bgcolor() == vt100::Color::Default && !cell.inverse()
}

fn style_of(cell: &vt100::Cell, theme: &Theme) -> Style {
    let mut style = Style::new();
    for (is, modifier) in [
        (cell.bold(), Modifier::BOLD),
        (cell.dim(), Modifier::DIM),
        (cell.italic(), Modifier::ITALIC),
        (cell.underline(), Modifier::UNDERLINED),
        (cell.inverse(), Modifier::REVERSED),
    ] {
        if is {
            style = style.add_modifier(modifier);
        }
    }
    if theme.depth == Depth::None {
        return style;
    }
    if let Some(colour) = colour_of(cell.fgcolor()) {
        style = style.fg(colour);
    }
    if let Some(colour) = colour_of(cell.bgcolor()) {
        style = style.bg(colour);
    }
    style
}

/// Colours are passed as they are: the program knows what the terminal can do.
fn colour_of(colour: vt100::Color) -> Option<Color> {
    match colour {
        vt100::Color::Default => None,
        vt100::Color::Idx(index) => Some(Color::Indexed(index)),
        vt100::Color::Rgb(r, g, b) => Some(Color::Rgb(r, g, b)),
    }
}
