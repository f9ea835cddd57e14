"""Assignments of a rehearsed forward that would change something outside of the rehearsal: a global, or an attribute
or an item of an object that was there before.

Before a line of the program's runs that assigns to such a place, the object is found by its name, in the frame's
variables and in attributes that are plainly there (reading.py). What a line takes or changes without an event
(unseen.py) is found in the same way.
"""

from __future__ import annotations

import ast
import dis

from ..common import errors
from . import sources, unseen
from .reading import MUTABLE, UNKNOWN, is_tensor, resolved, statements, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Iterator

    from .before import Before

STORES = frozenset(
    dis.opmap[name]
    for name in (
        "STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE", "STORE_GLOBAL", "DELETE_ATTR", "DELETE_SUBSCR", "DELETE_GLOBAL",
        "STORE_DEREF", "INPLACE_ADD", "BINARY_OP",
    )
    if name in dis.opmap
)


class Place:
    """Something that a line assigns to: the object whose attribute or item it is."""

    def __init__(self, base: ast.expr | None, name: str, is_itself: bool = False, is_global: bool = False) -> None:
        # None for a global or a variable of an outer function.
        self.base = base
        self.name = name
        self.is_global = is_global
        # The object itself is changed in place (`x += …`), where it can be.
        self.is_itself = is_itself

    def why_not(self, frame: FrameType, before: Before) -> str | None:
        if self.base is not None:
            value = resolved(self.base, frame)
            if value is UNKNOWN or is_tensor(value) or self.is_itself and not is_mutable(value):
                return None
            if not before.has(value):
                return None
        elif self.is_global and not before.has(frame.f_globals):
            # A copy of the module's.
            return None
        return "its forward changes %s, which is outside of the model" % self.name

    def outside(self, frame: FrameType) -> Any:
        """What is changed."""
        if self.base is not None:
            return resolved(self.base, frame)
        return frame.f_globals if self.is_global else None


class Changes:
    """Judges the lines of functions as they are met."""

    def __init__(self, before: Before) -> None:
        self.before = before
        # What the line that is judged changes.
        self.outside: Any = None
        # By the line, what is judged before it.
        self.watched: dict[CodeType, dict[int, list[Any]]] = {}
        # The functions whose arguments are judged there.
        self.judged: dict[CodeType, set[str]] = {}
        self.sources = sources.Sources()

    def watches(self, code: CodeType) -> bool:
        """Whether a line of a function is to be judged."""
        if code in self.watched:
            return bool(self.watched[code])
        places: dict[int, list[Any]] = {}
        judged: set[str] = set()
        may_store, may_take = not STORES.isdisjoint(code.co_code[::2]), unseen.may_be_in(code)
        for node in self.functions(code) if may_store or may_take else ():
            for line, place in places_of(node):
                places.setdefault(line, []).append(place)
            for line, name, place in unseen.places_of(node) if may_take else ():
                if name in unseen.WITHOUT_ARGUMENT:
                    judged.add(name)
                places.setdefault(line, []).append(place)
        self.judged[code] = judged
        self.watched[code] = places
        return bool(places)

    def is_at(self, code: CodeType, line: int) -> bool:
        return line in self.watched.get(code, ())

    def judges(self, code: CodeType, name: str) -> bool:
        """Whether the arguments of this function are judged where such a function calls it."""
        return name in self.judged.get(code, ())

    def functions(self, code: CodeType) -> list[Any]:
        """The function in its source; of several lambdas of one line all that it may be."""
        try:
            found = self.sources.functions_of(code)
        except sources.NotFound:
            errors.foreseen("read a source")
            return []
        if len(found) < 2:
            return found
        return [node for node in found if names_of(node).issuperset(code.co_names)]

    def why_not(self, frame: FrameType, line: int) -> str | None:
        for place in self.watched[frame.f_code][line]:
            why: str | None = place.why_not(frame, self.before)
            if why is not None:
                self.outside = place.outside(frame)
                return why
        return None


def is_mutable(value: object) -> bool:
    """Whether `x += …` changes what `x` is, not only what it stands for."""
    return isinstance(value, MUTABLE) or any("__iadd__" in vars(base) for base in type(value).__mro__)


def names_of(function: Any) -> set[str]:
    """The names that a function has of others."""
    nodes = list(ast.walk(function))
    found = {node.id for node in nodes if isinstance(node, ast.Name)}
    return found | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def places_of(function: Any) -> Iterator[tuple[int, Place]]:
    """What each line assigns to, but for the function's own variables."""
    inside = [node for _, node in statements(function)]
    of_module = {name for node in inside if isinstance(node, ast.Global) for name in node.names}
    outer = of_module | {name for node in inside if isinstance(node, ast.Nonlocal) for name in node.names}
    for node in inside:
        if isinstance(node, (ast.Assign, ast.Delete)):
            targets = list(node.targets)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For, ast.NamedExpr)):
            targets = [node.target]
        elif isinstance(node, ast.With):
            targets = [each.optional_vars for each in node.items if each.optional_vars is not None]
        else:
            continue
        for target in flat(targets):
            line = getattr(node, "lineno", 0)
            if isinstance(target, ast.Name):
                if target.id in outer:
                    yield line, Place(None, target.id, is_global=target.id in of_module)
                elif isinstance(node, ast.AugAssign):
                    yield line, Place(as_read(target), target.id, True)
            elif isinstance(target, (ast.Attribute, ast.Subscript)):
                yield line, Place(target.value, words(target))
                if isinstance(node, ast.AugAssign):
                    # Of the copy's attribute, but what it stands for may be shared (an array).
                    yield line, Place(target, words(target), True)


def flat(targets: Any) -> Iterator[ast.expr]:
    for target in targets:
        if isinstance(target, (ast.Tuple, ast.List)):
            yield from flat(target.elts)
        elif isinstance(target, ast.Starred):
            yield from flat([target.value])
        else:
            yield target


def as_read(target: ast.Name) -> ast.expr:
    return ast.Name(id=target.id, ctx=ast.Load())
