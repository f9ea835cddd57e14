"""The checkpoint that `torch.load` was reading when memory ran out: how large its file is, and why loading it to the
CPU would be left alone, if so.
"""

from __future__ import annotations

import os

from ..common import frames
from ..patch import loading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from ..common.protocols import Line

FILE = "torch/serialization.py"


def of(stack: list[FrameType]) -> Line | None:
    """The record's part, or None where nothing is loaded. `stack` is innermost first."""
    for at, frame in enumerate(stack):
        if frame.f_code.co_name == "load" and frame.f_code.co_filename.replace("\\", "/").endswith(FILE):
            path, place = frames.read_locals(frame, lambda values: (values.get("f"), values.get("map_location")))
            left = loading.why_not(path, place, caller_of(stack[at + 1 :]))
            line: Line = {} if left is None else {"left": left}
            if isinstance(path, (str, os.PathLike)):
                line["bytes"] = os.stat(path).st_size
            return line
    return None


def caller_of(outer: list[FrameType]) -> FrameType | None:
    """The first that is not of our own wrapper."""
    ours = vars(loading)
    return next((frame for frame in outer if frame.f_globals is not ours), None)
