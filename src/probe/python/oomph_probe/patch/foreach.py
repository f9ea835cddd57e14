"""Optimizers that step through their parameters one by one, without temporaries of all of them (`foreach=False`).

Where a program says neither `foreach` nor `fused`, torch (2.0 and later) asks one function which of them to take; it is
that function which answers otherwise. So what the program typed stays, and neither param groups nor state dicts change:
a checkpoint of a patched run is one of an unpatched run. The arithmetic is the same, its rounding may differ in the
last bit.
"""

from __future__ import annotations

import sys

from ..common import calls, errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ..common.protocols import Optimizer
    from .outcomes import Outcomes

NAME = "foreach"
# torch/optim/optimizer.py; earlier ones take foreach only where it is asked for.
SINCE = (2, 0)
CHOOSES = "_default_to_fused_or_foreach"
MARK = "oomph_takes_no_foreach"
# `step` calls the function of the algorithm, around which there may be a wrapper.
NEAR = 4


class NoForeach:
    """The patch of this process."""

    nothing_found = (
        "no optimizer left the choice to torch, or it would not have taken foreach (foreach or fused is typed, or the"
        " optimizer is not torch's)"
    )

    def __init__(self, outcomes: Outcomes, value: str) -> None:
        if value != "off":
            raise ValueError("foreach can only be switched off")
        self.outcomes = outcomes
        self.named: list[str] = []
        # The functions that have asked.
        self.seen: set[Any] = set()

    def install(self) -> None:
        outcomes = self.outcomes
        if outcomes.version < SINCE:
            return outcomes.decline(NAME, "needs torch 2.0 or later: before, foreach is only used where it is typed")
        original = getattr(sys.modules["torch.optim.optimizer"], CHOOSES)
        is_compiling = calls.is_compiling_of(outcomes.torch)
        choose = self.choose

        def chosen(params: Any, differentiable: Any, use_fused: Any = False) -> Any:
            made = original(params, differentiable, use_fused)
            # A compiled step is planned as a whole.
            return made if is_compiling() else choose(made)

        setattr(chosen, MARK, True)
        # Each of torch's files has the function under its own name; others take it from the first one.
        for name, module in list(sys.modules.items()):
            if name.startswith("torch.optim.") and vars(module).get(CHOOSES) is original:
                setattr(module, CHOOSES, chosen)

    def choose(self, made: Any) -> Any:
        """What the step takes instead of torch's choice `(fused, foreach)`."""
        try:
            fused, foreach = made
            if fused or not (foreach or self.outcomes.on_cpu):
                return made
            self.note()
            return False, False
        except BaseException:
            errors.refused("choose how an optimizer steps")
            return made

    def note(self) -> None:
        frame = sys._getframe(3)
        if frame.f_code not in self.seen:
            self.seen.add(frame.f_code)
            self.named.append(caller(frame))
            self.outcomes.apply(NAME, "foreach=False in %s: parameters one by one" % ", ".join(self.named))


def is_off(optimizer: Optimizer) -> bool:
    """Whether this process's optimizers step without foreach, this one among them."""
    is_left = all(group.get("foreach") is None for group in optimizer.param_groups)
    return is_left and hasattr(getattr(sys.modules.get("torch.optim.optimizer"), CHOOSES, None), MARK)


def caller(frame: FrameType | None) -> str:
    """The optimizer whose step asks: its class where the step is near on the stack, else the function."""
    function = frame.f_code.co_name if frame is not None else "?"
    for _ in range(NEAR):
        if frame is not None and "self" in frame.f_code.co_varnames[:1]:
            return type(frame.f_locals["self"]).__name__
        frame = None if frame is None else frame.f_back
    return function
