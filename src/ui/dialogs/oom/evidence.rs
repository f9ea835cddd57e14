//! The diagnosis as paragraphs: brief, or with all its evidence. Each is wrapped and none is cut: what
//! has no room is left out whole, and that is said.

use super::Page;
use crate::diagnosis::{AmongRanks, Phrase};
use crate::event::{LineUsage, Retainer};
use crate::state::OomIncident;
use crate::ui::canvas::columns;
use crate::ui::paragraph::{self, StyledLine};
use crate::ui::scene::Scene;
use crate::ui::theme::Tone;
use crate::ui::words::count;
use crate::units::Bytes;

/// Columns of a number's name, at most.
const NAME: u16 = 26;

/// Columns of a number: `1023 KiB`.
const NUMBER: usize = 10;

/// From this width on a line's memory is told in a sentence.
const WIDTH_FOR_SENTENCE: u16 = 90;

/// The cause in one sentence; in so many lines, the sums that belong to it are left to the details.
pub(super) fn cause(page: Page, most: usize) -> Vec<StyledLine> {
    let words = headline(page);
    let whole = paragraph::text(&spelled(page, &words), page.width, Tone::Strong);
    let shortest = words.shortest();
    match whole.len() > most && shortest.len() < words.len() {
        true => {
            let first = format!("{shortest}.");
            paragraph::text(&spelled(page, &first), page.width, Tone::Strong)
        }
        false => whole,
    }
}

/// What stands below the cause: what is said of the ranks, and who keeps the memory alive, or else
/// the line with the most memory.
pub(super) fn below(page: Page) -> Vec<Vec<StyledLine>> {
    let mut paragraphs = vec![ranks(page, 2)];
    let named = page.scene.findings.first();
    if let Some(retainer) = named.and_then(|finding| finding.retainer.as_ref()) {
        paragraphs.push(kept_alive(page, retainer));
    } else if let Some(most) = record_lines(page.scene).first() {
        paragraphs.push(held(page, most));
    }
    paragraphs
}

pub(super) fn full(page: Page) -> Vec<StyledLine> {
    let Page {
        theme,
        scene,
        width,
        ..
    } = page;
    let heading = |words: &str| paragraph::text(words, width, Tone::Strong);
    let mut lines = heading(&spelled(page, &headline(page)));
    lines.extend(ranks(page, usize::MAX));
    lines.extend(explanation(page));
    for finding in scene.findings.iter().take(1) {
        for evidence in &finding.evidence {
            lines.extend(number(page, &evidence.what, &evidence.bytes.to_string()));
        }
        for advice in &finding.advice {
            let advice = format!("{} {advice}", theme.glyphs.arrow);
            lines.extend(paragraph::text(&advice, width, Tone::Text));
        }
    }
    if scene.findings.is_empty() {
        lines.extend(
            incident(scene)
                .into_iter()
                .flat_map(|oom| figures(page, oom)),
        );
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
        lines.extend(heading(
            "what the step held when memory ran out (Esc, then s: all of it)",
        ));
        let of = categories.iter();
        lines.extend(
            of.flat_map(|(category, bytes)| number(page, category.title(), &bytes.to_string())),
        );
    }
    let kept = retainers(scene);
    if !kept.is_empty() {
        lines.extend(heading(
            "kept alive by (parameters, gradients and optimizer state left out)",
        ));
        for retainer in kept {
            lines.extend(kept_alive(page, retainer));
            lines.extend(levels(page, retainer));
        }
    }
    let holding = record_lines(scene);
    if !holding.is_empty() {
        lines.extend(heading("lines with the most live memory"));
        let run = scene.state.run();
        for one in holding {
            lines.extend(held(page, one));
            let text = run.and_then(|run| run.source.of(&one.line));
            let text = text.map(|text| (theme.glyphs.spelled(text), Tone::Dim));
            lines.extend(
                text.into_iter()
                    .flat_map(|text| paragraph::labelled("    ", &[text], width)),
            );
        }
    }
    let stack = incident(scene)
        .and_then(|oom| oom.record.as_ref())
        .map(|r| &r.stack);
    if let Some(stack) = stack.filter(|stack| !stack.is_empty()) {
        lines.extend(heading("where the allocation failed"));
        for frame in stack {
            let function = format!(" {}", frame.function);
            let parts = [(frame.place(), Tone::Text), (function, Tone::Dim)];
            lines.extend(paragraph::labelled("  ", &parts, width));
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
fn kept_alive(page: Page, retainer: &Retainer) -> Vec<StyledLine> {
    let words = page.theme.glyphs.spelled(&retainer.words());
    let keeps = format!("  keeps {} alive", retainer.bytes);
    let parts = [(words, Tone::Accent), (keeps, Tone::Text)];
    paragraph::labelled("", &parts, page.width)
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

fn headline(page: Page) -> Phrase {
    match page.scene.findings.first() {
        Some(finding) => finding.headline.clone(),
        None => "Out of memory; the numbers do not show why.".into(),
    }
}

fn spelled(page: Page, words: &str) -> String {
    page.theme.glyphs.spelled(words)
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
fn figures(page: Page, oom: &OomIncident) -> Vec<StyledLine> {
    [
        ("requested", oom.requested()),
        ("allocated", oom.allocated()),
        ("reserved", oom.reserved()),
        ("free on the GPU", oom.free()),
        ("capacity", oom.capacity()),
        ("limit", oom.limit()),
    ]
    .into_iter()
    .filter_map(|(name, bytes)| Some(number(page, name, &bytes?.to_string())))
    .flatten()
    .collect()
}

fn number(page: Page, name: &str, figure: &str) -> Vec<StyledLine> {
    let room = NAME.min(page.width.saturating_sub(2 + NUMBER as u16));
    if columns(name) >= room {
        let parts = [(format!("{name} "), Tone::Dim), (figure.into(), Tone::Text)];
        return paragraph::labelled("  ", &parts, page.width);
    }
    let mut line = StyledLine::of("  ", Tone::Text);
    line.column(name, room, Tone::Dim)
        .push(format!("{figure:>NUMBER$}"), Tone::Text);
    vec![line]
}

/// `train.py:88 forward → modeling_gpt2.py:240 mlp  allocated 11.3 GiB that is still live (96
/// blocks)`.
fn held(page: Page, holding: &LineUsage) -> Vec<StyledLine> {
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
    let parts = [(place_of, Tone::Accent), (held, Tone::Text)];
    paragraph::labelled("", &parts, page.width)
}
