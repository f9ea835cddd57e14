//! A quantity over time in bounded memory, with gaps that stay gaps.

use crate::units::{Bytes, Moment};

/// What a stretch of time held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value.
    pub min: Bytes,
    /// The largest.
    pub max: Bytes,
    /// The latest.
    pub last: Bytes,
}

/// A quantity over time.
#[derive(Debug, Clone, Default)]
pub struct Series {
    latest: Option<(Moment, Bytes)>,
}

impl Series {
    /// Adds a value. Values come in order of time; an earlier one counts as of the latest instant.
    pub fn push(&mut self, at: Moment, value: Bytes) {
        self.latest = Some((at, value));
    }

    /// Says that nothing is known from here on until the next value.
    pub fn gap(&mut self, _at: Moment) {}

    /// The latest value.
    pub fn last(&self) -> Option<(Moment, Bytes)> {
        self.latest
    }

    /// The stretch from `from` to `to` in `columns` equal parts; `None` where nothing is known.
    /// A value holds until the next one, or until a gap.
    pub fn columns(&self, _from: Moment, _to: Moment, columns: usize) -> Vec<Option<Bucket>> {
        vec![None; columns]
    }
}
