//! What waits for the thread: bytes, the limits of lines, and gaps. The bytes lie in a ring that is read in
//! pieces instead of byte by byte.

use super::{Destination, Gap, PIECE};
use crate::units::Moment;
use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Part of a stream, any piece of which may be written or missing.
    Bytes,
    /// A line, which is written whole or not at all.
    Line { keep: bool, at: Moment },
}

impl Unit {
    fn missing(self, bytes: usize) -> Gap {
        let at = match self {
            Unit::Bytes => None,
            Unit::Line { at, .. } => Some(at),
        };
        Gap {
            lines: at.is_some().into(),
            bytes: bytes as u64,
            from: at.unwrap_or_default(),
            to: at.unwrap_or_default(),
            reason: None,
        }
    }
}

#[derive(Debug)]
pub(super) enum Segment {
    There(Unit, usize),
    Missing(Box<Gap>),
}

impl Segment {
    pub fn missing(self) -> Option<Gap> {
        match self {
            Segment::There(..) => None,
            Segment::Missing(gap) => Some(*gap),
        }
    }
}

/// The writer enforces the bound, since it knows what may exceed it.
#[derive(Debug)]
pub(super) struct Queue {
    bytes: VecDeque<u8>,
    segments: VecDeque<Segment>,
    capacity: usize,
}

impl Queue {
    pub fn new(capacity: usize) -> Queue {
        Queue {
            bytes: VecDeque::new(),
            segments: VecDeque::new(),
            capacity,
        }
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub fn give_back(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = VecDeque::new();
            self.segments.shrink_to_fit();
        }
    }

    pub fn push(&mut self, unit: Unit, bytes: &[u8]) {
        if self.bytes.capacity() == 0 {
            // All at once: a ring that grows is copied, and held twice meanwhile. Where there is not so much, what
            // is needed.
            let _ = self.bytes.try_reserve_exact(self.capacity);
        }
        if self.bytes.is_empty() {
            // From the ring's beginning: going round, it would in time take all of its memory for a line at a time.
            self.bytes.clear();
        }
        if self.bytes.try_reserve(bytes.len()).is_err() {
            return self.drop_unit(unit, bytes.len(), false);
        }
        self.bytes.extend(bytes);
        let mut left = bytes.len();
        if unit == Unit::Bytes {
            if let Some(Segment::There(Unit::Bytes, length)) = self.segments.back_mut() {
                let fits = left.min(PIECE.saturating_sub(*length));
                *length += fits;
                left -= fits;
            }
            while left > PIECE {
                self.segments.push_back(Segment::There(unit, PIECE));
                left -= PIECE;
            }
        }
        if left > 0 {
            self.segments.push_back(Segment::There(unit, left));
        }
    }

    /// Notes a gap; while writes fail (`failing`) one is enough.
    pub fn drop_unit(&mut self, unit: Unit, bytes: usize, failing: bool) {
        let missing = unit.missing(bytes);
        let gap = match (failing, self.segments.front_mut()) {
            (true, Some(Segment::Missing(gap))) => Some(gap),
            _ => match self.segments.back_mut() {
                Some(Segment::Missing(gap)) => Some(gap),
                Some(Segment::There(..)) | None => None,
            },
        };
        match gap {
            Some(gap) => gap.add(&missing),
            None => self.segments.push_back(Segment::Missing(Box::new(missing))),
        }
    }

    /// Moves the next write into `piece` and returns its parts. `reason`: why writing failed, if it
    /// did.
    pub fn take(
        &mut self,
        destination: &impl Destination,
        reason: Option<&String>,
        piece: &mut Vec<u8>,
    ) -> Vec<(Segment, usize)> {
        let mut taken = Vec::new();
        piece.clear();
        while let Some(mut next) = self.segments.pop_front() {
            let before = piece.len();
            match &mut next {
                Segment::There(_, length) if before > 0 && before + *length > PIECE => {
                    self.segments.push_front(next);
                    break;
                }
                Segment::There(_, length) => take_bytes(&mut self.bytes, *length, piece),
                Segment::Missing(gap) => {
                    gap.reason = reason.cloned();
                    piece.extend(destination.gap(gap));
                }
            }
            taken.push((next, piece.len() - before));
        }
        taken
    }

    /// After a failed write: keeps the lines that must be kept, up to `most` bytes of them, and replaces
    /// everything else by one gap. Returns the number of bytes that this drops.
    pub fn give_up(
        &mut self,
        taken: Vec<(Segment, usize)>,
        piece: &[u8],
        written: usize,
        most: usize,
    ) -> u64 {
        let (bytes, segments) = (
            std::mem::take(&mut self.bytes),
            std::mem::take(&mut self.segments),
        );
        let mut content = piece.iter().copied().chain(bytes);
        let waiting = segments.into_iter().map(|segment| {
            let length = match &segment {
                Segment::There(_, length) => *length,
                Segment::Missing(_) => 0,
            };
            (segment, length)
        });
        let (mut gap, mut dropped, mut end) = (Gap::default(), 0, 0);
        for (segment, length) in taken.into_iter().chain(waiting) {
            end += length;
            let own = content.by_ref().take(length);
            match segment {
                // It is in the file, whole.
                _ if end <= written => own.for_each(drop),
                Segment::There(unit @ Unit::Line { keep: true, .. }, _)
                    if self.bytes.len() + length <= most =>
                {
                    self.bytes.extend(own);
                    self.segments.push_back(Segment::There(unit, length));
                }
                Segment::There(unit, _) => {
                    own.for_each(drop);
                    let missing = length.min(end - written);
                    gap.add(&unit.missing(missing));
                    dropped += missing as u64;
                }
                Segment::Missing(before) => {
                    own.for_each(drop);
                    gap.add(&before);
                }
            }
        }
        self.segments.push_front(Segment::Missing(Box::new(gap)));
        dropped
    }
}

/// The first `length` bytes of a ring, in two pieces, as they lie in memory.
pub(crate) fn first_bytes(ring: &VecDeque<u8>, length: usize) -> [&[u8]; 2] {
    let (head, tail) = ring.as_slices();
    match head.split_at_checked(length) {
        Some((head, _)) => [head, &[]],
        None => {
            let rest = length.saturating_sub(head.len());
            [head, tail.get(..rest).unwrap_or(tail)]
        }
    }
}

/// Moves up to `most` bytes from a ring to the end of `piece`.
fn take_bytes(ring: &mut VecDeque<u8>, most: usize, piece: &mut Vec<u8>) {
    let length = ring.len().min(most);
    for part in first_bytes(ring, length) {
        piece.extend_from_slice(part);
    }
    ring.drain(..length);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_that_wraps_round_comes_out_in_order() {
        let mut ring = VecDeque::with_capacity(8);
        let mut piece = Vec::new();
        let mut next = 0u8;
        let mut expected = 0u8;
        for round in 0..100 {
            while ring.len() < 8 {
                ring.push_back(next);
                next = next.wrapping_add(1);
            }
            piece.clear();
            take_bytes(&mut ring, round % 7 + 1, &mut piece);
            for byte in &piece {
                assert_eq!(*byte, expected);
                expected = expected.wrapping_add(1);
            }
        }
        piece.clear();
        take_bytes(&mut ring, 100, &mut piece);
        assert!(ring.is_empty() && !piece.is_empty());
    }
}
