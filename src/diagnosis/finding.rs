//! The result of a rule: a cause, its certainty, the evidence, advice; the sum in which its
//! figures are written; and its sentences, with where they may be shortened.

use super::Cause;
use super::situation::RequestPlace;
use crate::anatomy::RankExcess;
use crate::event::{Retainer, SourceLine};
use crate::oom::ConsequenceKind;
use crate::units::{Bytes, Pid, Rank, Uuid};
use serde::{Serialize, Serializer};
use std::fmt;
use std::ops::Deref;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    Possible,
    /// The numbers point to it.
    Likely,
    /// The numbers rule everything else out.
    Certain,
}

/// A number that supports a finding: "allocated", "requested", "largest free piece".
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    pub what: String,
    pub bytes: Bytes,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub cause: Cause,
    pub certainty: Certainty,
    /// The cause in one line with its numbers: the dialog's first line.
    pub headline: Phrase,
    /// One or two more sentences: what was ruled out, what follows.
    pub explanation: String,
    pub evidence: Vec<Evidence>,
    /// What the user can do and oomph can't, most useful first.
    pub advice: Vec<Phrase>,
    /// The program's line that the first advice is about: "train.py:88".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The same, to be opened.
    #[serde(skip)]
    pub line: Option<SourceLine>,
    /// What in the program keeps the memory alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retainer: Option<Retainer>,
    /// When that was looked for, if it was long before memory ran out.
    #[serde(skip)]
    pub kept_earlier: Option<EarlierSearch>,
    /// What asked for the memory that there was none of.
    #[serde(skip)]
    pub request: Option<(Bytes, RequestPlace)>,
    pub device: Option<Uuid>,
    pub rank: Option<Rank>,
    /// Where several ranks train: which ran out, and what the others did. Of the first finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<AmongRanks>,
    /// The process to blame, for [`Cause::ForeignProcess`].
    #[serde(rename = "foreign")]
    pub other_process: Option<Pid>,
    /// By how much it is too large without any activations: no smaller batch helps.
    #[serde(skip)]
    pub too_large_by: Option<Bytes>,
    /// How much of what is allocated has leaked.
    #[serde(skip)]
    pub leaked: Option<Bytes>,
}

/// A search for what keeps memory alive that was done some steps before memory ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EarlierSearch {
    /// The step after which it was done.
    pub step: u64,
    /// How much of what had leaked by then was found, where it leaks: more has leaked since.
    pub leak: Option<PartOfLeak>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartOfLeak {
    All,
    Most,
}

impl EarlierSearch {
    /// "what had leaked by step 36", or what `kept` says was kept alive then.
    pub fn what(&self, kept: &str) -> String {
        let step = self.step;
        match self.leak {
            Some(PartOfLeak::All) => format!("what had leaked by step {step}"),
            Some(PartOfLeak::Most) => format!("most of what had leaked by step {step}"),
            None => format!("{kept} after step {step}"),
        }
    }
}

impl Certainty {
    pub fn word(self) -> &'static str {
        match self {
            Certainty::Certain => "certain",
            Certainty::Likely => "likely",
            Certainty::Possible => "possible",
        }
    }

    pub(super) fn likely_if(likely: bool) -> Certainty {
        match likely {
            true => Certainty::Likely,
            false => Certainty::Possible,
        }
    }
}

impl Finding {
    pub(super) fn new(cause: Cause, certainty: Certainty, headline: impl Into<Phrase>) -> Finding {
        Finding {
            cause,
            certainty,
            headline: headline.into(),
            explanation: String::new(),
            evidence: Vec::new(),
            advice: Vec::new(),
            place: None,
            line: None,
            retainer: None,
            kept_earlier: None,
            request: None,
            device: None,
            rank: None,
            ranks: None,
            other_process: None,
            too_large_by: None,
            leaked: None,
        }
    }

    /// Adds a sentence to the explanation.
    pub(super) fn says(mut self, words: impl AsRef<str>) -> Finding {
        if !self.explanation.is_empty() {
            self.explanation.push(' ');
        }
        self.explanation.push_str(words.as_ref());
        self
    }

    pub(super) fn says_if(self, words: Option<impl AsRef<str>>) -> Finding {
        match words {
            Some(words) => self.says(words),
            None => self,
        }
    }

    /// Adds the rule's own numbers before those that every finding has.
    pub(super) fn shows_first<const N: usize>(mut self, numbers: [(&str, Bytes); N]) -> Finding {
        self.evidence.splice(0..0, numbers.map(Evidence::new));
        self
    }

    pub(super) fn shows<'a>(
        mut self,
        numbers: impl IntoIterator<Item = (&'a str, Bytes)>,
    ) -> Finding {
        self.evidence.extend(numbers.into_iter().map(Evidence::new));
        self
    }

    /// Says who keeps the memory alive, if that is known.
    pub(super) fn kept_by(self, retainer: Option<&Retainer>) -> Finding {
        self.kept_by_after(retainer, None)
    }

