"""The backward passes of a round behind its first: of another model's loss (a GAN's), of a second pass over the same
batch (sharpness-aware minimization), of parts. Of the lines behind the first backward those are taken that a
further one depends on; each goes backward by a function of the rehearsal's.
"""

from __future__ import annotations

import ast

from . import outliving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BACKWARD = "backward"
BACKWARDS = (BACKWARD, "manual_backward")
# What a line calls to go backward in the rehearsal.
GOES_BACK = "__oomph_backward__"
BLOCKS = ("body", "orelse", "finalbody")
COMPOUND = (ast.If, ast.With, ast.For, ast.While, ast.Try)
# And to let go of gradients.
CLEARS, ZERO_GRAD = "__oomph_clears__", "zero_grad"
# What these words call changes parameters or gradients that are the program's own.
LEFT_OUT = frozenset("step unscale_ update clip_grad_norm_ clip_grad_value_".split())


def call_in(statement: Any) -> ast.Call | None:
    """The call in a statement that goes backward."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in BACKWARDS:
            return node
    return None


def value_of(call: ast.Call, made: set[str]) -> Any:
    """What it goes backward from; `made` are the variables that the step has bound. One of them that is given a
    gradient may have many elements: their sum."""
    func: Any = call.func
    is_given = bool(call.args) and not isinstance(call.args[0], ast.Starred)
    value: Any = call.args[0] if is_given else func.value
    is_made = func.attr == BACKWARD and any(
        isinstance(node, ast.Name) and node.id in made for node in ast.walk(func.value)
    )
    if is_given and is_made or any(each.arg == "gradient" for each in call.keywords):
        return ast.Call(func=ast.Attribute(value=func.value, attr="sum", ctx=ast.Load()), args=[], keywords=[])
    # A scaler's: by a factor.
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "scale":
        value = value.args[0]
    return value


def keeps_graph(call: ast.Call) -> bool:
    """Whether what forward has kept outlives it."""
    flags = [each.value for each in call.keywords if each.arg in ("retain_graph", "create_graph")]
    return any(isinstance(flag, ast.Constant) and flag.value is True for flag in flags)


def clears(node: Any) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == ZERO_GRAD
        and not outliving.sets_to_zero(node)
    )


class Rewritten(ast.NodeTransformer):
    """Each backward and each `zero_grad` by a call of the rehearsal's."""

    def __init__(self, made: set[str]) -> None:
        self.made = made

    def visit_Call(self, node: ast.Call) -> Any:
        if clears(node):
            func: Any = node.func
            return ast.Call(func=ast.Name(id=CLEARS, ctx=ast.Load()), args=[func.value], keywords=[])
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in BACKWARDS:
            return self.generic_visit(node)
        named: list[ast.expr] = [self.visit(value_of(node, self.made)), ast.Constant(value=keeps_graph(node))]
        return ast.Call(func=ast.Name(id=GOES_BACK, ctx=ast.Load()), args=named, keywords=[])


def lines_of(statements: list[Any], made: set[str]) -> list[Any]:
    """The statements that lead to further backwards, in order; none where there is none. `made` are the variables that
    the step has bound before them."""
    found = chosen(statements, set())
    made = made.union(*map(bound_by, found))
    return [ast.fix_missing_locations(Rewritten(made).visit(each)) for each in found]


def chosen(statements: list[Any], wanted: set[str]) -> list[Any]:
    """Of these statements those that go backward, or bind what such a one needs; `wanted` are the names that are."""
    kept: list[Any] = []
    for statement in reversed(statements):
        if isinstance(statement, COMPOUND):
            part = of_compound(statement, wanted)
            if part is not None:
                kept.append(part)
        elif (
            call_in(statement) is not None
            or bound_by(statement) & wanted and not is_left_out(statement)
            or wanted and isinstance(statement, ast.Expr) and clears(statement.value)
        ):
            kept.append(statement)
            wanted |= read_by(statement)
    return kept[::-1]


def of_compound(statement: Any, wanted: set[str]) -> Any:
    """A compound statement with what is chosen of its blocks; None where nothing is."""
    found = {name: chosen(getattr(statement, name, None) or [], wanted) for name in BLOCKS}
    if not any(found.values()):
        return None
    copy = type(statement)(**{name: value for name, value in ast.iter_fields(statement)})
    copy = ast.copy_location(copy, statement)
    for name, block in found.items():
        if hasattr(statement, name):
            setattr(copy, name, block or ([ast.Pass()] if name == "body" else []))
    for name in ("test", "iter", "items"):
        header = getattr(statement, name, None)
        for each in header if isinstance(header, list) else [header] if header is not None else []:
            wanted |= read_by(each)
    return copy


def is_left_out(statement: Any) -> bool:
    return any(
        isinstance(each, ast.Call) and getattr(each.func, "attr", getattr(each.func, "id", "")) in LEFT_OUT
        for each in ast.walk(statement)
    )


def bound_by(statement: Any) -> set[str]:
    return outliving.names_with(statement, ast.Store)


def read_by(node: Any) -> set[str]:
    return outliving.names_with(node, ast.Load)
