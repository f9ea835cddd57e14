//! The end of the current run's output, for the screen of a later front.
//!
//! The log has all of it, but it may be off, full or slow, and its position at the moment when live
//! output begins is unknown. This is exact.

use crate::background::ring;
use std::collections::VecDeque;

/// A dozen large screens, with their colours.
const CAPACITY: usize = 64 << 10;

#[derive(Default)]
pub(super) struct Recent {
    bytes: VecDeque<u8>,
}

impl Recent {
    /// Adds output; the oldest is dropped.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let fresh = bytes
            .get(bytes.len().saturating_sub(CAPACITY)..)
            .unwrap_or_default();
        let over = (self.bytes.len() + fresh.len()).saturating_sub(CAPACITY);
        if over > 0 {
            self.bytes.drain(..over.min(self.bytes.len()));
        } else if self.bytes.capacity() == 0 {
            // All at once: growing a ring copies it.
            self.bytes.reserve_exact(CAPACITY);
        }
        self.bytes.extend(fresh);
    }

    /// Everything but the last `unseen` bytes, which the front will get as output.
    pub(super) fn before(&self, unseen: u64) -> Vec<u8> {
        let unseen = usize::try_from(unseen).unwrap_or(usize::MAX);
        let seen = self.bytes.len().saturating_sub(unseen);
        ring::first(&self.bytes, seen).concat()
    }

    /// For another run.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept_however_they_came() {
        let mut recent = Recent::default();
        let all: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
        let (head, tail) = all.split_at(100_000);
        recent.push(head);
        for piece in tail.chunks(777) {
            recent.push(piece);
        }
        assert_eq!(recent.before(0), all.split_at(all.len() - CAPACITY).1);
        let unseen = recent.before(1_000);
        assert!(unseen.len() == CAPACITY - 1_000 && all.split_at(299_000).0.ends_with(&unseen));
        assert!(recent.before(u64::MAX).is_empty());
        recent.clear();
        assert!(recent.before(0).is_empty());
    }
}
