"""The simulated GPU: physical memory, the driver's calls, and its speed.

It stands for everything below the caching allocator, so it knows nothing of blocks and pools. One GPU, one process, one
stream: no demo needs more.
"""
import os
import time

from . import errors

MIB = 1 << 20
GIB = 1 << 30

CONTEXT_BYTES = 500 * MIB
"""What a CUDA context takes before the first tensor; on real GPUs of several generations 300 to 600 MiB."""

SWEEPS_A_SECOND = 18.0
"""How often the GPU can read or write all of its memory per second. Real ones do 20 to 60; the low end keeps a
step long enough (about a third of a second) for a live chart to show its shape, on a GPU of any size."""

LONGEST_QUEUE_S = 0.004
"""How far kernels may run behind the program before it waits, as a real launch queue does."""


def from_environment(name, default):
    """A number from the environment; anything else is rejected with the variable's name."""
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        raise ValueError("%s=%r is not a number" % (name, text)) from None
    if number < 0:
        raise ValueError("%s=%r is below zero" % (name, text))
    return number


class Gpu:
    """Physical memory and time. `capacity` in bytes; `foreign` is what other (simulated) processes use."""

    def __init__(self, capacity, foreign=0, speed=1.0, foreign_pid=745):
        self.capacity = int(capacity)
        self.foreign = int(foreign)
        self.foreign_pid = foreign_pid
        self.speed = speed
        self.context = 0
        self.mapped = 0
        self._next_address = 0x7F0000000000
        self._busy_until = 0.0

    @classmethod
    def of_environment(cls):
        """From OOMPH_SIMULATED_{CARD_GIB,FOREIGN_GIB,SPEED}; by default 24 GiB, no other process, real speed."""
        return cls(
            capacity=from_environment("OOMPH_SIMULATED_CARD_GIB", 24) * GIB,
            foreign=from_environment("OOMPH_SIMULATED_FOREIGN_GIB", 0) * GIB,
            speed=from_environment("OOMPH_SIMULATED_SPEED", 1.0),
        )

    @property
    def name(self):
        return "simulated GPU (%g GiB)" % round(self.capacity / GIB, 2)

    @property
    def uuid(self):
        """Begins with SIM, so that nobody takes it for a real device's; the same for every GPU of one size."""
        return "SIM00000-0000-0000-0000-%012x" % (self.capacity // MIB)

    @property
    def free(self):
        """What the driver could still allocate, in bytes."""
        return max(0, self.capacity - self.foreign - self.context - self.mapped)

    @property
    def used_by_this_process(self):
        """Context and segments: what NVML would report for this process."""
        return self.context + self.mapped

    def create_context(self):
        """What the first CUDA call does. It fails if other processes fill the GPU."""
        if self.context:
            return
        if self.free < CONTEXT_BYTES:
            raise errors.AcceleratorError("CUDA error: out of memory\n(simulated: no room for a context)")
        self.context = CONTEXT_BYTES
        self.spend(0.2)

    def reserve_addresses(self, size):
        """Virtual addresses only; nothing is mapped. 2 MiB apart, the driver's granularity."""
        address = self._next_address
        self._next_address += -(-size // (2 * MIB)) * 2 * MIB
        return address

    def take(self, size):
        """cudaMalloc or a mapping of `size` bytes: False if they are not available."""
        if size > self.free:
            return False
        self.mapped += size
        self.spend(0.0001)
        return True

    def give_back(self, size):
        """cudaFree or an unmapping."""
        self.mapped -= size
        self.spend(0.0001)

    def touch(self, size):
        """A kernel that reads and writes `size` bytes in all: takes its time; the program waits if it is far ahead."""
        self.spend(size / (self.capacity * SWEEPS_A_SECOND))

    def spend(self, seconds):
        """Lets `seconds` of GPU time pass; at speed 0 no time passes at all."""
        if not self.speed:
            return
        now = time.monotonic()
        self._busy_until = max(self._busy_until, now - LONGEST_QUEUE_S) + seconds / self.speed
        if self._busy_until - now > LONGEST_QUEUE_S:
            time.sleep(self._busy_until - now)

    def wait(self):
        """torch.cuda.synchronize(): waits until the queue is empty."""
        if self.speed:
            time.sleep(max(0.0, self._busy_until - time.monotonic()))
