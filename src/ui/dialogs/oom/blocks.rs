//! Blocks on the screen: wrapped to the dialog's width, none cut.

use super::Page;
use crate::anatomy::{Category, KEPT};
use crate::diagnosis::{EarlierSearch, PartOfLeak, RequestPlace};
use crate::document::{
    DocumentBlock, Figure, Heading, KnownLines, MemoryHolder, Sentence, Tree, Voice,
};
use crate::event::{Retainer, Retainers};
use crate::state::Run;
use crate::ui::canvas::{self, StyledLine, columns};
use crate::ui::theme::Tone;
use crate::ui::words::count;
use crate::units::Bytes;

/// Columns of a number's name, at most.
const NAME: u16 = 26;

/// Columns of a number: `1023 KiB`.
const NUMBER: usize = 10;

/// From this width on a line's memory is told in a sentence.
const WIDTH_FOR_SENTENCE: u16 = 90;

pub(super) fn lines(page: Page, blocks: &[DocumentBlock]) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    let mut rest = blocks;
    while let Some((block, behind)) = rest.split_first() {
        rest = behind;
        match block {
            // What the ranks did is one paragraph.
            DocumentBlock::Sentence(sentence) if sentence.voice == Voice::Ranks => {
                let mut words = sentence.words.to_string();
                while let Some((DocumentBlock::Sentence(next), behind)) = rest.split_first()
                    && next.voice == Voice::Ranks
                {
                    words = format!("{words} {}", next.words);
                    rest = behind;
                }
                lines.extend(text(page, &words, Tone::Text));
            }
            block => lines.extend(of_block(page, block)),
        }
    }
    lines
}

fn of_block(page: Page, block: &DocumentBlock) -> Vec<StyledLine> {
    match block {
        DocumentBlock::Heading(Heading { words, aside }) => {
            let aside = aside.as_ref().map(|aside| format!(" ({aside})"));
            let words = format!("{words}{}", aside.unwrap_or_default());
            text(page, &words, Tone::Strong)
        }
        DocumentBlock::Sentence(Sentence { voice, words }) => match voice {
            Voice::Cause(..) => text(page, words, Tone::Strong),
            Voice::Also(..) => text(page, &format!("also: {words}"), Tone::Dim),
            Voice::Ranks | Voice::Detail => text(page, words, Tone::Text),
        },
        DocumentBlock::FigureSum(sum) => numbers(page, &sum.figures),
        DocumentBlock::Table(rows) => numbers(page, rows),
        DocumentBlock::Tree(tree) => of_tree(page, tree),
        DocumentBlock::Relaunch(relaunch) => {
            let words = format!("{} ({})", relaunch.what, relaunch.facts.join("; "));
            let mut lines = text(page, &words, Tone::Text);
            let command = [(spelled(page, &relaunch.command), Tone::Good)];
            lines.extend(canvas::labelled("  ", &command, page.width));
            lines
        }
        DocumentBlock::Remark(note) => {
            let words = format!("{} {}", page.theme.glyphs.arrow, note.words);
            canvas::text(&words, page.width, Tone::Text)
        }
    }
}

pub(super) fn text(page: Page, words: &str, tone: Tone) -> Vec<StyledLine> {
    canvas::text(&spelled(page, words), page.width, tone)
}

fn spelled(page: Page, words: &str) -> String {
    page.theme.glyphs.spelled(words)
}

/// In as many columns as have room, read downwards.
fn numbers(page: Page, figures: &[Figure]) -> Vec<StyledLine> {
    let most = NAME.min(page.width.saturating_sub(2 + NUMBER as u16));
    let is_long = |figure: &&Figure| columns(&figure.name) >= most;
    let (long, short): (Vec<&Figure>, Vec<&Figure>) = figures.iter().partition(is_long);
    let longest = short.iter().map(|figure| columns(&figure.name)).max();
    // A column has two columns before its names.
    let room = longest.map_or(most, |longest| (longest + 1).min(most));
    let beside = usize::from(page.width / (2 + room + NUMBER as u16)).max(1);
    let rows = short.len().div_ceil(beside);
    let mut lines = Vec::new();
    for row in 0..rows {
        let mut line = StyledLine::default();
        for Figure { name, value } in short.iter().skip(row).step_by(rows) {
            line.push("  ", Tone::Text)
                .column(name, room, Tone::Dim)
                .push(format!("{value:>NUMBER$}"), Tone::Text);
        }
        lines.push(line);
    }
    for Figure { name, value } in long {
        let parts = [(format!("{name} "), Tone::Dim), (value.clone(), Tone::Text)];
        lines.extend(canvas::labelled("  ", &parts, page.width));
    }
    lines
}

/// `14.1 of the 23.3 GiB`.
fn part_of(part: Bytes, all: Bytes, of: &str) -> String {
    let (part, all) = (part.to_string(), all.to_string());
    let unit = all.rsplit(' ').next().unwrap_or_default();
    match part.strip_suffix(unit) {
        Some(number) => format!("{} {of} {all}", number.trim_end()),
        None => format!("{part} {of} {all}"),
    }
}

