//! A quantity over time in bounded memory, with gaps.
//!
//! The newest changes are kept exactly, older ones as buckets (min, max, last) of equal width,
//! which doubles whenever there are too many. So an hour is kept to the second, a week to some
//! minutes, and a peak of one sample is never lost: it is the maximum of its bucket.

use crate::units::{Bytes, Moment};
use std::collections::VecDeque;

/// Changes kept exactly: at least ten minutes at 10 Hz; a repeated value is no change.
const EXACT: usize = 6_000;

/// Buckets of older changes.
const BUCKETS: usize = 2_048;

/// The first width of a bucket in microseconds: one second.
const FIRST_WIDTH: u64 = 1_000_000;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resolution {
    /// For a chart on a wide screen.
    #[default]
    Chart,
    /// For a sparkline in a table, of which there may be hundreds.
    Spark,
    /// For a chart of one of very many ranks.
    Small,
}

impl Resolution {
    /// Changes kept exactly.
    fn exact(self) -> usize {
        match self {
            Resolution::Chart => EXACT,
            Resolution::Spark => EXACT / 10,
            Resolution::Small => EXACT / 40,
        }
    }

    /// Buckets of older changes.
    fn buckets(self) -> usize {
        match self {
            Resolution::Chart => BUCKETS,
            Resolution::Spark => BUCKETS / 8,
            Resolution::Small => BUCKETS / 16,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Series {
    resolution: Resolution,
    /// Older than `exact`, one for each slot of `width` with a change.
    cells: VecDeque<Cell>,
    /// In microseconds; zero while there are no cells.
    width: u64,
    /// The newest changes.
    exact: VecDeque<ValueChange>,
    /// The latest value, repeated or not.
    latest: Option<(Moment, Bytes)>,
    /// Whether a gap is open.
    in_gap: bool,
}

impl Series {
    pub fn with(resolution: Resolution) -> Series {
        Series {
            resolution,
            ..Series::default()
        }
    }

    /// Adds a value. An earlier one than the latest counts as of the latest moment.
    pub fn push(&mut self, at: Moment, value: Bytes) {
        let value = Bytes(value.0.min(GAP - 1));
        let at = self.not_before_the_last(at);
        let repeated = !self.in_gap && self.latest.is_some_and(|(_, last)| last == value);
        self.latest = Some((at, value));
        self.in_gap = false;
        if !repeated {
            self.change(at, value.0);
        }
    }

    /// Nothing is known until the next value.
    pub fn gap(&mut self, at: Moment) {
        if self.latest.is_some() && !self.in_gap {
            let at = self.not_before_the_last(at);
            self.in_gap = true;
            self.change(at, GAP);
        }
    }

    /// The latest value, even if a gap has begun since.
    pub fn last(&self) -> Option<(Moment, Bytes)> {
        self.latest
    }

    /// The latest value; `None` in a gap.
    pub fn current(&self) -> Option<Bytes> {
        self.latest.filter(|_| !self.in_gap).map(|(_, value)| value)
    }

    /// When the first value came.
    pub fn first_at(&self) -> Option<Moment> {
        let cell = self.cells.front().map(|cell| cell.at);
        cell.or_else(|| self.exact.front().map(|change| change.at))
    }

    /// The value at a moment; long ago, the last of its bucket.
    pub fn value_at(&self, at: Moment) -> Option<Bytes> {
        match self.exact.partition_point(|change| change.at <= at) {
            0 => {
                let after = self.cells.partition_point(|cell| cell.at <= at);
                let cell = self.cells.get(after.checked_sub(1)?)?;
                cell.values
                    .filter(|_| cell.gap.is_none_or(|gap| at < gap))
                    .map(|values| values.last)
            }
            after => self.exact[after - 1].bucket().map(|values| values.last),
        }
    }

    /// The time from `from` to `to` in `columns` equal parts; `None` where nothing is known. A
    /// value holds until the next one, or until a gap. A bucket wider than a column gives its range
    /// to all columns that it covers.
    pub fn columns(&self, from: Moment, to: Moment, columns: usize) -> Vec<Option<SeriesBucket>> {
        if columns == 0 || to <= from {
            return vec![None; columns];
        }
        let span = u128::from(to.0 - from.0);
        self.spread(from, to, columns, |at| {
            let offset = u128::from(at.0.saturating_sub(from.0));
            (offset * columns as u128 / span) as usize
        })
    }

    /// A bucket for each part of the time, of any length: between each two of these moments, which are in order.
    pub fn between(&self, bounds: &[Moment]) -> Vec<Option<SeriesBucket>> {
        let [from, .., to] = bounds else {
            return Vec::new();
        };
        self.spread(*from, *to, bounds.len() - 1, |at| {
            bounds.partition_point(|bound| *bound <= at) - 1
        })
    }

    /// `column_of` says which column a moment from `from` on is in.
    fn spread(
        &self,
        from: Moment,
        to: Moment,
        columns: usize,
        column_of: impl Fn(Moment) -> usize,
    ) -> Vec<Option<SeriesBucket>> {
        let mut drawn: Vec<Option<SeriesBucket>> = vec![None; columns];
        self.stretches(from, to, |begin, end, values| {
            let first = column_of(begin.max(from));
            // A stretch that ends where a column begins is not in that column.
            let last = column_of(Moment(end.0.saturating_sub(1)).max(begin).max(from));
            for column in &mut drawn[first..=last.min(columns - 1)] {
                *column = Some(column.map_or(values, |before| before.then(values)));
            }
        });
        drawn
    }

    /// The largest value from `from` to `to`.
    pub fn max_between(&self, from: Moment, to: Moment) -> Option<Bytes> {
        let mut max: Option<Bytes> = None;
        self.stretches(from, to, |_, _, values| max = max.max(Some(values.max)));
        max
    }

    /// Keeps everything in at most `buckets` buckets, for a series without further values.
    pub fn thin(&mut self, buckets: usize) {
        for change in std::mem::take(&mut self.exact) {
            self.settle(change, self.resolution.buckets());
        }
        self.widen(buckets);
        self.cells.shrink_to_fit();
    }

    /// Calls `each` for all buckets that overlap `from..to`, in order.
    fn stretches(
        &self,
        from: Moment,
        to: Moment,
        mut each: impl FnMut(Moment, Moment, SeriesBucket),
    ) {
        // The entry before the first one still holds at `from`.
        let cells = self.cells.partition_point(|cell| cell.at < from);
        let exact = self.exact.partition_point(|change| change.at < from);
        let cells = self.cells.range(cells.saturating_sub(1)..).copied();
        let exact = self.exact.range(exact.saturating_sub(1)..).copied();
        let mut entries = cells.chain(exact.map(Cell::new)).peekable();
        while let Some(entry) = entries.next() {
            if entry.at >= to {
                break;
            }
            let next = entries.peek().map_or(to, |next| next.at);
            let end = entry.gap.unwrap_or(next).min(next).min(to);
            let over = entry.at < from && end <= from;
            if let Some(values) = entry.values.filter(|_| !over) {
                each(entry.at, end, values);
            }
        }
    }

    fn not_before_the_last(&self, at: Moment) -> Moment {
        let changed = self.exact.back().map_or(Moment::ZERO, |change| change.at);
        let seen = self.latest.map_or(Moment::ZERO, |(seen, _)| seen);
        at.max(seen).max(changed)
    }

    fn change(&mut self, at: Moment, value: u64) {
        grow(&mut self.exact, self.resolution.exact() + 1);
        self.exact.push_back(ValueChange { at, value });
        if self.exact.len() > self.resolution.exact()
            && let Some(oldest) = self.exact.pop_front()
        {
            self.settle(oldest, self.resolution.buckets());
        }
    }

    /// Moves a change to the buckets.
    fn settle(&mut self, change: ValueChange, limit: usize) {
        self.width = self.width.max(FIRST_WIDTH);
        self.add(Cell::new(change));
        if self.cells.len() > limit {
            // Well below the limit, so that widening is rare.
            self.widen(limit - limit / 4);
        }
    }

    fn add(&mut self, cell: Cell) {
        let width = self.width;
        match self.cells.back_mut() {
            Some(last) if last.at.0 / width == cell.at.0 / width => *last = last.then(cell),
            _ => {
                grow(&mut self.cells, self.resolution.buckets() + 1);
                self.cells.push_back(cell);
            }
        }
    }

    /// Doubles the width until there are no more than so many cells.
    fn widen(&mut self, limit: usize) {
        while self.cells.len() > limit.max(2) {
            self.width = self.width.saturating_mul(2).max(FIRST_WIDTH);
            for cell in std::mem::take(&mut self.cells) {
                self.add(cell);
            }
        }
    }
}

/// Grows a list as usual, but never beyond what it will ever hold.
fn grow<T>(list: &mut VecDeque<T>, most: usize) {
    if list.len() == list.capacity() && list.len() < most {
        let more = list.len().max(16).min(most - list.len());
        list.reserve_exact(more);
    }
}

#[cfg(test)]
impl Series {
    /// Bytes on the heap.
    fn footprint(&self) -> usize {
        self.cells.capacity() * size_of::<Cell>() + self.exact.capacity() * size_of::<ValueChange>()
    }
}

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
struct ValueChange {
    pub at: Moment,
    // With `Option<Bytes>` a change would take 24 bytes instead of 16.
    pub value: u64,
}

/// The value of a gap: no device has 2^64 − 1 bytes.
const GAP: u64 = u64::MAX;

impl ValueChange {
    fn bucket(self) -> Option<SeriesBucket> {
        (self.value != GAP).then(|| SeriesBucket::new(Bytes(self.value)))
    }
}

/// The changes of one slot of time.
#[derive(Debug, Clone, Copy)]
struct Cell {
    pub at: Moment,
    /// `None` if all of it is a gap.
    pub values: Option<SeriesBucket>,
    /// When the gap at its end began, if there is one. A gap within a cell is not kept.
    pub gap: Option<Moment>,
}

impl Cell {
    pub fn new(change: ValueChange) -> Cell {
        let values = change.bucket();
        Cell {
            at: change.at,
            values,
            gap: values.is_none().then_some(change.at),
        }
    }

    pub fn then(self, later: Cell) -> Cell {
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

#[cfg(test)]
mod tests;
