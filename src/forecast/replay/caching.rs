//! The allocator itself: a request finds a block, is cut to size, comes back and is merged.
//! Function names in parentheses are those of CUDACachingAllocator.cpp.

use super::blocks::BlockPool;
use super::blocks::{Arena, Block, BlockId};
use super::blocks::{ExpandableSegment, SegmentId};
use super::blocks::{MIN_BLOCK, SMALL_REQUEST, SMALL_SEGMENT, segment_size};
use super::settings::AllocatorSettings;
use crate::forecast::trace::{BlockLayout, LaidBlock};
use std::collections::VecDeque;

/// Addresses of one chunk of the driver's.
const DRIVER_CHUNK: u64 = 32 << 20;

/// What the allocator may take from the driver, in bytes. `None` is without bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayRoom {
    /// The GPU's memory that is left for this process's segments.
    pub device: Option<u64>,
    /// The cap of `set_per_process_memory_fraction`.
    pub cap: Option<u64>,
}

/// One device's memory as PyTorch hands it out.
#[derive(Debug)]
pub struct CachingAllocator {
    pub(super) settings: AllocatorSettings,
    pub(super) room: ReplayRoom,
    pub(super) arena: Arena,
    small: BlockPool,
    large: BlockPool,
    pub(super) segments: Vec<ExpandableSegment>,
    /// Where the next segments lie, where that was recorded.
    recorded: VecDeque<u64>,
    lowest_address: u64,
    /// What is left of the driver's chunks: from where, and how many bytes.
    left_over: Vec<(u64, u64)>,
    allocated: u64,
    reserved: u64,
    reserved_peak: u64,
    retries: u64,
}

/// A rounded request.
#[derive(Debug, Clone, Copy)]
struct Request {
    pub size: u64,
    pub stream: u64,
    pub small: bool,
    /// What the driver is asked for where no cached block fits.
    pub segment: u64,
}

impl CachingAllocator {
    /// An allocator that has reserved nothing yet.
    pub fn new(settings: AllocatorSettings, room: ReplayRoom) -> CachingAllocator {
        CachingAllocator {
            settings,
            room,
            arena: Arena::default(),
            small: BlockPool::default(),
            large: BlockPool::default(),
            segments: Vec::new(),
            recorded: VecDeque::new(),
            lowest_address: 1 << 62,
            left_over: Vec::new(),
            allocated: 0,
            reserved: 0,
            reserved_peak: 0,
            retries: 0,
        }
    }

    /// Puts the next segments where the driver is known to have put them.
    pub fn place_segments(&mut self, addresses: &[u64]) {
        self.recorded = addresses.iter().copied().collect();
    }

    /// Begins with these segments and blocks: those that are handed out, by address.
    pub fn lay_out(&mut self, layout: &BlockLayout) -> Vec<BlockId> {
        let mut handed_out = Vec::new();
        // New segments lie below them.
        let mut address = self.lowest_address;
        for segment in &layout.segments {
            self.reserved += segment.size;
            let mut before = None;
            for laid in &segment.blocks {
                let size = laid.size();
                let allocated = match laid {
                    LaidBlock::Carried(_) => true,
                    LaidBlock::Free(_) => false,
                };
                let block = self.arena.add(Block {
                    address,
                    size,
                    stream: segment.stream,
                    small: segment.size <= SMALL_SEGMENT,
                    allocated,
                    mapped: true,
                    expandable: None,
                    prev: None,
                    next: None,
                    freed_at: 0,
                });
                self.arena.splice(block, before, None);
                match allocated {
                    true => {
                        self.allocated += size;
                        handed_out.push(block);
                    }
                    false => self.list(block),
                }
                address += size;
                before = Some(block);
            }
        }
        self.reserved_peak = self.reserved_peak.max(self.reserved);
        handed_out
    }

    /// Gives back what is cached where more is reserved than there is room for; whether what is left fits.
    pub fn shrink_to_room(&mut self) -> bool {
        let room = [self.room.device, self.room.cap]
            .into_iter()
            .flatten()
            .min();
        let room = room.unwrap_or(u64::MAX);
        if self.reserved > room {
            self.empty_cache();
            self.reserved_peak = self.reserved;
        }
        self.reserved <= room
    }

    /// A block of at least `size` bytes, or nothing where memory ran out (`malloc`).
    pub fn allocate(&mut self, size: u64, stream: u64) -> Option<BlockId> {
        let size = self.settings.round(size);
        let request = Request {
            size,
            stream,
            small: size <= SMALL_REQUEST,
            segment: segment_size(size, self.settings.large_segment),
        };
        let found = match self.cached(&request) {
            Some(found) => Some(found),
            None => {
                self.collect_garbage();
                self.new_block(&request)
            }
        };
        let found = found.or_else(|| {
            let released = self.release_oversize(&request);
            released.then(|| self.new_block(&request))?
        });
        let found = found.or_else(|| {
            self.empty_cache();
            self.retries += 1;
            self.new_block(&request)
        })?;
        let block = self.cut(found, size);
        self.arena[block].allocated = true;
        self.allocated += self.arena[block].size;
        Some(block)
    }

