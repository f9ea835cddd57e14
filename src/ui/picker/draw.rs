//! Draws the picker: a row a session, and below them what is known of the selected one.

use super::command;
use super::keys::{self, PickerMode};
use super::{Picker, PickerRow, SessionGroup};
use crate::ui::canvas::{self, Canvas, Pen, StyledLine, columns};
use crate::ui::keymap::names;
use crate::ui::theme::Tone;
use crate::units::clock_face;
use ratatui::layout::{Position, Rect};

/// Rows below which nothing is told of the selected session: the list needs them.
const TALL: u16 = 14;

/// From so many rows on a cause that needs two lines has them.
const ROOMY: u16 = 24;

/// Rows of what is told of the selected session, and the most where the list leaves more: a cause and what helps, its command.
const ABOUT: u16 = 4;
const MOST_ABOUT: u16 = 7;

/// The parts of the screen.
pub(super) struct PickerPlaces {
    head: Rect,
    pub rows: Rect,
    /// What is told of the selected session; of no height on a small screen.
    about: Rect,
    footer: Rect,
}

/// `listed` rows are to be shown.
pub(super) fn places(area: Rect, listed: usize) -> PickerPlaces {
    let row = |y: u16, height: u16| Rect {
        y: area.y.saturating_add(y),
        height,
        ..area
    };
    let head = area.height.min(2);
    let footer = u16::from(area.height > 2);
    let left = area.height.saturating_sub(head + footer);
    let left = left.saturating_sub(listed.try_into().unwrap_or(u16::MAX));
    let about = match area.height {
        0..TALL => 0,
        TALL..ROOMY => left.clamp(ABOUT, MOST_ABOUT),
        _ => left.clamp(ABOUT + 1, MOST_ABOUT),
    };
    let rows = area.height.saturating_sub(head + about + footer);
    PickerPlaces {
        head: row(0, head),
        rows: row(head, rows),
        about: row(head + rows, about),
        footer: row(head + rows + about, footer),
    }
}

/// Columns of each fact; 0 where it is left out.
struct PickerColumns {
    state: u16,
    took: u16,
    peak: u16,
    since: u16,
    device: u16,
}

/// A command cut to less than this does not tell sessions apart.
const LEAST_COMMAND: u16 = 24;
const GAP: u16 = 2;
/// Below this width the state and the peak have their columns, and the command what is left.
const NARROW: u16 = 60;
const LEAST_OF_NARROW: u16 = 10;
/// "out of memory" as a whole.
const STATE_OF_NARROW: u16 = 13;
/// From this width on the state has more than a few words.
const WIDE: u16 = 100;
/// The pointer and a blank in front of each row.
const LEAD: u16 = 3;

impl PickerColumns {
    /// What there is room for beside the command, the most telling first.
    fn new<'r>(width: u16, rows: impl Iterator<Item = &'r PickerRow> + Clone) -> PickerColumns {
        let widest = |of: fn(&PickerRow) -> String| {
            let widths = rows.clone().map(|row| columns(&of(row)));
            widths.max().filter(|width| *width > 0)
        };
        let is_narrow = width < NARROW;
        let least = if is_narrow {
            LEAST_OF_NARROW
        } else {
            LEAST_COMMAND
        };
        let mut room = width.saturating_sub(LEAD + least.min(width / 2));
        let mut take = |wanted: Option<u16>, least: u16, most: u16| {
            let wanted = wanted.map_or(0, |wanted| wanted.clamp(least, most));
            match wanted > 0 && wanted + GAP <= room {
                true => {
                    room -= wanted + GAP;
                    wanted
                }
                false => 0,
            }
        };
        // Why memory ran out stands at its end.
        let most_of_state = match is_narrow {
            true => STATE_OF_NARROW,
            false => (width * 13 / 40).max(12),
        };
        // Below this width the room goes to what else tells sessions apart.
        let state_of = match width < WIDE {
            true => |row: &PickerRow| row.brief.clone(),
            false => |row: &PickerRow| row.state.clone(),
        };
        let state = take(widest(state_of), 5, most_of_state);
        let of_peak = take(widest(peak), 4, 9);
        // Who looks for the one that died at night looks for when it began.
        let since = match is_narrow {
            true => 0,
            false => take(widest(|row| row.since.clone()), 5, 12),
        };
        PickerColumns {
            state,
            since,
            peak: of_peak,
            took: take(widest(took), 4, 8),
            device: take(widest(|row| row.device.clone()), 6, 26),
        }
    }
}

