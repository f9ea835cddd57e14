"""Whether a step is made of several parts, each with a forward and a backward of its own, before the optimizer takes
it: the gradients of one part are still there while the next one runs. The command may say so (`--grad-accum 8`); here
it is read from the loops around the model's call, and from the plain values that they count with.
"""

from __future__ import annotations

import ast

from ..common import errors, frames, objects
from . import callers, further, sources, upcoming
from .reading import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Callable, Iterator

LOOPS = (ast.For, ast.While, ast.AsyncFor)
# What frameworks call the number of parts, on an object that one of these variables stands for.
SETTINGS = ("gradient_accumulation_steps", "accumulate_grad_batches")
HOLDERS = ("self", "args", "trainer", "accelerator", "config", "cfg")
# The context manager of accelerate, which leaves out the steps in between.
ACCUMULATE = "accumulate"


class Function:
    """One of those that called the model: its statements, the line of the call in it, and what reads its variables."""

    def __init__(self, body: list[Any], line: int, read: Callable[[str], Any]) -> None:
        self.body = body
        self.line = line
        self.read = read


def are_added(places: list[tuple[CodeType, int, int]], stack: list[FrameType]) -> bool:
    """Whether a step of the functions that called a model is seen to have several parts."""
    try:
        told = adds_gradients(functions_of(places, stack))
        return bool(by_settings(stack) if told is None else told)
    except sources.NotFound:
        errors.foreseen("look for the parts of a step")
    except Exception:
        errors.ours("look for the parts of a step")
    return False


def functions_of(places: list[tuple[CodeType, int, int]], stack: list[FrameType]) -> Iterator[Function]:
    for code, _, line in places:
        frame = next((each for each in stack if each.f_code is code), None)
        if frame is not None and not callers.is_part(code):
            yield Function(sources.CUT.body_of(code), line, upcoming.reader(frame))


def adds_gradients(functions: Iterator[Function]) -> bool | None:
    """By functions that called a model, the innermost first; None where they do not tell."""
    goes_back = False
    for function in functions:
        told = by_loops(function, goes_back)
        if told is not None:
            return told
        calls = list(calls_in(function.body))
        if any(takes(node, name) for node, name in calls):
            # The step is not in a loop with the call, and nothing says how often it is reached.
            return None
        goes_back = goes_back or any(name in further.BACKWARDS for _, name in calls)
    return None


def by_loops(function: Function, goes_back: bool) -> bool | None:
    """By the loops of one function around its call, the innermost first; `goes_back`: the call itself does."""
    inside = [node for each in function.body for node in ast.walk(each) if isinstance(node, LOOPS)]
    around = [node for node in inside if node.lineno <= function.line <= (node.end_lineno or 0)]
    around.sort(key=lambda node: -node.lineno)
    for at, loop in enumerate(around):
        calls = list(calls_in(loop.body))
        taking = [node for node, name in calls if takes(node, name)]
        if taking:
            return counted(loop, taking, function.read)
        beyond = around[at + 1].body if at + 1 < len(around) else function.body
        is_taken_behind = any(
            takes(node, name) and node.lineno > (loop.end_lineno or 0) for node, name in calls_in(beyond)
        )
        if is_taken_behind and (goes_back or any(name in further.BACKWARDS for _, name in calls)):
            times = times_of(loop, function.read)
            if times is None or times > 1:
                return True
    return None


def takes(call: ast.Call, name: str) -> bool:
    """Whether a call is an optimizer's step, as far as its words tell."""
    if name == "step" and isinstance(call.func, ast.Attribute):
        return "sched" not in ast.dump(call.func.value).lower()
    return name in ("optimizer_step", "optim_step", "zero_grad")


def counted(loop: Any, taking: list[ast.Call], read: Callable[[str], Any]) -> bool | None:
    """Of a loop with the step in it: whether that is taken after several rounds, by the number that decides; False
    where it is taken in each, None where that is not known."""
    told: bool | None = None
    for call in taking:
        tests = [node.test for node in ast.walk(loop) if isinstance(node, ast.If) and is_in(call, node.body)]
        if not tests and not is_left_to_accelerate(loop, call):
            return False
        for test in tests:
            for part in ast.walk(test):
                if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod):
                    number = upcoming.value_of(part.right, read)
                    told = bool(told) or number > 1 if type(number) is int else told
    return told


def is_in(call: ast.Call, statements: list[Any]) -> bool:
    return any(node is call for each in statements for node in ast.walk(each))


def is_left_to_accelerate(loop: Any, call: ast.Call) -> bool:
    """Whether it is inside of `with accelerator.accumulate(model)`, which does nothing in the rounds in between."""
    for node in ast.walk(loop):
        if isinstance(node, ast.With) and is_in(call, node.body):
            if any(name == ACCUMULATE for each in node.items for _, name in calls_in([each])):
                return True
    return False


def times_of(loop: Any, read: Callable[[str], Any]) -> int | None:
    """How often a loop over `range(n)` runs, where that is plain."""
    called = getattr(loop, "iter", None)
    if isinstance(called, ast.Call) and getattr(called.func, "id", "") == "range" and len(called.args) == 1:
        value = upcoming.value_of(called.args[0], read)
        return value if isinstance(value, int) else None
    return None


def calls_in(nodes: list[Any]) -> Iterator[tuple[ast.Call, str]]:
    """The calls, with the last word of what is called."""
    for each in nodes:
        for node in ast.walk(each):
            if isinstance(node, ast.Call):
                yield node, getattr(node.func, "attr", getattr(node.func, "id", ""))


def by_settings(stack: list[FrameType]) -> bool | None:
    """By what a framework keeps of it, on an object of one of the functions that called."""
    for frame in stack:
        holders = frames.read_locals(frame, lambda values: [values[name] for name in HOLDERS if name in values])
        for holder in holders:
            number = setting_of(holder)
            if number is not UNKNOWN:
                return bool(number > 1)
    return None


def setting_of(holder: object) -> Any:
    own = objects.namespace_of(holder) or {}
    for each in (own, plain_of(own, "args"), plain_of(own, "trainer")):
        for name in SETTINGS:
            if type(each.get(name)) is int:
                return each[name]
    # accelerate keeps it among what its states share.
    plugin = plain_of(own, "gradient_state").get("plugin_kwargs")
    number = plugin.get("num_steps") if type(plugin) is dict else None
    return number if type(number) is int else UNKNOWN


def plain_of(own: dict[str, Any], name: str) -> dict[str, Any]:
    """The attributes of one of these, read without running anything of the program's."""
    return objects.namespace_of(own[name]) or {} if name in own else {}
