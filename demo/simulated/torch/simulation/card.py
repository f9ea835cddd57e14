"""The simulated card: physical memory, the driver's calls on it, and its pace.

It stands for everything under the caching allocator, so it must know nothing of blocks and pools. One card, one
process, one stream: more would be simulated machinery that no demo exercises.
"""
import os
import time

from . import refusals

MIB = 1 << 20
GIB = 1 << 30

CONTEXT_BYTES = 500 * MIB
"""What a CUDA context takes before the first tensor; on real cards of several generations 300 to 600 MiB."""

SWEEPS_A_SECOND = 18.0
"""How often the card can read or write all of its memory in a second. Real cards do 20 to 60; the low end keeps a
step long enough (about a third of a second) for a live chart to show its shape, on a card of any size."""

LONGEST_QUEUE_S = 0.004
"""How far kernels may run behind the program before it waits, as a real launch queue does."""


def from_environment(name, default):
    """A number from the environment; a word that is none is refused by name."""
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        raise ValueError("%s=%r is no number" % (name, text)) from None
    if number < 0:
        raise ValueError("%s=%r is below zero" % (name, text))
    return number


class Card:
    """Physical memory and time. `capacity` in bytes; `foreign` is what other (simulated) processes hold."""

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
        """The card that OOMPH_SIMULATED_{CARD_GIB,FOREIGN_GIB,SPEED} describe; 24 GiB, nobody else, real pace."""
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
        """Begins with SIM, so that nobody can take it for a device's; the same for every card of one size."""
        return "SIM00000-0000-0000-0000-%012x" % (self.capacity // MIB)

    @property
    def free(self):
        """What the driver could still hand out, in bytes."""
        return max(0, self.capacity - self.foreign - self.context - self.mapped)

    @property
    def used_by_this_process(self):
        """Context and segments: the figure that NVML would give for this process."""
        return self.context + self.mapped

    def create_context(self):
        """What the first CUDA call does. A card that others fill refuses even that."""
        if self.context:
            return
        if self.free < CONTEXT_BYTES:
            raise refusals.AcceleratorError("CUDA error: out of memory\n(simulated: no room for a context)")
        self.context = CONTEXT_BYTES
        self.spend(0.2)

    def reserve_addresses(self, size):
        """Virtual addresses only; nothing is mapped. 2 MiB apart, as the driver's granularity is."""
        address = self._next_address
        self._next_address += -(-size // (2 * MIB)) * 2 * MIB
        return address

    def take(self, size):
        """cudaMalloc or a mapping of `size` bytes: False where they are not there."""
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
        """A kernel that reads and writes `size` bytes in all: takes its time, the program waits when far ahead."""
        self.spend(size / (self.capacity * SWEEPS_A_SECOND))

    def spend(self, seconds):
        """Let `seconds` of the card's time pass; at speed 0 no time passes at all."""
        if not self.speed:
            return
        now = time.monotonic()
        self._busy_until = max(self._busy_until, now - LONGEST_QUEUE_S) + seconds / self.speed
        if self._busy_until - now > LONGEST_QUEUE_S:
            time.sleep(self._busy_until - now)

    def wait(self):
        """What torch.cuda.synchronize() does: until the queue is empty."""
        if self.speed:
            time.sleep(max(0.0, self._busy_until - time.monotonic()))
