"""Whether anybody can catch an error that leaves a call: by the `try` statements that the frames outside of it are in,
and the classes that these name. Where that is not plainly told, it may be caught.

`finally` and `with` let an error pass, and so does a handler that ends by raising it again.
"""

from __future__ import annotations

import ast
import builtins
import dis
import sys
import threading
import types

from ..common import errors, frames
from . import sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

# Files of torch's that are between a training's loop and its model: their handlers raise again.
PASSING = (
    "nn/modules/", "nn/parallel/distributed.py", "autograd/", "_tensor.py", "utils/_contextlib.py", "amp/",
    "utils/checkpoint.py", "optim/",
)
# Context managers that swallow what is raised in them, by the end of their names.
SWALLOWING = ("suppress", "raises", "Raises")
# Before Python 3.11 a `try` is entered by one of these.
ENTERING = frozenset(dis.opmap[name] for name in ("SETUP_FINALLY", "SETUP_WITH", "SETUP_EXCEPT") if name in dis.opmap)
MOST_FRAMES = 256
# What a handler does instead of raising again.
LEAVING = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom, ast.Await)


def may_be_caught(frame: FrameType | None, error: type[BaseException], torch_home: str) -> bool:
    """Whether an error of this class that leaves `frame` may come to an end before the process does."""
    try:
        if threading.current_thread() is not threading.main_thread():
            return True
        count, outermost = 0, None
        while frame is not None:
            count += 1
            if count > MOST_FRAMES or catches(frame, error, torch_home):
                return True
            outermost, frame = frame, frame.f_back
        # An interactive one, or one that embeds Python, goes on.
        return outermost is None or not is_of_program(outermost) or hasattr(sys, "ps1")
    except Exception:
        errors.foreseen("look for who catches an error")
        return True


def is_of_program(frame: FrameType) -> bool:
    """Whether this is where a process begins: its program, or what runs it as a module (`python -m`)."""
    return frame.f_globals.get("__name__") == "__main__" or frame.f_code.co_filename.endswith(("runpy.py", "runpy>"))


def catches(frame: FrameType, error: type[BaseException], torch_home: str) -> bool:
    code = frame.f_code
    path = code.co_filename
    if path.startswith((*frames.OURS, "<frozen")) or not has_handlers(code):
        return False
    if path.startswith(torch_home) and path[len(torch_home) :].lstrip("/").startswith(PASSING):
        return False
    if path.endswith("runpy.py"):
        return False
    return any(
        stops(node, frame, error)
        for statement in sources.CUT.body_of(code)
        for node in ast.walk(statement)
        if isinstance(node, (ast.Try, ast.With, ast.AsyncWith)) or type(node).__name__ == "TryStar"
        if is_in(frame.f_lineno, node)
    )


def has_handlers(code: CodeType) -> bool:
    """Whether it has any `try` or `with` at all; most have none, and need not be read."""
    table = getattr(code, "co_exceptiontable", None)
    return bool(table) if table is not None else not ENTERING.isdisjoint(code.co_code[::2])


def is_in(line: int, node: Any) -> bool:
    """Whether a line is in what a statement guards."""
    return any(each.lineno <= line <= (each.end_lineno or each.lineno) for each in node.body)


def stops(node: Any, frame: FrameType, error: type[BaseException]) -> bool:
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return any(swallows(item.context_expr) for item in node.items)
    # What leaves a `finally` by itself takes the error with it.
    if any(isinstance(each, LEAVING[:3]) for statement in node.finalbody for each in ast.walk(statement)):
        return True
    for handler in node.handlers:
        if handler.type is None or names(handler.type, frame, error):
            return not raises_again(handler)
    return False


def swallows(expression: ast.expr) -> bool:
    called = expression.func if isinstance(expression, ast.Call) else expression
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name.endswith(SWALLOWING)


def raises_again(handler: ast.ExceptHandler) -> bool:
    """Whether it ends by raising the same error, whatever it does before."""
    last = handler.body[-1]
    is_same = isinstance(last, ast.Raise) and last.cause is None and (
        last.exc is None or isinstance(last.exc, ast.Name) and last.exc.id == handler.name
    )
    return is_same and not any(
        isinstance(each, LEAVING + (ast.Try,)) for statement in handler.body for each in ast.walk(statement)
    )


def names(expression: ast.expr, frame: FrameType, error: type[BaseException]) -> bool:
    """Whether a handler's classes may be such that it takes the error."""
    if isinstance(expression, ast.Tuple):
        return any(names(each, frame, error) for each in expression.elts)
    kind = value_of(expression, frame)
    if isinstance(kind, tuple):
        return any(not isinstance(each, type) or issubclass(error, each) for each in kind)
    return not isinstance(kind, type) or issubclass(error, kind)


def value_of(expression: ast.expr, frame: FrameType) -> Any:
    """What a name or an attribute of a module is; None where nobody can tell without running anything."""
    if isinstance(expression, ast.Name):
        if expression.id in frame.f_code.co_varnames + frame.f_code.co_cellvars + frame.f_code.co_freevars:
            return None
        return frame.f_globals.get(expression.id, getattr(builtins, expression.id, None))
    if isinstance(expression, ast.Attribute):
        owner = value_of(expression.value, frame)
        if isinstance(owner, (types.ModuleType, type)):
            return vars(owner).get(expression.attr)
    return None
