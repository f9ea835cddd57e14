"""What is allocated where a step's backward passes begin, in a step now and then: with what was traced of a step of the
same input sizes it says how far such a step goes, which a look at another moment cannot, and PyTorch's own peak only
where it is a new one.

torch has no hook for it. Its function that runs the engine is wrapped for a single step, and is torch's own again at
that step's end: the steps in between pay nothing.
"""

from __future__ import annotations

import sys

from ..common import calls, errors, tracebacks
from ..common.clock import monotonic_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Line, Torch
    from .allocator import Allocator

NAME = "_engine_run_backward"
# Of a step with more backward passes than this some would be missed, so it is given up.
MOST = 32


class Backwards:
    """The beginnings of one step's backward passes, outermost calls of the engine only."""

    def __init__(self, torch: Torch, allocator: Allocator, is_free: Callable[[], bool]) -> None:
        calls.keep_from_compiling([sys.modules[__name__]])
        self.allocator = allocator
        # Whether nobody else of ours has wrapped the engine.
        self.is_free = is_free
        self.pause = calls.pause_of(torch)
        graph = sys.modules.get("torch.autograd.graph")
        places = [graph, getattr(torch, "autograd", None)]
        self.places: list[Any] = [place for place in places if hasattr(place, NAME)]
        self.original: Any = None
        self.ours: Any = None
        # Somebody has wrapped our wrapper: it stays, and passes everything on.
        self.is_kept = False
        # The step that is read, on which device, and what was allocated before it; 0 for none.
        self.step = self.device = self.before = 0
        self.depth = self.seen = self.most = 0
        self.spent_ns = 0

    def begin(self, step: int, device: int, before: int) -> None:
        """The next step, of this number, is read."""
        if self.is_kept or self.depth or not self.places or not self.is_free():
            return
        self.original = getattr(self.places[0], NAME)
        if any(getattr(place, NAME) is not self.original for place in self.places):
            return
        self.ours = calls.as_if_torchs_own(self.wrapper(self.original), self.original)
        self.step, self.device, self.before = step, device, before
        self.seen = self.most = self.spent_ns = 0
        for place in self.places:
            setattr(place, NAME, self.ours)

    def is_on(self) -> bool:
        """Whether a step is being read."""
        return self.step != 0

    def end(self, step: int) -> Line | None:
        """That step has ended: what was read of it, if it was."""
        if not self.step:
            return None
        for place in self.places:
            if getattr(place, NAME) is self.ours:
                setattr(place, NAME, self.original)
            else:
                self.is_kept = True
        read = self.step == step and 0 < self.seen <= MOST
        self.step = 0
        return {"step": step, "before": self.before, "allocated": self.most} if read else None

    def wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        backwards = self

        def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
            if backwards.step and not backwards.depth:
                compiling = backwards.pause(None)
                try:
                    backwards.read()
                finally:
                    backwards.pause(compiling)
            backwards.depth += 1
            try:
                return original(*args, **kwargs)
            except BaseException as failure:
                # What is tried again is another step under the same number.
                backwards.seen = MOST + 1
                tracebacks.without_this_frame(failure)
                raise
            finally:
                backwards.depth -= 1

        return _engine_run_backward

    def read(self) -> None:
        try:
            began = monotonic_ns()
            self.seen += 1
            if self.seen <= MOST:
                stats = self.allocator.stats(self.device)
                self.most = max(self.most, stats["allocated_bytes"]["all"]["current"])
            self.spent_ns += monotonic_ns() - began
        except BaseException:
            self.step = 0
            errors.refused("read the beginning of a backward")
