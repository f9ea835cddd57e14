"""A module that the program has compiled, in a rehearsal: it allocates what its compiled graphs do, not what its
lines would.

Fused kernels keep less for backward than the operators that they are made of, and return the gradients of all
parameters at once. What a compiled graph allocates is read (wrappers.py; partitioned.py for a backward that was not
compiled yet). The module's own lines run as well, unseen, for the shapes of what it returns, and for those of what
lies between at the rehearsed batch: a buffer's size at another batch is the one that some tensor of theirs has.

Only where this fits is it taken: one graph for all of the module's forward, the module's parameters among what it is
given, no graph of CUDA's. Elsewhere the lines are rehearsed as they are written.
"""

from __future__ import annotations

import sys
import types

from ..common import errors
from . import partitioned, wrappers
from .wrappers import LEFT, TAKEN, Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Args, Kwargs, Module, Tensor, Torch
    from .rehearsal import Rehearsal

GRAPHS, RESUMED = "__compiled_fn_", "resume"
# From what dynamo calls to what runs the graph there are some functions in between.
DEEPEST = 10
# The sizes of elements.
ELEMENTS = (4, 2, 8, 1)


class Plan:
    """What one compilation of a module's forward does."""

    def __init__(self, torch: Torch, function: Any) -> None:
        facts = function.metadata
        graph = compiled_graph(function.compiled_fw)
        if facts.num_intermediate_bases or facts.num_outputs_non_aliased != facts.num_outputs:
            raise Unknown("its outputs share memory")
        self.forward = wrappers.read(graph.source_code)
        if function.compiled_bw is not None:
            self.backward = wrappers.read(compiled_graph(function.compiled_bw).source_code)
        else:
            self.backward = partitioned.read(torch, function._lazy_backward_info.bw_module.graph)
        first = facts.num_mutated_inp_runtime_indices
        self.outputs = self.forward.returned[first : first + facts.num_outputs]
        self.saved = self.forward.returned[facts.num_forward :]

    def is_of(self, torch: Torch, module: Module, args: list[Tensor], batch: tuple[int, int] | None) -> bool:
        """Whether it was compiled for such a call: parameters and arguments are among what the graph is given."""
        there = list(self.forward.shapes.values())
        if not all(tuple(each.shape) in there for each in module.parameters() if each.requires_grad):
            return False
        was, now = batch or (1, 1)
        return all(any(alike(tuple(each.shape), shape, was, now) for shape in there) for each in args)


def put(rehearsal: Rehearsal, compiled: list[tuple[Module, Module]]) -> None:
    """`compiled`: copies of modules that the program has compiled, with these."""
    for copy, original in compiled:
        if "forward" in copy.__dict__ or any(copy is other for other in rehearsal.regions):
            continue
        known = rehearsal.answers.plans
        if id(original) not in known:
            known[id(original)] = plans_of(rehearsal.torch, original)
        plans = known[id(original)]
        if plans:
            rehearsal.regions.append(copy)
            copy.__dict__["forward"] = standing_in(rehearsal, copy, plans)


def plans_of(torch: Torch, module: Module) -> list[Plan]:
    """What torch.compile has made of a module's forward, the latest first; nothing where that is not known."""
    found: list[Plan] = []
    try:
        place: Any = sys.modules.get("torch._dynamo.eval_frame")
        entries_of = getattr(place, "_debug_get_cache_entry_list", None)
        forward = getattr(type(module), "forward", None)
        if entries_of is None or "forward" in module.__dict__ or type(forward) is not types.FunctionType:
            return found
        for entry in entries_of(forward.__code__):
            names = entry.code.co_names
            graphs = [name for name in names if name.startswith(GRAPHS)]
            if len(graphs) != 1 or any(RESUMED in name for name in names):
                continue
            function = autograd_function(torch, forward.__globals__.get(graphs[0]), DEEPEST)
            if function is None:
                continue
            try:
                found.append(Plan(torch, function))
            except (Unknown, AttributeError):
                errors.foreseen("what a compiled graph does")
    except Exception:
        errors.foreseen("what was compiled of a module")
    return found


