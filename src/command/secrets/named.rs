//! Values after the names of secrets in a text: a script, JSON, YAML, a header, a URL, a list of
//! settings. A value is masked to its end, and where that is unclear rather too far.

use super::names::{is_plain_value, is_secret, is_secret_parameter};

/// The byte ranges of the values: `"api_key": "x, y"`, `X-Api-Key: x`, `a=1,token=x`, `?sig=x&y=1`.
pub(super) fn find(text: &str) -> Vec<(usize, usize)> {
    let mut quotes = Quotes::default();
    let mut brackets = Brackets::default();
    let mut addresses = Addresses::default();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(from) = text[at..].find(is_of_name).map(|offset| at + offset) {
        let name_end = text[from..]
            .find(|c| !is_of_name(c))
            .map_or(text.len(), |length| from + length);
        at = name_end;
        let name = &text[from..name_end];
        let bytes = text.as_bytes();
        let is_one = is_secret(name)
            || is_secret_parameter(name) && addresses.has_parameter(text, from, name_end);
        if !is_one {
            continue;
        }
        let Some(separator) = separator(text, from, name_end) else {
            continue;
        };
        let value = SecretValue {
            bytes,
            name: from,
            start: separator.end,
            within: quotes.around(bytes, separator.at),
            bracket: brackets.around(bytes, from),
            kind: separator.kind,
        };
        let (start, end) = value.range();
        if end > start && !is_plain_value(text[start..end].trim()) {
            found.push((start, end));
            at = end.max(at);
        }
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// What stands between a name and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Colon,
    Equals,
    /// With blanks around it: an assignment of a program or of a configuration file.
    Assignment,
    /// `"--password", "x"`: the next entry of a list.
    NextEntry,
}

struct Separator {
    kind: Kind,
    at: usize,
    end: usize,
}

fn separator(text: &str, from: usize, name_end: usize) -> Option<Separator> {
    let rest = &text[name_end..];
    let closed = rest.trim_start_matches(['"', '\'', '\\', ']']);
    let bare = closed.trim_start_matches([' ', '\t']);
    let at = text.len() - bare.len();
    let (kind, behind) = if let Some(behind) = bare.strip_prefix(':') {
        // `://` is part of a URL, `::` of a path.
        if behind.starts_with("//") || behind.starts_with(':') {
            return None;
        }
        (Kind::Colon, behind.strip_prefix('=').unwrap_or(behind))
    } else if let Some(behind) = behind_arrow(text, name_end, bare) {
        let is_spaced = behind.starts_with([' ', '\t']);
        let kind = if is_spaced {
            Kind::Assignment
        } else {
            Kind::Equals
        };
        (kind, behind)
    } else if let Some(behind) = bare.strip_prefix('=') {
        // `==` compares.
        if behind.starts_with('=') {
            return None;
        }
        let behind = behind.strip_prefix('>').unwrap_or(behind);
        let is_spaced = bare.len() < closed.len() && behind.starts_with([' ', '\t']);
        let kind = if is_spaced {
            Kind::Assignment
        } else {
            Kind::Equals
        };
        (kind, behind)
    } else if let Some(behind) = bare.strip_prefix(',') {
        let is_option = text[from..].starts_with('-') && closed.len() < rest.len();
        if !is_option || !behind.trim_start().starts_with(['"', '\'', '\\']) {
            return None;
        }
        (Kind::NextEntry, behind)
    } else {
        return None;
    };
    let value = behind.trim_start_matches([' ', '\t']);
    Some(Separator {
        kind,
        at,
        end: text.len() - value.len(),
    })
}

/// What is behind an arrow, `->` or `→`; a name may have taken its first half for its own.
fn behind_arrow<'a>(text: &str, name_end: usize, bare: &'a str) -> Option<&'a str> {
    let half = || {
        let is_half = text[..name_end].ends_with('-') && bare.len() == text.len() - name_end;
        bare.strip_prefix('>').filter(|_| is_half)
    };
    let whole = bare.strip_prefix("->").or_else(|| bare.strip_prefix('→'));
    whole.or_else(half)
}

/// A value whose end is looked for.
struct SecretValue<'a> {
    bytes: &'a [u8],
    name: usize,
    start: usize,
    /// The quote that the name stands in.
    within: Option<OpenQuote>,
    /// The bracket that the name stands in, whether inside that quote or around it.
    bracket: Option<OpenBracket>,
    kind: Kind,
}

