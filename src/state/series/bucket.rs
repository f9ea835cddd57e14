//! What is kept of a stretch of time: its smallest, largest and latest value, and where it ends
//! with a gap.

use crate::units::{Bytes, Moment};

/// What a stretch of time held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesBucket {
    pub min: Bytes,
    pub max: Bytes,
    pub last: Bytes,
}

impl SeriesBucket {
    fn of(value: Bytes) -> SeriesBucket {
        SeriesBucket {
            min: value,
            max: value,
            last: value,
        }
    }

    /// This stretch and a later one together.
    pub(super) fn then(self, later: SeriesBucket) -> SeriesBucket {
        SeriesBucket {
            min: self.min.min(later.min),
            max: self.max.max(later.max),
            last: later.last,
        }
    }
}

/// One change of the value: to another one, or to nothing known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueChange {
    pub(super) at: Moment,
    // `Option<Bytes>` would take 24 bytes of memory a change where 16 do.
    pub(super) value: u64,
}

/// A change to nothing known. No device has 2^64 − 1 bytes.
pub(super) const GAP: u64 = u64::MAX;

impl ValueChange {
    pub(super) fn bucket(self) -> Option<SeriesBucket> {
        (self.value != GAP).then(|| SeriesBucket::of(Bytes(self.value)))
    }
}

/// The changes of one slot of time, put together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    /// The first change in it.
    pub(super) at: Moment,
    /// The values; `None` where all of it is a gap.
    pub(super) values: Option<SeriesBucket>,
    /// When the gap began with which it ends, if it ends with one. A gap that begins and ends
    /// within one cell is shorter than the cell and is not kept.
    pub(super) gap: Option<Moment>,
}

impl Cell {
    pub(super) fn of(change: ValueChange) -> Cell {
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
