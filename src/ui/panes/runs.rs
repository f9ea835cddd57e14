//! The runs so far: what was different, how far it came, how much it took, how it ended.

use super::header::{outcome_words, patching_words};
use crate::state::{Outcome, Run, State};
use crate::ui::difference;
use crate::ui::figures::{Figures, count, rate};
use crate::ui::pen::Pen;
use crate::ui::theme::{Theme, Tone};
use crate::ui::view::{List, View};
use crate::units::clock_face;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// From this width on a run takes one row, below it two.
const ONE_ROW: u16 = 100;

/// How many runs there are.
pub fn length(state: &State) -> usize {
    state.runs.len()
}

/// Draws the list, its heads first.
pub fn draw(buf: &mut Buffer, area: Rect, view: &View, state: &State, list: List) {
    let theme = &view.theme;
    let wide = area.width >= ONE_ROW;
    let (heads, rows_each) = if wide {
        (
            " #   outcome         peak predicted     time     step    rate  what differs",
            1,
        )
    } else {
        (" #   outcome         peak     time", 2)
    };
    Pen::new(buf, area, 0).text(heads, theme.style(Tone::Dim));
    let shown = usize::from(area.height.saturating_sub(1) / rows_each).max(1);
    let first = list.first(length(state), shown);
    let runs = state.runs.iter().enumerate().skip(first).take(shown);
    for (place, (n, run)) in (0..).zip(runs) {
        let before = n.checked_sub(1).and_then(|before| state.runs.get(before));
        let row = 1 + place * rows_each;
        let figures = figures_of(state, run);
        let mut pen = Pen::new(buf, area, row);
        draw_standing(&mut pen, theme, run);
        pen.text(&figures.column(run.peak()), theme.style(Tone::Text));
        if wide {
            draw_more(&mut pen, theme, state, run, figures);
            pen.skip(2);
            draw_difference(&mut pen, theme, run, before);
        } else {
            draw_time(&mut pen, theme, state, run);
            let mut pen = Pen::new(buf, area, row + 1);
            pen.skip(5);
            draw_difference(&mut pen, theme, run, before);
        }
    }
}

fn figures_of(state: &State, run: &Run) -> Figures {
    let uuid = run.ranks.first().and_then(|rank| rank.device.as_ref());
    let device = uuid.and_then(|uuid| state.device(uuid));
    Figures::of(
        device
            .or(state.devices.first())
            .and_then(|device| device.capacity),
    )
}

fn draw_standing(pen: &mut Pen, theme: &Theme, run: &Run) {
    let (words, tone) = outcome_words(run.outcome());
    let mark = match run.outcome() {
        Outcome::Running => theme.glyphs.playing,
        Outcome::Finished | Outcome::Stopped => theme.glyphs.dot,
        Outcome::OutOfMemory | Outcome::Failed(_) => theme.glyphs.cross,
    };
    pen.text(&format!("{:>2} ", run.number.0), theme.style(Tone::Dim))
        .text(mark, theme.style(tone))
        .text(&format!(" {words:<14} "), theme.style(tone));
}

fn draw_more(pen: &mut Pen, theme: &Theme, state: &State, run: &Run, figures: Figures) {
    let predicted = run.predicted_peak.map(|peak| figures.gib(peak));
    let predicted = format!("{:>10}", predicted.unwrap_or_default());
    pen.text(&predicted, theme.style(Tone::Predicted));
    draw_time(pen, theme, state, run);
    let rate = super::header::steps_per_second(run).map_or(String::new(), rate);
    let steps = format!(" {:>8} {rate:>7}", count(run.steps()));
    pen.text(&steps, theme.style(Tone::Text));
}

fn draw_time(pen: &mut Pen, theme: &Theme, state: &State, run: &Run) {
    let ended = run.ended.map_or(state.now, |(at, _)| at);
    let time = clock_face(ended.since(run.started));
    pen.text(&format!(" {time:>8}"), theme.style(Tone::Text));
}

fn draw_difference(pen: &mut Pen, theme: &Theme, run: &Run, before: Option<&Run>) {
    if let Some(patching) = run.patching() {
        let (words, tone) = patching_words(patching);
        pen.text(words, theme.style(tone)).skip(1);
    }
    if run.changes.is_empty() {
        let room = pen.room();
        pen.cut(&run.command.shown(), room, theme, theme.style(Tone::Dim));
        return;
    }
    for piece in difference::brief(theme, before.map(|run| &run.command), &run.changes) {
        let room = pen.room();
        pen.cut(&piece.text, room, theme, theme.style(piece.fate.tone()))
            .skip(1);
    }
}
