"""Which part of the program the compiler's code is of. What inductor wrote runs below a line of the program's in the
forward pass, and in the backward pass below none; but both have the compiler's number of their graph. So a backward is
told by the line that called its forward, and where that is not one line, as a region of the function."""

from __future__ import annotations

import os

from ..common import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# So many lines may call one graph before nobody asks which.
MOST_CALLERS = 8


class Regions:
    """The lines of the program that have called a graph, by its number."""

    def __init__(self) -> None:
        self.callers: dict[str, set[Any]] = {}

    def learn(self, stack: list[Any], own: Any) -> None:
        """`own` is the program's innermost line of this stack."""
        if frames.is_compiled(own[0]):
            return
        graph = graph_of(stack)
        if graph is not None:
            callers = self.callers.setdefault(graph, set())
            if len(callers) < MOST_CALLERS:
                callers.add(own)

    def told(self, stack: list[Any], own: Any, inside: Any) -> tuple[Any, Any]:
        """The line that an allocation belongs to, and the library's below it: a region has none of these."""
        line = self.line_of(stack, own)
        if line == own:
            return own, inside
        return line, own if line[1] else None

    def line_of(self, stack: list[Any], own: Any) -> Any:
        if not frames.is_compiled(own[0]):
            return own
        callers = self.callers.get(graph_of(stack) or "", ())
        if len(callers) == 1:
            return next(iter(callers))
        # What compilers of other processes have left in a cache may have the same number.
        functions = {(path, name) for path, _, name in callers}
        return region(functions.pop() if len(functions) == 1 else None, own)


def region(function: tuple[str, str] | None, own: Any) -> Any:
    """`compiled region of model.py:forward`, and what the kernel makes by the names that the program has for it."""
    path, number, _ = own
    label = frames.COMPILED
    if function is not None:
        label += " of %s:%s" % (os.path.basename(function[0]), function[1])
    return label, 0, frames.made_by(path, number or 1)


def graph_of(stack: list[Any]) -> str | None:
    path = next((each["filename"] for each in stack if frames.is_compiled(each["filename"])), None)
    return None if path is None else frames.graph_in(path)
