"""What the program has compiled, in a rehearsal: it allocates what its compiled graphs do, not what its lines would.

Fused kernels keep less for backward than the operators that they are made of, and return the gradients of all
parameters at once. So in the place of a function that was compiled runs the code that torch.compile has put there
(compilations.py), and in the place of each graph that this calls something that takes and gives what the graph does.
The function's own lines run before, unseen: they tell which sizes there are at the rehearsed batch, since those of a
graph are the ones that it was compiled for. Where these are variables they follow from what the graph is given.

Where the code does not fit what it is given, the lines are rehearsed as they are written.
"""

from __future__ import annotations

import types

from ..common import errors
from . import compilations
from .compiling import ORIGINAL
from .scaling import Sizes
from .wrappers import LEFT, TAKEN, Form, Formula, Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Args, Kwargs, Module, Tensor, Torch
    from .compilations import Compiled, Known, Plan, Split
    from .rehearsal import Rehearsal
    from .wrappers import Graph


class Mismatch(Exception):
    """A graph was compiled for something else than it is given."""


class Made(Exception):
    """What a graph has returned, where nothing behind it is to run."""

    def __init__(self, values: list[Any]) -> None:
        super().__init__()
        self.values = values


def put(rehearsal: Rehearsal, compiled: list[tuple[Module, Module]]) -> None:
    """`compiled`: copies of modules that the program has compiled, with these. What they call in turn was compiled by
    itself where a graph had to end before it."""
    known: Known = rehearsal.answers.compiled_of(rehearsal.torch)
    done: set[int] = set()
    for copy, _ in compiled:
        for each in copy.modules():
            if id(each) in done or any(each is other for other in rehearsal.regions):
                continue
            done.add(id(each))
            stand_in(rehearsal, each, known)
    whole = rehearsal.copier.memo.get(id(rehearsal.call.module()))
    for each in whole.modules() if whole is not None else ():
        # Compiled by the program as a method, of this module or of its class.
        if id(each) not in done and is_compiled_method(each):
            stand_in(rehearsal, each, known)


def is_compiled_method(module: Module) -> bool:
    return hasattr(getattr(type(module), "forward", None), ORIGINAL) or "forward" in module.__dict__


def first_graph(
    rehearsal: Rehearsal, function: Any, look: Callable[[], None], copied: Callable[[Any], Any], args: list[Any],
    kwargs: Kwargs,
) -> list[Any] | None:
    """What the first graph of a compiled function returns; nothing of its code behind that is run. `look` runs its
    lines, `copied` gives the copies of modules. None where there is none, or none that fits."""
    region = Region(rehearsal, function, rehearsal.answers.compiled_of(rehearsal.torch).of(function))
    if not region.found or rehearsal.seen_by is not None:
        return None
    seen = rehearsal.seen_by = Seen(rehearsal)
    try:
        seen.look(look, (), {})
        for each in region.found:
            try:
                region.with_graphs(each, seen, copied)(*args, **kwargs)
            except Made as made:
                return made.values
            except Exception:
                errors.foreseen("find the graph of a compiled function")
    finally:
        rehearsal.seen_by = None
    return None


def stand_in(rehearsal: Rehearsal, module: Module, known: Known) -> None:
    written = module.forward
    function = getattr(written, "__func__", None)
    if type(written) is not types.MethodType or written.__self__ is not module:
        return
    function = getattr(function, "__dict__", {}).get(ORIGINAL, function)
    found = known.of(function)
    if found:
        rehearsal.regions.append(module)
        region = Region(rehearsal, function, found)
        module.__dict__["forward"] = lambda *args, **kwargs: region.called(written, (module, *args), args, kwargs)


class Quiet:
    """In place of a trace while lines run unseen: which sizes there were."""

    def __init__(self) -> None:
        self.sizes: set[int] = set()
        # The types of the tensors of each shape.
        self.shapes: dict[tuple[int, ...], set[Any]] = {}
        self.flops = 0

    def allocate(self, storage: Any) -> None:
        self.sizes.add(storage.nbytes())

    def saw(self, tensor: Any) -> None:
        self.shapes.setdefault(tuple(tensor.shape), set()).add(tensor.dtype)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


