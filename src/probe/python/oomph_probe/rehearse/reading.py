"""Objects of a running frame, read by an expression of its source without running anything: no property and no
`__getattr__` runs for it.
"""

from __future__ import annotations

import ast
import sys

from ..common import errors, frames, objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable, Iterator

UNKNOWN: Any = object()
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
MUTABLE = (list, dict, set, bytearray)


def statements(function: Any) -> Iterator[tuple[int, ast.AST]]:
    """The statements and expressions of a function and the lines before which they have not run, without those of
    functions inside. A comprehension may be a function of its own: all of it counts as where it begins."""
    body = function.body if isinstance(function.body, list) else [function.body]
    waiting: list[tuple[Any, int, bool]] = [(node, 0, False) for node in reversed(body)]
    while waiting:
        node, line, is_inner = waiting.pop()
        line = line if is_inner else getattr(node, "lineno", line)
        yield line, node
        if not isinstance(node, FUNCTIONS):
            is_inner = is_inner or isinstance(node, COMPREHENSIONS)
            waiting += [(each, line, is_inner) for each in reversed(list(ast.iter_child_nodes(node)))]


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
    if objects.is_a(value, type):
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
    return found if objects.is_a(found, MUTABLE) else UNKNOWN


def item(value: Any, key: Any) -> Any:
    if value is UNKNOWN or is_tensor(value):
        return value
    try:
        if objects.is_a(value, dict):
            return dict.get(value, key, UNKNOWN)
        if objects.is_a(value, (list, tuple)) and type(key) is int:
            return value[key] if type(value) in (list, tuple) and -len(value) <= key < len(value) else UNKNOWN
    except Exception:
        errors.foreseen("look at an item")
    own = getattr(value, "__dict__", None) if getattr(type(value), "__dictoffset__", 0) else None
    modules = own.get("_modules") if type(own) is dict else None
    return modules.get(str(key), UNKNOWN) if type(modules) is dict else UNKNOWN


def is_tensor(value: object) -> bool:
    """Those are fakes, or become fakes before an operation has them."""
    return any(base.__name__ == "TensorBase" or base.__name__ == "Tensor" for base in type(value).__mro__)


def words(node: ast.expr) -> str:
    """A place in the program's words, shortened."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return "%s.%s" % (words(node.value), node.attr)
    if isinstance(node, ast.Subscript):
        return "%s[…]" % words(node.value)
    return "…"
