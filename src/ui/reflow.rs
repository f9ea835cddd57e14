//! The program's terminal at another width: its lines are wrapped anew, as the user's own terminal would do it. vt100 cuts
//! off what no longer has a column, for good.
//!
//! A line is a row and those that it goes on in. The cursor stays at its place in its line.

use super::output_rows;
use std::num::NonZeroU16;
use vt100::{Callbacks, Cell, Color, Parser, Screen};

/// Cells of scrollback, of 32 bytes each, blank or not: 3 MB. A wide terminal gets fewer rows, so that what is wrapped
/// to more rows in a narrow one is kept, too. The log has everything.
const SCROLLBACK_CELLS: usize = 100_000;

/// Each row costs something besides its cells.
const MOST_SCROLLBACK: usize = 4_000;

/// Some programs divide by the terminal's width.
pub(super) const SMALLEST: u16 = 2;

/// Sizes below 2 count as 2.
pub(super) fn new_parser<C: Callbacks>(rows: u16, columns: u16, callbacks: C) -> Parser<C> {
    Parser::new_with_callbacks(
        at_least_two(rows),
        at_least_two(columns),
        MOST_SCROLLBACK.min(SCROLLBACK_CELLS / usize::from(columns.max(SMALLEST))),
        callbacks,
    )
}

pub(super) fn at_least_two(n: u16) -> NonZeroU16 {
    NonZeroU16::MIN.saturating_add(n.max(SMALLEST) - 1)
}

pub(super) struct Reflowed {
    pub screen: Screen,
    pub distances: RowDistances,
}

/// The new distance from the newest row, by the old one.
pub(super) struct RowDistances(Vec<usize>);

impl RowDistances {
    /// Where the text is now that a row began with.
    pub fn of(&self, before: usize) -> usize {
        let known = self.0.get(before).or(self.0.last());
        known.copied().unwrap_or(0)
    }
}

/// The screen with its scrollback at another size. A line that the program writes in place is cut instead of wrapped: a
/// carriage return would lead to its last row only, and the rows above it would be left over.
pub(super) fn reflow(screen: &Screen, rows: u16, columns: u16, is_in_place: bool) -> Reflowed {
    let (height, width) = screen.size();
    let mut scratch = new_parser(height.get(), width.get(), ());
    *scratch.screen_mut() = screen.clone();
    let alternate = screen.alternate_screen().then(|| {
        let mut resized = screen.clone();
        let new = new_parser(rows, columns, ());
        let (rows, columns) = new.screen().size();
        resized.set_size(rows, columns);
        resized.contents_formatted()
    });
    if alternate.is_some() {
        scratch.process(b"\x1b[?47l");
    }
    let mut lines = Lines::of(scratch.screen_mut());
    if is_in_place {
        lines.cut_at_cursor(columns);
    }
    let mut made = new_parser(rows, columns, ());
    let wrapped = lines.wrap(columns);
    let kept = wrapped.rows.len().saturating_sub(usize::from(rows));
    for (n, row) in wrapped.rows.iter().enumerate() {
        if n > 0 && row.begins_line {
            made.process(b"\x1b[0m\r\n");
        }
        made.process(row.text.as_bytes());
    }
    let at = |place: LinePlace| {
        let row = wrapped.row_of(place).saturating_sub(kept) + 1;
        let column = wrapped.column_of(place) + 1;
        format!("\x1b[{row};{column}H")
    };
    // What the program has saved is read by restoring it.
    let cursor = lines.cursor;
    scratch.process(b"\x1b8");
    if scratch.screen().cursor_position() != (0, 0) {
        let saved = Lines::of(scratch.screen_mut()).cursor;
        let attributes = scratch.screen().attributes_formatted();
        made.process(format!("{}{attributes}\x1b7", at(saved)).as_bytes());
        made.process(at(cursor).as_bytes());
    } else if cursor != wrapped.end {
        made.process(at(cursor).as_bytes());
    }
    if let Some(contents) = alternate {
        made.process(format!("\x1b[?47h{contents}").as_bytes());
    }
    made.process(screen.attributes_formatted().as_bytes());
    made.process(screen.input_mode_formatted().as_bytes());
    if screen.hide_cursor() {
        made.process(b"\x1b[?25l");
    }
    let newest = wrapped.rows.len().max(usize::from(rows)) - 1;
    let distances = lines.rows.iter().rev();
    let distances = distances.map(|place| newest - wrapped.row_of(*place));
    Reflowed {
        distances: RowDistances(distances.collect()),
        screen: made.screen().clone(),
    }
}

