"""The states of the random numbers: a rehearsal takes some (a layer that is dropped by chance, a checkpoint that
puts a state back), and the program goes on with its own."""

from __future__ import annotations

import sys

from ..common import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Torch


class Randoms:
    """Python's, numpy's and torch's generators as they are now."""

    def __init__(self, torch: Torch) -> None:
        self.back: list[Callable[[], Any]] = []
        random: Any = sys.modules.get("random")
        if random is not None and hasattr(random, "getstate"):
            self.keep(random.getstate, random.setstate)
        numpy: Any = sys.modules.get("numpy")
        # Not imported for this: what is not there has no state.
        if numpy is not None and "numpy.random" in sys.modules:
            self.keep(numpy.random.get_state, numpy.random.set_state)
        generators = [torch.default_generator]
        if torch.cuda.is_initialized():
            generators += list(torch.cuda.default_generators)
        for generator in generators:
            self.keep(generator.get_state, generator.set_state)

    def keep(self, get: Callable[[], Any], put: Callable[[Any], Any]) -> None:
        try:
            state = get()
            self.back.append(lambda: put(state))
        except Exception:
            errors.foreseen("keep the state of random numbers")

    def put_back(self) -> None:
        for each in self.back:
            try:
                each()
            except Exception:
                errors.ours("put back the state of random numbers")


def is_generator(owner: type) -> bool:
    return any(
        base.__module__ == "_random"
        or base.__module__.startswith("numpy.random")
        or (base.__module__, base.__name__) == ("torch._C", "Generator")
        for base in owner.__mro__
    )


def is_shared_generator(bound: object) -> bool:
    """Whether it is the one whose state is put back afterwards (randoms.py)."""
    random: Any = sys.modules.get("random")
    mtrand: Any = sys.modules.get("numpy.random.mtrand")
    torch: Any = sys.modules.get("torch")
    shared = [getattr(random, "_inst", None), getattr(mtrand, "_rand", None), getattr(torch, "default_generator", None)]
    shared += list(getattr(getattr(torch, "cuda", None), "default_generators", ()))
    return any(bound is each for each in shared)
