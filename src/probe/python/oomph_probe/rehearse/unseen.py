"""What a line takes from, or changes, without an event that tells of it: an iterator that a `for` or `list` empties, a
generator of random numbers that is written in Cython, a list that `heapq` or `random.shuffle` rearranges.

So the line is judged before it runs, by the objects that its names stand for. Some of this no version of Python tells
of, some only those from 3.12 on, and those before tell of `next` and `setattr` without their arguments.
"""

from __future__ import annotations

import ast
import dis
import sys

from . import randoms
from .reading import COMPREHENSIONS, MUTABLE, UNKNOWN, is_tensor, resolved, statements, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Iterator

    from .before import Before

# What takes all that an iterator has.
EXHAUSTING = frozenset("list tuple set frozenset dict deque sorted sum min max any all".split())
TAKING = EXHAUSTING | frozenset("extend extendleft update join fromkeys fromiter Counter OrderedDict reduce".split())
# What passes on what it takes: who takes from it takes from its arguments.
PASSING = frozenset("iter enumerate zip map filter islice chain cycle takewhile tqdm".split())
OF_ITERATORS = frozenset("__next__ send throw close".split())
# Functions that change their first argument, and that are Python's own or an extension's that only computes.
CHANGING = frozenset(
    "shuffle heappush heappop heapify heapreplace heappushpop insort insort_left insort_right setitem delitem iadd"
    " iconcat copyto put place putmask fill_diagonal put_along_axis".split()
)
# What is told of without its argument before Python 3.12.
WITHOUT_ARGUMENT = frozenset(("next", "setattr", "delattr"))
OUT = "out"
METHODS = frozenset("method cython_function_or_method builtin_function_or_method builtin_method".split())
OPERATIONS = frozenset(
    dis.opmap[name]
    for name in (
        "GET_ITER", "GET_YIELD_FROM_ITER", "UNPACK_SEQUENCE", "UNPACK_EX", "LIST_EXTEND", "SET_UPDATE",
        "CALL_FUNCTION_EX", "BINARY_SUBSCR", "BINARY_OP", "CONTAINS_OP", "COMPARE_OP",
    )
    if name in dis.opmap
)
FRESH = COMPREHENSIONS + (ast.Call, ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set)


class Unseen:
    """A place of a line."""

    def outside(self, frame: FrameType) -> Any:
        """What is changed, where a copy of it could be."""
        return None


class Taken(Unseen):
    """An iterator that is taken from."""

    def __init__(self, node: ast.expr, must_be_known: bool = False) -> None:
        self.node = node
        self.must_be_known = must_be_known

    def why_not(self, frame: FrameType, before: Before) -> str | None:
        value = resolved(self.node, frame)
        if value is UNKNOWN:
            is_taken = self.must_be_known and not isinstance(self.node, FRESH)
        else:
            is_taken = is_iterator(value) and before.has(value)
        return "its forward takes from an iterator outside of the model" if is_taken else None


class Drawn(Unseen):
    """A method, which may be one of a generator of random numbers."""

    def __init__(self, node: ast.expr) -> None:
        self.node = node

    def why_not(self, frame: FrameType, before: Before) -> str | None:
        value = resolved(self.node.value if isinstance(self.node, ast.Attribute) else self.node, frame)
        if isinstance(self.node, ast.Name) and value is not UNKNOWN:
            value = getattr(value, "__self__", None) if is_method(value) else None
        if value is UNKNOWN or not randoms.is_generator(type(value)) or randoms.is_shared_generator(value):
            return None
        if not before.has(value):
            return None
        return "its forward draws from a generator of its own (%s)" % type(value).__name__


class Changed(Unseen):
    """An object that a function changes. `must_be_known`: of whatever kind it is."""

    def __init__(self, node: ast.expr, must_be_known: bool = False) -> None:
        self.node = node
        self.must_be_known = must_be_known

    def why_not(self, frame: FrameType, before: Before) -> str | None:
        value = resolved(self.node, frame)
        if value is not UNKNOWN:
            can_be = self.must_be_known or isinstance(value, MUTABLE) or type(value).__name__ in ("ndarray", "array")
            is_changed = can_be and not is_tensor(value) and before.has(value)
        else:
            is_changed = self.must_be_known and not isinstance(self.node, FRESH)
        return "its forward changes %s, which is outside of the model" % words(self.node) if is_changed else None

    def outside(self, frame: FrameType) -> Any:
        value = resolved(self.node, frame)
        return None if value is UNKNOWN else value


