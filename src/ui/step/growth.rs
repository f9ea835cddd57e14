//! What keeps memory alive, and what grew from step to step, by line and by module. The first is the
//! answer to a leak: it is looked for at an OOM, and on a key.
//!
//! ```text
//! kept alive by · after step 18                       a step     in all  grew by line, steps 3–18
//! 12.0 GiB scenarios.py:62 Leak.history: list of 18  +684 MiB   10.0 GiB  models.py:32 forward
//!          ← Leak object ← scenario in train.py:88     a step     in all  grew by module
//!                                                    +684 MiB   10.0 GiB  h.0–23.mlp
//! ```

use super::choice;
use crate::anatomy::StepGrowth;
use crate::event::{GrowingLine, Retainer, Retainers, SourceLine};
use crate::state::Run;
use crate::ui::canvas::Canvas;
use crate::ui::paragraph::{self, StyledLine};
use crate::ui::scene::Scene;
use crate::ui::theme::{Glyphs, Tone};
use crate::ui::view::View;
use crate::units::Bytes;
use ratatui::layout::Rect;

/// From this width on the two stand side by side.
const BESIDE: u16 = 110;

/// Columns of a figure with the space behind it.
const FIGURE: u16 = 10;

/// Rows that what grew keeps, where both stand on each other and this many are there.
const GREW: u16 = 3;
const ROWS_FOR_BOTH: u16 = 8;

pub(super) fn draw(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let area = canvas.area;
    let side = area.width >= BESIDE;
    let width = match side {
        true => area.width * 11 / 20,
        false => area.width,
    };
    let kept = kept_alive(view, scene, width.saturating_sub(3), canvas.theme.glyphs);
    let grew = grew(view, scene, canvas.theme.glyphs);
    if side {
        lines(&mut canvas.at(Rect { width, ..area }), &kept);
        let right = Rect {
            x: area.x + width,
            width: area.width - width,
            ..area
        };
        return lines(&mut canvas.at(right), &grew);
    }
    let below = match area.height >= ROWS_FOR_BOTH {
        true => GREW.min(grew.len() as u16),
        false => 0,
    };
    let above = (kept.len() as u16).min(area.height.saturating_sub(below));
    let upper = Rect {
        height: above,
        ..area
    };
    lines(&mut canvas.at(upper), &kept);
    let lower = Rect {
        y: area.y + above,
        height: area.height - above,
        ..area
    };
    lines(&mut canvas.at(lower), &grew);
}

/// What was found, or why nothing was looked for.
fn kept_alive(view: &View, scene: &Scene, width: u16, glyphs: &'static Glyphs) -> Vec<StyledLine> {
    let found = choice::retainers(view, scene);
    let asked = view.asked.filter(|asked| {
        let after = found.is_none_or(|(at, _)| *at < asked.1);
        let process = choice::askable(view, scene);
        after && process == Some(asked.0)
    });
    let said = match (asked, found) {
        (Some(_), _) => {
            "Looking for it: when this step has ended, or in 5 s; the training then waits for up to a second."
        }
        (None, Some((_, found))) => return of_search(found, width, glyphs),
        (None, None) if choice::askable(view, scene).is_some() => {
            "Who keeps memory alive has not been looked for: w does it at the end of this step. The training \
             waits meanwhile, for up to a second."
        }
        (None, None) => {
            "Who keeps memory alive has not been looked for: that is done when memory runs out, and on a key \
             while the training runs."
        }
    };
    let mut lines = vec![StyledLine::of(" kept alive by", Tone::Dim)];
    lines.extend(indented(
        "  ",
        paragraph::text(said, width.saturating_sub(2), Tone::Text),
    ));
    lines
}

fn of_search(found: &Retainers, width: u16, glyphs: &'static Glyphs) -> Vec<StyledLine> {
    let took = found.micros as f64 / 1e6;
    let title = format!(
        " kept alive by{}after step {}, found in {took:.1} s",
        glyphs.separator, found.step
    );
    let mut lines = vec![StyledLine::of(title, Tone::Dim)];
    for retainer in &found.retainers {
        lines.extend(of_retainer(retainer, width, glyphs));
    }
    let mut rest = Vec::new();
    if found.retainers.is_empty() && found.left.is_none() {
        rest.push(String::from(
            "Nothing in the program keeps more than parameters, gradients and optimizer state.",
        ));
    }
    if let Some(left) = &found.left {
        rest.push(format!("Not all was searched: {left}."));
    }
    for words in rest {
        lines.extend(indented(
            "  ",
            paragraph::text(&words, width.saturating_sub(2), Tone::Dim),
        ));
    }
    lines
}

fn of_retainer(retainer: &Retainer, width: u16, glyphs: &'static Glyphs) -> Vec<StyledLine> {
    let room = width.saturating_sub(FIGURE);
    let words = glyphs.spelled(&retainer.words());
    let mut lines = paragraph::text(&words, room, Tone::Text);
    let arrow = glyphs.arrow_keys[2];
    let mut more = Vec::new();
    if retainer.graph > Bytes::ZERO {
        more.push(format!("{} of it in autograd graphs", retainer.graph));
    }
    if !retainer.above.is_empty() {
        more.push(format!("{arrow} {}", retainer.levels(arrow)));
    }
    let more = glyphs.spelled(&more.join("  "));
    lines.extend(paragraph::text(&more, room, Tone::Dim));
    let mut placed = Vec::new();
    for (row, line) in lines.into_iter().enumerate() {
        let lead = match row {
            0 => format!("{:>9} ", retainer.bytes.to_string()),
            _ => " ".repeat(usize::from(FIGURE)),
        };
        placed.push(line.behind(&lead, Tone::Strong));
    }
    placed
}

