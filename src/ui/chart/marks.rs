//! What happened at an instant: a run began, memory ran out.

use super::window::Window;
use crate::state::{DeviceState, State};
use crate::ui::pen::{Pen, columns};
use crate::ui::theme::{Theme, Tone};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Draws the marks of a device over its curves.
pub fn draw(
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
                    (Tone::Warning, "caught")
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
            && cell.symbol() == " "
        {
            cell.set_symbol(theme.glyphs.relaunch).set_style(style);
        }
    }
    words(
        buf,
        plot,
        plot.height.saturating_sub(1),
        column + 1,
        name,
        style,
    );
}

fn out_of_memory(buf: &mut Buffer, plot: Rect, theme: &Theme, column: u16, tone: Tone, name: &str) {
    // Under the rule of the capacity, where the curve ran against it.
    let row = u16::from(plot.height > 2);
    let style = theme.style(tone);
    if let Some(cell) = buf.cell_mut((plot.x + column, plot.top() + row)) {
        cell.set_symbol(theme.glyphs.cross).set_style(style);
    }
    words(buf, plot, row, column + 2, name, style);
}

/// Writes beside a mark, if nothing is there yet.
fn words(
    buf: &mut Buffer,
    plot: Rect,
    row: u16,
    column: u16,
    text: &str,
    style: ratatui::style::Style,
) {
    let y = plot.top() + row;
    let from = plot.x + column;
    let to = from + columns(text);
    let free = (from..to + 1).all(|x| buf.cell((x, y)).is_some_and(|cell| cell.symbol() == " "));
    if to <= plot.right() && free {
        Pen::new(buf, plot, row).to(from).text(text, style);
    }
}
