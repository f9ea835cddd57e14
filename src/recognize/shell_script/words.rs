//! A shell script taken apart: lines that go on behind a backslash or inside of quotes and brackets, the commands of a line,
//! and their words with what is to be expanded in them.

/// A line with all that belongs to it.
#[derive(Debug)]
pub(super) struct LogicalLine {
    /// Its commands, with the line of each and whether it reads from a pipe.
    commands: Vec<LineCommand>,
}

#[derive(Debug, Clone, Default)]
struct LineCommand {
    line: u32,
    is_piped_into: bool,
    words: Vec<ScriptWord>,
}

impl LogicalLine {
    pub fn line_of(&self, at: usize) -> u32 {
        self.commands.get(at).map_or(0, |command| command.line)
    }

    pub fn is_piped_into(&self, at: usize) -> bool {
        self.commands
            .get(at)
            .is_some_and(|command| command.is_piped_into)
    }
}

pub(super) fn parts_of(line: &LogicalLine) -> Vec<Vec<ScriptWord>> {
    let commands = line.commands.iter();
    commands.map(|command| command.words.clone()).collect()
}

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ScriptPiece {
    Written(String),
    /// `$NAME`, `${NAME}`, `${NAME:-default}`; whether it stands in quotes.
    Variable {
        name: String,
        default: Option<String>,
        is_quoted: bool,
        written: String,
    },
    /// What a shell computes.
    Computed(String),
    /// `(a b c)` of an assignment.
    List(Vec<ScriptWord>),
}

/// A word of a script, as it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ScriptWord {
    pieces: Vec<ScriptPiece>,
    has_quotes: bool,
}

pub(super) enum Assigned {
    One(ScriptWord),
    List(Vec<ScriptWord>),
}

impl ScriptWord {
    /// Its text, where nothing of it is to be expanded.
    pub fn plain(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [ScriptPiece::Written(text)] => Some(text),
            _ => None,
        }
    }

    pub fn written(&self) -> String {
        let pieces = self.pieces.iter().map(|piece| match piece {
            ScriptPiece::Written(text) | ScriptPiece::Computed(text) => text.clone(),
            ScriptPiece::Variable { written, .. } => written.clone(),
            ScriptPiece::List(_) => "(…)".into(),
        });
        pieces.collect()
    }

    /// The name of the list whose words this stands for: `"$@"`, `"${ARGS[@]}"`.
    pub fn whole_list(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [ScriptPiece::Variable { name, .. }] if matches!(name.as_str(), "@" | "*") => {
                Some(name)
            }
            [ScriptPiece::Variable { name, .. }] => {
                let of_all = name.strip_suffix("[@]");
                of_all.or_else(|| name.strip_suffix("[*]"))
            }
            _ => None,
        }
    }

    /// Whether what a variable of it holds becomes several words.
    pub fn is_split(&self) -> bool {
        let is_open = |piece: &ScriptPiece| {
            matches!(
                piece,
                ScriptPiece::Variable {
                    is_quoted: false,
                    ..
                }
            )
        };
        !self.has_quotes && self.pieces.iter().any(is_open)
    }

    /// Its text with the values of its variables.
    pub fn text(&self, value: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                ScriptPiece::Written(written) => text.push_str(written),
                ScriptPiece::Variable { name, default, .. } => {
                    let known = value(name).filter(|value| !value.is_empty() || default.is_none());
                    text.push_str(&known.or_else(|| default.clone())?);
                }
                ScriptPiece::Computed(_) | ScriptPiece::List(_) => return None,
            }
        }
        Some(text)
    }

    /// The name and the value of `NAME=value`.
    pub fn assigned(&self) -> Option<(String, Assigned)> {
        let Some(ScriptPiece::Written(first)) = self.pieces.first() else {
            return None;
        };
        let (name, rest) = first.split_once('=')?;
        let is_name = |name: &str| {
            let mut bytes = name.bytes();
            let starts = bytes
                .next()
                .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
            starts && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        if !is_name(name) {
            return None;
        }
        if let [_, ScriptPiece::List(words)] = self.pieces.as_slice() {
            return Some((name.into(), Assigned::List(words.clone())));
        }
        let mut value = ScriptWord {
            has_quotes: true,
            pieces: self.pieces[1..].to_vec(),
        };
        value.pieces.insert(0, ScriptPiece::Written(rest.into()));
        Some((name.into(), Assigned::One(value)))
    }
}

/// The lines of a script, without comments, redirections and what stands in here-documents.
pub(super) fn logical_lines(text: &str) -> Vec<LogicalLine> {
    let mut reader = ScriptReader {
        text: text.as_bytes(),
        source: text,
        at: 0,
        line: 1,
        heredocs: Vec::new(),
    };
    let mut lines = Vec::new();
    while reader.at < reader.text.len() {
        let commands = reader.line();
        if !commands.is_empty() {
            lines.push(LogicalLine { commands });
        }
    }
    lines
}

