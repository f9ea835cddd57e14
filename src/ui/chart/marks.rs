//! Marks on the curves where a run started or memory ran out.

use super::window::Window;
use crate::state::{DeviceState, State};
use crate::ui::canvas::Canvas;
use crate::ui::pen::columns;
use crate::ui::theme::{Glyphs, Tone};

pub(super) fn draw(plot: &mut Canvas, state: &State, device: &DeviceState, window: &Window) {
    for run in state.runs.iter().skip(1) {
        if let Some(column) = window.column(run.started) {
            relaunch(plot, column, &format!("run {}", run.number));
        }
    }
    for run in &state.runs {
        for oom in &run.ooms {
            let elsewhere = oom.device.as_ref().is_some_and(|uuid| *uuid != device.uuid);
            if let Some(column) = window.column(oom.at).filter(|_| !elsewhere) {
                let (tone, words) = match run.survived_oom(oom) {
                    true => (Tone::Warning, "OOM caught"),
                    false => (Tone::Wrong, "out of memory"),
                };
                out_of_memory(plot, column, tone, words);
            }
        }
    }
}

fn relaunch(plot: &mut Canvas, column: u16, name: &str) {
    let theme = plot.theme;
    for row in 0..plot.area.height {
        if plot.is_free(column..column + 1, row, &background(theme.glyphs))
            && let Some(cell) = plot.cell(column, row)
        {
            cell.set_symbol(theme.glyphs.relaunch)
                .set_style(theme.style(Tone::Dim));
        }
    }
    let bottom = plot.area.height.saturating_sub(1);
    words(plot, &[bottom, 2, 0], column + 1, name, Tone::Dim);
}

fn out_of_memory(plot: &mut Canvas, column: u16, tone: Tone, name: &str) {
    // Just below the capacity's rule, where the curve ran into it.
    let row = u16::from(plot.area.height > 2);
    let theme = plot.theme;
    if let Some(cell) = plot.cell(column, row) {
        cell.set_symbol(theme.glyphs.cross)
            .set_style(theme.style(tone));
    }
    words(plot, &[row], column + 2, name, tone);
}

/// Writes beside a mark, on the first of these rows that has no curve in the way.
fn words(plot: &mut Canvas, rows: &[u16], column: u16, text: &str, tone: Tone) {
    let wanted = column..column + columns(text);
    let over = background(plot.theme.glyphs);
    let free = |row: &&u16| plot.is_free(wanted.clone(), **row, &over);
    if let Some(row) = rows.iter().find(free) {
        plot.pen(*row).to(column).text(text, tone);
    }
}

/// What a mark may be drawn over.
fn background(glyphs: &Glyphs) -> [&'static str; 2] {
    [glyphs.relaunch, glyphs.dots]
}
