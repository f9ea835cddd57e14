"""What the program does with its model's output up to backward: the lines of the functions that called it, from the
call on. They are run again in the rehearsal, on what the model returned there: so the loss is the program's own, and
what it has bound to a name stays alive as long as there.

Of these lines only those are taken that the loss depends on. Where there are none, or they fail, the caller is told so
and goes on without.
"""

from __future__ import annotations

import ast
import copy

from ..common import errors, frames
from . import further, outliving, reading, sources, upcoming
from .inputs import shapes_in
from .noting import note
from .outside import CONTAINERS
from .sources import NotFound
from .statements import (
    LOOPS,
    WITHOUT_GRADIENTS,
    Replace,
    around,
    bound_before,
    bound_by,
    changed_by,
    changes_an_object,
    constants_before,
    following,
    has,
    is_at,
    is_loss,
    is_repeated,
    names_in,
    only_calls,
    path_to,
    path_to_line,
    read_first,
    roots_in,
    turns_gradients_off,
    words_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Callable

    from ..common.protocols import Torch
    from . import functions
    from .roots import Call

OUTPUT = "__oomph_output__"
LOSS = "__oomph_loss__"
# Called with the names that a statement has bound, and with those that one inside of it has.
BOUND, BOUND_INSIDE = "__oomph_bound__", "__oomph_bound_inside__"
# Functions between the model's call and its backward.
MOST_FUNCTIONS = 6
# What no backward goes from.
PLAIN = (type(None), bool, int, float, str)


class NoPart(NotFound):
    """What the call returned is no part of the loss: an agent that acts before it learns."""


class Callers:
    """The functions that called a model, innermost first, without torch's and ours: their code, and where in it."""

    def __init__(self, torch_home: str, frame: FrameType | None) -> None:
        self.places: list[tuple[CodeType, int, int]] = []
        # The same for calls of the same lines.
        self.place: tuple[Any, ...] = ()
        steps = 0
        while frame is not None and len(self.places) < MOST_FUNCTIONS and steps < frames.MAX_FRAMES:
            path = frame.f_code.co_filename
            if not path.startswith((torch_home, *frames.OURS, "<frozen")):
                self.places.append((frame.f_code, frame.f_lasti, frame.f_lineno))
            frame, steps = frame.f_back, steps + 1
        self.place = tuple((id(code), lasti) for code, lasti, _ in self.places)


class Scene:
    """One function's part: the lines from the call on, and what they need of its variables. `is_whole`: the statement
    that calls is run as it stands, as where it calls several times (an inner loop, a comprehension)."""

    # The compiled function whose lines these are.
    called: functions.Function | None = None

    def __init__(
        self, torch: Torch, frame: FrameType, place: tuple[CodeType, int, int], is_whole: bool = False,
        is_evaluation: bool = False,
    ) -> None:
        code, lasti, line = place
        body = sources.CUT.body_of(code)
        call = None if is_whole else call_at(body, code, lasti, line)
        path = path_to(body, lambda each: is_at(each, line) if call is None else has(each, call))
        if path is None:
            raise NotFound("the call is in no statement")
        self.is_whole = is_whole
        # Whether the call's statement, and what follows its `with`, run without gradients; `Lines` says so.
        self.is_inside_without = self.is_after_without = False
        self.turns_off = any(turns_gradients_off(block[at]) for block, at in path)
        if is_whole:
            path = with_backward(path)
        elif call is not None and is_repeated(path[-1][0][path[-1][1]], call):
            raise NotFound("its statement calls the model several times")
        # The lists of statements that the call is in, outermost first, and where.
        self.inside, self.after = following(path)
        first = path[-1][0][path[-1][1]]
        loops = [inner for (block, at), (inner, _) in zip(path, path[1:]) if isinstance(block[at], LOOPS)]
        self.is_in_loop = bool(loops)
        # The call's arguments that may be what it returned in the step before: variables, and where each is passed.
        self.carried = passed_by(call) if call is not None and self.is_in_loop else {}
        for name in bound_before(path):
            self.carried.pop(name, None)
        # Whether an evaluation comes before the next step.
        self.evaluates_next = upcoming.comes(path, LOOPS, upcoming.reader(frame))
        # What a variable of these holds is let go of when the loop comes to it again.
        again = [each for each in (loops[-1] if loops else body) if not isinstance(each, ast.AugAssign)]
        self.bound_in_loop = {name for each in again for name in bound_by(each)}
        self.is_module = code.co_name == "<module>"
        # The statements behind backward, up to the end of the loop.
        self.rest: list[Any] = []
        # Those of them that lead to further backwards.
        self.further: list[Any] = []
        # Whether what the first backward goes through outlives it.
        self.keeps_graph = False
        replaced: Any = first if call is None else Replace(call, OUTPUT).visit(first)
        self.result: ast.expr | None = None
        self.goes_back_in: Any = None
        self.ends = False
        cut = self.cut_at_loss if is_evaluation else self.cut
        self.inside = cut([replaced] + self.inside)
        if self.result is None:
            self.after = cut(self.after)
        else:
            self.rest += self.after
            self.after = []
        if self.result is None:
            raise NotFound("no backward and no return follows the call")
        self.slice(lambda function: isinstance(reading.resolved(function, frame), torch.nn.Module))
        self.globals: dict[str, Any] = frame.f_globals
        # Of variables that are containers, which they are.
        self.containers: dict[str, int] = {}
        self.values: dict[str, Any] = self.noted(torch, frame)
        if is_whole:
            # By now the loop has bound them again (`memory = None` before it, and what the model returned in it).
            begun = constants_before(path[-1][0][: path[-1][1]])
            self.values.update({name: value for name, value in begun.items() if name in self.values})

    def cut(self, statements: list[Any]) -> list[Any]:
        """Up to the one that goes backward or returns; what it goes backward from is the result."""
        for at, each in enumerate(statements):
            found = further.call_in(each)
            if found is not None:
                # The loss may be made in the statement itself.
                self.result, self.keeps_graph = self.value_of(found), further.keeps_graph(found)
                self.goes_back_in, before, behind = around(each, found)
                self.rest = behind + statements[at + 1 :]
                return statements[:at] + before
            if isinstance(each, ast.Return) and each.value is not None:
                self.result, self.ends = each.value, True
                return statements[:at]
        return statements

    def value_of(self, call: ast.Call) -> Any:
        return ast.fix_missing_locations(further.value_of(call, self.bound_in_loop | {OUTPUT}))

    def cut_at_loss(self, statements: list[Any]) -> list[Any]:
        """Up to the last that binds a loss: an evaluation of what a training step will go backward from."""
        for at in range(len(statements) - 1, -1, -1):
            statement = statements[at]
            if not isinstance(statement, ast.Assign) or "item" in words_of(statement.value):
                continue
            # What is added up over an evaluation is none.
            names = sorted(filter(is_loss, bound_by(statement) - names_in(statement.value)))
            if names:
                self.result = ast.parse(names[-1], mode="eval").body
                return statements[: at + 1]
        return statements

    def slice(self, is_a_module: Callable[[ast.expr], bool]) -> None:
        """Leaves the statements that the result depends on, the first, which binds what the model returned, what
        outlives the function, and calls of other models, whose hooks may keep what the result needs."""
        assert self.result is not None
        wanted = names_in(self.result)
        # What is only needed to see what outlives it.
        self.extra: set[str] = set()
        # What may hold memory of the GPU's until then, or lead to a gradient: what goes to the host does not.
        tied = set(wanted)
        # So many statements, until the model's output is only what they have bound.
        self.until_bound = 1
        for block in (self.after, self.inside):
            kept: list[Any] = []
            for at in range(len(block) - 1, -1, -1):
                statement, binds = block[at], bound_by(block[at])
                is_first = block is self.inside and at == 0
                if is_first and not any(map(reads_kept_loss, [self.result, *kept, *self.after])):
                    self.is_a_part(statement, binds, tied)
                is_needed = bool(binds & wanted) or is_first
                # An addition to a list of the program's is one to a list of ours.
                is_needed = is_needed and not outliving.only_adds(statement)
                # One to a list that was made behind the call is a part of what is made of it.
                before = [] if block is self.inside else self.inside
                changed = changed_by(statement) & wanted
                is_needed = is_needed or bool(changed) and any(changed & bound_by(each) for each in before + block[:at])
                keeps = self.keeps(statement, is_needed)
                kept += reversed([each.statement() for each in keeps])
                self.extra |= {name for each in keeps for name in names_in(each.value)}
                tied |= {name for each in keeps for name in names_in(each.value)}
                if is_needed or binds & self.extra and isinstance(statement, ast.Assign):
                    kept.append(statement if is_needed else outliving.guarded(statement))
                    (wanted if is_needed else self.extra).update(names_in(statement))
                    if isinstance(statement, ast.Assign):
                        tied -= binds
                    is_gone = isinstance(statement, ast.Assign) and outliving.is_on_the_host(statement.value)
                    tied |= set() if is_gone else names_in(statement)
                elif not is_first and not is_needed and only_calls(statement, is_a_module):
                    kept.append(outliving.guarded(statement))
                    self.extra |= names_in(statement)
                if is_first:
                    self.until_bound = len(keeps) + is_needed
            block[:] = reversed(kept)
        self.further = [] if self.ends else further.lines_of(self.rest, self.bound_in_loop)
        run = {id(each) for each in self.further}
        self.rest = self.behind([each for each in self.rest if id(each) not in run])
        # What they need is looked for, and missed only where they run.
        self.extra |= {name for each in self.further for name in names_in(each)}
        self.wanted = wanted - {OUTPUT}
        self.extra -= self.wanted | {OUTPUT}

    def is_a_part(self, statement: Any, binds: set[str], tied: set[str]) -> None:
        """Raises where all that the statement of the call does is to bind variables, and none of them leads to a
        backward, or outlives it."""
        does_more = changes_an_object(statement) or any(True for _ in outliving.kept_by(statement))
        if not binds or does_more or not isinstance(statement, ast.Assign) and not self.is_whole:
            return
        read = tied | {name for each in self.rest for name in names_in(each)}
        if binds.isdisjoint(read):
            raise NoPart("what it returned is no part of the loss")

    def keeps(self, statement: Any, is_needed: bool) -> list[outliving.Kept]:
        found = []
        for each in outliving.kept_by(statement):
            is_attribute = not isinstance(each.value, ast.Name) and not each.grows
            if is_attribute and not is_needed and isinstance(statement, ast.Assign):
                # It does not run, so the attribute is not there.
                each.value = statement.value
            names = roots_in(each.value)
            is_its_own = each.root() in self.bound_in_loop or self.dies(each)
            if names and not is_its_own:
                found.append(each)
        return found

    def dies(self, kept: outliving.Kept) -> bool:
        """Whether what keeps it is a variable of a function that ends."""
        is_variable = isinstance(kept.owner, ast.Name) and kept.owner.id != "self"
        return is_variable and not self.is_in_loop and not self.is_module and kept.grows

    def behind(self, statements: list[Any]) -> list[Any]:
        """Of the statements behind backward those that keep something or bind again what is kept."""
        bound = {name for each in self.inside + self.after for name in bound_by(each)}
        self.copies_model = outliving.copies_a_model(statements)
        # Everything that is made of what the model returned.
        made = set(bound)
        for at, statement in enumerate(statements):
            if isinstance(statement, ast.Assign) and roots_in(statement.value) & made:
                made |= bound_by(statement)
            if isinstance(statement, ast.Return):
                statements = statements[: at + 1]
                break
        chosen: list[Any] = []
        wanted: set[str] = set()
        for statement in reversed(statements):
            kept = self.keeps(statement, False)
            if isinstance(statement, ast.Return) and statement.value is not None:
                # Whoever called it may bind it.
                kept = [outliving.Kept(each, each, True, False) for each in outliving.parts(statement.value)]
            kept = [each for each in kept if roots_in(each.value) & made]
            chosen += reversed([each.statement() for each in kept])
            wanted |= {name for each in kept for name in names_in(each.value)}
            is_wanted = isinstance(statement, ast.Assign) and bool(bound_by(statement) & wanted)
            # The next step's call is given what is made here of what this one has returned.
            carries = isinstance(statement, ast.Assign) and bool(bound_by(statement) & self.carried.keys())
            is_wanted = is_wanted or carries and bool(roots_in(statement) & made)
            is_deleted = isinstance(statement, ast.Delete) and outliving.rebinds(statement) & made
            if is_wanted or is_deleted or outliving.rebinds(statement) & bound:
                chosen.append(outliving.guarded(statement))
                wanted |= names_in(statement)
        self.extra |= wanted
        return chosen[::-1]

    def noted(self, torch: Torch, frame: FrameType) -> dict[str, Any]:
        """The values that the lines need, without keeping a tensor or a module alive."""
        names = self.wanted | self.extra
        own = frames.read_locals(frame, lambda values: {name: values[name] for name in names if name in values})
        if frame.f_code.co_name == "<module>":
            own = {name: frame.f_globals[name] for name in names if name in frame.f_globals}
        else:
            for name in names:
                value = frame.f_globals.get(name)
                if name not in own and isinstance(value, (torch.Tensor, torch.nn.Module)):
                    own[name] = value
        self.containers = {name: id(value) for name, value in own.items() if type(value) in CONTAINERS}
        return {name: note(torch, value) for name, value in own.items()}

    def names_of(self) -> set[str]:
        """Names that are bound when backward runs."""
        return {name for each in self.inside + self.after + self.further + self.rest for name in bound_by(each)}

    def given(self) -> list[Any]:
        """The noted values of variables that the lines read before they bind them."""
        nodes: list[Any] = [*self.inside, *self.after, self.result, *self.further]
        given = read_first(nodes, set())
        return [self.values[name] for name in sorted(given) if name in self.values]

    def changes_objects(self) -> bool:
        return any(changes_an_object(each) for each in self.inside + self.after)

    def attributes(self) -> set[str]:
        nodes: list[Any] = [*self.inside, *self.after, *self.further, self.result]
        return {node.attr for each in nodes for node in ast.walk(each) if isinstance(node, ast.Attribute)}

    def compiled(self, statements: list[Any], result: ast.expr | None, is_first: bool) -> Any:
        """As a program, which tells of each name that it binds: `LOSS` is the result, where this is the part that has
        it. What the model returned is let go of as soon as the first statement has been through with it."""
        body: list[Any] = []
        for at, each in enumerate(statements):
            body.append(telling_inside(each) if self.is_whole else each)
            names = sorted(outliving.rebinds(each))
            is_called = is_first and self.is_whole and at == self.until_bound - 1
            if names or is_called:
                body.append(telling(BOUND, names))
        if result is not None:
            bound: Any = [ast.Name(id=LOSS, ctx=ast.Store())]
            body.append(ast.Assign(targets=bound, value=result, lineno=1, col_offset=0))
        if is_first and not self.is_whole:
            targets: list[ast.expr] = [ast.Name(id=OUTPUT, ctx=ast.Del())]
            is_inside = 0 < self.until_bound <= len(statements)
            at = body.index(statements[self.until_bound - 1]) + 1 if is_inside else len(body)
            body.insert(at, ast.Delete(targets=targets, lineno=1, col_offset=0))
        module = ast.Module(body=body, type_ignores=[])
        return compile(ast.fix_missing_locations(module), "<the caller's lines>", "exec")


def reads_kept_loss(statement: Any) -> bool:
    """Whether it reads a loss that an object keeps, as a model may its own (`loss = model.last_loss`)."""
    called = {id(each.func) for each in ast.walk(statement) if isinstance(each, ast.Call)}
    return any(
        isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load) and is_loss(each.attr)
        and id(each) not in called
        for each in ast.walk(statement)
    )


