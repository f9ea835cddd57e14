//! The diagnosis as lines: brief, or with all its evidence.

use super::Page;
use crate::diagnosis::AmongRanks;
use crate::event::{LineUsage, Retainer};
use crate::state::OomIncident;
use crate::ui::figures::count;
use crate::ui::paragraph::{self, StyledLine};
use crate::ui::pen::columns;
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::units::Bytes;

/// Columns of a number's name.
const NAME: u16 = 26;

/// From this width on a line's memory is told in a sentence.
const WIDTH_FOR_SENTENCE: u16 = 90;

/// The cause in one sentence, and who keeps the memory alive, or else the line with the most memory.
pub(super) fn brief(page: Page) -> Vec<StyledLine> {
    let mut lines = headline(page);
    lines.extend(ranks(page, 2));
    let named = page.scene.findings.first();
    if let Some(retainer) = named.and_then(|finding| finding.retainer.as_ref()) {
        lines.push(kept_alive(page, retainer));
    } else if let Some(most) = record_lines(page.scene).first() {
        lines.push(held(page, most));
    }
    lines
}

pub(super) fn full(page: Page) -> Vec<StyledLine> {
    let Page {
        theme,
        scene,
        width,
        ..
    } = page;
    let mut lines = headline(page);
    lines.extend(ranks(page, usize::MAX));
    lines.extend(explanation(page));
    for finding in scene.findings.iter().take(1) {
        for evidence in &finding.evidence {
            lines.push(number(&evidence.what, &evidence.bytes.to_string()));
        }
        for advice in &finding.advice {
            let advice = format!("{} {advice}", theme.glyphs.arrow);
            lines.extend(paragraph::text(&advice, width, Tone::Text));
        }
    }
    if scene.findings.is_empty() {
        lines.extend(incident(scene).into_iter().flat_map(figures));
    }
    for other in scene.findings.iter().skip(1) {
        lines.extend(paragraph::text(
            &format!("also: {}", other.headline),
            width,
            Tone::Dim,
        ));
    }
    let categories = &page.dialog.categories;
    if !categories.is_empty() {
        lines.push(StyledLine::of(
            "what the step held when memory ran out (Esc, then s: all of it)",
            Tone::Strong,
        ));
        let of = categories.iter();
        lines.extend(of.map(|(category, bytes)| number(category.title(), &bytes.to_string())));
    }
    let kept = retainers(scene);
    if !kept.is_empty() {
        lines.push(StyledLine::of(
            "kept alive by (parameters, gradients and optimizer state left out)",
            Tone::Strong,
        ));
        for retainer in kept {
            lines.push(kept_alive(page, retainer));
            lines.extend(levels(page, retainer));
        }
    }
    let holding = record_lines(scene);
    if !holding.is_empty() {
        lines.push(StyledLine::of(
            "lines with the most live memory",
            Tone::Strong,
        ));
        let run = scene.state.run();
        for one in holding {
            lines.push(held(page, one));
            let text = run.and_then(|run| run.source.of(&one.line));
            let text = text.map(|text| format!("    {}", page.theme.glyphs.spelled(text)));
            lines.extend(text.map(|text| StyledLine::of(text, Tone::Dim)));
        }
    }
    let stack = incident(scene)
        .and_then(|oom| oom.record.as_ref())
        .map(|r| &r.stack);
    if let Some(stack) = stack.filter(|stack| !stack.is_empty()) {
        lines.push(StyledLine::of("where the allocation failed", Tone::Strong));
        for frame in stack {
            let mut line = StyledLine::of("  ", Tone::Text);
            line.push(frame.place(), Tone::Text)
                .push(format!(" {}", frame.function), Tone::Dim);
            lines.push(line);
        }
    }
    lines
}

fn incident<'a>(scene: &Scene<'a>) -> Option<&'a OomIncident> {
    scene.state.oom()
}

fn record_lines<'a>(scene: &Scene<'a>) -> &'a [LineUsage] {
    incident(scene)
        .and_then(|oom| oom.record.as_ref())
        .map_or(&[], |record| &record.lines)
}

