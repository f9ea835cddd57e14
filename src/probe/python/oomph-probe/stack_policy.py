"""Whether recording the stacks of new allocations is worth its overhead. Pure: time and figures are
passed in.

At an OOM the probe wants to know which lines allocated the live blocks. Recording a stack takes a
microsecond or two per allocation: negligible in most trainings, some per cent where steps are short
and tensors small. So stacks are recorded from the start, no longer once a training with many
allocations is steady and far below the available memory, and again as soon as that changes. A block
allocated in between has no stack; an earlier one keeps its own.
"""

# A training is steady after this many steps and seconds without a change.
STEPS, SECONDS = 20, 5.0
# Upper bound for recording one allocation, in seconds, and the share of the time that is too much.
COST, WORTH = 2e-6, 0.005
# Above this share of the device, or of the cap, an OOM is near.
NEAR = 0.5
# Reserved memory above its previous peak by this factor is a change.
GROWTH = 1.25
# After this many seconds without a step it is not training: evaluation, or generation.
IDLE = 2.0


class Usage:
    """One device at one moment: bytes allocated, the largest number of bytes ever reserved, the bytes
    that could be reserved (the cap where one is set), and the number of allocations so far."""

    __slots__ = ("allocated", "largest", "bound", "allocations")

    def __init__(self, allocated, largest, bound, allocations):
        self.allocated = allocated
        self.largest = largest
        self.bound = bound
        self.allocations = allocations

    def is_near(self):
        return self.largest >= NEAR * self.bound


class StackPolicy:
    """Updated several times a second; starts with stacks recorded."""

    def __init__(self, seconds=SECONDS):
        self.seconds = seconds
        self.records = True
        self.always = False
        self.steps = 0
        self.stepped_at = 0.0
        # The least allocated since the last step, and the most reserved when recording stopped.
        self.floor = {}
        self.base = {}
        # Start of the stretch that is judged: time, steps, allocations.
        self.stretch = None

    def record_always(self):
        """Called after an OOM: record from now on, whatever it costs."""
        self.always = True

    def update(self, now, steps, usages):
        """Whether to record from now on; `usages` by device."""
        if steps != self.steps:
            self.steps, self.stepped_at = steps, now
            self.floor = {}
        for device, usage in usages.items():
            self.floor[device] = min(usage.allocated, self.floor.get(device, usage.allocated))
        if self.records:
            if self.is_steady_and_costly(now, steps, usages):
                self.records = False
                self.base = {device: usage.largest for device, usage in usages.items()}
        elif self.always or self.has_changed(now, usages):
            self.records = True
            self.stretch = None
        return self.records

    def is_steady_and_costly(self, now, steps, usages):
        near = self.always or any(usage.is_near() for usage in usages.values())
        if near or steps == 0 or self.is_idle(now):
            self.stretch = None
            return False
        allocations = sum(usage.allocations for usage in usages.values())
        if self.stretch is None:
            self.stretch = (now, steps, allocations)
            return False
        began, steps_before, allocations_before = self.stretch
        took = now - began
        if took < self.seconds or steps - steps_before < STEPS:
            return False
        self.stretch = (now, steps, allocations)
        return (allocations - allocations_before) * COST >= WORTH * took

    def has_changed(self, now, usages):
        idle = self.is_idle(now)
        return any(
            usage.is_near()
            or usage.largest > GROWTH * self.base.get(device, 0)
            or (idle and usage.allocated > self.floor[device])
            for device, usage in usages.items()
        )

    def is_idle(self, now):
        return now - self.stepped_at >= IDLE
