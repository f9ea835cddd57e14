//! Words for the user: sentences, and where they may be shortened.

use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::Deref;

/// Words that may end earlier where there is little room. Whoever writes them says where: nobody looks
/// for a colon or a bracket in them.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Phrase {
    text: String,
    /// Bytes of the text that stand on their own, in ascending order.
    ends: Vec<usize>,
}

impl Phrase {
    /// Adds words that can be left out, with what joins them: `": "`, `"; "`.
    pub fn and(mut self, joint: &str, more: impl AsRef<str>) -> Phrase {
        self.push(joint, more);
        self
    }

    /// Adds words that can be left out, with what joins them.
    pub fn push(&mut self, joint: &str, more: impl AsRef<str>) {
        if !self.text.is_empty() {
            self.ends.push(self.text.len());
            self.text.push_str(joint);
        }
        self.text.push_str(more.as_ref());
    }

    /// Adds words to the last ones, which stay together with them.
    pub fn extend(&mut self, more: &str) {
        self.text.push_str(more);
    }

    /// These words behind `lead`, without which none of them can stand.
    pub fn behind(&self, lead: &str) -> Phrase {
        Phrase {
            text: format!("{lead}{}", self.text),
            ends: self.ends.iter().map(|end| lead.len() + end).collect(),
        }
    }

    /// Words with another phrase behind them, which keeps its own ends.
    pub fn before(self, joint: &str, rest: &Phrase) -> Phrase {
        let from = self.text.len() + joint.len();
        let mut whole = self.and(joint, &rest.text);
        whole.ends.extend(rest.ends.iter().map(|end| from + end));
        whole
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What remains if ever more is left out: the longest first, without the whole.
    pub fn shorter(&self) -> impl Iterator<Item = &str> {
        self.ends.iter().rev().map(|end| &self.text[..*end])
    }

    /// What cannot be left out.
    pub fn shortest(&self) -> &str {
        self.shorter().last().unwrap_or(&self.text)
    }

    /// The words part by part: the first, and behind it what can be left out, each with its joint.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        let ends = || self.ends.iter().copied();
        let begins = std::iter::once(0).chain(ends());
        let ends = ends().chain(std::iter::once(self.text.len()));
        begins.zip(ends).map(|(from, to)| &self.text[from..to])
    }
}

impl Deref for Phrase {
    type Target = str;
    fn deref(&self) -> &str {
        &self.text
    }
}

impl AsRef<str> for Phrase {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl Serialize for Phrase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl From<String> for Phrase {
    fn from(text: String) -> Phrase {
        Phrase {
            text,
            ends: Vec::new(),
        }
    }
}

impl From<&str> for Phrase {
    fn from(text: &str) -> Phrase {
        Phrase::from(text.to_string())
    }
}

/// Clauses, of which the later ones can be left out.
impl<const N: usize> From<[&str; N]> for Phrase {
    fn from(clauses: [&str; N]) -> Phrase {
        let start = Phrase::default();
        clauses.iter().fold(start, |said, one| said.and("; ", one))
    }
}

impl PartialEq<str> for Phrase {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<&str> for Phrase {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

/// Capitalizes the text and adds a full stop.
pub(super) fn sentence(words: &str) -> String {
    match words.is_empty() {
        true => String::new(),
        false => capitalized(words) + ".",
    }
}

pub(super) fn capitalized(words: &str) -> String {
    let mut chars = words.chars();
    match chars.next() {
        Some(first) => format!("{}{}", first.to_uppercase(), chars.as_str()),
        None => String::new(),
    }
}

/// What to do, and in brackets what can be left out: where to look, an example.
pub(super) fn because(what: &str, reason: &str) -> Phrase {
    Phrase::from(what).and(" (", format!("{reason})"))
}

/// A cause and the figures that show it: "It does not fit: 23.4 allocated …". The figures can be left
/// out.
pub(super) fn with_figures(cause: &str, figures: impl AsRef<str>) -> Phrase {
    Phrase::from(cause).and(": ", format!("{}.", figures.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_end_where_their_writer_said() {
        let said = Phrase::from("tight")
            .and("; ", "estimated: by 3 of 9 steps")
            .and("; ", "slower");
        assert_eq!(said, "tight; estimated: by 3 of 9 steps; slower");
        let shorter: Vec<&str> = said.shorter().collect();
        assert_eq!(shorter, ["tight; estimated: by 3 of 9 steps", "tight"]);
        assert_eq!(said.shortest(), "tight");
        let parts: Vec<&str> = said.parts().collect();
        assert_eq!(parts, ["tight", "; estimated: by 3 of 9 steps", "; slower"]);
        assert_eq!(Phrase::from("a; b: c").shortest(), "a; b: c");
        let put_first = Phrase::from("no").before(": ", &said);
        assert_eq!(put_first.shorter().nth(1), Some("no: tight"));
        assert_eq!(said.behind("a.py: ").shortest(), "a.py: tight");
    }
}
