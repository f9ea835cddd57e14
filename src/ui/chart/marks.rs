//! What happened at an instant: a run began, memory ran out.

use super::window::Window;
use crate::state::{DeviceState, State};
use crate::ui::pen::{Pen, columns};
use crate::ui::theme::{Theme, Tone};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws the marks of a device over its curves.
pub(super) fn draw(
    buf: &mut Buffer,
    plot: Rect,
    theme: &Theme,
    state: &State,
    device: &DeviceState,
    window: &Window,
) {
    for run in state.runs.iter().skip(1) {
        if let Some(column) = window.column(run.started) {
            relaunch(buf, plot, theme, column, &format!("run {}", run.number));
        }
    }
    for run in &state.runs {
        for oom in &run.ooms {
            let elsewhere = oom.device.as_ref().is_some_and(|uuid| *uuid != device.uuid);
            if let Some(column) = window.column(oom.at).filter(|_| !elsewhere) {
                let (tone, words) = if oom.caught {
                    (Tone::Warning, "OOM caught")
                } else {
                    (Tone::Wrong, "out of memory")
                };
                out_of_memory(buf, plot, theme, column, tone, words);
            }
        }
    }
}

fn relaunch(buf: &mut Buffer, plot: Rect, theme: &Theme, column: u16, name: &str) {
    let style = theme.style(Tone::Dim);
    for y in plot.top()..plot.bottom() {
        if let Some(cell) = buf.cell_mut((plot.x + column, y))
            && is_background(theme, cell.symbol())
        {
            cell.set_symbol(theme.glyphs.relaunch).set_style(style);
        }
    }
    let bottom = plot.height.saturating_sub(1);
    words(
        buf,
        plot,
        theme,
        &[bottom, 2, 0],
        column + 1,
        name,
        Tone::Dim,
    );
}

fn out_of_memory(buf: &mut Buffer, plot: Rect, theme: &Theme, column: u16, tone: Tone, name: &str) {
    // Under the rule of the capacity, where the curve ran against it.
    let row = u16::from(plot.height > 2);
    let style = theme.style(tone);
    if let Some(cell) = buf.cell_mut((plot.x + column, plot.top() + row)) {
        cell.set_symbol(theme.glyphs.cross).set_style(style);
    }
    words(buf, plot, theme, &[row], column + 2, name, tone);
}

/// Writes beside a mark, on the first of these rows where no curve is in the way.
fn words(
    buf: &mut Buffer,
    plot: Rect,
    theme: &Theme,
    rows: &[u16],
    column: u16,
    text: &str,
    tone: Tone,
) {
    let from = plot.x + column;
    let to = from + columns(text);
    if to > plot.right() {
        return;
    }
    let free = rows.iter().find(|row| {
        let y = plot.top() + **row;
        (from..to).all(|x| {
            buf.cell((x, y))
                .is_some_and(|cell| is_background(theme, cell.symbol()))
        })
    });
    if let Some(row) = free {
        Pen::new(buf, theme, plot, *row).to(from).text(text, tone);
    }
}

/// Whether a mark's words may stand there: on nothing, or on a rule.
fn is_background(theme: &Theme, symbol: &str) -> bool {
    [" ", theme.glyphs.relaunch, theme.glyphs.dots].contains(&symbol)
}
