"""What a graph that torch.compile's inductor has compiled allocates and lets go of, in order: read from the Python
that inductor wrote to call its kernels, which is kept with the compiled graph. Nothing is compiled and none of it is
run.

The text is a list of plain statements (torch/_inductor/codegen/wrapper.py): `empty_strided_cuda(sizes, strides,
dtype)` is a buffer, `reinterpret_tensor` and a plain assignment another name of one, `del` the end of a name, a call
of anything else a tensor whose size an `assert_size_stride` behind it says, and what is returned stays. Anything
else, sizes that are variables among it, is `Unknown`.
"""

from __future__ import annotations

import ast
import textwrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

TAKEN, LEFT, INPUT_LEFT = range(3)
ALLOCATES = "empty_strided"
VIEW, ASSERTION = "reinterpret_tensor", "assert_size_stride"
DEF = "def call("
# Bytes of an element whose type the text does not say.
USUAL = 4


class Unknown(Exception):
    """It is written in a way that is not known."""


class Graph:
    """What a compiled graph does, with its own sizes."""

    def __init__(self) -> None:
        # (TAKEN, number, elements, bytes of each), (LEFT, number), (INPUT_LEFT, name).
        self.events: list[tuple[Any, ...]] = []
        self.inputs: list[str] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        # Of each thing that is returned the number of its buffer, the name of an input, or None.
        self.returned: list[Any] = []


class Buffer:
    """A piece of memory, and how many names it has."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.names = 0


def read(source: str) -> Graph:
    """Raises `Unknown`."""
    return Reader(source).graph


class Reader:
    def __init__(self, source: str) -> None:
        self.graph = Graph()
        self.named: dict[str, Buffer | str] = {}
        # The names of what other libraries have returned.
        self.calls: set[str] = set()
        self.count = 0
        self.takes: dict[int, tuple[int, int]] = {}
        try:
            (function,) = ast.parse(text_of_call(source)).body
            for statement in function.body:  # type: ignore[attr-defined]
                self.statement(statement)
        except (SyntaxError, ValueError, AttributeError, TypeError) as error:
            raise Unknown("its text is not what was expected (%s)" % error) from error
        self.settle()

    def settle(self) -> None:
        """The allocations whose sizes were said after them, at their places."""
        events: list[tuple[Any, ...]] = []
        taken: set[Any] = set()
        for event in self.graph.events:
            if event[0] == TAKEN and event[2] is None:
                if event[1] not in self.takes:
                    # Nobody says how large it is, and nobody uses it.
                    continue
                event = (TAKEN, event[1], *self.takes[event[1]])
            if event[0] == LEFT and event[1] not in taken:
                continue
            taken.add(event[1])
            events.append(event)
        self.graph.events = events

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            self.assign(node)
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                self.end(name_of(target))
        elif isinstance(node, ast.With):
            for each in node.body:
                self.statement(each)
        elif isinstance(node, ast.Return):
            self.returns(node)
        elif isinstance(node, ast.Expr):
            self.expression(node.value)
        elif not isinstance(node, ast.Pass):
            raise Unknown("a statement that is not known (%s)" % type(node).__name__)

    def assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        value = node.value
        if isinstance(value, ast.Name) and value.id == "args":
            for name in names_in(target):
                self.graph.inputs.append(name)
                self.named[name] = name
            return
        if not isinstance(target, ast.Name):
            raise Unknown("several results at once")
        name = target.id
        if isinstance(value, ast.Call) and called(value).startswith(ALLOCATES):
            sizes, strides, dtype = value.args[:3]
            self.name(name, self.buffer(elements(numbers(sizes), numbers(strides)), bytes_of(dtype)))
        elif isinstance(value, ast.Call) and called(value) in (VIEW, "alloc_from_pool"):
            self.alias(name, name_of(value.args[0]))
        elif isinstance(value, ast.Name):
            self.alias(name, value.id)
        elif isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) and value.value.id in self.calls:
            self.name(name, self.buffer(None, USUAL))
        elif isinstance(value, ast.Call) and called(value) == "get_raw_stream":
            return
        elif isinstance(value, ast.Call):
            # One tensor or several: where it is several, each is taken out of it by its place.
            self.calls.add(name)
            self.name(name, self.buffer(None, USUAL))
        else:
            raise Unknown("an assignment that is not known")

    def expression(self, node: ast.expr) -> None:
        if isinstance(node, ast.Call) and called(node) == ASSERTION:
            name, sizes, strides = name_of(node.args[0]), numbers(node.args[1]), numbers(node.args[2])
            held = self.named.get(name)
            if isinstance(held, Buffer):
                self.takes.setdefault(held.number, (elements(sizes, strides), USUAL))
            elif held is not None:
                self.graph.shapes[name] = sizes
        elif not isinstance(node, ast.Call):
            raise Unknown("an expression that is not known")

    def returns(self, node: ast.Return) -> None:
        values = node.value.elts if isinstance(node.value, ast.Tuple) else []
        for value in values:
            inner = value.args[0] if isinstance(value, ast.Call) and called(value) == VIEW else value
            held = self.named.get(inner.id) if isinstance(inner, ast.Name) else None
            self.graph.returned.append(held.number if isinstance(held, Buffer) else held)
        stays = {each for each in self.graph.returned if isinstance(each, int)}
        for name in list(self.named):
            held = self.named[name]
            if isinstance(held, Buffer) and held.number in stays:
                del self.named[name]
            else:
                self.end(name)

    def buffer(self, size: int | None, of_each: int) -> Buffer:
        made = Buffer(self.count)
        self.count += 1
        self.graph.events.append((TAKEN, made.number, size, of_each))
        return made

    def name(self, name: str, buffer: Buffer) -> None:
        if name in self.named:
            self.end(name)
        buffer.names += 1
        self.named[name] = buffer

    def alias(self, name: str, other: str) -> None:
        held = self.named.get(other)
        if isinstance(held, Buffer):
            self.name(name, held)
        elif held is not None:
            self.named[name] = held

    def end(self, name: str) -> None:
        held = self.named.pop(name, None)
        if isinstance(held, Buffer):
            held.names -= 1
            if held.names == 0:
                self.graph.events.append((LEFT, held.number))
        elif held == name:
            self.graph.events.append((INPUT_LEFT, name))


def text_of_call(source: str) -> str:
    """The function that calls the kernels; without the kernels, which are most of the text."""
    at = source.rfind(DEF)
    if at < 0:
        raise Unknown("it has no function that is called")
    begin = source.rfind("\n", 0, at) + 1
    lines = source[begin:].split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    body = [lines[0]]
    for line in lines[1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        body.append(line)
    return textwrap.dedent("\n".join(body))


def name_of(node: ast.expr) -> str:
    if not isinstance(node, ast.Name):
        raise Unknown("a name is expected")
    return node.id


def names_in(node: ast.expr) -> Iterator[str]:
    for each in node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]:
        yield name_of(each)


def called(node: ast.Call) -> str:
    """`empty_strided_cuda`; of `torch.ops.aten.mm.default` the last word."""
    function = node.func
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def numbers(node: ast.expr) -> tuple[int, ...]:
    value = ast.literal_eval(node)
    if not all(type(each) is int for each in value):
        raise Unknown("its sizes are variables")
    return tuple(value)


def bytes_of(node: ast.expr) -> int:
    import torch

    if not isinstance(node, ast.Attribute):
        raise Unknown("a type is expected")
    return int(getattr(torch, node.attr).itemsize)


def elements(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Of a storage that holds as much."""
    if 0 in sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
