//! What is told of the number that sets the batch: its name, its value, where it stands, and how sure that is.

use super::TextCandidate;
use crate::recognize::text::{SourceRole, TextSetting};
use serde::Serialize;

/// What sets the batch, as far as it can be told before anything ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BatchFinding {
    pub how_sure: HowSure,
    /// The one that would be changed; where it is not sure, those that remain.
    pub candidates: Vec<BatchSpot>,
    /// Why nothing is known, or what is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl BatchFinding {
    /// The same where the command stands in a line of this script.
    #[must_use]
    pub fn typed_at(mut self, script: &str, line: u32) -> BatchFinding {
        for spot in &mut self.candidates {
            if spot.stands == SpotKind::Typed {
                spot.file = Some(script.into());
                spot.line = Some(line);
            }
        }
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HowSure {
    Sure,
    /// Its name or its description says so, but not as well-known ones do.
    Likely,
    NotSure,
    Nothing,
}

impl HowSure {
    pub fn words(self) -> &'static str {
        match self {
            HowSure::Sure => "sure",
            HowSure::Likely => "likely",
            HowSure::NotSure => "not sure",
            HowSure::Nothing => "nothing found",
        }
    }
}

/// A number that may set the batch, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BatchSpot {
    /// As one types it, or as the program calls it.
    pub name: String,
    pub value: u64,
    pub stands: SpotKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// What `fit --arg` takes for it, where it is not sure which one it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arg: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpotKind {
    /// In the command.
    Typed,
    /// The default of an argument.
    Default,
    /// An argument that has no number yet, beside a total that has.
    Unset,
    /// In a file of settings.
    Config,
    /// In the program's text.
    Constant,
}

impl BatchSpot {
    /// "typed", "default at train.py:40".
    pub fn stands_at(&self) -> String {
        let kind = match self.stands {
            SpotKind::Typed => "typed",
            SpotKind::Default => "default",
            SpotKind::Unset => "not set, declared",
            SpotKind::Config => "config",
            SpotKind::Constant => "constant",
        };
        match (&self.file, self.line) {
            (Some(file), Some(line)) => {
                let name = file.rsplit('/').next().unwrap_or(file);
                format!("{kind} at {name}:{line}")
            }
            _ => kind.into(),
        }
    }

    pub(super) fn new(candidate: &TextCandidate<'_>) -> BatchSpot {
        let number = candidate.number;
        let (name, stands) = match &number.set {
            TextSetting::Argument(argument) => {
                let longest = argument.options.iter().max_by_key(|option| option.len());
                let name = longest.unwrap_or(&argument.name).trim_end_matches('=');
                let stands = match argument.by.as_str() {
                    "hydra" if number.role == SourceRole::Config => SpotKind::Config,
                    _ => SpotKind::Default,
                };
                (name, stands)
            }
            TextSetting::Constant(constant) => {
                let is_python = constant.file.ends_with(".py");
                let stands = if is_python {
                    SpotKind::Constant
                } else {
                    SpotKind::Config
                };
                (constant.name.as_str(), stands)
            }
        };
        let is_typed = candidate.typed.is_some();
        BatchSpot {
            name: name.into(),
            value: candidate.value,
            stands: if is_typed { SpotKind::Typed } else { stands },
            file: (!is_typed).then(|| number.file.clone()),
            line: (!is_typed).then_some(number.line),
            arg: None,
        }
    }
}
