//! What one step is made of, for each run that has a traced one: memory over its events by category,
//! and the lines at its peak.

use super::bar;
use crate::anatomy::{Category, FlameNode, StepAnatomy, by_category, categories_over_time, flame};
use crate::document::html::{class_of, html, json, text};
use crate::document::{self, DocumentBlock, Tree};
use crate::event::Phase;
use crate::report::story::SessionStory;
use crate::state::{RankState, Run};
use crate::units::Bytes;
use serde::Serialize;
use std::fmt::Write;

/// Positions drawn: a step may have a hundred thousand events.
const POSITIONS: usize = 900;

/// Runs whose step is drawn: the latest.
const RUNS: usize = 3;

#[derive(Serialize)]
struct StepData {
    unit: u64,
    /// Numbers of events.
    x: Vec<usize>,
    /// Of each category that is there: its title, its class, its bytes.
    parts: Vec<CategoryCurve>,
    phases: Vec<PhaseMark>,
}

#[derive(Serialize)]
struct CategoryCurve {
    name: &'static str,
    class: &'static str,
    values: Vec<u64>,
}

#[derive(Serialize)]
struct PhaseMark {
    at: usize,
    label: &'static str,
}

pub(super) fn section(page: &mut String, story: &SessionStory) {
    let runs = &story.state.runs;
    let with_step = runs.iter().rev().filter_map(|run| {
        let (rank, step) = of_run(run)?;
        Some((run, rank, step))
    });
    let mut steps: Vec<(&Run, &RankState, StepAnatomy)> = with_step.take(RUNS).collect();
    steps.reverse();
    for (number, (run, rank, step)) in steps.iter().enumerate() {
        let mut heading = format!("Step {}", step.step);
        if runs.len() > 1 {
            let _ = write!(heading, " of run {}", run.number);
        }
        if let Some(rank) = rank.hello.rank.filter(|_| run.ranks.len() > 1) {
            let _ = write!(heading, ", rank {rank}");
        }
        heading.push_str(match step.failed {
            true => ", which ran out of memory",
            false => ", allocation by allocation",
        });
        let peak = step.peak();
        let elsewhere = rank.higher_peak_than(step.step, step.allocated[peak]);
        let elsewhere = elsewhere.map_or(String::new(), |(bytes, at)| {
            let at = at.map_or(String::new(), |at| format!(", in step {at}"));
            format!(". It is not the step of the run's peak: that was {bytes}{at}")
        });
        let _ = writeln!(
            page,
            "<section>\n<h2>{}</h2>\n<p class=\"dim\">{} allocations; the peak is {}{}{}</p>\n\
             <figure><div class=\"plot\" data-step=\"{number}\" role=\"img\" aria-label=\"memory over the step's events\"></div></figure>\n\
             <script type=\"application/json\" id=\"step{number}\">{}</script>",
            text(&heading),
            step.allocations(),
            text(&step.allocated[peak].to_string()),
            text(step.in_phase(peak)),
            text(&(document::counted(rank, step) + &elsewhere)),
            json(&StepData::new(step)),
        );
        let parts: Vec<(&str, &str, Bytes)> = by_category(step, peak)
            .into_iter()
            .filter(|(_, bytes)| *bytes > Bytes::ZERO)
            .map(|(category, bytes)| (category.title(), class_of(Some(category)), bytes))
            .collect();
        bar(page, "At its peak", &parts);
        let held = document::lines_at(step, peak, &run.source);
        let lines = [
            DocumentBlock::heading("Lines at its peak"),
            DocumentBlock::Tree(Tree::Lines(held)),
        ];
        page.push_str(&html(&lines));
        modules(page, step, peak);
        page.push_str("</section>\n");
    }
}

/// The step that says most of a run: the one that ran out of memory, or else the latest; of several
/// processes, that of the one with the highest peak.
fn of_run(run: &Run) -> Option<(&RankState, StepAnatomy)> {
    let steps = run
        .ranks
        .iter()
        .filter_map(|rank| Some((rank, StepAnatomy::of_oom(&rank.traces)?)));
    steps.max_by_key(|(_, step)| (step.failed, step.allocated[step.peak()]))
}