    /// The same of a search that was done earlier.
    pub(super) fn kept_by_after(
        self,
        retainer: Option<&Retainer>,
        earlier: Option<EarlierSearch>,
    ) -> Finding {
        let Some(retainer) = retainer else {
            return self;
        };
        let (bytes, words) = (retainer.amount(), retainer.words());
        let finding = self.says(match earlier {
            None => format!("{bytes} is kept alive by {words}."),
            Some(earlier) => capitalized(&format!(
                "{} was kept alive by {words}.",
                earlier.what(&bytes)
            )),
        });
        Finding {
            retainer: Some(retainer.clone()),
            kept_earlier: earlier,
            ..finding
        }
    }

    pub(super) fn at(mut self, line: Option<&SourceLine>) -> Finding {
        self.place = line.map(SourceLine::place);
        self.line = line.cloned();
        self
    }

    /// What to change in the program, and where.
    pub fn in_code(&self) -> Option<Phrase> {
        let advice = self.advice.first()?;
        Some(match &self.place {
            Some(place) => advice.behind(&format!("{place}: ")),
            None => advice.clone(),
        })
    }

    pub(super) fn advises(
        mut self,
        advice: impl IntoIterator<Item = impl Into<Phrase>>,
    ) -> Finding {
        self.advice = advice.into_iter().map(Into::into).collect();
        self
    }
}

impl Evidence {
    fn new((what, bytes): (&str, Bytes)) -> Evidence {
        Evidence {
            what: what.into(),
            bytes,
        }
    }
}

/// Decimals of a figure.
const DECIMALS: std::ops::RangeInclusive<u32> = 1..=3;

/// Figures as a sum that a person can check: "23.4 allocated + 0.3 requested = 23.7 > 23.5 GiB". The parts,
/// in the order in which they are printed; parts of zero are left out.
///
/// The printed parts add up to the printed total, and the printed total compares with the printed
/// room as the exact bytes do: if one decimal does not show that, more are printed.
pub(super) struct Sum<'a>(pub &'a [(Bytes, &'a str)]);

impl Sum<'_> {
    fn total(&self) -> Bytes {
        self.0.iter().map(|(bytes, _)| *bytes).sum()
    }

    fn exceeds(&self, room: Bytes) -> bool {
        self.total() > room
    }

    /// "23.4 allocated + 0.3 requested = 23.7 > 23.5 GiB", or "= 23.2 of 23.5 GiB" if it is less.
    pub fn against(&self, room: Bytes) -> String {
        let exceeds = self.exceeds(room);
        let (unit, name) = match room >= Bytes::gib(1) {
            true => (Bytes::gib(1), "GiB"),
            false => (Bytes::mib(1), "MiB"),
        };
        let most = *DECIMALS.end();
        let decimals = DECIMALS
            .clone()
            .find(|decimals| self.is_clear(room, unit, *decimals))
            .unwrap_or(most);
        let shown = |units: u64| {
            let scale = 10_u64.pow(decimals);
            let places = decimals as usize;
            format!("{}.{:0places$}", units / scale, units % scale)
        };
        let rounded = |bytes: Bytes| in_units(bytes, unit, decimals);
        let parts = self.0.iter().filter(|(bytes, _)| *bytes > Bytes::ZERO);
        let parts: Vec<String> = parts
            .map(|(bytes, what)| format!("{} {what}", shown(rounded(*bytes))))
            .collect();
        let total = self.0.iter().map(|(bytes, _)| rounded(*bytes)).sum();
        let than = if exceeds { ">" } else { "of" };
        format!(
            "{} = {} {than} {} {name}",
            parts.join(" + "),
            shown(total),
            shown(rounded(room))
        )
    }

    /// Whether so many decimals show each part as more than zero, and the comparison as it is.
    fn is_clear(&self, room: Bytes, unit: Bytes, decimals: u32) -> bool {
        let rounded = |bytes: Bytes| in_units(bytes, unit, decimals);
        let total: u64 = self.0.iter().map(|(bytes, _)| rounded(*bytes)).sum();
        let mut parts = self.0.iter().filter(|(bytes, _)| *bytes > Bytes::ZERO);
        let is_equal = total == rounded(room) && self.total() != room;
        (total > rounded(room)) == self.exceeds(room)
            && !is_equal
            && parts.all(|(bytes, _)| rounded(*bytes) > 0)
    }
}

/// "12.7 allocated + 62.7 unused = 75.4 of 79.2 GiB"; what is all of it is told once.
pub fn sum(parts: &[(Bytes, &str)], of: Bytes) -> String {
    let text = Sum(parts).against(of);
    let (left, total) = text.rsplit_once(" = ").unwrap_or(("", &text));
    match total.split_once(" of ") {
        Some((all, whole)) if whole.starts_with(all) => format!("{left} = {whole}"),
        Some(_) | None => text,
    }
}

/// Units with so many decimals, as a whole number; rounded as every other figure is when printed.
fn in_units(bytes: Bytes, unit: Bytes, decimals: u32) -> u64 {
    let units = bytes.fraction_of(unit).unwrap_or(0.0);
    let places = decimals as usize;
    let digits = format!("{units:.places$}").replace('.', "");
    digits.parse().unwrap_or(0)
}

/// A rank among many, for display.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedRank {
    pub rank: Option<Rank>,
    pub node: Option<String>,
    /// `rank 12 on gpu-2`.
    pub name: String,
}

