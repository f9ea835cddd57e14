//! The settings of a config file with their byte ranges: YAML, JSON, TOML, and Python files of plain
//! assignments. Whatever isn't surely understood is reported as unclear and never edited.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileSetting {
    /// Dotted; items of a list are numbered.
    pub name: String,
    /// The byte range, without quotes.
    pub from: usize,
    pub to: usize,
    /// Whether it is a plain value that may be replaced.
    pub is_plain: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileSettings {
    /// In order.
    pub all: Vec<FileSetting>,
    /// Whether a merge or an include may set what is missing here.
    pub may_hide: bool,
}

/// All scalars of a YAML document.
pub(super) fn yaml_settings(text: &str) -> Result<FileSettings, String> {
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

/// All scalars of a JSON document.
pub(super) fn json_settings(text: &str) -> Result<FileSettings, String> {
    let mut reader = JsonReader {
        text: text.as_bytes(),
        at: 0,
        found: Vec::new(),
    };
    // A program that accepts comments in JSON may read it differently.
    serde_json::from_str::<serde::de::IgnoredAny>(text)
        .map_err(|error| format!("it isn't valid JSON ({error})"))?;
    reader.value(String::new());
    Ok(FileSettings {
        all: reader.found,
        may_hide: false,
    })
}

/// Walks over valid JSON.
struct JsonReader<'a> {
    text: &'a [u8],
    at: usize,
    found: Vec<FileSetting>,
}

impl JsonReader<'_> {
    fn peek(&mut self) -> u8 {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied().unwrap_or(0)
    }

    /// The byte range of the string that begins here, without quotes.
    fn string(&mut self) -> (usize, usize) {
        self.at += 1;
        let from = self.at;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        let to = self.at.min(self.text.len());
        self.at += 1;
        (from, to)
    }

    fn value(&mut self, name: String) {
        match self.peek() {
            b'{' => self.members(&name, b'}', true),
            b'[' => self.members(&name, b']', false),
            b'"' => {
                let (from, to) = self.string();
                self.push(name, from, to);
            }
            0 => {}
            _ => {
                let from = self.at;
                let ends = |byte: &u8| byte.is_ascii_whitespace() || b",]}".contains(byte);
                while self.text.get(self.at).is_some_and(|byte| !ends(byte)) {
                    self.at += 1;
                }
                self.push(name, from, self.at);
            }
        }
    }

    fn members(&mut self, name: &str, end: u8, named: bool) {
        self.at += 1;
        let mut index = 0;
        loop {
            match self.peek() {
                0 => return,
                byte if byte == end => {
                    self.at += 1;
                    return;
                }
                b',' => self.at += 1,
                _ => {
                    let part = if named {
                        let (from, to) = self.string();
                        self.peek();
                        self.at += 1;
                        String::from_utf8_lossy(&self.text[from..to]).into_owned()
                    } else {
                        index.to_string()
                    };
                    index += 1;
                    let dot = if name.is_empty() { "" } else { "." };
                    self.value(format!("{name}{dot}{part}"));
                }
            }
        }
    }

    fn push(&mut self, name: String, from: usize, to: usize) {
        self.found.push(FileSetting {
            name,
            from,
            to,
            is_plain: true,
        });
    }
}

/// The assignments at the left margin of a Python file (nanoGPT's config files). A value that is
/// computed from other names, assigned twice or set in a block is unclear.
pub(super) fn python_settings(text: &str) -> Result<FileSettings, String> {
    let mut settings = FileSettings::default();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let from = offset;
        offset += line.len();
        if line.contains("\"\"\"") || line.contains("'''") {
            return Err("it has text over several lines".into());
        }
        let content = line.trim_end();
        if content.starts_with("import ") || content.starts_with("from ") {
            settings.may_hide = true;
        }
        let Some((name, rest)) = content.split_once('=') else {
            continue;
        };
        let name = name.trim_end();
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        // In a block, or `+=`: assigned conditionally.
        let bare = name
            .trim_start()
            .trim_end_matches(['+', '-', '*', '/'])
            .trim_end();
        if !is_name(bare) || rest.starts_with('=') {
            continue;
        }
        let value = rest.split('#').next().unwrap_or(rest);
        let trimmed = value.trim();
        let at = from + content.len() - rest.len() + (value.len() - value.trim_start().len());
        let is_literal = matches!(trimmed, "True" | "False") || python_number(trimmed).is_some();
        let quoted = ['\'', '"'].iter().find_map(|quote| {
            let inner = trimmed.strip_prefix(*quote)?.strip_suffix(*quote)?;
            (!inner.contains(['\'', '"', '\\'])).then_some(inner)
        });
        let (from, to) = match quoted {
            Some(inner) => (at + 1, at + 1 + inner.len()),
            None => (at, at + trimmed.len()),
        };
        settings.all.push(FileSetting {
            name: bare.to_string(),
            from,
            to,
            is_plain: name == bare && (is_literal || quoted.is_some()),
        });
    }
    Ok(settings)
}

