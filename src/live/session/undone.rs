//! What was undone in a session, as one front hands it to the next.

use crate::remedy::{RemedyId, UndoneRemedy};
use crate::units::RunNumber;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeSet;

/// What was undone in a session, for the front that comes next.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct UndoneChanges {
    pub rejected: Vec<UndoneRemedy>,
    /// Of the latest run.
    pub latest: Option<UndoneRemedy>,
    /// What was chosen besides the edit that it rejected.
    pub others: Option<Vec<RemedyId>>,
    /// The runs that tell nothing of the memory, because their change was undone.
    pub ineffective: BTreeSet<RunNumber>,
}

impl UndoneChanges {
    pub(crate) fn is_nothing(&self) -> bool {
        *self == UndoneChanges::default()
    }

    /// What a front of another version hands over may name remedies that this one does not have: it is left out, and the session
    /// goes on.
    pub(crate) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<UndoneChanges, D::Error> {
        let value = serde_json::Value::deserialize(from)?;
        Ok(serde_json::from_value(value).unwrap_or_default())
    }
}