class Lines:
    """The lines of all functions from the model's call to its backward, innermost first."""

    def __init__(
        self, torch: Torch, callers: Callers, stack: list[FrameType], is_whole: bool = False, is_without: bool = False,
        is_evaluation: bool = False, first: Scene | None = None,
    ) -> None:
        # `first`: a function that the innermost of them called.
        self.scenes: list[Scene] = [] if first is None else [first]
        self.is_whole = is_whole or first is not None
        # Whether further backwards are run.
        self.goes_further = True
        # Whether the loop that calls these functions evaluates before the next step.
        self.callers_evaluate = False
        if first is not None and not first.ends:
            return
        for at, place in enumerate(callers.places):
            frame = next((each for each in stack if each.f_code is place[0]), None)
            if is_whole and not self.scenes and (frame is None or is_part(place[0])):
                # The one that called it runs it again.
                continue
            if frame is None:
                raise NotFound("a function that called the model has ended")
            try:
                scene = Scene(torch, frame, place, is_whole and not self.scenes, is_evaluation)
            except NotFound as error:
                if not self.scenes or isinstance(error, NoPart):
                    raise
                # A framework's own way from there: what was returned to it may be the loss.
                break
            self.scenes.append(scene)
            if not scene.ends:
                if not scene.is_in_loop:
                    self.callers_evaluate = evaluate_behind(callers.places[at + 1 :], stack)
                if is_without:
                    self.tell_without([code for code, _, _ in callers.places[: at + 1]])
                return
        if not self.scenes:
            raise NotFound("no function of the program's called the model")

    def tell_without(self, codes: list[CodeType]) -> None:
        """Which lines run without gradients, as the call of the model did: its own, with others of the same `with` or
        function, up to where gradients are on again."""
        if len(codes) != len(self.scenes):
            raise NotFound("a part of its functions turns gradients off")
        is_without = False
        for scene, code in reversed(list(zip(self.scenes, codes))):
            is_without = scene.is_after_without = is_without or is_decorated_without(code)
            is_without = scene.is_inside_without = is_without or scene.turns_off
        if not is_without or self.scenes[-1].is_after_without or isinstance(self.scenes[-1].goes_back_in, LOOPS):
            # An evaluation, and a training that comes behind it.
            raise NotFound("the lines behind it have no gradients")

    def lead_nowhere(self) -> bool:
        """Whether what is gone backward from is a plain value (`loss = None`) that the lines behind the model's call
        do not bind: that call was no part of a step, as one that only makes a model's lazy parts. Told before it is
        rehearsed."""
        scene = self.scenes[0]
        if len(self.scenes) != 1 or scene.called is not None or not isinstance(scene.result, ast.Name):
            return False
        name = scene.result.id
        is_bound = any(name in bound_by(each) for each in scene.inside + scene.after)
        return not is_bound and name in scene.values and type(scene.values[name]) in PLAIN

    def given(self) -> list[Any]:
        """The noted values of variables that were there at the call."""
        return [value for each in self.scenes for value in each.given()]

    def give_values(self, call: Call) -> None:
        """The numbers of arguments that variables still have, where the call's own were not read."""
        read = {each.identity: each.values for each in shapes_in(self.given()) if each.values is not None}
        for each in shapes_in([call.args, call.kwargs]):
            if each.values is None and each.identity in read and read[each.identity].shape == each.shape:
                each.values = read[each.identity]

    def is_in_loop(self) -> bool:
        """Whether what the last function binds stays until the next call of the model."""
        return len(self.scenes) > 0 and self.scenes[-1].is_in_loop and not self.scenes[-1].ends

    def carried(self) -> dict[str, Place]:
        """The variables that may be carried over from step to step, where the calling function goes backward itself."""
        return self.scenes[0].carried if len(self.scenes) == 1 and not self.is_whole else {}

    def evaluates_next(self) -> bool:
        """Whether a model is called without gradients before the next step."""
        if not self.scenes or self.scenes[-1].ends:
            return False
        return self.scenes[-1].evaluates_next or self.callers_evaluate

    def copies_a_model(self) -> bool:
        """Whether the lines behind backward copy a model, which may not have happened yet."""
        return any(each.copies_model for each in self.scenes)


