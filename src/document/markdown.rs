//! Blocks as Markdown: a list, for an issue or a colleague.

use super::{DocumentBlock, RemarkOf, SumOf, Tree, Voice, named};
use crate::anatomy::Category;
use crate::command;

/// The blocks, an item of a list each; each line ends in a newline.
pub fn markdown(blocks: &[DocumentBlock]) -> String {
    let mut text = String::new();
    for (n, block) in blocks.iter().enumerate() {
        match (n.checked_sub(1).map(|before| &blocks[before]), block) {
            // What explains a cause stands behind it.
            (Some(DocumentBlock::Sentence(cause)), DocumentBlock::Sentence(detail))
                if matches!(cause.voice, Voice::Cause(..)) && detail.voice == Voice::Detail =>
            {
                text.truncate(text.trim_end().len());
                text.push_str(&format!(" {}\n", plain(&detail.words)));
            }
            (_, block) => text.extend(of_block(block)),
        }
    }
    text
}

fn of_block(block: &DocumentBlock) -> Vec<String> {
    let item = |text: String| format!("- {text}\n");
    match block {
        DocumentBlock::Heading(heading) => {
            let aside = heading
                .aside
                .as_ref()
                .map(|aside| format!(" ({})", plain(aside)));
            let words = plain(&heading.words);
            vec![format!("\n**{words}**{}\n\n", aside.unwrap_or_default())]
        }
        DocumentBlock::Sentence(sentence) => {
            let words = plain(&sentence.words);
            vec![item(match sentence.voice {
                Voice::Cause(certainty, cause) => {
                    format!("Cause ({}): {}", certainty.word(), named(cause, &words))
                }
                Voice::Also(certainty, cause) => {
                    format!("Also ({}): {}", certainty.word(), named(cause, &words))
                }
                Voice::Ranks | Voice::Detail => words,
            })]
        }
        DocumentBlock::FigureSum(sum) => {
            let figures = sum.figures.iter();
            let figures: Vec<String> = figures
                .map(|figure| format!("{} {}", plain(&figure.name), figure.value))
                .collect();
            let figures = figures.join(", ");
            vec![item(match sum.of {
                SumOf::Evidence => format!("Figures: {figures}"),
                SumOf::Parts => figures,
            })]
        }
        DocumentBlock::Table(rows) => rows
            .iter()
            .map(|row| item(format!("{}: {}", plain(&row.name), row.value)))
            .collect(),
        DocumentBlock::Tree(tree) => of_tree(tree).into_iter().map(item).collect(),
        DocumentBlock::Relaunch(relaunch) => {
            let facts = match relaunch.facts.is_empty() {
                true => String::new(),
                false => format!(" ({})", relaunch.facts.join(", ")),
            };
            let what = plain(&format!("{}{facts}", relaunch.what));
            vec![item(format!("Remedy: {what}: {}", code(&relaunch.command)))]
        }
        DocumentBlock::Remark(note) => {
            let words = plain(&note.words);
            vec![item(match note.of {
                RemarkOf::Advice => format!("Advice: {words}"),
                RemarkOf::InCode => format!("In the code: {words}."),
            })]
        }
    }
}

fn of_tree(tree: &Tree) -> Vec<String> {
    match tree {
        Tree::Lines(lines) | Tree::Modules(lines) => lines
            .iter()
            .map(|held| {
                let says = held.says.as_ref().map(|says| format!(", {},", code(says)));
                let (live, kind) = match held.category {
                    None => (" that is still live", String::new()),
                    Some(Category::Kept) => (", kept from earlier steps", String::new()),
                    Some(category) => ("", format!(" ({})", category.title())),
                };
                format!(
                    "{}{} allocated {}{live}, in {}{kind}",
                    code(&held.path("→")),
                    says.unwrap_or_default(),
                    held.bytes,
                    held.blocks()
                )
            })
            .collect(),
        Tree::Growing(growing) => growing
            .iter()
            .map(|one| {
                let place = code(&one.place);
                format!("{place} grew by {} per step", one.per_step)
            })
            .collect(),
        Tree::Retainers(found) => found
            .retainers
            .iter()
            .map(|retainer| {
                format!(
                    "{} keeps {} alive",
                    code(&retainer.words()),
                    retainer.kept()
                )
            })
            .collect(),
        Tree::Stack(stack) => stack
            .iter()
            .map(|line| code(&line.path_to(None, "")))
            .collect(),
    }
}

/// Text that Markdown takes for nothing else, on one line, secrets masked.
pub fn plain(value: &str) -> String {
    let value = command::without_secrets(value);
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars().peekable();
    let mut before = None;
    while let Some(c) = chars.next() {
        match c {
            '<' => text.push_str("&lt;"),
            '&' => text.push_str("&amp;"),
            // Inside a word it is a character like others.
            '_' if is_inside(before, chars.peek().copied()) => text.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '@' => {
                text.push('\\');
                text.push(c);
            }
            c if c.is_control() => text.push(' '),
            c => text.push(c),
        }
        before = Some(c);
    }
    text
}

fn is_inside(before: Option<char>, after: Option<char>) -> bool {
    let is_word = |c: char| c.is_alphanumeric();
    before.is_some_and(is_word) && after.is_some_and(is_word)
}

/// Text in backticks: more of them than stand in it one after another.
pub fn code(value: &str) -> String {
    let value: String = (command::without_secrets(value).chars())
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let longest = value.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    match value.starts_with('`') || value.ends_with('`') {
        true => format!("{fence} {value} {fence}"),
        false => format!("{fence}{value}{fence}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_string_holds_stays_text() {
        assert_eq!(
            plain("a|b_c _d_ <x>\n# `d`"),
            "a\\|b_c \\_d\\_ &lt;x> \\# \\`d\\`"
        );
        assert_eq!(code("a `` b"), "```a `` b```");
        assert_eq!(code("`a"), "`` `a ``");
    }
}