impl StepData {
    fn new(step: &StepAnatomy) -> StepData {
        let over_time = categories_over_time(step);
        let positions = positions(step);
        let largest = step.allocated.iter().max().copied().unwrap_or_default();
        let unit = match largest < Bytes::gib(4) {
            true => 1 << 10,
            false => 1 << 20,
        };
        let parts = Category::ALL.into_iter().filter_map(|category| {
            let place = category.place();
            let values: Vec<u64> = (positions.iter())
                .map(|position| over_time[*position][place].0 / unit)
                .collect();
            values
                .iter()
                .any(|value| *value > 0)
                .then(|| CategoryCurve {
                    name: category.title(),
                    class: class_of(Some(category)),
                    values,
                })
        });
        StepData {
            unit,
            parts: parts.collect(),
            phases: (step.phases.iter())
                .filter_map(|start| {
                    let label = match start.phase {
                        Phase::Forward => "forward",
                        Phase::Backward => "backward",
                        Phase::Optimizer => "optimizer",
                        Phase::Evaluation => "evaluation",
                        Phase::Load | Phase::Unknown => return None,
                    };
                    Some(PhaseMark {
                        at: start.from,
                        label,
                    })
                })
                .collect(),
            x: positions,
        }
    }
}

/// Of each stretch the position with the most allocated, the step's peak among them.
fn positions(step: &StepAnatomy) -> Vec<usize> {
    let all = step.allocated.len();
    let width = all.div_ceil(POSITIONS).max(1);
    let mut chosen: Vec<usize> = (0..all)
        .step_by(width)
        .map(|from| {
            let stretch = from..(from + width).min(all);
            let peak = stretch
                .max_by_key(|position| (step.allocated[*position], std::cmp::Reverse(*position)));
            peak.unwrap_or(from)
        })
        .collect();
    if chosen.last() != Some(&(all - 1)) {
        chosen.push(all - 1);
    }
    chosen
}

/// Rows of the graph: what lies deeper is in the list.
const MOST_ROWS: usize = 7;

/// Nobody sees a share less than this, …
const LEAST: f64 = 0.003;

/// … and a name has no room in one less than this.
const LEAST_NAMED: f64 = 0.045;

/// The modules at a position of the step; nothing where no module is known.
fn modules(page: &mut String, step: &StepAnatomy, position: usize) {
    let held = document::modules_at(step, position);
    if held.is_empty() {
        return;
    }
    page.push_str("<h4>Modules at its peak</h4>\n");
    let mut graph = FlameGraph {
        whole: held.iter().map(|module| module.bytes).sum(),
        rows: 0,
        boxes: String::new(),
    };
    graph.row(&flame(step, position), 0, 0.0);
    let _ = writeln!(
        page,
        "<div class=\"flame\" aria-hidden=\"true\" style=\"--rows:{}\">\n{}</div>",
        graph.rows, graph.boxes
    );
    page.push_str(&html(&[DocumentBlock::Tree(Tree::Modules(held))]));
}

/// Boxes in rows, from the outermost modules down; widths are shares of the whole.
struct FlameGraph {
    whole: Bytes,
    rows: usize,
    boxes: String,
}

impl FlameGraph {
    /// These nodes from `left` on, and below them what they contain.
    fn row(&mut self, nodes: &[FlameNode], depth: usize, left: f64) {
        let mut left = left;
        for node in nodes {
            let width = node.bytes.fraction_of(self.whole).unwrap_or(0.0);
            if width < LEAST || depth >= MOST_ROWS {
                continue;
            }
            self.rows = self.rows.max(depth + 1);
            let size = format!("{} {}", node.name, node.bytes);
            let label = match width >= LEAST_NAMED {
                true => text(&size),
                false => String::new(),
            };
            let _ = writeln!(
                self.boxes,
                "<div class=\"c-{}\" style=\"left:{:.3}%;width:{:.3}%;top:{}px\" title=\"{}\">{label}</div>",
                class_of(Some(node.category)),
                left * 100.0,
                width * 100.0,
                depth * ROW,
                text(&size),
            );
            self.row(&node.children, depth + 1, left);
            left += width;
        }
    }
}

/// The height of a row in pixels: the style sheet has the same.
const ROW: usize = 27;
