//! The breakdown as one bar, for screens without room for the list.

use super::{BreakdownPart, parts, shown};
use crate::state::State;
use crate::ui::canvas::Canvas;
use crate::ui::figures::Figures;
use crate::ui::pen::{Pen, columns};
use crate::ui::theme::{Depth, Theme, Tone};
use crate::ui::view::View;
use crate::units::Bytes;

/// Each part is as wide as its share, with its name and figure in it if they fit.
pub(crate) fn draw(canvas: &mut Canvas, view: &View, state: &State) {
    let (theme, width) = (canvas.theme, canvas.area.width);
    let Some(device) = view.device(state) else {
        return;
    };
    let parts = parts(&shown(state, device).0);
    let known: Bytes = parts.iter().filter_map(|part| part.bytes).sum();
    let whole = device.capacity.unwrap_or(known).max(known);
    let figures = Figures::of(device.capacity);
    let mut pen = canvas.pen(0);
    let mut so_far = Bytes::ZERO;
    let unknown = BreakdownPart {
        name: "unknown",
        short: "unknown",
        tone: Tone::NonPytorch,
        fill: |glyphs| glyphs.shade,
        letter: "?",
        says: "",
        bytes: Some(whole - known),
    };
    // Free memory is at the right end, after the unknown rest.
    let (free, held) = parts
        .split_last()
        .map_or((None, &[][..]), |(f, h)| (Some(f), h));
    for part in held.iter().chain([&unknown]).chain(free) {
        let Some(bytes) = part.bytes.filter(|bytes| *bytes > Bytes::ZERO) else {
            continue;
        };
        let begin = edge(so_far, whole, width);
        so_far += bytes;
        // A small part gets a cell, but not an unknown rest that is only rounding.
        let end = edge(so_far, whole, width).max(begin + u16::from(part.letter != "?"));
        draw_part(&mut pen, theme, part, &figures.gib(bytes), end);
    }
    pen.fill(" ", Tone::Text);
}

fn edge(bytes: Bytes, whole: Bytes, width: u16) -> u16 {
    let share = bytes.fraction_of(whole).unwrap_or(0.0).min(1.0);
    (share * f64::from(width)).round() as u16
}

fn draw_part(pen: &mut Pen, theme: &Theme, part: &BreakdownPart, figure: &str, end: u16) {
    let width = end.saturating_sub(pen.column());
    let long = format!(" {} {figure} ", part.short);
    let short = format!(" {figure} ");
    let words = [long, short]
        .into_iter()
        .find(|words| columns(words) <= width);
    let style = match (theme.depth, part.tone) {
        (Depth::None, _) => theme.style(Tone::Text),
        (_, Tone::Free) => theme.style(Tone::Dim),
        (_, _) if part.letter == "?" => theme.style(Tone::Dim),
        (_, tone) => theme.ground(tone).patch(theme.on_ground()),
    };
    let filler = match (theme.has_letters(), part.tone) {
        (_, Tone::Free) => theme.glyphs.sparse_dots,
        (_, _) if part.letter == "?" => theme.glyphs.shade,
        (true, _) => part.letter,
        (_, _) => " ",
    };
    if let Some(words) = words {
        pen.styled(&words, style);
    }
    while pen.column() < end && pen.room() > 0 {
        pen.styled(filler, style);
    }
}
