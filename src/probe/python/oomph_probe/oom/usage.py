"""The line of a function at which something grows: where it is appended to, or assigned an item, or added to.
Pure: read from its bytecode.
"""

from __future__ import annotations

import dis
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Iterator

# What makes a container longer.
GROWS = frozenset("append appendleft extend extendleft add insert update setdefault put put_nowait".split())


def of(code: CodeType, name: str, as_attribute: bool) -> Any:
    """The first line of some code that makes what has this name longer, and the first that assigns it, as
    (file, line, function)."""
    variables = code.co_names
    if not as_attribute:
        variables += code.co_varnames + code.co_cellvars + code.co_freevars
    grows = made = None
    if name in variables:
        grows, made = within(code, name, as_attribute)
    for inner in code.co_consts if grows is None else ():
        # A function within it that has the variable too.
        if type(inner) is types.CodeType and (as_attribute or name in inner.co_freevars):
            grows = grows or of(inner, name, as_attribute)[0]
    return grows, made


def within(code: CodeType, name: str, as_attribute: bool) -> Any:
    grows = made = added = None
    # How many values lie on the one with this name, or on what was taken from it; None while it isn't there.
    depth = None
    for instruction, line in instructions(code):
        operation, argument = instruction.opname, instruction.argval
        is_attribute = operation.endswith(("_ATTR", "_METHOD"))
        stored, loaded = moved(operation, argument) if is_attribute == as_attribute else ((), ())
        if name in stored:
            made = made or line
            grows = grows or (line if added == line else None)
        if name in loaded:
            depth = len(loaded) - 1 - loaded.index(name)
            continue
        if operation == "INPLACE_ADD" or instruction.argrepr == "+=":
            added = line
        if depth is None:
            continue
        if depth == 0 and operation.endswith(("_ATTR", "_METHOD")) and argument in GROWS:
            grows = grows or line
        if depth == 1 and operation == "STORE_SUBSCR":
            grows = grows or line
        depth = after(instruction, depth)
    return [None if line is None else (code.co_filename, line, code.co_name) for line in (grows, made)]


def moved(operation: str, argument: Any) -> Any:
    """The names that an instruction stores and those that it loads; since Python 3.13 one may do two at a time."""
    names = argument if type(argument) is tuple else (argument,)
    if operation.startswith("STORE"):
        return (names[:1], names[1:]) if "_LOAD_" in operation else (names, ())
    return ((), names) if operation.startswith("LOAD") else ((), ())


def after(instruction: dis.Instruction, depth: int) -> int | None:
    """How many values lie on one after an instruction; None where it may be gone."""
    try:
        depth += dis.stack_effect(instruction.opcode, instruction.arg, jump=False)
    except ValueError:
        return None
    return depth if depth >= 0 and "JUMP" not in instruction.opname else None


def instructions(code: CodeType) -> Iterator[tuple[dis.Instruction, int]]:
    """The instructions of some code with their lines."""
    line = None
    for each in dis.get_instructions(code):
        # Since Python 3.13 each has its line; before, the first of a line.
        line = getattr(each, "line_number", each.starts_line or line)
        if line is not None:
            yield each, line