def evaluate_behind(places: list[tuple[CodeType, int, int]], stack: list[FrameType]) -> bool:
    """Whether, of the functions that called one that takes a step, the loop that it is in evaluates before the next."""
    for code, _, line in places:
        frame = next((each for each in stack if each.f_code is code), None)
        try:
            path = None if frame is None or is_part(code) else path_to_line(sources.CUT.body_of(code), line)
        except NotFound:
            # What runs a text that is no file (`python -c`, a notebook's cell).
            errors.foreseen("look for an evaluation behind the step")
            continue
        if frame is None or path is None:
            continue
        if upcoming.comes(path, LOOPS, upcoming.reader(frame), has_stepped=True):
            return True
        if any(isinstance(block[at], LOOPS) for block, at in path[:-1]):
            return False
    return False


def zero_grad_of(torch: Torch, callers: Callers | None) -> str | None:
    """When the program lets go of its gradients, by the innermost function that does: in the words of
    `outliving.zero_grad_of`; None where none is seen to. What a function further out lets go of before its call is
    gone whatever the inner one does behind the model's (a loss that attacks the model, and clears what that left)."""
    first = None
    try:
        # Since 2.0 they are let go of unless the call says otherwise.
        sets_to_none = (torch.optim.Optimizer.zero_grad.__defaults__ or (True,))[0]
        for code, _, line in callers.places if callers is not None else ():
            if not outliving.mentions_zero_grad(code):
                continue
            body = sources.CUT.body_of(code)
            if first is not None:
                if outliving.clears_before(body, line):
                    return outliving.BEFORE_FORWARD
                continue
            first = outliving.zero_grad_of(body, line, further.BACKWARDS)
            if first is not None and not sets_to_none:
                return outliving.NEVER
            if first not in (None, outliving.BEFORE_BACKWARD):
                break
    except NotFound:
        errors.foreseen("look for zero_grad")
    except Exception:
        errors.ours("look for zero_grad")
    return first


