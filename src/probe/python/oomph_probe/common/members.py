"""The modules and parameters of a model, found without running any code of the program's: a class may have a
`parameters`, a `modules` or a `__hash__` of its own that prints, counts or leaves something out.
"""

from __future__ import annotations

import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .protocols import Module, Tensor


def modules(root: Module) -> Iterator[Module]:
    """Each module once, in the order of torch's own `modules()`."""
    for _, module in named_modules(root):
        yield module


def named_modules(root: Module) -> Iterator[tuple[str, Module]]:
    """Each module once, with the first of its names; the root's is empty."""
    seen: set[int] = set()
    waiting = [("", root)]
    while waiting:
        name, module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield name, module
        before = name + "." if name else ""
        waiting += [(before + key, child) for key, child in reversed(named_children(module))]


def children(module: Module) -> list[Module]:
    return list({id(child): child for _, child in named_children(module)}.values())


def named_children(module: Module) -> list[tuple[str, Module]]:
    return [(name, child) for name, child in held(module, "_modules") if child is not None]


def parameters(root: Module) -> Iterator[Tensor]:
    """Each parameter once."""
    return tensors(root, "_parameters")


def buffers(root: Module) -> Iterator[Tensor]:
    """Each buffer once."""
    return tensors(root, "_buffers")


def tensors(root: Module, where: str) -> Iterator[Tensor]:
    seen: set[int] = set()
    for module in modules(root):
        for _, tensor in held(module, where):
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield tensor


def held(module: Module, where: str) -> list[tuple[str, Any]]:
    """What torch keeps in a place of the module's; a scripted module has the names of another kind of dict there."""
    found: Any = object.__getattribute__(module, "__dict__").get(where)
    return list(found.items()) if found is not None else []


class Known:
    """Modules by identity, none of which is kept alive."""

    def __init__(self) -> None:
        self.by_id: dict[int, weakref.ref[Any]] = {}

    def add(self, module: Module) -> None:
        key = id(module)
        self.by_id[key] = weakref.ref(module, lambda gone: self.forget(key, gone))

    def forget(self, key: int, gone: weakref.ref[Any]) -> None:
        if self.by_id.get(key) is gone:
            del self.by_id[key]

    def __contains__(self, module: Module) -> bool:
        known = self.by_id.get(id(module))
        return known is not None and known() is module