/// The value of integer arithmetic (`5 * 8`); `None` for anything else.
pub(super) fn python_number(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    // No constant is longer, and endless brackets would overflow the stack.
    if rest.len() > 100 {
        return None;
    }
    let sum = sum(&mut rest)?;
    rest.is_empty().then_some(sum)
}

fn take(rest: &mut &str, operator: &str) -> bool {
    let found = rest.strip_prefix(operator);
    *rest = found.unwrap_or(rest).trim_start();
    found.is_some()
}

fn sum(rest: &mut &str) -> Option<u64> {
    let mut sum = product(rest)?;
    loop {
        sum = if take(rest, "+") {
            sum.checked_add(product(rest)?)?
        } else if take(rest, "-") {
            sum.checked_sub(product(rest)?)?
        } else {
            return Some(sum);
        };
    }
}

fn product(rest: &mut &str) -> Option<u64> {
    let mut product = power(rest)?;
    loop {
        product = if take(rest, "*") {
            product.checked_mul(power(rest)?)?
        } else if take(rest, "//") {
            product.checked_div(power(rest)?)?
        } else {
            return Some(product);
        };
    }
}

fn power(rest: &mut &str) -> Option<u64> {
    let base = operand(rest)?;
    match take(rest, "**") {
        true => base.checked_pow(power(rest)?.try_into().ok()?),
        false => Some(base),
    }
}

fn operand(rest: &mut &str) -> Option<u64> {
    if take(rest, "(") {
        let inner = sum(rest)?;
        return take(rest, ")").then_some(inner);
    }
    let is_digit = |c: char| c.is_ascii_digit() || c == '_';
    let end = rest.find(|c| !is_digit(c)).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after.trim_start();
    digits.replace('_', "").parse().ok()
}

/// All scalars of a TOML document.
pub(super) fn toml_settings(text: &str) -> Result<FileSettings, String> {
    let document = DeTable::parse(text).map_err(|error| {
        format!(
            "it isn't valid TOML ({})",
            error.message().replace('\n', "; ")
        )
    })?;
    let mut found = Vec::new();
    toml_table("", document.get_ref(), &mut found);
    found.sort_by_key(|setting| setting.from);
    Ok(FileSettings {
        all: found,
        may_hide: false,
    })
}

fn toml_table(name: &str, table: &DeTable<'_>, found: &mut Vec<FileSetting>) {
    for (key, inner) in table.iter() {
        let dot = if name.is_empty() { "" } else { "." };
        toml_value(format!("{name}{dot}{}", key.get_ref()), inner, found);
    }
}

fn toml_value(name: String, value_here: &Spanned<DeValue<'_>>, found: &mut Vec<FileSetting>) {
    let span = value_here.span();
    let mut push = |from, to, is_plain| {
        found.push(FileSetting {
            name: name.clone(),
            from,
            to,
            is_plain,
        });
    };
    match value_here.get_ref() {
        DeValue::Table(inner) => toml_table(&name, inner, found),
        DeValue::Array(inner) => {
            for (index, part) in inner.iter().enumerate() {
                toml_value(format!("{name}.{index}"), part, found);
            }
        }
        // Without quotes, of which a multi-line string has three.
        DeValue::String(text) => {
            let short = span.len() == text.len() + 2;
            push(span.start + 1, span.end.saturating_sub(1), short);
        }
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
            push(span.start, span.end, true);
        }
    }
}
