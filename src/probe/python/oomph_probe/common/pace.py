"""What a process on another node may write, and when: at most 200 kB a minute, most of it kept for the
records of an OOM. No I/O.
"""

from __future__ import annotations

import collections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .protocols import Line

# Bytes that may be written at once, and more of them each second: never more than 200 kB in any minute.
AT_ONCE, A_SECOND = 140000, 1000.0
# Readings leave this much of it to everything else.
FOR_RECORDS = 100000
# Seconds between two readings, and with more ranks than MANY.
INTERVAL, MANY, INTERVAL_OF_MANY = 1.0, 128, 2.0
# Lines that may wait for a mount that hangs.
MAX_WAITING, MAX_KEPT = 300, 12
READINGS = ("sample", "device_memory", "step")


class Lines:
    """Lines on their way to the file."""

    def __init__(self, ranks: int) -> None:
        self.interval = INTERVAL if ranks <= MANY else INTERVAL_OF_MANY
        self.waiting: collections.deque[Any] = collections.deque()
        self.left: float = AT_ONCE
        self.counted: float | None = None
        self.dropped = 0
        self.step: Line | None = None
        self.step_at = 0
        self.peak = 0

    def add(self, line: Line, keep: bool) -> None:
        if line["event"] == "step":
            return self.add_step(line)
        if keep and self.kept() >= MAX_KEPT:
            return
        if not keep and len(self.waiting) >= MAX_WAITING:
            self.dropped += 1
            return
        self.waiting.append((line, keep))

    def add_step(self, line: Line) -> None:
        """One step an interval, and each that reached a new peak; the last one is never left out for good."""
        peak = max(line["before"]["peak"], line["after"]["peak"])
        self.step = line
        if peak > self.peak or line["ns"] - self.step_at >= self.interval * 1e9:
            self.peak = max(self.peak, peak)
            self.release_step()

    def release_step(self) -> None:
        line, self.step = self.step, None
        if line is None:
            return
        self.step_at = line["ns"]
        if len(self.waiting) < MAX_WAITING:
            self.waiting.append((line, False))

    def first(self, line: Line) -> None:
        self.waiting.appendleft((line, True))

    def kept(self) -> int:
        return sum(1 for _, keep in list(self.waiting) if keep)

    def has_kept(self) -> bool:
        return self.kept() > 0

    def take(self, now: float, at_end: bool) -> list[Line]:
        """The lines that may be written now."""
        if self.step is not None and (at_end or now * 1e9 - self.step["ns"] > self.interval * 1e9):
            self.release_step()
        if self.counted is not None:
            self.left = min(self.left + (now - self.counted) * A_SECOND, AT_ONCE)
        self.counted = now
        taken = []
        while self.waiting:
            line, keep = self.waiting.popleft()
            size = sized(line)
            # At the end no record follows: the last step is told.
            least = FOR_RECORDS if line["event"] in READINGS and not at_end else 0
            if self.left - size < least and line["event"] not in ("hello", "end"):
                self.dropped += 1
                continue
            self.left -= size
            taken.append(line)
        if self.dropped and self.left > FOR_RECORDS:
            taken.append({"ns": int(now * 1e9), "event": "dropped", "samples": self.dropped})
            self.dropped = 0
        return taken


def sized(line: Line) -> int:
    """About the bytes of a line; exact for long ones, whose traces are strings."""
    if line["event"] in READINGS:
        return 520
    return len(repr(line))
