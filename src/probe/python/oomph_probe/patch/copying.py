"""What the copies of a patch take of a step: measured in a few of its first ones, and then never again.

On a GPU each copy stands between two events of its stream, where nothing else runs meanwhile: a step without them would
be shorter by as much. Nothing waits for the events; they are read when they have come.
"""

from __future__ import annotations

import time
import weakref

from ..common import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Module, Torch

# Calls of the model that are not measured (kernels are loaded and chosen in them), and those that are.
SKIPPED, MEASURED = 2, 3


class Clock:
    """The copies between one call of the model and the next."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        self.model: weakref.ref[Module] | None = None
        self.calls = 0
        self.began = 0.0
        # Of each call that is measured its seconds, and its copies: pairs of events, or seconds.
        self.spans: list[float] = []
        self.copies: list[list[Any]] = []
        # Microseconds of copies and of a whole step, once they are known, and whether that was told.
        self.found: tuple[int, int] | None = None
        self.is_told = False
        self.is_off = False

    def begins(self, root: Module) -> None:
        """A call of the model with what its steps copy; of several models the first one's count."""
        if self.is_off:
            return
        if self.model is None:
            self.model = weakref.ref(root)
        if self.model() is not root:
            return
        now = time.perf_counter()
        self.calls += 1
        if len(self.copies) > len(self.spans):
            self.spans.append(now - self.began)
        self.began = now
        if self.calls > SKIPPED and len(self.copies) < MEASURED:
            self.copies.append([])
        elif len(self.spans) == MEASURED:
            self.finish()

    def finish(self) -> None:
        taken = [[seconds_of(each) for each in copies] for copies in self.copies]
        if any(each is None for copies in taken for each in copies):
            # Looked at again with the next call.
            return
        of_calls = [sum(each or 0.0 for each in copies) for copies in taken]
        # Something else may have come between two calls: an evaluation, a checkpoint.
        copying, step = median(of_calls), median(self.spans)
        self.copies, self.is_off = [], True
        if 0 < copying < step:
            self.found = int(copying * 1e6), int(step * 1e6)

    def has_just_found(self) -> bool:
        is_new = self.found is not None and not self.is_told
        self.is_told = self.is_told or is_new
        return is_new

    def starts(self, device: Any) -> Any:
        """In front of a copy: what `ends` is given; None where it is not measured."""
        if self.is_off or len(self.copies) <= len(self.spans):
            return None
        try:
            if device.type != "cuda":
                return time.perf_counter()
            first = self.torch.cuda.Event(enable_timing=True)
            first.record()
            return first
        except Exception:
            errors.foreseen("time a copy")
            self.is_off = True
            return None

    def ends(self, started: Any) -> None:
        """Behind it."""
        if started is None or not self.copies:
            return
        try:
            if isinstance(started, float):
                self.copies[-1].append(time.perf_counter() - started)
                return
            last = self.torch.cuda.Event(enable_timing=True)
            last.record()
            self.copies[-1].append((started, last))
        except Exception:
            errors.foreseen("time a copy")
            self.is_off = True


def seconds_of(copy: Any) -> float | None:
    """None where it is not over."""
    if not isinstance(copy, tuple):
        return float(copy)
    first, last = copy
    return float(first.elapsed_time(last)) / 1e3 if last.query() else None


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def words(copying: int, step: int) -> str:
    return "copying takes %.2f of the %.2f s of a step" % (copying / 1e6, step / 1e6)
