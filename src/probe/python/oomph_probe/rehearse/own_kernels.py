"""Which optimizers' steps are compiled: inductor computes each parameter's by itself, and makes no temporaries of all
of them at once, which the same step in lists (`foreach`) does. Told before the first step is compiled: by the
optimizer's own `step`, by the compiled function that runs, and by those that the program's frames have (variables,
globals, what `self` has) and that call the step of an optimizer which they reach.
"""

from __future__ import annotations

import types

from ..common import errors, frames, objects
from . import compiling, functions, optimizers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Iterator

    from ..common.protocols import Torch

STEP = "step"
# So many variables of a frame, globals of a module and attributes of an object are looked at.
MOST = 2000


def of(torch: Torch, stack: list[FrameType]) -> frozenset[int]:
    """The ids of optimizers whose steps are compiled, as far as that is told by these frames."""
    try:
        every = optimizers.there.all(torch)
        found = {id(each) for each in every if is_compiled(vars(each).get(STEP))}
        if every and compiling.is_imported():
            found.update(id(each) for each in stepped(torch, stack))
        return frozenset(found)
    except Exception:
        errors.ours("look for compiled steps")
        return frozenset()


def is_compiled(value: Any) -> bool:
    return type(value) is types.FunctionType and compiling.ORIGINAL in value.__dict__


def stepped(torch: Torch, stack: list[FrameType]) -> Iterator[Any]:
    home = frames.home_of(torch)
    for frame in stack:
        if frame.f_code.co_name == functions.WRAPPER:
            function, args, kwargs = frames.read_locals(frame, parts_of)
            yield from stepped_by(torch, function, [*(args or ()), *(kwargs or {}).values()])
        elif not frame.f_code.co_filename.startswith((home, *frames.OURS, "<frozen")):
            for function in functions_of(frame):
                yield from stepped_by(torch, function, [])


def parts_of(values: dict[str, Any]) -> list[Any]:
    return [values.get(name) for name in functions.PARTS]


def functions_of(frame: FrameType) -> list[Any]:
    """The compiled functions that a frame has."""
    values: dict[str, Any] = frames.read_locals(frame, lambda found: dict(list(found.items())[:MOST]))
    own = objects.namespace_of(values.get("self")) or {}
    every = [*values.values(), *list(own.values())[:MOST], *list(frame.f_globals.values())[:MOST]]
    return [each for each in every if is_compiled(each)]


def stepped_by(torch: Torch, function: Any, given: list[Any]) -> list[Any]:
    """The optimizers that a compiled function reaches, where it calls a step; `given` are its arguments."""
    written = compiling.as_written(function)
    owner = getattr(written, "__self__", None)
    if isinstance(owner, torch.optim.Optimizer):
        return [owner] if getattr(written, "__name__", "") == STEP else []
    plain = getattr(written, "__func__", written)
    if type(plain) is not types.FunctionType or not calls_step(plain.__code__):
        return []
    reached = [*given, *functions.cells_of(plain).values(), *functions.globals_of(plain)]
    for each in (owner, *given[:1]):
        # An object of the program's that has it (`self.optimizer`).
        reached += list((objects.namespace_of(each) or {}).values())[:MOST]
    return [each for each in reached if isinstance(each, torch.optim.Optimizer)]


def calls_step(code: CodeType) -> bool:
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return STEP in code.co_names or any(map(calls_step, inner))
