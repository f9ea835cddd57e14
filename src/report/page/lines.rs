//! The lines of the program that held memory, as a treemap and as a list with bars.

use super::escape::text;
use super::treemap::{Tile, squarify};
use crate::anatomy::{Category, Holding, by_line};
use crate::event::{LineUsage, MemoryKind};
use crate::report::explain::Explained;
use crate::state::SourceTexts;
use crate::units::Bytes;
use std::fmt::Write;

/// Lines listed; the rest is summed up.
const LISTED: usize = 12;

/// Lines with less than this share of the memory are summed up.
const LEAST: f64 = 0.002;

/// What a line, or a module, held, for the page.
pub(super) struct HoldingBar {
    /// The program's line.
    pub place: String,
    /// The library's line below it.
    pub inside: Option<String>,
    /// What the program's line says.
    pub says: Option<String>,
    pub what: Option<&'static str>,
    pub class: &'static str,
    pub bytes: Bytes,
    pub blocks: u64,
}

/// The lines at an OOM: from its record, or else from the step that was traced.
pub(super) fn of_oom(page: &mut String, oom: &Explained) {
    let lines = oom.incident.record.as_ref().map(|record| &record.lines);
    match lines.filter(|lines| !lines.is_empty()) {
        Some(lines) => {
            let of_record = |line| HoldingBar::of_record(line, &oom.source);
            let held: Vec<HoldingBar> = lines.iter().map(of_record).collect();
            draw(page, "Lines that held the memory", &held);
        }
        None => {
            if let Some(step) = &oom.step {
                let holdings = by_line(step, step.peak());
                of_holdings(page, "Lines that held the memory", &holdings, &oom.source);
            }
        }
    }
}

pub(super) fn of_holdings(
    page: &mut String,
    title: &str,
    holdings: &[Holding],
    source: &SourceTexts,
) {
    let of_step = |holding| HoldingBar::of_step(holding, source);
    let held: Vec<HoldingBar> = holdings.iter().map(of_step).collect();
    draw(page, title, &held);
}

impl HoldingBar {
    fn of_record(line: &LineUsage, source: &SourceTexts) -> HoldingBar {
        let (what, class) = match line.kind {
            Some(MemoryKind::Parameters) => (Some("parameters"), "parameters"),
            Some(MemoryKind::Gradients) => (Some("gradients"), "gradients"),
            Some(MemoryKind::OptimizerState) => (Some("optimizer state"), "optimizer"),
            Some(MemoryKind::Unknown) | None => (None, "activations"),
        };
        HoldingBar {
            place: line.line.path_to(None, ""),
            inside: line.inside.as_ref().map(|inside| inside.path_to(None, "")),
            says: source.of(&line.line).map(String::from),
            what,
            class,
            bytes: line.bytes,
            blocks: line.blocks,
        }
    }

    fn of_step(holding: &Holding, source: &SourceTexts) -> HoldingBar {
        let text = holding.line.as_ref().and_then(|line| source.of(line));
        HoldingBar {
            place: match &holding.line {
                Some(line) => line.path_to(None, ""),
                None => "unknown line".into(),
            },
            inside: (holding.inside.as_ref()).map(|inside| inside.path_to(None, "")),
            says: text.map(String::from),
            what: Some(holding.category.title()),
            class: class_of(holding.category),
            bytes: holding.bytes,
            blocks: holding.blocks as u64,
        }
    }

    fn whole_place(&self) -> String {
        match &self.inside {
            Some(inside) => format!("{} → {inside}", self.place),
            None => self.place.clone(),
        }
    }
}

/// The class of a category in the style sheet.
pub(super) fn class_of(category: Category) -> &'static str {
    match category {
        Category::Parameters => "parameters",
        Category::Gradients => "gradients",
        Category::OptimizerState => "optimizer",
        Category::Activations => "activations",
        Category::Temporaries => "temporaries",
        Category::Other => "other",
    }
}

fn draw(page: &mut String, title: &str, held: &[HoldingBar]) {
    if held.is_empty() {
        return;
    }
    let _ = writeln!(page, "<h4>{}</h4>", text(title));
    treemap(page, held);
    table(page, held, "lines");
}

/// The largest as a list with bars, the rest of these `holders` as a sum.
pub(super) fn table(page: &mut String, held: &[HoldingBar], holders: &str) {
    let most = held.iter().map(|line| line.bytes).max();
    let most = most.unwrap_or(Bytes(1));
    page.push_str("<table class=\"lines\">\n");
    let whole: Bytes = held.iter().map(|line| line.bytes).sum();
    let listed = (held.iter().take(LISTED))
        .take_while(|line| line.bytes.fraction_of(whole) > Some(LEAST))
        .count();
    for line in &held[..listed] {
        let share = line.bytes.fraction_of(most).unwrap_or(0.0) * 100.0;
        let what = line.what.map_or(String::new(), |what| format!(" · {what}"));
        let blocks = if line.blocks == 1 { "block" } else { "blocks" };
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{}</td><td><i class=\"c-{}\" style=\"width:{share:.2}%\"></i>\
             <code>{}</code> <span class=\"dim\">{} {blocks}{what}</span>{}</td></tr>",
            text(&line.bytes.to_string()),
            line.class,
            text(&line.whole_place()),
            line.blocks,
            says(line),
        );
    }
    if held.len() > listed {
        let rest: Bytes = held[listed..].iter().map(|line| line.bytes).sum();
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{}</td><td class=\"dim\">{} more {holders}</td></tr>",
            text(&rest.to_string()),
            held.len() - listed
        );
    }
    page.push_str("</table>\n");
}

/// What the program's line says, below it.
fn says(line: &HoldingBar) -> String {
    let says = line.says.as_ref();
    says.map_or(String::new(), |says| {
        format!("<br><code class=\"dim\">{}</code>", text(says))
    })
}

fn treemap(page: &mut String, held: &[HoldingBar]) {
    let sizes: Vec<f64> = held.iter().map(|line| line.bytes.0 as f64).collect();
    let tiles = squarify(&sizes);
    page.push_str("<div class=\"treemap\" aria-hidden=\"true\">\n");
    for (line, tile) in held.iter().zip(tiles) {
        let Tile {
            left,
            top,
            width,
            height,
        } = tile;
        // Nobody sees less than that.
        if width * height < 1e-4 {
            continue;
        }
        // A name that has no room would only be cut.
        let label = match width >= 0.1 && height >= 0.17 {
            true => format!(
                "<b>{}</b><span>{}</span>",
                text(&line.place),
                text(&line.bytes.to_string())
            ),
            false => String::new(),
        };
        let _ = writeln!(
            page,
            "<div class=\"c-{}\" style=\"left:{:.3}%;top:{:.3}%;width:{:.3}%;height:{:.3}%\" title=\"{}\">{label}</div>",
            line.class,
            left * 100.0,
            top * 100.0,
            width * 100.0,
            height * 100.0,
            text(&format!(
                "{}: {} in {} blocks",
                line.whole_place(),
                line.bytes,
                line.blocks
            )),
        );
    }
    page.push_str("</div>\n");
}
