"""Expandable segments: one long range of addresses per pool, mapped from the front as needed.

Keeps the addresses and the mapped granules; which blocks use them is up to the allocator.
"""


class ExpandableSegment:
    """`granule` bytes are mapped or unmapped at a time: 2 MiB in the small pool, 20 MiB in the large one."""

    def __init__(self, gpu, granule):
        self.gpu = gpu
        self.granule = granule
        # 9/8 of the device, so that a segment never runs out of addresses before the device runs out of memory.
        self.size = -(-(gpu.capacity * 9 // 8) // granule) * granule
        self.address = gpu.reserve_addresses(self.size)
        self.mapped = set()

    def _outer(self, address, size):
        """The granules that a range touches."""
        first = (address - self.address) // self.granule
        return range(first, -(-(address + size - self.address) // self.granule))

    def _inner(self, address, size):
        """The granules that lie entirely in a range."""
        first = -(-(address - self.address) // self.granule)
        return range(first, (address + size - self.address) // self.granule)

    def map(self, address, size):
        """Maps the unmapped part of a range: (end of the mapped part, bytes taken), or None without memory."""
        wanted = self._outer(address, size)
        new = [granule for granule in wanted if granule not in self.mapped]
        taken = len(new) * self.granule
        if not self.gpu.take(taken):
            return None
        self.mapped.update(new)
        return self.address + wanted.stop * self.granule, taken

    def unmap(self, address, size):
        """Unmaps the granules that lie entirely in a range: (address, bytes), with 0 bytes if there are none."""
        inner = self._inner(address, size)
        if len(inner) == 0:
            return address, 0
        self.mapped.difference_update(inner)
        given = len(inner) * self.granule
        self.gpu.give_back(given)
        return self.address + inner.start * self.granule, given
