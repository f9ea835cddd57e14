"""Optimizers that step in one kernel, without temporaries (`fused=True`), where the program says neither `foreach` nor
`fused` and torch's own check allows it: floating-point parameters on a GPU, of Adam, AdamW or SGD.

What is answered is the function of the algorithm, which `step` calls with what its groups say. So neither param groups
nor state dicts change: a checkpoint of a patched run is one of an unpatched run. The steps that Adam counts stay in RAM
as well; the kernel is given copies of them. Its arithmetic is in 32 bits throughout: equal to rounding.
"""

from __future__ import annotations

import inspect
import sys

from ..common import calls, errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Optimizer, Torch
    from .outcomes import Outcomes

NAME = "fused"
# torch's files and the function in each; where it is given the steps that it counts, if it is.
FUNCTIONS = (("torch.optim.adam", "adam", 5), ("torch.optim.adamw", "adamw", 5), ("torch.optim.sgd", "sgd", None))
# Their classes, which others derive from.
CLASSES = ("Adam", "AdamW", "SGD")
CHOOSES = "_default_to_fused_or_foreach"
BUFFERS = 2
MARK = "oomph_steps_in_one_kernel"


class FusedSteps:
    """The patch of this process."""

    nothing_found = (
        "no step of Adam, AdamW or SGD left the choice to torch, or torch has no fused kernel for its parameters"
    )

    def __init__(self, outcomes: Outcomes, value: str) -> None:
        if value != "on":
            raise ValueError("fused can only be switched on")
        self.outcomes = outcomes
        self.torch: Any = outcomes.torch
        self.named: list[str] = []

    def install(self) -> None:
        is_compiling = calls.is_compiling_of(self.outcomes.torch)
        found = list(functions())
        if not found:
            return self.outcomes.decline(NAME, "this version of torch has no fused optimizers")
        for module, name, at, original in found:
            setattr(module, name, self.instead(original, name, at, is_compiling))

    def instead(
        self, original: Callable[..., Any], name: str, at: int | None, is_compiling: Callable[[], bool]
    ) -> Callable[..., Any]:
        def step(params: Any, *args: Any, **kwargs: Any) -> Any:
            # A compiled step is planned as a whole.
            if is_compiling() or not self.takes(params, args, kwargs, at):
                return original(params, *args, **kwargs)
            self.note(name)
            if at is None:
                return original(params, *args, **{**kwargs, "foreach": False, "fused": True})
            return self.counting(original, params, args, kwargs, at)

        step.__doc__ = original.__doc__
        setattr(step, "__wrapped__", original)
        setattr(step, MARK, True)
        return step

    def takes(self, params: Any, args: Any, kwargs: Any, at: int | None) -> bool:
        """Whether the choice was left to torch, and its check allows a fused step."""
        try:
            if any(kwargs.get(each) for each in ("foreach", "fused", "capturable", "differentiable", "has_complex")):
                return False
            if kwargs.get("foreach") is not None or kwargs.get("fused") is not None or not params:
                return False
            if len(args) > (at or BUFFERS) or any(each.is_sparse for each in args[0]):
                return False
            if at is None and len({each is None for each in args[1]}) > 1:
                # Some have a buffer and some none yet.
                return False
            return is_allowed(self.torch, params, self.outcomes.on_cpu)
        except Exception:
            errors.foreseen("look at an optimizer's step")
            return False

    def counting(self, original: Callable[..., Any], params: Any, args: Any, kwargs: Any, at: int) -> Any:
        """With copies of the steps on the device; they are counted as without a fused step."""
        torch, steps = self.torch, args[at - 1]
        if any(each.device.type != "cpu" for each in steps):
            return original(params, *args, **{**kwargs, "foreach": False, "fused": True})
        there = torch.stack(steps).to(torch.float32)
        on = {device: there.to(device).unbind() for device in {each.device for each in params}}
        copies = [on[each.device][number] for number, each in enumerate(params)]
        if any(each.device.type == "cpu" for each in params):
            copies = [each.clone() for each in copies]
        made = original(params, *args[: at - 1], copies, *args[at:], **{**kwargs, "foreach": False, "fused": True})
        torch._foreach_add_(steps, 1)
        return made

    def note(self, name: str) -> None:
        if name not in self.named:
            self.named.append(name)
            self.outcomes.apply(NAME, "fused=True in %s: one kernel, no temporaries" % ", ".join(self.named))


def functions() -> Any:
    """torch's functions that have a fused form, with their places."""
    for file, name, at in FUNCTIONS:
        module = sys.modules.get(file)
        original = getattr(module, name, None)
        if callable(original) and "fused" in inspect.signature(original).parameters:
            yield module, name, at, original


def is_allowed(torch: Torch, params: Any, on_cpu: bool = False) -> bool:
    """By torch's own check; a GPU's alone but in tests."""
    chooses = getattr(sys.modules.get("torch.optim.optimizer"), CHOOSES, None)
    if chooses is None or not (on_cpu or all(each.device.type == "cuda" for each in params)):
        return False
    return bool(chooses(params, False, True)[0])


def is_on(torch: Torch, optimizer: Optimizer) -> bool:
    """Whether this process's optimizers step in one kernel, this one among them."""
    if not any(hasattr(function, MARK) for _, _, _, function in functions()):
        return False
    groups = optimizer.param_groups
    is_left = all(group.get(each) is None for group in groups for each in ("foreach", "fused"))
    return is_left and may_be(torch, optimizer)


def may_be(torch: Torch, optimizer: Optimizer) -> bool:
    """Whether the steps of an optimizer, which leaves the choice to torch, would be."""
    try:
        base = next((each.__name__ for each in type(optimizer).__mro__ if each.__name__ in CLASSES), None)
        if base is None or base.lower() not in {name for _, name, _, _ in functions()}:
            return False
        groups = optimizer.param_groups
        if any(group.get(each) for group in groups for each in ("capturable", "differentiable")):
            return False
        return is_allowed(torch, [each for group in groups for each in group["params"] if each.requires_grad])
    except Exception:
        errors.foreseen("whether an optimizer's step may be fused")
        return False
