"""What a rehearsed step would allocate if ranks divided, gathered or reduced otherwise: put together of what it noted,
without running it again. Its tensors come and go as they did; what is gathered and reduced beside them is worked out
anew.
"""

from __future__ import annotations

from .trace import ALLOCATED, CALLED, FREED, GRADIENT, MARKED, MOMENT, Trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .rehearsal import Rehearsal

# The parameters are divided again behind each layer's forward.
RESHARD = "reshard"
# They, their gradients and the optimizer's state lie in RAM.
OFFLOAD = "offload"
# Gradients are views of the buckets that ranks reduce.
IN_BUCKETS = "in_buckets"
# Parameters are gathered in bf16, which is run again: what is computed has other sizes.
IN_BF16 = "in_bf16"


class Composed:
    """A step with one of the changes."""

    def __init__(self, name: str, one: Rehearsal) -> None:
        copier = one.copier
        self.name = name
        changes = changes_of(name, copier)
        # What it has on the device, where that is something else.
        self.weights: list[int] | None = None
        self.trained: list[int] | None = None
        if name == OFFLOAD:
            self.weights, self.trained = weights_of(copier)
        kept = [(thing, attribute, getattr(thing, attribute)) for thing, attribute, _ in changes]
        for thing, attribute, value in changes:
            setattr(thing, attribute, value)
        try:
            # Numbers of allocations and of events, as they are now.
            self.numbers: dict[int, int] = {}
            self.places: list[tuple[int, int]] = []
            self.trace = self.put_together(one)
        finally:
            for thing, attribute, value in kept:
                setattr(thing, attribute, value)

    def put_together(self, one: Rehearsal) -> Trace:
        trace = Trace(one.trace.device)
        one.copier.begin(trace)
        for kind, what, more, at in one.trace.log or ():
            self.places.append((at, len(trace.words)))
            if kind == ALLOCATED:
                self.numbers[what] = trace.take(more)
            elif kind == FREED:
                trace.give(self.numbers[what], more)
            elif kind == MOMENT:
                trace.allocate_for_a_moment(what, more)
            elif kind == CALLED:
                what(*more)
            elif kind == MARKED:
                trace.mark(what)
            elif kind == GRADIENT and self.name == IN_BUCKETS:
                # Copied into its bucket at once, which was there before.
                trace.give(self.numbers[what], more)
        trace.flops, trace.is_over = one.trace.flops, True
        return trace

    def outlive(self, one: Rehearsal) -> dict[str, list[int]]:
        """What outlives the step, by the numbers that it has here."""
        found: dict[str, list[int]] = {}
        for name, numbers in one.outlive.items():
            if name == "until":
                found[name] = [self.place(each) for each in numbers]
            else:
                found[name] = [self.numbers[each] for each in numbers if each in self.numbers]
        return found

    def place(self, event: int) -> int:
        """An event's number here."""
        later = [now for before, now in self.places if before >= event]
        return later[0] if later else len(self.trace.words)


def possible(one: Rehearsal) -> list[str]:
    """The changes that would be one."""
    copier = one.copier
    names = [name for name in (RESHARD, OFFLOAD) if changes_of(name, copier)]
    return names + [IN_BUCKETS] * bool(one.call.is_reduced_in_buckets and one.trace.log)


def may_be_bf16(one: Rehearsal) -> bool:
    """Whether float32 parameters are gathered as they are."""
    groups, units = one.copier.shards.groups.values(), one.copier.flat_shards.units
    whole = [group.parameters[0] for group in groups if group.parameters]
    return any(each.dtype == one.torch.float32 for each in [*whole, *(unit for unit in units if unit.is_divided)])


def changes_of(name: str, copier: Any) -> list[tuple[Any, str, Any]]:
    """What is set to what."""
    groups = [group for group in copier.shards.groups.values() if group.ranks > 1]
    units = [unit for unit in copier.flat_shards.units if unit.is_divided]
    if name == RESHARD:
        inner = [each for each in (*groups, *units) if not each.is_root]
        kept = [(each, "reshards", True) for each in inner if not each.reshards]
        return kept + [(each, "among", 0) for each in groups if each.among]
    if name == OFFLOAD:
        every = [each for group in groups for each in group.parameters] + units
        return [(each, "is_on_host", True) for each in every if not each.is_on_host]
    return []


def weights_of(copier: Any) -> tuple[list[int], list[int]]:
    """The weights, and those that are trained, that are left on the device where what is divided lies in RAM."""
    weights, trained = list(copier.weights), list(copier.trained)
    every = [each for group in copier.shards.groups.values() if group.ranks > 1 for each in group.parameters]
    units = [unit for unit in copier.flat_shards.units if unit.is_divided]
    for each in [*every, *units]:
        if each.is_on_host:
            continue
        weights.remove(each.kept)
        if each.requires_grad:
            for size in each.trained if isinstance(each.trained, list) else [each.trained]:
                trained.remove(size)
    return weights, trained
