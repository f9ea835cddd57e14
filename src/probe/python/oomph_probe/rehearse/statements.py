"""A function's statements, by their source: where a call is among them, what runs before and behind it, and which names
each reads and binds. Pure.
"""

from __future__ import annotations

import ast
import copy

from . import outliving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable

LOOPS = (ast.For, ast.While, ast.AsyncFor)
# What turns gradients off: a `with` around lines, or a decorator of their function.
WITHOUT_GRADIENTS = frozenset("no_grad inference_mode".split())


def words_of(node: Any) -> set[str]:
    found = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return found | {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def blocks_of(statement: Any) -> Iterator[list[Any]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list):
            yield block
    for handler in getattr(statement, "handlers", ()):
        yield handler.body


def has(statement: Any, call: ast.Call) -> bool:
    return any(node is call for node in ast.walk(statement))


def is_at(statement: Any, line: int) -> bool:
    return bool(statement.lineno <= line <= (statement.end_lineno or statement.lineno))


def path_to(block: list[Any], is_there: Callable[[Any], bool]) -> list[tuple[list[Any], int]] | None:
    """Where a statement is, the innermost one: each list of statements on the way, and the place in it."""
    for at, statement in enumerate(block):
        if not is_there(statement):
            continue
        for inner in blocks_of(statement):
            found = path_to(inner, is_there)
            if found is not None:
                return [(block, at)] + found
        return [(block, at)]
    return None


def path_to_line(block: list[Any], line: int) -> list[tuple[list[Any], int]] | None:
    return path_to(block, lambda each: is_at(each, line))


def following(path: list[tuple[list[Any], int]]) -> tuple[list[Any], list[Any]]:
    """The statements that run after the one at a path's end: those in the same `with`, and those behind it, up to the
    end of the loop."""
    inside: list[Any] = []
    after: list[Any] = []
    is_behind = False
    for depth in range(len(path) - 1, -1, -1):
        block, at = path[depth]
        if depth < len(path) - 1:
            if isinstance(block[at], LOOPS):
                break
            is_behind = is_behind or isinstance(block[at], (ast.With, ast.AsyncWith))
        (after if is_behind else inside).extend(block[at + 1 :])
    return inside, after


def around(statement: Any, call: ast.Call) -> tuple[Any, list[Any], list[Any]]:
    """The innermost statement with a call, and what runs before and behind it in the branches that it is in: where a
    loss is made beside its backward (`if scaler is None: loss = criterion(out, y); loss.backward()`)."""
    blocks = blocks_of(statement) if isinstance(statement, (ast.If, ast.Try, ast.With)) else ()
    for block in blocks:
        for at, each in enumerate(block):
            if has(each, call):
                innermost, before, behind = around(each, call)
                before = block[:at] + before
                if isinstance(statement, ast.With) and before:
                    part = copy.copy(statement)
                    part.body = before
                    before = [part]
                return innermost, before, behind + block[at + 1 :]
    return statement, [], []


def turns_gradients_off(statement: Any) -> bool:
    """Whether it is a `with torch.no_grad()`."""
    items = statement.items if isinstance(statement, (ast.With, ast.AsyncWith)) else []
    return any(words_of(each.context_expr) & WITHOUT_GRADIENTS for each in items)


def is_repeated(statement: Any, call: ast.Call) -> bool:
    """Whether the call is in a comprehension, or in a function that the statement makes."""
    parts = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
    return any(isinstance(node, parts) and has(node, call) for node in ast.walk(statement))


class Replace(ast.NodeTransformer):
    """A call by a name for what it returns."""

    def __init__(self, call: ast.Call, name: str) -> None:
        self.call = call
        self.name = name

    def visit_Call(self, node: ast.Call) -> Any:
        if node is self.call:
            return ast.Name(id=self.name, ctx=ast.Load())
        return self.generic_visit(node)


def names_in(node: Any) -> set[str]:
    """What is read: variables, and attributes of variables as `self.loss`."""
    return outliving.names_with(node, ast.Load)


def roots_in(node: Any) -> set[str]:
    return {name.partition(".")[0] for name in names_in(node)}


def read_first(nodes: list[Any], bound: set[str]) -> set[str]:
    """The names that are read before they are bound; what is bound is added to `bound`."""
    given: set[str] = set()
    for each in nodes:
        blocks = [] if isinstance(each, ast.expr) else list(blocks_of(each))
        if not blocks:
            given |= names_in(each) - bound
            bound |= bound_by(each)
            continue
        heads: list[Any] = [each.iter, each.target] if isinstance(each, (ast.For, ast.AsyncFor)) else []
        heads += list(each.items) if isinstance(each, (ast.With, ast.AsyncWith)) else []
        heads += [each.test] if isinstance(each, (ast.If, ast.While)) else []
        given |= read_first(heads, bound)
        for block in blocks:
            given |= read_first(block, bound)
    return given


def bound_before(path: list[tuple[list[Any], int]]) -> set[str]:
    """The variables that the innermost loop on a path has bound anew before it comes to the path's end: its own
    targets, and what is made of these and of what the loop does not bind."""
    depths = [depth for depth, (block, at) in enumerate(path[:-1]) if isinstance(block[at], LOOPS)]
    if not depths:
        return set()
    block, at = path[depths[-1]]
    loop = block[at]
    changing = {name.partition(".")[0] for name in bound_by(loop)}
    target = getattr(loop, "target", None)
    anew = set() if target is None else bound_by(target)
    for block, at in path[depths[-1] + 1 :]:
        for statement in block[:at]:
            if roots_in(statement) & changing - anew:
                anew -= bound_by(statement)
            elif isinstance(statement, ast.Assign):
                anew |= bound_by(statement)
    return anew


def constants_before(statements: list[Any]) -> dict[str, Any]:
    """The variables that are plain values behind these statements."""
    found: dict[str, Any] = {}
    for each in statements:
        for name in bound_by(each):
            found.pop(name, None)
        for target, value in assigned_by(each):
            try:
                found[target.id] = ast.literal_eval(value)
            except ValueError:
                continue
    return found


def assigned_by(statement: Any) -> Iterator[tuple[ast.Name, ast.expr]]:
    """The variables that an assignment binds, each with the expression of its value (`loss, count = 0, len(x)`)."""
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        pairs = [(target, statement.value)]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = list(zip(target.elts, statement.value.elts))
        yield from ((name, value) for name, value in pairs if isinstance(name, ast.Name))


def is_loss(name: str) -> bool:
    return "loss" in name.lower() and not name.lower().endswith("losses")


def bound_by(statement: Any) -> set[str]:
    return outliving.names_with(statement, ast.Store)


def changed_by(statement: Any) -> set[str]:
    """The variables in whose value a statement, or one inside of it, puts something: `parts.append(out)`,
    `losses["x"] = loss`, `scores.div_(2)`."""
    found: set[str] = set()
    for each in ast.walk(statement):
        owner: Any = None
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call):
            called = each.value.func
            if isinstance(called, ast.Attribute) and is_changing(called.attr):
                owner = called.value
        elif isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store):
            owner = each.value
        # A part of it is meant as well: `losses["x"].append(loss)`.
        while isinstance(owner, ast.Subscript):
            owner = owner.value
        if isinstance(owner, ast.Name):
            found.add(owner.id)
    return found


def is_changing(method: str) -> bool:
    is_in_place = method.endswith("_") and not method.startswith("_")
    return method in outliving.ADDING or method in ("update", "setdefault") or is_in_place


def only_calls(statement: Any, is_a_module: Callable[[ast.expr], bool]) -> bool:
    """Whether all that it does is to call models, and to let go of what they return (`with torch.no_grad():
    teacher(x)`)."""
    if isinstance(statement, ast.With):
        return all(only_calls(each, is_a_module) for each in statement.body)
    is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    return is_call and is_a_module(statement.value.func)


def changes_an_object(statement: Any) -> bool:
    places = (ast.Attribute, ast.Subscript)
    return any(isinstance(each, places) and isinstance(each.ctx, ast.Store) for each in ast.walk(statement))
