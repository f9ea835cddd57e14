"""Whether the lines of new allocations are worth what they cost. Pure: time and figures come in.

Lines are wanted of what is alive at an out-of-memory, and recording one costs a microsecond or two
at each allocation: nothing in most trainings, some parts in a hundred where steps are short and
small. So they are recorded from the start, given up once a training of many allocations goes
round far below what there is, and recorded again as soon as that changes. A block that was
allocated meanwhile has no line; one from before keeps its own.
"""

# A training goes round when so many steps, and so many seconds, have passed without a surprise.
STEPS, SECONDS = 20, 5.0
# What recording one allocation costs at most, in seconds, and the share of the time from which on
# that is too much.
COST, WORTH = 2e-6, 0.005
# From this share of the device or of the cap on an out-of-memory is near.
NEAR = 0.5
# More reserved than ever before, by this factor, is a surprise.
GROWTH = 1.25
# So many seconds without a step are no training: an evaluation, or generation.
IDLE = 2.0


class Use:
    """One device at one moment: bytes allocated, the most ever reserved, what there is to reserve
    (the cap where one is set), and the allocations made so far."""

    __slots__ = ("allocated", "largest", "bound", "allocations")

    def __init__(self, allocated, largest, bound, allocations):
        self.allocated = allocated
        self.largest = largest
        self.bound = bound
        self.allocations = allocations

    def is_near(self):
        return self.largest >= NEAR * self.bound


class Need:
    """Looked at several times a second; begins with lines wanted."""

    def __init__(self, seconds=SECONDS):
        self.seconds = seconds
        self.wanted = True
        self.for_good = False
        self.steps = 0
        self.stepped_at = 0.0
        # The least allocated since the last step, and the most reserved when lines were given up.
        self.floor = {}
        self.base = {}
        # Where the stretch began that is judged: time, steps, allocations.
        self.stretch = None

    def keep(self):
        """Memory ran out once: the lines are wanted from now on."""
        self.for_good = True

    def look(self, now, steps, uses):
        """Whether lines are wanted from now on; `uses` by device."""
        if steps != self.steps:
            self.steps, self.stepped_at = steps, now
            self.floor = {}
        for device, use in uses.items():
            self.floor[device] = min(use.allocated, self.floor.get(device, use.allocated))
        if self.wanted:
            if self.goes_round(now, steps, uses):
                self.wanted = False
                self.base = {device: use.largest for device, use in uses.items()}
        elif self.for_good or self.is_surprised(now, uses):
            self.wanted = True
            self.stretch = None
        return self.wanted

    def goes_round(self, now, steps, uses):
        near = self.for_good or any(use.is_near() for use in uses.values())
        if near or steps == 0 or self.is_idle(now):
            self.stretch = None
            return False
        allocations = sum(use.allocations for use in uses.values())
        if self.stretch is None:
            self.stretch = (now, steps, allocations)
            return False
        began, steps_before, allocations_before = self.stretch
        took = now - began
        if took < self.seconds or steps - steps_before < STEPS:
            return False
        self.stretch = (now, steps, allocations)
        return (allocations - allocations_before) * COST >= WORTH * took

    def is_surprised(self, now, uses):
        idle = self.is_idle(now)
        return any(
            use.is_near()
            or use.largest > GROWTH * self.base.get(device, 0)
            or (idle and use.allocated > self.floor[device])
            for device, use in uses.items()
        )

    def is_idle(self, now):
        return now - self.stepped_at >= IDLE
