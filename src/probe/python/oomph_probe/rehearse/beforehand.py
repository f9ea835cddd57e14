"""What a program has made of its batch before its steps, and what its variables hold all the time: the features of a
style image for each sample, a mask with so many rows. With a smaller batch it is less.
"""

from __future__ import annotations

import time

from ..common import errors, frames
from ..live import graphs
from . import sources
from .inputs import Shape, bytes_of
from .noting import MOST_ITEMS, is_named
from .statements import LOOPS, bound_by, path_to_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from ..common.protocols import Torch
    from .roots import Call

# Seconds for the graphs behind what a forward has made.
PATIENCE = 0.1
# Lists in lists.
DEEPEST = 3


def made_before(torch: Torch, places: list[tuple[CodeType, int, int]], stack: list[FrameType]) -> list[Shape]:
    """The tensors that variables of the running functions hold, but for those that each step binds anew. `places` are
    the functions that called the model, innermost first."""
    found: dict[int, Shape] = {}
    is_around_steps = False
    for code, _, line in places:
        frame = next((each for each in stack if each.f_code is code), None)
        if frame is None:
            continue
        try:
            names, has_loop = bound_in_steps(code, line)
        except sources.NotFound:
            # Text that is no file.
            errors.foreseen("look for what was made before the steps")
            continue
        if is_around_steps:
            names = set()
        for tensor in tensors_of(torch, frame, names):
            found.setdefault(id(tensor), Shape(tensor))
        is_around_steps = is_around_steps or has_loop
    return list(found.values())


def made_in_step(torch: Torch, places: list[tuple[CodeType, int, int]], stack: list[FrameType]) -> list[Shape]:
    """The tensors that a forward has made before it called the part of the model that was seen, as a forward that is
    called by its name has: what its variables hold, and what their graphs have saved."""
    found: dict[int, Shape] = {}
    walk = graphs.Graphs(torch, {}, time.monotonic() + PATIENCE)
    for code, _, line in places:
        frame = next((each for each in stack if each.f_code is code), None)
        if frame is None or bound_in_steps(code, line)[1]:
            break
        for tensor in tensors_of(torch, frame, set()):
            found.setdefault(id(tensor), Shape(tensor))
            for saved in walk.saved_behind(tensor):
                found.setdefault(id(saved), Shape(saved))
    return list(found.values())


def bound_in_steps(code: CodeType, line: int) -> tuple[set[str], bool]:
    """The variables that a function binds in the innermost loop around its call, and whether there is one; without one
    all that it binds, since it is called anew in each step."""
    body = sources.CUT.body_of(code)
    path = path_to_line(body, line) or []
    loops = [block[at] for block, at in path[:-1] if isinstance(block[at], LOOPS)]
    return {name for each in loops[-1:] or body for name in bound_by(each)}, bool(loops)


def tensors_of(torch: Torch, frame: FrameType, but: set[str]) -> list[Any]:
    def read(values: dict[str, Any]) -> list[Any]:
        return [each for name, value in dict(values).items() if name not in but for each in tensors_in(torch, value)]

    found: list[Any] = frames.read_locals(frame, read)
    return found


def tensors_in(torch: Torch, value: Any, depth: int = DEEPEST) -> list[Any]:
    """The tensors in plain containers, without those that are trained."""
    if type(value) is torch.Tensor:
        return [] if value.is_leaf and value.requires_grad else [value]
    is_list = type(value) in (list, tuple) or is_named(value)
    if depth and (is_list or type(value) is dict) and len(value) <= MOST_ITEMS:
        items = list(value) if is_list else list(dict.values(value))
        return [each for item in items for each in tensors_in(torch, item, depth - 1)]
    return []


def bytes_of_batch(torch: Torch, call: Call, batch: int, counted: list[Shape], is_first: bool) -> int:
    """Of what was made before the steps, the bytes of what has a row for each sample; `counted` are the tensors that
    are known already. Where the call `is_first` of what is rehearsed, what its own step has made before it as well."""
    known = {shape.storage for shape in counted}
    made = [
        shape for shape in (*call.made_before, *(call.made_in_step if is_first else ()))
        if batch > 1 and len(shape.shape) > 1 and shape.shape[0] == batch and shape.storage not in known
    ]
    return bytes_of(torch, made, call.device)
