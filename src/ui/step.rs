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
//! ─ at the peak · 41.2 GiB in backward · alloc/free 1,022 of 2,480 ──
//! activations  30.1 GiB ██████     18.2 GiB ████ activations  96  train.py:41 forward
//! ```

pub(super) mod chart;
pub(super) mod choice;
mod failed;
mod flame;
mod flame_place;
mod growth;
mod holdings;
pub(super) mod layout;
pub(super) mod traced;

use super::canvas::{self, Canvas, columns as width_of};
use super::scene::Scene;
use super::theme::Tone;
use super::view::View;
use super::words::{count, rank_name};
use crate::state::{RankState, SourceTexts};
use crate::units::{Moment, clock_face};
use traced::{Grouping, ReadStep, StepView};

/// Sentences longer than this are tiring to read.
const WIDEST: u16 = 100;

/// Draws the view instead of chart and panes.
pub(super) fn draw(canvas: &mut Canvas, open: &StepView, view: &View, scene: &Scene) {
    let read = match open {
        StepView::Read(read) => read,
        StepView::Nothing => {
            let below = sentence(canvas, &choice::why_none(view, scene.state));
            return growth::draw_untraced(canvas, view, scene, below);
        }
        StepView::Unreadable(key) => {
            let text = format!(
                "Step {} was traced, but what the recording has of it cannot be read.",
                key.step
            );
            sentence(canvas, &text);
            return;
        }
        StepView::Failed(key) => return failed::draw(canvas, *key, view, scene),
    };
    let layout = layout::arrange(canvas.area, read.grouping);
    if read.grouping == Grouping::Growth {
        growth::draw_head(&mut canvas.at(layout.head), view, scene);
        let below = layout.below();
        let taken = growth::draw_growth(&mut canvas.at(below), view, scene);
        return growth::draw_run_below(&mut canvas.at(below), taken, view, scene);
    }
    title(&mut canvas.at(layout.title), read, view, scene);
    chart::draw(canvas, &layout, read);
    head(&mut canvas.at(layout.head), read);
    if read.grouping == Grouping::Flame {
        return flame::draw_with_modules(&mut canvas.at(layout.below()), read);
    }
    if let Some(area) = layout.bars {
        holdings::draw_categories(&mut canvas.at(area), read);
    }
    let source = source(read, scene);
    holdings::draw_table(
        &mut canvas.at(layout.table),
        read,
        source,
        Some(read.selected),
    );
    if let Some(area) = layout.flame {
        let title = match read.modules.is_empty() {
            true => "lines, as a flame graph",
            false => "modules, as a flame graph",
        };
        flame::draw(&mut canvas.at(area).below_head(&[(title, Tone::Dim)]), read);
    }
    if read.row_is_open {
        holdings::draw_row(canvas, read, source);
    }
}

/// Which step the pane shows, in its first row where there is one: returns how many rows that took.
pub(super) fn draw_which(canvas: &mut Canvas, view: &View, scene: &Scene) -> u16 {
    let Some(read) = view.peak.as_ref().and_then(StepView::read) else {
        return 0;
    };
    if canvas.area.height < 2 {
        return 0;
    }
    let run = scene.state.run_numbered(read.key.run);
    let rank = run.and_then(|run| run.rank_with(read.key.pid));
    let peak = format!(
        "peak {}{}",
        read.anatomy.allocated[read.peak],
        read.anatomy.in_phase(read.peak)
    );
    let later = choice::untraced(scene).filter(|(key, _)| key.run == read.key.run);
    let later = later.map(|(key, _)| {
        let words = format!("{} ran out of memory: s", count(key.step));
        (words, Tone::Warning)
    });
    let step = format!("step {}", count(read.key.step));
    let failed = read.anatomy.failed;
    let facts = [(step, Tone::Strong)]
        .into_iter()
        .chain(failed.then(|| (String::from("out of memory"), Tone::Wrong)))
        .chain(later)
        .chain([(peak, Tone::Text)])
        .chain(rank.and_then(|rank| higher_peak(read, rank)));
    let separator = canvas.theme.glyphs.separator;
    let fitting = fitting(facts, separator, canvas.area.width.saturating_sub(1));
    let mut pen = canvas.pen(0);
    pen.skip(1);
    for (text, tone) in fitting {
        pen.text(&text, tone);
    }
    1
}

/// What is alive at the peak of the last traced step, in a pane, grouped as the full view last was.
pub(super) fn draw_peak(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let Some(read) = view.peak.as_ref().and_then(StepView::read) else {
        words(canvas, 0, &choice::why_none(view, scene.state));
        return;
    };
    match read.grouping {
        Grouping::Flame => {
            flame::draw(canvas, read);
            return;
        }
        Grouping::Growth => {
            growth::draw_growth(canvas, view, scene);
            return;
        }
        Grouping::Lines | Grouping::Modules => {}
    }
    let (bars, table) = layout::beside(canvas.area);
    if let Some(area) = bars {
        holdings::draw_categories(&mut canvas.at(area), read);
    }
    holdings::draw_table(&mut canvas.at(table), read, source(read, scene), None);
}

/// Rows of the pane with all of that.
pub(super) fn rows_of_peak(view: &View, scene: &Scene, width: u16) -> u16 {
    let Some(read) = view.peak.as_ref().and_then(StepView::read) else {
        return u16::MAX;
    };
    match read.grouping {
        Grouping::Flame => u16::MAX,
        Grouping::Growth => {
            let glyphs = view.theme.glyphs;
            let rows = growth::growth_lines(view, scene, width, glyphs).len();
            1 + rows as u16
        }
        // Which step it is, and the titles of the columns.
        Grouping::Lines | Grouping::Modules => {
            let beside = match width >= growth::BESIDE {
                true => holdings::category_rows(read),
                false => 0,
            };
            2 + read.rows().max(beside) as u16
        }
    }
}

