//! The result of a rule: a cause, its certainty, the evidence, advice.

use super::{AmongRanks, Cause, Phrase};
use crate::event::{Retainer, SourceLine};
use crate::units::{Bytes, Pid, Rank, Uuid};
use serde::Serialize;

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
    /// What in the program keeps the memory alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retainer: Option<Retainer>,
    pub device: Option<Uuid>,
    pub rank: Option<Rank>,
    /// Where several ranks train: which ran out, and what the others did. Of the first finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<AmongRanks>,
    /// The process to blame, for [`Cause::OtherProcess`].
    #[serde(rename = "foreign")]
    pub other_process: Option<Pid>,
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
            retainer: None,
            device: None,
            rank: None,
            ranks: None,
            other_process: None,
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
        self.evidence.splice(0..0, numbers.map(Evidence::of));
        self
    }

    pub(super) fn shows<'a>(
        mut self,
        numbers: impl IntoIterator<Item = (&'a str, Bytes)>,
    ) -> Finding {
        self.evidence.extend(numbers.into_iter().map(Evidence::of));
        self
    }

    /// Says who keeps the memory alive, if that is known.
    pub(super) fn kept_by(self, retainer: Option<&Retainer>) -> Finding {
        let Some(retainer) = retainer else {
            return self;
        };
        let finding = self.says(format!(
            "{} is kept alive by {}.",
            retainer.bytes,
            retainer.words()
        ));
        Finding {
            retainer: Some(retainer.clone()),
            ..finding
        }
    }

    pub(super) fn at(mut self, line: Option<&SourceLine>) -> Finding {
        self.place = line.map(SourceLine::place);
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
    fn of((what, bytes): (&str, Bytes)) -> Evidence {
        Evidence {
            what: what.into(),
            bytes,
        }
    }
}
