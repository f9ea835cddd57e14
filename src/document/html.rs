//! Blocks as HTML. The only way of a string into the page is here: secrets masked, controls taken out,
//! markup made text.

use super::{DocumentBlock, Growing, MemoryHolder, SumOf, Tree, Voice};
use crate::anatomy::Category;
use crate::command;
use crate::diagnosis::capitalized;
use crate::event::Retainers;
use crate::units::Bytes;
use serde::Serialize;
use std::fmt::Write;

/// Lines listed; the rest is summed up.
const LISTED: usize = 12;

/// Lines with less than this share of the memory are summed up.
const LEAST: f64 = 0.002;

/// The blocks, in sections of the page's own.
pub fn html(blocks: &[DocumentBlock]) -> String {
    let mut page = String::new();
    let mut rest = blocks;
    while let Some((block, behind)) = rest.split_first() {
        rest = behind;
        match block {
            DocumentBlock::Heading(heading) => {
                let _ = writeln!(page, "<h4>{}</h4>", text(&heading.words));
                if let Some(aside) = &heading.aside {
                    let _ = writeln!(page, "<p class=\"dim\">{}.</p>", text(&capitalized(aside)));
                }
            }
            DocumentBlock::Sentence(sentence) => {
                let words = text(&sentence.words);
                let tagged = |tag, certainty: crate::diagnosis::Certainty| {
                    let certainty = certainty.word();
                    format!("<{tag}>{words} <span class=\"tag\">{certainty}</span></{tag}>\n")
                };
                page.push_str(&match sentence.voice {
                    Voice::Cause(certainty, _) => tagged("h3", certainty),
                    Voice::Also(certainty, _) => tagged("h4", certainty),
                    Voice::Ranks | Voice::Detail => format!("<p>{words}</p>\n"),
                });
            }
            DocumentBlock::FigureSum(sum) => figures(
                &mut page,
                sum.figures.iter(),
                match sum.of {
                    SumOf::Evidence => "evidence",
                    SumOf::Parts => "facts",
                },
            ),
            DocumentBlock::Table(rows) => figures(&mut page, rows.iter(), "facts"),
            DocumentBlock::Tree(tree) => of_tree(&mut page, tree),
            DocumentBlock::Relaunch(relaunch) => {
                let facts = text(&relaunch.facts.join("; "));
                let (what, command) = (text(&relaunch.what), words(&relaunch.command));
                let _ = writeln!(page, "<p>{what} ({facts}):<br><code>{command}</code></p>");
            }
            // Notes that follow one another are one list.
            DocumentBlock::Remark(first) => {
                page.push_str("<ul>\n");
                let _ = writeln!(page, "<li>{}</li>", text(&first.words));
                while let Some((DocumentBlock::Remark(note), behind)) = rest.split_first() {
                    rest = behind;
                    let _ = writeln!(page, "<li>{}</li>", text(&note.words));
                }
                page.push_str("</ul>\n");
            }
        }
    }
    page
}

fn figures<'a>(page: &mut String, figures: impl Iterator<Item = &'a super::Figure>, class: &str) {
    let _ = writeln!(page, "<dl class=\"{class}\">");
    for figure in figures {
        let _ = writeln!(
            page,
            "<div><dt>{}</dt><dd>{}</dd></div>",
            text(&figure.name),
            text(&figure.value)
        );
    }
    page.push_str("</dl>\n");
}

fn of_tree(page: &mut String, tree: &Tree) {
    match tree {
        Tree::Lines(lines) => {
            treemap(page, lines);
            table(page, lines, "lines");
        }
        Tree::Modules(modules) => table(page, modules, "modules"),
        Tree::Growing(growing) => grown(page, growing),
        Tree::Retainers(found) => retainers(page, found),
        Tree::Stack(stack) => {
            page.push_str("<ol class=\"stack\">\n");
            for line in stack {
                let _ = writeln!(
                    page,
                    "<li><code>{}</code></li>",
                    text(&line.path_to(None, ""))
                );
            }
            page.push_str("</ol>\n");
        }
    }
}

fn grown(page: &mut String, growing: &[Growing]) {
    page.push_str("<table class=\"lines\">\n");
    for one in growing {
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">+{} a step</td><td><code>{}</code>{}</td></tr>",
            text(&one.per_step.to_string()),
            text(&one.place),
            says(one.says.as_ref()),
        );
    }
    page.push_str("</table>\n");
}

