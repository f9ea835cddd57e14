"""How far an evaluation of transformers' Trainer had come when memory ran out: its batches so far, and how many there
are, without which nobody knows what all of its outputs will take.

The length of a data set is asked only where that runs a library's or Python's own code.
"""

from __future__ import annotations

import types

from ..common import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ..common.protocols import Line

FILE = "transformers/trainer.py"
LOOPS = ("evaluation_loop", "prediction_loop")
# Samplers of samplers, and data sets of data sets.
DEEPEST = 6
# By which a loader, or a sampler, knows what it is made of; the first of them that is there.
INNER = ("batch_sampler", "base_dataloader", "sampler", "data_source", "dataset")


def of(stack: list[FrameType]) -> Line | None:
    """The line's part, or None where no such evaluation runs."""
    for frame in stack:
        if frame.f_code.co_name in LOOPS and frame.f_code.co_filename.replace("\\", "/").endswith(FILE):
            return frames.read_locals(frame, progress)
    return None


def progress(variables: dict[str, Any]) -> Line | None:
    done = variables.get("step")
    if type(done) is not int:
        return None
    line: Line = {"done": done}
    number = length(variables.get("dataloader"))
    if number is not None and number > done:
        line["of"] = number
    return line


def length(thing: Any, depth: int = DEEPEST) -> int | None:
    """The number of things in a loader, a sampler or a data set; None where only the program's own code tells."""
    method = getattr(type(thing), "__len__", None)
    if method is None or depth == 0:
        return None
    own = isinstance(method, types.FunctionType) and not is_librarys(method.__code__.co_filename)
    if own:
        return None
    if isinstance(thing, (list, tuple, dict, range)):
        return len(thing)
    parts = vars(thing) if hasattr(thing, "__dict__") else {}
    inner = [parts[name] for name in INNER if parts.get(name) is not None]
    # Its length is made of that of what it is made of.
    if any(length(each, depth - 1) is None for each in inner[:1]):
        return None
    return len(thing)


def is_librarys(path: str) -> bool:
    path = path.replace("\\", "/")
    return any(part in path for part in frames.LIBRARIES)
