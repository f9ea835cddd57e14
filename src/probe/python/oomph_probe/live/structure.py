"""The memory that the optimizers can account for: bytes of parameters, gradients and optimizer state
on each device, over all optimizers, each tensor once.

Measured at the end of a step, while the gradients exist, on the training's thread: so rarely that it
takes less than 0.2 % of the time, whatever the number of tensors.
"""

from __future__ import annotations

import time
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

    from ..common.protocols import Line, Optimizer, Tensor, Torch

# The first steps are measured (the state is created in the first and complete in the second), then
# one every ten seconds, or less often where a measurement is slow.
FIRST_STEPS = 3
INTERVAL = 10.0
COST_FACTOR = 500.0
# In seconds. If a measurement takes longer, not each of the first steps is measured.
CHEAP = 0.005

PARAMETERS, GRADIENTS, STATE, WHOLE = 0, 1, 2, 3


class Structure:
    """Measures now and then; the sampler's thread takes the results."""

    def __init__(self, torch: Torch, pid: int) -> None:
        self.torch = torch
        self.pid = pid
        self.optimizers: dict[int, Any] = {}
        self.next_at = 0.0
        self.cost = 0.0
        self.lines: dict[Any, Any] = {}
        self.unsent = False

    def step_ended(self, optimizer: Optimizer, count: int) -> None:
        now = time.monotonic()
        is_new = self.remember(optimizer)
        is_first = count <= FIRST_STEPS and self.cost < CHEAP
        if not (is_new or is_first or now >= self.next_at):
            return
        self.measure()
        self.cost = time.monotonic() - now
        self.next_at = now + max(INTERVAL, COST_FACTOR * self.cost)

    def remember(self, optimizer: Optimizer) -> bool:
        known = self.optimizers.get(id(optimizer))
        if known is not None and known() is optimizer:
            return False
        if len(self.optimizers) > 64:
            self.optimizers.clear()
        self.optimizers[id(optimizer)] = weakref.ref(optimizer)
        return True

    def measure(self) -> None:
        totals: dict[int, list[int]] = {}
        seen: set[int] = set()
        for reference in list(self.optimizers.values()):
            optimizer = reference()
            if optimizer is not None:
                self.add_optimizer(optimizer, totals, seen)
        self.lines = {}
        for device, of in totals.items():
            line: Line = {
                "event": "structure",
                "pid": self.pid,
                "device": device,
                "parameters": of[PARAMETERS],
                "gradients": of[GRADIENTS],
                "optimizer_state": of[STATE],
            }
            if of[WHOLE] > of[PARAMETERS]:
                line["whole"] = of[WHOLE]
            self.lines[device] = line
        self.unsent = True

    def add_optimizer(self, optimizer: Optimizer, totals: dict[int, list[int]], seen: set[int]) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.add(parameter, PARAMETERS, totals, seen)
                if parameter.grad is not None:
                    self.add(parameter.grad, GRADIENTS, totals, seen)
        for state in list(optimizer.state.values()):
            self.add_state(state, totals, seen, 2)

    def gradients(self, device: int) -> int:
        """The bytes of those that are there now."""
        totals: dict[int, list[int]] = {}
        seen: set[int] = set()
        for reference in list(self.optimizers.values()):
            optimizer = reference()
            groups: Any = () if optimizer is None else optimizer.param_groups
            for group in groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self.add(parameter.grad, GRADIENTS, totals, seen)
        return totals.get(device, [0, 0])[GRADIENTS]

    def add_state(self, value: Any, totals: dict[int, list[int]], seen: set[int], depth: int) -> None:
        if isinstance(value, self.torch.Tensor):
            self.add(value, STATE, totals, seen)
        elif depth > 0 and isinstance(value, dict):
            for inner in list(value.values()):
                self.add_state(inner, totals, seen, depth - 1)
        elif depth > 0 and isinstance(value, (list, tuple)):
            for inner in value:
                self.add_state(inner, totals, seen, depth - 1)

    def add(self, tensor: Tensor, kind: int, totals: dict[int, list[int]], seen: set[int]) -> None:
        # Of a sharded tensor (DTensor), this rank's shard.
        shard = getattr(tensor, "_local_tensor", tensor)
        if not shard.is_cuda or id(shard) in seen:
            return
        seen.add(id(shard))
        of = totals.setdefault(shard.device.index, [0, 0, 0, 0])
        size = shard.element_size()
        of[kind] += shard.numel() * size
        if kind == PARAMETERS:
            # FSDP1's flat parameter has its whole size beside it.
            whole = getattr(tensor, "_unpadded_unsharded_size", None)
            of[WHOLE] += (tensor if whole is None else whole).numel() * size

    def kinds(
        self, of_parameters: dict[int, Any], frozen: Sequence[Tensor] = ()
    ) -> tuple[dict[int, str], dict[int, Any]]:
        """At each address that an optimizer refers to: the kind of tensor, as a word of the wire, and the module
        whose parameter it is or belongs to, as far as `of_parameters` names it by the parameter's id.
        Also at those of `frozen` parameters, which no optimizer refers to."""
        words: dict[int, str] = {}
        places: dict[int, Any] = {}

        def mark(tensor: Tensor, kind: str, parameter: Tensor) -> None:
            tensor = getattr(tensor, "_local_tensor", tensor)
            if isinstance(tensor, self.torch.Tensor) and tensor.is_cuda:
                address = address_of(tensor)
                words[address] = kind
                place = of_parameters.get(id(parameter))
                if place is not None:
                    places[address] = place

        def mark_state(value: Any, parameter: Tensor, depth: int) -> None:
            if isinstance(value, self.torch.Tensor):
                mark(value, "optimizer_state", parameter)
            elif depth > 0 and isinstance(value, dict):
                for inner in list(value.values()):
                    mark_state(inner, parameter, depth - 1)
            elif depth > 0 and isinstance(value, (list, tuple)):
                for inner in value:
                    mark_state(inner, parameter, depth - 1)

        for reference in list(self.optimizers.values()):
            optimizer = reference()
            if optimizer is None:
                continue
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    mark(parameter, "parameters", parameter)
                    if parameter.grad is not None:
                        mark(parameter.grad, "gradients", parameter)
            for parameter, state in list(optimizer.state.items()):
                mark_state(state, parameter, 2)
        for parameter in frozen:
            tensor = getattr(parameter, "_local_tensor", parameter)
            if tensor.is_cuda and address_of(tensor) not in words:
                mark(parameter, "frozen", parameter)
        return words, places

    def take(self) -> list[Line]:
        """The lines not taken yet."""
        if not self.unsent:
            return []
        self.unsent = False
        return list(self.lines.values())

    def of(self, device: int) -> Line | None:
        """The last measurement of a device, or None."""
        line = self.lines.get(device)
        return None if line is None else {key: line[key] for key in line if key != "event"}


def address_of(tensor: Tensor) -> int:
    """The start of its storage, so the allocator's block even for a view."""
    try:
        return tensor.untyped_storage().data_ptr()
    except AttributeError:
        return tensor.data_ptr()
