"""What this process takes of the host's memory, as far as only it can say: the line at which it grows fast, and what
torch has pinned. A kill leaves no time for a last word, so it is said while it goes on: where the process is larger
than ever, and by so much that only a few dozen lines are ever sent.
"""

from __future__ import annotations

import collections
import os
import time

from ..common import errors, frames
from . import doing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ..common.frames import Owners
    from ..common.protocols import Line, Torch
    from .loaders import Loaders

# Seconds between two looks, and the stretch in which growth is fast.
EVERY, STRETCH = 0.5, 5.0
# Growth that is worth a word: bytes, and a part of what the process holds.
LEAST, PART = 128 << 20, 0.02
# Pinned memory is told where it has changed by so much.
PINNED_STEP = 16 << 20


class HostMemory:
    """This process, as the host sees it."""

    def __init__(self, torch: Torch, pid: int, owners: Owners, loaders: Loaders) -> None:
        self.torch, self.pid, self.owners, self.loaders = torch, pid, owners, loaders
        self.page = os.sysconf("SC_PAGE_SIZE")
        self.looked_at = 0.0
        self.held: collections.deque[Any] = collections.deque()
        # What it held when that was last told, at most; and what was pinned.
        self.told = self.pinned = 0

    def send_again(self) -> None:
        self.pinned = 0
        self.loaders.send_again()

    def take(self) -> Line | None:
        """What is new, on the sampler's thread."""
        line: Line = {}
        loaders = self.loaders.take()
        if loaders is not None:
            line["loaders"] = loaders
        now = time.monotonic()
        if now - self.looked_at >= EVERY:
            self.looked_at = now
            for name, look in (("growth", self.growth), ("pinned", self.newly_pinned)):
                try:
                    found = look(now)
                    if found is not None:
                        line[name] = found
                except Exception:
                    errors.foreseen("look at the memory of the host")
        return dict(line, event="process_host", pid=self.pid) if line else None

    def growth(self, now: float) -> Line | None:
        with open("/proc/self/statm", "rb") as file:
            resident, shared = file.read().split()[1:3]
        held = (int(resident) - int(shared)) * self.page
        while self.held and now - self.held[0][0] > STRETCH:
            self.held.popleft()
        self.held.append((now, held))
        began, least = min(self.held, key=lambda known: known[1])
        step = max(LEAST, int(held * PART))
        if held - least < step or held < self.told + step:
            return None
        self.told = held
        found: Line = {"held": held, "grew": held - least, "over_ms": int((now - began) * 1000)}
        found.update(self.place())
        return found

    def place(self) -> Line:
        """Where the main thread is, and what that does by its functions' names."""
        stack = doing.main_stack()
        own = self.owners.innermost_own([frame.f_code.co_filename for frame in stack])
        found: Line = {}
        if own is not None:
            found["line"] = line_of(stack[own])
            if own > 0:
                found["inside"] = line_of(stack[own - 1])
        named = doing.named_by(stack)
        if named is not None:
            found["doing"] = named
        return found

    def newly_pinned(self, now: float) -> int | None:
        """Bytes that torch's allocator of pinned memory holds, where that has changed (2.7 and later)."""
        read = getattr(self.torch.cuda, "host_memory_stats", None)
        if read is None:
            return None
        stats = read()
        pinned = int(max(stats.get("allocated_bytes.current", 0), stats.get("reserved_bytes.current", 0)))
        if abs(pinned - self.pinned) < PINNED_STEP:
            return None
        self.pinned = pinned
        return pinned


def line_of(frame: FrameType) -> Line:
    return frames.line_of(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
