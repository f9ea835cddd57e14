//! Reads a ring buffer in pieces instead of byte by byte.

use std::collections::VecDeque;

/// The first `length` bytes of a ring, in two pieces, as they lie in memory.
pub(crate) fn first(ring: &VecDeque<u8>, length: usize) -> [&[u8]; 2] {
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
pub(super) fn take(ring: &mut VecDeque<u8>, most: usize, piece: &mut Vec<u8>) {
    let length = ring.len().min(most);
    for part in first(ring, length) {
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
            take(&mut ring, round % 7 + 1, &mut piece);
            for byte in &piece {
                assert_eq!(*byte, expected);
                expected = expected.wrapping_add(1);
            }
        }
        piece.clear();
        take(&mut ring, 100, &mut piece);
        assert!(ring.is_empty() && !piece.is_empty());
    }
}
