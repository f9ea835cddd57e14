//! Blocks: stretches of addresses, each with its neighbours in the segment that it was cut from.

use super::expandable::SegmentId;

/// A block's place in the arena.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(u32);

/// Handed out, free in its pool, or (expandable segments only) not mapped.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub address: u64,
    pub size: u64,
    pub stream: u64,
    /// Of the pool for requests of at most 1 MiB.
    pub small: bool,
    pub allocated: bool,
    /// Backed by memory.
    pub mapped: bool,
    pub expandable: Option<SegmentId>,
    pub prev: Option<BlockId>,
    pub next: Option<BlockId>,
    /// The pool's count of searches when the block became free: its age, for garbage collection.
    pub freed_at: u64,
}

impl Block {
    pub(super) fn is_split(&self) -> bool {
        self.prev.is_some() || self.next.is_some()
    }
}

/// All blocks by their ids; ids of blocks that are gone are used again.
#[derive(Debug, Default)]
pub(super) struct Arena {
    blocks: Vec<Block>,
    unused: Vec<BlockId>,
}

impl Arena {
    pub(super) fn add(&mut self, block: Block) -> BlockId {
        match self.unused.pop() {
            Some(id) => {
                self[id] = block;
                id
            }
            None => {
                self.blocks.push(block);
                BlockId(self.blocks.len() as u32 - 1)
            }
        }
    }

    pub(super) fn remove(&mut self, id: BlockId) {
        self.unused.push(id);
    }

    /// Links `id` between two neighbours.
    pub(super) fn splice(&mut self, id: BlockId, prev: Option<BlockId>, next: Option<BlockId>) {
        self[id].prev = prev;
        self[id].next = next;
        if let Some(prev) = prev {
            self[prev].next = Some(id);
        }
        if let Some(next) = next {
            self[next].prev = Some(id);
        }
    }
}

impl std::ops::Index<BlockId> for Arena {
    type Output = Block;

    fn index(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }
}

impl std::ops::IndexMut<BlockId> for Arena {
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.blocks[id.0 as usize]
    }
}
