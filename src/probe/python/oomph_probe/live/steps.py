"""Optimizer steps, by torch's global hooks (since 2.0; earlier versions are probed without them).

Every step is counted, and nothing else is done at one until a moment that an earlier one has set: beside
a training that waits for the processor the caches hold nothing of ours, and each line of Python that a
hook runs costs ten times what it costs in a loop by itself. From that moment on steps are looked at: the
allocator is read, as often as a reading is worth on this machine, and what gathered is sent. No reference
to a step, a parameter or a closure is kept, so nothing here keeps a tensor alive.
"""

from __future__ import annotations

import collections
import sys
import weakref
from _thread import get_ident

# By itself: the program may put something else in its place later.
from time import monotonic_ns

from ..common import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Line, Optimizer, Wire

THIN_NS = 20_000_000
# A reading may take one part in so many of the time. Each of the first steps is looked at.
WORTH = 2000
LONGEST_PAUSE_NS = 500_000_000
FIRST = 20
# A step that raised never ends; where none has ended for so long, one that began is assumed to have raised.
STALE_NS = 600_000_000_000
# A finished but unsent step is sent after this long without another one.
SETTLED_NS = 200_000_000


class Steps:
    """The steps of this process. Hooks run on the training's thread, `report` on the sampler's."""

    def __init__(self, process: Any) -> None:
        self.process = process
        self.count = 0
        self.thread: int | None = None
        # The id of the optimizer whose step is running, the outermost one's; 0 for none.
        self.running = 0
        # From when on steps are looked at.
        self.due_ns = 0
        self.read_at = 0
        self.ended_at = monotonic_ns()
        # When the running step began and what was allocated then, where that was read: its time, device, reading.
        self.began: Any = None
        self.latest: Line | None = None
        self.sent = 0
        self.lines: collections.deque[Any] = collections.deque(maxlen=256)
        self.devices: dict[Any, Any] = {}
        # The bytes alive after the last step that was read, by device.
        self.after: dict[int, int] = {}
        self.spent_ns = 0
        self.pause_ns = THIN_NS

    def register(self) -> None:
        if self.process.version < (2, 0):
            return
        torch_optimizer = sys.modules["torch.optim.optimizer"]
        steps = self

        def before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            try:
                running = steps.running
                if running and running != id(optimizer) and monotonic_ns() - steps.ended_at < STALE_NS:
                    # An optimizer inside another one's step: the wrapper's step is the step.
                    return
                steps.running = id(optimizer)
                now = monotonic_ns()
                if now >= steps.due_ns:
                    steps.begin(optimizer, now)
            except Exception:
                errors.ours("before a step")

        def after_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            try:
                if steps.running == id(optimizer):
                    steps.running = 0
                    steps.count += 1
                    now = steps.ended_at = monotonic_ns()
                    if now >= steps.due_ns:
                        steps.look(optimizer, now)
            except Exception:
                errors.ours("after a step")

        # torch.compile must not look into the hooks where a program compiles its optimizer's step.
        for hook in (before_step, after_step):
            setattr(hook, "_torchdynamo_disable", True)
        torch_optimizer.register_optimizer_step_pre_hook(before_step)
        torch_optimizer.register_optimizer_step_post_hook(after_step)

    def is_running(self) -> bool:
        """Whether an optimizer step is running."""
        return self.running != 0

    def forget_running(self) -> None:
        """A step ran out of memory: it will most likely not finish."""
        self.running = 0

    def begin(self, optimizer: Optimizer, now: int) -> None:
        """A step begins that will be looked at."""
        self.began = None
        if not self.process.live:
            return
        self.thread = get_ident()
        self.process.tracing.optimizer_began()
        if now - self.read_at >= (THIN_NS if self.count < FIRST else self.pause_ns):
            self.read_at = now
            device = self.device_of(optimizer)
            before = self.process.allocator.read(device).edge()
            self.spent_ns = monotonic_ns() - now
            self.began = now, device, before

    def look(self, optimizer: Optimizer, now: int) -> None:
        """A step has ended, and something is due."""
        process = self.process
        if not process.live:
            return
        on = self.device_of(optimizer)
        process.step_ended(self.count)
        process.tracing.step_ended(self.count, on)
        process.requests.step_ended(on)
        if process.recording is not None:
            process.recording.rest()
        if self.began is not None:
            self.read_end(optimizer, now)
        seconds = now / 1e9
        if seconds >= process.sampler.due_at:
            process.sampler.step_ended(seconds)
        self.due_ns = self.next_look()

    def next_look(self) -> int:
        """From when on the next step is looked at; 0 for the very next."""
        process = self.process
        is_awaited = process.tracing.is_on() or process.requests.is_waiting()
        if is_awaited or self.count < max(FIRST, process.rehearsed_step):
            return 0
        return min(self.read_at + self.pause_ns, int(process.sampler.due_at * 1e9))

    def hurry(self) -> None:
        """Something is asked of the next step; from any thread."""
        self.due_ns = 0

    def read_end(self, optimizer: Optimizer, now: int) -> None:
        """The end of a step whose beginning was read."""
        began, device, before = self.began
        self.began = None
        reading = self.process.allocator.read(device)
        after = reading.edge()
        self.after[device] = reading.allocated
        self.latest = {
            "event": "step",
            "pid": self.process.pid,
            "device": device,
            "count": self.count,
            "micros": (now - began) // 1000,
            "before": before,
            "after": after,
        }
        self.lines.append((now, self.latest))
        spent = self.spent_ns + monotonic_ns() - now
        self.pause_ns = min(max(THIN_NS, WORTH * spent), LONGEST_PAUSE_NS)
        # These two count what they cost themselves.
        self.process.structure.step_ended(optimizer, self.count)
        self.process.growth.step_ended(device, self.count, reading.blocks)

    def device_of(self, optimizer: Optimizer) -> int:
        known = self.devices.get(id(optimizer))
        if known is not None and known[0]() is optimizer:
            return known[1]
        device = self.find_device(optimizer)
        if len(self.devices) > 64:
            self.devices.clear()
        self.devices[id(optimizer)] = (weakref.ref(optimizer), device)
        return device

    def find_device(self, optimizer: Optimizer) -> int:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.is_cuda:
                    return parameter.device.index
        return self.process.torch.cuda.current_device()

    def report(self, wire: Wire, at_end: bool) -> None:
        """Queues the steps that ended since the last call."""
        while self.lines:
            ns, line = self.lines.popleft()
            wire.put(line, ns)
            self.sent = line["count"]
        latest, count = self.latest, self.count
        settled = at_end or monotonic_ns() - self.ended_at >= SETTLED_NS
        if latest is not None and count > self.sent and settled and not self.lines:
            # This step was not read: the figures are those of an earlier one, and the line says so.
            wire.put(dict(latest, count=count, figures_of=latest["count"]), self.ended_at)
            self.sent = count
