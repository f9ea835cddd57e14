"""What a step allocates and frees, in the order in which it does: what comes of a rehearsal."""

from __future__ import annotations

import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Storage

# The word for what is given back at once, and is only taken where there is room.
LEFT_OUT = "-1?"
# What a trace's log has.
ALLOCATED, FREED, MOMENT, CALLED, GRADIENT, MARKED = range(6)


class Trace:
    """Allocations and frees in order, in the words of src/forecast/trace.rs, and where phases end."""

    def __init__(self, device: Any) -> None:
        self.device = device
        self.words: list[str] = []
        self.count = 0
        self.live: dict[Any, Any] = {}
        self.allocated = self.peak = 0
        self.marks: dict[Any, Any] = {}
        self.flops = 0
        self.is_over = False
        # What happened, to put it together again in another way (composed.py), and the tensors' allocations by their
        # storages; None where nobody will.
        self.log: list[Any] | None = None
        self.numbers: dict[int, int] = {}

    def note_call(self, act: Any, args: Any) -> None:
        if self.log is not None:
            self.log.append((CALLED, act, args, len(self.words)))

    def note_gradient(self, storage: Storage) -> None:
        """A parameter has its gradient."""
        if self.log is not None and storage._cdata in self.numbers:
            self.log.append((GRADIENT, self.numbers[storage._cdata], 0, len(self.words)))

    def allocate(self, storage: Storage) -> None:
        size = storage.nbytes()
        if size == 0:
            return
        number, self.count = self.count, self.count + 1
        self.words.append(str(size))
        self.allocated += blocks(size)
        self.peak = max(self.peak, self.allocated)
        if self.log is not None:
            self.log.append((ALLOCATED, number, size, len(self.words) - 1))
            self.numbers[storage._cdata] = number
        self.live[number] = weakref.ref(storage, lambda _: self.free(number, size))

    def take(self, size: int, stream: int = 0) -> int:
        """An allocation of no tensor's on one of the streams, until it is freed by its number."""
        number, self.count = self.count, self.count + 1
        self.words.append("%d@%d" % (size, stream) if stream else str(size))
        self.allocated += blocks(size)
        self.peak = max(self.peak, self.allocated)
        self.live[number] = no_storage
        return number

    def take_unheld(self, size: int) -> int:
        """The same of a compiled graph's buffer, which is there however ranks divide or reduce."""
        number = self.take(size)
        if self.log is not None:
            self.log.append((ALLOCATED, number, size, len(self.words) - 1))
        return number

    def free(self, number: int, size: int) -> None:
        """A tensor's memory is let go of."""
        if self.log is not None and not self.is_over and number in self.live:
            self.log.append((FREED, number, size, len(self.words)))
        self.give(number, size)

    def give(self, number: int, size: int) -> None:
        if self.is_over or self.live.pop(number, None) is None:
            return
        self.words.append("-%d" % (self.count - number))
        self.allocated -= blocks(size)

    def allocate_for_a_moment(self, size: int, freed: str = "-1") -> None:
        """What an operator's kernel takes and gives back before it returns."""
        if size:
            if self.log is not None:
                self.log.append((MOMENT, size, freed, len(self.words)))
            self.count += 1
            self.words += [str(size), freed]
            self.peak = max(self.peak, self.allocated + blocks(size))

    def take_if_there_is_room(self, size: int) -> None:
        """The same of what it goes on without where there is no room for it."""
        self.allocate_for_a_moment(size, LEFT_OUT)

    def mark_first(self, phase: str) -> None:
        """Where it was not marked before; who puts the step together otherwise has to know as well."""
        if phase not in self.marks:
            self.mark(phase)

    def mark(self, phase: str) -> None:
        self.marks[phase] = len(self.words)
        if self.log is not None:
            self.log.append((MARKED, phase, 0, len(self.words)))


def no_storage() -> None:
    """In place of a reference to one."""


def blocks(size: int) -> int:
    """What the allocator takes for so many bytes."""
    return max(512, -(-size // 512) * 512) if size else 0
