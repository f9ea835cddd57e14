"""Which steps are traced: the first ones, up to an out-of-memory if there is one, and from then on one step
now and then, sooner where the peak has grown. A traced step is recorded with the stacks of its allocations, read
once at its end on the training's thread, and condensed on the sampler's.
"""

from __future__ import annotations

import time

from ..common import errors
from . import step_trace
from .recording import MOST_EVENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.frames import Owners
    from ..common.protocols import Line, ModuleWrapper, Torch
    from .allocator import Allocator
    from .modules import Modules
    from .recording import Recording
    from .steps import Steps
    from .structure import Structure

# The first steps allocate what stays; the third is like those after it.
FIRST_STEPS = 3
# Seconds between two traces, and how many times as long as the last one held the training up.
PAUSE, COST_FACTOR = 60.0, 2000.0
# A peak above that of the traced steps by this factor is traced sooner: the step shown is to be like the
# largest. It happens a few times in a run, since the peak of a run only grows.
GROWTH, GROWN_PAUSE, GROWN_FACTOR = 1.2, 5.0, 200.0
# Blocks alive above which reading them takes too long.
MOST_BLOCKS = 20000


class Tracing:
    """The traces of this process's steps."""

    def __init__(
        self,
        torch: Torch,
        pid: int,
        owners: Owners,
        allocator: Allocator,
        steps: Steps,
        structure: Structure,
        recording: Recording | None,
        modules: Modules,
        wrapper: ModuleWrapper | None,
    ) -> None:
        self.torch = torch
        self.pid = pid
        self.owners = owners
        self.allocator = allocator
        self.steps = steps
        self.structure = structure
        self.recording = recording
        self.modules = modules
        # What else may see the modules' calls.
        self.wrapper = wrapper
        # When the traced step began, by the clock of the allocator's history; None where none is traced.
        self.began_us: int | None = None
        self.optimizer_us: int | None = None
        self.next_step = FIRST_STEPS
        self.next_at = self.grown_at = 0.0
        # The most that was allocated when the last trace was taken, by device.
        self.largest: dict[int, int] = {}
        self.failed_step: int | None = None
        self.pending: list[Any] = []

    def hurry(self) -> None:
        """The step after next is wanted, and not only once one is due; from any thread."""
        self.next_step, self.next_at = 0, 0.0

    def begin(self) -> None:
        """From now on a step is traced; on the training's thread."""
        if self.recording is not None and self.recording.trace(True):
            self.step_began()

    def step_began(self) -> None:
        is_seen = self.wrapper is not None and self.wrapper.sees_modules()
        # A program that compiles its model does so in the first steps.
        by_hooks = not is_seen and self.steps.count >= FIRST_STEPS - 1
        self.modules.begin(by_hooks)
        self.began_us, self.optimizer_us = now_us(), None

    def optimizer_began(self) -> None:
        if self.began_us is not None and self.optimizer_us is None:
            self.optimizer_us = now_us()

    def is_on(self) -> bool:
        """Whether a step is being traced."""
        return self.began_us is not None

    def step_ended(self, count: int, device: int) -> None:
        """After each step that is traced, and now and then after another; cheap where nothing is due."""
        if self.began_us is None:
            now = time.monotonic()
            if (count >= self.next_step and now >= self.next_at) or self.has_grown(device, now):
                self.next_at = now + PAUSE
                self.grown_at = now + GROWN_PAUSE
                if self.is_small(device):
                    self.begin()
        elif count < FIRST_STEPS and self.is_small(device):
            # Nobody asks for this one: the next is like those after it.
            self.step_began()
        else:
            began = time.monotonic()
            try:
                if self.is_small(device):
                    self.read(count, device)
            finally:
                self.end()
                self.next_step = 2 * count
                took = time.monotonic() - began
                self.next_at = began + max(PAUSE, COST_FACTOR * took)
                self.grown_at = began + max(GROWN_PAUSE, GROWN_FACTOR * took)
                self.largest[device] = self.peak(device)

    def ran_out(self, device: int) -> None:
        """The step that runs out of memory, up to there; once, however often it tries again."""
        step = self.steps.count + 1
        if self.began_us is not None and step != self.failed_step:
            self.failed_step = step
            self.read(step, device, failed=True)

    def end(self) -> None:
        self.began_us = None
        self.modules.end()
        if self.recording is not None:
            self.recording.trace(False)

    def peak(self, device: int) -> int:
        return self.allocator.peaks.get(device, (0, 0))[0]

    def has_grown(self, device: int, now: float) -> bool:
        before = self.largest.get(device)
        return before is not None and now >= self.grown_at and self.peak(device) > GROWTH * before

    def is_small(self, device: int) -> bool:
        return self.allocator.read(device).blocks <= MOST_BLOCKS

    def read(self, step: int, device: int, failed: bool = False) -> None:
        taken = self.torch.cuda.memory._snapshot(device)
        segments = [each for each in taken["segments"] if each.get("device", device) == device]
        events = taken["device_traces"][device]
        if len(events) >= MOST_EVENTS and events[0]["time_us"] >= self.began_us:
            # Its beginning was overwritten.
            return
        line = {
            "event": "step_trace",
            "pid": self.pid,
            "device": int(device),
            "step": step,
            "failed": failed,
        }
        if self.modules.inputs:
            line["inputs"] = list(self.modules.inputs)
        seen = self.modules.take()
        of_parameters = seen[2] if seen is not None else {}
        frozen = self.modules.frozen() if seen is not None else ()
        kinds, places = self.structure.kinds(of_parameters, frozen)
        owners = step_trace.Modules(seen, places)
        self.pending = [(line, segments, events, self.began_us, self.optimizer_us, kinds, owners)]

    def take(self) -> Line | None:
        """The line of what was traced, on the sampler's thread; or None."""
        if not self.pending:
            return None
        line, segments, events, began_us, optimizer_us, kinds, modules = self.pending.pop()
        try:
            condensed = step_trace.condense(
                segments, events, began_us, optimizer_us, kinds, modules, self.owners
            )
            line.update(condensed)
        except Exception:
            errors.ours("condense a trace")
            return None
        if step_trace.length(line) > step_trace.LONGEST:
            line.pop("modules", None)
            line.pop("block_modules", None)
        return line if step_trace.length(line) <= step_trace.LONGEST else None


def now_us() -> int:
    return time.time_ns() // 1000
