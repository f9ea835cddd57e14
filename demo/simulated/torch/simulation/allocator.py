"""The caching allocator: PyTorch's rules for allocating, caching and releasing device memory.

Follows `DeviceCachingAllocator` of c10/cuda/CUDACachingAllocator.cpp (2.8 to 2.12) step by step: best fit in the pool,
else a new segment, else release cached segments and try again, else out of memory. Left out, because nothing here can
exercise them: several streams, private pools (CUDA graphs), events.
"""
import threading

from . import text
from .blocks import (
    LARGE_BUFFER,
    SMALL_BUFFER,
    SMALL_SIZE,
    Block,
    Pool,
    round_size,
    segment_size,
)
from .expandable import ExpandableSegment
from .errors import OutOfMemoryError
from .settings import UNLIMITED
from .statistics import Statistics


class Allocator:
    """One device's memory. `observers` are called with (device, requested, total or allowed, free) before an OOM."""

    def __init__(self, gpu, settings, device=0):
        self.gpu = gpu
        self.settings = settings
        self.device = device
        self.stats = Statistics(settings.max_split_size)
        self.small = Pool(small=True)
        self.large = Pool(small=False)
        self.allocated = {}
        self.expandable = []
        self.allowed = None
        self.observers = []
        self.call_observer = lambda observer, arguments: observer(*arguments)
        if settings.memory_fraction is not None:
            self.set_memory_fraction(settings.memory_fraction)
        self._lock = threading.RLock()
        self._working = False
        self._freed_meanwhile = []

    # Public interface.

    def allocate(self, size, frames=None):
        """A block of at least `size` bytes (not 0), or OutOfMemoryError after the observers were called."""
        with self._lock:
            self._working = True
            try:
                block, wanted = self._find_or_make(round_size(size), frames)
                if block is not None:
                    return self._hand_out(block, size, frames)
                self.stats.num_ooms += 1
                message = self._out_of_memory(wanted)
            finally:
                self._finish()
        arguments = (self.device, wanted, self.gpu.capacity if self.allowed is None else self.allowed, self.gpu.free)
        for observer in list(self.observers):
            self.call_observer(observer, arguments)
        raise OutOfMemoryError(message)

    def free(self, block):
        """Frees a block. May be called at any moment, even by the garbage collector in the middle of `allocate`."""
        with self._lock:
            if self._working:
                self._freed_meanwhile.append(block)
                return
            self._working = True
            try:
                self._take_back(block)
            finally:
                self._finish()

    def empty_cache(self):
        """Releases every segment that is entirely free."""
        with self._lock:
            self._working = True
            try:
                self._release_cached_blocks()
            finally:
                self._finish()

    def set_memory_fraction(self, fraction):
        """Caps what this process may reserve, not counting the context."""
        self.allowed = int(fraction * self.gpu.capacity)

    def statistics(self):
        """The nested dict of statistics."""
        with self._lock:
            return self.stats.nested()

    def segments(self):
        """Chains of blocks, one per segment, by address: (first block, is_expandable)."""
        with self._lock:
            heads = {}
            for pool in (self.small, self.large):
                for block in list(pool.free) + list(pool.unmapped):
                    self._note_head(heads, block)
            for block in self.allocated.values():
                self._note_head(heads, block)
            return [heads[address] for address in sorted(heads)]

    @staticmethod
    def _note_head(heads, block):
        while block.prev is not None:
            block = block.prev
        heads[block.address] = block

    @property
    def lock(self):
        """To be held while walking over `segments()`."""
        return self._lock

    def _finish(self):
        """Ends an operation: frees what the garbage collector dropped during it."""
        while self._freed_meanwhile:
            self._take_back(self._freed_meanwhile.pop())
        self._working = False

    # Allocating.

    def _find_or_make(self, size, frames):
        """(a block of at least `size` bytes or None, the bytes requested from the driver, or that would have been)."""
        pool = self.small if size <= SMALL_SIZE else self.large
        wanted = segment_size(size)
        block = self._best_fit(pool, size)
        if block is None:
            if self.allowed is not None and self.settings.garbage_collection_threshold:
                self._collect_garbage(size)
            block = self._new_block(pool, size, wanted, frames)
        if block is None and self._release_available_cached_blocks(size, pool):
            block = self._new_block(pool, size, wanted, frames)
        if block is None:
            self._release_cached_blocks()
            self.stats.num_alloc_retries += 1
            block = self._new_block(pool, size, wanted, frames)
        if block is not None:
            block = self._split(block, size)
        return block, wanted

    def _best_fit(self, pool, size):
        """The smallest free block that fits `size`, removed from its pool."""
        found = None
        for block in pool.free.at_least(size):
            # A block that can grow counts with the size that it can reach, so that holes are filled first.
            if found is None:
                found = block
            elif expandable_size(block) < expandable_size(found):
                found = block
            else:
                break
            if found.expandable is None:
                break
        if found is None:
            return None
        limit = self.settings.max_split_size
        if size < limit <= found.size and limit != UNLIMITED:
            return None
        if size >= limit and found.size >= size + LARGE_BUFFER:
            return None
        pool.free.discard(found)
        return found

    def _new_block(self, pool, size, wanted, frames):
        """A block from the driver, or None if it would exceed the cap or the GPU's memory."""
        if self.allowed is not None and self.stats.reserved_bytes.all[0] + wanted > self.allowed:
            return None
        if self.settings.expandable_segments:
            return self._grow(pool, size)
        if not self.gpu.take(wanted):
            return None
        block = Block(self.gpu.reserve_addresses(wanted), wanted, pool)
        block.segment_frames = frames
        self.stats.num_device_alloc += 1
        self.stats.segment.add(pool.small, 1)
        self.stats.reserved_bytes.add(pool.small, wanted)
        if wanted >= self.settings.max_split_size:
            self.stats.oversize_segments.add(pool.small, 1)
        return block

    def _split(self, block, size):
        """Cuts `block` to `size` if the remainder is worth keeping, which then stays free in the pool."""
        pool = block.pool
        was_split = block.is_split
        if pool.should_split(block, size, self.settings.max_split_size):
            rest = Block(block.address + size, block.size - size, pool, block.expandable)
            rest.segment_frames = block.segment_frames
            block.insert_after(rest)
            block.size = size
            pool.free.add(rest)
            if block.expandable is None:
                if was_split:
                    self.stats.inactive_split_bytes.take(pool.small, size)
                else:
                    self.stats.inactive_split_bytes.add(pool.small, rest.size)
                    self.stats.inactive_split.add(pool.small, 1)
        elif was_split and block.expandable is None:
            self.stats.inactive_split_bytes.take(pool.small, block.size)
            self.stats.inactive_split.take(pool.small, 1)
        return block

    def _hand_out(self, block, requested, frames):
        small = block.pool.small
        block.allocated = True
        block.requested = requested
        block.frames = frames
        self.allocated[block.address] = block
        stats = self.stats
        stats.allocation.add(small, 1)
        stats.allocated_bytes.add(small, block.size)
        stats.active.add(small, 1)
        stats.active_bytes.add(small, block.size)
        stats.requested_bytes.add(small, requested)
        if block.size >= self.settings.max_split_size:
            stats.oversize_allocations.add(small, 1)
        return block

    # Freeing.

    def _take_back(self, block):
        small, size, stats = block.pool.small, block.size, self.stats
        del self.allocated[block.address]
        block.allocated = False
        block.frames = None
        stats.allocation.take(small, 1)
        stats.allocated_bytes.take(small, size)
        stats.requested_bytes.take(small, block.requested)
        if size >= self.settings.max_split_size:
            stats.oversize_allocations.take(small, 1)
        block.requested = 0
        blocks, gained = 0, 0
        for neighbour in (block.prev, block.next):
            subsumed = self._merge(block, neighbour, block.pool.free)
            if subsumed:
                blocks -= 1
                gained -= subsumed
        block.pool.free.add(block)
        if block.is_split:
            blocks += 1
            gained += block.size
        if block.expandable is None:
            stats.inactive_split.change(small, blocks)
            stats.inactive_split_bytes.change(small, gained)
        stats.active.take(small, 1)
        stats.active_bytes.take(small, size)

    @staticmethod
    def _merge(block, neighbour, listed):
        """Merges a neighbour that is free and mapped alike: returns its size, 0 if it could not be merged."""
        if neighbour is None or neighbour.allocated or neighbour.mapped != block.mapped:
            return 0
        listed.discard(neighbour)
        if neighbour is block.prev:
            block.address = neighbour.address
            block.segment_frames = neighbour.segment_frames
            block.prev = neighbour.prev
            if block.prev is not None:
                block.prev.next = block
        else:
            block.next = neighbour.next
            if block.next is not None:
                block.next.prev = block
        block.size += neighbour.size
        neighbour.prev = neighbour.next = None
        return neighbour.size

    # Releasing to the driver.

    def _collect_garbage(self, size):
        """Under a cap with a threshold: releases entirely free segments until use is below it, largest first."""
        threshold = int(self.settings.garbage_collection_threshold * self.allowed)
        excess = self.stats.reserved_bytes.all[0] + size - threshold
        for block in reversed(list(self.large.free)):
            if excess <= 0:
                return
            if not block.is_split and block.expandable is None:
                excess -= block.size
                self._release(block)

    def _release_available_cached_blocks(self, size, pool):
        """With max_split_size: releases as many oversize blocks as the request needs. True if that was enough."""
        limit = self.settings.max_split_size
        if limit == UNLIMITED:
            return False
        needed = max(size, limit)
        for block in pool.free.at_least(needed):
            if block.expandable is None:
                self._release(block)
                return True
        released = 0
        for block in reversed([b for b in pool.free if b.size >= limit and b.expandable is None]):
            if released >= needed:
                break
            released += block.size
            self._release(block)
        return released >= needed

    def _release_cached_blocks(self):
        """Releases every entirely free segment, and every free granule."""
        self.stats.num_sync_all_streams += 1
        for pool in (self.large, self.small):
            for block in list(pool.free):
                if block.expandable is not None:
                    self._unmap(block)
                elif not block.is_split:
                    self._release(block)
            for block in list(pool.unmapped):
                if not block.is_split:
                    pool.unmapped.discard(block)
                    self.expandable.remove(block.expandable)
                    self.stats.segment.take(pool.small, 1)

    def _release(self, block):
        pool = block.pool
        pool.free.discard(block)
        self.gpu.give_back(block.size)
        self.stats.num_device_free += 1
        self.stats.segment.take(pool.small, 1)
        self.stats.reserved_bytes.take(pool.small, block.size)
        if block.size >= self.settings.max_split_size:
            self.stats.oversize_segments.take(pool.small, 1)

    # Expandable segments.

    def _grow(self, pool, size):
        """A free block of at least `size`, made by mapping more of an expandable segment, removed from its pool; or
        None."""
        candidate = self._expandable_candidate(pool, size)
        if not candidate.mapped and not self._map(candidate, min(candidate.size, size)):
            return None
        while candidate.size < size:
            more = candidate.next
            if not self._map(more, min(size - candidate.size, more.size)):
                return None
            # The mapped memory was merged with its free neighbour: that is the block that grew.
            candidate = more
        pool.free.discard(candidate)
        return candidate

    def _expandable_candidate(self, pool, size):
        for block in pool.unmapped.at_least(0):
            start = block
            if start.prev is not None and not start.prev.allocated:
                start = start.prev
            room, walker = 0, start
            while room < size and walker is not None and not walker.allocated:
                room += walker.size
                walker = walker.next
            if room >= size:
                return start
        segment = ExpandableSegment(self.gpu, SMALL_BUFFER if pool.small else LARGE_BUFFER)
        self.expandable.append(segment)
        self.stats.segment.add(pool.small, 1)
        block = Block(segment.address, segment.size, pool, segment, mapped=False)
        pool.unmapped.add(block)
        return block

    def _map(self, block, size):
        """Maps the front of an unmapped block and merges it with its free neighbours. False if there is no memory."""
        pool = block.pool
        mapped = block.expandable.map(block.address, size)
        if mapped is None:
            return False
        end, taken = mapped
        pool.unmapped.discard(block)
        if end < block.address + block.size:
            rest = Block(end, block.address + block.size - end, pool, block.expandable, mapped=False)
            block.insert_after(rest)
            block.size = end - block.address
            pool.unmapped.add(rest)
        block.mapped = True
        self._merge(block, block.prev, pool.free)
        self._merge(block, block.next, pool.free)
        pool.free.add(block)
        self.stats.num_device_alloc += 1
        self.stats.reserved_bytes.add(pool.small, taken)
        return True

    def _unmap(self, block):
        """Unmaps the whole granules in a free block; its ends, which share a granule with other blocks, stay free."""
        pool = block.pool
        start, given = block.expandable.unmap(block.address, block.size)
        if not given:
            return
        pool.free.discard(block)
        before = start - block.address
        if before:
            piece = Block(block.address, before, pool, block.expandable)
            piece.prev, piece.next = block.prev, block
            if block.prev is not None:
                block.prev.next = piece
            block.prev = piece
            pool.free.add(piece)
        after = block.address + block.size - (start + given)
        if after:
            piece = Block(start + given, after, pool, block.expandable)
            block.insert_after(piece)
            pool.free.add(piece)
        block.address, block.size, block.mapped = start, given, False
        self._merge(block, block.prev, pool.unmapped)
        self._merge(block, block.next, pool.unmapped)
        pool.unmapped.add(block)
        self.stats.num_device_free += 1
        self.stats.reserved_bytes.take(pool.small, given)

    def _out_of_memory(self, wanted):
        processes = [(None, self.gpu.used_by_this_process)]
        if self.gpu.foreign:
            processes.insert(0, (self.gpu.foreign_pid, self.gpu.foreign))
        return text.out_of_memory(
            requested=wanted,
            device=self.device,
            capacity=self.gpu.capacity,
            free=self.gpu.free,
            allocated=self.stats.allocated_bytes.all[0],
            reserved=self.stats.reserved_bytes.all[0],
            processes=processes,
            allowed=self.allowed,
        )


def expandable_size(block):
    """The size that a free block can reach: its own plus the unmapped stretch behind it."""
    behind = block.next
    return block.size + (behind.size if behind is not None and not behind.mapped else 0)