impl SecretValue<'_> {
    fn range(&self) -> (usize, usize) {
        if let Some(end) = self.block_end() {
            return (self.start, end);
        }
        let slashes = self.bytes[self.start..]
            .iter()
            .take_while(|byte| **byte == b'\\')
            .count();
        let at = self.start + slashes;
        match mark(self.bytes, at) {
            Some(mark) if self.within.is_some_and(|open| open.mark == mark) => {
                (self.start, self.start)
            }
            Some(mark) => self.quoted(at, mark),
            None if matches!(self.bytes.get(self.start), Some(b'[' | b'{' | b'(')) => {
                (self.start, self.bracket_end(self.start))
            }
            None => (self.start, self.bare_end(self.start)),
        }
    }

    /// The rest of what a name of a YAML file is given on the lines below it: `password: |`, or a list.
    fn block_end(&self) -> Option<usize> {
        let line_end = |from: usize| {
            memchr::memchr(b'\n', &self.bytes[from..]).map_or(self.bytes.len(), |n| from + n)
        };
        // Most values begin on the line of their name, whose end may be far.
        let first = self.bytes[self.start..].first();
        if self.kind != Kind::Colon || !first.is_none_or(|first| b"|>\r\n".contains(first)) {
            return None;
        }
        let end = line_end(self.start);
        let rest = self.bytes[self.start..end].trim_ascii();
        let begins = rest.is_empty() || matches!(rest[0], b'|' | b'>') && rest.len() <= 3;
        if !begins || end == self.bytes.len() {
            return None;
        }
        let line = memchr::memrchr(b'\n', &self.bytes[..self.name]).map_or(0, |at| at + 1);
        let indent = |line: &[u8]| line.iter().take_while(|byte| **byte == b' ').count();
        let own = indent(&self.bytes[line..]);
        let mut last = end;
        while last < self.bytes.len() {
            let next_end = line_end(last + 1);
            let next = &self.bytes[last + 1..next_end];
            let belongs = next.trim_ascii().is_empty()
                || indent(next) > own
                || next.trim_ascii().starts_with(b"- ");
            if !belongs {
                break;
            }
            last = next_end;
        }
        (last > end).then_some(last)
    }

    /// A value in quotes, which begin at `at`.
    fn quoted(&self, at: usize, opening: QuoteMark) -> (usize, usize) {
        let triple = [opening.quote; 3];
        let is_triple = self.bytes[at..].starts_with(&triple);
        let from = if is_triple { at + 3 } else { at + 1 };
        let mut places = from..self.bytes.len();
        let closing = places.find(|place| match is_triple {
            true => self.bytes[*place..].starts_with(&triple),
            false => mark(self.bytes, *place) == Some(opening),
        });
        let Some(closing) = closing else {
            return (from, self.bytes.len());
        };
        // What goes on without a gap is one word for a shell, and `''` one quote for YAML.
        let behind = closing + if is_triple { 3 } else { 1 };
        let goes_on = match self.bytes.get(behind) {
            Some(next) if *next == opening.quote && !is_triple => true,
            Some(next) => {
                self.kind == Kind::Equals
                    && (next.is_ascii_alphanumeric() || matches!(next, b'"' | b'\'' | b'$' | b'\\'))
                    && self
                        .within
                        .is_none_or(|open| mark(self.bytes, behind) != Some(open.mark))
            }
            None => false,
        };
        match goes_on {
            true => (from, self.bare_end(behind)),
            // The backslashes belong to the closing quote.
            false => (from, (closing - opening.level).max(from)),
        }
    }

    /// The end of a list or a table.
    fn bracket_end(&self, from: usize) -> usize {
        let mut depth = 0usize;
        let mut at = from;
        while at < self.bytes.len() {
            match self.bytes[at] {
                b'[' | b'{' | b'(' => depth += 1,
                b']' | b'}' | b')' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return at + 1;
                    }
                }
                _ => match self.quote_end(at) {
                    Quote::None => {}
                    Quote::Around => return at,
                    Quote::Until(end) => at = end - 1,
                },
            }
            at += 1;
        }
        self.bytes.len()
    }

    /// The end of a value without quotes of its own; those in it are part of it.
    fn bare_end(&self, from: usize) -> usize {
        let ends = self.ends();
        let mut depth = 0usize;
        let mut at = from;
        while at < self.bytes.len() {
            let byte = self.bytes[at];
            match byte {
                b'\\'
                    if self
                        .bytes
                        .get(at + 1)
                        .is_some_and(|next| !matches!(next, b'"' | b'\'' | b'\\' | b'\n')) =>
                {
                    at += 1;
                }
                b'\\' => {}
                b'[' | b'{' | b'(' => depth += 1,
                b']' | b'}' | b')' if depth > 0 => depth -= 1,
                _ => match self.quote_end(at) {
                    Quote::Around => return self.without_slashes(at),
                    Quote::Until(end) => at = end - 1,
                    Quote::None if depth == 0 && self.is_end(ends, at) => return at,
                    Quote::None => {}
                },
            }
            at += 1;
        }
        self.bytes.len()
    }

    /// A place without the backslashes before it.
    fn without_slashes(&self, mut at: usize) -> usize {
        while at > self.start && self.bytes[at - 1] == b'\\' {
            at -= 1;
        }
        at
    }

    /// Whether the quote around the value ends here, or another one begins.
    fn quote_end(&self, at: usize) -> Quote {
        let Some(here) = mark(self.bytes, at) else {
            return Quote::None;
        };
        if self.within.is_some_and(|open| open.mark == here) {
            return Quote::Around;
        }
        let mut behind = at + 1..self.bytes.len();
        let closing = behind.find(|place| {
            let there = mark(self.bytes, *place);
            there == Some(here) || there.is_some() && there == self.within.map(|open| open.mark)
        });
        match closing {
            Some(place) if mark(self.bytes, place) == Some(here) => Quote::Until(place + 1),
            Some(_) | None => Quote::None,
        }
    }

    /// By what kind of text the value stands in.
    fn ends(&self) -> Ends {
        let before = self.bytes[..self.name].trim_ascii_end();
        let directly = self.name.checked_sub(1).map(|at| self.bytes[at]);
        let is_first_in_quotes = self.within.is_some_and(|open| open.from == self.name);
        let floor = self.within.map_or(0, |open| open.from.min(self.name));
        if let Some(bracket) = self.bracket.filter(|open| open.at >= floor) {
            return Ends::Entry(bracket.closing);
        }
        match self.kind {
            Kind::Equals if is_first_in_quotes => Ends::Line,
            Kind::Equals if matches!(directly, Some(b'?' | b'&' | b'#')) => Ends::Query,
            Kind::Equals if directly == Some(b';') => Ends::Semicolon,
            Kind::Equals | Kind::Colon if before.last() == Some(&b',') && !is_first_in_quotes => {
                Ends::Setting
            }
            Kind::Equals => Ends::Word,
            Kind::Colon | Kind::Assignment | Kind::NextEntry => Ends::Line,
        }
    }

    fn is_end(&self, ends: Ends, at: usize) -> bool {
        let byte = self.bytes[at];
        let next = self.bytes.get(at + 1);
        match ends {
            Ends::Entry(bracket) => {
                byte == bracket || byte == b',' && self.is_before_a_name(at + 1)
            }
            Ends::Line => matches!(byte, b'\n' | b'\r'),
            Ends::Query => byte == b'&' || byte.is_ascii_whitespace(),
            Ends::Semicolon => matches!(byte, b';' | b'\n'),
            Ends::Setting => match byte {
                b',' => self.is_before_a_name(at + 1),
                b'\n' => true,
                // The first of several blanks speaks for all.
                b' ' | b'\t' if at > self.start && matches!(self.bytes[at - 1], b' ' | b'\t') => {
                    false
                }
                b' ' | b'\t' => {
                    let rest = self.bytes[at..].trim_ascii_start();
                    rest.first()
                        .is_none_or(|first| matches!(first, b'-' | b'&' | b'|' | b';'))
                }
                _ => false,
            },
            Ends::Word => match byte {
                b';' | b'|' => true,
                b'&' => next.is_none_or(|next| *next == b'&' || next.is_ascii_whitespace()),
                _ => byte.is_ascii_whitespace(),
            },
        }
    }

    /// Whether another entry begins: a name, and what separates it from its value.
    fn is_before_a_name(&self, at: usize) -> bool {
        let rest = &self.bytes[at.min(self.bytes.len())..];
        let quotes = |byte: u8| matches!(byte, b'"' | b'\'' | b'\\' | b'+' | b'~');
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let rest = skip(rest, |byte| byte.is_ascii_whitespace());
        let named = skip(rest, quotes);
        let behind = skip(named, is_name);
        let separated = skip(skip(behind, quotes), |byte| byte.is_ascii_whitespace());
        behind.len() < named.len() && matches!(separated.first(), Some(b'=' | b':'))
    }
}

