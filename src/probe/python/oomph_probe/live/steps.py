"""The steps of a process, optimizer's or, where a program has no optimizer of torch's (one of its own, an update by
hand), its backward passes: how many there were, and what a step now and then began and ended with. step_hooks.py says
when. No reference to a step, a parameter or a closure is kept, so nothing here keeps a tensor alive.
"""

from __future__ import annotations

import collections

from ..common.clock import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Line, Wire
    from .allocator import Allocator, Reading

THIN_NS = 20_000_000
# A reading may take one part in so many of the time. Each of the first steps is looked at.
WORTH = 2000
LONGEST_PAUSE_NS = 500_000_000
FIRST = 20
# A finished but unread step is told so long after the last one that was: the screen counts as the program does.
TOLD_NS = 200_000_000


class Steps:
    """The steps of this process: counted and read on the training's thread, reported on the sampler's."""

    def __init__(self, pid: int, allocator: Allocator) -> None:
        self.pid = pid
        self.allocator = allocator
        self.count = 0
        self.thread: int | None = None
        # The id of the optimizer whose step is running, the outermost one's; 0 for none.
        self.running = 0
        # Whether a step of an optimizer has begun: from then on only those count.
        self.by_optimizer = False
        # From when on steps are looked at.
        self.due_ns = 0
        self.read_at = 0
        self.ended_at = monotonic_ns()
        # When the running step began and what was allocated then, where that was read: its time, device, reading.
        self.began: tuple[int, int, Line] | None = None
        self.latest: Line | None = None
        self.sent = 0
        self.told_at = 0
        self.lines: collections.deque[Any] = collections.deque(maxlen=256)
        # The bytes alive after the last step that was read, by device.
        self.after: dict[int, int] = {}
        self.spent_ns = 0
        self.pause_ns = THIN_NS
        # What a step before had allocated where its backward passes began, to be told with the next one, and what
        # reading it took.
        self.backward: Line | None = None
        self.backward_ns = 0

    def is_running(self) -> bool:
        """Whether an optimizer step is running."""
        return self.running != 0

    def forget_running(self) -> None:
        """A step ran out of memory: it will most likely not finish."""
        self.running = 0

    def hurry(self) -> None:
        """Something is asked of the next step; from any thread."""
        self.due_ns = 0

    def is_worth_reading(self, now: int) -> bool:
        return now - self.read_at >= (THIN_NS if self.count < FIRST else self.pause_ns)

    def read_beginning(self, device: int, now: int) -> None:
        """A step begins at whose end it will be read again."""
        self.read_at = now
        before = self.allocator.read(device).edge()
        self.spent_ns = monotonic_ns() - now
        self.began = now, device, before

    def read_end(self, began: tuple[int, int, Line], now: int) -> Reading:
        """The end of a step whose beginning was read."""
        at, device, before = began
        reading = self.allocator.read(device)
        after = reading.edge()
        self.after[device] = reading.allocated
        self.latest = {
            "event": "step",
            "pid": self.pid,
            "device": device,
            "count": self.count,
            "micros": (now - at) // 1000,
            "before": before,
            "after": after,
        }
        if self.backward is not None:
            self.latest["backward"], self.backward = self.backward, None
        self.lines.append((now, self.latest))
        spent = self.spent_ns + self.backward_ns + monotonic_ns() - now
        self.backward_ns = 0
        self.pause_ns = min(max(THIN_NS, WORTH * spent), LONGEST_PAUSE_NS)
        return reading

    def report(self, wire: Wire, at_end: bool) -> None:
        """Queues the steps that ended since the last call."""
        while self.lines:
            ns, line = self.lines.popleft()
            wire.put(line, ns)
            self.sent, self.told_at = line["count"], ns
        latest, count, ended = self.latest, self.count, self.ended_at
        is_due = at_end or monotonic_ns() - self.told_at >= TOLD_NS
        if latest is not None and count > self.sent and is_due and not self.lines:
            # This step was not read: the figures are those of an earlier one, and the line says so.
            unread = dict(latest, count=count, figures_of=latest["count"])
            unread.pop("backward", None)
            wire.put(unread, ended)
            self.sent, self.told_at = count, ended
