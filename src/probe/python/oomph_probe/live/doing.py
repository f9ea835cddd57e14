"""What the program does, by the names of the functions that its main thread is in: an evaluation, a checkpoint. Looked
up on the sampler's thread, where memory has grown."""

from __future__ import annotations

import sys
import threading

from ..common import errors, frames, phases

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

# A reading that is higher than all before by less than this share is of the same peak.
HIGHER = 1.01


def main_stack() -> list[FrameType]:
    """The main thread's frames, innermost first, without ours: one of ours that has them among its variables would keep
    all of theirs alive."""
    thread = threading.main_thread().ident or 0
    return [each for each in frames.outwards(sys._current_frames().get(thread)) if not is_ours(each)]


def is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(frames.OURS)


def named_by(stack: list[FrameType]) -> str | None:
    return next(filter(None, map(doing_of, stack)), None)


def doing_of(frame: FrameType) -> str | None:
    return phases.activity(frame.f_code.co_filename, frame.f_code.co_name)


class AtPeaks:
    """What it did at the highest reading of each device."""

    def __init__(self) -> None:
        self.highest: dict[int, int] = {}
        self.known: dict[int, str | None] = {}

    def look(self, device: int, allocated: int) -> None:
        try:
            if allocated > self.highest.get(device, 0) * HIGHER:
                self.highest[device] = allocated
                self.known[device] = named_by(main_stack())
        except Exception:
            errors.foreseen("what the program does at a peak")