fn retainers<'a>(scene: &Scene<'a>) -> &'a [Retainer] {
    let run = scene.state.run();
    let rank = run.and_then(|run| run.rank_of(incident(scene)?));
    let found = rank.and_then(|rank| rank.retainers.as_ref());
    found.map_or(&[], |(_, found)| &found.retainers)
}

/// `scenarios.py:41 losses: list of 18  keeps 21.3 GiB alive`.
fn kept_alive(page: Page, retainer: &Retainer) -> StyledLine {
    let mut line = StyledLine::default();
    let keeps = format!("  keeps {} alive", retainer.bytes);
    let words = page.theme.glyphs.spelled(&retainer.words());
    let room = page.width.saturating_sub(columns(&keeps));
    line.column(&words, room.min(columns(&words)), Tone::Accent)
        .push(keeps, Tone::Text);
    line
}

/// What refers to it, and how much of it graphs keep.
fn levels(page: Page, retainer: &Retainer) -> Vec<StyledLine> {
    let arrow = page.theme.glyphs.arrow_keys[2];
    let mut parts = Vec::new();
    if retainer.graph > Bytes::ZERO {
        parts.push(format!("{} of it in autograd graphs", retainer.graph));
    }
    if !retainer.above.is_empty() {
        parts.push(format!("{arrow} {}", retainer.levels(arrow)));
    }
    if parts.is_empty() {
        return Vec::new();
    }
    let words = page.theme.glyphs.spelled(&parts.join("  "));
    paragraph::labelled("  ", &[(words, Tone::Dim)], page.width)
}

fn headline(page: Page) -> Vec<StyledLine> {
    let words = match page.scene.findings.first() {
        Some(finding) => page.theme.glyphs.spelled(&finding.headline),
        None => "Out of memory; the numbers do not show why.".into(),
    };
    paragraph::text(&words, page.width, Tone::Strong)
}

/// Which rank it was, whether it is that rank's need alone, and what followed.
fn ranks(page: Page, most: usize) -> Vec<StyledLine> {
    let finding = page.scene.findings.first();
    let ranks = finding.and_then(|finding| finding.ranks.as_ref());
    let sentences = ranks.map_or_else(Vec::new, AmongRanks::sentences);
    let shown: Vec<String> = sentences.into_iter().take(most).collect();
    let words = page.theme.glyphs.spelled(&shown.join(" "));
    paragraph::text(&words, page.width, Tone::Text)
}

fn explanation(page: Page) -> Vec<StyledLine> {
    let finding = page.scene.findings.first();
    let words = finding.map_or("", |finding| &finding.explanation);
    paragraph::text(words, page.width, Tone::Text)
}

/// The OOM's own figures, for when there is no finding.
fn figures(oom: &OomIncident) -> Vec<StyledLine> {
    [
        ("requested", oom.requested()),
        ("allocated", oom.allocated()),
        ("reserved", oom.reserved()),
        ("free on the GPU", oom.free()),
        ("capacity", oom.capacity()),
        ("limit", oom.limit()),
    ]
    .into_iter()
    .filter_map(|(name, bytes)| Some(number(name, &bytes?.to_string())))
    .collect()
}

fn number(name: &str, figure: &str) -> StyledLine {
    let mut line = StyledLine::of("  ", Tone::Text);
    line.column(name, NAME, Tone::Dim)
        .push(format!("{figure:>10}"), Tone::Text);
    line
}

/// `train.py:88 forward → modeling_gpt2.py:240 mlp  allocated 11.3 GiB that is still live (96
/// blocks)`.
fn held(page: Page, holding: &LineUsage) -> StyledLine {
    let mut line = StyledLine::default();
    let blocks = match holding.blocks {
        1 => "1 block".to_string(),
        n => format!("{} blocks", count(n)),
    };
    let held = match page.width < WIDTH_FOR_SENTENCE {
        true => format!("  {} live ({blocks})", holding.bytes),
        false => format!(
            "  allocated {} that is still live ({blocks})",
            holding.bytes
        ),
    };
    let inside = holding.inside.as_ref();
    let place_of = holding.line.path_to(inside, page.theme.glyphs.arrow);
    let room = page.width.saturating_sub(held.chars().count() as u16);
    let fitting = room.min(crate::ui::pen::columns(&place_of));
    line.column(&place_of, fitting, Tone::Accent)
        .push(held, Tone::Text);
    line
}