def lines_of(
    torch: Torch, callers: Callers | None, stack: list[FrameType], is_whole: bool = False, is_without: bool = False,
    is_evaluation: bool = False,
) -> Lines | None:
    """The lines after a model's call, with or without gradients, whose functions are among these frames; None where
    they cannot be had. Of an evaluation those of the function that called, up to its loss."""
    if callers is None:
        return None
    # What is parsed is changed while it is cut into parts.
    sources.CUT.forget()
    try:
        return Lines(torch, callers, stack, is_whole, is_without, is_evaluation)
    except NotFound:
        errors.foreseen("find the caller's lines")
    except Exception:
        errors.ours("find the caller's lines")
    return None


def standing_in(body: list[Any], line: int) -> list[Any]:
    """What stands in a line, and what that is part of."""
    found, at = [], list(body)
    while at:
        node = at.pop()
        end = getattr(node, "end_lineno", None)
        if end is None or node.lineno <= line <= end:
            found.append(node)
            at += ast.iter_child_nodes(node)
    return found


def call_at(body: list[Any], code: CodeType, lasti: int, line: int) -> ast.Call:
    """The call that runs: by its columns where Python knows them, else the only one of its line that may be it."""
    positions = getattr(code, "co_positions", None)
    at = None if positions is None else list(positions())[lasti // 2]
    found = [node for node in standing_in(body, line if at is None else at[0]) if isinstance(node, ast.Call)]
    if at is not None:
        found = [each for each in found if (each.lineno, each.end_lineno, each.col_offset, each.end_col_offset) == at]
    else:
        found = [each for each in found if each.lineno <= line <= (each.end_lineno or each.lineno)]
        # An argument's call has ended before.
        outer = [each for each in found if isinstance(each.func, (ast.Name, ast.Attribute))]
        found = [each for each in outer if words_of(each.func) & MODELS] or outer
    if len(found) != 1:
        raise NotFound("the call is not told from others of its line")
    return found[0]


class Place:
    """Where a variable is passed to a call: by its position or its keyword; `is_starred`: from there on."""

    def __init__(self, at: int | str, is_starred: bool = False) -> None:
        self.at = at
        self.is_starred = is_starred

    def value_in(self, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(self.at, str):
            return kwargs.get(self.at)
        if self.is_starred:
            return args[self.at :]
        return args[self.at] if self.at < len(args) else None

    def put(self, value: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        if isinstance(self.at, str):
            kwargs[self.at] = value
        elif self.is_starred:
            args[self.at :] = list(value)
        elif self.at < len(args):
            args[self.at] = value


def passed_by(call: ast.Call) -> dict[str, Place]:
    """The variables that are arguments of a call as they are."""
    found: dict[str, Place] = {}
    for at, each in enumerate(call.args):
        is_starred = isinstance(each, ast.Starred)
        if is_starred and at + 1 < len(call.args):
            # How many it stands for is not known.
            break
        value = each.value if isinstance(each, ast.Starred) else each
        if isinstance(value, ast.Name):
            found[value.id] = Place(at, is_starred)
    for keyword in call.keywords:
        if keyword.arg is not None and isinstance(keyword.value, ast.Name):
            found[keyword.value.id] = Place(keyword.arg)
    return found


MODELS = {"model", "net", "network", "self", "module", "forward"}


def with_backward(path: list[tuple[list[Any], int]]) -> list[tuple[list[Any], int]]:
    """The path up to the innermost statement that a backward, or a return, follows in its loop."""
    for depth in range(len(path), 0, -1):
        statements = [statement for part in following(path[:depth]) for statement in part]
        statements.append(path[depth - 1][0][path[depth - 1][1]] if depth == len(path) else ast.Pass())
        if any(further.call_in(each) is not None or isinstance(each, ast.Return) for each in statements):
            return path[:depth]
    raise NotFound("no backward and no return follows the call")


def is_decorated_without(code: CodeType) -> bool:
    """Whether a function's gradients are off by its decorator."""
    if code.co_name.startswith("<"):
        return False
    return any(words_of(each) & WITHOUT_GRADIENTS for each in sources.CUT.function_of(code).decorator_list)


def is_asked_by_a_loop(code: CodeType, line: int) -> bool:
    """Whether a line of a function is what a `while` asks before each turn."""
    try:
        nodes = [node for each in sources.CUT.body_of(code) for node in ast.walk(each)]
    except NotFound:
        errors.foreseen("look for the loop that asks")
        return False
    return any(isinstance(node, ast.While) and is_at(node.test, line) for node in nodes)


def is_part(code: CodeType) -> bool:
    """Whether it is a comprehension's or a lambda's, a part of another function's lines."""
    return code.co_name.startswith("<") and code.co_name != "<module>"


def telling(function: str, names: list[str]) -> ast.stmt:
    """A statement that tells of names that are bound."""
    given: list[ast.expr] = [ast.Constant(value=name) for name in names]
    return ast.Expr(value=ast.Call(func=ast.Name(id=function, ctx=ast.Load()), args=given, keywords=[]))


def telling_inside(statement: Any) -> Any:
    """A loop, or another statement with statements inside, that tells of what these bind as they do."""
    if not isinstance(statement, (*LOOPS, ast.If, ast.With)):
        return statement
    made = copy.copy(statement)
    for field in ("body", "orelse"):
        block: list[Any] = []
        for each in getattr(statement, field, ()):
            block.append(telling_inside(each))
            names = sorted(outliving.rebinds(each))
            if names:
                block.append(telling(BOUND_INSIDE, names))
        if block:
            setattr(made, field, block)
    return made
