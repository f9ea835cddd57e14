"""The losses of the first steps: what a run went backward from, so that a relaunched run can be compared with the one
before.

A loss on the GPU is copied, without waiting, into a few bytes of pinned memory that are kept for it, and read once an
event behind the copy has passed: a step later, or when memory runs out. Nothing is allocated on the GPU, nothing waits
for it, and no random number is drawn. What is no plain tensor of one number, or comes where others see each operation
or a graph is captured, is left alone. After the first steps torch's function is its own again (rehearse/roots.py).
"""

from __future__ import annotations

import collections
import math
import sys

from ..common import calls, errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Lifetime, Line, Torch

# Steps whose losses are taken, and backward passes of all of them.
FIRST = 8
MOST = 64


class Losses:
    """The losses of this process's first steps."""

    def __init__(self, torch: Torch, pid: int, lifetime: Lifetime) -> None:
        calls.keep_from_compiling([sys.modules[__name__]])
        self.pause = calls.pause_of(torch)
        self.torch = torch
        self.pid = pid
        self.lifetime = lifetime
        # Pinned memory, a place for each loss; its dtype and device.
        self.places: list[Any] = []
        self.kind: tuple[Any, Any] | None = None
        # Copies that go on: the step, where it is copied to, and the event behind it.
        self.waiting: collections.deque[tuple[int, Any, Any]] = collections.deque()
        self.ready: collections.deque[tuple[int, float | None]] = collections.deque()
        self.taken = 0
        self.seed: int | None = None
        self.is_over = False

    def saw(self, roots: Any, step: int) -> bool:
        """A backward begins from `roots`, `step` steps having ended; on the training's thread. False once nothing more
        is to be seen."""
        compiling = self.pause(None)
        try:
            return self.look(roots, step)
        except RuntimeError:
            # The device may have failed meanwhile: the program is told of it by its own next call.
            errors.foreseen("read a loss")
            self.is_over = True
            return False
        except BaseException:
            errors.refused("read a loss")
            self.is_over = True
            return False
        finally:
            self.pause(compiling)

    def look(self, roots: Any, step: int) -> bool:
        if self.is_over or not self.lifetime.live:
            return False
        self.read()
        if step >= FIRST or self.taken >= MOST:
            self.is_over = not self.waiting
            return not self.is_over
        loss = roots[0] if isinstance(roots, (tuple, list)) and len(roots) == 1 else None
        if loss is not None and self.is_plain(loss):
            if self.seed is None:
                self.seed = int(self.torch.initial_seed()) & (2**64 - 1)
            self.take(loss, step + 1)
            self.taken += 1
        return True

    def is_plain(self, loss: Any) -> bool:
        """Whether reading it is seen by nobody and changes nothing."""
        torch = self.torch
        if type(loss) is not torch.Tensor or loss.numel() != 1 or not loss.is_floating_point():
            return False
        # Modes of the program's own see each operation: a profiler of theirs, fake tensors.
        if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
            return False
        kind = loss.device.type
        if kind != "cuda":
            return bool(kind == "cpu")
        return loss.device.index == torch.cuda.current_device() and not torch.cuda.is_current_stream_capturing()

    def take(self, loss: Any, step: int) -> None:
        torch, loss = self.torch, loss.detach()
        if loss.device.type == "cpu":
            self.ready.append((step, number_of(loss)))
            return
        kind = loss.dtype, loss.device
        if self.kind is None:
            self.kind = kind
            self.places = list(torch.empty(MOST, dtype=loss.dtype, device="cpu", pin_memory=True).unbind())
        if self.kind != kind:
            return
        place = self.places[self.taken]
        place.copy_(loss.reshape(()), non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self.waiting.append((step, place, event))

    def read(self) -> None:
        """What has arrived by now. Not on the sampler's thread: a look at an event breaks the capture of a graph on
        another thread."""
        if not self.waiting or self.torch.cuda.is_current_stream_capturing():
            return
        while self.waiting and self.waiting[0][2].query():
            step, place, _ = self.waiting.popleft()
            self.ready.append((step, number_of(place)))

    def read_last(self) -> None:
        """Memory has run out, or the process ends: there may be no further step."""
        try:
            if self.lifetime.live and not self.is_over:
                self.read()
        except RuntimeError:
            errors.foreseen("read the last losses")
            self.is_over = True
        except BaseException:
            errors.refused("read the last losses")
            self.is_over = True

    def line(self) -> Line | None:
        """Those that were not told; from any thread."""
        losses = []
        while self.ready:
            losses.append(list(self.ready.popleft()))
        if not losses:
            return None
        line: Line = {"event": "losses", "pid": self.pid, "losses": losses}
        if self.seed is not None:
            line["seed"] = self.seed
        return line


def number_of(place: Any) -> float | None:
    """None for what JSON has no number for."""
    value = float(place)
    return value if math.isfinite(value) else None
