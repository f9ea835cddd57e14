"""The values of a program's variables, noted for a rehearsal without keeping a tensor or a module alive: shapes for
tensors, and objects that are looked for when they are needed.
"""

from __future__ import annotations

import types
import weakref

from .inputs import Shape, with_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Torch

# Of a container so many items are noted.
MOST_ITEMS = 256
CONSTANTS = (bool, int, float, str, bytes, complex, type(None))


class Gone(Exception):
    """An object that the lines need is no longer there."""


class Kept:
    """An object of the program's, as long as it has it."""

    def __init__(self, value: Any) -> None:
        self.reference = weakref.ref(value)

    def value(self) -> Any:
        found = self.reference()
        if found is None:
            raise Gone
        return found


def note(torch: Torch, value: Any, depth: int = 4) -> Any:
    """A value with shapes for its tensors, and objects that are looked for when they are needed."""
    kind = type(value)
    if isinstance(value, torch.Tensor):
        noted = Shape(value)
        with_values(torch, noted, value)
        return noted
    if kind in CONSTANTS or kind in (torch.dtype, torch.device, types.ModuleType, types.FunctionType, type):
        return value
    if depth and kind in (list, tuple) and len(value) <= MOST_ITEMS:
        return kind(note(torch, each, depth - 1) for each in value)
    if depth and is_named(value) and len(value) <= MOST_ITEMS:
        return like(value, [note(torch, each, depth - 1) for each in value])
    if depth and isinstance(value, dict) and len(value) <= MOST_ITEMS:
        return {key: note(torch, each, depth - 1) for key, each in value.items()}
    if isinstance(value, (types.BuiltinFunctionType, types.MethodType, type)):
        return value if isinstance(value, type) or kind is types.BuiltinFunctionType else Method(value)
    try:
        return Kept(value)
    except TypeError:
        return value if is_constant(kind) else Unknown()


def is_constant(kind: type) -> bool:
    """Whether such a value never changes and holds no other: a range, a shape, one of NumPy's numbers."""
    if kind in (range, slice):
        return True
    of_torch, of_numpy = (kind.__module__ == each for each in ("torch", "numpy"))
    return of_torch and kind.__name__ == "Size" or of_numpy and hasattr(kind, "item")


def is_named(value: Any) -> bool:
    """Whether it is a tuple with names for its items, as a batch of samples may be."""
    return isinstance(value, tuple) and type(getattr(type(value), "_fields", None)) is tuple


def like(value: Any, items: list[Any]) -> Any:
    """Such a tuple of other items, made without running a constructor of the program's."""
    return tuple.__new__(type(value), items)


class Method:
    """A bound method, without its object."""

    def __init__(self, method: Any) -> None:
        self.function = method.__func__
        self.owner = note_owner(method.__self__)


def note_owner(value: Any) -> Any:
    try:
        return Kept(value)
    except TypeError:
        return Unknown()


class Unknown:
    """Something that cannot be noted."""