    /// Takes a block back and merges it with its free neighbours (`free_block`).
    pub fn free(&mut self, id: BlockId) {
        self.allocated -= self.arena[id].size;
        self.arena[id].allocated = false;
        self.merge(id, self.arena[id].prev);
        self.merge(id, self.arena[id].next);
        self.list(id);
    }

    /// How large a block is that was handed out.
    pub fn size_of(&self, id: BlockId) -> u64 {
        self.arena[id].size
    }

    /// Bytes in blocks that are in use.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }

    /// Bytes that the driver has given.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// The most that the driver had given at once.
    pub fn reserved_peak(&self) -> u64 {
        self.reserved_peak
    }

    /// How often the cache was flushed for one more try.
    pub fn retries(&self) -> u64 {
        self.retries
    }

    /// The largest block that lies free in the cache.
    pub fn largest_free(&self) -> u64 {
        let free = self.large.free().chain(self.small.free());
        free.map(|id| self.arena[id].size).max().unwrap_or(0)
    }

    pub(super) fn pool(&mut self, small: bool) -> (&mut BlockPool, &mut Arena) {
        let pool = match small {
            true => &mut self.small,
            false => &mut self.large,
        };
        (pool, &mut self.arena)
    }

    /// The best fit among the free blocks, taken out of its pool (`get_free_block`).
    fn cached(&mut self, request: &Request) -> Option<BlockId> {
        let collects = self.collects_garbage();
        let (pool, arena) = self.pool(request.small);
        pool.searches += u64::from(collects);
        let mut fits = pool.at_least(request.stream, request.size);
        let mut found = fits.next()?;
        // A block that can grow counts with the size it can grow to, so that holes are filled first.
        for next in fits {
            let grows = arena[found].expandable.is_some();
            if !grows || grown(arena, next) >= grown(arena, found) {
                break;
            }
            found = next;
        }
        let limit = self.settings.max_split_size;
        let size = self.arena[found].size;
        let oversize = request.size < limit && size >= limit;
        let too_generous = request.size >= limit
            && size
                >= request
                    .size
                    .saturating_add(self.settings.max_non_split_rounding);
        if oversize || too_generous {
            return None;
        }
        self.unlist(found);
        Some(found)
    }

    /// A block from the driver, or nothing where the cap or the GPU forbid it (`alloc_block`).
    fn new_block(&mut self, request: &Request) -> Option<BlockId> {
        let cap = self.room.cap;
        if cap.is_some_and(|cap| self.reserved + request.segment > cap) {
            return None;
        }
        if self.settings.expandable_segments {
            return self.grow(request);
        }
        let size = request.segment;
        self.take(size)?;
        let address = self.addresses(size);
        Some(self.arena.add(fresh(request, address, size)))
    }

    /// Cuts a block to size where the rest is worth keeping; the rest stays free (`should_split`).
    fn cut(&mut self, id: BlockId, size: u64) -> BlockId {
        let block = &self.arena[id];
        let rest = block.size - size;
        let split = match block.small || block.expandable.is_some() {
            true => rest >= MIN_BLOCK,
            false => size < self.settings.max_split_size && rest > SMALL_REQUEST,
        };
        if split {
            self.split_off(id, size);
        }
        id
    }

    /// What lies behind the first `size` bytes of a block becomes a block of its own, listed.
    fn split_off(&mut self, id: BlockId, size: u64) {
        let block = self.arena[id].clone();
        let rest = self.arena.add(Block {
            address: block.address + size,
            size: block.size - size,
            allocated: false,
            ..block
        });
        self.arena[id].size = size;
        self.arena.splice(rest, Some(id), block.next);
        self.list(rest);
    }

    /// Joins a neighbour that is free and mapped alike (`try_merge_blocks`).
    fn merge(&mut self, id: BlockId, neighbour: Option<BlockId>) {
        let Some(neighbour) = neighbour else { return };
        let other = self.arena[neighbour].clone();
        if other.allocated || other.mapped != self.arena[id].mapped {
            return;
        }
        self.unlist(neighbour);
        self.arena.remove(neighbour);
        let block = &mut self.arena[id];
        block.size += other.size;
        let (prev, next) = match block.prev == Some(neighbour) {
            true => {
                block.address = other.address;
                (other.prev, block.next)
            }
            false => (block.prev, other.next),
        };
        self.arena.splice(id, prev, next);
    }

