"""What the optimizer whose step ran out of memory, or is still to come, needs: its class and settings, and the
bytes of its parameters, gradients and state by dtype. Taken once memory has run out; the sums are made by
forecast/optimizer_step.rs.
"""

from __future__ import annotations

import sys

from ..common import frames, objects
from ..patch import foreach, fused
from ..rehearse import optimizers, own_kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Line, Optimizer, Tensor, Torch
    from ..live.structure import Structure

# Settings that decide how much its state and its step take.
SETTINGS = ("foreach", "fused", "amsgrad", "momentum", "centered", "maximize", "weight_decay")
# Tensors with fewer elements keep their state in 32 bits in the optimizers with states of 8 bits.
SMALL = 4096
# transformers' Trainer has them keep that of embeddings in 32 bits as well (create_optimizer, 4.22 to 5).
TRAINER = "transformers.trainer"


def of(torch: Torch, structure: Structure, running: int, device: int) -> Sizes | None:
    """The optimizer whose id is `running`, else the one of the most parameters on the device; None where there is none.
    It is remembered: a trace of this step tells parameters from the rest by it."""
    def is_here(parameter: Tensor) -> bool:
        local = getattr(parameter, "_local_tensor", parameter)
        return local.is_cuda and local.device.index == device

    found = stepping(structure, running)
    if found is None:
        found = optimizers.largest(torch, is_here, running)
    if found is None:
        return None
    structure.remember(found)
    return Sizes(torch, found, device)


def stepping(structure: Structure, running: int) -> Optimizer | None:
    """The optimizer whose step runs, if it has ended one before."""
    reference = structure.optimizers.get(running)
    return None if reference is None else reference()


class Sizes:
    """The bytes of one optimizer on one device."""

    def __init__(self, torch: Torch, optimizer: Optimizer, device: int) -> None:
        self.torch = torch
        self.optimizer = optimizer
        self.device = device
        self.seen: set[int] = set()
        self.bytes: dict[str, dict[str, int]] = {"parameters": {}, "gradients": {}, "states": {}}
        self.embedded = embedded(torch)
        # Of the trained ones: bytes, elements, elements whose state stays in 32 bits, and the bytes of the largest.
        self.trained = self.elements = self.small = self.largest = 0
        # What Adafactor keeps of them, and the bytes of those that have a state.
        self.factored = self.stated = 0

    def line(self) -> Line:
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                self.add_parameter(parameter)
        group = self.optimizer.param_groups[0]
        line: Line = {"class": type(self.optimizer).__name__}
        base = optimizers.base_of(self.optimizer)
        if base is not None:
            line["base"] = base
        for setting in SETTINGS:
            line[setting] = is_set(group.get(setting))
        if fused.is_on(self.torch, self.optimizer):
            line["fused"] = True
        if foreach.is_off(self.optimizer):
            line["foreach"] = False
        elif "foreach" in group and group["foreach"] is None and not line["fused"]:
            # Where neither is asked for, torch takes foreach for parameters that all lie on a GPU.
            line["foreach"] = True
            line["foreach_by_default"] = True
            if fused.may_be(self.torch, self.optimizer):
                line["may_fuse"] = True
        if id(self.optimizer) in own_kernels.of(self.torch, frames.outwards(sys._getframe(1))):
            line["foreach"] = False
            line.pop("foreach_by_default", None)
            line.pop("may_fuse", None)
        line.update(self.bytes)
        for name in ("trained", "elements", "small", "largest", "factored", "stated"):
            line[name] = getattr(self, name)
        return line

    def add_parameter(self, parameter: Tensor) -> None:
        local = self.add(parameter, "parameters")
        if local is None:
            return
        size, elements = local.numel() * local.element_size(), local.numel()
        if parameter.requires_grad:
            self.trained += size
            self.elements += elements
            self.small += elements if elements < SMALL or id(parameter) in self.embedded else 0
            self.largest = max(self.largest, size)
            self.factored += factored(tuple(local.shape)) * local.element_size()
        if parameter.grad is not None:
            self.add(parameter.grad, "gradients")
        state = self.optimizer.state.get(parameter)
        if state and self.add_state(state, 2) > 0:
            self.stated += size

    def add_state(self, value: Any, depth: int) -> int:
        """Adds the tensors of a state; their bytes."""
        if isinstance(value, self.torch.Tensor):
            local = self.add(value, "states")
            return 0 if local is None else local.numel() * local.element_size()
        inner: Any = ()
        if depth > 0 and isinstance(value, dict):
            inner = list(value.values())
        elif depth > 0 and isinstance(value, (list, tuple)):
            inner = value
        return sum(self.add_state(each, depth - 1) for each in inner)

    def is_here(self, tensor: Tensor) -> bool:
        return tensor.is_cuda and tensor.device.index == self.device

    def add(self, tensor: Tensor, kind: str) -> Tensor | None:
        """Adds a tensor, if it lies on the device and was not added before: of a sharded one (DTensor) this rank's
        shard."""
        local: Tensor = getattr(tensor, "_local_tensor", tensor)
        if id(local) in self.seen or not self.is_here(local):
            return None
        self.seen.add(id(local))
        of_kind = self.bytes[kind]
        dtype = str(local.dtype).rpartition(".")[2]
        of_kind[dtype] = of_kind.get(dtype, 0) + local.numel() * local.element_size()
        return local


def embedded(torch: Torch) -> set[int]:
    """The ids of the embeddings' weights, where it counts that they are."""
    if TRAINER not in sys.modules:
        return set()
    kinds = {id(kind) for kind in objects.with_subclasses(torch.nn.Embedding)}
    found = objects.instances(kinds) or []
    return {id(module._parameters.get("weight")) for module in found}


def is_set(setting: Any) -> bool:
    """Whether a setting is on: True, or a number other than zero. What else it may be is not asked."""
    return setting is True or (type(setting) in (int, float) and setting != 0)


def factored(shape: tuple[int, ...]) -> int:
    """The elements that Adafactor keeps of a tensor: of a matrix its rows and columns."""
    elements = 1
    for size in shape:
        elements *= size
    if len(shape) < 2 or elements == 0:
        return elements
    return elements // shape[-1] + elements // shape[-2]
