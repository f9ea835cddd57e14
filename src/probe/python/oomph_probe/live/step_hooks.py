"""What happens at a step's beginning and end, by torch's global hooks of optimizers (since 2.0; earlier versions are
probed without them). Where a program has no optimizer of torch's, at the end of each backward.

Every step is counted, and nothing else is done at one until a moment that an earlier one has set: beside
a training that waits for the processor the caches hold nothing of ours, and each line of Python that a
hook runs costs ten times what it costs in a loop by itself. From that moment on steps are looked at: the
allocator is read, as often as a reading is worth on this machine, and what gathered is sent.
"""

from __future__ import annotations

import sys
import weakref
from _thread import get_ident

from ..common import errors
from ..common.clock import monotonic_ns
from .steps import FIRST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Lifetime, Line, Optimizer, StepRehearsal, Torch
    from .backwards import Backwards
    from .growth import Growth
    from .recording import Recording
    from .requests import Requests
    from .sampler import Sampler
    from .steps import Steps
    from .structure import Structure
    from .tracing import Tracing

# A step that raised never ends; where none has ended for so long, one that began is assumed to have raised.
STALE_NS = 600_000_000_000


class StepHooks:
    """What is done at a step's beginning and end, on the training's thread."""

    def __init__(
        self,
        lifetime: Lifetime,
        torch: Torch,
        steps: Steps,
        sampler: Sampler,
        requests: Requests,
        tracing: Tracing,
        recording: Recording | None,
        structure: Structure,
        growth: Growth,
        rehearsals: StepRehearsal,
        backwards: Backwards | None = None,
    ) -> None:
        self.lifetime = lifetime
        self.torch = torch
        self.steps = steps
        self.sampler = sampler
        self.requests = requests
        self.tracing = tracing
        self.recording = recording
        self.structure = structure
        self.growth = growth
        self.rehearsals = rehearsals
        # None where this torch has no function to wrap.
        self.backwards = backwards
        # By the optimizer's id.
        self.devices: dict[int, tuple[weakref.ref[Optimizer], int]] = {}

    def register(self) -> None:
        torch_optimizer = sys.modules["torch.optim.optimizer"]
        steps, hooks = self.steps, self

        def before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            try:
                running = steps.running
                if running and running != id(optimizer) and monotonic_ns() - steps.ended_at < STALE_NS:
                    # An optimizer inside another one's step: the wrapper's step is the step.
                    return
                steps.running = id(optimizer)
                steps.by_optimizer = True
                now = monotonic_ns()
                if now >= steps.due_ns:
                    hooks.begin(optimizer, now)
            except BaseException:
                errors.refused("before a step")

        def after_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            try:
                if steps.running == id(optimizer):
                    steps.running = 0
                    steps.count += 1
                    now = steps.ended_at = monotonic_ns()
                    if now >= steps.due_ns:
                        hooks.look(optimizer, now)
            except BaseException:
                errors.refused("after a step")

        # torch.compile must not look into the hooks where a program compiles its optimizer's step.
        for hook in (before_step, after_step):
            setattr(hook, "_torchdynamo_disable", True)
        torch_optimizer.register_optimizer_step_pre_hook(before_step)
        torch_optimizer.register_optimizer_step_post_hook(after_step)

    def after_backward(self) -> bool:
        """A backward has ended: it counts as a step where there is no optimizer of torch's. False where none will."""
        steps = self.steps
        try:
            if steps.by_optimizer or has_optimizer(sys.modules["torch.optim.optimizer"]) or not self.lifetime.live:
                return False
            steps.count += 1
            now = steps.ended_at = monotonic_ns()
            if now >= steps.due_ns:
                self.look_after_backward(now)
        except BaseException:
            errors.refused("after a backward")
        return True

    def look_after_backward(self, now: int) -> None:
        """A step without an optimizer has ended, and something is due."""
        steps = self.steps
        steps.thread = get_ident()
        on = self.torch.cuda.current_device()
        self.observe_end(on)
        if steps.is_worth_reading(now):
            steps.read_beginning(on, now)
            if steps.began is not None:
                self.growth.step_ended(on, steps.count, steps.read_end(steps.began, now).blocks)
                steps.began = None
        self.look_again(now)

    def begin(self, optimizer: Optimizer, now: int) -> None:
        """A step begins that will be looked at."""
        steps = self.steps
        steps.began = None
        if not self.lifetime.live:
            return
        steps.thread = get_ident()
        self.tracing.optimizer_began()
        if steps.is_worth_reading(now):
            steps.read_beginning(self.device_of(optimizer), now)

    def look(self, optimizer: Optimizer, now: int) -> None:
        """A step has ended, and something is due."""
        if not self.lifetime.live:
            return
        steps, backwards = self.steps, self.backwards
        self.observe_end(self.device_of(optimizer))
        if backwards is not None and backwards.is_on():
            steps.backward = backwards.end(steps.count)
            steps.backward_ns = backwards.spent_ns
        if steps.began is not None:
            device = steps.began[1]
            self.read_end(optimizer, steps.began, now)
            if backwards is not None:
                backwards.begin(steps.count + 1, device, steps.after[device])
        self.look_again(now)

    def observe_end(self, device: int) -> None:
        """Those who wait for a step's end are told of it."""
        self.rehearsals.step_ended(self.steps.count)
        self.tracing.step_ended(self.steps.count, device)
        self.requests.step_ended(device)
        if self.recording is not None:
            self.recording.rest()

    def look_again(self, now: int) -> None:
        """A step was looked at: sets when the next one is."""
        seconds = now / 1e9
        if seconds >= self.sampler.due_at:
            self.sampler.step_ended(seconds)
        self.steps.due_ns = self.next_look()

    def read_end(self, optimizer: Optimizer, began: tuple[int, int, Line], now: int) -> None:
        steps = self.steps
        steps.began = None
        reading = steps.read_end(began, now)
        # These two count what they cost themselves.
        self.structure.step_ended(optimizer, steps.count)
        self.growth.step_ended(began[1], steps.count, reading.blocks)

    def next_look(self) -> int:
        """From when on the next step is looked at; 0 for the very next."""
        steps = self.steps
        is_read = self.backwards is not None and self.backwards.is_on()
        is_awaited = self.tracing.is_on() or self.requests.is_waiting() or is_read
        if is_awaited or steps.count < max(FIRST, self.rehearsals.asked_for):
            return 0
        return min(steps.read_at + steps.pause_ns, int(self.sampler.due_at * 1e9))

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
        return self.torch.cuda.current_device()


def has_optimizer(module: Any) -> bool:
    """Whether an optimizer of torch's or one derived from those was made: the first of a class hooks its step."""
    pending = [module.Optimizer]
    while pending:
        each = pending.pop()
        if getattr(each.__dict__.get("step"), "hooked", False):
            return True
        pending.extend(each.__subclasses__())
    return False
