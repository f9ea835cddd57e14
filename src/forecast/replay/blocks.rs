//! Blocks of memory as the allocator keeps them: in an arena with their neighbours, in pools of free ones,
//! in expandable segments, and the sizes that requests are rounded to.

use std::collections::BTreeSet;

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
    pub fn is_split(&self) -> bool {
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
    pub fn add(&mut self, block: Block) -> BlockId {
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

    pub fn remove(&mut self, id: BlockId) {
        self.unused.push(id);
    }

    /// Links `id` between two neighbours.
    pub fn splice(&mut self, id: BlockId, prev: Option<BlockId>, next: Option<BlockId>) {
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
    pub fn insert(&mut self, arena: &mut Arena, id: BlockId) {
        arena[id].freed_at = self.searches;
        let block = &arena[id];
        match block.mapped {
            true => self.free.insert(key(block, id)),
            false => self.unmapped.insert((block.stream, block.address, 0, id)),
        };
    }

    /// Takes a block off its list.
    pub fn remove(&mut self, arena: &Arena, id: BlockId) {
        let block = &arena[id];
        match block.mapped {
            true => self.free.remove(&key(block, id)),
            false => self.unmapped.remove(&(block.stream, block.address, 0, id)),
        };
    }

    /// The free blocks of a stream that are at least `size` large, smallest first.
    pub fn at_least(&self, stream: u64, size: u64) -> impl Iterator<Item = BlockId> {
        let from = (stream, size, 0, BlockId::default());
        self.free
            .range(from..)
            .take_while(move |(of, ..)| *of == stream)
            .map(|(.., id)| *id)
    }

    /// The free blocks of a stream that are smaller than `size`, largest first.
    pub fn below(&self, stream: u64, size: u64) -> impl Iterator<Item = BlockId> {
        let to = (stream, size, 0, BlockId::default());
        self.free
            .range(..to)
            .rev()
            .take_while(move |(of, ..)| *of == stream)
            .map(|(.., id)| *id)
    }

    /// The unmapped stretches of a stream, lowest address first.
    pub fn unmapped(&self, stream: u64) -> impl Iterator<Item = BlockId> {
        let from = (stream, 0, 0, BlockId::default());
        self.unmapped
            .range(from..)
            .take_while(move |(of, ..)| *of == stream)
            .map(|(.., id)| *id)
    }

    /// All free blocks, by stream and size.
    pub fn free(&self) -> impl Iterator<Item = BlockId> {
        self.free.iter().map(|(.., id)| *id)
    }
}

fn key(block: &Block, id: BlockId) -> BlockKey {
    (block.stream, block.size, block.address, id)
}

/// A segment's place in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentId(pub usize);

/// Addresses, and which granules of them are mapped.
#[derive(Debug)]
pub(super) struct ExpandableSegment {
    pub address: u64,
    granule: u64,
    mapped: BTreeSet<u64>,
}

impl ExpandableSegment {
    pub fn new(address: u64, granule: u64) -> ExpandableSegment {
        ExpandableSegment {
            address,
            granule,
            mapped: BTreeSet::new(),
        }
    }

    /// What mapping `size` bytes from `address` on would take: the bytes, and where they end.
    pub fn to_map(&self, address: u64, size: u64) -> (u64, u64) {
        let granules = self.touched(address, size);
        let new = granules.clone().filter(|g| !self.mapped.contains(g));
        (
            new.count() as u64 * self.granule,
            self.address + granules.end * self.granule,
        )
    }

    /// Maps them.
    pub fn map(&mut self, address: u64, size: u64) {
        let granules = self.touched(address, size);
        self.mapped.extend(granules);
    }

    /// Unmaps the granules that lie wholly within a stretch: from where, and how many bytes.
    pub fn unmap(&mut self, address: u64, size: u64) -> (u64, u64) {
        let first = (address - self.address).div_ceil(self.granule);
        let end = (address + size - self.address) / self.granule;
        if first >= end {
            return (address, 0);
        }
        for granule in first..end {
            self.mapped.remove(&granule);
        }
        (
            self.address + first * self.granule,
            (end - first) * self.granule,
        )
    }

    /// The granules that a stretch touches.
    fn touched(&self, address: u64, size: u64) -> std::ops::Range<u64> {
        let first = (address - self.address) / self.granule;
        first..(address + size - self.address).div_ceil(self.granule)
    }
}

const MIB: u64 = 1 << 20;

/// Every block is a multiple of this (`kMinBlockSize`).
pub(super) const MIN_BLOCK: u64 = 512;
/// The largest request of the small pool (`kSmallSize`).
pub(super) const SMALL_REQUEST: u64 = MIB;
/// A segment of the small pool, and its granule where segments are expandable (`kSmallBuffer`).
pub(super) const SMALL_SEGMENT: u64 = 2 * MIB;
/// From here on a request gets a segment of its own (`kMinLargeAlloc`).
const MIN_OWN_SEGMENT: u64 = 10 * MIB;
/// Segments of their own are a multiple of this (`kRoundLarge`).
const SEGMENT_MULTIPLE: u64 = 2 * MIB;
/// A segment for requests between 1 and 10 MiB, and the large pool's granule where segments are
/// expandable (`kLargeBuffer`; `large_segment_size_mb` since torch 2.12).
pub(super) const LARGE_SEGMENT: u64 = 20 * MIB;

/// What the driver is asked for where no cached block fits a rounded request.
pub(super) fn segment_size(size: u64, large_segment: u64) -> u64 {
    if size <= SMALL_REQUEST {
        SMALL_SEGMENT
    } else if size < MIN_OWN_SEGMENT {
        large_segment
    } else {
        size.next_multiple_of(SEGMENT_MULTIPLE)
    }
}

/// Rounds up to the next of `divisions` equal parts between two powers of two
/// (`roundup_power2_next_division`); `divisions` is a power of two greater than 1.
pub(super) fn next_division(size: u64, divisions: u64) -> u64 {
    if size.is_power_of_two() {
        return size;
    }
    let floor = 1 << size.ilog2();
    let part = floor >> divisions.ilog2();
    if part == 0 {
        return floor << 1;
    }
    size.next_multiple_of(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_no_cached_block_fits() {
        for (size, segment) in [
            (512, 2 * MIB),
            (MIB, 2 * MIB),
            (MIB + 512, 20 * MIB),
            (10 * MIB - 512, 20 * MIB),
            (10 * MIB, 10 * MIB),
            (10 * MIB + 512, 12 * MIB),
        ] {
            assert_eq!(segment_size(size, LARGE_SEGMENT), segment, "{size}");
        }
    }

    /// The example of PyTorch's documentation: with 4 divisions 1200 becomes 1280.
    #[test]
    fn parts_between_powers_of_two() {
        assert_eq!(next_division(1200, 4), 1280);
        assert_eq!(next_division(1024, 4), 1024);
        assert_eq!(next_division(1537, 2), 2048);
    }
}
