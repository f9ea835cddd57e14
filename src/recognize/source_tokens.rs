//! Python source as tokens: names, numbers, strings and operators, which bracket closes which, and where a statement
//! ends. Nothing is run, and nothing is understood beyond that.
//!
//! The text may be anything. Each byte is looked at a bounded number of times, and nothing is recursive beyond a fixed depth.

use std::ops::Range;

/// A longer text isn't a training script.
const MOST_TOKENS: usize = 400_000;

/// Brackets inside of brackets, up to which they are looked into.
pub(super) const DEEPEST: usize = 32;

/// Expressions inside of an f-string, inside of one of its expressions.
const DEEPEST_STRING: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    Name,
    Number,
    Text,
    Operator,
}

/// A piece of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourceToken {
    pub kind: TokenKind,
    pub from: usize,
    pub to: usize,
    /// Counted from 1.
    pub line: u32,
    /// The byte of the line at which it begins.
    pub column: u32,
    /// Of a bracket, its other end; else its own place.
    pub other: usize,
    /// The brackets around it.
    pub depth: u32,
}

/// One statement, which may be spread over several lines of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatementLine {
    pub tokens: Range<usize>,
    pub indent: u32,
}

/// A source, cut into tokens and statements.
#[derive(Debug, Default)]
pub(super) struct SourceTokens<'t> {
    pub source: &'t str,
    pub all: Vec<SourceToken>,
    pub statements: Vec<StatementLine>,
    /// What stands behind `#` after a statement or a part of one, by line.
    comments: Vec<(u32, Range<usize>)>,
}

impl<'t> SourceTokens<'t> {
    /// The tokens; as far as they go if the text is no Python.
    pub fn new(source: &'t str) -> SourceTokens<'t> {
        let mut reader = TokenReader {
            found: SourceTokens {
                source,
                ..SourceTokens::default()
            },
            bytes: source.as_bytes(),
            at: usize::from(source.starts_with('\u{feff}')) * '\u{feff}'.len_utf8(),
            line: 1,
            line_start: 0,
            open: Vec::new(),
            statement: None,
            same_line: None,
            // What strings with expressions in them may look ahead, in all.
            ahead: source.len().saturating_mul(4).saturating_add(4096),
        };
        reader.read();
        reader.found
    }

    pub fn text(&self, at: usize) -> &'t str {
        self.all
            .get(at)
            .and_then(|token| self.source.get(token.from..token.to))
            .unwrap_or("")
    }

    pub fn is_name(&self, at: usize) -> bool {
        let token = self.all.get(at);
        token.is_some_and(|token| token.kind == TokenKind::Name)
    }

    /// Whether a name stands anywhere.
    pub fn has_name(&self, name: &str) -> bool {
        (0..self.all.len()).any(|at| self.is_name(at) && self.text(at) == name)
    }

    pub fn is_operator(&self, at: usize, operator: &str) -> bool {
        let token = self.all.get(at);
        token.is_some_and(|token| token.kind == TokenKind::Operator) && self.text(at) == operator
    }