fn of_tree(page: Page, tree: &Tree) -> Vec<StyledLine> {
    let width = page.width;
    match tree {
        Tree::Lines(lines) | Tree::Modules(lines) => {
            let lines = lines.iter();
            lines.flat_map(|one| held(page, one)).collect()
        }
        Tree::Growing(growing) => {
            let of = growing.iter().map(|one| {
                let place = (spelled(page, &one.place), Tone::Accent);
                let grows = format!("  +{} per step", one.per_step);
                canvas::labelled("", &[place, (grows, Tone::Text)], width)
            });
            of.flatten().collect()
        }
        Tree::Retainers(Retainers { retainers, .. }) => {
            let each = retainers.iter();
            each.flat_map(|one| [kept_alive(page, one, None), levels(page, one)])
                .flatten()
                .collect()
        }
        Tree::Stack(stack) => {
            let frames = stack.iter().map(|frame| {
                let function = format!(" {}", frame.function);
                let parts = [(frame.place(), Tone::Text), (function, Tone::Dim)];
                canvas::labelled("  ", &parts, width)
            });
            frames.flatten().collect()
        }
    }
}

/// `train.py:88 forward → modeling_gpt2.py:240 mlp  allocated 11.3 of the 23.3 GiB (96
/// blocks)`, and what the program's line says.
fn held(page: Page, held: &MemoryHolder) -> Vec<StyledLine> {
    let blocks = match held.blocks {
        1 => "1 block".to_string(),
        n => format!("{} blocks", count(n)),
    };
    let oom = page.scene.state.run().and_then(Run::explained_oom);
    // Of a traced step's line its category says what it is a part of.
    let all = oom.and_then(|oom| oom.allocated());
    let all = all.filter(|all| held.category.is_none() && *all >= held.bytes);
    let is_narrow = page.width < WIDTH_FOR_SENTENCE;
    let mut part = match all {
        Some(all) => part_of(held.bytes, all, if is_narrow { "of" } else { "of the" }),
        None => held.bytes.to_string(),
    };
    let known = oom.and_then(KnownLines::at);
    if held.category.is_none() && known.is_some_and(KnownLines::is_partly_inferred) {
        part.insert_str(0, page.theme.glyphs.spelled("≈ ").as_str());
    }
    // One line may have a row for that and one for what the step made.
    let is_kept = held.category == Some(Category::Kept);
    let live = match (is_kept, is_narrow) {
        (true, _) => format!("  {} {KEPT} ({blocks})", held.bytes),
        (false, true) => format!("  {part}"),
        (false, false) => format!("  allocated {part} ({blocks})"),
    };
    let place = held.path(page.theme.glyphs.arrow);
    let parts = [(place, Tone::Accent), (live, Tone::Text)];
    let mut lines = canvas::labelled("", &parts, page.width);
    if let Some(says) = &held.says {
        let says = [(spelled(page, says), Tone::Dim)];
        lines.extend(canvas::labelled("    ", &says, page.width));
    }
    lines
}

/// `80 MiB requested at utils.py:14 concat_elu → elu`; of the line that has the most memory: `80 MiB requested at utils.py:14
/// concat_elu, which has 1.56 of 4.62 GiB`.
pub(super) fn request(
    page: Page,
    (bytes, asking): &(Bytes, RequestPlace),
    has: Option<&MemoryHolder>,
) -> Vec<StyledLine> {
    let oom = page.scene.state.run().and_then(Run::explained_oom);
    let has = has.zip(oom.and_then(|oom| oom.allocated()));
    let place = match has {
        Some(_) => asking.own.clone(),
        None => asking.path("→"),
    };
    let mut parts = vec![
        (format!("{bytes} requested at "), Tone::Text),
        (spelled(page, &place), Tone::Accent),
    ];
    if let Some((line, all)) = has {
        let part = part_of(line.bytes, all, "of");
        parts.push((format!(", which has {part}"), Tone::Text));
    }
    canvas::labelled("", &parts, page.width)
}

/// `scenarios.py:41 losses: list of 18  keeps 21.3 GiB alive`; `earlier` says when that was found, if it was long
/// before the end: of a leak how much of it, since there is one size of that.
pub(super) fn kept_alive(
    page: Page,
    retainer: &Retainer,
    earlier: Option<EarlierSearch>,
) -> Vec<StyledLine> {
    let words = spelled(page, &retainer.words());
    let amount = spelled(page, &retainer.amount());
    let keeps = match earlier {
        Some(earlier) => {
            let after = earlier.step;
            match earlier.leak {
                Some(PartOfLeak::All) => format!("  keeps it alive (seen after step {after})"),
                Some(PartOfLeak::Most) => {
                    format!("  keeps most of it alive (seen after step {after})")
                }
                None => format!("  kept {amount} alive after step {after}"),
            }
        }
        None => format!("  keeps {amount} alive"),
    };
    let parts = [(words, Tone::Accent), (keeps, Tone::Text)];
    canvas::labelled("", &parts, page.width)
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
    let words = spelled(page, &parts.join("  "));
    canvas::labelled("  ", &[(words, Tone::Dim)], page.width)
}
