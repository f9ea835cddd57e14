"""Assignments of a rehearsed forward that would change something outside of the rehearsal: a global, or an attribute
or an item of an object that was there before.

Before a line of the program's runs that assigns to such a place, the object is found by its name, in the frame's
variables and in attributes that are plainly there; no property and no `__getattr__` runs for it.
"""

from __future__ import annotations

import ast
import dis
import gc
import os
import sys

from ..common import errors, frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Callable, Container, Iterator

STORES = frozenset(
    dis.opmap[name]
    for name in (
        "STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE", "STORE_GLOBAL", "DELETE_ATTR", "DELETE_SUBSCR", "DELETE_GLOBAL",
        "STORE_DEREF", "INPLACE_ADD", "BINARY_OP",
    )
    if name in dis.opmap
)
LONGEST_FILE = 400_000
# So many objects are searched for among all others.
MOST = 30
MUTABLE = (list, dict, set, bytearray)
UNKNOWN: Any = object()
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class Before:
    """The objects that are there when it is made, by address. The collector rests from then on, so those made later are
    among its youngest: of the older ones, which are many, the addresses are noted when they are asked for first."""

    def __init__(self) -> None:
        self.youngest = frozenset(map(id, gc.get_objects(0)))
        self.older: frozenset[int] | None = None
        self.searches = 0
        # Addresses of what the rehearsal made although something of its address had been there.
        self.ours: set[int] = set()

    @property
    def addresses(self) -> Container[int]:
        if self.older is None:
            self.older = self.youngest.union(map(id, gc.get_objects(1)), map(id, gc.get_objects(2)))
        return self.older

    def has(self, value: object) -> bool:
        if id(value) in self.ours:
            return False
        # The collector does not know a dict of plain values, an array or bytes; but those who have them.
        if id(value) not in self.addresses and gc.is_tracked(value):
            return False
        # What was there and is gone may have left its address to one of the rehearsal's own.
        if self.is_young(value):
            self.ours.add(id(value))
            return False
        self.searches += 1
        if self.searches > MOST:
            return False
        if any(id(each) in self.addresses for each in gc.get_referrers(value)):
            return True
        self.ours.add(id(value))
        return False

    def is_young(self, value: object) -> bool:
        """Whether the collector, which rests meanwhile, has it among its youngest, where it was not."""
        return id(value) not in self.youngest and any(each is value for each in gc.get_objects(0))


class Place:
    """Something that a line assigns to: the object whose attribute or item it is."""

    def __init__(self, base: ast.expr | None, name: str, is_itself: bool = False) -> None:
        # None for a global or a variable of an outer function.
        self.base = base
        self.name = name
        # The object itself is changed in place (`x += …`), where it can be.
        self.is_itself = is_itself


class Changes:
    """Judges the assignments of functions as they are met."""

    def __init__(self, before: Before) -> None:
        self.before = before
        self.watched: dict[CodeType, dict[int, list[Place]]] = {}
        self.files: dict[str, dict[tuple[str, int], Any]] = {}

    def watches(self, code: CodeType) -> bool:
        """Whether a function assigns to anything but its own variables."""
        if code in self.watched:
            return bool(self.watched[code])
        places: dict[int, list[Place]] = {}
        if not STORES.isdisjoint(code.co_code[::2]):
            node = self.function(code)
            for line, place in places_of(node) if node is not None else ():
                places.setdefault(line, []).append(place)
        self.watched[code] = places
        return bool(places)

    def is_at(self, code: CodeType, line: int) -> bool:
        return line in self.watched.get(code, ())

    def function(self, code: CodeType) -> Any:
        path = code.co_filename
        if path not in self.files:
            self.files[path] = functions_of(path)
        return self.files[path].get((code.co_name, code.co_firstlineno))

    def why_not(self, frame: FrameType, line: int) -> str | None:
        for place in self.watched[frame.f_code][line]:
            if place.base is None:
                return "its forward changes %s, which is outside of the model" % place.name
            value = resolved(place.base, frame)
            if value is UNKNOWN or is_tensor(value) or place.is_itself and not is_mutable(value):
                continue
            if self.before.has(value):
                return "its forward changes %s, which is outside of the model" % place.name
        return None


def is_mutable(value: object) -> bool:
    """Whether `x += …` changes what `x` is, not only what it stands for."""
    return isinstance(value, MUTABLE) or any("__iadd__" in vars(base) for base in type(value).__mro__)