class Missed(Unseen):
    """A dict that makes an entry where it has none."""

    def __init__(self, node: ast.Subscript) -> None:
        self.node = node

    def why_not(self, frame: FrameType, before: Before) -> str | None:
        value = resolved(self.node.value, frame)
        if getattr(type(value), "__name__", "") != "defaultdict" or value.default_factory is None:
            return None
        if resolved(self.node, frame) is not UNKNOWN or not before.has(value):
            return None
        return "its forward changes %s, which is outside of the model" % words(self.node)

    def outside(self, frame: FrameType) -> Any:
        return resolved(self.node.value, frame)


def may_be_in(code: CodeType) -> bool:
    """Whether a function may do any of this."""
    names = frozenset(code.co_names)
    return (
        not OPERATIONS.isdisjoint(code.co_code[::2])
        or not names.isdisjoint(TAKING | CHANGING | WITHOUT_ARGUMENT | OF_ITERATORS)
        or not names.isdisjoint(drawing())
        or any(type(each) is tuple and OUT in each for each in code.co_consts)
    )


def drawing() -> frozenset[str]:
    """The methods of the generators that there are."""
    known = (("random", "Random"), ("numpy.random", "Generator"), ("numpy.random", "RandomState"))
    kinds = [getattr(sys.modules.get(module), name, None) for module, name in known]
    return frozenset(name for kind in kinds if kind is not None for name in vars(kind) if name[:1] != "_")


def places_of(function: Any) -> Iterator[tuple[int, str, Any]]:
    """The line, the function whose arguments are judged there (else nothing), and what is judged."""
    for line, node in statements(function):
        name = name_of(node.func) if isinstance(node, ast.Call) else ""
        for place in in_node(node, name):
            yield line, name, place
            # The first line of a `for` or a call that is broken may come behind those of its parts.
            if isinstance(node, (ast.For, ast.Call)) and place.node.lineno != line:
                yield place.node.lineno, name, place


def in_node(node: ast.AST, name: str) -> Iterator[Any]:
    if isinstance(node, ast.Call):
        yield from in_call(node, name)
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield from taken(node.iter)
    elif isinstance(node, (ast.Starred, ast.YieldFrom)):
        yield from taken(node.value)
    elif isinstance(node, ast.Assign):
        if any(isinstance(target, (ast.Tuple, ast.List)) for target in node.targets):
            yield from taken(node.value)
    elif isinstance(node, ast.Compare):
        for operator, right in zip(node.ops, node.comparators):
            if isinstance(operator, (ast.In, ast.NotIn)):
                yield from taken(right)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield Missed(node)


def in_call(call: ast.Call, name: str) -> Iterator[Any]:
    if name in TAKING:
        for each in call.args:
            yield from taken(each)
    elif name == "next" and call.args:
        yield Taken(call.args[0], True)
        yield from taken(call.args[0])
    elif name in CHANGING and call.args:
        yield Changed(call.args[0])
    elif name in WITHOUT_ARGUMENT and call.args:
        yield Changed(call.args[0], True)
    elif name in OF_ITERATORS and isinstance(call.func, ast.Attribute):
        yield from taken(call.func.value)
    for keyword in call.keywords:
        if keyword.arg == OUT:
            yield Changed(keyword.value)
    if isinstance(call.func, (ast.Name, ast.Attribute)):
        yield Drawn(call.func)


def taken(node: ast.expr) -> Iterator[Taken]:
    """The iterators that an expression takes from if it is taken from."""
    if isinstance(node, ast.Call) and name_of(node.func) in PASSING:
        for each in node.args:
            yield from taken(each)
    elif not isinstance(node, FRESH):
        yield Taken(node)


def name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def is_iterator(value: object) -> bool:
    return any("__next__" in vars(base) for base in type(value).__mro__)


def is_method(value: object) -> bool:
    return type(value).__name__ in METHODS