/// A line, and a column in it as if the terminal were as wide as the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LinePlace {
    line: usize,
    column: usize,
}

struct LinePiece {
    text: String,
    columns: usize,
}

struct Lines {
    /// The pieces of each line: a character, or blanks, with what changes its look.
    lines: Vec<Vec<LinePiece>>,
    cursor: LinePlace,
    /// Where each of the rows begins that there were.
    rows: Vec<LinePlace>,
}

impl Lines {
    fn of(screen: &mut Screen) -> Lines {
        let width = screen.size().1.get();
        let (row, column) = screen.cursor_position();
        let above = screen.scrollback_len();
        let all = output_rows::each(screen, |screen| {
            let rows = 0..screen.size().0.get();
            rows.map(|row| RowCells::of(screen, row, width)).collect()
        });
        let cursor_row = above + usize::from(row);
        // Rows below the text and the cursor are no lines.
        let last = all.iter().rposition(|row| row.used > 0);
        let end = last.map_or(0, |last| last + 1).max(cursor_row + 1);
        let mut lines = Lines {
            lines: vec![Vec::new()],
            cursor: LinePlace { line: 0, column: 0 },
            rows: Vec::with_capacity(all.len()),
        };
        let mut begun = 0;
        for (n, row) in all.into_iter().enumerate() {
            let line = lines.lines.len() - 1;
            lines.rows.push(LinePlace {
                line,
                column: begun,
            });
            if n >= end {
                continue;
            }
            let goes_on = row.goes_on && n + 1 < end;
            // The cursor may stand behind the text of its row.
            let kept = match (goes_on, n == cursor_row) {
                (true, _) => usize::from(width),
                (false, true) => row.used.max(usize::from(column)),
                (false, false) => row.used,
            };
            if n == cursor_row {
                let column = begun + usize::from(column);
                lines.cursor = LinePlace { line, column };
            }
            begun += row.push_to(&mut lines.lines[line], kept);
            if !goes_on && n + 1 < end {
                lines.lines.push(Vec::new());
                begun = 0;
            }
        }
        lines
    }

    /// Cuts the cursor's line to one row. Bars leave the last column free, so that what stood there would never be written over.
    fn cut_at_cursor(&mut self, columns: u16) {
        let Some(line) = self.lines.get_mut(self.cursor.line) else {
            return;
        };
        let all: usize = line.iter().map(|piece| piece.columns).sum();
        if all <= usize::from(columns) {
            return;
        }
        let (mut used, mut kept) = (0, 0);
        for piece in line.iter() {
            if used + piece.columns >= usize::from(columns) {
                break;
            }
            used += piece.columns;
            kept += 1;
        }
        line.truncate(kept);
        self.cursor.column = self.cursor.column.min(used);
    }

    fn wrap(&self, columns: u16) -> Wrapped {
        let width = usize::from(columns);
        let mut rows: Vec<WrappedRow> = Vec::new();
        let mut end = LinePlace { line: 0, column: 0 };
        for (line, pieces) in self.lines.iter().enumerate() {
            let begin = |column, begins_line| WrappedRow {
                text: String::new(),
                begin: LinePlace { line, column },
                begins_line,
            };
            rows.push(begin(0, true));
            let (mut column, mut used) = (0, 0);
            for piece in pieces {
                if used + piece.columns > width && used > 0 {
                    rows.push(begin(column, false));
                    used = 0;
                }
                if let Some(row) = rows.last_mut() {
                    row.text.push_str(&piece.text);
                }
                column += piece.columns;
                used += piece.columns;
            }
            end = LinePlace { line, column };
        }
        Wrapped { rows, end, width }
    }
}

