"""Gradients that meet: where a tensor was used several times, autograd adds each further gradient to the one that
waits, in its place if nobody else has it (input_buffer.cpp, accumulate_grad.cpp). Under a dispatch mode it never does:
the sum is a new tensor there, and a residual network would need one more of each.

Who else has a tensor is told by its count of references, which is the same for all that only wait; what that is
in a call from the engine through our mode is measured once.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ..common.protocols import Args, Kwargs, Torch

# The function of torch's that waits for the engine.
ENGINE = "_engine_run_backward"
# The node of a parameter's own gradient.
OF_PARAMETER = "AccumulateGrad"


class Accumulation:
    """Of one thread's rehearsals."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        self.adds, self.in_place = torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor
        self.clones = torch.ops.aten.clone.default
        # Asked for once: what a gradient's counts are that only waits; None where this torch does not tell them.
        self.alone: Any = None
        self.is_measured = False
        self.node = getattr(torch._C, "_current_autograd_node", None)
        self.uses = getattr(torch._C, "_storage_Use_Count", None)

    def measure(self, mode: Any) -> None:
        """On a step of two numbers."""
        if self.is_measured:
            return
        self.is_measured = True
        torch, seen = self.torch, []
        if self.node is None or self.uses is None or not hasattr(torch.Tensor, "_use_count"):
            return
        from torch.utils._python_dispatch import TorchDispatchMode

        class Looks(TorchDispatchMode):  # type: ignore[misc]
            pass

        def __torch_dispatch__(_: Any, func: Any, types: Any, args: Args = (), kwargs: Kwargs | None = None) -> Any:
            if func is self.adds and is_engines(sys._getframe(1)):
                seen.append(self.counts(args[0]))
            return func(*args, **(kwargs or {}))

        # In the body of the class torch would put a frame of its own around it.
        setattr(Looks, "__torch_dispatch__", __torch_dispatch__)
        with mode, Looks():
            # On the CPU, whatever the default is: a GPU's backward runs on a thread of its own.
            used = torch.ones(2, requires_grad=True, device="cpu") * 2
            (used * 3 + used * 5).sum().backward()
        self.alone = seen[0] if len(seen) == 1 else None

    def counts(self, tensor: Any) -> tuple[int, int]:
        assert self.uses is not None
        return tensor._use_count(), self.uses(tensor.untyped_storage()._cdata)

    def is_one(self, func: Any, args: Args, kwargs: Kwargs, caller: FrameType | None) -> bool:
        """Whether this addition is the engine's, and in the place of its first argument where no mode is active."""
        if func is not self.adds or self.alone is None or kwargs or len(args) != 2 or not is_engines(caller):
            return False
        waits, comes = args
        if waits.shape != getattr(comes, "shape", None) or waits.dtype != comes.dtype or self.torch.is_grad_enabled():
            return False
        if waits.layout != self.torch.strided:
            return False
        # A parameter's own is added to whoever else has it.
        node = None if self.node is None else self.node()
        return type(node).__name__ == OF_PARAMETER or self.counts(waits) == self.alone and is_dense(waits)

    def is_taken_over(self, func: Any, args: Args, caller: FrameType | None) -> bool:
        """Whether this copy is of a parameter's sparse gradient, which autograd takes as it is without a mode."""
        if func is not self.clones or args[0].layout != self.torch.sparse_coo or not is_engines(caller):
            return False
        node = None if self.node is None else self.node()
        return type(node).__name__ == OF_PARAMETER


def is_engines(caller: FrameType | None) -> bool:
    """Whether the frame that called an operator is the one that waits for the engine: no Python of a node's own."""
    return caller is not None and caller.f_code.co_name == ENGINE


def is_dense(tensor: Any) -> bool:
    """Whether its elements lie beside each other, in whatever order."""
    size = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape)):
        if length == 1:
            continue
        if stride != size:
            return False
        size *= length
    return True
