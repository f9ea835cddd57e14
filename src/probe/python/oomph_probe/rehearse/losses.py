"""The loss of a rehearsed step: the program's own lines after the model's call, run on what the rehearsed model has
returned (callers.py). What they bind stays alive as long as their names do.
"""

from __future__ import annotations

import ast
import contextlib
import types

from ..common import errors
from ..knobs.batch import is_batch
from ..patch import unmade
from . import callers, further, noting, outliving, outside, regions, singly
from .effects import Stopped
from .inputs import Shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Tensor
    from .callers import Scene
    from .functions import Function
    from .rehearsal import Rehearsal
    from .trace import Trace

# Wrappers that call one module of theirs with the same arguments, on this process's share of the batch.
WRAPPERS = ("DistributedDataParallel", "DataParallel", "OptimizedModule")

# So many nodes of a graph are looked at from a loss on.
NEAR = 40


class NoLoss(Exception):
    """Why the program's own lines do not lead to its loss."""


class NoFurther(Exception):
    """The lines behind the first backward do not lead to the next one."""


class Scenes:
    """The lines of one rehearsal, and their variables."""

    def __init__(self, rehearsal: Rehearsal, copier: Any) -> None:
        self.rehearsal = rehearsal
        self.torch = rehearsal.torch
        self.copier = copier
        self.lines = rehearsal.call.lines
        # Copies of what the program's objects have, by address: what calls one another may have the same object.
        self.copies: dict[int, Any] = {}
        # What the function that goes backward has bound.
        self.space: dict[str, Any] = {}
        self.bound: set[str] = set()
        # The event behind which each name is bound first.
        self.bound_at: dict[str, int] = {}
        # What else outlives the step, by the names of outliving.py, and whether some of it is not known.
        self.kept: dict[str, list[Any]] = {outliving.STAYS: [], outliving.GROWS: [], outliving.MAY: []}
        self.failed = False
        # The variables that the call's arguments are, and that are what it has returned afterwards.
        self.carried: list[str] = []

    def loss(self, outputs: list[Any]) -> Tensor:
        """What the program goes backward from; the list is emptied, so that only the program's names keep what is in
        it."""
        assert self.lines is not None
        returned: Tensor | None = None
        try:
            self.rehearsal.is_in_lines = True
            with self.rehearsal.on_this_thread():
                for scene in self.lines.scenes:
                    outputs.append(self.run(scene, outputs))
                    found = self.scalar_or_none(outputs[-1])
                    returned = returned if found is None else found
                    del found
            loss = self.scalar(outputs.pop())
        except singly.OneByOne:
            raise
        except Stopped as stopped:
            if self.rehearsal.deadline.has_come():
                raise
            self.rehearsal.judge_on()
            loss = self.returned(returned, str(stopped))
        except Exception as error:
            errors.foreseen("run the caller's lines")
            loss = self.returned(returned, repr(error)[:160])
        finally:
            self.rehearsal.is_in_lines = False
        trace = self.rehearsal.trace
        trace.marks["own loss"] = 1
        # Where the model's call is in the line that makes the loss, nothing was bound before it.
        trace.mark_first("forward")
        return loss

    def returned(self, loss: Tensor | None, why: str) -> Tensor:
        """What a function of the program's has returned to a framework, whose lines could not be run."""
        if loss is None:
            raise NoLoss(why) from None
        return loss

    def run(self, scene: Scene, outputs: list[Any]) -> Any:
        rehearsal = self.rehearsal
        views = self.copier.views
        space: dict[str, Any] = dict(scene.globals if views is None else views.globals_of(scene.globals))
        with rehearsal.mode:
            for name, value in scene.values.items():
                try:
                    space[name] = self.found(scene, name, value)
                except noting.Gone:
                    if name in scene.wanted:
                        raise
                    continue
                # A number that is the batch, and is called so, is the rehearsed one here.
                was, now = rehearsal.variant.batch or (0, 0)
                if type(value) is int and value == was and is_batch(name):
                    space[name] = now
        # They are there before the step.
        for each in leaves_in(self.torch, list(space.values()), 4):
            if type(each).__name__ == "FakeTensor":
                rehearsal.is_new(each.untyped_storage())
        if not scene.is_whole:
            space[callers.OUTPUT] = outputs.pop()
        space.update({callers.BOUND: self.binds, callers.BOUND_INSIDE: self.binds_inside})
        space.update(self.kept)
        space[outliving.FAILS] = self.fails
        space.update({further.GOES_BACK: self.go_back, further.CLEARS: self.clear})
        if scene.called is not None:
            loss = self.of_graph(scene, scene.called, space)
            if loss is not None:
                return loss
        inside = scene.compiled(scene.inside, None if scene.after else scene.result, True)
        with rehearsal.mode, rehearsal.recorder(), rehearsal.autocast(), self.gradients(scene.is_inside_without):
            exec(inside, space)
        if scene.after:
            # Behind the `with` that the call is in.
            behind = self.autocast_behind()
            with rehearsal.mode, rehearsal.recorder(), behind, self.gradients(scene.is_after_without):
                exec(scene.compiled(scene.after, scene.result, False), space)
        result = space.pop(callers.LOSS)
        if not scene.ends:
            self.space, self.bound = space, scene.names_of()
        return result

    def found(self, scene: Scene, name: str, value: Any) -> Any:
        """What a variable has; a function, and what the step changes, as the model's copy finds it."""
        changed = self.copier.outside
        if changed is not None:
            there = changed.objects.get(scene.containers.get(name))
            if there is not None:
                return self.copier.of(there)
            if type(value) in (types.FunctionType, types.ModuleType):
                return self.copier.views.of(value)
        return self.made(value)

    def of_graph(self, scene: Scene, called: Function, space: dict[str, Any]) -> Any:
        """What a compiled function goes backward from, or returns, where a graph makes all of it; None where its lines
        are to be run."""
        rehearsal = self.rehearsal
        if isinstance(scene.result, ast.Tuple) or any(rehearsal.variant.changed):
            return None
        lines = scene.compiled(scene.inside, None, False)

        def look() -> None:
            exec(lines, {**space, callers.BOUND: unheard, callers.BOUND_INSIDE: unheard})

        try:
            with rehearsal.mode, rehearsal.recorder(), rehearsal.autocast():
                args = [self.made(each) for each in called.args]
                named = {name: self.made(each) for name, each in called.kwargs.items()}
                function = self.copier.function(called.function)
                rehearsal.know_copies()
                made = regions.first_graph(rehearsal, function, look, self.copied, args, named)
        except (noting.Gone, Stopped) as error:
            if rehearsal.deadline.has_come():
                raise
            rehearsal.judge_on()
            errors.foreseen("find a compiled function's graph: %r" % error)
            return None
        losses = [each for each in made or () if self.scalar_or_none(each) is not None]
        if len(losses) != 1:
            rehearsal.is_partly_written = bool(made) or rehearsal.is_partly_written
            return None
        rehearsal.trace.mark_first("forward")
        if not scene.ends:
            # What a graph returns beside it is needed behind backward.
            self.space, self.bound = {callers.OUTPUT: made}, {callers.OUTPUT}
        return losses[0]

    def gradients(self, are_off: bool) -> Any:
        return self.torch.no_grad() if are_off else contextlib.nullcontext()

    def fails(self, error: BaseException, keeps: bool) -> None:
        """A line that the loss does not depend on cannot be run."""
        if self.rehearsal.deadline.has_come():
            raise error
        errors.foreseen("see what outlives the step: %r" % error)
        self.failed = self.failed or keeps

    def binds_inside(self, *names: str) -> None:
        """What these names held of the step before is let go of."""
        for name in names:
            self.bound_at.setdefault(name, len(self.rehearsal.trace.words))

    def binds(self, *names: str) -> None:
        """The same behind a statement of its own."""
        trace = self.rehearsal.trace
        self.binds_inside(*names)
        # Where the model's call is not told from its statement.
        trace.mark_first("forward")

    def go_back(self, value: Any, keeps_graph: bool) -> None:
        """A backward behind the first."""
        loss = self.scalar(value)
        del value
        loss.backward(retain_graph=keeps_graph)

    def clear(self, owner: Any) -> None:
        """`zero_grad` of a model, which is a copy, or of an optimizer, which has the program's own parameters."""
        if isinstance(owner, self.torch.nn.Module):
            copies = list(owner.parameters())
        else:
            given = [each for group in owner.param_groups for each in group["params"]]
            copies = [self.copier.memo.get(id(each)) for each in given]
        self.rehearsal.reached.update(id(each) for each in copies if getattr(each, "grad", None) is not None)
        for each in copies:
            if getattr(each, "fake_mode", None) is not None or type(each) is self.torch.nn.Parameter:
                each.grad = None

    def carries(self) -> dict[str, Any]:
        """The values that the next step's call is given of what this one has made: a memory, hidden states."""
        names = {} if self.lines is None else self.lines.carried()
        values = {name: self.space[name] for name in names if name in self.space}
        return {name: value for name, value in values.items() if self.numbers(value)}

    def carries_other(self, given: dict[str, Any]) -> dict[str, Any]:
        """The same where it has other sizes than what this step's call was given."""
        carried = self.carries()
        for name, value in carried.items():
            if [tuple(each.shape) for each in leaves_in(self.torch, value, 5)] != given.get(name):
                return carried
        return {}

    def keeps_graph(self) -> bool:
        return self.lines is not None and self.lines.scenes[-1].keeps_graph

    def further(self) -> None:
        """The lines that lead to further backwards."""
        last = None if self.lines is None else self.lines.scenes[-1]
        if self.lines is None or last is None or not last.further or not self.lines.goes_further:
            return
        try:
            self.rehearsal.is_in_lines = True
            with self.rehearsal.on_this_thread():
                exec(last.compiled(last.further, None, False), self.space)
        except (Exception, Stopped) as error:
            if self.rehearsal.deadline.has_come():
                raise
            self.rehearsal.judge_on()
            errors.foreseen("go backward again")
            raise NoFurther(repr(error)[:160]) from None
        finally:
            self.rehearsal.is_in_lines = False

    def behind(self) -> None:
        """The lines behind backward that say what outlives the step."""
        if self.lines is None:
            return
        rest = self.lines.scenes[-1].rest
        try:
            self.rehearsal.is_in_lines = True
            if rest:
                exec(self.lines.scenes[-1].compiled(rest, None, False), self.space)
        except Stopped:
            if self.rehearsal.deadline.has_come():
                raise
            self.rehearsal.judge_on()
            self.failed = True
        except Exception:
            errors.foreseen("see what outlives the step")
            self.failed = True
        finally:
            self.rehearsal.is_in_lines = False
        self.space = {name: self.space[name] for name in self.bound if name in self.space}

    def autocast_behind(self) -> Any:
        if self.rehearsal.variant.changed.amp or not self.rehearsal.call.autocast[0]:
            return self.rehearsal.autocast()
        return self.torch.autocast(self.rehearsal.call.device.type, enabled=False)

    def outlive(self, returned: list[int]) -> dict[str, list[int]]:
        """The allocations that outlive the step, by their numbers: `held` until these events of the next step
        (`until`), `grows` for good, and `may_hold` where the lines do not tell. `returned` are those of the model's
        output."""
        if self.lines is None:
            return {"may_hold": returned}
        forward = self.rehearsal.trace.marks["forward"]
        until = dict.fromkeys(self.numbers(self.kept[outliving.STAYS]), forward)
        for name, value in self.space.items() if self.lines.is_in_loop() else ():
            for number in self.numbers(value):
                until[number] = max(until.get(number, 0), self.bound_at.get(name, forward))
        # Figures to print are worth no second reading.
        maybe = leaves_in(self.torch, [*self.kept[outliving.MAY], *self.put_outside()], 4)
        found = {
            "grows": self.numbers(self.kept[outliving.GROWS]),
            "may_hold": self.numbers([each for each in maybe if each.dim()]) + (returned if self.failed else []),
        }
        del maybe
        self.carried = sorted(self.carries())
        is_in_loop, value = self.lines.is_in_loop(), None
        if not is_in_loop:
            # The function's variables end with it, and the graphs that they keep.
            self.space.clear()
        # What ends now ends with the rehearsal, not in the step.
        self.rehearsal.trace.is_over = True
        if is_in_loop:
            self.let_go_of_graphs(until, forward)
        found["held"] = sorted(until)
        self.space.clear()
        for kept in self.kept.values():
            kept.clear()
        known = set(found["held"]) | set(found["grows"])
        found["may_hold"] = sorted(set(found["may_hold"]) - known)
        found["held"] = sorted(set(found["held"]) - set(found["grows"]))
        found["until"] = [until[number] for number in found["held"]]
        return found

    def let_go_of_graphs(self, until: dict[int, int], forward: int) -> None:
        """What only the graphs of the step's variables hold (`retain_graph=True`) stays as long as the last of these
        variables: they are let go of here in the order that the next step binds them in."""
        trace = self.rehearsal.trace
        there = alive(trace)
        for name in sorted(self.space, key=lambda name: self.bound_at.get(name, forward)):
            del self.space[name]
            left = alive(trace)
            until.update((number, self.bound_at.get(name, forward)) for number in there - left - set(until))
            there = left

    def put_outside(self) -> list[Any]:
        """What the step has put into objects that were there before it: until when that stays is not known."""
        changed, memo = self.copier.outside, self.copier.memo
        made = [memo[each] for each in changed.objects if each in memo] if changed is not None else []
        return [list(each.values()) if isinstance(each, dict) else list(each) for each in made if is_container(each)]

    def numbers(self, values: Any) -> list[int]:
        return numbers_of(self.torch, self.rehearsal.trace, values)

    def scalar(self, value: Any) -> Tensor:
        """One tensor to go backward from."""
        found = self.scalar_or_none(value)
        if found is None:
            raise NoLoss("its lines lead to no loss")
        return found

    def scalar_or_none(self, value: Any) -> Tensor | None:
        """The same, where it is one; of a tuple the first that may be it."""
        torch = self.torch
        if isinstance(value, dict) and "loss" in value:
            value = value["loss"]
        if isinstance(value, (list, tuple)):
            value = next((each for each in value if isinstance(each, torch.Tensor) and each.requires_grad), None)
        # A real one, of an earlier step, would go backward for real; what stands for one that was there has no graph.
        is_rehearsed = getattr(value, "fake_mode", None) is self.rehearsal.mode
        if not is_rehearsed or value.grad_fn is None or value.numel() != 1:
            return None
        found: Tensor = value
        return found

    def made(self, value: Any) -> Any:
        """What a noted value stands for: a fake for each shape, a copy of each module."""
        if isinstance(value, Shape):
            return self.rehearsal.made(value, True)
        if isinstance(value, noting.Kept):
            return self.copy(value.value())
        if isinstance(value, noting.Method):
            return types.MethodType(value.function, self.made(value.owner))
        if isinstance(value, noting.Unknown):
            raise noting.Gone
        if isinstance(value, dict):
            return {key: self.made(each) for key, each in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self.made(each) for each in value)
        if noting.is_named(value):
            return noting.like(value, [self.made(each) for each in value])
        return value

    def copy(self, value: Any) -> Any:
        inner = getattr(value, "module", None) if type(value).__name__ in WRAPPERS else None
        value = value if inner is None else inner
        made = self.copied(value)
        if made is value and self.lines is not None and any(each.changes_objects() for each in self.lines.scenes):
            # What cannot be copied would be changed itself.
            raise noting.Gone
        if made is value or isinstance(value, self.torch.nn.Module):
            return made
        # An object of the program's: its modules (a criterion, the model itself) are copies too, and what it trains
        # beside them (a temperature).
        for name, each in list(getattr(made, "__dict__", {}).items()):
            # Where a method of its own calls them, no line names them.
            is_wanted = self.lines is None or self.lines.is_whole or name in self.wanted()
            if is_wanted and id(each) not in self.copies and self.is_trained(each):
                made.__dict__[name] = self.copied(each)
        return made

    def is_trained(self, value: Any) -> bool:
        torch = self.torch
        is_tensor = type(value) in (torch.Tensor, torch.nn.Parameter)
        return isinstance(value, torch.nn.Module) or is_tensor and value.requires_grad

    def copied(self, value: Any) -> Any:
        is_new = id(value) not in self.copier.memo
        made = self.copier.of(value)
        self.copies[id(made)] = made
        if is_new and isinstance(made, self.torch.nn.Module):
            self.rehearsal.has_copied(made)
        elif is_new and isinstance(made, self.torch.Tensor):
            self.rehearsal.is_new(made.untyped_storage())
        return made

    def wanted(self) -> set[str]:
        """The attributes that the lines name."""
        assert self.lines is not None
        return {name for scene in self.lines.scenes for name in scene.attributes()}