def is_tensor(value: object) -> bool:
    """Those are fakes, or become fakes before an operation has them."""
    return any(base.__name__ == "TensorBase" or base.__name__ == "Tensor" for base in type(value).__mro__)


def functions_of(path: str) -> dict[tuple[str, int], Any]:
    """The functions of a file by their name and first line, as code objects have them."""
    try:
        if os.path.getsize(path) > LONGEST_FILE:
            return {}
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError, RecursionError):
        errors.foreseen("read a source")
        return {}
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno] + [each.lineno for each in node.decorator_list])
            found[node.name, first] = node
    return found


def statements(nodes: Any) -> Iterator[ast.AST]:
    """The statements and expressions of a function, without those of functions inside."""
    for node in nodes:
        yield node
        if not isinstance(node, FUNCTIONS):
            yield from statements(ast.iter_child_nodes(node))


def places_of(function: Any) -> Iterator[tuple[int, Place]]:
    """What each line assigns to, but for the function's own variables."""
    inside = list(statements(function.body))
    outer = {name for node in inside if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
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
                    yield line, Place(None, target.id)
                elif isinstance(node, ast.AugAssign):
                    yield line, Place(as_read(target), target.id, True)
            elif isinstance(target, (ast.Attribute, ast.Subscript)):
                yield line, Place(target.value, words(target))


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


def words(node: ast.expr) -> str:
    """A place in the program's words, shortened."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return "%s.%s" % (words(node.value), node.attr)
    if isinstance(node, ast.Subscript):
        return "%s[…]" % words(node.value)
    return "…"


def resolved(node: ast.expr, frame: FrameType) -> Any:
    """The object of an expression, read without running anything."""
    if isinstance(node, ast.Name):
        name, look = node.id, frames.read_locals if hasattr(sys, "monitoring") else in_trace
        found = look(frame, lambda values: values.get(name, UNKNOWN))
        return frame.f_globals.get(name, UNKNOWN) if found is UNKNOWN else found
    if isinstance(node, ast.Attribute):
        return attribute(resolved(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        key: Any = node.slice
        # Before 3.9 it is wrapped.
        key = key.value if type(key).__name__ == "Index" else key
        wanted = key.value if isinstance(key, ast.Constant) else UNKNOWN
        if isinstance(key, ast.Name):
            wanted = resolved(key, frame)
        return item(resolved(node.value, frame), wanted)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        value = resolved(node.args[0], frame)
        return type(value) if node.func.id == "type" and value is not UNKNOWN else UNKNOWN
    return UNKNOWN


def in_trace(frame: FrameType, read: Callable[[dict[str, Any]], Any]) -> Any:
    """In a trace function what is taken out of a frame's dict is taken out of its variables."""
    return read(frame.f_locals)


def attribute(value: Any, name: str) -> Any:
    if value is UNKNOWN or is_tensor(value):
        return value
    if name == "__class__":
        return type(value)
    if isinstance(value, type):
        return next((vars(base)[name] for base in value.__mro__ if name in vars(base)), UNKNOWN)
    if not getattr(type(value), "__dictoffset__", 0) and type(value).__flags__ & (1 << 9):
        return UNKNOWN
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return UNKNOWN
    if name == "__dict__":
        return value
    for place in (own, own.get("_modules"), own.get("_buffers"), own.get("_parameters")):
        if type(place) is dict and name in place:
            return place[name]
    # Of its class: shared by all of them.
    found = next((vars(base)[name] for base in type(value).__mro__ if name in vars(base)), UNKNOWN)
    return found if isinstance(found, MUTABLE) else UNKNOWN


def item(value: Any, key: Any) -> Any:
    if value is UNKNOWN or is_tensor(value):
        return value
    try:
        if isinstance(value, dict):
            return dict.get(value, key, UNKNOWN)
        if isinstance(value, (list, tuple)) and type(key) is int:
            return value[key] if type(value) in (list, tuple) and -len(value) <= key < len(value) else UNKNOWN
    except Exception:
        errors.foreseen("look at an item")
    own = getattr(value, "__dict__", None) if getattr(type(value), "__dictoffset__", 0) else None
    modules = own.get("_modules") if type(own) is dict else None
    return modules.get(str(key), UNKNOWN) if type(modules) is dict else UNKNOWN