fn took(row: &PickerRow) -> String {
    row.took.map_or(String::new(), clock_face)
}

fn peak(row: &PickerRow) -> String {
    row.peak.map_or(String::new(), |peak| peak.to_string())
}

pub(super) fn whole(canvas: &mut Canvas, picker: &Picker) -> Option<Position> {
    let PickerPlaces {
        head,
        rows,
        about,
        footer,
    } = places(canvas.area, picker.shown().count());
    let wide = PickerColumns::new(canvas.area.width, picker.rows.iter());
    draw_head(&mut canvas.at(head), picker, &wide);
    match picker.is_helping {
        true => draw_keys(&mut canvas.at(rows)),
        false => draw_rows(&mut canvas.at(rows), picker, &wide),
    }
    if let Some(row) = picker.chosen() {
        draw_about(&mut canvas.at(about), row);
    }
    draw_footer(&mut canvas.at(footer), picker)
}

fn draw_head(canvas: &mut Canvas, picker: &Picker, wide: &PickerColumns) {
    let separator = canvas.theme.glyphs.separator;
    let count = |group: SessionGroup| picker.rows.iter().filter(|row| row.group == group).count();
    let mut pen = canvas.pen(0);
    pen.skip(1).text("oomph", Tone::Accent).skip(2);
    let counts = [
        (count(SessionGroup::Waiting), "waiting", Tone::Warning),
        (count(SessionGroup::Running), "running", Tone::Good),
        (count(SessionGroup::Ended), "ended", Tone::Dim),
    ];
    let there = counts.iter().filter(|(count, ..)| *count > 0);
    for (place, (count, words, tone)) in there.enumerate() {
        if place > 0 {
            pen.text(separator, Tone::Faint);
        }
        pen.text(&format!("{count} {words}"), *tone);
    }
    if picker.is_reading {
        pen.skip(2).rest("reading the recordings", Tone::Dim);
    }
    let mut pen = canvas.pen(1);
    pen.skip(LEAD);
    for (width, name) in [
        (wide.state, "state"),
        (wide.took, "took"),
        (wide.peak, "peak"),
        (wide.since, "since"),
        (wide.device, "device"),
    ] {
        column(&mut pen, name, width, Tone::Dim);
    }
    pen.rest("command", Tone::Dim);
}

/// The keys of the list, in the place of its rows.
fn draw_keys(canvas: &mut Canvas) {
    let glyphs = canvas.theme.glyphs;
    let names: Vec<String> = keys::listed()
        .map(|(keys, _)| names(keys, glyphs))
        .collect();
    let widest = names.iter().map(|name| columns(name)).max().unwrap_or(0);
    let room = canvas.area.width.saturating_sub(LEAD + widest + GAP);
    let rows = names
        .iter()
        .zip(keys::listed())
        .flat_map(|(name, (_, help))| {
            let lines = canvas::text(help, room, Tone::Text).into_iter();
            let names = std::iter::once(name.as_str()).chain(std::iter::repeat(""));
            lines.zip(names)
        });
    for (y, (help, name)) in (0..canvas.area.height).zip(rows) {
        canvas.pen(y).skip(LEAD).text(name, Tone::Accent);
        let column = Rect {
            x: canvas.area.x + LEAD + widest + GAP,
            width: room,
            ..canvas.area
        };
        help.draw(&mut canvas.at(column), y);
    }
}

fn column(pen: &mut Pen, text: &str, width: u16, tone: Tone) {
    if width > 0 {
        let end = pen.column() + width + GAP;
        pen.cut(text, width, tone).to(end);
    }
}