def is_container(value: Any) -> bool:
    return type(value) in outside.CONTAINERS


def unheard(*_: str) -> None:
    """In place of what is told of the names that are bound."""


def kept_by(torch: Any, module: Any, outputs: list[Any]) -> Any:
    """The loss that a model's forward has left in an attribute of its own (`self.last_loss = cross_entropy(logits)`),
    where it is made of what the model returned: of a part of a loss (`aux_loss`) nothing of that is in."""
    for name, value in module.__dict__.items():
        if "loss" in name.lower() and isinstance(value, torch.Tensor) and value.numel() == 1:
            if comes_from(value, outputs):
                return value
    return None


def comes_from(loss: Any, outputs: list[Any]) -> bool:
    """Whether one of these tensors is near the loss in its graph; a copy of what was there before has none."""
    wanted = [each.grad_fn for each in outputs if each.grad_fn is not None]
    nodes, at = [loss.grad_fn] if loss.grad_fn is not None else [], 0
    while at < min(len(nodes), NEAR):
        if any(nodes[at] is each for each in wanted):
            return True
        nodes += [node for node, _ in nodes[at].next_functions if node is not None]
        at += 1
    return False


def numbers_of(torch: Any, trace: Any, values: Any) -> list[int]:
    """The allocations of these values' tensors that are there, by their numbers."""
    storages = {unmade.held_by(each).untyped_storage()._cdata for each in leaves_in(torch, values, 5)}
    alive = [(number, reference()) for number, reference in list(trace.live.items())]
    return sorted(number for number, storage in alive if storage is not None and storage._cdata in storages)


def replaced(torch: Any, trace: Trace, module: Any, outlive: dict[str, list[int]]) -> None:
    """Adds what the model has kept of the step in attributes (a weight that is computed before each call): each of the
    next step takes its place once it is there itself."""
    kept = [each for one in module.modules() for each in (*vars(one).values(), *one._buffers.values())]
    tensors = [each for each in kept if isinstance(each, torch.Tensor) and type(each) is not torch.nn.Parameter]
    found = numbers_of(torch, trace, tensors)
    known = {number for name, numbers in outlive.items() if name != "until" for number in numbers}
    made = [at for at, word in enumerate(trace.words) if not word.startswith("-")]
    until = dict(zip(outlive.get("held", ()), outlive.get("until", ())))
    until.update((number, made[number] + 1) for number in found if number not in known)
    outlive.update(held=sorted(until), until=[until[number] for number in sorted(until)])


def alive(trace: Trace) -> set[int]:
    """The numbers of the allocations that are there."""
    return {number for number, reference in list(trace.live.items()) if reference() is not None}


def leaves_in(torch: Any, value: Any, depth: int) -> list[Any]:
    """The tensors in plain containers, and in a model's output."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if depth and isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in leaves_in(torch, each, depth - 1)]
    return []
