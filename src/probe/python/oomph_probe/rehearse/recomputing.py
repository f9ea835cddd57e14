"""Activation checkpointing of repeated blocks in a rehearsal, as the patch of that name does it (patch/recompute.py):
of the same blocks, and without the ones that it would leave alone when it sees their calls.
"""

from __future__ import annotations

import functools

from ..common import blocks, members
from ..patch import purity
from ..patch.recompute import flatten_tensors, switch_on, with_own_switch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Args, Kwargs, Module, Torch
    from .trace import Trace


# Where transformers' layers keep what they are checkpointed with.
FUNCTION = "_gradient_checkpointing_func"


def recompute(torch: Torch, model: Module, trace: Trace) -> int:
    """How many blocks of a model, a copy, will be recomputed in its backward pass. What is only tried does not count as
    work of the trace."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils.checkpoint import checkpoint

    if by_own_switch(model, checkpoint):
        return 1
    found = 0
    for group in blocks.find(model):
        if group.why_not is None:
            build = Build(torch, trace, FakeTensor)
            for block in group.members:
                setattr(block, "forward", build.recomputing(block, checkpoint))
                found += 1
    return found


def by_own_switch(model: Module, checkpoint: Callable[..., Any]) -> bool:
    """Whether the model was told to checkpoint itself: what its layers are given then may be other than without."""
    module = with_own_switch(model)
    if module is None or getattr(module, "is_gradient_checkpointing", False) or not switch_on(module):
        return False
    run = functools.partial(checkpoint, use_reentrant=False, preserve_rng_state=False, determinism_check="none")
    for part in members.modules(module):
        if FUNCTION in vars(part):
            setattr(part, FUNCTION, run)
    return True


class Build:
    """Blocks with the same structure. What one call of theirs shows is true of all of them."""

    def __init__(self, torch: Torch, trace: Trace, fake: type) -> None:
        self.torch = torch
        self.trace = trace
        self.fake = fake
        # Until a call was looked at.
        self.is_left: bool | None = None

    def recomputing(self, block: Module, checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        """The block's forward, recomputed where it may be."""
        forward = block.forward

        def run(*args: Any, **kwargs: Any) -> Any:
            if self.is_left is None:
                self.is_left = self.may_change(args, kwargs) or self.changes(block, forward, args, kwargs)
            # The patch leaves a block with hooks alone, and every call that may change what it is given.
            if self.is_left or blocks.has_hooks(block) or self.may_change(args, kwargs):
                return forward(*args, **kwargs)
            return checkpoint(
                forward, *args, use_reentrant=False, preserve_rng_state=False, determinism_check="none", **kwargs
            )

        return run

    def may_change(self, args: Args, kwargs: Kwargs) -> bool:
        return purity.unsupported_argument(self.torch, args, kwargs, (self.fake,)) is not None

    def changes(self, block: Module, forward: Callable[..., Any], args: Args, kwargs: Kwargs) -> bool:
        """Whether one run of a block changes what a second would change again: tried with tensors like those that it
        was given, without gradients, so that nothing of it stays."""
        torch, flops = self.torch, self.trace.flops
        tensors, rebuild = flatten_tensors(torch, args, kwargs)
        with torch.no_grad():
            given, named = rebuild([torch.empty_like(each) for each in tensors])
            look = purity.StateCheck(torch, block, given, named)
            forward(*given, **named)
        self.trace.flops = flops
        return look.what_changed() is not None
