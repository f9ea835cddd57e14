"""What outlives a step, by the lines of the functions that called the model: what they put into a list or an attribute,
what they bind again or delete after backward, and when they let go of the gradients.

Nothing of the program's is changed for it: `outputs.append(out)` runs in the rehearsal as an addition to a list of its
own. What a line keeps only under a condition, or cannot be run, may be kept: both are counted.
"""

from __future__ import annotations

import ast
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Iterator

# Lists of the rehearsal's own: what is replaced in each step, what there is more of after each, what may be kept.
STAYS, GROWS, MAY = "__oomph_stays__", "__oomph_grows__", "__oomph_may__"
FAILS, ERROR = "__oomph_fails__", "__oomph_error__"
ADDING = frozenset("append appendleft add insert extend extendleft put put_nowait".split())
# What these make is not on the GPU.
ON_THE_HOST = frozenset("item cpu numpy tolist float int bool len str repr print format".split())
COPIES = frozenset(("deepcopy", "AveragedModel", "ModelEmaV2", "ModelEmaV3", "ModelEma"))
BRANCHES = (ast.If, ast.For, ast.While, ast.Try, ast.AsyncFor)
# When gradients are let go of: before the next forward, between that and its backward, or not at all.
BEFORE_FORWARD, BEFORE_BACKWARD, NEVER = "forward", "backward", "never"


class Kept:
    """One expression whose value outlives the statement that it is in."""

    def __init__(self, owner: ast.expr, value: ast.expr, grows: bool, is_sure: bool) -> None:
        self.owner = owner
        self.value = value
        self.grows = grows
        self.is_sure = is_sure

    def root(self) -> str:
        node: Any = self.owner
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
            node = node.func if isinstance(node, ast.Call) else node.value
        return node.id if isinstance(node, ast.Name) else ""

    def statement(self) -> ast.stmt:
        """Adds it to the list of its kind."""
        name = MAY if not self.is_sure else GROWS if self.grows else STAYS
        add = ast.Attribute(value=ast.Name(id=name, ctx=ast.Load()), attr="append", ctx=ast.Load())
        return guarded(ast.Expr(value=ast.Call(func=add, args=[self.value], keywords=[])), True)


def guarded(statement: ast.stmt, keeps: bool = False) -> ast.stmt:
    """What fails is noted, and the lines behind it run. `keeps`: then it is not known what is kept."""
    error: list[ast.expr] = [ast.Name(id=ERROR, ctx=ast.Load()), ast.Constant(value=keeps)]
    failed = ast.Call(func=ast.Name(id=FAILS, ctx=ast.Load()), args=error, keywords=[])
    handler = ast.ExceptHandler(
        type=ast.Name(id="BaseException", ctx=ast.Load()), name=ERROR, body=[ast.Expr(value=failed)]
    )
    return ast.Try(body=[statement], handlers=[handler], orelse=[], finalbody=[])


def is_guarded(statement: Any) -> bool:
    return isinstance(statement, ast.Try) and any(each.name == ERROR for each in statement.handlers)


def kept_by(statement: Any, is_sure: bool = True) -> Iterator[Kept]:
    """What a statement keeps beyond its function's own variables."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return
    for name in ("body", "orelse", "finalbody"):
        for inner in getattr(statement, name, None) or ():
            yield from kept_by(inner, is_sure and not isinstance(statement, BRANCHES))
    for each in calls_of(statement):
        if isinstance(each.func, ast.Attribute) and each.func.attr in ADDING and each.args:
            for value in parts(each.args[-1]):
                yield Kept(each.func.value, value, True, is_sure)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.value, (ast.List, ast.Tuple)):
        for value in parts(statement.value):
            yield Kept(statement.target, value, True, is_sure)
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Attribute):
                yield Kept(target.value, as_read(target), False, is_sure)
            elif isinstance(target, ast.Subscript):
                # Before Python 3.9 it is wrapped.
                key: Any = getattr(target.slice, "value", target.slice)
                grows = isinstance(key, ast.AST) and not isinstance(key, ast.Constant)
                yield Kept(target.value, statement.value, grows, is_sure)


def only_adds(statement: Any) -> bool:
    """Whether it is nothing but `outputs.append(…)`."""
    return any(isinstance(each.func, ast.Attribute) and each.func.attr in ADDING for each in calls_of(statement))


def calls_of(statement: Any) -> Iterator[ast.Call]:
    """Those that are statements themselves."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        yield statement.value