struct ScriptReader<'t> {
    text: &'t [u8],
    source: &'t str,
    at: usize,
    line: u32,
    /// The ends of here-documents that begin behind this line.
    heredocs: Vec<String>,
}

impl ScriptReader<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn next(&mut self) {
        if self.peek(0) == b'\n' {
            self.line += 1;
        }
        self.at += 1;
    }

    /// The commands up to the end of the line.
    fn line(&mut self) -> Vec<LineCommand> {
        let mut commands = Vec::new();
        let mut one = LineCommand::default();
        let mut is_piped = false;
        loop {
            self.skip_spaces();
            let c = self.peek(0);
            let ends = matches!(c, 0 | b'\n' | b';' | b'&' | b'|');
            // `2>&1` and `>&2` are redirections, not the end of a command.
            if ends {
                if !one.words.is_empty() {
                    one.is_piped_into = is_piped;
                    commands.push(std::mem::take(&mut one));
                }
                is_piped = c == b'|' && self.peek(1) != b'|';
                if c == 0 {
                    break;
                }
                self.next();
                while matches!(c, b';' | b'&' | b'|') && self.peek(0) == c {
                    self.next();
                }
                if c == b'\n' {
                    self.skip_heredocs();
                    break;
                }
                continue;
            }
            if c == b'#' {
                while !matches!(self.peek(0), 0 | b'\n') {
                    self.next();
                }
                continue;
            }
            if self.redirection() {
                continue;
            }
            let line = self.line;
            let before = self.at;
            let word = self.word(false);
            if self.at == before {
                // A bracket by itself.
                self.next();
                continue;
            }
            if one.words.is_empty() {
                one.line = line;
            }
            one.words.push(word);
        }
        commands
    }

    fn skip_spaces(&mut self) {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b' ' | b'\t' | b'\r', _) => self.next(),
                (b'\\', b'\n' | 0) => {
                    self.next();
                    self.next();
                }
                // A backslash before the end of a line that has spaces behind it is meant to go on.
                (b'\\', b' ' | b'\t' | b'\r') if self.is_blank_up_to_end() => {
                    while self.peek(0) != b'\n' && self.peek(0) != 0 {
                        self.next();
                    }
                    self.next();
                }
                _ => break,
            }
        }
    }

    fn is_blank_up_to_end(&self) -> bool {
        let rest = self.text[self.at + 1..].iter();
        let mut rest = rest.take_while(|c| **c != b'\n');
        rest.all(|c| c.is_ascii_whitespace())
    }

    /// `> file`, `2>&1`, `&> file`, `< file`, `<<EOF`.
    fn redirection(&mut self) -> bool {
        let digits = self.text[self.at..].iter();
        let digits = digits.take_while(|c| c.is_ascii_digit()).count();
        let sign = self.peek(digits);
        if !matches!(sign, b'<' | b'>') || self.peek(digits + 1) == b'(' {
            return false;
        }
        let is_heredoc =
            sign == b'<' && self.peek(digits + 1) == b'<' && self.peek(digits + 2) != b'<';
        self.at += digits;
        while matches!(self.peek(0), b'<' | b'>' | b'&' | b'|' | b'-') {
            self.next();
        }
        self.skip_spaces();
        let word = self.word(false);
        if is_heredoc {
            self.heredocs.push(word.written());
        }
        true
    }

    fn skip_heredocs(&mut self) {
        for end in std::mem::take(&mut self.heredocs) {
            while self.at < self.text.len() {
                let from = self.at;
                while !matches!(self.peek(0), 0 | b'\n') {
                    self.next();
                }
                let line = self.source.get(from..self.at).unwrap_or_default();
                let is_end = line.trim() == end;
                self.next();
                if is_end {
                    break;
                }
            }
        }
    }

    /// The word from here; in a list it ends at the bracket as well.
    fn word(&mut self, is_in_list: bool) -> ScriptWord {
        let mut word = ScriptWord::default();
        let mut written = String::new();
        loop {
            let c = self.peek(0);
            match c {
                0 | b' ' | b'\t' | b'\r' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' => break,
                b')' if is_in_list => break,
                b'(' | b')' => {
                    // `NAME=( … )`; any other bracket is a subshell's or a function's.
                    let is_assigned = c == b'(' && written.ends_with('=') && word.pieces.is_empty();
                    if !is_assigned {
                        break;
                    }
                    self.next();
                    word.pieces
                        .push(ScriptPiece::Written(std::mem::take(&mut written)));
                    word.pieces.push(ScriptPiece::List(self.list()));
                    break;
                }
                b'\\' if self.peek(1) == b'\n' => break,
                b'\\' => {
                    self.next();
                    self.push(&mut written);
                }
                b'\'' => {
                    word.has_quotes = true;
                    self.next();
                    while !matches!(self.peek(0), 0 | b'\'') {
                        self.push(&mut written);
                    }
                    self.next();
                }
                b'"' => {
                    word.has_quotes = true;
                    self.next();
                    while !matches!(self.peek(0), 0 | b'"') {
                        match (self.peek(0), self.peek(1)) {
                            (b'\\', b'\n') => {
                                self.next();
                                self.next();
                            }
                            (b'\\', b'"' | b'$' | b'\\' | b'`') => {
                                self.next();
                                self.push(&mut written);
                            }
                            (b'$' | b'`', _) => self.expansion(&mut word, &mut written, true),
                            _ => self.push(&mut written),
                        }
                    }
                    self.next();
                }
                b'$' | b'`' => self.expansion(&mut word, &mut written, false),
                _ => self.push(&mut written),
            }
        }
        if !written.is_empty() || word.pieces.is_empty() && word.has_quotes {
            word.pieces.push(ScriptPiece::Written(written));
        }
        word
    }

    /// Takes one character.
    fn push(&mut self, written: &mut String) {
        let rest = self
            .source
            .get(self.at..)
            .and_then(|rest| rest.chars().next());
        match rest {
            Some(c) => {
                written.push(c);
                if c == '\n' {
                    self.line += 1;
                }
                self.at += c.len_utf8();
            }
            None => self.at += 1,
        }
    }

    /// The words between the brackets of a list.
    fn list(&mut self) -> Vec<ScriptWord> {
        let mut words = Vec::new();
        while self.peek(0) != 0 {
            self.skip_spaces();
            match self.peek(0) {
                b')' => {
                    self.next();
                    break;
                }
                b'#' => {
                    while !matches!(self.peek(0), 0 | b'\n') {
                        self.next();
                    }
                }
                b'\n' => self.next(),
                _ => {
                    let before = self.at;
                    let word = self.word(true);
                    match self.at == before {
                        true => self.next(),
                        false => words.push(word),
                    }
                }
            }
        }
        words
    }

    /// `$NAME`, `${NAME…}`, `$(…)`, `` `…` `` from here.
    fn expansion(&mut self, word: &mut ScriptWord, written: &mut String, is_quoted: bool) {
        let from = self.at;
        let (open, close) = match (self.peek(0), self.peek(1)) {
            (b'`', _) => (0, b'`'),
            (_, b'(') => (b'(', b')'),
            (_, b'{') => (b'{', b'}'),
            (_, c)
                if c.is_ascii_alphanumeric()
                    || matches!(c, b'_' | b'@' | b'*' | b'#' | b'?' | b'$') =>
            {
                self.next();
                match c.is_ascii_alphabetic() || c == b'_' {
                    true => {
                        while self.peek(0).is_ascii_alphanumeric() || self.peek(0) == b'_' {
                            self.next();
                        }
                    }
                    false => self.next(),
                }
                self.variable(word, written, from, from + 1..self.at, is_quoted);
                return;
            }
            _ => {
                self.push(written);
                return;
            }
        };
        self.next();
        if open != 0 {
            self.next();
        }
        let inner = self.at;
        let mut depth = 1;
        while self.peek(0) != 0 {
            let c = self.peek(0);
            if c == close {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            } else if open != 0 && c == open {
                depth += 1;
            }
            self.next();
        }
        let inside = inner..self.at;
        self.next();
        match open {
            b'{' => self.variable(word, written, from, inside, is_quoted),
            _ => {
                let text = self.source.get(from..self.at.min(self.text.len()));
                take(word, written);
                word.pieces
                    .push(ScriptPiece::Computed(text.unwrap_or_default().into()));
            }
        }
    }

    /// A variable whose name, and what is behind that, stands in this range.
    fn variable(
        &mut self,
        word: &mut ScriptWord,
        written: &mut String,
        from: usize,
        inside: std::ops::Range<usize>,
        is_quoted: bool,
    ) {
        let whole = self.source.get(from..self.at.min(self.text.len()));
        let whole = whole.unwrap_or_default().to_string();
        let inside = self.source.get(inside).unwrap_or_default();
        let (name, default) = match inside.split_once(":-").or_else(|| inside.split_once(":=")) {
            Some((name, default)) => (name, Some(default.trim_matches(['"', '\'']).to_string())),
            None => match inside.split_once('-') {
                Some((name, default)) => (name, Some(default.to_string())),
                None => (inside, None),
            },
        };
        let body = name.trim_end_matches("[@]").trim_end_matches("[*]");
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_plain = matches!(body, "@" | "*" | "#" | "?" | "$")
            || !body.is_empty() && body.chars().all(is_name);
        let is_known = is_plain
            && !default
                .as_deref()
                .is_some_and(|text| text.contains(['$', '`']));
        take(word, written);
        word.pieces.push(match is_known {
            true => ScriptPiece::Variable {
                name: name.into(),
                default,
                is_quoted,
                written: whole,
            },
            false => ScriptPiece::Computed(whole),
        });
    }
}

/// What was written before an expansion is a piece of its own.
fn take(word: &mut ScriptWord, written: &mut String) {
    if !written.is_empty() {
        word.pieces
            .push(ScriptPiece::Written(std::mem::take(written)));
    }
}
