//! One pool of free blocks, ordered as the best fit is searched: by stream, size, then address.

use super::block::{Arena, Block, BlockId};
use std::collections::BTreeSet;

type BlockKey = (u64, u64, u64, BlockId);

/// The free blocks of one kind of request, and the unmapped stretches of its expandable segments.
#[derive(Debug, Default)]
pub(super) struct BlockPool {
    /// (stream, size, address, block).
    free: BTreeSet<BlockKey>,
    /// (stream, address, 0, block).
    unmapped: BTreeSet<BlockKey>,
    /// How often a free block was searched, where garbage collection is on.
    pub searches: u64,
}

impl BlockPool {
    /// Lists a block where it belongs: free or unmapped.
    pub(super) fn insert(&mut self, arena: &mut Arena, id: BlockId) {
        arena[id].freed_at = self.searches;
        let block = &arena[id];
        match block.mapped {
            true => self.free.insert(key(block, id)),
            false => self.unmapped.insert((block.stream, block.address, 0, id)),
        };
    }

    /// Takes a block off its list.
    pub(super) fn remove(&mut self, arena: &Arena, id: BlockId) {
        let block = &arena[id];
        match block.mapped {
            true => self.free.remove(&key(block, id)),
            false => self.unmapped.remove(&(block.stream, block.address, 0, id)),
        };
    }

    /// The free blocks of a stream that are at least `size` large, smallest first.
    pub(super) fn at_least(&self, stream: u64, size: u64) -> impl Iterator<Item = BlockId> {
        let from = (stream, size, 0, BlockId::default());
        self.free
            .range(from..)
            .take_while(move |(of, ..)| *of == stream)
            .map(|(.., id)| *id)
    }

    /// The free blocks of a stream that are smaller than `size`, largest first.
    pub(super) fn below(&self, stream: u64, size: u64) -> impl Iterator<Item = BlockId> {
        let to = (stream, size, 0, BlockId::default());
        self.free
            .range(..to)
            .rev()
            .take_while(move |(of, ..)| *of == stream)
            .map(|(.., id)| *id)
    }

    /// The unmapped stretches of a stream, lowest address first.
    pub(super) fn unmapped(&self, stream: u64) -> impl Iterator<Item = BlockId> {
        let from = (stream, 0, 0, BlockId::default());
        self.unmapped
            .range(from..)
            .take_while(move |(of, ..)| *of == stream)
            .map(|(.., id)| *id)
    }

    /// All free blocks, by stream and size.
    pub(super) fn free(&self) -> impl Iterator<Item = BlockId> {
        self.free.iter().map(|(.., id)| *id)
    }
}

fn key(block: &Block, id: BlockId) -> BlockKey {
    (block.stream, block.size, block.address, id)
}