/// Whether the memory that ran out is one rank's or every rank's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "which")]
pub enum RankNeed {
    /// It needs more than any other rank.
    OneRank {
        needed: Bytes,
        /// The most that another rank has needed in a step.
        others_at_most: Bytes,
        /// What it keeps between steps more than the others, if that explains half of it.
        keeps_more: Option<Bytes>,
    },
    /// The others need about as much.
    AllRanks { others_at_most: Option<Bytes> },
    /// No other rank has ended a step.
    Unknown,
}

/// What followed, and how many ranks said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Aftermath {
    pub kind: ConsequenceKind,
    /// The ranks that are known by their prefixes.
    pub ranks: Vec<Rank>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AmongRanks {
    pub first: NamedRank,
    /// How many ranks there are.
    pub of: usize,
    /// The others that ran out at that time, and how much later, in microseconds.
    pub also: Vec<(NamedRank, u64)>,
    /// Another that had run out shortly before, and by how many microseconds.
    #[serde(skip)]
    pub before: Option<(NamedRank, u64)>,
    pub whose: RankNeed,
    /// Another that holds more between steps.
    pub holds_more: Option<RankExcess>,
    pub aftermath: Vec<Aftermath>,
}

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

    /// Adds words that can be left out right behind those that cannot.
    pub fn push_second(&mut self, joint: &str, more: impl AsRef<str>) {
        let first = self.shortest().to_string();
        let rest = self.text.split_off(first.len());
        let added = joint.len() + more.as_ref().len();
        let ends = self.ends.iter().map(|end| end + added);
        self.ends = std::iter::once(first.len()).chain(ends).collect();
        self.text.push_str(joint);
        self.text.push_str(more.as_ref());
        self.text.push_str(&rest);
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

/// With a capital at its beginning.
pub fn capitalized(words: &str) -> String {
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
    use proptest::prelude::*;

    #[test]
    fn the_sum_is_one_that_a_person_checks() {
        let sum = Sum(&[
            (Bytes::gib(1).scale(23.4), "allocated"),
            (Bytes::mib(312), "requested"),
            (Bytes::mib(497), "non-PyTorch"),
        ]);
        assert_eq!(
            sum.against(Bytes::gib(24)),
            "23.4 allocated + 0.3 requested + 0.5 non-PyTorch = 24.2 > 24.0 GiB"
        );
        assert_eq!(
            Sum(&[(Bytes::mib(700), "allocated"), (Bytes::ZERO, "requested")])
                .against(Bytes::mib(800)),
            "700.0 allocated = 700.0 of 800.0 MiB"
        );
    }

    #[test]
    fn what_is_barely_too_much_has_more_decimals() {
        let sum = Sum(&[
            (Bytes::gib(24) - Bytes::mib(1), "allocated"),
            (Bytes::mib(2), "requested"),
        ]);
        assert_eq!(
            sum.against(Bytes::gib(24)),
            "23.999 allocated + 0.002 requested = 24.001 > 24.000 GiB"
        );
    }

    #[test]
    fn what_nearly_fills_the_room_is_not_printed_as_all_of_it() {
        let sum = Sum(&[
            (Bytes::gib(1).scale(138.97), "allocated"),
            (Bytes::gib(1).scale(0.81), "more"),
        ]);
        assert_eq!(
            sum.against(Bytes::gib(1).scale(139.8)),
            "138.97 allocated + 0.81 more = 139.78 of 139.80 GiB"
        );
    }

    proptest! {
        #[test]
        fn printed_parts_add_up_and_compare_like_the_bytes(
            parts in prop::collection::vec(4_u64..400_000, 1..4),
            room in 1024_u64..400_000,
        ) {
            // Whole MiB, well apart: closer than the last decimal nothing can be shown.
            let parts: Vec<(Bytes, &str)> = parts.iter().map(|n| (Bytes::mib(*n), "held")).collect();
            let sum = Sum(&parts);
            let room = Bytes::mib(room);
            prop_assume!(sum.total().0.abs_diff(room.0) > Bytes::mib(8).0);
            let text = sum.against(room);
            let figures: Vec<f64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
            let (told, rest) = figures.split_at(parts.len());
            let total: f64 = told.iter().sum();
            prop_assert!((total - rest[0]).abs() < 1e-6, "{text}");
            prop_assert_eq!(rest[0] > rest[1], sum.exceeds(room), "{}", text);
        }
    }

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
