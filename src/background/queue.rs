//! What waits for the thread: bytes, the limits of lines, and gaps.

use super::destination::{Destination, Gap};
use super::{PIECE, ring};
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
    pub(super) fn missing(self) -> Option<Gap> {
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
    pub(super) fn new(capacity: usize) -> Queue {
        Queue {
            bytes: VecDeque::new(),
            segments: VecDeque::new(),
            capacity,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(super) fn give_back(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = VecDeque::new();
            self.segments.shrink_to_fit();
        }
    }

    pub(super) fn push(&mut self, unit: Unit, bytes: &[u8]) {
        if self.bytes.capacity() == 0 {
            // All at once: a ring that grows is copied, and held twice meanwhile.
            self.bytes.reserve_exact(self.capacity);
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
    pub(super) fn drop_unit(&mut self, unit: Unit, bytes: usize, failing: bool) {
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
    pub(super) fn take(
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
                Segment::There(_, length) => ring::take(&mut self.bytes, *length, piece),
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
    pub(super) fn give_up(
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
