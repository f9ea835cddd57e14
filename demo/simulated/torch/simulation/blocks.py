"""Blocks, the pools of free blocks, and the sizes that PyTorch's caching allocator uses.

A block is a range of addresses; `prev` and `next` are its neighbours in the segment that it was cut from. Names and
constants are those of c10/cuda/CUDACachingAllocator.cpp, so that the two can be read side by side.
"""
from bisect import bisect_left, insort

from .gpu import MIB

MIN_BLOCK_SIZE = 512
SMALL_SIZE = 1 * MIB
SMALL_BUFFER = 2 * MIB
MIN_LARGE_ALLOC = 10 * MIB
LARGE_BUFFER = 20 * MIB
ROUND_LARGE = 2 * MIB


def round_size(size):
    """The size of a request's block: a multiple of 512 bytes, at least one."""
    return max(MIN_BLOCK_SIZE, -(-size // MIN_BLOCK_SIZE) * MIN_BLOCK_SIZE)


def segment_size(size):
    """What is requested from the driver when no cached block fits a rounded request."""
    if size <= SMALL_SIZE:
        return SMALL_BUFFER
    if size < MIN_LARGE_ALLOC:
        return LARGE_BUFFER
    return -(-size // ROUND_LARGE) * ROUND_LARGE


class Block:
    """A range in a segment: allocated, free (in its pool), or unmapped (expandable segments only)."""

    __slots__ = (
        "address", "size", "requested", "pool", "prev", "next",
        "allocated", "mapped", "expandable", "frames", "segment_frames",
    )

    def __init__(self, address, size, pool, expandable=None, mapped=True):
        self.address = address
        self.size = size
        self.requested = 0
        self.pool = pool
        self.prev = None
        self.next = None
        self.allocated = False
        self.mapped = mapped
        self.expandable = expandable
        self.frames = None
        self.segment_frames = None

    @property
    def is_split(self):
        return self.prev is not None or self.next is not None

    def insert_after(self, other):
        """Inserts `other` behind this block in the chain of neighbours."""
        other.prev, other.next = self, self.next
        if self.next is not None:
            self.next.prev = other
        self.next = other


class FreeList:
    """Blocks sorted by size, then address: the first that is large enough is the best fit."""

    def __init__(self):
        self._keys = []
        self._blocks = {}

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter([self._blocks[address] for _, address in self._keys])

    def add(self, block):
        insort(self._keys, (block.size, block.address))
        self._blocks[block.address] = block

    def discard(self, block):
        key = (block.size, block.address)
        position = bisect_left(self._keys, key)
        if position < len(self._keys) and self._keys[position] == key:
            del self._keys[position]
            del self._blocks[block.address]

    def at_least(self, size):
        """The blocks of at least `size` bytes, smallest first."""
        for position in range(bisect_left(self._keys, (size, 0)), len(self._keys)):
            yield self._blocks[self._keys[position][1]]


class Pool:
    """The free and the unmapped blocks for small or for large requests."""

    def __init__(self, small):
        self.small = small
        self.free = FreeList()
        self.unmapped = FreeList()

    def should_split(self, block, size, max_split_size):
        """Whether the remainder of `block` is worth splitting off."""
        remaining = block.size - size
        if self.small or block.expandable is not None:
            return remaining >= MIN_BLOCK_SIZE
        return size < max_split_size and remaining > SMALL_SIZE
