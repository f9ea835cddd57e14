//! Blocks as plain text.

use super::named;
use super::{DocumentBlock, FigureSum, Growing, MemoryHolder, RemarkOf, SumOf, Tree, Voice};
use crate::diagnosis::Cause;
use crate::event::Retainers;

/// What the first line of a diagnosis begins with, among [`TextLayout::Lines`].
pub const OUT_OF_MEMORY: &str = "out of memory: ";
pub const OUT_OF_FILES: &str = "out of file descriptors: ";

/// What stands before the lines of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextLayout {
    /// Parts with an empty line between them, to read and to paste.
    Parts,
    /// Lines that say what they are, each with a prefix of the caller's.
    Lines,
}

/// Lines without a trailing newline; one that begins a part begins with a newline.
pub fn lines(blocks: &[DocumentBlock], layout: TextLayout) -> Vec<String> {
    let lines = blocks.iter().flat_map(|block| of_block(block, layout));
    lines.collect()
}

/// For a terminal that is so wide: sentences are broken between words, and never between a figure and its unit. What is there to be
/// copied stays whole: commands and lines of the program.
pub fn wrapped(text: &str, width: usize) -> String {
    let lines = text.split('\n').map(|line| {
        let is_copied = line.starts_with("    ") || line.starts_with("  command: ");
        match is_copied || line.chars().count() <= width {
            true => line.to_string(),
            false => broken(line, width),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The lines that follow are indented as the first one, and below a list's dash.
fn broken(line: &str, width: usize) -> String {
    let words = line.trim_start_matches(' ');
    let own = line.len() - words.len();
    let hanging = own + if words.starts_with("- ") { 2 } else { 0 };
    let mut text = " ".repeat(own);
    let mut used = own;
    for (n, word) in kept_together(words).enumerate() {
        let length = word.chars().count();
        if n > 0 && used + 1 + length > width {
            text.push('\n');
            text.push_str(&" ".repeat(hanging));
            used = hanging;
        } else if n > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(&word);
        used += length;
    }
    text
}

/// Words, with a figure and its unit as one: "2.91 GiB,".
fn kept_together(text: &str) -> impl Iterator<Item = String> {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "%", "s"];
    let mut words = text.split(' ').peekable();
    std::iter::from_fn(move || {
        let mut word = words.next()?.to_string();
        let is_figure = word.ends_with(|c: char| c.is_ascii_digit());
        let is_unit = |next: &&str| {
            let unit = next.trim_end_matches(|c: char| ".,;:)".contains(c));
            is_figure && UNITS.contains(&unit)
        };
        if let Some(unit) = words.next_if(is_unit) {
            word.push(' ');
            word.push_str(unit);
        }
        Some(word)
    })
}

fn of_block(block: &DocumentBlock, layout: TextLayout) -> Vec<String> {
    let is_parts = layout == TextLayout::Parts;
    let indent = if is_parts { "  " } else { "" };
    match block {
        DocumentBlock::Heading(heading) => {
            let aside = heading.aside.as_ref().map(|aside| format!(" ({aside})"));
            let words = format!("{}{}:", heading.words, aside.unwrap_or_default());
            vec![if is_parts {
                format!("\n{words}")
            } else {
                words
            }]
        }
        DocumentBlock::Sentence(sentence) => {
            let words = &sentence.words;
            vec![match (sentence.voice, layout) {
                (Voice::Cause(certainty, cause), TextLayout::Parts) => {
                    format!("\nCause ({}): {}", certainty.word(), named(cause, words))
                }
                (Voice::Also(certainty, cause), TextLayout::Parts) => {
                    format!("\nAlso ({}): {}", certainty.word(), named(cause, words))
                }
                (Voice::Cause(_, cause), TextLayout::Lines)
                    if cause == Cause::OpenFiles.spec().title =>
                {
                    format!("{OUT_OF_FILES}{words}")
                }
                (Voice::Cause(..), TextLayout::Lines) => format!("{OUT_OF_MEMORY}{words}"),
                (Voice::Also(..), TextLayout::Lines) => format!("also: {words}"),
                (Voice::Ranks | Voice::Detail, _) => format!("{indent}{words}"),
            }]
        }
        DocumentBlock::FigureSum(sum) => vec![format!("{indent}{}", in_a_row(sum))],
        DocumentBlock::Table(rows) => rows
            .iter()
            .map(|row| format!("{indent}{:<15} {}", row.name, row.value))
            .collect(),
        // Without a heading above it each line says what it is.
        DocumentBlock::Tree(tree @ Tree::Lines(_)) if !is_parts => of_tree(tree, "allocated at "),
        DocumentBlock::Tree(tree) => of_tree(tree, indent),
        DocumentBlock::Relaunch(relaunch) => vec![
            format!("  {} ({}):", relaunch.what, relaunch.facts.join("; ")),
            format!("    {}", relaunch.command),
        ],
        DocumentBlock::Remark(note) => {
            let words = &note.words;
            vec![match (note.of, layout) {
                (RemarkOf::Advice, TextLayout::Parts) => format!("  - {words}"),
                (RemarkOf::Advice, TextLayout::Lines) => format!("advice: {words}"),
                (RemarkOf::InCode, _) => format!("{indent}in the code: {words}"),
            }]
        }
    }
}

/// "Evidence: allocated 22.6 GiB, requested 1.20 GiB."
fn in_a_row(sum: &FigureSum) -> String {
    let figures = sum.figures.iter();
    let figures: Vec<String> = figures
        .map(|figure| format!("{} {}", figure.name, figure.value))
        .collect();
    let figures = figures.join(", ");
    match sum.of {
        SumOf::Evidence => format!("Evidence: {figures}."),
        SumOf::Parts => figures,
    }
}

fn of_tree(tree: &Tree, indent: &str) -> Vec<String> {
    match tree {
        Tree::Lines(lines) => lines
            .iter()
            .flat_map(|held| with_source(line(held, indent), held.says.as_ref(), indent))
            .collect(),
        Tree::Modules(modules) => {
            let modules = modules.iter().map(|held| module(held, indent));
            modules.collect()
        }
        Tree::Growing(growing) => growing
            .iter()
            .flat_map(|one| with_source(grows(one, indent), one.says.as_ref(), indent))
            .collect(),
        Tree::Retainers(found) => retainers(found, indent),
        Tree::Stack(stack) => stack
            .iter()
            .map(|line| format!("{indent}{}", line.path_to(None, "")))
            .collect(),
    }
}

fn with_source(line: String, says: Option<&String>, indent: &str) -> Vec<String> {
    let says = says.map(|says| format!("{indent}    {says}"));
    [line].into_iter().chain(says).collect()
}

/// "train.py:88 forward → modeling_gpt2.py:240 mlp: 6.10 GiB in 48 blocks (gradients)".
fn line(held: &MemoryHolder, indent: &str) -> String {
    let kind = held
        .category
        .map(|category| format!(" ({})", category.title()));
    let (place, bytes, blocks) = (held.path("→"), held.bytes, held.blocks());
    format!(
        "{indent}{place}: {bytes} in {blocks}{}",
        kind.unwrap_or_default()
    )
}

/// "in transformer.h.0–11.mlp: 14.5 GiB, 12 × 1.21 GiB (activations)".
fn module(held: &MemoryHolder, indent: &str) -> String {
    let each = match held.alike {
        0 | 1 => String::new(),
        n => format!(", {n} × {}", held.bytes.scale(1.0 / n as f64)),
    };
    let kind = held
        .category
        .map(|category| format!(" ({})", category.title()));
    let (place, bytes) = (&held.place, held.bytes);
    format!("{indent}{place}: {bytes}{each}{}", kind.unwrap_or_default())
}

fn grows(one: &Growing, indent: &str) -> String {
    let Growing {
        place, per_step, ..
    } = one;
    format!("{indent}{place}: +{per_step} per step")
}

fn retainers(found: &Retainers, indent: &str) -> Vec<String> {
    let each = found.retainers.iter().map(|retainer| {
        let levels = match retainer.above.is_empty() {
            true => String::new(),
            false => format!(" ← {}", retainer.levels("←")),
        };
        format!("{indent}{}: {}{levels}", retainer.words(), retainer.kept())
    });
    let left = found.left.iter();
    each.chain(left.map(|why| format!("{indent}not all was searched: {why}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_stays_with_its_unit_and_a_command_whole() {
        let text = "  parameters 582 MiB, gradients 2.6 MiB, other\n  - a smaller batch in it\n    python train.py --batch-size 32\n";
        let said = wrapped(text, 24);
        let lines: Vec<&str> = said.split('\n').collect();
        assert_eq!(
            lines,
            [
                "  parameters 582 MiB,",
                "  gradients 2.6 MiB,",
                "  other",
                "  - a smaller batch in",
                "    it",
                "    python train.py --batch-size 32",
                "",
            ]
        );
        assert_eq!(wrapped(text, 80), text);
    }

    #[test]
    fn nothing_of_a_text_is_lost_at_any_width() {
        let text = "It does not fit: 138.9 allocated + 0.9 requested = 139.8 > 139.5 GiB.\n  Only 60 MiB is cached, 12 % of it.";
        for width in [1, 10, 40, 80, 120] {
            let said = wrapped(text, width);
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(words(&said), words(text));
        }
    }
}