fn draw_rows(canvas: &mut Canvas, picker: &Picker, wide: &PickerColumns) {
    let (pointer, ellipsis) = (canvas.theme.glyphs.pointer, canvas.theme.glyphs.ellipsis);
    if picker.shown().next().is_none() {
        let words = match (picker.is_reading, picker.filter.text().is_empty()) {
            (true, true) => "",
            (false, true) => "there is no session any more",
            (_, false) => "no session has this text",
        };
        canvas.pen(0).skip(LEAD).rest(words, Tone::Warning);
        return;
    }
    let canvas_is_wide = canvas.area.width >= WIDE;
    let place = picker.place();
    let shown = picker.shown().enumerate().skip(picker.first);
    for (y, (at, row)) in (0..canvas.area.height).zip(shown) {
        let is_selected = place == Some(at);
        let mut pen = canvas.pen(y);
        pen.skip(1);
        if is_selected {
            pen.text(pointer, Tone::Accent);
        }
        pen.to(LEAD);
        let has_room = columns(&row.state) <= wide.state && canvas_is_wide;
        let state = match has_room {
            true => &row.state,
            false => &row.brief,
        };
        column(&mut pen, state, wide.state, state_tone(row));
        column(&mut pen, &took(row), wide.took, Tone::Dim);
        column(&mut pen, &peak(row), wide.peak, Tone::Text);
        column(&mut pen, &row.since, wide.since, Tone::Dim);
        column(&mut pen, &row.device, wide.device, Tone::Dim);
        let tone = match is_selected {
            true => Tone::Strong,
            false => Tone::Text,
        };
        let command = command::short(row, &picker.rows, pen.room(), ellipsis);
        pen.rest(&command, tone);
    }
}

fn state_tone(row: &PickerRow) -> Tone {
    match row.group {
        SessionGroup::Waiting => Tone::Warning,
        SessionGroup::Running => Tone::Good,
        SessionGroup::Ended if row.has_failed => Tone::Wrong,
        SessionGroup::Ended => Tone::Dim,
    }
}

/// The selected session: its name, what is told of it, its whole command, and what opening it does.
fn draw_about(canvas: &mut Canvas, row: &PickerRow) {
    if canvas.area.height == 0 {
        return;
    }
    // In its column the state may be cut.
    let glyphs = canvas.theme.glyphs;
    let separator = glyphs.separator;
    let mut inside = canvas.below_head(&[
        (&row.id, Tone::Strong),
        (separator, Tone::Faint),
        (&row.state, state_tone(row)),
    ]);
    let width = inside.area.width.saturating_sub(2);
    let told = row.told.iter();
    let told = told.flat_map(|words| canvas::text(&glyphs.spelled(words), width, Tone::Text));
    let told: Vec<StyledLine> = told.collect();
    let command = canvas::text(&row.command, width, Tone::Dim);
    let last = inside.area.height.saturating_sub(1);
    // A row is the command's: it tells this session from the next.
    let of_told = usize::from(last.saturating_sub(1)).min(told.len());
    let lines = told.iter().take(of_told).chain(&command);
    for (y, line) in (0..last).zip(lines) {
        line.clone().behind(" ", Tone::Text).draw(&mut inside, y);
    }
    let (does, typed) = match row.group {
        SessionGroup::Ended => (
            "Enter shows how it ended, p plays it",
            format!("oomph replay {}", row.id),
        ),
        SessionGroup::Waiting | SessionGroup::Running => {
            ("Enter shows its screen", format!("oomph attach {}", row.id))
        }
    };
    let mut line = StyledLine::of(format!(" {does}: "), Tone::Dim);
    line.push(typed, Tone::Dim);
    line.draw(&mut inside, last);
}

/// Returns the cursor's position, while a text is typed.
fn draw_footer(canvas: &mut Canvas, picker: &Picker) -> Option<Position> {
    let area = canvas.area;
    let glyphs = canvas.theme.glyphs;
    let text = picker.filter.text();
    let mut pen = canvas.pen(0);
    let mut cursor = None;
    pen.skip(1);
    if picker.is_typed {
        let (before, after) = picker.filter.halves();
        pen.text("/", Tone::Accent).text(before, Tone::Strong);
        cursor = Some(Position::new(area.x + pen.column(), area.y));
        pen.text(after, Tone::Strong).skip(2);
    } else if !text.is_empty() {
        pen.text(&format!("/{text}"), Tone::Good).skip(2);
    }
    if !text.is_empty() {
        let found = picker.shown().count();
        let words = format!("{found} of {}", picker.rows.len());
        pen.text(&words, Tone::Dim).skip(2);
    }
    let mode = match picker.is_typed {
        true => PickerMode::Filtering,
        false => PickerMode::Choosing,
    };
    for key in keys::of(mode).filter(|key| !key.short.is_empty()) {
        let name = key.keys[0].name(glyphs);
        if pen.room() < columns(&name) + 1 + columns(key.short) {
            break;
        }
        pen.text(&name, Tone::Accent)
            .skip(1)
            .text(key.short, Tone::Dim)
            .skip(2);
    }
    cursor.filter(|at| area.contains(*at))
}
