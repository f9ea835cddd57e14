"""Notes how the program calls its model, so that the step can be rehearsed once memory has run out: the
outermost module that is called with gradients, the shapes of its arguments, and autocast. No tensor is kept.

`Module.__call__` is wrapped during the program's first steps and put back after them: from then on whole steps
have been seen. An OutOfMemoryError is handled when it leaves the model's call, so OOMs that the allocator or
cuDNN recover from are never seen. One in backward is handled when it leaves the engine: on the engine's own
thread a rehearsal's backward would wait for itself.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import threading
import weakref

from ..common import calls, errors, frames, members, objects, tracebacks
from ..common.instead import Instead
from ..knobs import given
from ..live import modules
from . import apart, callers, compiling, functions, inputs, rounds
from .inputs import Shape
from .losses import WRAPPERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable

    from ..common.protocols import Args, Kwargs, Module, Torch
    from ..live.modules import Modules

# Autocast by the kind of device.
SINCE = (2, 4)
# Steps after which a training's own trace says more than a rehearsal.
SETTLED_STEPS = 3
# And where the sizes of later steps' inputs are asked for as well, in a run that was started to see its steps.
WATCHED_STEPS = 256
# Calls without a step after which a program that never trains is left in peace.
ENOUGH = 20000
# Models whose device is known at once.
MOST_DEVICES = 200
# Where torch's pipelines call their stages, and within how many frames of such a call.
PIPELINES, CALLS_ABOVE = "distributed/pipelining/", 12
MOST_LEAVES = 256
DEVICES = ("cuda",)


class CannotNote(Exception):
    """An argument that says nothing without being kept."""


class Call:
    """A call of a model."""

    def __init__(
        self, torch: Torch, module: Module, args: Args, kwargs: Kwargs, before: int, device: Any = None
    ) -> None:
        # Allocated on its device when it began.
        self.before = before
        # What all calls of this model were like (inputs.py).
        self.seen: Any = None
        # The batch as the program itself calls it, where that was asked for.
        self.told: int | None = None
        # What variables have held since before the steps, where that was asked for.
        self.made_before: list[Shape] = []
        self.made_in_step: list[Shape] = []
        # The functions that called it, and their lines from there on, where those were asked for.
        self.callers: callers.Callers | None = None
        self.lines: callers.Lines | None = None
        # Backwards that had ended by then, optimizer steps, and the first call of the same lines.
        self.backwards = self.steps = 0
        self.first: Call | None = None
        # Whether it had no gradients; whether it is a training step that only such a call lets expect.
        self.is_evaluation = self.is_evaluated_first = False
        # Whether a training step begins with it though it has none: a target network's, a teacher's.
        self.is_without_gradients = False
        # When the program lets go of its gradients, where that was asked for.
        self.zero_grad: str | None = None
        # Whether a step has several such parts, whose gradients are added up.
        self.adds_gradients = False
        # Whether its gradients lie in the buckets that ranks reduce.
        self.has_gradients_in_buckets = False
        # Whether they are copied into buckets.
        self.is_reduced_in_buckets = False
        # Whether the buckets are made anew at the second step.
        self.rebuilds_buckets = False
        # Whether what it gives is looked through for what backward will need.
        self.outputs_are_read = False
        # The compiled function that was called, where its model's own call is a part of it.
        self.function: functions.Function | None = None
        # Whether it was called by what torch.compile returns for it, or for what calls it.
        self.is_compiled = False
        # The ids of the optimizers whose steps are compiled.
        self.compiled_steps: frozenset[int] = frozenset()
        self.module = weakref.ref(module)
        self.args = [noted(torch, each) for each in args]
        self.kwargs = {name: noted(torch, each) for name, each in kwargs.items()}
        self.device = device if device is not None else device_of(module)
        kind = self.device.type
        self.autocast = (
            torch.is_autocast_enabled(kind),
            torch.get_autocast_dtype(kind),
            torch.is_autocast_cache_enabled(),
        )

    def again(self) -> Call:
        """Another one like it."""
        return copy.copy(self)

    def place(self) -> tuple[Any, ...]:
        return () if self.callers is None else self.callers.place

    def key(self) -> str:
        """The same for calls that would be rehearsed to the same end."""
        return repr((id(self.module()), shapes_of(self.args), shapes_of(self.kwargs), self.autocast))


class Roots:
    """The model calls of one process."""

    def __init__(self, torch: Torch, ran_out: Callable[[Call, str], None], seen: Modules) -> None:
        self.torch = torch
        self.ran_out = ran_out
        self.inputs = inputs.Inputs()
        self.rounds = rounds.Rounds()
        # Optimizer steps that have ended, calls without gradients, and what was there when the latest of these began;
        # the least that was there when one did.
        self.steps = self.evaluated = self.before = 0
        self.least_before = sys.maxsize
        # Whether something else may have called a model without gradients.
        self.may_have_evaluated = False
        self.given = given.Given(torch)
        # Told of each module's call too, as long as the wrapper is there.
        self.modules = seen
        self.inside = threading.local()
        self.latest: Call | None = None
        # Why the latest call could not be noted.
        self.why_not = "no call of a model that is trained was seen"
        self.calls = 0
        # Where models lie, by address: each with its first parameter's device.
        self.devices: dict[int, tuple[Any, Any, Any]] = {}
        self.torch_home = frames.home_of(torch)
        self.tracing_state = getattr(torch._C, "_get_tracing_state", lambda: None)
        self.module: Any = None
        self.original: Any = None
        self.ours: Any = None
        self.backward: Any = None
        self.profiler: Instead | None = None
        self.functions = functions.Watch(self)
        self.rests = False
        # The step at whose end the originals are put back.
        self.watched_steps = SETTLED_STEPS
        # Calls of the engine that go on.
        self.backwards = 0
        # Told of a call without gradients that memory ran out in.
        self.left_evaluation: Callable[[Module, Any, Any], None] | None = None
        # Told of the outermost module of each call that is noted.
        self.called: Callable[[Module], None] | None = None
        # Told of each backward that has ended, as long as it returns True; None where nobody asks.
        self.after_backward: Callable[[], bool] | None = None
        # Told of what each outermost backward begins from and of the steps that have ended, as long as it returns True.
        self.before_backward: Callable[[Any, int], bool] | None = None

    def install(self) -> None:
        """Once CUDA is initialised: a program that never uses a GPU, and a DataLoader's worker, run as they are. Does
        nothing where this torch has not all that it takes."""
        torch = self.torch
        graph = sys.modules.get("torch.autograd.graph")
        if not hasattr(graph, "_engine_run_backward") or not hasattr(torch, "get_autocast_dtype"):
            return
        self.module = torch.nn.Module
        self.original = original = self.module.__call__
        inside, roots, error = self.inside, self, torch.cuda.OutOfMemoryError
        is_compiling, pause = calls.is_compiling_of(torch), calls.pause_of(torch)
        seen, rehearsed = self.modules, apart.here
        unseen = getattr(torch._C, "DisableTorchFunction", contextlib.nullcontext)

        def __call__(self: Module, *args: Any, **kwargs: Any) -> Any:
            # One that has been compiled keeps the wrapper that it began with.
            if roots.rests or is_compiling():
                return original(self, *args, **kwargs)
            # A rehearsal's calls are none of the program's.
            if rehearsed.alive and rehearsed.is_in_one():
                return original(self, *args, **kwargs)
            deep = inside.deep = getattr(inside, "deep", 0) + 1
            if deep > modules.DEEPEST:
                roots.goes_too_deep()
            # What checkpointing calls again in backward is a part of the model's call; so is what an evaluation's model
            # calls: a long evaluation before the first step would use up the calls that are looked at.
            is_outer = not roots.backwards and not getattr(inside, "depth", 0)
            compiling = pause(None)
            try:
                # The program's own `__torch_function__` is not called for what only we read.
                with unseen():
                    if is_outer:
                        inside.depth = 1 if roots.note(self, args, kwargs) else 0
                    seen.enter(self, args)
            finally:
                pause(compiling)
            output = None
            try:
                output = original(self, *args, **kwargs)
                return output
            except BaseException as failure:
                interrupted = None
                compiling = pause(None)
                try:
                    if is_outer and isinstance(failure, error):
                        inside.depth = 0
                        interrupted = roots.left("forward", self, args, kwargs)
                    tracebacks.without_this_frame(failure)
                finally:
                    pause(compiling)
                if interrupted is not None:
                    raise interrupted from None
                raise
            finally:
                inside.deep -= 1
                if is_outer:
                    inside.depth = 0
                    if getattr(inside, "given", None) == id(self):
                        inside.given = None
                compiling = pause(None)
                try:
                    with unseen():
                        seen.leave(self, output)
                finally:
                    pause(compiling)

        calls.keep_from_compiling([sys.modules[__name__], modules, members])
        self.rests = False
        self.ours = calls.as_if_torchs_own(__call__, original)
        self.module.__call__ = self.ours
        calls.is_torchs_own(self.ours, original)
        self.wrap_backward(graph, error)
        self.wrap_profiler()
        self.functions.install()

    def wrap_profiler(self) -> None:
        """A profile with stacks knows a module's call by the code of `Module.__call__`, as that was when the first one
        began: from then on it has to stay what it is."""
        roots = self

        def resting(original: Any) -> Any:
            def _prepare_trace(*args: Any, **kwargs: Any) -> Any:
                roots.rest()
                return original(*args, **kwargs)

            return calls.as_if_torchs_own(_prepare_trace, original)

        if self.profiler is None:
            profile = getattr(sys.modules.get("torch.autograd.profiler"), "profile", None)
            self.profiler = Instead(profile, "_prepare_trace", resting)
            self.profiler.put()

    def wrap_backward(self, graph: Any, error: type[BaseException]) -> None:
        original, roots = graph._engine_run_backward, self

        def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
            # A rehearsal's are none of the program's.
            if apart.here.alive and apart.here.is_in_one():
                return original(*args, **kwargs)
            roots.modules.before_backward()
            if roots.before_backward is not None and not roots.backwards and kwargs.get("accumulate_grad", True):
                if not roots.before_backward(args[0] if args else None, roots.steps):
                    roots.before_backward = None
            roots.backwards += 1
            try:
                result = original(*args, **kwargs)
            except BaseException as failure:
                interrupted = roots.left("backward") if isinstance(failure, error) else None
                if interrupted is not None:
                    raise interrupted from None
                tracebacks.without_this_frame(failure)
                raise
            finally:
                roots.backwards -= 1
            # `torch.autograd.grad` asks for gradients, and accumulates none.
            if not roots.backwards and kwargs.get("accumulate_grad", True):
                roots.rounds.backwards += 1
            if roots.after_backward is not None and not roots.backwards and kwargs.get("accumulate_grad", True):
                if not roots.after_backward():
                    roots.after_backward = None
            return result

        ours = calls.as_if_torchs_own(_engine_run_backward, original)
        places = [graph, self.torch.autograd]
        self.backward = original, ours, [place for place in places if hasattr(place, "_engine_run_backward")]
        for place in self.backward[2]:
            place._engine_run_backward = ours

    def sees_modules(self) -> bool:
        """Whether every call of a module passes through the wrapper."""
        return self.backward is not None and self.module.__call__ is self.ours

    def rest(self) -> None:
        """Puts the originals back, unless somebody else has wrapped them since; the engine's once nobody counts its
        calls."""
        if self.backward is None:
            return
        self.functions.remove()
        if self.module.__call__ is self.ours:
            self.module.__call__ = self.original
            self.rests = True
            calls.is_torchs_own(self.original, self.ours)
        if self.profiler is not None:
            self.profiler.take_back()
            self.profiler = None
        if self.after_backward is not None or self.before_backward is not None:
            return
        original, ours, places = self.backward
        for place in places:
            if place._engine_run_backward is ours:
                place._engine_run_backward = original
        self.backward = None

    def goes_too_deep(self) -> None:
        """A model that calls itself has Python's limit of recursion to itself: no more frames of ours."""
        self.modules.is_too_deep = True
        self.why_not = "its modules call each other more than %d deep" % modules.DEEPEST
        self.rest()

    def step_ended(self, count: int) -> None:
        self.steps = count
        if count >= self.watched_steps:
            self.rest()

    def is_repeated(self) -> bool:
        """Whether the latest call is one of several of the same lines, whose activations are all there."""
        return self.latest is not None and self.rounds.is_repeated(self.latest)

    def at_first_call(self, device: int) -> int | None:
        """What was allocated on a device when the first call of the round began; None where none was noted."""
        call = self.latest
        if call is None or call.steps != self.steps or call.device.index not in (None, device):
            return None
        return int((self.rounds.first_of(call) or call).before)

    def allocated(self, device: Any) -> int:
        if device is None or device.type not in DEVICES:
            return 0
        return int(self.torch._C._cuda_memoryStats(device.index)["allocated_bytes"]["all"]["current"])

    def note(self, module: Module, args: Args, kwargs: Kwargs) -> bool:
        """Whether this is the call of a model that is trained on a GPU."""
        try:
            self.calls += 1
            if self.calls > ENOUGH:
                self.rest()
                return False
            # What torch.jit traces has sizes that are tensors.
            if self.tracing_state() is not None:
                return False
            if self.called is not None:
                self.called(module)
            if type(module).__name__ in WRAPPERS:
                # What is compiled in it calls no module.
                self.may_have_evaluated = self.may_have_evaluated or not self.torch.is_grad_enabled()
                around: list[Any] = getattr(self.inside, "wrappers", [])
                is_inner = bool(around) and inner_of(around[-1]()) is module
                self.inside.wrappers = [*around, weakref.ref(module)] if is_inner else [weakref.ref(module)]
                return False
            if not self.torch.is_grad_enabled():
                # Memory may run out there; what it calls in turn is a part of it.
                self.given.add(module, args, kwargs, is_evaluated=True)
                self.evaluated += 1
                self.before = self.allocated(next((each.device for each in members.parameters(module)), None))
                self.least_before = min(self.least_before, self.before)
                return True
            device = self.device_of(module)
            if device is None or device.type not in DEVICES:
                return False
            # Where a call cannot be noted its modules' calls are: those say nothing of what the model was given.
            if getattr(self.inside, "given", None) is None:
                self.inside.given = id(module)
                self.given.add(module, args, kwargs)
            if self.is_in_pipeline(sys._getframe(2)):
                # Of the parts of a batch several are under way, and only the schedule knows how many.
                self.latest, self.why_not = None, "pipeline parallelism is not rehearsed"
                return False
            call = Call(self.torch, module, args, kwargs, self.allocated(device), device)
            call.callers = callers.Callers(self.torch_home, sys._getframe(2))
            call.steps = self.steps
            around = self.wrappers_of(module)
            in_buckets = are_in_buckets(around)
            call.has_gradients_in_buckets, call.is_reduced_in_buckets = in_buckets is True, in_buckets is False
            call.rebuilds_buckets = in_buckets is not None and any(are_rebuilt(each) for each in around)
            call.outputs_are_read = in_buckets is not None and any(reads_outputs(each) for each in around)
            call.is_compiled = any(compiling.is_compiled(each) for each in around)
            self.latest = call
            self.inputs.add(call)
            self.rounds.add(call)
            return True
        except CannotNote:
            self.latest, self.why_not = None, "an argument of the model's is neither a tensor nor plain data"
        except Exception as error:
            errors.foreseen("note a model's call")
            self.latest, self.why_not = None, repr(error)[:160]
        except BaseException:
            errors.refused("note a model's call")
            self.latest, self.why_not = None, "something of the program's refused it"
        return False

    def is_in_pipeline(self, frame: FrameType | None) -> bool:
        """Whether a stage of torch's pipelining calls the model, itself or by its wrappers."""
        if "torch.distributed.pipelining" not in sys.modules:
            return False
        home = self.torch_home + PIPELINES
        for _ in range(CALLS_ABOVE):
            if frame is None:
                return False
            if frame.f_code.co_filename.startswith(home):
                return True
            frame = frame.f_back
        return False

    def device_of(self, module: Module) -> Any:
        """The same as the function's, which asks each of the parameters; again where the first has moved."""
        first = next((each.device for each in members.parameters(module)), None)
        known = self.devices.get(id(module))
        if known is not None and known[0]() is module and known[1] == first:
            return known[2]
        device = device_of(module)
        if len(self.devices) >= MOST_DEVICES:
            self.devices.clear()
        self.devices[id(module)] = weakref.ref(module), first, device
        return device

    def compiler_imported(self) -> None:
        """Later than calls began to be noted."""
        if self.backward is not None:
            self.functions.install()

    def is_other(self, frame: FrameType) -> bool:
        """Whether a call of a compiled function is none of the program's that is to be noted."""
        return self.rests or apart.here.alive and apart.here.is_in_one() or self.tracing_state() is not None

    def note_function(self, module: Module, called: functions.Function, frame: FrameType) -> None:
        """A compiled function is called, which calls this model in turn."""
        device = self.device_of(module)
        if device is None or device.type not in DEVICES:
            return
        call = Call(self.torch, module, (), {}, self.allocated(device), device)
        call.function = called
        call.args = [each for each in inputs.shapes_in([called.args, called.kwargs])]
        call.callers = callers.Callers(self.torch_home, frame)
        call.steps = self.steps
        self.latest = call

    def wrappers_of(self, module: Module) -> list[Any]:
        """The wrappers that call this model, the outermost first."""
        around = [each() for each in getattr(self.inside, "wrappers", ())]
        return around if around and inner_of(around[-1]) is module else []

    def left(
        self, phase: str, module: Module | None = None, args: Args = (), kwargs: Kwargs | None = None
    ) -> BaseException | None:
        """An out-of-memory leaves a model's call, or the backward of its loss. What a signal's handler raises meanwhile
        is returned: it is the program's."""
        try:
            if module is not None and not self.torch.is_grad_enabled():
                if self.left_evaluation is not None:
                    self.left_evaluation(module, args, kwargs)
            elif self.latest is not None:
                if module is self.latest.module():
                    inputs.with_values(self.torch, [self.latest.args, self.latest.kwargs], [args, kwargs])
                self.ran_out(self.latest, phase)
        except apart.Interrupted as interrupted:
            return interrupted.error
        except Exception as error:
            errors.ours("an OOM left a call")
            self.why_not = repr(error)[:160]
        except BaseException:
            errors.refused("an OOM left a call")
        finally:
            self.rounds.end()
        return None


