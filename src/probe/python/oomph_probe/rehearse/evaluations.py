"""Calls without gradients that memory ran out in: an evaluation, or one before the first step. They are found once
it has: by the wrapper of the first steps, later in the traceback of the error that ends the process. So no
evaluation waits for it.
"""

from __future__ import annotations

import threading

from ..common import errors, frames, members
from . import roots
from .losses import WRAPPERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

    from ..common.protocols import Module, Torch
    from .callers import Lines
    from .roots import Call

CALLS = ("_wrapped_call_impl", "_call_impl")


class Autocast:
    """What a call was under, as it was when memory ran out."""

    def __init__(self, torch: Torch, kind: str) -> None:
        # In an operator that casts, autocast is off; how deep it is nested stays.
        nested = torch.autocast_increment_nesting() - 1
        torch.autocast_decrement_nesting()
        self.state = (
            nested > 0 or torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind),
            torch.is_autocast_cache_enabled(),
        )


def at_oom(torch: Torch, kind: str) -> Autocast | None:
    try:
        if threading.current_thread() is threading.main_thread():
            return Autocast(torch, kind)
    except Exception:
        errors.foreseen("read autocast at an OOM")
    return None


def frames_of(traceback: TracebackType | None) -> list[FrameType]:
    """Of an error, innermost first."""
    found = []
    while traceback is not None:
        found.append(traceback.tb_frame)
        traceback = traceback.tb_next
    return found[::-1]


def call_in(torch: Torch, stack: list[FrameType], before: int, autocast: Autocast | None) -> Call | None:
    """The outermost call of a model among these frames, innermost first."""
    home = frames.home_of(torch)
    for frame in reversed(stack):
        code = frame.f_code
        if code.co_name not in CALLS or not code.co_filename.startswith(home):
            continue
        found = frames.read_locals(frame, lambda values: [values.get(name) for name in ("self", "args", "kwargs")])
        module, args, kwargs = found
        if module is None or type(module).__name__ in WRAPPERS:
            continue
        call = call_of(torch, module, args or (), kwargs or {}, before)
        if call is not None and autocast is not None:
            call.autocast = autocast.state
        return call
    return None


def call_of(torch: Torch, module: Module, args: Any, kwargs: Any, before: int) -> Call | None:
    """None where it is no model on a GPU, or what it was given cannot be noted."""
    try:
        device = roots.device_of(module) or next((each.device for each in members.parameters(module)), None)
        if device is None or device.type not in roots.DEVICES:
            return None
        call = roots.Call(torch, module, args, kwargs, before, device)
        call.is_evaluation = True
        return call
    except roots.CannotNote:
        return None


def as_a_step(call: Call, before: int) -> Call | None:
    """The training step that such a call lets expect, where there was none yet; None where nothing is trained. `before`
    is the least that was allocated before such calls: later ones may find what the one before them returned."""
    module = call.module()
    if module is None or roots.device_of(module) is None:
        return None
    step = call.again()
    step.is_evaluation = False
    step.is_evaluated_first = True
    step.before = min(step.before, before)
    return step


def as_a_part(call: Call, lines: Lines) -> Call:
    """The training step that such a call begins, by the lines behind it: of a target network, a teacher."""
    step = call.again()
    step.is_evaluation = False
    step.is_without_gradients = True
    lines.give_values(step)
    return step
