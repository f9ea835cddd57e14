//! Positions of a step and columns of a chart: a column stands for several events, or several columns
//! for one.

use crate::anatomy::StepAnatomy;
use std::ops::Range;

#[derive(Debug, Clone, Copy)]
pub(in crate::ui) struct Columns {
    positions: usize,
    columns: usize,
}

impl Columns {
    pub(in crate::ui) fn of(anatomy: &StepAnatomy, columns: u16) -> Columns {
        Columns {
            positions: anatomy.end() + 1,
            columns: usize::from(columns).max(1),
        }
    }

    /// The column of a position; the last of them, if there are several.
    pub(in crate::ui) fn column(self, position: usize) -> u16 {
        let column = ((position + 1) * self.columns - 1) / self.positions;
        u16::try_from(column.min(self.columns - 1)).unwrap_or(u16::MAX)
    }

    /// The positions of a column; never none.
    fn positions(self, column: u16) -> Range<usize> {
        let column = usize::from(column).min(self.columns - 1);
        let begin = column * self.positions / self.columns;
        let end = (column + 1) * self.positions / self.columns;
        begin..end.max(begin + 1)
    }

    /// The position of a column with the most allocated, so that a peak of one event is never lost.
    pub(in crate::ui) fn highest(self, anatomy: &StepAnatomy, column: u16) -> usize {
        let positions = self.positions(column);
        let mut highest = positions.start;
        for position in positions {
            if anatomy.allocated[position] > anatomy.allocated[highest] {
                highest = position;
            }
        }
        highest
    }

    /// Where a cursor goes that moves to the left: by a column, or by an event if that is more.
    pub(in crate::ui) fn before(self, anatomy: &StepAnatomy, position: usize) -> usize {
        match self.column(position).checked_sub(1) {
            _ if self.positions <= self.columns => position.saturating_sub(1),
            Some(column) => self.highest(anatomy, column),
            None => 0,
        }
    }

    /// Where one goes that moves to the right.
    pub(in crate::ui) fn after(self, anatomy: &StepAnatomy, position: usize) -> usize {
        let column = self.column(position) + 1;
        match usize::from(column) < self.columns {
            _ if self.positions <= self.columns => (position + 1).min(anatomy.end()),
            true => self.highest(anatomy, column),
            false => anatomy.end(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_is_in_its_column() {
        for positions in 1..60 {
            for columns in 1..60 {
                let columns = Columns { positions, columns };
                for position in 0..positions {
                    let of = columns.positions(columns.column(position));
                    assert!(of.contains(&position), "{position}: {columns:?}");
                }
                for column in 0..columns.columns as u16 {
                    let of = columns.positions(column);
                    assert!(!of.is_empty() && of.end <= positions, "{of:?}: {columns:?}");
                }
            }
        }
    }
}
