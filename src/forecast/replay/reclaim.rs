//! Giving memory back to the driver: garbage collection under a cap, oversize blocks, and the whole
//! cache before the last try. Function names in parentheses are those of CUDACachingAllocator.cpp.

use super::block::{Block, BlockId};
use super::caching::{CachingAllocator, Request};

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
    pub(super) fn collects_garbage(&self) -> bool {
        self.room.cap.is_some() && self.settings.garbage_collection_threshold > 0.0
    }

    /// Gives back the oldest wholly free segments until what is reserved is below the threshold
    /// (`garbage_collect_cached_blocks`).
    pub(super) fn collect_garbage(&mut self) {
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
    pub(super) fn release_oversize(&mut self, request: &Request) -> bool {
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