class Region:
    """A function that was compiled."""

    def __init__(self, rehearsal: Rehearsal, function: Any, found: list[Compiled]) -> None:
        self.rehearsal = rehearsal
        self.torch = rehearsal.torch
        self.function = function
        self.found: list[Compiled] = found

    def called(self, written: Callable[..., Any], all_args: Args, args: Args, kwargs: Kwargs) -> Any:
        """`all_args` are those of the function, `args` those of what is called as it is written."""
        rehearsal = self.rehearsal
        if rehearsal.seen_by is not None and rehearsal.seen_by.is_looking or not self.torch.is_grad_enabled():
            return written(*args, **kwargs)
        outer = rehearsal.seen_by
        seen = outer
        if outer is None:
            seen = rehearsal.seen_by = Seen(rehearsal)
        assert seen is not None
        try:
            if outer is None:
                seen.look(written, args, kwargs)
            return self.played(seen, written, all_args, args, kwargs)
        finally:
            rehearsal.seen_by = outer

    def played(self, seen: Seen, written: Callable[..., Any], all_args: Args, args: Args, kwargs: Kwargs) -> Any:
        for each in self.found:
            try:
                function = self.with_graphs(each, seen)
            except (ValueError, TypeError):
                # It has cells of another kind.
                errors.foreseen("run what was compiled")
                continue
            try:
                return function(*all_args, **kwargs)
            except Mismatch:
                errors.foreseen("find the graph of a call")
        if self.found:
            self.rehearsal.is_partly_written = True
        return written(*args, **kwargs)

    def with_graphs(self, compiled: Compiled, seen: Seen, copied: Callable[[Any], Any] | None = None) -> Any:
        """The compiled code, which calls what stands in for its graphs. `copied`: it is to end behind the first, and
        models that its globals are have copies."""
        named: dict[str, Any] = dict(self.function.__globals__)
        if copied is not None:
            models = [name for name in compiled.code.co_names if isinstance(named.get(name), self.torch.nn.Module)]
            named.update({name: copied(named[name]) for name in models})
        for name, graph in compiled.graphs.items():
            named[name] = Called(self.rehearsal, graph, seen, ends=copied is not None)
        for name, value in compiled.resumed.items():
            named[name] = self.rest_of(value)
        code = compiled.code
        made = types.FunctionType(code, named, code.co_name, self.function.__defaults__, self.function.__closure__)
        made.__kwdefaults__ = self.function.__kwdefaults__
        return made

    def rest_of(self, function: Any) -> Callable[..., Any]:
        """What the function goes on with behind a graph."""
        known = self.rehearsal.answers.compiled_of(self.torch)
        rest = Region(self.rehearsal, function, known.of(function))
        return lambda *args, **kwargs: rest.called(function, args, args, kwargs)