fn skip(bytes: &[u8], also: impl Fn(u8) -> bool) -> &[u8] {
    let first = bytes.iter().position(|byte| !also(*byte));
    &bytes[first.unwrap_or(bytes.len())..]
}

/// What a quotation mark inside a value is.
enum Quote {
    None,
    /// The end of the quote that the value stands in.
    Around,
    /// The beginning of one that ends before this place.
    Until(usize),
}

/// Where a value without quotes ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// With the entry of a table or of a call: before the next name, or with the bracket.
    Entry(u8),
    /// With the line.
    Line,
    /// With the parameter of a URL.
    Query,
    /// With the setting of a connection: `Server=x;Password=y;`.
    Semicolon,
    /// Before the next name of `a=1,b=2`.
    Setting,
    /// With the word of a shell.
    Word,
}

/// A quotation mark with the backslashes before it, by which quotes inside quotes are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QuoteMark {
    quote: u8,
    level: usize,
}

/// A quote that is open at some place.
#[derive(Debug, Clone, Copy)]
struct OpenQuote {
    mark: QuoteMark,
    /// Where its content begins.
    from: usize,
}

/// Walks along a text and knows which quote is open.
#[derive(Debug, Default)]
struct Quotes {
    at: usize,
    open: Option<OpenQuote>,
}