fn retainers(page: &mut String, found: &Retainers) {
    page.push_str("<table class=\"lines\">\n");
    let most = found.retainers.iter().map(|retainer| retainer.bytes).max();
    for retainer in &found.retainers {
        let share = most.and_then(|most| retainer.bytes.fraction_of(most));
        let mut more = match retainer.graph.0 {
            0 => String::new(),
            _ if retainer.graph.to_string() == retainer.bytes.to_string() => {
                "in autograd graphs".into()
            }
            _ => format!("{} of it in autograd graphs", retainer.graph),
        };
        if !retainer.above.is_empty() {
            let _ = write!(more, " ← {}", retainer.levels("←"));
        }
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{}</td><td><i class=\"c-activations\" style=\"width:{:.2}%\"></i>\
             <code>{}</code> <span class=\"dim\">{}</span></td></tr>",
            text(&retainer.amount()),
            share.unwrap_or(0.0) * 100.0,
            text(&retainer.words()),
            text(more.trim()),
        );
    }
    page.push_str("</table>\n");
    if let Some(why) = &found.left {
        let _ = writeln!(
            page,
            "<p class=\"dim\">Not all was searched: {}.</p>",
            text(why)
        );
    }
}

/// The class of a category in the style sheet.
pub fn class_of(category: Option<Category>) -> &'static str {
    match category {
        Some(Category::Parameters | Category::Frozen) => "parameters",
        Some(Category::Gradients) => "gradients",
        Some(Category::OptimizerState) => "optimizer",
        Some(Category::Kept | Category::Left) => "kept",
        Some(Category::Activations | Category::Recomputed) | None => "activations",
        Some(Category::Temporaries) => "temporaries",
        Some(Category::Other) => "other",
    }
}