def inner_of(wrapper: Any) -> Any:
    """What a wrapper calls."""
    inner = {} if wrapper is None else wrapper.__dict__.get("_modules", {})
    return inner.get("module", inner.get("_orig_mod"))


def are_in_buckets(wrappers: list[Any]) -> bool | None:
    """Where DistributedDataParallel is among what calls a model, whether gradients are views of its buckets."""
    found = (each.__dict__.get("gradient_as_bucket_view") for each in wrappers)
    views = next((each for each in found if each is not None), None)
    return None if views is None else views is True


def are_rebuilt(wrapper: Any) -> bool:
    """Whether DistributedDataParallel makes its buckets anew in the order in which the first step's gradients came
    (`Reducer::should_rebuild_buckets`)."""
    of = wrapper.__dict__
    return of.get("find_unused_parameters") is False or of.get("static_graph") is True


def reads_outputs(wrapper: Any) -> bool:
    """Whether DistributedDataParallel goes through the outputs, for parameters that are unused or to know the graph
    (`DistributedDataParallel._post_forward`): logits are computed for it."""
    of = wrapper.__dict__
    return of.get("find_unused_parameters") is True or of.get("static_graph") is True


def device_of(module: Module) -> Any:
    """Where the parameters that are trained lie; None where there are none or on several devices."""
    devices = {each.device for each in members.parameters(module) if each.requires_grad}
    return devices.pop() if len(devices) == 1 else None


def noted(torch: Torch, value: Any, depth: int = 4) -> Any:
    """A value with the shapes of its tensors in their places."""
    if objects.is_a(value, torch.Tensor):
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise CannotNote
        return Shape(value)
    if value is None or type(value) in (bool, int, float, str, torch.dtype, torch.device):
        return value
    if depth and type(value) in (list, tuple) and len(value) <= MOST_LEAVES:
        return type(value)(noted(torch, each, depth - 1) for each in value)
    if depth and objects.is_a(value, dict):
        return {key: noted(torch, each, depth - 1) for key, each in objects.entries(value)}
    data = (objects.namespace_of(value) or {}).get("data")
    if depth and objects.is_a(data, dict):
        return {key: noted(torch, each, depth - 1) for key, each in objects.entries(data)}
    array = inputs.array_of(torch, value)
    if array is not None:
        return array
    raise CannotNote


def shapes_of(value: Any) -> Any:
    if isinstance(value, Shape):
        return value.shape, str(value.dtype)
    if isinstance(value, dict):
        return sorted((str(key), shapes_of(each)) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return [shapes_of(each) for each in value]
    return None