/// What is kept alive and below it what grew, where no step was traced.
pub(super) fn untraced(
    view: &View,
    scene: &Scene,
    width: u16,
    glyphs: &'static Glyphs,
) -> Vec<StyledLine> {
    let mut lines = kept_alive(view, scene, width, glyphs);
    lines.extend(grew(view, scene, glyphs));
    lines
}

/// By line and by module: from the traced steps, or else from the sums that came with a search.
fn grew(view: &View, scene: &Scene, glyphs: &'static Glyphs) -> Vec<StyledLine> {
    let found = choice::retainers(view, scene);
    let run = choice::process(view, scene).map(|(run, _)| run);
    let text_of = |line: &SourceLine| run?.source.of(line).map(String::from);
    // The sums of a search, or else of the OOM.
    let of_search = found.map(|(_, found)| found.growing.as_slice());
    let record = run.and_then(Run::oom).and_then(|oom| oom.record.as_ref());
    let of_oom = record.map(|record| record.growing.as_slice());
    let sums = [of_search, of_oom].into_iter().flatten();
    let sums = sums.into_iter().find(|growing| !growing.is_empty());
    let lines = match (&view.growth, sums) {
        (Some(growth), _) => of_steps(growth, text_of),
        (None, Some(growing)) => of_sums(growing, text_of),
        (None, None) if choice::is_traced(view, scene) => {
            return vec![StyledLine::of(
                " Nothing grows from step to step.",
                Tone::Dim,
            )];
        }
        // No step was traced, so nothing is known of growth.
        (None, None) => return Vec::new(),
    };
    let mut styled = Vec::new();
    for row in lines {
        styled.push(match row {
            GrowthRow::Title(by) => {
                let title = format!("   a step     in all  {by}");
                StyledLine::of(glyphs.spelled(&title), Tone::Dim)
            }
            GrowthRow::Grown {
                per_step,
                bytes,
                by,
                text,
            } => {
                let figures = format!("{:>9} {:>9}  ", format!("+{per_step}"), bytes.to_string());
                let mut line = StyledLine::of(glyphs.spelled(&by), Tone::Text);
                if let Some(text) = text {
                    line.push(format!("  {}", glyphs.spelled(&text)), Tone::Dim);
                }
                line.behind(&figures, Tone::Text)
            }
        });
    }
    styled
}

enum GrowthRow {
    Title(String),
    Grown {
        per_step: Bytes,
        bytes: Bytes,
        by: String,
        text: Option<String>,
    },
}

fn of_steps(
    growth: &StepGrowth,
    text_of: impl Fn(&SourceLine) -> Option<String>,
) -> Vec<GrowthRow> {
    let since = match growth.steps() {
        1 => format!("in step {}", growth.from),
        _ => format!("steps {}–{}", growth.from, growth.to),
    };
    let mut rows = vec![GrowthRow::Title(format!("grew by line, {since}"))];
    rows.extend(growth.lines.iter().map(|of| GrowthRow::Grown {
        per_step: growth.each_step(of.bytes),
        bytes: of.bytes,
        by: (of.line.as_ref()).map_or("line not known".into(), |line| line.path_to(None, "")),
        text: of.line.as_ref().and_then(&text_of),
    }));
    if growth.modules.is_empty() {
        return rows;
    }
    rows.push(GrowthRow::Title("grew by module".into()));
    rows.extend(growth.modules.iter().map(|of| GrowthRow::Grown {
        per_step: growth.each_step(of.bytes),
        bytes: of.bytes,
        by: (of.module.clone()).unwrap_or_else(|| "outside of modules".into()),
        text: None,
    }));
    rows
}

fn of_sums(
    growing: &[GrowingLine],
    text_of: impl Fn(&SourceLine) -> Option<String>,
) -> Vec<GrowthRow> {
    let since = growing.first();
    let since = since.map_or(String::new(), |line| {
        format!(", steps {}–{}", line.from_step, line.to_step)
    });
    let mut rows = vec![GrowthRow::Title(format!("grew by line{since}"))];
    rows.extend(growing.iter().map(|of| GrowthRow::Grown {
        per_step: of.per_step,
        bytes: of.bytes,
        by: of.line.path_to(None, ""),
        text: text_of(&of.line),
    }));
    rows
}

fn indented(by: &str, lines: Vec<StyledLine>) -> Vec<StyledLine> {
    let lines = lines.into_iter();
    lines.map(|line| line.behind(by, Tone::Text)).collect()
}

fn lines(canvas: &mut Canvas, lines: &[StyledLine]) {
    for (row, line) in (0..canvas.area.height).zip(lines) {
        line.draw(canvas, row);
    }
}
