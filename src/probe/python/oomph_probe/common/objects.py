"""Looks at the program's objects without running code of theirs. `isinstance` asks an object for its `__class__`, which
is what makes a lazy one load what it stands for, and a class may have a `__dict__`, an `__iter__` or a `__len__` of its
own.
"""

from __future__ import annotations

import gc
import time
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Container

    from .protocols import Torch


# By which a class of tensors does in Python what it is asked.
DISPATCH = "__torch_dispatch__"
# What Python itself makes of `__dict__`.
PYTHONS = (types.GetSetDescriptorType, types.MemberDescriptorType)
# Of all objects there are, so many are looked at between two looks at the clock.
AT_ONCE = 50_000


def is_a(thing: object, kinds: Any) -> bool:
    """Whether it is of one of these classes, whatever it says of itself."""
    return issubclass(type(thing), kinds)


def with_subclasses(kind: type) -> list[type]:
    """A class and all that are made from it."""
    found = [kind]
    for each in found:
        found.extend(type.__subclasses__(each))
    return found


def kinds_of_tensors(torch: Torch) -> list[type]:
    """The classes of tensors, without those that do in Python what they are asked: compiling leaves thousands of fake
    ones, each of which takes long to say that it has no memory, and what wraps another tensor has none of its own."""
    own = attribute_of(torch.Tensor, DISPATCH)
    return [kind for kind in with_subclasses(torch.Tensor) if attribute_of(kind, DISPATCH) is own]


def attribute_of(kind: type, name: str) -> Any:
    """What a class has or inherits by this name, without asking it; None if nothing."""
    bases = type.__getattribute__(kind, "__mro__")
    return next((own[name] for own in (type.__getattribute__(base, "__dict__") for base in bases) if name in own), None)


def instances(kinds: Container[int], until: float = float("inf")) -> list[Any] | None:
    """What the collector knows of the classes with these ids; None where the time ran out. By their ids: a metaclass
    may compare or hash in its own way. No generator: it would be among all objects, and keep them."""
    every = gc.get_objects()
    found: list[Any] = []
    for first in range(0, len(every), AT_ONCE):
        if time.monotonic() > until:
            return None
        found += [each for each in every[first : first + AT_ONCE] if id(type(each)) in kinds]
    return found


def namespace_of(thing: object) -> dict[str, Any] | None:
    """The dict of an instance's attributes, or None."""
    if not getattr(type(thing), "__dictoffset__", 0):
        return None
    for base in type(thing).__mro__:
        own = type.__getattribute__(base, "__dict__").get("__dict__")
        if own is not None and type(own) not in PYTHONS:
            return None
    try:
        found = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


def elements(sequence: Any) -> list[Any]:
    """What a list or a tuple has, also one of a class of the program's."""
    kind: Any = list if is_a(sequence, list) else tuple
    return list(kind.__iter__(sequence))


def entries(mapping: Any) -> list[tuple[Any, Any]]:
    """What a dict has, also one of a class of the program's."""
    return list(dict.items(mapping))
