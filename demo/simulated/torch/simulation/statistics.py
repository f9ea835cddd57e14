"""The allocator's statistics, nested as `torch._C._cuda_memoryStats` nests them.

Counting only. Each one is [current, peak, allocated, freed] for the small pool, the large pool and both.
"""

FIGURES = (
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
)
POOLS = ("all", "small_pool", "large_pool")
FIELDS = ("current", "peak", "allocated", "freed")
COUNTERS = (
    "num_alloc_retries",
    "num_ooms",
    "num_oom_rejections",
    "num_sync_all_streams",
    "num_device_alloc",
    "num_device_free",
)


class Figure:
    """One statistic for each pool and for both, kept consistent."""

    __slots__ = ("all", "small_pool", "large_pool")

    def __init__(self):
        self.all = [0, 0, 0, 0]
        self.small_pool = [0, 0, 0, 0]
        self.large_pool = [0, 0, 0, 0]

    def add(self, small, amount):
        for one in (self.all, self.small_pool if small else self.large_pool):
            now = one[0] + amount
            one[0] = now
            if now > one[1]:
                one[1] = now
            one[2] += amount

    def take(self, small, amount):
        for one in (self.all, self.small_pool if small else self.large_pool):
            one[0] -= amount
            one[3] += amount

    def change(self, small, amount):
        """By a signed amount, like `update_stat`."""
        if amount > 0:
            self.add(small, amount)
        elif amount < 0:
            self.take(small, -amount)

    def reset_peak(self):
        for one in (self.all, self.small_pool, self.large_pool):
            one[1] = one[0]

    def reset_accumulated(self):
        for one in (self.all, self.small_pool, self.large_pool):
            one[2] = one[3] = 0

    def as_dict(self):
        return {pool: dict(zip(FIELDS, getattr(self, pool))) for pool in POOLS}


class Statistics:
    """All figures and counters of one device."""

    def __init__(self, max_split_size):
        self.max_split_size = max_split_size
        self.oversize_allocations = Figure()
        self.oversize_segments = Figure()
        for name in FIGURES:
            setattr(self, name, Figure())
        for name in COUNTERS:
            setattr(self, name, 0)

    def nested(self):
        nested = {name: getattr(self, name).as_dict() for name in FIGURES}
        nested.update((name, getattr(self, name)) for name in COUNTERS)
        nested["oversize_allocations"] = dict(zip(FIELDS, self.oversize_allocations.all))
        nested["oversize_segments"] = dict(zip(FIELDS, self.oversize_segments.all))
        nested["max_split_size"] = self.max_split_size
        return nested

    def reset_peaks(self):
        for name in FIGURES + ("oversize_allocations", "oversize_segments"):
            getattr(self, name).reset_peak()

    def reset_accumulated(self):
        for name in FIGURES + ("oversize_allocations", "oversize_segments"):
            getattr(self, name).reset_accumulated()
        for name in COUNTERS:
            setattr(self, name, 0)