def parts(value: ast.expr) -> Iterator[ast.expr]:
    """The expressions of a tuple, those left out that make nothing on the GPU."""
    if isinstance(value, (ast.Tuple, ast.List)):
        for each in value.elts:
            yield from parts(each)
    elif not is_on_the_host(value):
        yield value


def is_on_the_host(value: ast.expr) -> bool:
    node: Any = value
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Call):
            named = node.func
            word = named.attr if isinstance(named, ast.Attribute) else named.id if isinstance(named, ast.Name) else ""
            if word in ON_THE_HOST:
                return True
            node = named.value if isinstance(named, ast.Attribute) else None
        else:
            node = node.value
    return isinstance(value, (ast.Constant, ast.JoinedStr))


def as_read(target: ast.Attribute) -> ast.expr:
    return ast.Attribute(value=target.value, attr=target.attr, ctx=ast.Load())


def rebinds(statement: Any) -> set[str]:
    """The variables that a statement binds again or deletes, whatever happens."""
    targets: list[Any] = []
    if isinstance(statement, (ast.Assign, ast.Delete)):
        targets = list(statement.targets)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        return {name for each in statement.body for name in rebinds(each)}
    elif is_guarded(statement):
        return rebinds(statement.body[0])
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def copies_a_model(statements: list[Any]) -> bool:
    """Whether one is copied, as for an average of its weights."""
    for each in statements:
        for node in ast.walk(each):
            if isinstance(node, ast.Call):
                named: Any = node.func
                if getattr(named, "attr", getattr(named, "id", "")) in COPIES:
                    return True
    return False


def mentions_zero_grad(code: CodeType) -> bool:
    return any("zero_grad" in name for name in code.co_names)


def zero_grad_of(body: list[Any], line: int, backwards: tuple[str, ...]) -> str | None:
    """When a function lets go of the gradients, by the line that its model is called in: before the next `forward`,
    between that and its `backward`, or `never` where they are set to zero; None where it does not."""
    calls = [node for each in body for node in ast.walk(each) if isinstance(node, ast.Call)]
    named = [(node, getattr(node.func, "attr", getattr(node.func, "id", ""))) for node in calls]
    clearing = [node for node, name in named if "zero_grad" in name]
    if not clearing:
        return None
    if any(sets_to_zero(node) for node in clearing):
        return NEVER
    going_back = [node.lineno for node, name in named if name in backwards]
    # Where the function does not go backward itself, whoever called it does so behind all of it.
    backward = min((at for at in going_back if at >= line), default=0 if going_back else sys.maxsize)
    is_between = any(line < node.lineno <= backward for node in clearing)
    return BEFORE_BACKWARD if is_between else BEFORE_FORWARD


def clears_before(body: list[Any], line: int) -> bool:
    """Whether a function lets go of the gradients before the call in this line, each time that it comes to it."""
    loops = [node for each in body for node in ast.walk(each) if isinstance(node, (ast.For, ast.While, ast.AsyncFor))]
    around = [node for node in loops if node.lineno <= line <= (node.end_lineno or 0)]
    round_of = max(around, key=lambda node: node.lineno).body if around else body
    calls = [node for each in round_of for node in ast.walk(each) if isinstance(node, ast.Call)]
    return any(
        node.lineno < line and "zero_grad" in getattr(node.func, "attr", getattr(node.func, "id", "")) for node in calls
    )


def sets_to_zero(call: ast.Call) -> bool:
    return any(
        each.arg == "set_to_none" and isinstance(each.value, ast.Constant) and each.value.value is False
        for each in call.keywords
    )


def names_with(node: Any, context: type[ast.expr_context]) -> set[str]:
    """Names in such a context (read or bound): variables, and attributes of variables as `self.loss`."""
    return {name for name, how in names_of(node) if isinstance(how, context)}


def names_of(node: Any) -> Iterator[tuple[str, Any]]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id, each.ctx
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            yield "%s.%s" % (each.value.id, each.attr), each.ctx