    /// Lists a block as free or unmapped.
    pub(super) fn list(&mut self, id: BlockId) {
        let (pool, arena) = self.pool(self.arena[id].small);
        pool.insert(arena, id);
    }

    /// Takes a block off its list.
    fn unlist(&mut self, id: BlockId) {
        let (pool, arena) = self.pool(self.arena[id].small);
        pool.remove(arena, id);
    }

    /// Takes bytes from the driver, or nothing where the GPU has no more.
    pub(super) fn take(&mut self, size: u64) -> Option<()> {
        let device = self.room.device;
        if device.is_some_and(|device| self.reserved + size > device) {
            return None;
        }
        self.reserved += size;
        self.reserved_peak = self.reserved_peak.max(self.reserved);
        Some(())
    }

    /// Gives bytes back to the driver.
    fn give_back(&mut self, size: u64) {
        self.reserved -= size;
    }

    /// Where the driver puts a new segment: downwards in chunks of 32 MiB, in what is left of the
    /// latest chunk first. It matters where several free blocks have the size that is searched for:
    /// the lowest is taken. (As `segment_alloc` events show it on an H200, driver 580.)
    fn addresses(&mut self, size: u64) -> u64 {
        if let Some(recorded) = self.recorded.pop_front() {
            return recorded;
        }
        let left = self.left_over.iter().rposition(|(_, left)| *left >= size);
        if let Some(chunk) = left {
            let (address, left) = &mut self.left_over[chunk];
            let taken = *address;
            *address += size;
            *left -= size;
            return taken;
        }
        let chunk = size.next_multiple_of(DRIVER_CHUNK);
        self.lowest_address -= chunk;
        self.left_over
            .push((self.lowest_address + size, chunk - size));
        self.lowest_address
    }

    /// A free block of at least the request's size by mapping more of an expandable segment, out of
    /// its pool (`try_allocate_expandable_block`).
    fn grow(&mut self, request: &Request) -> Option<BlockId> {
        let mut block = self.growable(request);
        if !self.arena[block].mapped {
            let size = self.arena[block].size.min(request.size);
            self.map(block, size)?;
        }
        while self.arena[block].size < request.size {
            let missing = request.size - self.arena[block].size;
            let next = self.arena[block].next?;
            let size = self.arena[next].size.min(missing);
            self.map(next, size)?;
            // What was mapped took its free neighbour in: it is the block that grew.
            block = next;
        }
        self.unlist(block);
        Some(block)
    }

    /// The lowest stretch of free and unmapped addresses that is long enough, of a new segment where
    /// there is none (`find_expandable_block`).
    fn growable(&mut self, request: &Request) -> BlockId {
        let (pool, arena) = self.pool(request.small);
        let is_free = |id: BlockId| !arena[id].allocated;
        for unmapped in pool.unmapped(request.stream) {
            let before = arena[unmapped].prev.filter(|id| is_free(*id));
            let start = before.unwrap_or(unmapped);
            let (mut room, mut walker) = (0, Some(start));
            while let Some(id) = walker.filter(|id| room < request.size && is_free(*id)) {
                room += arena[id].size;
                walker = arena[id].next;
            }
            if room >= request.size {
                return start;
            }
        }
        let granule = match request.small {
            true => SMALL_SEGMENT,
            false => self.settings.large_segment,
        };
        // 9/8 of the GPU in torch, so that a segment never runs out of addresses before the GPU
        // runs out of memory.
        let size = (1u64 << 42).next_multiple_of(granule);
        let address = self.addresses(size);
        self.segments.push(ExpandableSegment::new(address, granule));
        let id = self.arena.add(Block {
            mapped: false,
            expandable: Some(SegmentId(self.segments.len() - 1)),
            ..fresh(request, address, size)
        });
        self.list(id);
        id
    }

    /// Maps the front of an unmapped block and joins it with its free neighbours (`map_block`).
    fn map(&mut self, id: BlockId, size: u64) -> Option<()> {
        let block = self.arena[id].clone();
        let segment = block.expandable?.0;
        let (bytes, end) = self.segments[segment].to_map(block.address, size);
        self.take(bytes)?;
        self.segments[segment].map(block.address, size);
        self.unlist(id);
        if end < block.address + block.size {
            self.split_off(id, end - block.address);
        }
        self.arena[id].mapped = true;
        self.merge(id, self.arena[id].prev);
        self.merge(id, self.arena[id].next);
        self.list(id);
        Some(())
    }
}

/// A block that nothing was cut from yet.
fn fresh(request: &Request, address: u64, size: u64) -> Block {
    Block {
        address,
        size,
        stream: request.stream,
        small: request.small,
        allocated: false,
        mapped: true,
        expandable: None,
        prev: None,
        next: None,
        freed_at: 0,
    }
}

