"""Which lines of the program hold more memory from step to step: the live bytes of each line are
summed after certain steps, ever more rarely as a stretch of recorded steps goes on, and two sums are
compared.

Taken on the training's thread at the end of a step, when activations are freed. Skipped where stacks
are not recorded, and where there are so many blocks that the training would slow down.
"""

from __future__ import annotations

import time

from . import snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple

    from ..common.frames import Owners
    from ..common.protocols import Line, Segments, Torch
    from .recording import Recording

    # After which step, the bytes of each line, and the stretch of recorded steps.
    Sum = Tuple[int, Dict[Any, int], int]

# After step 4, 8, 16 and so on of a stretch; so the comparison spans at least half of it so far.
FIRST = 4
# With more live blocks than this a snapshot takes tens of milliseconds.
MOST_BLOCKS = 20000
# The first sums are always taken; later ones may use at most this share of the time.
AT_FIRST = 3
COST_FACTOR = 500.0
MAX_LINES = 6
# Lines whose growth is below this share of all growth are left out.
NOTABLE = 0.02


class Growth:
    """The sums of this process, by device."""

    def __init__(self, torch: Torch, owners: Owners, recording: Recording | None) -> None:
        self.torch = torch
        self.owners = owners
        self.recording = recording
        # The stretch of recorded steps, the step before it, and the next one whose sum is taken.
        self.stretch = 1
        self.origin = 0
        self.next_step = FIRST
        self.next_at = 0.0
        self.sums: dict[Any, Any] = {}

    def step_ended(self, device: int, count: int, blocks: int) -> None:
        """`blocks` is the number of live blocks on the device of the optimizer's parameters."""
        recording = self.recording
        if recording is None or not recording.with_stacks or recording.keeps_history:
            return
        if recording.stretch != self.stretch:
            # Of what was allocated in between no line is known.
            self.stretch, self.origin, self.next_step = recording.stretch, count, count + FIRST
        if count < self.next_step:
            return
        now = time.monotonic()
        sums = self.sums.setdefault(device, [])
        if blocks > MOST_BLOCKS or (len(sums) >= AT_FIRST and now < self.next_at):
            return
        self.next_step = count + (count - self.origin)
        segments = self.torch.cuda.memory._snapshot(device)["segments"]
        segments = [segment for segment in segments if segment.get("device", device) == device]
        sums.append((count, snapshot.by_line(segments, self.owners), self.stretch))
        # Thirty sums cover a billion steps.
        del sums[:-32]
        self.next_at = now + COST_FACTOR * (time.monotonic() - now)

    def lines(self, device: int) -> list[Line]:
        """The lines that grew, largest first; empty until there are two sums."""
        sums = self.sums.get(device, [])
        pairs = [(one, next_one) for one, next_one in zip(sums, sums[1:]) if one[2] == next_one[2]]
        return between(*pairs[-1]) if pairs else []

    def until_now(self, device: int, count: int, segments: Segments) -> list[Line]:
        """The lines that grew from the first sum of this stretch to now, after step `count`."""
        sums = [each for each in self.sums.get(device, []) if each[2] == self.stretch and each[0] < count]
        if not sums:
            return []
        return between(sums[0], (count, snapshot.by_line(segments, self.owners), self.stretch))


def between(earlier: Sum, later: Sum) -> list[Line]:
    """The lines that hold more in the later of two sums."""
    (first, before, _), (last, after, _) = earlier, later
    grown = {key: held - before.get(key, 0) for key, held in after.items()}
    whole = sum(more for more in grown.values() if more > 0)
    most = sorted(grown.items(), key=lambda item: -item[1])[:MAX_LINES]
    return [
        snapshot.as_growing(key, after[key], more, first, last)
        for key, more in most
        if more > 0 and more >= NOTABLE * whole
    ]
