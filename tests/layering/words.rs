//! Rust source as words, and the paths in it: just enough of the language to see who imports whom.
//! Comments, strings and character literals are no words; blocks and inline modules are followed.

/// A word of a source, and its line, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    pub line: usize,
}

/// A path as it is written somewhere, made absolute where it begins at the crate or climbs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Its segments: `["crate", "units", "Bytes"]`, `["std", "fs", "File"]`.
    pub segments: Vec<String>,
    pub line: usize,
    /// Whether it stands in a module that only tests have.
    pub in_test: bool,
}

/// The words of a source: names, `::` and single marks.
pub fn words(source: &str) -> Vec<Word> {
    let bytes: Vec<char> = source.chars().collect();
    let (mut words, mut at, mut line) = (Vec::new(), 0, 1);
    let starts = |at: usize, text: &str| {
        text.chars()
            .enumerate()
            .all(|(i, c)| bytes.get(at + i) == Some(&c))
    };
    while at < bytes.len() {
        let from = at;
        let c = bytes[at];
        if starts(at, "//") {
            at = end_of(&bytes, at, |at| bytes[at] == '\n');
        } else if starts(at, "/*") {
            at = end_of_comment(&bytes, at);
        } else if let Some(end) = end_of_string(&bytes, at) {
            at = end;
        } else if c == '\'' {
            at = end_of_character(&bytes, at);
        } else if c.is_alphanumeric() || c == '_' {
            at = end_of(&bytes, at, |at| {
                !(bytes[at].is_alphanumeric() || bytes[at] == '_')
            });
            words.push(Word {
                text: bytes[from..at].iter().collect(),
                line,
            });
        } else {
            at += if starts(at, "::") { 2 } else { 1 };
            if !c.is_whitespace() {
                words.push(Word {
                    text: bytes[from..at].iter().collect(),
                    line,
                });
            }
        }
        line += bytes[from..at].iter().filter(|c| **c == '\n').count();
    }
    words
}

fn end_of(chars: &[char], from: usize, ends: impl Fn(usize) -> bool) -> usize {
    (from..chars.len())
        .find(|at| ends(*at))
        .unwrap_or(chars.len())
}

/// Comments of this kind nest.
fn end_of_comment(chars: &[char], from: usize) -> usize {
    let (mut depth, mut at) = (0, from);
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

/// The end of the string that begins here (`"`, `b"`, `c"`, `r#"`, …), if one does.
fn end_of_string(chars: &[char], from: usize) -> Option<usize> {
    let is_name = |at: usize| {
        chars
            .get(at)
            .is_some_and(|c| c.is_alphanumeric() || *c == '_')
    };
    if from > 0 && is_name(from - 1) {
        return None;
    }
    let prefix = (0..3)
        .take_while(|i| matches!(chars.get(from + i), Some('b' | 'c' | 'r')))
        .count();
    let raw = (0..prefix).any(|i| chars[from + i] == 'r');
    let hashes = (0..)
        .take_while(|i| raw && chars.get(from + prefix + i) == Some(&'#'))
        .count();
    let mut at = from + prefix + hashes;
    if chars.get(at) != Some(&'"') {
        return None;
    }
    at += 1;
    while at < chars.len() {
        if chars[at] == '\\' && !raw {
            at += 2;
        } else if chars[at] == '"' && (0..hashes).all(|i| chars.get(at + 1 + i) == Some(&'#')) {
            return Some(at + 1 + hashes);
        } else {
            at += 1;
        }
    }
    Some(at)
}

/// Behind a character literal, or behind the mark of a lifetime.
fn end_of_character(chars: &[char], from: usize) -> usize {
    match (chars.get(from + 1), chars.get(from + 2)) {
        (Some('\\'), _) => end_of(chars, from + 3, |at| chars[at] == '\'') + 1,
        (Some(_), Some('\'')) => from + 3,
        _ => from + 1,
    }
}

/// All paths of two segments or more in a source that is the module `module` (`["state", "run"]`).
pub fn paths(source: &str, module: &[String]) -> Vec<Path> {
    let words = words(source);
    let text = |at: usize| words.get(at).map_or("", |word: &Word| word.text.as_str());
    let (mut paths, mut at) = (Vec::new(), 0);
    // Inline modules that are open: their name, the depth of their brace, whether for tests alone.
    let mut inside: Vec<(String, usize, bool)> = Vec::new();
    let (mut depth, mut test_next) = (0_usize, false);
    while at < words.len() {
        match text(at) {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                if inside.last().is_some_and(|(_, opened, _)| *opened == depth) {
                    inside.pop();
                }
            }
            "cfg" if text(at + 1) == "(" && text(at + 2) == "test" => test_next = true,
            "mod" if text(at + 2) == "{" => {
                inside.push((text(at + 1).to_string(), depth, test_next));
                (depth, test_next) = (depth + 1, false);
                at += 2;
            }
            ";" => test_next = false,
            word if is_name(word) && text(at.wrapping_sub(1)) != "::" => {
                let mut here = module.to_vec();
                here.extend(inside.iter().map(|(name, _, _)| name.clone()));
                let in_test = inside.iter().any(|(_, _, test)| *test);
                let mut found = Vec::new();
                let end = tree(&words, at, &[], &mut found);
                let long = found.into_iter().filter(|(segments, _)| segments.len() > 1);
                paths.extend(long.map(|(segments, line)| Path {
                    segments: absolute(segments, &here),
                    line,
                    in_test,
                }));
                at = end.max(at + 1);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    paths
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads `a::b::{c, d::e}` from `at`; puts each leaf with its line into `found`; returns the end.
fn tree(
    words: &[Word],
    at: usize,
    before: &[String],
    found: &mut Vec<(Vec<String>, usize)>,
) -> usize {
    let text = |at: usize| words.get(at).map_or("", |word: &Word| word.text.as_str());
    let mut segments = before.to_vec();
    let mut at = at;
    let line = words.get(at).map_or(0, |word| word.line);
    loop {
        if text(at) == "{" {
            at += 1;
            while at < words.len() && text(at) != "}" {
                at = tree(words, at, &segments, found).max(at + 1);
                // `as name` and the comma.
                while !matches!(text(at), "," | "}" | "") {
                    at += 1;
                }
                if text(at) == "," {
                    at += 1;
                }
            }
            return at + 1;
        }
        if !is_name(text(at)) && text(at) != "*" {
            break;
        }
        segments.push(text(at).to_string());
        at += 1;
        let goes_on =
            text(at) == "::" && (is_name(text(at + 1)) || matches!(text(at + 1), "{" | "*"));
        if !goes_on {
            break;
        }
        at += 1;
    }
    found.push((segments, line));
    at
}

/// `self` and `super` resolved from `here`; other paths as they are.
fn absolute(segments: Vec<String>, here: &[String]) -> Vec<String> {
    let ups = segments
        .iter()
        .take_while(|segment| *segment == "super" || *segment == "self")
        .count();
    if ups == 0 {
        return segments;
    }
    let climbs = segments[..ups]
        .iter()
        .filter(|segment| *segment == "super")
        .count();
    let base = &here[..here.len().saturating_sub(climbs)];
    let crate_root = ["crate".to_string()];
    crate_root
        .iter()
        .chain(base)
        .chain(&segments[ups..])
        .cloned()
        .collect()
}