/// The size that a free block can reach: its own and the unmapped stretch behind it.
fn grown(arena: &Arena, id: BlockId) -> u64 {
    let behind = arena[id].next.filter(|next| !arena[*next].mapped);
    arena[id].size + behind.map_or(0, |next| arena[next].size)
}

impl CachingAllocator {
    /// Gives back every segment that is wholly free, and every free granule
    /// (`release_cached_blocks`, `torch.cuda.empty_cache`).
    pub fn empty_cache(&mut self) {
        for small in [false, true] {
            let free: Vec<BlockId> = self.pool(small).0.free().collect();
            for id in free {
                match self.arena[id].expandable {
                    Some(_) => self.unmap(id),
                    None if !self.arena[id].is_split() => self.release(id),
                    None => {}
                }
            }
        }
    }

    /// Whether garbage collection is on: it goes by the cap.
    fn collects_garbage(&self) -> bool {
        self.room.cap.is_some() && self.settings.garbage_collection_threshold > 0.0
    }

    /// Gives back the oldest wholly free segments until what is reserved is below the threshold
    /// (`garbage_collect_cached_blocks`).
    fn collect_garbage(&mut self) {
        let Some(cap) = self.room.cap.filter(|_| self.collects_garbage()) else {
            return;
        };
        let threshold = (self.settings.garbage_collection_threshold * cap as f64) as u64;
        let Some(target) = self.reserved().checked_sub(threshold).filter(|t| *t > 0) else {
            return;
        };
        let (pool, arena) = self.pool(false);
        let searches = pool.searches;
        let is_whole = |block: &Block| !block.is_split();
        let mut freeable: Vec<(BlockId, u64)> = pool
            .free()
            .filter(|id| is_whole(&arena[*id]))
            .map(|id| (id, searches - arena[id].freed_at))
            .collect();
        let mut reclaimed = 0;
        while reclaimed < target && !freeable.is_empty() {
            let total: u64 = freeable.iter().map(|(_, age)| age).sum();
            let average = total as f64 / freeable.len() as f64;
            let (old, young): (Vec<_>, Vec<_>) = freeable
                .into_iter()
                .partition(|(_, age)| *age as f64 >= average);
            freeable = young;
            for (id, _) in old {
                // Granules of expandable segments are never collected one by one.
                if self.arena[id].expandable.is_none() {
                    reclaimed += self.arena[id].size;
                    self.release(id);
                }
            }
        }
    }

    /// With `max_split_size_mb`: gives oversize blocks back, as many as the request needs. True
    /// where that was enough (`release_available_cached_blocks`).
    fn release_oversize(&mut self, request: &Request) -> bool {
        let limit = self.settings.max_split_size;
        if limit == u64::MAX {
            return false;
        }
        let needed = request.size.max(limit);
        let (pool, arena) = self.pool(request.small);
        let is_whole = |id: &BlockId| arena[*id].expandable.is_none() && !arena[*id].is_split();
        let enough = pool.at_least(request.stream, needed).find(is_whole);
        if let Some(enough) = enough {
            self.release(enough);
            return true;
        }
        let oversize: Vec<BlockId> = pool
            .below(request.stream, needed)
            .take_while(|id| arena[*id].size >= limit)
            .filter(is_whole)
            .collect();
        let mut released = 0;
        for id in oversize {
            if released >= needed {
                break;
            }
            released += self.arena[id].size;
            self.release(id);
        }
        released >= needed
    }

    /// Gives a whole segment back (`release_block`).
    fn release(&mut self, id: BlockId) {
        self.unlist(id);
        self.give_back(self.arena[id].size);
        self.arena.remove(id);
    }

    /// Gives back the granules that lie wholly within a free block; its ends that share a granule
    /// with others stay free (`unmap_block`).
    fn unmap(&mut self, id: BlockId) {
        let block = self.arena[id].clone();
        let Some(segment) = block.expandable else {
            return;
        };
        let (start, given) = self.segments[segment.0].unmap(block.address, block.size);
        if given == 0 {
            return;
        }
        self.unlist(id);
        let end = start + given;
        if end < block.address + block.size {
            self.split_off(id, end - block.address);
        }
        if start > block.address {
            let before = self.arena.add(Block {
                size: start - block.address,
                ..block.clone()
            });
            self.arena.splice(before, block.prev, Some(id));
            self.list(before);
            self.arena[id].address = start;
        }
        self.arena[id].size = given;
        self.arena[id].mapped = false;
        self.merge(id, self.arena[id].prev);
        self.merge(id, self.arena[id].next);
        self.list(id);
        self.give_back(given);
    }
}
