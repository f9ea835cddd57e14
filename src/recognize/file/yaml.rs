//! The settings of a YAML file, with their places: block mappings and lists of plain values, as in
//! most training configs. Anything more (anchors, merges, flow mappings, long texts) is skipped,
//! and its values are unclear.

use super::{FileSetting, FileSettings};

/// All scalars of a document.
pub(super) fn settings(text: &str) -> Result<FileSettings, String> {
    let mut reader = YamlReader::default();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        reader.line(offset, line.trim_end_matches(['\n', '\r']))?;
        offset += line.len();
    }
    if reader.open > 0 {
        return Err("a bracket is not closed".into());
    }
    Ok(reader.settings)
}

#[derive(Debug)]
struct IndentLevel {
    indent: usize,
    part: LevelPart,
}

#[derive(Debug)]
enum LevelPart {
    Key(String),
    Item(usize),
}

#[derive(Default)]
struct YamlReader {
    levels: Vec<IndentLevel>,
    settings: FileSettings,
    /// The lines of a block scalar are indented deeper than this.
    text_below: Option<usize>,
    /// Open brackets.
    open: usize,
    /// The indentation of the key whose value may continue on the next line.
    value_at: Option<usize>,
    has_content: bool,
}

impl YamlReader {
    fn line(&mut self, offset: usize, line: &str) -> Result<(), String> {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        if content.is_empty() {
            return Ok(());
        }
        if let Some(below) = self.text_below {
            if indent > below {
                return Ok(());
            }
            self.text_below = None;
        }
        if self.open > 0 {
            self.open = brackets(content, self.open)?;
            return Ok(());
        }
        if content.starts_with('#') {
            return Ok(());
        }
        if content.starts_with('\t') {
            return Err("it is indented by tabs".into());
        }
        if content.starts_with('%') || line == "..." {
            return Err("it has more than one document, or directives".into());
        }
        if line == "---" || line.starts_with("--- ") {
            if self.has_content || line != "---" {
                return Err("it has more than one document".into());
            }
            return Ok(());
        }
        self.has_content = true;
        if let Some(at) = self.value_at.take()
            && indent > at
            && !is_item(content)
        {
            // The value continues, so it isn't plain.
            if let Some(last) = self.settings.all.last_mut() {
                last.is_plain = false;
            }
            self.value_at = Some(at);
            return Ok(());
        }
        self.content(offset + indent, indent, content)
    }

    fn content(&mut self, offset: usize, indent: usize, content: &str) -> Result<(), String> {
        if is_item(content) {
            self.item(indent);
            let rest = content[1..].trim_start_matches(' ');
            let moved = content.len() - rest.len();
            if rest.is_empty() || rest.starts_with('#') {
                return Ok(());
            }
            if is_item(rest) || key_of(rest).is_some() {
                return self.content(offset + moved, indent + moved, rest);
            }
            return self.value(offset + moved, indent, rest);
        }
        let Some((key, rest)) = key_of(content) else {
            return Err("it has a line that is not understood".into());
        };
        while self
            .levels
            .last()
            .is_some_and(|level| level.indent >= indent)
        {
            self.levels.pop();
        }
        if key == "<<" {
            self.settings.may_hide = true;
        }
        self.levels.push(IndentLevel {
            indent,
            part: LevelPart::Key(key.to_string()),
        });
        let value = rest.trim_start_matches(' ');
        let at = offset + content.len() - value.len();
        if value.is_empty() || value.starts_with('#') {
            return Ok(());
        }
        self.value(at, indent, value)
    }

    fn item(&mut self, indent: usize) {
        let mut index = 0;
        while let Some(level) = self.levels.last() {
            match level.part {
                // A list may be indented no deeper than its key.
                LevelPart::Key(_) if level.indent <= indent => break,
                LevelPart::Item(_) if level.indent < indent => break,
                LevelPart::Item(last) if level.indent == indent => index = last + 1,
                LevelPart::Key(_) | LevelPart::Item(_) => {}
            }
            let was_item = matches!(level.part, LevelPart::Item(_)) && level.indent == indent;
            self.levels.pop();
            if was_item {
                break;
            }
        }
        self.levels.push(IndentLevel {
            indent,
            part: LevelPart::Item(index),
        });
    }

    fn value(&mut self, at: usize, indent: usize, value: &str) -> Result<(), String> {
        let first = value.as_bytes()[0];
        if matches!(first, b'|' | b'>') {
            self.text_below = Some(indent);
            self.push(at, at + value.len(), false);
            return Ok(());
        }
        if matches!(first, b'{' | b'[') {
            self.open = brackets(value, 0)?;
            self.push(at, at + value.len(), false);
            return Ok(());
        }
        if matches!(first, b'&' | b'*' | b'!' | b'@' | b'`' | b'?') {
            self.push(at, at + value.len(), false);
            return Ok(());
        }
        if matches!(first, b'"' | b'\'') {
            let quote = char::from(first);
            let inner = &value[1..];
            let Some(end) = inner.find(quote) else {
                return Err("a quoted text goes over several lines".into());
            };
            let rest = inner[end + 1..].trim_start();
            let plain = (rest.is_empty() || rest.starts_with('#')) && !inner[..end].contains('\\');
            self.push(at + 1, at + 1 + end, plain);
            return Ok(());
        }
        let end = value.find(" #").unwrap_or(value.len());
        let plain = value[..end].trim_end();
        self.push(at, at + plain.len(), true);
        self.value_at = Some(indent);
        Ok(())
    }

    fn push(&mut self, from: usize, to: usize, is_plain: bool) {
        let parts: Vec<String> = self
            .levels
            .iter()
            .map(|level| match &level.part {
                LevelPart::Key(key) => key.clone(),
                LevelPart::Item(index) => index.to_string(),
            })
            .collect();
        self.settings.all.push(FileSetting {
            name: parts.join("."),
            from,
            to,
            is_plain,
        });
    }
}

fn is_item(content: &str) -> bool {
    content == "-" || content.starts_with("- ")
}

/// The key at the start of a line, and what follows its colon.
fn key_of(content: &str) -> Option<(&str, &str)> {
    if let Some(quote @ ('"' | '\'')) = content.chars().next() {
        let end = content[1..].find(quote)? + 1;
        let rest = content[end + 1..].trim_start().strip_prefix(':')?;
        let ends = rest.is_empty() || rest.starts_with(' ');
        return ends.then_some((&content[1..end], rest));
    }
    let at = content
        .match_indices(':')
        .map(|(at, _)| at)
        .find(|at| content[at + 1..].is_empty() || content[at + 1..].starts_with(' '))?;
    let key = content[..at].trim_end();
    let is_key = !key.is_empty()
        && !key.contains(" #")
        && !key.starts_with(['{', '[', '&', '*', '!', '?', '|', '>', '#']);
    is_key.then_some((key, &content[at + 1..]))
}

/// The number of open brackets after a line of a flow value.
fn brackets(line: &str, mut open: usize) -> Result<usize, String> {
    let mut quote = None;
    let mut before = ' ';
    for c in line.chars() {
        match (quote, c) {
            (Some(q), _) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{' | '[') => open += 1,
            (None, '}' | ']') => open = open.saturating_sub(1),
            (None, '#') if before == ' ' => break,
            (None, _) => {}
        }
        before = c;
    }
    if quote.is_some() {
        return Err("a quoted text goes over several lines".into());
    }
    Ok(open)
}