    /// The source from the first of these tokens to the last.
    pub fn text_of(&self, tokens: &Range<usize>) -> &'t str {
        let first = self.all.get(tokens.start);
        let last = self.all.get(tokens.end.wrapping_sub(1));
        first
            .zip(last)
            .filter(|_| !tokens.is_empty())
            .and_then(|(first, last)| self.source.get(first.from..last.to))
            .unwrap_or("")
    }

    /// What a string of one token says, as it is written; `None` for bytes and strings with expressions.
    pub fn string(&self, at: usize) -> Option<&'t str> {
        let token = self.all.get(at)?;
        if token.kind != TokenKind::Text {
            return None;
        }
        let written = self.text(at);
        let quote = written.find(['"', '\''])?;
        let (prefix, quoted) = written.split_at(quote);
        if prefix.contains(['f', 'F', 'b', 'B', 't', 'T']) {
            return None;
        }
        let three = quoted.get(..3).filter(|q| *q == "\"\"\"" || *q == "'''");
        let width = three.map_or(1, str::len);
        quoted.get(width..quoted.len().checked_sub(width)?)
    }

    /// The parts of a bracket's inside, between commas. Empty parts are left out.
    pub fn parts(&self, open: usize) -> Vec<Range<usize>> {
        let Some(bracket) = self.all.get(open).filter(|token| token.other > open) else {
            return Vec::new();
        };
        self.split(open + 1..bracket.other, ",")
    }

    /// Between the places of an operator that are in no bracket within these tokens.
    pub fn split(&self, tokens: Range<usize>, operator: &str) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let (mut from, mut at) = (tokens.start, tokens.start);
        while at < tokens.end {
            if self.is_operator(at, operator) {
                parts.push(from..at);
                from = at + 1;
            }
            at = self.after(at);
        }
        parts.push(from..tokens.end.max(from));
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// The token behind this one, or behind the bracket that it opens.
    pub fn after(&self, at: usize) -> usize {
        self.all.get(at).map_or(at, |token| token.other).max(at) + 1
    }

    /// `a.b.c` from here, and the token behind it; `None` where no name is.
    pub fn dotted(&self, from: usize, end: usize) -> Option<(&'t str, usize)> {
        if from >= end || !self.is_name(from) {
            return None;
        }
        let mut last = from;
        while last + 2 < end && self.is_operator(last + 1, ".") && self.is_name(last + 2) {
            last += 2;
        }
        Some((self.text_of(&(from..last + 1)), last + 1))
    }

    /// The comment behind what stands in this line.
    pub fn comment(&self, line: u32) -> Option<&'t str> {
        let found = self.comments.binary_search_by_key(&line, |(line, _)| *line);
        let (_, range) = self.comments.get(found.ok()?)?;
        self.source.get(range.clone())
    }
}

struct TokenReader<'t> {
    found: SourceTokens<'t>,
    bytes: &'t [u8],
    at: usize,
    line: u32,
    line_start: usize,
    /// Open brackets.
    open: Vec<usize>,
    /// The first token of the statement that is read, and its indentation.
    statement: Option<(usize, u32)>,
    /// The indentation of what follows a `;`.
    same_line: Option<u32>,
    ahead: usize,
}