/// The largest as a list with bars, the rest of these `holders` as a sum.
fn table(page: &mut String, held: &[MemoryHolder], holders: &str) {
    let most = held.iter().map(|line| line.bytes).max();
    let most = most.unwrap_or(Bytes(1));
    page.push_str("<table class=\"lines\">\n");
    let whole: Bytes = held.iter().map(|line| line.bytes).sum();
    let listed = (held.iter().take(LISTED))
        .take_while(|line| line.bytes.fraction_of(whole) > Some(LEAST))
        .count();
    for line in &held[..listed] {
        let share = line.bytes.fraction_of(most).unwrap_or(0.0) * 100.0;
        let what = line
            .category
            .map(|category| format!(" · {}", category.title()));
        let place = match line.alike {
            0 | 1 => line.path("→"),
            alike => format!("{} ({alike} modules)", line.place),
        };
        let _ = writeln!(
            page,
            "<tr><td class=\"n\">{}</td><td><i class=\"c-{}\" style=\"width:{share:.2}%\"></i>\
             <code>{}</code> <span class=\"dim\">{}{}</span>{}</td></tr>",
            text(&line.bytes.to_string()),
            class_of(line.category),
            text(&place),
            line.blocks(),
            what.unwrap_or_default(),
            says(line.says.as_ref()),
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
fn says(says: Option<&String>) -> String {
    says.map_or(String::new(), |says| {
        format!("<br><code class=\"dim\">{}</code>", text(says))
    })
}

fn treemap(page: &mut String, held: &[MemoryHolder]) {
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
            class_of(line.category),
            left * 100.0,
            top * 100.0,
            width * 100.0,
            height * 100.0,
            text(&format!(
                "{}: {} in {}",
                line.path("→"),
                line.bytes,
                line.blocks()
            )),
        );
    }
    page.push_str("</div>\n");
}

/// The string as text of HTML, in an element or a quoted attribute.
pub fn text(value: &str) -> String {
    let value = command::without_secrets(value);
    let mut whole = String::with_capacity(value.len() + 8);
    for c in value.chars() {
        match c {
            '&' => whole.push_str("&amp;"),
            '<' => whole.push_str("&lt;"),
            '>' => whole.push_str("&gt;"),
            '"' => whole.push_str("&quot;"),
            '\'' => whole.push_str("&#39;"),
            c if acts(c) => whole.push(' '),
            c => whole.push(c),
        }
    }
    whole
}

/// A command, escaped; a line is broken between its words, not after the dash of an option.
pub fn words(value: &str) -> String {
    let value = command::without_secrets(value);
    let words: Vec<String> = (value.split(' '))
        .map(|word| format!("<span>{}</span>", text(word)))
        .collect();
    words.join(" ")
}

/// Controls, separators of lines, and marks that turn the direction of text, and so its meaning.
fn acts(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// JSON that stands inside a `<script>`: no `<` ends it early. A control is spelled out in JSON.
pub fn json(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
    json.replace(acts, " ").replace('<', "\\u003c")
}

// Areas in proportion to sizes, as near to squares as they can be: Bruls, Huizing and van Wijk,
// "Squarified Treemaps" (2000).

/// A rectangle in a unit square that is drawn [`ASPECT`] times as wide as high.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Tile {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

/// How much wider than high it is drawn: the style sheet has the same.
const ASPECT: f64 = 3.2;

/// Tiles in the order of `sizes`, which is from the largest to the smallest.
fn squarify(sizes: &[f64]) -> Vec<Tile> {
    let sum: f64 = sizes.iter().sum();
    if sum <= 0.0 {
        return Vec::new();
    }
    let areas: Vec<f64> = sizes.iter().map(|size| size / sum * ASPECT).collect();
    let mut free = Tile {
        left: 0.0,
        top: 0.0,
        width: ASPECT,
        height: 1.0,
    };
    let mut tiles = Vec::with_capacity(sizes.len());
    let mut begun = 0;
    while begun < areas.len() {
        let side = free.width.min(free.height);
        let mut end = begun + 1;
        while end < areas.len()
            && worst(&areas[begun..=end], side) <= worst(&areas[begun..end], side)
        {
            end += 1;
        }
        free = row(&areas[begun..end], free, &mut tiles);
        begun = end;
    }
    for tile in &mut tiles {
        tile.left /= ASPECT;
        tile.width /= ASPECT;
    }
    tiles
}

/// The least square of a row's tiles: how many times longer one side is than the other.
fn worst(areas: &[f64], side: f64) -> f64 {
    let sum: f64 = areas.iter().sum();
    let thickness = sum / side;
    let ratio = |area: &f64| {
        let length = area / thickness;
        (length / thickness).max(thickness / length)
    };
    areas.iter().map(ratio).fold(0.0, f64::max)
}

/// Puts a row along the shorter side, and returns what is free then.
fn row(areas: &[f64], free: Tile, tiles: &mut Vec<Tile>) -> Tile {
    let sum: f64 = areas.iter().sum();
    let upright = free.width >= free.height;
    let side = if upright { free.height } else { free.width };
    let thickness = if side > 0.0 { sum / side } else { 0.0 };
    let mut along = 0.0;
    for area in areas {
        let length = if thickness > 0.0 {
            area / thickness
        } else {
            0.0
        };
        tiles.push(match upright {
            true => Tile {
                left: free.left,
                top: free.top + along,
                width: thickness,
                height: length,
            },
            false => Tile {
                left: free.left + along,
                top: free.top,
                width: length,
                height: thickness,
            },
        });
        along += length;
    }
    match upright {
        true => Tile {
            left: free.left + thickness,
            width: (free.width - thickness).max(0.0),
            ..free
        },
        false => Tile {
            top: free.top + thickness,
            height: (free.height - thickness).max(0.0),
            ..free
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text_and_secrets_do_not_come_in() {
        let hostile = "</script><b onclick=\"x\">'&\u{1b}[2J\u{202e}";
        let shown = text(hostile);
        assert!(
            !shown.contains(['<', '>', '"', '\'', '\u{1b}', '\u{202e}']),
            "{shown}"
        );
        assert!(json(&hostile).contains("\\u003c/script>"));
        assert!(!text("hf_abcdefghijklmnopqrstuvwxyzABCDEFGH").contains("abcdef"));
    }

    #[test]
    fn areas_are_in_proportion_and_lie_inside() {
        let sizes = [6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0];
        let tiles = squarify(&sizes);
        let sum: f64 = sizes.iter().sum();
        for (tile, size) in tiles.iter().zip(sizes) {
            assert!(
                (tile.width * tile.height - size / sum).abs() < 1e-9,
                "{tile:?}"
            );
            assert!(tile.left >= -1e-9 && tile.left + tile.width <= 1.0 + 1e-9);
            assert!(tile.top >= -1e-9 && tile.top + tile.height <= 1.0 + 1e-9);
            let ratio = tile.width * ASPECT / tile.height;
            assert!((0.2..5.0).contains(&ratio), "{tile:?}");
        }
        assert_eq!(squarify(&[]), []);
        assert_eq!(squarify(&[0.0]), []);
        assert_eq!(squarify(&[5.0]).len(), 1);
    }
}