def autograd_function(torch: Torch, value: Any, deep: int) -> Any:
    """The class whose forward and backward are the compiled graphs, by way of what each function has in its cells."""
    if isinstance(value, type):
        return value if issubclass(value, torch.autograd.Function) and hasattr(value, "compiled_fw") else None
    if deep == 0:
        return None
    inner: list[Any] = []
    if type(value) is types.MethodType:
        inner = [value.__self__, value.__func__]
    elif type(value) is types.FunctionType:
        inner = cells_of(value)
    else:
        # What torch puts around a graph that its cache had.
        inner = [getattr(value, "compiled_fn", None)]
    found = (autograd_function(torch, each, deep - 1) for each in inner)
    return next((each for each in found if each is not None), None)


def compiled_graph(value: Any, deep: int = DEEPEST) -> Any:
    """Inductor's, of what calls it. Raises `Unknown`."""
    if isinstance(getattr(value, "source_code", None), str):
        if (getattr(value, "fx_kwargs", None) or {}).get("cudagraphs"):
            raise Unknown("its memory is a graph's of CUDA's")
        return value
    if deep and type(value) is types.FunctionType:
        for each in cells_of(value):
            try:
                return compiled_graph(each, deep - 1)
            except Unknown as error:
                if error.args[0].startswith("its memory"):
                    raise
    raise Unknown("it is not inductor's")


def cells_of(function: Any) -> list[Any]:
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue
    return found


def alike(shape: tuple[int, ...], other: tuple[int, ...], was: int, now: int) -> bool:
    """Whether one is the other at another batch."""
    if len(shape) != len(other):
        return False
    return all(a == b or (a * was == b * now and b % was == 0) for a, b in zip(shape, other))


class Quiet:
    """In place of a trace while the lines run unseen: which sizes there were."""

    def __init__(self) -> None:
        self.sizes: set[int] = set()
        self.flops = 0

    def allocate(self, storage: Any) -> None:
        self.sizes.add(storage.nbytes())

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def standing_in(rehearsal: Rehearsal, module: Module, plans: list[Plan]) -> Callable[..., Any]:
    """What is called in the place of a compiled module's forward."""
    torch, written = rehearsal.torch, module.forward
    function = function_of(torch)

    def forward(*args: Any, **kwargs: Any) -> Any:
        given = [each for each in tensors_in(torch, [args, kwargs])]
        batch = rehearsal.variant.batch
        plan = next((each for each in plans if each.is_of(torch, module, given, batch)), None)
        if plan is None or not torch.is_grad_enabled():
            return written(*args, **kwargs)
        play = Play(rehearsal, plan, module)
        returned = play.shapes(written, args, kwargs)
        if not play.fits(given):
            return written(*args, **kwargs)
        play.given = given
        trained = [each for each in module.parameters() if each.requires_grad]
        play.trained = trained + [each for each in given if each.requires_grad]
        made = function.apply(play, *play.trained)
        play.outputs = []
        return with_tensors(torch, returned, iter(made))

    return forward