impl TokenReader<'_> {
    fn read(&mut self) {
        while let Some(byte) = self.bytes.get(self.at).copied() {
            if self.found.all.len() >= MOST_TOKENS {
                break;
            }
            match byte {
                b'\n' => {
                    if self.open.is_empty() {
                        self.end_statement();
                        self.same_line = None;
                    }
                    self.newline();
                }
                b'\\' if self.is_continued() => {
                    self.at += 1;
                    while self.bytes.get(self.at) == Some(&b'\r') {
                        self.at += 1;
                    }
                    self.newline();
                }
                b'#' => self.comment(),
                b' ' | b'\t' | b'\r' | b'\x0c' => self.at += 1,
                b'"' | b'\'' => self.string(self.at),
                b'0'..=b'9' => self.number(),
                b'.' if self.peek(1).is_some_and(|next| next.is_ascii_digit()) => self.number(),
                _ if is_name_byte(byte) => self.name(),
                b'(' | b'[' | b'{' => {
                    let place = self.found.all.len();
                    self.push(TokenKind::Operator, self.at, self.at + 1);
                    self.open.push(place);
                }
                b')' | b']' | b'}' => self.close(),
                b';' if self.open.is_empty() => {
                    self.same_line = self.statement.map(|(_, indent)| indent);
                    self.end_statement();
                    self.at += 1;
                }
                _ => self.operator(),
            }
        }
        self.end_statement();
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn is_continued(&self) -> bool {
        let rest = self.bytes.get(self.at + 1..).unwrap_or_default();
        matches!(rest, [b'\n', ..] | [b'\r', b'\n', ..])
    }

    fn newline(&mut self) {
        self.at += 1;
        self.line += 1;
        self.line_start = self.at;
    }

    fn end_statement(&mut self) {
        if let Some((first, indent)) = self.statement.take() {
            let tokens = first..self.found.all.len();
            self.found.statements.push(StatementLine { tokens, indent });
        }
    }

    fn push(&mut self, kind: TokenKind, from: usize, to: usize) {
        let place = self.found.all.len();
        let column = u32::try_from(from.saturating_sub(self.line_start)).unwrap_or(u32::MAX);
        if self.statement.is_none() {
            let indent = self.same_line.unwrap_or_else(|| self.indent(from));
            self.statement = Some((place, indent));
        }
        self.found.all.push(SourceToken {
            kind,
            from,
            to,
            line: self.line,
            column,
            other: place,
            depth: u32::try_from(self.open.len()).unwrap_or(u32::MAX),
        });
        self.at = to;
    }

    /// The columns before a statement; those of one behind `;` are those of the line.
    fn indent(&self, from: usize) -> u32 {
        let before = self.bytes.get(self.line_start..from).unwrap_or_default();
        let blanks = before.iter().take_while(|b| matches!(b, b' ' | b'\t'));
        blanks.fold(0, |columns: u32, blank| match blank {
            b'\t' => (columns / 8 + 1).saturating_mul(8),
            _ => columns.saturating_add(1),
        })
    }

    fn comment(&mut self) {
        let from = self.at + 1;
        while self.bytes.get(self.at).is_some_and(|byte| *byte != b'\n') {
            self.at += 1;
        }
        let last = self.found.all.last();
        if last.is_some_and(|token| token.line == self.line) {
            self.found.comments.push((self.line, from..self.at));
        }
    }

    fn name(&mut self) {
        let from = self.at;
        let mut to = from;
        while self
            .bytes
            .get(to)
            .is_some_and(|b| is_name_byte(*b) || b.is_ascii_digit())
        {
            to += 1;
        }
        let is_prefix = to - from <= 2
            && self.bytes[from..to]
                .iter()
                .all(|b| b"rbfutRBFUT".contains(b))
            && matches!(self.bytes.get(to), Some(b'"' | b'\''));
        match is_prefix {
            true => self.string(to),
            false => self.push(TokenKind::Name, from, to),
        }
    }

    fn number(&mut self) {
        let from = self.at;
        let mut to = from;
        let is_based = matches!(
            self.bytes.get(from + 1),
            Some(b'x' | b'X' | b'b' | b'B' | b'o' | b'O')
        );
        while let Some(byte) = self.bytes.get(to) {
            let is_sign = matches!(byte, b'+' | b'-')
                && !is_based
                && to > from
                && matches!(self.bytes[to - 1], b'e' | b'E');
            if !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.') || is_sign) {
                break;
            }
            to += 1;
        }
        self.push(TokenKind::Number, from, to);
    }

    fn operator(&mut self) {
        let rest = &self.bytes[self.at..];
        let three: [&[u8]; 4] = [b"**=", b"//=", b">>=", b"<<="];
        let two: [&[u8]; 20] = [
            b"**", b"//", b"==", b"!=", b"<=", b">=", b"->", b":=", b"+=", b"-=", b"*=", b"/=",
            b"%=", b"&=", b"|=", b"^=", b"@=", b">>", b"<<", b"..",
        ];
        let length = match () {
            () if three.iter().any(|op| rest.starts_with(op)) => 3,
            () if two.iter().any(|op| rest.starts_with(op)) => 2,
            () => 1,
        };
        self.push(TokenKind::Operator, self.at, self.at + length);
    }

    fn close(&mut self) {
        let opened = self.open.pop();
        let place = self.found.all.len();
        self.push(TokenKind::Operator, self.at, self.at + 1);
        if let Some(opened) = opened {
            self.found.all[opened].other = place;
        }
    }

    /// A string whose prefix begins here, and whose quote is at `quote`.
    fn string(&mut self, quote: usize) {
        let (from, line, line_start) = (self.at, self.line, self.line_start);
        let prefix = &self.bytes[from..quote];
        let has_expressions = prefix
            .iter()
            .any(|b| matches!(b, b'f' | b'F' | b't' | b'T'));
        let end = match has_expressions {
            true => self
                .formatted_end(quote, 0)
                .or_else(|| self.plain_end(quote)),
            false => self.plain_end(quote),
        };
        // An open quote: the rest of the line is no string.
        let to = end.unwrap_or(quote + 1);
        self.push(TokenKind::Text, from, to);
        for (place, byte) in self.bytes[from..to].iter().enumerate() {
            if *byte == b'\n' {
                self.line += 1;
                self.line_start = from + place + 1;
            }
        }
        if let Some(token) = self.found.all.last_mut() {
            token.line = line;
            token.column = u32::try_from(from - line_start).unwrap_or(u32::MAX);
        }
    }

    /// Behind a string's closing quote; `None` if it has none.
    fn plain_end(&mut self, quote: usize) -> Option<usize> {
        if self.ahead == 0 {
            return None;
        }
        match self.closing(quote) {
            Ok(end) => Some(end),
            Err(at) => {
                // What follows is looked at again.
                self.ahead = self.ahead.saturating_sub(at - quote);
                None
            }
        }
    }

    /// Behind a string's closing quote; the error is where the search for it ended.
    fn closing(&self, quote: usize) -> Result<usize, usize> {
        let (mark, width) = self.quote_at(quote);
        let mut at = quote + width;
        loop {
            match self.bytes.get(at) {
                Some(b'\\') => at += 2,
                Some(byte) if *byte == mark && self.closes(at, mark, width) => {
                    return Ok(at + width);
                }
                Some(b'\n') if width == 1 => return Err(at),
                Some(_) => at += 1,
                None => return Err(at),
            }
        }
    }

    fn quote_at(&self, quote: usize) -> (u8, usize) {
        let mark = self.bytes[quote];
        let is_three = self.bytes[quote..].starts_with(&[mark; 3]);
        (mark, if is_three { 3 } else { 1 })
    }

    fn closes(&self, at: usize, mark: u8, width: usize) -> bool {
        let end = self.bytes.get(at..at + width);
        end.is_some_and(|end| end.iter().all(|byte| *byte == mark))
    }

    /// Behind the closing quote of a string with expressions, in which the same quotes may be used again.
    fn formatted_end(&mut self, quote: usize, depth: usize) -> Option<usize> {
        let (mark, width) = self.quote_at(quote);
        let mut at = quote + width;
        let mut braces = 0usize;
        loop {
            self.ahead = self.ahead.checked_sub(1)?;
            let byte = *self.bytes.get(at)?;
            match byte {
                b'\\' => at += 2,
                b'\n' if width == 1 && braces == 0 => return None,
                b'{' if braces == 0 && self.bytes.get(at + 1) == Some(&b'{') => at += 2,
                b'{' => {
                    braces += 1;
                    at += 1;
                }
                b'}' => {
                    braces = braces.saturating_sub(1);
                    at += 1;
                }
                b'"' | b'\'' if braces > 0 && depth < DEEPEST_STRING => {
                    at = self.formatted_end(at, depth + 1)?;
                }
                _ if byte == mark && braces == 0 && self.closes(at, mark, width) => {
                    return Some(at + width);
                }
                _ => at += 1,
            }
        }
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        let tokens = SourceTokens::new(source);
        (0..tokens.all.len()).map(|at| tokens.text(at)).collect()
    }

    #[test]
    fn strings_comments_and_brackets_hide_what_is_in_them() {
        assert_eq!(
            words("a = 'x # \\' y'  # b = 1\nc = \"\"\"d\n= 2\"\"\"\n"),
            ["a", "=", "'x # \\' y'", "c", "=", "\"\"\"d\n= 2\"\"\""]
        );
        assert_eq!(
            words("p(f\"{x[\"k\"]:>{w}} {{\" , rb'\\'', 1_0.5e-3)"),
            [
                "p",
                "(",
                "f\"{x[\"k\"]:>{w}} {{\"",
                ",",
                "rb'\\''",
                ",",
                "1_0.5e-3",
                ")"
            ]
        );
        let tokens = SourceTokens::new("if a:\n    b = f(1,\n  2) ; c = \\\n 3  # three\nd\n");
        let statements: Vec<(&str, u32)> = tokens
            .statements
            .iter()
            .map(|line| (tokens.text_of(&line.tokens), line.indent))
            .collect();
        assert_eq!(
            statements,
            [
                ("if a:", 0),
                ("b = f(1,\n  2)", 4),
                ("c = \\\n 3", 4),
                ("d", 0)
            ]
        );
        assert_eq!(tokens.comment(4), Some(" three"));
        assert_eq!(tokens.comment(2), None);
        let three = tokens
            .all
            .iter()
            .find(|token| tokens.source[token.from..].starts_with('3'));
        assert_eq!(three.map(|token| (token.line, token.column)), Some((4, 1)));
    }

    #[test]
    fn text_that_is_no_python_ends_and_takes_no_time() {
        let many = |part: &str| part.repeat(200_000);
        for source in [
            many("("),
            many("f(a=("),
            many("f'{'"),
            many("f\"{f\"{"),
            many("'''"),
            many("\\"),
            many("}"),
            format!("'{}", many("\\'")),
            many("\u{e9}'"),
            format!("x = {}", many("f'''{\n")),
        ] {
            let tokens = SourceTokens::new(&source);
            assert!(tokens.all.len() <= MOST_TOKENS);
            for at in 0..tokens.all.len().min(1000) {
                tokens.string(at);
                tokens.dotted(at, tokens.all.len());
            }
        }
    }
}
