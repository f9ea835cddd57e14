"""How the optimizer of a program uses memory, before its first step has shown it: by its class and its
settings (torch/optim/*.py). Looked for among the collector's objects once memory has run out.
"""

from __future__ import annotations

import time
import weakref

from ..common import objects
from ..patch import foreach, fused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Line, Optimizer, Tensor, Torch

# State tensors of a parameter's size for each parameter; settings that add one.
STATES = {
    "Adadelta": 2, "Adafactor": 0, "Adagrad": 1, "Adam": 2, "AdamW": 2, "Adamax": 2, "ASGD": 1, "LBFGS": 5,
    "Lion": 1,
    "Muon": 1, "NAdam": 2, "RAdam": 2, "RMSprop": 1, "Rprop": 2, "SGD": 0, "SparseAdam": 2,
}
ADDING = ("amsgrad", "momentum", "centered")
# Of these the setting is no tensor of its own.
PLAIN_MOMENTUM = ("Adam", "AdamW", "Muon")
# Steps without temporaries, but with one of these settings.
IN_PLACE = ("SGD",)
IN_PLACE_BUT = ("weight_decay", "maximize")
# Seconds for which those that were found are all that there are: a walk over all objects takes some 40 ms, and memory
# runs out a dozen times in a moment where cuDNN tries one algorithm after another.
MOMENT = 1.0


def of(
    torch: Torch, device: Any, before: int = 0, steps: int = 0, compiled: frozenset[int] = frozenset()
) -> Line | None:
    """The line's part for the optimizer of the most parameters on a device, as it was `before` so many steps of the
    `steps` that have ended; None where there is none. `compiled` are the ids of those whose steps are compiled."""
    found = largest(torch, lambda parameter: parameter.device == device)
    if found is None:
        return None
    line = describe(found)
    is_patched = foreach.is_off(found) or fused.is_on(torch, found)
    line["foreach"] = line["foreach"] and not is_patched and id(found) not in compiled
    if line["has_state"] and before == 0 and steps > 0:
        # Of a checkpoint, if it has counted more.
        line["has_state"] = counted(found) > steps
    return line


def counted(optimizer: Optimizer) -> float:
    """Its steps by its own count, where that is a number on the host."""
    for state in optimizer.state.values():
        count: Any = state.get("step") if isinstance(state, dict) else None
        if isinstance(count, (int, float)):
            return count
        if getattr(getattr(count, "device", None), "type", None) == "cpu":
            return float(count)
    return 0


def largest(torch: Torch, is_here: Callable[[Tensor], bool], wanted: int = 0) -> Optimizer | None:
    """The optimizer with the id `wanted`, else the one of the most parameters on a device; None where there is none."""
    found = there.all(torch)
    sized = [(id(each) == wanted, size_of(each, is_here), at) for at, each in enumerate(found)]
    sized = [entry for entry in sized if entry[1] > 0]
    return found[max(sized)[2]] if sized else None


class Found:
    """The optimizers among the collector's objects, as they were found last; none is kept alive."""

    def __init__(self) -> None:
        self.at = float("-inf")
        self.references: list[weakref.ref[Any]] = []

    def all(self, torch: Torch) -> list[Optimizer]:
        known = [each() for each in self.references]
        if not known or None in known or time.monotonic() - self.at > MOMENT:
            known = search(torch)
            self.references = [weakref.ref(each) for each in known]
            self.at = time.monotonic()
        return known


there = Found()


def search(torch: Torch) -> list[Any]:
    kinds = {id(kind) for kind in objects.with_subclasses(torch.optim.Optimizer)}
    return objects.instances(kinds) or []


def size_of(optimizer: Optimizer, is_here: Callable[[Tensor], bool]) -> int:
    return sum(
        parameter.numel()
        for group in optimizer.param_groups
        for parameter in group["params"]
        if is_here(parameter)
    )


def describe(optimizer: Optimizer) -> Line:
    name = base_of(optimizer)
    group = optimizer.param_groups[0]
    line = {"class": type(optimizer).__name__, "has_state": len(optimizer.state) > 0}
    if name is not None:
        added = sum(1 for setting in ADDING if group.get(setting) and name not in PLAIN_MOMENTUM)
        added += bool(group.get("amsgrad")) if name in PLAIN_MOMENTUM else 0
        # The steps and gradients that it remembers.
        added += 2 * int(group.get("history_size", 0)) if name == "LBFGS" else 0
        line["states"] = STATES[name] + added
    # Where neither is asked for, torch takes foreach for parameters that all lie on a GPU.
    is_foreach = group.get("foreach") is not False and not group.get("fused") and "foreach" in group
    line["foreach"] = is_foreach and (line["class"] not in IN_PLACE or any(map(makes_lists, optimizer.param_groups)))
    return line


def makes_lists(group: dict[str, Any]) -> bool:
    """Whether what changes everything in its place otherwise makes a gradient of each of these first."""
    return any(bool(group.get(setting)) for setting in IN_PLACE_BUT)


def base_of(optimizer: Optimizer) -> str | None:
    """The known class that it is of or derives from."""
    names = (base.__name__ for base in type(optimizer).__mro__)
    return next((name for name in names if name in STATES), None)
