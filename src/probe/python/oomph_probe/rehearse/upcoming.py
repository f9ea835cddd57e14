"""An evaluation or sampling that the program's lines lead to behind the step that failed, before its next one: nobody
has seen what it needs, and it may be more than the step (`if i % 100 == 0: model.generate(…)` at the first of them).

Only what surely comes counts: statements of the loops around the step, and of those under a condition the ones
whose condition is true by the plain values of the program's variables.
"""

from __future__ import annotations

import ast
import operator
import re

from ..common import errors, frames
from .reading import UNKNOWN, words
from .statements import assigned_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable, Iterator

PLAIN = (bool, int, float, str, type(None))
OPERATIONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Mod: operator.mod, ast.Add: operator.add, ast.Sub: operator.sub, ast.FloorDiv: operator.floordiv,
    ast.Mult: operator.mul, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}
# What turns gradients off, and methods that do so by themselves.
WITHOUT_GRADIENTS = frozenset("no_grad inference_mode eval".split())
SAMPLING = frozenset("generate estimate_loss".split())
# Words in the names of functions that evaluate (`test_step`, `run_validation`).
EVALUATING = frozenset("test valid validate validation eval evaluate evaluation".split())
# Words in the names of functions that sample from a model (`sample_image`, `save_samples`), but not beside one of the
# others: those draw what the model is given (`sample_batch`, `sample_noise`).
DRAWING = frozenset("sample samples sampling".split())
DRAWN = frozenset(
    "batch batches data noise latent latents z t time times timestep timesteps label labels negative negatives"
    " index indices mask masks action actions buffer replay trajectory trajectories task tasks".split()
)
WORD = re.compile("[A-Z]?[a-z]+|[A-Z]+")


def reader(frame: FrameType) -> Callable[[str], Any]:
    """Reads plain values of a frame's variables, and of attributes of theirs (`args.every`)."""

    def read(name: str) -> Any:
        first, _, attribute = name.partition(".")
        value = frames.read_locals(frame, lambda values: values.get(first, UNKNOWN))
        value = frame.f_globals.get(first, UNKNOWN) if value is UNKNOWN else value
        own = getattr(value, "__dict__", None) if attribute else None
        return value if not attribute else own.get(attribute, UNKNOWN) if type(own) is dict else UNKNOWN

    return read


def comes(
    path: list[tuple[list[Any], int]], loops: tuple[Any, ...], read: Callable[[str], Any], has_stepped: bool = False
) -> bool:
    """Whether, behind the statement at a path's end, up to the end of the loop with the optimizer's step, a model is
    called without gradients. `read` gives a variable's value, or UNKNOWN; `has_stepped`: the statement itself steps."""
    for depth in range(len(path) - 1, -1, -1):
        block, at = path[depth]
        if depth < len(path) - 1 and isinstance(block[at], loops) and has_stepped:
            break
        is_in_loop = any(isinstance(outer[place], loops) for outer, place in path[:depth])
        behind = block[at + 1 :]
        if is_in_loop and any(evaluates(each) for each in running(behind, read)):
            return True
        has_stepped = has_stepped or any("step" in called_in(each) for each in behind)
    return False


def running(statements: list[Any], read: Callable[[str], Any]) -> Iterator[Any]:
    """The statements that surely run; under a condition those that are told by plain values, also such as statements
    before it make (`done = epoch * len(loader) + i`)."""
    for each in statements:
        for target, value in assigned_by(each):
            read = with_one_more(read, target.id, value_of(value, read))
        if isinstance(each, ast.If):
            told = value_of(each.test, read)
            if told is not UNKNOWN:
                taken = each.body if told else each.orelse
                yield from [ast.Module(body=taken, type_ignores=[])] if taken else []
        elif not isinstance(each, (ast.For, ast.While, ast.FunctionDef, ast.ClassDef)):
            yield each


def with_one_more(read: Callable[[str], Any], name: str, value: Any) -> Callable[[str], Any]:
    return lambda asked: value if asked == name else read(asked)


def evaluates(statement: Any) -> bool:
    names = called_in(statement)
    if names & SAMPLING or names & WITHOUT_GRADIENTS and names - WITHOUT_GRADIENTS:
        return True
    return any(is_evaluating(name) for name in names - WITHOUT_GRADIENTS)


def is_evaluating(name: str) -> bool:
    words = {word.lower() for word in WORD.findall(name)}
    # By itself `sample` may be anything's, as a replay buffer's.
    draws = bool(words & DRAWING) and len(words) > 1 and not words & DRAWN
    return bool(words & EVALUATING) or draws


def called_in(statement: Any) -> set[str]:
    """The functions that it calls, by the last word of their names."""
    calls = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in calls}


def value_of(node: Any, read: Callable[[str], Any]) -> Any:
    """A condition by plain values; UNKNOWN where it is made of anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, PLAIN) else UNKNOWN
    if isinstance(node, (ast.Name, ast.Attribute)):
        value = read(words(node))
        return value if isinstance(value, PLAIN) else UNKNOWN
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = value_of(node.operand, read)
        return UNKNOWN if value is UNKNOWN else not value
    if isinstance(node, ast.BoolOp):
        values = [value_of(each, read) for each in node.values]
        decides = isinstance(node.op, ast.Or)
        if any(value is not UNKNOWN and bool(value) is decides for value in values):
            return decides
        return UNKNOWN if any(value is UNKNOWN for value in values) else not decides
    if isinstance(node, ast.BinOp):
        left, right = value_of(node.left, read), value_of(node.right, read)
        # In the first epoch nobody needs to know how long one is.
        is_nothing = isinstance(node.op, ast.Mult) and any(type(each) is int and each == 0 for each in (left, right))
        return 0 if is_nothing else together(node.op, left, right)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return together(node.ops[0], value_of(node.left, read), value_of(node.comparators[0], read))
    return UNKNOWN


def together(how: ast.AST, left: Any, right: Any) -> Any:
    work = OPERATIONS.get(type(how))
    if work is None or left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    try:
        return work(left, right)
    except Exception:
        errors.foreseen("compute a condition")
        return UNKNOWN
