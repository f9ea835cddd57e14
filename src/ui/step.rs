//! What a traced step is made of, on the whole screen: what is allocated over its events, where it
//! peaks, and at the cursor which categories and which lines hold the memory.
//!
//! ```text
//! ─ step 3 of rank 0 · peak 41.2 GiB in backward · 1,240 allocations ──
//!               ▼ peak 41.2 GiB
//! 40 ┤        ▂▄▆█▅▃▂
//! 20 ┤   ▂▄▆██████████▆▄▂
//!  0 ┤████████████████████████████
//!    └─ forward ──┴─ backward ──┴─ optimizer ──
//! ─ at the peak · 41.2 GiB in backward · event 1,022 of 2,480 ──
//! activations  30.1 GiB ██████     18.2 GiB ████ activations  96  train.py:41 forward
//! ```

pub(super) mod chart;
pub(super) mod choice;
mod growth;
mod holdings;
pub(super) mod layout;
pub(super) mod traced;

use super::canvas::Canvas;
use super::paragraph;
use super::scene::Scene;
use super::theme::Tone;
use super::view::View;
use super::words::rank_name;
use crate::state::{RankState, SourceTexts};
use crate::ui::canvas::columns as width_of;
use crate::ui::step::traced::{Grouping, ReadStep, StepView};
use crate::ui::words::count;

/// A peak above that of the step by this factor is another one.
const WELL_ABOVE: f64 = 1.05;

/// Sentences longer than this are tiring to read.
const WIDEST: u16 = 100;

/// Draws the view instead of chart and panes.
pub(super) fn draw(canvas: &mut Canvas, open: &StepView, view: &View, scene: &Scene) {
    let read = match open {
        StepView::Read(read) => read,
        StepView::Nothing => {
            let below = sentence(canvas, &choice::why_none(view, scene.state));
            return untraced(canvas, view, scene, below);
        }
        StepView::Unreadable(key) => {
            let text = format!(
                "Step {} was traced, but what the recording has of it cannot be read.",
                key.step
            );
            sentence(canvas, &text);
            return;
        }
    };
    let layout = layout::arrange(canvas.area);
    title(&mut canvas.at(layout.title), read, scene);
    chart::draw(canvas, &layout, read);
    head(&mut canvas.at(layout.head), read);
    match read.grouping {
        Grouping::Flame => return holdings::draw_flame(&mut canvas.at(layout.below()), read),
        Grouping::Growth => return growth::draw(&mut canvas.at(layout.below()), view, scene),
        Grouping::Lines | Grouping::Modules => {}
    }
    if let Some(area) = layout.bars {
        holdings::draw_categories(&mut canvas.at(area), read);
    }
    holdings::draw_table(&mut canvas.at(layout.table), read, source(read, scene));
    if let Some(area) = layout.flame {
        let title = match read.modules.is_empty() {
            true => "lines, as a flame graph",
            false => "modules, as a flame graph",
        };
        holdings::draw_flame(&mut canvas.at(area).below_head(&[(title, Tone::Dim)]), read);
    }
}

/// What is alive at the peak of the last traced step, in a pane, grouped as the full view last was.
pub(super) fn draw_peak(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let Some(read) = view.peak.as_ref().and_then(StepView::read) else {
        words(canvas, 0, &choice::why_none(view, scene.state));
        return;
    };
    match read.grouping {
        Grouping::Flame => return holdings::draw_flame(canvas, read),
        Grouping::Growth => return growth::draw(canvas, view, scene),
        Grouping::Lines | Grouping::Modules => {}
    }
    let (bars, table) = layout::beside(canvas.area);
    if let Some(area) = bars {
        holdings::draw_categories(&mut canvas.at(area), read);
    }
    holdings::draw_table(&mut canvas.at(table), read, source(read, scene));
}

/// What the lines of the step's run say.
fn source<'a>(read: &ReadStep, scene: &Scene<'a>) -> Option<&'a SourceTexts> {
    let run = scene.state.run_numbered(read.key.run)?;
    Some(&run.source)
}

/// Who keeps memory alive, where no step was traced.
fn untraced(canvas: &mut Canvas, view: &View, scene: &Scene, first: u16) {
    let glyphs = canvas.theme.glyphs;
    let width = canvas.area.width.saturating_sub(2).min(WIDEST);
    let lines = growth::untraced(view, scene, width, glyphs);
    for (row, line) in (first..canvas.area.height).zip(lines) {
        line.draw(canvas, row);
    }
}