class Seen:
    """The sizes that there are in the lines of a compiled function, at the rehearsed batch."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.rehearsal = rehearsal
        self.is_looking = False
        self.quiet = Quiet()
        self.sizes = Sizes(rehearsal.variant.batch or (1, 1), self.quiet.sizes, self.quiet.shapes)
        # Operations that no graph has been told to do yet.
        self.flops = 0

    def look(self, written: Callable[..., Any], args: Args, kwargs: Kwargs) -> None:
        rehearsal: Any = self.rehearsal
        trace, memory = rehearsal.trace, rehearsal.copier.memory
        rehearsal.trace = self.quiet
        self.is_looking = memory.is_quiet = True
        try:
            with rehearsal.torch.no_grad():
                written(*args, **kwargs)
        finally:
            rehearsal.trace = trace
            self.is_looking = memory.is_quiet = False
        self.flops = self.quiet.flops

    def take_flops(self) -> int:
        taken, self.flops = self.flops, 0
        return taken


class Called:
    """What compiled code calls in the place of a graph."""

    def __init__(self, rehearsal: Rehearsal, made: Plan | Split, seen: Seen, ends: bool = False) -> None:
        self.rehearsal = rehearsal
        self.made = made
        self.seen = seen
        self.ends = ends

    def __call__(self, *args: Any) -> Any:
        is_split = isinstance(self.made, compilations.Split)
        made: Any = self.split(self.made, args) if is_split else self.one(self.made, args)  # type: ignore[arg-type]
        if self.ends:
            raise Made(list(made))
        return made

    def one(self, plan: Plan, args: Args) -> list[Any]:
        play = Play(self.rehearsal, plan, self.seen, args)
        return play.run(function_of(self.rehearsal.torch))

    def split(self, split: Split, args: Args) -> Any:
        """Part by part, and nothing is kept that no later part is given."""
        given, values = list(args), {}
        last = {each: node for node in split.nodes for each in node.all_input_nodes}
        for node in split.nodes:
            if node.op == "placeholder":
                values[node] = given.pop(0)
                continue
            if node.op == "output":
                return found_in(node.args[0], values)
            if node.op == "call_module":
                plan, is_one = split.parts[node.target]
                made: Any = self.one(plan, found_in(node.args, values))
                values[node] = made[0] if is_one else made
                del made
            else:
                values[node] = node.target(*found_in(node.args, values), **found_in(node.kwargs, values))
            for each in node.all_input_nodes:
                if last[each] is node:
                    del values[each]
        return None


def found_in(value: Any, values: dict[Any, Any]) -> Any:
    """The same with what nodes of a graph have returned."""
    if isinstance(value, dict):
        return {key: found_in(each, values) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(found_in(each, values) for each in value)
    return values[value] if hasattr(value, "all_input_nodes") else value


class Play:
    """One call of a graph, and its backward."""

    def __init__(self, rehearsal: Rehearsal, plan: Plan, seen: Seen, args: Args) -> None:
        self.rehearsal = rehearsal
        self.torch = rehearsal.torch
        self.plan = plan
        self.seen = seen
        if len(args) != len(plan.forward.inputs):
            raise Mismatch
        self.args = list(args)
        given = dict(zip(plan.forward.inputs, args))
        # A real parameter would get a real gradient.
        mode, tensor = rehearsal.mode, self.torch.Tensor
        if any(isinstance(each, tensor) and getattr(each, "fake_mode", None) is not mode for each in args):
            raise Mismatch
        if not all(self.fits(name, value) for name, value in given.items()):
            raise Mismatch
        try:
            values = self.values = plan.forward.values(given)
            self.forward_sizes = self.sizes_of(plan.forward, values)
            if plan.backward is not None:
                counts = [each.at(values) if isinstance(each, Formula) else None for each in plan.saved_sizes]
                values = plan.backward.values(dict(zip(plan.backward.inputs, counts)))
                self.backward_sizes = self.sizes_of(plan.backward, values)
        except Unknown:
            raise Mismatch from None
        # How each argument that is trained lies in memory.
        self.trained = [
            (tuple(each.shape), each.stride(), each.dtype, each.device)
            if isinstance(each, self.torch.Tensor) and each.requires_grad else None
            for each in args
        ]
        self.flops = seen.take_flops()
        rehearsal.graphs += 1
        rehearsal.has_private_pools = rehearsal.has_private_pools or plan.has_private_pool

    def fits(self, name: str, value: Any) -> bool:
        shape = self.plan.forward.shapes.get(name)
        if shape is None or not isinstance(value, self.torch.Tensor):
            return True
        return self.seen.sizes.are_alike(tuple(value.shape), shape)

    def sizes_of(self, graph: Graph, values: dict[str, int]) -> dict[int, int]:
        """The bytes of each buffer."""
        sizes = self.seen.sizes
        return {each[1]: sizes.bytes_at(graph, each, values) for each in graph.events if each[0] == TAKEN}

    def run(self, function: Any) -> list[Any]:
        """What the graph returns."""
        plan = self.plan
        made = iter(())
        if any(isinstance(each, int) for each in plan.outputs) or plan.saved:
            made = iter(function.apply(self, *self.args) or ())
        args = dict(zip(plan.forward.inputs, self.args))
        self.args.clear()
        found: list[Any] = []
        for held, form in zip(plan.outputs, plan.forms):
            if isinstance(held, int):
                found.append(next(made))
            elif held is not None:
                found.append(self.same(args[held], form))
            else:
                found.append(form.at(self.values) if isinstance(form, Formula) else None)
        return found

    def same(self, given: Tensor, form: Form | None) -> Any:
        """An output that lies where an input does."""
        if not isinstance(given, self.torch.Tensor) or form is None or not form.sizes:
            return given
        shape, strides = self.seen.sizes.form_at(self.plan.forward, form, self.values)
        return given if tuple(given.shape) == shape else given.as_strided(shape, strides)

    def run_forward(self, ctx: Any) -> tuple[Tensor, ...]:
        plan, trace = self.plan, self.rehearsal.trace
        outputs: dict[int, list[Any]] = {}
        for held, form in zip(plan.outputs, plan.forms):
            if isinstance(held, int):
                outputs.setdefault(held, []).append(form)
        saved = {each for each in plan.saved if isinstance(each, int)}
        kept: dict[int, Tensor] = {}
        returned: dict[int, list[Tensor]] = {}
        made: dict[int, tuple[int, int]] = {}
        for event in plan.forward.events:
            if event[0] == TAKEN:
                number, size = event[1], self.forward_sizes[event[1]]
                if number in outputs:
                    returned[number] = self.outputs_of(size, event[3], outputs[number])
                    kept[number] = returned[number][0]
                elif number in saved:
                    kept[number] = self.empty(size)
                elif size:
                    made[number] = trace.take_unheld(size), size
            elif event[0] == LEFT and event[1] in made:
                trace.free(*made.pop(event[1]))
        for left in made.values():
            trace.free(*left)
        trace.flops += self.flops
        given = dict(zip(plan.forward.inputs, self.args))
        held = [kept.get(each) if isinstance(each, int) else given.get(each) for each in plan.saved]
        ctx.places = [at for at, each in enumerate(held) if isinstance(each, self.torch.Tensor)]
        ctx.save_for_backward(*[held[at] for at in ctx.places])
        found = [returned[each].pop(0) for each in plan.outputs if isinstance(each, int)]
        ctx.mark_non_differentiable(*[each for each in found if not each.is_floating_point()])
        return tuple(found)

    def outputs_of(self, size: int, of_each: int, forms: list[Any]) -> list[Tensor]:
        """Tensors that lie in one piece of memory."""
        torch, sizes = self.torch, self.seen.sizes
        found: list[Tensor] = []
        for form in forms:
            if form is None:
                raise Unknown("how an output lies in memory is not known")
            shape, strides = sizes.form_at(self.plan.forward, form, self.values)
            dtype = sizes.type_of(torch, form, shape)
            if not found:
                found.append(torch.empty_strided(shape, strides, dtype=dtype, device=self.rehearsal.call.device))
            else:
                found.append(found[0].as_strided(shape, strides))
        return found

    def empty(self, size: int) -> Tensor:
        made: Tensor = self.torch.empty(size, dtype=self.torch.uint8, device=self.rehearsal.call.device)
        return made

    def run_backward(self, ctx: Any, gradients: list[Any]) -> tuple[Any, ...]:
        """The gradients of what is trained, from those of the outputs."""
        plan, trace = self.plan, self.rehearsal.trace
        assert plan.backward is not None
        saved, kept = list(ctx.saved_tensors), {}
        getattr(ctx, "maybe_clear_saved_tensors", lambda: None)()
        names = plan.backward.inputs[len(plan.saved_sizes) :]
        for at in reversed(ctx.places):
            kept[names[at]] = saved.pop()
        wanted = self.wanted(plan.backward.returned)
        made: dict[int, tuple[int, int]] = {}
        found: dict[int, Any] = {}
        for event in plan.backward.events:
            if event[0] == TAKEN:
                number, size = event[1], self.backward_sizes[event[1]]
                if number in wanted:
                    for at in wanted[number]:
                        found[at] = self.like(at)
                elif size:
                    made[number] = trace.take_unheld(size), size
            elif event[0] == LEFT:
                if event[1] in made:
                    trace.free(*made.pop(event[1]))
            else:
                kept.pop(event[1], None)
        for left in made.values():
            trace.free(*left)
        kept.clear()
        trace.flops += 2 * self.flops
        for at, place in enumerate(self.trained):
            if place is not None and at not in found and self.has_gradient(at):
                # One that is what has come from outside.
                alike = (each for each in gradients if each is not None and tuple(each.shape) == place[0])
                found[at] = next(alike, None)
        return tuple(found.get(at) for at in range(len(self.trained)))

    def like(self, at: int) -> Tensor:
        shape, strides, dtype, device = self.trained[at] or ((), (), None, None)
        made: Tensor = self.torch.empty_strided(shape, strides, dtype=dtype, device=device)
        return made

    def has_gradient(self, at: int) -> bool:
        returned = self.plan.backward.returned if self.plan.backward is not None else []
        return at < len(returned) and returned[at] is not None

    def wanted(self, returned: list[Any]) -> dict[int, list[int]]:
        """Of each buffer that backward returns: whose gradient it is."""
        found: dict[int, list[int]] = {}
        for at, each in enumerate(returned[: len(self.trained)]):
            if isinstance(each, int) and self.trained[at] is not None:
                found.setdefault(each, []).append(at)
        return found


def function_of(torch: Torch) -> Any:
    base: Any = torch.autograd.Function

    class OfGraph(base):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, play: Play, *_: Any) -> tuple[Tensor, ...]:
            ctx.play = play
            return play.run_forward(ctx)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
            with torch.no_grad():
                return (None, *ctx.play.run_backward(ctx, list(gradients)))

    return OfGraph
