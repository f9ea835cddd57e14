//! What stays between steps: whether it grows, who keeps it alive, which lines and modules add to it, and the run's curve below.

use super::{WIDEST, choice, facts_on_a_rule};
use crate::anatomy::StepGrowth;
use crate::diagnosis::{Cause, Finding, GrowthVerdict};
use crate::document;
use crate::event::{GrowingLine, Retainer, Retainers, SourceLine};
use crate::state::{RankState, Run};
use crate::ui::canvas::{self, Canvas, StyledLine, columns as width_of};
use crate::ui::chart as run_chart;
use crate::ui::scene::Scene;
use crate::ui::theme::{Glyphs, Tone};
use crate::ui::view::View;
use crate::ui::words::count;
use crate::units::Bytes;
use ratatui::layout::Rect;

/// Of what stays between steps: how far the run has come, beside which the steps stand that what is below was seen at.
pub(super) fn draw_head(canvas: &mut Canvas, view: &View, scene: &Scene) {
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

/// Who keeps memory alive, where no step was traced.
pub(super) fn draw_untraced(canvas: &mut Canvas, view: &View, scene: &Scene, first: u16) {
    let glyphs = canvas.theme.glyphs;
    let width = canvas.area.width.saturating_sub(2).min(WIDEST);
    let lines = growth_lines(view, scene, width, glyphs);
    for (row, line) in (first..canvas.area.height).zip(lines) {
        line.draw(canvas, row);
    }
}

/// From this width on the two stand side by side.
pub(super) const BESIDE: u16 = 110;

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

/// Rows of the run's chart with its head, at the least.
const RUN_CHART: u16 = 8;

/// The run's own curve, where the list leaves rows: how it grew.
pub(super) fn draw_run_below(canvas: &mut Canvas, taken: u16, view: &View, scene: &Scene) {
    let area = canvas.area;
    let left = area.height.saturating_sub(taken.saturating_add(1));
    let Some(device) = view.device(scene.state).filter(|_| left >= RUN_CHART) else {
        return;
    };
    let below = Rect {
        y: area.y + taken + 1,
        height: left,
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
pub(super) fn draw_growth(canvas: &mut Canvas, view: &View, scene: &Scene) -> u16 {
    let area = canvas.area;
    let glyphs = canvas.theme.glyphs;
    // On each other nothing is wrapped for want of columns.
    let all = growth_lines(view, scene, area.width, glyphs);
    if all.len() <= usize::from(area.height) {
        lines(canvas, &all);
        return all.len() as u16;
    }
    // Whether it is a leak is never left out.
    let said = verdict_lines(view, scene, area.width, glyphs);
    lines(canvas, &said);
    let said = (said.len() as u16).min(area.height);
    let area = Rect {
        y: area.y + said,
        height: area.height - said,
        ..area
    };
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
        return canvas.area.height;
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
    canvas.area.height
}

/// What was found, or why nothing was looked for.
fn kept_alive(view: &View, scene: &Scene, width: u16, glyphs: &'static Glyphs) -> Vec<StyledLine> {
    let found = choice::retainers(view, scene);
    // No culprit is named where nothing leaks.
    let title = match leaks(view, scene) {
        true => " kept alive by",
        false => " kept alive between steps by",
    };
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
        (None, Some((_, found))) => return of_search(found, title, width, glyphs),
        (None, None) if choice::askable(view, scene).is_some() => {
            "Who keeps memory alive has not been looked for: w does it at the end of this step. The training \
             waits meanwhile, mostly below a second."
        }
        (None, None) => {
            "Who keeps memory alive has not been looked for: that is done when memory runs out, and on a key \
             while the training runs."
        }
    };
    let mut lines = vec![StyledLine::of(title, Tone::Dim)];
    lines.extend(indented(
        "  ",
        canvas::text(said, width.saturating_sub(2), Tone::Text),
    ));
    // What was found before holds until there is something new.
    if let Some((_, before)) = found {
        lines.extend(of_search(before, title, width, glyphs));
    }
    lines
}

fn of_search(
    found: &Retainers,
    title: &str,
    width: u16,
    glyphs: &'static Glyphs,
) -> Vec<StyledLine> {
    let took = found.micros as f64 / 1e6;
    let when = match found.step {
        0 => String::from("in step 1"),
        step => format!("after step {}", count(step)),
    };
    let title = format!(
        "{title} (seen {when}){}found in {took:.1} s",
        glyphs.separator
    );
    let (kept, graphs) = document::by_lifetime(found);
    if kept.is_empty() && graphs.is_empty() && !found.retainers.is_empty() {
        // A method that runs has its tensor.
        return Vec::new();
    }
    let is_whole = found.left.is_none();
    if found.retainers.is_empty() && !is_whole {
        let words = format!("{title}: nothing was found");
        let mut lines = vec![StyledLine::of(words, Tone::Text)];
        lines.extend(not_all(found, width));
        return lines;
    }
    let mut lines = vec![StyledLine::of(title, Tone::Text)];
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
    if found.retainers.is_empty() {
        let words =
            "Nothing in the program keeps more than parameters, gradients and optimizer state.";
        lines.extend(indented(
            "  ",
            canvas::text(words, width.saturating_sub(2), Tone::Dim),
        ));
    }
    lines.extend(not_all(found, width));
    lines
}

/// Why a search has not seen all.
fn not_all(found: &Retainers, width: u16) -> Vec<StyledLine> {
    let Some(left) = &found.left else {
        return Vec::new();
    };
    let words = format!("Not all was searched: {left}.");
    let text = canvas::text(&words, width.saturating_sub(2), Tone::Dim);
    indented("  ", text)
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
pub(super) fn growth_lines(
    view: &View,
    scene: &Scene,
    width: u16,
    glyphs: &'static Glyphs,
) -> Vec<StyledLine> {
    let mut lines = verdict_lines(view, scene, width, glyphs);
    lines.extend(kept_alive(view, scene, width.saturating_sub(3), glyphs));
    lines.extend(grew(view, scene, width, glyphs));
    lines
}

fn verdict_lines(
    view: &View,
    scene: &Scene,
    width: u16,
    glyphs: &'static Glyphs,
) -> Vec<StyledLine> {
    let verdict = verdict(view, scene).unwrap_or_default();
    let words = glyphs.spelled(&verdict);
    indented(
        " ",
        canvas::text(&words, width.saturating_sub(2), Tone::Strong),
    )
}

/// Whether anything grows, in one sentence: of a leak that ran out of memory that of its cause.
fn verdict(view: &View, scene: &Scene) -> Option<String> {
    let is_leak = |finding: &&Finding| finding.cause == Cause::Leak;
    let of_oom = scene.state.oom().map(|_| scene.findings);
    if let Some(finding) = of_oom.and_then(|findings| findings.iter().find(is_leak)) {
        return Some(finding.headline.to_string());
    }
    let (run, _) = choice::process(view, scene)?;
    let grows = grows(view, scene)?;
    Some(grows.words(run.ended.is_some()))
}

/// Whether what is kept alive is, or may be, a leak.
fn leaks(view: &View, scene: &Scene) -> bool {
    let is_leak = |finding: &Finding| finding.cause == Cause::Leak;
    let ran_out = scene.state.oom().is_some() && scene.findings.iter().any(is_leak);
    ran_out || matches!(grows(view, scene), Some(GrowthVerdict::Grows(_)))
}

/// Whether anything grows in the first process in which something does, or else in the one that is shown.
fn grows(view: &View, scene: &Scene) -> Option<GrowthVerdict> {
    let (run, shown) = choice::process(view, scene)?;
    let of = |rank: &RankState| {
        let device = rank.device.as_ref();
        let device = device.and_then(|uuid| scene.state.device(uuid));
        let capacity = device.and_then(|device| device.capacity);
        GrowthVerdict::new(rank, capacity, &view.fitted)
    };
    let does = |verdict: &GrowthVerdict| matches!(verdict, GrowthVerdict::Grows(_));
    let growing = run.ranks.iter().map(of).find(does);
    Some(growing.unwrap_or_else(|| of(shown)))
}

/// By line and by module: from the traced steps, or else from the sums that came with a search.
pub(super) fn grew(
    view: &View,
    scene: &Scene,
    width: u16,
    glyphs: &'static Glyphs,
) -> Vec<StyledLine> {
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
    let is_bounded = grows(view, scene).is_some_and(GrowthVerdict::is_bounded);
    let lines = match (traced, sums) {
        (Some(growth), _) => of_steps(growth, is_bounded, text_of),
        (None, Some(growing)) => of_sums(growing, is_bounded, text_of),
        (None, None) => {
            let words = match leaks(view, scene) {
                true if run.is_some_and(|run| run.ended.is_some()) => {
                    " Of which lines is not known: too few steps were traced."
                }
                true => " Which lines do is known once a later step is traced.",
                false => return Vec::new(),
            };
            return vec![StyledLine::of(words, Tone::Dim)];
        }
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

/// Behind the steps in which something was seen to grow.
fn stopped(is_bounded: bool) -> &'static str {
    match is_bounded {
        true => ", and no more since: bounded, no leak",
        false => "",
    }
}

fn of_steps(
    growth: &StepGrowth,
    is_bounded: bool,
    text_of: impl Fn(&SourceLine) -> Option<String>,
) -> Vec<GrowthRow> {
    let since = match growth.steps() {
        1 => format!("in step {}", growth.from),
        _ => format!("in steps {}–{}", growth.from, growth.to),
    };
    let mut rows = vec![GrowthRow::Title(format!(
        "by line, seen {since}{}",
        stopped(is_bounded)
    ))];
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
    is_bounded: bool,
    text_of: impl Fn(&SourceLine) -> Option<String>,
) -> Vec<GrowthRow> {
    let since = growing.first();
    let since = since.map_or(String::new(), |line| {
        format!(", seen in steps {}–{}", line.from_step, line.to_step)
    });
    let mut rows = vec![GrowthRow::Title(format!(
        "by line{since}{}",
        stopped(is_bounded)
    ))];
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

pub(super) fn lines(canvas: &mut Canvas, lines: &[StyledLine]) {
    for (row, line) in (0..canvas.area.height).zip(lines) {
        line.draw(canvas, row);
    }
}