impl Quotes {
    /// The quote around `place`; places are asked for in their order.
    fn around(&mut self, bytes: &[u8], place: usize) -> Option<OpenQuote> {
        while self.at < place {
            let at = self.at;
            self.at += 1;
            let Some(mark) = mark(bytes, at) else {
                continue;
            };
            match self.open {
                Some(open) if open.mark == mark => self.open = None,
                Some(_) => {}
                // An apostrophe: it's.
                None if mark.quote == b'\''
                    && at
                        .checked_sub(1)
                        .is_some_and(|before| bytes[before].is_ascii_alphanumeric()) => {}
                None => {
                    let from = at + 1;
                    self.open = Some(OpenQuote { mark, from });
                }
            }
        }
        self.open
    }
}

/// An open bracket, and what closes it.
#[derive(Debug, Clone, Copy)]
struct OpenBracket {
    at: usize,
    closing: u8,
}

/// Walks along a text and knows which brackets are open.
#[derive(Debug, Default)]
struct Brackets {
    at: usize,
    open: Vec<OpenBracket>,
}

impl Brackets {
    /// The innermost bracket around `place`; places are asked for in their order.
    fn around(&mut self, bytes: &[u8], place: usize) -> Option<OpenBracket> {
        while self.at < place {
            let at = self.at;
            self.at += 1;
            let closing = match bytes[at] {
                b'[' => b']',
                b'{' => b'}',
                b'(' => b')',
                b']' | b'}' | b')' => {
                    self.open.pop();
                    continue;
                }
                _ => continue,
            };
            self.open.push(OpenBracket { at, closing });
        }
        self.open.last().copied()
    }
}

/// Walks along a text and knows whether an address with parameters is going on.
#[derive(Debug, Default)]
struct Addresses {
    at: usize,
    has_scheme: bool,
}

impl Addresses {
    /// Whether the name is that of a parameter: behind `?`, or in an address behind `&` or `#`. Names are asked for in
    /// their order.
    fn has_parameter(&mut self, text: &str, from: usize, name_end: usize) -> bool {
        let bytes = text.as_bytes();
        while self.at < from {
            let rest = &bytes[self.at..];
            if rest.starts_with(b"://") {
                self.has_scheme = true;
            } else if rest[0].is_ascii_whitespace() || matches!(rest[0], b'"' | b'\'') {
                self.has_scheme = false;
            }
            self.at += 1;
        }
        let directly = from.checked_sub(1).map(|before| bytes[before]);
        let is_behind = match directly {
            Some(b'?') => true,
            Some(b'&' | b'#') => self.has_scheme,
            _ => false,
        };
        is_behind && bytes.get(name_end) == Some(&b'=')
    }
}

/// The quotation mark at a place.
fn mark(bytes: &[u8], at: usize) -> Option<QuoteMark> {
    let quote = *bytes.get(at).filter(|byte| matches!(byte, b'"' | b'\''))?;
    let before = bytes[..at].iter().rev();
    let level = before.take_while(|byte| **byte == b'\\').count();
    Some(QuoteMark { quote, level })
}