/// Why there is nothing to see; returns the row below.
fn sentence(canvas: &mut Canvas, text: &str) -> u16 {
    let mut inside = canvas.below_head(&[("what a step is made of", Tone::Strong)]);
    1 + words(&mut inside, 1, text)
}

fn words(canvas: &mut Canvas, first: u16, text: &str) -> u16 {
    let mut inside = canvas.at(canvas.area);
    let width = inside.area.width.saturating_sub(2).min(WIDEST);
    let text = inside.theme.glyphs.spelled(text);
    inside.area.x += 1;
    inside.area.width = inside.area.width.saturating_sub(1);
    let lines = paragraph::text(&text, width, Tone::Text);
    for (row, line) in (first..).zip(&lines) {
        line.draw(&mut inside, row);
    }
    first.saturating_add(lines.len() as u16)
}

/// `step 3 of rank 0 · peak 41.2 GiB in backward · 1,240 allocations`.
fn title(canvas: &mut Canvas, read: &ReadStep, scene: &Scene) {
    let anatomy = &read.anatomy;
    let mut runs = scene.state.runs.iter();
    let run = runs.find(|run| run.number == read.key.run);
    let of = run.and_then(|run| rank_name(run, run.rank_with(read.key.pid)?));
    let of = of.map_or(String::new(), |name| format!(" of {name}"));
    let step = (format!("step {}{of}", count(read.key.step)), Tone::Strong);
    let failed = anatomy.failed;
    let failed = failed.then(|| (String::from("out of memory"), Tone::Wrong));
    let peak = anatomy.allocated[read.peak];
    let peak = format!("peak {peak}{}", anatomy.in_phase(read.peak));
    let made = format!("{} allocations", count(read.allocations as u64));
    let before = [step].into_iter().chain(failed).chain([(peak, Tone::Text)]);
    let rank = run.and_then(|run| run.rank_with(read.key.pid));
    let higher = rank.and_then(|rank| higher_peak(read, rank));
    let facts = before.chain(higher).chain([(made, Tone::Dim)]);
    facts_on_a_rule(canvas, facts);
}

/// The process's peak, if another step's is well above that of the one that is shown.
fn higher_peak(read: &ReadStep, rank: &RankState) -> Option<(String, Tone)> {
    let shown = read.anatomy.allocated[read.peak];
    let peak = rank.allocated_peak;
    if peak <= shown.scale(WELL_ABOVE) || rank.peak_step == Some(read.key.step) {
        return None;
    }
    let at = rank
        .peak_step
        .map(|step| format!(" at step {}", count(step)));
    let words = format!("the run peaks at {peak}{}", at.unwrap_or_default());
    Some((words, Tone::Warning))
}

/// Where the cursor is.
fn head(canvas: &mut Canvas, read: &ReadStep) {
    let anatomy = &read.anatomy;
    let end = anatomy.end();
    let place = match (read.cursor == read.peak, read.cursor == end) {
        (true, _) => "at the peak",
        (false, true) if anatomy.failed => "where memory ran out",
        (false, _) => "at the cursor",
    };
    let bytes = read.at_cursor();
    let phase = anatomy.in_phase(read.cursor);
    let event = match read.cursor {
        0 => String::from("before the first event"),
        cursor => format!("event {} of {}", count(cursor as u64), count(end as u64)),
    };
    let facts = [
        (String::from(place), Tone::Strong),
        (format!("{bytes}{phase}"), Tone::Text),
        (event, Tone::Dim),
    ];
    facts_on_a_rule(canvas, facts);
}

/// A head of as many facts as there is room for.
fn facts_on_a_rule(canvas: &mut Canvas, facts: impl IntoIterator<Item = (String, Tone)>) {
    let separator = canvas.theme.glyphs.separator;
    let mut room = canvas.area.width.saturating_sub(4);
    let mut fitting: Vec<(String, Tone)> = Vec::new();
    for (text, tone) in facts {
        let mut width = width_of(&text);
        if !fitting.is_empty() {
            width += width_of(separator);
            if width > room {
                break;
            }
            fitting.push((separator.into(), Tone::Dim));
        }
        room = room.saturating_sub(width);
        fitting.push((text, tone));
    }
    let title: Vec<(&str, Tone)> = fitting
        .iter()
        .map(|(text, tone)| (text.as_str(), *tone))
        .collect();
    canvas.below_head(&title);
}
