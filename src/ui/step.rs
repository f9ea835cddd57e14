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
mod holdings;
pub(super) mod layout;
pub(super) mod traced;

use super::canvas::{self, Canvas, StyledLine, columns as width_of};
use super::chart as run_chart;
use super::scene::Scene;
use super::theme::{Glyphs, Tone};
use super::view::View;
use super::words::{count, rank_name};
use crate::anatomy::StepGrowth;
use crate::diagnosis::{Cause, Finding, GrownSoFar};
use crate::document;
use crate::event::{GrowingLine, Retainer, Retainers, SourceLine};
use crate::state::{RankState, Run, SourceTexts};
use crate::units::{Bytes, Moment, clock_face};
use ratatui::layout::Rect;
use traced::{Grouping, ReadStep, StepView};

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
        StepView::Failed(key) => return failed::draw(canvas, *key, view, scene),
    };
    let layout = layout::arrange(canvas.area, read.grouping);
    if read.grouping == Grouping::Growth {
        growth_head(&mut canvas.at(layout.head), view, scene);
        let below = layout.below();
        let taken = draw_growth(&mut canvas.at(below), view, scene);
        return draw_run_below(&mut canvas.at(below), taken, view, scene);
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
            draw_growth(canvas, view, scene);
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
            let rows = growth_lines(view, scene, width, glyphs).len();
            1 + rows as u16
        }
        // Which step it is, and the titles of the columns.
        Grouping::Lines | Grouping::Modules => {
            let beside = match width >= BESIDE {
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

/// Who keeps memory alive, where no step was traced.
fn untraced(canvas: &mut Canvas, view: &View, scene: &Scene, first: u16) {
    let glyphs = canvas.theme.glyphs;
    let width = canvas.area.width.saturating_sub(2).min(WIDEST);
    let lines = growth_lines(view, scene, width, glyphs);
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

/// Of what stays between steps: how far the run has come, beside which the steps stand that what is below was seen at.
fn growth_head(canvas: &mut Canvas, view: &View, scene: &Scene) {
    let process = choice::process(view, scene);
    let now = process.map(
        |(run, rank)| match run.oom().and_then(|oom| oom.record.as_ref()) {
            Some(record) => {
                let words = format!("memory ran out in step {}", count(record.step + 1));
                (words, Tone::Wrong)
            }
            None if run.ended.is_some() => (
                format!("{} steps ended", count(rank.steps.count)),
                Tone::Text,
            ),
            None => (
                format!("now step {}", count(rank.steps.count + 1)),
                Tone::Text,
            ),
        },
    );
    let title = (String::from("what stays between steps"), Tone::Strong);
    facts_on_a_rule(canvas, [Some(title), now].into_iter().flatten());
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

/// From this width on the two stand side by side.
const BESIDE: u16 = 110;

/// Rows that what grew keeps, where both stand on each other and this many are there.
const GREW: u16 = 3;
const ROWS_FOR_BOTH: u16 = 8;

/// Columns of what is kept alive, and of what grew: beside it, or below it.
fn growth_widths(width: u16) -> (u16, u16) {
    match width >= BESIDE {
        true => {
            let left = width * 11 / 20;
            (left.saturating_sub(3), width - left)
        }
        false => (width.saturating_sub(3), width),
    }
}

/// Rows of the run's chart with its head, at the least and at the most.
const RUN_CHART: std::ops::RangeInclusive<u16> = 8..=20;

/// The run's own curve, where the list leaves rows: how it grew.
fn draw_run_below(canvas: &mut Canvas, taken: u16, view: &View, scene: &Scene) {
    let area = canvas.area;
    let left = area.height.saturating_sub(taken.saturating_add(1));
    let Some(device) = view
        .device(scene.state)
        .filter(|_| left >= *RUN_CHART.start())
    else {
        return;
    };
    let height = left.min(*RUN_CHART.end());
    let below = Rect {
        y: area.y + taken + 1,
        height,
        ..area
    };
    let mut below = canvas.at(below);
    let mut inside = below.below_head(&[("memory of the run", Tone::Strong)]);
    let choice = run_chart::Choice {
        time: &view.time,
        height: view.height,
        compared: None,
    };
    run_chart::draw(&mut inside, scene.state, device, &choice);
}

/// Returns the rows that it took.
fn draw_growth(canvas: &mut Canvas, view: &View, scene: &Scene) -> u16 {
    let area = canvas.area;
    let glyphs = canvas.theme.glyphs;
    // On each other nothing is wrapped for want of columns.
    let all = growth_lines(view, scene, area.width, glyphs);
    if all.len() <= usize::from(area.height) {
        lines(canvas, &all);
        return all.len() as u16;
    }
    let (left, right) = growth_widths(area.width);
    let kept = kept_alive(view, scene, left, glyphs);
    if area.width >= BESIDE {
        let width = area.width - right;
        lines(&mut canvas.at(Rect { width, ..area }), &kept);
        let right = Rect {
            x: area.x + width,
            width: area.width - width,
            ..area
        };
        let grew = grew(view, scene, right.width, canvas.theme.glyphs);
        lines(&mut canvas.at(right), &grew);
        return area.height;
    }
    let mut grew = grew(view, scene, area.width, canvas.theme.glyphs);
    if grew.len() + kept.len() > usize::from(area.height) {
        grew = self::grew(view, scene, u16::MAX, canvas.theme.glyphs);
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
    area.height
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
            "Looking for what keeps memory alive: when this step ends, at the latest in 5 s. The training waits for up to 1 s, \
             and, if that is too short, once more for up to 3 s."
        }
        (None, Some((_, found))) => return of_search(found, width, glyphs),
        (None, None) if choice::askable(view, scene).is_some() => {
            "Who keeps memory alive has not been looked for: w does it at the end of this step. The training \
             waits meanwhile, mostly below a second."
        }
        (None, None) => {
            "Who keeps memory alive has not been looked for: that is done when memory runs out, and on a key \
             while the training runs."
        }
    };
    let mut lines = vec![StyledLine::of(" kept alive by", Tone::Dim)];
    lines.extend(indented(
        "  ",
        canvas::text(said, width.saturating_sub(2), Tone::Text),
    ));
    // What was found before holds until there is something new.
    if let Some((_, before)) = found {
        lines.extend(of_search(before, width, glyphs));
    }
    lines
}

fn of_search(found: &Retainers, width: u16, glyphs: &'static Glyphs) -> Vec<StyledLine> {
    let took = found.micros as f64 / 1e6;
    let title = format!(
        " kept alive by (seen after step {}){}found in {took:.1} s",
        count(found.step),
        glyphs.separator
    );
    let mut lines = vec![StyledLine::of(title, Tone::Text)];
    let (kept, graphs) = document::by_lifetime(found);
    for retainer in &kept {
        lines.extend(of_retainer(retainer, width, glyphs));
    }
    if !graphs.is_empty() {
        let title = " kept for the running step's backward pass by, which is no leak";
        lines.push(StyledLine::of(title, Tone::Dim));
    }
    for retainer in &graphs {
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
            canvas::text(&words, width.saturating_sub(2), Tone::Dim),
        ));
    }
    lines
}

fn of_retainer(retainer: &Retainer, width: u16, glyphs: &'static Glyphs) -> Vec<StyledLine> {
    let amount = format!("{:>9} ", glyphs.spelled(&retainer.amount()));
    let figure = width_of(&amount);
    let room = width.saturating_sub(figure);
    let words = glyphs.spelled(&retainer.words());
    let mut lines = canvas::text(&words, room, Tone::Text);
    let arrow = glyphs.arrow_keys[2];
    let mut more = Vec::new();
    if retainer.graph > Bytes::ZERO {
        more.push(format!("{} of it in autograd graphs", retainer.graph));
    }
    if !retainer.above.is_empty() {
        more.push(format!("{arrow} {}", retainer.levels(arrow)));
    }
    let more = glyphs.spelled(&more.join("  "));
    lines.extend(canvas::text(&more, room, Tone::Dim));
    let mut placed = Vec::new();
    for (row, line) in lines.into_iter().enumerate() {
        let lead = match row {
            0 => amount.clone(),
            _ => " ".repeat(usize::from(figure)),
        };
        placed.push(line.behind(&lead, Tone::Strong));
    }
    placed
}

/// What is kept alive, and below it what grew.
fn growth_lines(
    view: &View,
    scene: &Scene,
    width: u16,
    glyphs: &'static Glyphs,
) -> Vec<StyledLine> {
    let mut lines: Vec<StyledLine> = leaked(view, scene)
        .map(|sum| StyledLine::of(glyphs.spelled(&format!(" {sum}")), Tone::Strong))
        .into_iter()
        .collect();
    lines.extend(kept_alive(view, scene, width.saturating_sub(3), glyphs));
    lines.extend(grew(view, scene, width, glyphs));
    lines
}

/// What leaks, in one sum: of an OOM that of its cause.
fn leaked(view: &View, scene: &Scene) -> Option<String> {
    let is_leak = |finding: &&Finding| finding.cause == Cause::Leak;
    if let Some(finding) = scene.findings.iter().find(is_leak) {
        return Some(finding.headline.to_string());
    }
    Some(format!("grows: {}", grown(view, scene)?.sum()))
}

/// Whether what stays between steps grows, or grew in a run that has ended.
fn is_growing(view: &View, scene: &Scene) -> bool {
    grown(view, scene).is_some()
}

/// How much has grown in the first process that does.
fn grown(view: &View, scene: &Scene) -> Option<GrownSoFar> {
    let mut ranks = scene.state.run()?.ranks.iter();
    let capacity = |rank: &RankState| scene.state.device(rank.device.as_ref()?)?.capacity;
    ranks.find_map(|rank| {
        let growth = view.fitted.growth(rank, capacity(rank))?;
        Some(growth.so_far(&rank.steps))
    })
}

/// By line and by module: from the traced steps, or else from the sums that came with a search.
fn grew(view: &View, scene: &Scene, width: u16, glyphs: &'static Glyphs) -> Vec<StyledLine> {
    let found = choice::retainers(view, scene);
    let run = choice::process(view, scene).map(|(run, _)| run);
    let text_of = |line: &SourceLine| run?.source.of(line).map(String::from);
    // The sums of a search, or else of the OOM.
    let of_search = found.map(|(_, found)| found.growing.as_slice());
    let record = run.and_then(Run::oom).and_then(|oom| oom.record.as_ref());
    let of_oom = record.map(|record| record.growing.as_slice());
    let sums = [of_search, of_oom].into_iter().flatten();
    let sums = sums.into_iter().find(|growing| !growing.is_empty());
    // One figure: what reaches the later step.
    let last_of_sums = sums.and_then(|growing| Some(growing.first()?.to_step));
    let traced = view.growth.as_ref();
    let traced = traced.filter(|growth| last_of_sums.is_none_or(|last| last <= growth.to));
    let lines = match (traced, sums) {
        (Some(growth), _) => of_steps(growth, text_of),
        (None, Some(growing)) => of_sums(growing, text_of),
        (None, None) if choice::is_traced(view, scene) => {
            let words = match is_growing(view, scene) {
                true if scene.state.run().is_some_and(|run| run.ended.is_some()) => {
                    " Memory grew; of which lines is not known: too few steps were traced."
                }
                true => " Memory grows; which lines do is known once a later step is traced.",
                false => " Nothing grows from step to step.",
            };
            return vec![StyledLine::of(words, Tone::Dim)];
        }
        // No step was traced, so nothing is known of growth.
        (None, None) => return Vec::new(),
    };
    let lines = lines.into_iter();
    lines.flat_map(|row| row.styled(width, glyphs)).collect()
}

enum GrowthRow {
    Title(String),
    Grown {
        per_step: Bytes,
        by: String,
        text: Option<String>,
    },
}

impl GrowthRow {
    /// What the line says goes on below where it has no room beside it.
    fn styled(self, width: u16, glyphs: &'static Glyphs) -> Vec<StyledLine> {
        let (per_step, by, text) = match self {
            GrowthRow::Title(by) => {
                let title = format!("   a step  {by}");
                return vec![StyledLine::of(glyphs.spelled(&title), Tone::Dim)];
            }
            GrowthRow::Grown { per_step, by, text } => (per_step, by, text),
        };
        let figures = format!("{:>9}  ", format!("+{per_step}"));
        let by = glyphs.spelled(&by);
        let text = text.map(|text| glyphs.spelled(&text)).unwrap_or_default();
        let before = width_of(&figures);
        let is_beside = before + width_of(&by) + 2 + width_of(&text) <= width;
        let mut line = StyledLine::of(by, Tone::Text);
        if is_beside && !text.is_empty() {
            line.push(format!("  {text}"), Tone::Dim);
        }
        let mut lines = vec![line.behind(&figures, Tone::Text)];
        if !is_beside && !text.is_empty() {
            let blank = " ".repeat(usize::from(before) + 2);
            let room = width.saturating_sub(before + 2);
            lines.extend(indented(&blank, canvas::text(&text, room, Tone::Dim)));
        }
        lines
    }
}

fn of_steps(
    growth: &StepGrowth,
    text_of: impl Fn(&SourceLine) -> Option<String>,
) -> Vec<GrowthRow> {
    let since = match growth.steps() {
        1 => format!("in step {}", growth.from),
        _ => format!("in steps {}–{}", growth.from, growth.to),
    };
    let mut rows = vec![GrowthRow::Title(format!("by line, seen {since}"))];
    rows.extend(growth.lines.iter().map(|of| GrowthRow::Grown {
        per_step: growth.each_step(of.bytes),
        by: (of.line.as_ref()).map_or("line not known".into(), |line| line.path_to(None, "")),
        text: of.line.as_ref().and_then(&text_of),
    }));
    if growth.modules.is_empty() {
        return rows;
    }
    rows.push(GrowthRow::Title("by module".into()));
    rows.extend(growth.modules.iter().map(|of| GrowthRow::Grown {
        per_step: growth.each_step(of.bytes),
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
        format!(", seen in steps {}–{}", line.from_step, line.to_step)
    });
    let mut rows = vec![GrowthRow::Title(format!("by line{since}"))];
    rows.extend(growing.iter().map(|of| GrowthRow::Grown {
        per_step: of.per_step,
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
