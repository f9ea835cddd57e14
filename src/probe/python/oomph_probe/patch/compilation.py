"""What torch.compile is told: to keep a share of the activations that its graphs save (`budget=50`, in percent), and to
take sizes as variables (`dynamic=on`). Both are options of torch's own, set before the program compiles anything; what
the program sets itself afterwards is in force.
"""

from __future__ import annotations

import functools
import importlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .outcomes import Outcomes

BUDGET, DYNAMIC = "budget", "dynamic"
CONFIG, OPTION = "torch._functorch.config", "activation_memory_budget"


class CompileOptions:
    """The patches of this kind in this process."""

    def __init__(self, outcomes: Outcomes) -> None:
        self.outcomes = outcomes
        self.chosen: list[str] = []
        self.percent = 100
        self.compiled = 0

    def choose(self, name: str, value: str) -> None:
        if name == BUDGET:
            self.percent = int(value)
            if not 0 <= self.percent <= 100:
                raise ValueError("a budget is given in percent")
        elif value != "on":
            raise ValueError("dynamic can only be switched on")
        self.chosen.append(name)

    def install(self) -> None:
        """Right after `import torch`."""
        if BUDGET in self.chosen:
            self.set_budget()
        if DYNAMIC in self.chosen:
            self.wrap_compile()

    def set_budget(self) -> None:
        config = importlib.import_module(CONFIG)
        if not hasattr(config, OPTION):
            return self.outcomes.decline(BUDGET, "this version of torch has no budget for activations")
        setattr(config, OPTION, self.percent / 100.0)

    def wrap_compile(self) -> None:
        torch: Any = self.outcomes.torch
        original = torch.compile

        def compiled(*args: Any, **kwargs: Any) -> Any:
            if not kwargs.get("dynamic"):
                self.compiled += 1
                kwargs = dict(kwargs, dynamic=True)
            return original(*args, **kwargs)

        torch.compile = functools.wraps(original)(compiled)

    def settle(self) -> None:
        for name in self.chosen:
            if name in self.outcomes.said:
                continue
            if name == DYNAMIC and self.compiled:
                self.outcomes.apply(DYNAMIC, "torch.compile takes sizes as variables (%d times)" % self.compiled)
            elif name == BUDGET and has_compiled() and self.is_set():
                words = "compiled graphs keep up to %d %% of their activations" % self.percent
                self.outcomes.apply(BUDGET, words)
            elif name == BUDGET and has_compiled():
                self.outcomes.decline(BUDGET, "the program sets another budget itself")
            else:
                self.outcomes.decline(name, "nothing was compiled in the first steps")

    def is_set(self) -> bool:
        return bool(getattr(sys.modules.get(CONFIG), OPTION, None) == self.percent / 100.0)


def has_compiled() -> bool:
    utils = sys.modules.get("torch._dynamo.utils")
    return utils is not None and bool(utils.counters.get("frames"))
