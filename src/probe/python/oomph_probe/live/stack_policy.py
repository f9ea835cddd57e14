"""Whether the stacks of new allocations are recorded. Pure: time and figures are passed in.

At an OOM the probe wants to know which lines allocated the live blocks. Recording a stack takes some
microseconds per allocation, on the thread that launches the GPU's work: nothing where the GPU is the
bottleneck, up to a tenth of the step where launching is. So stacks are recorded

    in the first steps, where parameters, gradients and optimizer state are allocated,
    for some steps after memory has grown, and as long as it goes on growing,
    in evaluation, where memory is allocated and no step ends,
    near the end of the memory, and for good after an OOM,
    and always where there are so few allocations that it costs nothing.

A block allocated in between has no stack; an earlier one keeps its own.
"""

from __future__ import annotations

# Steps after which the first stretch, or one after a change, may end.
STEPS = 3
# Seconds over which the number of allocations is judged.
SECONDS = 2.0
# Upper bound for recording one allocation, in seconds, and the share of the time that is too much.
COST, WORTH = 4e-6, 0.003
# Above this share of the device, or of the cap, an OOM is near.
NEAR = 0.85
# Reserved memory above its previous peak by this factor is a change.
GROWTH = 1.25
# More memory alive after a step than before, by this share of the bound: since recording ended it is a
# change; within a stretch it is growth that goes on.
CHANGED, STEADY = 0.02, 0.002
# After this many seconds without a step it is not training: evaluation, or generation.
IDLE = 2.0


class Usage:
    """One device at one moment: bytes allocated, the largest number of bytes ever reserved, the bytes
    that could be reserved (the cap where one is set), and the number of allocations so far."""

    __slots__ = ("allocated", "largest", "bound", "allocations")

    def __init__(self, allocated: int, largest: int, bound: int, allocations: int) -> None:
        self.allocated = allocated
        self.largest = largest
        self.bound = bound
        self.allocations = allocations

    def is_near(self) -> bool:
        return self.largest >= NEAR * self.bound


class Stretch:
    """Steps in a row that are recorded."""

    def __init__(self, steps: int, after: dict[int, int]) -> None:
        self.steps = steps
        self.after = dict(after)


class StackPolicy:
    """Updated several times a second; starts with stacks recorded."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self.records = True
        self.always = False
        self.steps = 0
        self.stepped_at = 0.0
        # The least allocated since the last step.
        self.floor: dict[int, int] = {}
        # The most reserved, and what was alive after a step, when recording ended.
        self.largest: dict[int, int] = {}
        self.after: dict[int, int] = {}
        self.stretch: Stretch | None = None
        # Where the current count of allocations began: time and number; and whether the last was costly.
        self.counted: tuple[float, int] | None = None
        self.is_costly = True

    def record_always(self) -> None:
        """Called after an OOM: record from now on, whatever it costs."""
        self.always = True

    def update(
        self, now: float, steps: int, usages: dict[int, Usage], after: dict[int, int], may_end: bool = True
    ) -> bool:
        """Whether to record from now on: `usages` by device, and the bytes alive after the last step. A look within a
        step may begin a recording and does not end one: quick steps would take the first stretch from it."""
        if steps != self.steps:
            self.steps, self.stepped_at = steps, now
            self.floor = {}
        for device, usage in usages.items():
            self.floor[device] = min(usage.allocated, self.floor.get(device, usage.allocated))
        self.count(now, usages)
        if self.must_record(now, usages) or self.has_grown(usages, after):
            self.records, self.stretch = True, None
        elif may_end and self.records and self.is_settled(steps, usages, after):
            self.records, self.stretch = False, None
            self.largest = {device: usage.largest for device, usage in usages.items()}
            self.after = dict(after)
        return self.records

    def count(self, now: float, usages: dict[int, Usage]) -> None:
        """Judges the number of allocations, every few seconds."""
        made = sum(usage.allocations for usage in usages.values())
        if self.counted is None:
            self.counted = now, made
        began, before = self.counted
        if now - began >= self.seconds:
            self.is_costly = (made - before) * COST >= WORTH * (now - began)
            self.counted = now, made

    def must_record(self, now: float, usages: dict[int, Usage]) -> bool:
        idle = now - self.stepped_at >= IDLE
        return (
            self.always
            or self.steps == 0
            or not self.is_costly
            or any(
                usage.is_near() or (idle and usage.allocated > self.floor[device])
                for device, usage in usages.items()
            )
        )

    def has_grown(self, usages: dict[int, Usage], after: dict[int, int]) -> bool:
        """Whether there is more than when recording ended."""
        if self.records:
            return False
        return any(
            usage.largest > GROWTH * self.largest.get(device, 0)
            or after.get(device, 0) > self.after.get(device, 0) + CHANGED * usage.bound
            for device, usage in usages.items()
        )

    def is_settled(self, steps: int, usages: dict[int, Usage], after: dict[int, int]) -> bool:
        """Whether some steps in a row have left nothing behind."""
        if self.stretch is None or self.is_growing(usages, after):
            self.stretch = Stretch(steps, after)
        return steps - self.stretch.steps >= STEPS

    def is_growing(self, usages: dict[int, Usage], after: dict[int, int]) -> bool:
        before = {} if self.stretch is None else self.stretch.after
        return any(
            alive > before.get(device, 0) + STEADY * usages[device].bound
            for device, alive in after.items()
            if device in usages
        )
