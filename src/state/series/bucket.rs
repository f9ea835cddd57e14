//! What is kept of a stretch of time: minimum, maximum, last value, and a gap at its end.

use crate::units::{Bytes, Moment};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesBucket {
    pub min: Bytes,
    pub max: Bytes,
    pub last: Bytes,
}

impl SeriesBucket {
    fn new(value: Bytes) -> SeriesBucket {
        SeriesBucket {
            min: value,
            max: value,
            last: value,
        }
    }

    pub(super) fn then(self, later: SeriesBucket) -> SeriesBucket {
        SeriesBucket {
            min: self.min.min(later.min),
            max: self.max.max(later.max),
            last: later.last,
        }
    }
}

/// A change of the value, or the beginning of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueChange {
    pub(super) at: Moment,
    // With `Option<Bytes>` a change would take 24 bytes instead of 16.
    pub(super) value: u64,
}

/// The value of a gap: no device has 2^64 − 1 bytes.
pub(super) const GAP: u64 = u64::MAX;

impl ValueChange {
    pub(super) fn bucket(self) -> Option<SeriesBucket> {
        (self.value != GAP).then(|| SeriesBucket::new(Bytes(self.value)))
    }
}

/// The changes of one slot of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) at: Moment,
    /// `None` if all of it is a gap.
    pub(super) values: Option<SeriesBucket>,
    /// When the gap at its end began, if there is one. A gap within a cell is not kept.
    pub(super) gap: Option<Moment>,
}

impl Cell {
    pub(super) fn new(change: ValueChange) -> Cell {
        let values = change.bucket();
        Cell {
            at: change.at,
            values,
            gap: values.is_none().then_some(change.at),
        }
    }

    pub(super) fn then(self, later: Cell) -> Cell {
        Cell {
            at: self.at,
            values: match (self.values, later.values) {
                (Some(a), Some(b)) => Some(a.then(b)),
                (a, b) => a.or(b),
            },
            gap: later.gap.map(|gap| match later.values {
                Some(_) => gap,
                None => self.gap.unwrap_or(gap),
            }),
        }
    }
}