/// What the lines of the step's run say.
fn source<'a>(read: &ReadStep, scene: &Scene<'a>) -> Option<&'a SourceTexts> {
    let run = scene.state.run_numbered(read.key.run)?;
    Some(&run.source)
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
    let lines = canvas::text(&text, width, Tone::Text);
    for (row, line) in (first..).zip(&lines) {
        line.draw(&mut inside, row);
    }
    first.saturating_add(lines.len() as u16)
}

/// So many steps behind it a traced one is said not to be the current one.
const WELL_BEYOND: u64 = 10;

/// `step 3 of rank 0 · peak 41.2 GiB in backward · 1,240 allocations`.
fn title(canvas: &mut Canvas, read: &ReadStep, view: &View, scene: &Scene) {
    let anatomy = &read.anatomy;
    let mut runs = scene.state.runs.iter();
    let run = runs.find(|run| run.number == read.key.run);
    let of = run.and_then(|run| rank_name(run, run.rank_with(read.key.pid)?));
    let of = of.map_or(String::new(), |name| format!(" of {name}"));
    let step = (format!("step {}{of}", count(read.key.step)), Tone::Strong);
    let failed = anatomy.failed;
    let failed = failed.then(|| (String::from("out of memory"), Tone::Wrong));
    let peak = anatomy.allocated[read.peak];
    let counted = run
        .and_then(|run| {
            run.rank_with(read.key.pid)?
                .counted_peak(read.key.step, peak)
        })
        .map_or(String::new(), |counted| {
            format!(" ({counted} counted by PyTorch)")
        });
    let peak = format!("peak {peak}{}{counted}", anatomy.in_phase(read.peak));
    let made = format!("{} allocations", count(read.allocations as u64));
    // Only where the keys of the step are.
    let newer = view
        .step
        .is_some()
        .then(|| choice::newer(view, scene))
        .flatten();
    let newer = newer.map(|step| {
        (
            format!("] shows step {}, which is newer", count(step)),
            Tone::Warning,
        )
    });
    let is_open = view.step.is_some();
    let untraced = is_open
        .then(|| choice::untraced_failure(view, scene))
        .flatten();
    let untraced = untraced.map(|key| {
        let words = format!("] shows step {}, which ran out of memory", count(key.step));
        (words, Tone::Warning)
    });
    let rank = run.and_then(|run| run.rank_with(read.key.pid));
    let is_latest = is_open
        && newer.is_none()
        && untraced.is_none()
        && run.is_some_and(|run| run.ended.is_none());
    let can_trace = choice::askable(view, scene).is_some();
    let is_asked = is_latest && choice::is_tracing(view, scene);
    let behind = rank
        .filter(|_| is_latest)
        .and_then(|rank| steps_behind(read, rank, scene.state.now, is_asked, can_trace));
    // That it is not the step of the peak comes before all that is said of it.
    let higher = rank.and_then(|rank| higher_peak(read, rank));
    let facts = [step]
        .into_iter()
        .chain(higher)
        .chain(behind)
        .chain(failed)
        .chain(untraced)
        .chain(newer)
        .chain([(peak, Tone::Text), (made, Tone::Dim)]);
    facts_on_a_rule(canvas, facts);
}

/// How old the latest traced step is, where the run is well beyond it, and what shows a newer one.
fn steps_behind(
    read: &ReadStep,
    rank: &RankState,
    now: Moment,
    is_asked: bool,
    can_trace: bool,
) -> Option<(String, Tone)> {
    if is_asked {
        return Some((String::from("tracing the next step"), Tone::Accent));
    }
    let behind = rank.steps.count.checked_sub(read.key.step)?;
    if behind < WELL_BEYOND {
        return None;
    }
    // Of steps long ago marks are dropped.
    let near = read.key.step..read.key.step + WELL_BEYOND;
    let marks = rank.steps.marks.ended.iter();
    let ended = marks
        .filter(|mark| near.contains(&mark.count))
        .map(|mark| mark.at)
        .min();
    let ago = ended.map_or(String::new(), |at| {
        format!(" ({} ago)", clock_face(now.since(at)))
    });
    let key = match can_trace {
        true => ": n traces the next",
        false => ", the latest traced",
    };
    let words = format!("{} steps old{ago}{key}", count(behind));
    Some((words, Tone::Warning))
}

/// The process's peak, if another step's is well above that of the one that is shown.
pub(super) fn higher_peak(read: &ReadStep, rank: &RankState) -> Option<(String, Tone)> {
    let shown = read.anatomy.allocated[read.peak];
    let (peak, step) = rank.higher_peak_than(read.key.step, shown)?;
    let at = step.map_or(String::new(), |step| format!(", in step {}", count(step)));
    let words = format!("the run peaked at {peak}{at}");
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
        0 => String::from("before the first allocation"),
        cursor => format!(
            "alloc/free {} of {}",
            count(cursor as u64),
            count(end as u64)
        ),
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
    let fitting = fitting(facts, separator, canvas.area.width.saturating_sub(4));
    let title: Vec<(&str, Tone)> = fitting
        .iter()
        .map(|(text, tone)| (text.as_str(), *tone))
        .collect();
    canvas.below_head(&title);
}

/// As many facts as there is room for, with what separates them.
fn fitting(
    facts: impl IntoIterator<Item = (String, Tone)>,
    separator: &str,
    mut room: u16,
) -> Vec<(String, Tone)> {
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
    fitting
}
