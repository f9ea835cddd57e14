//! What lines of the program say, so that a replay and another machine show them too.

use super::SourceLine;
use crate::units::RunNumber;
use serde::{Deserialize, Serialize};

/// Lines as their files had them when the run was started. Read by oomph, not by the training, and
/// only of lines that are shown because they hold memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceText {
    /// A later run may have been started after an edit.
    pub run: RunNumber,
    pub lines: Vec<LineText>,
}

/// One line's text: without indentation, cut to a sane width, secrets masked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineText {
    pub file: String,
    pub line: u32,
    pub text: String,
}

impl LineText {
    pub fn is_of(&self, line: &SourceLine) -> bool {
        self.line == line.line && self.file == line.file
    }
}