class Play:
    """One call of a compiled module, and its backward."""

    def __init__(self, rehearsal: Rehearsal, plan: Plan, module: Module) -> None:
        self.rehearsal = rehearsal
        self.torch = rehearsal.torch
        self.plan = plan
        self.sizes: set[int] = set()
        self.outputs: list[Tensor] = []
        self.given: list[Tensor] = []
        self.trained: list[Tensor] = []
        # What is kept for backward, by the numbers of the buffers.
        self.kept: dict[int, Tensor] = {}
        self.flops = 0

    def shapes(self, written: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        """What its lines return; nobody sees what they allocate."""
        rehearsal, torch = self.rehearsal, self.torch
        trace: Any = rehearsal.trace
        quiet: Any = Quiet()
        rehearsal.trace = quiet
        try:
            with torch.no_grad():
                returned = written(*args, **kwargs)
        finally:
            rehearsal.trace = trace
        self.sizes, self.flops = quiet.sizes, quiet.flops
        self.outputs = tensors_in(torch, returned)
        return returned

    def fits(self, given: list[Tensor]) -> bool:
        """Whether the graph returns as many tensors, each with memory of its own."""
        storages = [each.untyped_storage()._cdata for each in self.outputs + given]
        return len(self.outputs) == len(self.plan.outputs) and len(set(storages)) == len(storages)

    def bytes_at(self, elements: int, of_each: int) -> int:
        """Of a buffer with so many elements at the batch that it was compiled for."""
        was, now = self.rehearsal.variant.batch or (1, 1)
        if was == now:
            return elements * of_each
        for power in (1, 0, 2):
            scaled, rest = divmod(elements * now**power, was**power)
            if rest == 0 and any(scaled * size in self.sizes for size in (of_each, *ELEMENTS)):
                return scaled * of_each
        scaled, rest = divmod(elements * now, was)
        return (elements if rest else scaled) * of_each

    def run_forward(self) -> tuple[Tensor, ...]:
        plan, trace = self.plan, self.rehearsal.trace
        outputs = {number: each for number, each in zip(plan.outputs, self.outputs) if isinstance(number, int)}
        saved = {each for each in plan.saved if isinstance(each, int)}
        made: dict[int, tuple[int, int]] = {}
        for event in plan.forward.events:
            if event[0] == TAKEN:
                number, size = event[1], self.bytes_at(event[2], event[3])
                if number in outputs:
                    trace.allocate(outputs[number].untyped_storage())
                    if number in saved:
                        self.kept[number] = outputs[number].detach()
                elif number in saved:
                    self.kept[number] = self.empty(size)
                elif size:
                    made[number] = trace.take(size), size
            elif event[0] == LEFT and event[1] in made:
                trace.give(*made.pop(event[1]))
        for left in made.values():
            trace.give(*left)
        trace.flops += self.flops
        return tuple(self.outputs)

    def empty(self, size: int) -> Tensor:
        device = self.rehearsal.call.device
        made: Tensor = self.torch.empty(size, dtype=self.torch.uint8, device=device)
        return made

    def run_backward(self) -> tuple[Any, ...]:
        """The gradients of what is trained."""
        plan, trace = self.plan, self.rehearsal.trace
        saved = dict(zip(plan.backward.inputs, plan.saved))
        returned = {each for each in plan.backward.returned if isinstance(each, int)}
        # Of each buffer that is a gradient: whose it is.
        open_ = list(range(len(self.trained)))
        gradients: dict[int, Tensor] = {}
        made: dict[int, tuple[int, int]] = {}
        for event in plan.backward.events:
            if event[0] == TAKEN:
                number, size = event[1], self.bytes_at(event[2], event[3])
                # A parameter's has a size of its own, that of an argument grows with the batch.
                of_one = (event[2] * event[3], size)
                whose = next((at for at in open_ if self.bytes_of(at) in of_one), None) if number in returned else None
                if whose is not None:
                    open_.remove(whose)
                    gradients[whose] = self.torch.empty_like(self.trained[whose])
                elif size:
                    made[number] = trace.take(size), size
            elif event[0] == LEFT:
                if event[1] in made:
                    trace.give(*made.pop(event[1]))
            else:
                self.kept.pop(saved.get(event[1]), None)  # type: ignore[arg-type]
        for left in made.values():
            trace.give(*left)
        self.kept.clear()
        self.given.clear()
        trace.flops += 2 * self.flops
        for at in open_:
            gradients[at] = self.torch.empty_like(self.trained[at])
        return tuple(gradients.pop(at) for at in range(len(self.trained)))

    def bytes_of(self, at: int) -> int:
        return self.trained[at].numel() * self.trained[at].element_size()


def function_of(torch: Torch) -> Any:
    base: Any = torch.autograd.Function

    class Compiled(base):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, play: Play, *_: Tensor) -> tuple[Tensor, ...]:
            ctx.play = play
            made = play.run_forward()
            ctx.mark_non_differentiable(*[each for each in made if not each.is_floating_point()])
            return made

        @staticmethod
        def backward(ctx: Any, *_: Any) -> tuple[Any, ...]:
            with torch.no_grad():
                return (None, *ctx.play.run_backward())

    return Compiled


def tensors_in(torch: Torch, value: Any) -> list[Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in tensors_in(torch, each)]
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in tensors_in(torch, each)]
    return []


def with_tensors(torch: Torch, value: Any, made: Any) -> Any:
    """The same with other tensors, in the same order."""
    if isinstance(value, torch.Tensor):
        return next(made)
    if isinstance(value, dict):
        # In its own class, with what that has noted beside: an output of transformers.
        for key in list(value):
            value[key] = with_tensors(torch, value[key], made)
        return value
    if isinstance(value, (list, tuple)):
        items = [with_tensors(torch, each, made) for each in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