struct WrappedRow {
    text: String,
    begin: LinePlace,
    begins_line: bool,
}

struct Wrapped {
    rows: Vec<WrappedRow>,
    /// Where the cursor is once all is written.
    end: LinePlace,
    width: usize,
}

impl Wrapped {
    fn row_of(&self, place: LinePlace) -> usize {
        let at_most =
            |row: &WrappedRow| (row.begin.line, row.begin.column) <= (place.line, place.column);
        self.rows.partition_point(at_most).saturating_sub(1)
    }

    fn column_of(&self, place: LinePlace) -> usize {
        let begin = self
            .rows
            .get(self.row_of(place))
            .map(|row| row.begin.column);
        let column = place.column.saturating_sub(begin.unwrap_or(0));
        column.min(self.width.saturating_sub(1))
    }
}

/// What a row of the terminal has.
struct RowCells {
    cells: Vec<Cell>,
    /// Columns up to the last one with text or a background.
    used: usize,
    goes_on: bool,
}

impl RowCells {
    fn of(screen: &Screen, row: u16, width: u16) -> RowCells {
        let cells = (0..width).map_while(|column| screen.cell(row, column).cloned());
        let cells: Vec<Cell> = cells.collect();
        let last = cells.iter().rposition(|cell| !is_blank(cell));
        RowCells {
            used: last.map_or(0, |last| last + 1),
            cells,
            goes_on: screen.row_wrapped(row),
        }
    }

    /// Returns how many columns were added.
    fn push_to(self, line: &mut Vec<LinePiece>, kept: usize) -> usize {
        let mut look = CellLook::default();
        let mut added = 0;
        for (column, cell) in self.cells.iter().take(kept).enumerate() {
            if cell.is_wide_continuation() {
                continue;
            }
            // A wide character had no room in the last column.
            let is_last = column + 1 == self.cells.len();
            if is_last && self.goes_on && !cell.has_contents() {
                continue;
            }
            let now = CellLook::of(cell);
            let mut text = String::new();
            if now != look || added == 0 {
                text = now.sequence();
                look = now;
            }
            text.push_str(match cell.has_contents() {
                true => cell.contents(),
                false => " ",
            });
            let columns = 1 + usize::from(cell.is_wide());
            added += columns;
            line.push(LinePiece { text, columns });
        }
        added
    }
}

/// Programs overwrite with blanks what they want to be gone.
fn is_blank(cell: &Cell) -> bool {
    cell.contents().trim().is_empty() && CellLook::of(cell) == CellLook::default()
}

#[derive(Clone, Copy, PartialEq, Default)]
struct CellLook {
    colors: [Color; 2],
    /// Bold, dim, italic, underlined, inverse.
    marks: [bool; 5],
}

impl CellLook {
    fn of(cell: &Cell) -> CellLook {
        CellLook {
            colors: [cell.fgcolor(), cell.bgcolor()],
            marks: [
                cell.bold(),
                cell.dim(),
                cell.italic(),
                cell.underline(),
                cell.inverse(),
            ],
        }
    }

    fn sequence(self) -> String {
        let mut sequence = String::from("\x1b[0");
        for (set, code) in self.marks.into_iter().zip(["1", "2", "3", "4", "7"]) {
            if set {
                sequence.push(';');
                sequence.push_str(code);
            }
        }
        for (color, code) in self.colors.into_iter().zip([38, 48]) {
            match color {
                Color::Default => {}
                Color::Idx(n) => sequence.push_str(&format!(";{code};5;{n}")),
                Color::Rgb(r, g, b) => sequence.push_str(&format!(";{code};2;{r};{g};{b}")),
            }
        }
        sequence.push('m');
        sequence
    }
}
