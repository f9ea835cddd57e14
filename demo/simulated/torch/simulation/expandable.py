"""Expandable segments: one long stretch of addresses per pool, mapped from the front as it is needed.

Here live the addresses and the granules that are mapped; which blocks lie on them is the allocator's business.
"""


class ExpandableSegment:
    """`granule` bytes are mapped or unmapped at a time: 2 MiB in the small pool, 20 MiB in the large one."""

    def __init__(self, card, granule):
        self.card = card
        self.granule = granule
        # 9/8 of the device, so that a segment never runs out of addresses before the device runs out of memory.
        self.size = -(-(card.capacity * 9 // 8) // granule) * granule
        self.address = card.reserve_addresses(self.size)
        self.mapped = set()

    def _outer(self, address, size):
        """The granules that a stretch touches."""
        first = (address - self.address) // self.granule
        return range(first, -(-(address + size - self.address) // self.granule))

    def _inner(self, address, size):
        """The granules that lie wholly within a stretch."""
        first = -(-(address - self.address) // self.granule)
        return range(first, (address + size - self.address) // self.granule)

    def map(self, address, size):
        """Map what is not mapped yet under a stretch: (end of what is mapped, bytes taken), or None without room."""
        wanted = self._outer(address, size)
        new = [granule for granule in wanted if granule not in self.mapped]
        taken = len(new) * self.granule
        if not self.card.take(taken):
            return None
        self.mapped.update(new)
        return self.address + wanted.stop * self.granule, taken

    def unmap(self, address, size):
        """Give back the granules that lie wholly within a stretch: (address, bytes), bytes 0 where there are none."""
        inner = self._inner(address, size)
        if len(inner) == 0:
            return address, 0
        self.mapped.difference_update(inner)
        given = len(inner) * self.granule
        self.card.give_back(given)
        return self.address + inner.start * self.granule, given
