"""One training step on fake tensors: what a call of the model, its loss and its backward would allocate
and free, without a kernel, a byte of device memory or a change to the program.

torch's FakeTensorMode runs the model's own code; every new storage on the GPU is an allocation, its end a
free. It runs on a thread of its own (apart.py), backward too, and ends at a deadline that is looked at in every
operation. Before anything that could be seen outside (effects.py, which the caller enters) and before a collective it
stops.

Nothing is raised but where an operation may raise. torch also asks Python from places of C++ that no exception
may leave (a tensor's device, a destructor), and one that does ends the process: so nobody raises anything in the
rehearsal's thread from outside.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from _thread import get_ident
from collections import namedtuple

from ..common import errors
from ..patch import unmade
from . import (
    chunking,
    convolving,
    fakes,
    flops,
    inputs,
    losses,
    offloading,
    operators,
    outside,
    packing,
    recomputing,
    recurrent,
    reduced,
    regions,
    rules,
    shadows,
    singly,
    sparse,
    values,
)
from .effects import Stopped
from .inputs import Shape
from .trace import Trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Args, Kwargs, Line, Module, Storage, Tensor, Torch
    from .apart import Deadline
    from .effects import Guard
    from .roots import Call

COLLECTIVES = ("c10d", "_c10d_functional", "c10d_functional", "symm_mem")
# What C++ asks of a tensor that Python has made, wherever it is: these may not raise.
QUESTIONS = ("prim", "profiler")
SOFTMAX_BACKWARD = "_softmax_backward_data"
LOG_SOFTMAX = "_log_softmax"
# What cuBLAS computes, which takes a workspace for it; attention that is no fused kernel's is made of these, too.
PRODUCTS = frozenset("mm addmm bmm baddbmm addbmm addmv mv dot linear _scaled_mm _addmm_activation".split())
SOFTMAX = (SOFTMAX_BACKWARD, "_log_softmax_backward_data", "_softmax", LOG_SOFTMAX)
# What takes memory beside what it returns.
TAKING = frozenset((*convolving.NAMES, LOG_SOFTMAX, *SOFTMAX))
# What takes a mask for the places that it has.
INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_")
# What depends on values for its size is worth a rehearsal by shares if it is so much of the peak: more may be made of
# it; of places alone anything may be made.
SHARED, ANY = 0.002, 1 << 62
# So many times a step is begun again with what it returned, until that has the size that it was given.
MOST_CARRIED = 3
# What makes a tensor of values: its argument is the tensor that is made.
MAKING = ("lift_fresh", "lift_fresh_copy", "lift")


# What is changed about a step: activation checkpointing, autocast to bf16, what forward saves in RAM, a loss in chunks,
# divided parameters gathered in bf16, the classes of a head that is fused with its loss.
Changed = namedtuple(
    "Changed", "checkpointing amp offload chunks in_bf16 head", defaults=(False, False, False, False, False, 0)
)
AS_IT_WAS = Changed()


class Variant:
    """What is tried in place of the step as it was; `batch` is (from, to) of the batch's dimension. `is_flat`: a first
    dimension that is a multiple of the batch grows with it. `is_listed`: its samples are the items of lists."""

    def __init__(
        self, batch: tuple[int, int] | None = None, changed: Changed = AS_IT_WAS, is_flat: bool = False,
        is_listed: bool = False,
    ) -> None:
        self.batch = batch
        self.changed = changed
        self.is_flat = is_flat
        self.is_listed = is_listed


class Rehearsal:
    """One variant of one call, until a moment."""

    def __init__(
        self,
        torch: Torch,
        call: Call,
        variant: Variant,
        deadline: Deadline,
        known: operators.Known | None = None,
        guard: Guard | None = None,
        outer: outside.Outside | None = None,
        with_hooks: bool = False,
    ) -> None:
        self.torch = torch
        # What operators returned in earlier ones.
        self.answers = known or operators.Known()
        self.accumulation = self.answers.accumulation_of(torch)
        self.guard = guard
        # What the step changes outside of the model; whether the program's own forward hooks are called.
        self.outside, self.with_hooks = outer, with_hooks
        self.call = call
        self.variant = variant
        batch = variant.batch[0] if variant.batch else 0
        self.is_first = any(shape.shape[:1] == (batch,) for shape in inputs.shapes_in([call.args, call.kwargs]))
        self.deadline = deadline
        self.thread = get_ident()
        self.trace = Trace(call.device)
        # The storages that were seen, by address.
        self.known: dict[Any, Any] = {}
        # Tensors of the program's that are no part of the model, with their fakes, by address.
        self.outer: dict[int, tuple[Any, Any]] = {}
        # None where real steps are looked at.
        self.mode: Any = None
        self.weights: list[int] = []
        self.trained: list[int] = []
        # The parameters that have had a gradient, by the addresses of their copies.
        self.reached: set[int] = set()
        # What the model has kept in single numbers; None where real steps are looked at.
        self.flags: fakes.Flags | None = None
        # And what of other values is known.
        self.values = values.Values(torch, lambda: self.trace.allocated)
        self.sequences = packing.Sequences(self)
        is_cudas = call.device.type == "cuda"
        self.convolves_with: Any = convolving.dtypes_with(torch) if is_cudas else ()
        self.has_convolutions = self.multiplies = self.multiplies_backward = False
        # Whether a backward runs is the number of its graph's task, of torch 2.0 on.
        self.task: Any = getattr(torch._C, "_current_graph_task_id", int)
        self.samples = singly.Samples(variant.batch[1] if variant.batch else 0)
        # Copies of what models have, and how many of them are known to be no allocation.
        self.copier: Any = None
        self.looked_at = 0
        # Whether the program's lines after the model's call are run.
        self.is_in_lines = False
        # Where the call is given variables, the sizes of these, and those that are what the step before has returned.
        self.passed: dict[str, Any] = {}
        self.given: dict[str, Any] = {}
        self.carried: list[str] = []
        # Allocations that outlive the step, by their numbers.
        self.outlive: dict[str, list[int]] = {}
        # What goes to RAM, where that is tried.
        self.offloading: offloading.Offloading | None = None
        # The program's optimizer, where it is known (optimizers.py).
        self.optimizer: Line | None = None
        # The largest log-softmax over rows of logits, and its classes.
        self.log_softmax = self.classes = 0
        # The loss in chunks, where that is tried.
        self.chunking: chunking.Chunking | None = None
        # The most bytes of one that is as large as values say, which are not known.
        self.by_shares = 0
        # Copies of compiled modules that allocate what their graphs do, and how many graphs were taken so; whether some
        # of them have memory of CUDA's own graphs, or do not fit, so that lines run as they are written.
        self.regions: list[Module] = []
        self.graphs = 0
        self.has_private_pools = self.is_partly_written = False
        # The sizes in what was compiled, while that is called.
        self.seen_by: regions.Seen | None = None

    def run(self) -> Trace:
        """The trace; raises `Stopped`, or what the model or torch raises on fake tensors."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        torch, call, variant = self.torch, self.call, self.variant
        if call.lines is not None and call.lines.lead_nowhere():
            raise losses.NoLoss("its lines lead to no loss")
        mode = self.mode = FakeTensorMode(allow_non_fake_inputs=False)
        self.operators = operators.Operators(torch, mode, self.answers)
        self.accumulation.measure(mode)
        gathered_in = torch.bfloat16 if variant.changed.in_bf16 else None
        copier = self.copier = fakes.Copier(
            torch, self.operators, call.device, gathered_in, variant.batch, self.outside, self.with_hooks
        )
        module = copier.of(call.module())
        self.weights, self.trained = copier.weights, copier.trained
        self.flags = copier.flags
        given = self.arguments(mode)
        if variant.changed.chunks:
            self.chunking = chunking.Chunking(torch, call.device, *variant.batch or (1, 1), variant.changed.head)
        self.has_copied(module)
        if variant.changed.checkpointing:
            if not recomputing.recompute(torch, module, self.trace):
                raise Stopped("no repeated blocks were found")
        if variant.changed.offload:
            self.offloading = offloading.Offloading(torch, call.device, *variant.batch or (1, 1))
            self.offloading.put_around(module, call.module())
        if call.has_gradients_in_buckets:
            for each in module.parameters():
                if each.requires_grad:
                    # Copied into its bucket at once, which was there before.
                    each.register_post_accumulate_grad_hook(let_go)
        elif call.is_reduced_in_buckets:
            for each in module.parameters():
                if each.requires_grad:
                    each.register_post_accumulate_grad_hook(self.has_gradient)
        self.begin_trace()
        chunks: Any = contextlib.nullcontext() if self.chunking is None else self.chunking
        if call.is_evaluation:
            self.are_there(given)
            with chunks:
                return self.evaluated(module, *given)
        if call.is_evaluated_first:
            module.train()
        for left in range(MOST_CARRIED, -1, -1):
            self.are_there(given)
            with chunks:
                carried = self.step(module, given, left > 0)
            if not carried:
                break
            # The steps behind are given what the one before has returned.
            given = self.arguments(mode)
            with mode:
                for name, value in carried.items():
                    self.passed[name].put(detached(torch, value), *given)
            del carried, value
            self.trace = Trace(call.device)
            self.begin_trace()
        if self.chunking is not None:
            self.chunking.is_of_use()
        return self.trace

    def begin_trace(self) -> None:
        if self.copier.is_divided() or self.call.is_reduced_in_buckets:
            self.trace.log = []
        self.copier.begin(self.trace)

    def has_gradient(self, parameter: Any) -> None:
        self.trace.note_gradient(parameter.grad.untyped_storage())

    def are_there(self, given: tuple[list[Any], Kwargs]) -> None:
        """What was there before the call is no allocation of it, nor is a view of it."""
        for each in leaves(self.torch, list(given)):
            self.is_new(each.untyped_storage())
        lines = self.call.lines
        self.passed = {} if lines is None else lines.carried()
        self.given = {name: sizes_of(self.torch, place.value_in(*given)) for name, place in self.passed.items()}

    def step(self, module: Module, given: tuple[list[Any], Kwargs], may_begin_again: bool) -> dict[str, Any]:
        """Forward, the loss, backward and what follows. Where the next step's call is given something of another size
        (a memory that begins empty), this is returned, and the step is not rehearsed to its end."""
        torch, call, variant, mode = self.torch, self.call, self.variant, self.mode
        scenes, returned = losses.Scenes(self, self.copier), []
        outputs: list[Any] = []
        args, kwargs = list(given[0]), dict(given[1])
        # Nobody else holds them.
        given[0].clear()
        given[1].clear()
        try:
            if call.lines is None or not call.lines.is_whole:
                gradients = torch.no_grad() if call.is_without_gradients else contextlib.nullcontext()
                with mode, self.recorder(), self.autocast(), self.on_this_thread(), gradients:
                    outputs.append(torch.nn.Module._call_impl(module, *args, **kwargs))
                    self.trace.mark("forward")
            del args, kwargs
            returned = losses.numbers_of(torch, self.trace, [each for each in leaves(torch, outputs) if each.dim()])
            if call.lines is None and self.went_backward(module):
                # Inside of its forward.
                self.trace.marks["own loss"] = 1
                outputs.clear()
                self.trace.mark("loss")
            else:
                loss = self.loss(module, outputs.pop()) if call.lines is None else scenes.loss(outputs)
                other = scenes.carries_other(self.given) if may_begin_again else {}
                if other:
                    return other
                with mode, self.recorder(), self.on_this_thread():
                    self.trace.mark("loss")
                    loss.backward(retain_graph=scenes.keeps_graph())
                    del loss
            self.trace.mark("backward")
            self.reached |= shadows.with_gradients(module)
            with mode, self.recorder():
                with self.autocast() if variant.changed.amp else contextlib.nullcontext():
                    scenes.further()
                scenes.behind()
            for size in sparse.made_by_a_step(torch, module, self.optimizer):
                self.trace.allocate_for_a_moment(size)
            self.leave_out_shadows(module)
            other = scenes.carries_other(self.given) if may_begin_again else {}
            if other:
                for each in module.parameters():
                    each.grad = None
                return other
            self.outlive, self.carried = scenes.outlive(returned), scenes.carried
            losses.replaced(torch, self.trace, module, self.outlive)
        finally:
            self.trace.is_over = True
        return {}

    def leave_out_shadows(self, module: Module) -> None:
        """Of what is trained, where gradients stay on the parameters: see shadows.py."""
        copier = self.copier
        if copier.is_divided() or self.call.has_gradients_in_buckets:
            return
        self.reached |= shadows.with_gradients(module)
        places = [copier.place_of.get(each) for each in shadows.never_trained(module, self.reached)]
        self.trained = [size for place, size in enumerate(copier.trained) if place not in places]

    def evaluated(self, module: Module, args: list[Any], kwargs: Kwargs) -> Trace:
        """A call without gradients: what it returns is there until the next has returned."""
        torch, trace = self.torch, self.trace
        try:
            with self.mode, self.recorder(), self.autocast(), torch.no_grad():
                outputs = torch.nn.Module._call_impl(module, *args, **kwargs)
                trace.mark("forward")
                trace.mark("loss")
            self.outlive = {"held": losses.numbers_of(torch, trace, leaves(torch, outputs))}
        finally:
            trace.is_over = True
        return trace

    def has_copied(self, module: Module) -> None:
        """A copy of one of the program's models."""
        for copy, original in self.copier.small:
            self.values.are(copy, original)
        self.copier.small.clear()
        recurrent.replace(self.torch, module, self.sequences, self.add_operations)
        if self.chunking is not None:
            self.chunking.take(module)
        # An evaluation's graphs keep nothing for a backward.
        if self.variant.changed == AS_IT_WAS and not self.call.is_evaluated_first:
            original = self.call.module()
            is_compiled = self.call.is_compiled and module is self.copier.memo.get(id(original))
            regions.put(self, self.copier.compiled + ([(module, original)] if is_compiled else []))
        self.know_copies()

    def know_copies(self) -> None:
        """What was there before the call is no allocation of it."""
        for each in self.copier.tensors[self.looked_at :]:
            self.is_new(each.untyped_storage())
        self.looked_at = len(self.copier.tensors)
        if self.guard is not None and self.guard.before is not None:
            self.guard.before.has_copies(self.copier.memo)

    def has_only_graphs(self) -> bool:
        """Whether all that was compiled was taken as its graphs are."""
        return self.graphs > 0 and not self.has_private_pools and not self.is_partly_written

    def went_backward(self, module: Module) -> bool:
        return any(each.grad is not None for each in module.parameters())

    def arguments(self, mode: Any) -> tuple[list[Any], Kwargs]:
        """The noted arguments as fakes, their batch scaled; they are alive when the call begins."""
        with mode:
            may_be_flat = self.variant.is_flat
            args = [self.made(self.listed(each), may_be_flat) for each in self.call.args]
            named = {name: self.listed(each) for name, each in self.call.kwargs.items()}
            return args, {name: self.made(each, may_be_flat) for name, each in named.items()}

    def listed(self, given: Any) -> Any:
        """An argument that is a list of samples, with as many as the batch."""
        was, now = self.variant.batch or (0, 0)
        return singly.resized(given, was, now) if self.variant.is_listed else given

    def made(self, value: Any, may_be_flat: bool = False) -> Any:
        """A fake for every shape, in containers as they were. `may_be_flat`: the first dimension may be the batch times
        another, as targets are."""
        if isinstance(value, Shape):
            shape, stride = value.shape, value.stride
            was, now = self.variant.batch or (0, 0)
            at = inputs.dimension_of(value, was, self.is_first) if was != now else None
            if at is None and may_be_flat and was > 1 and shape and shape[0] and shape[0] % was == 0:
                at = 0
            if at is not None:
                shape = shape[:at] + (shape[at] // was * now,) + shape[at + 1 :]
                # What lies outside of the batch is so many times as far apart.
                stride = tuple(step if step <= stride[at] else step * now // was for step in stride)
            if isinstance(value, inputs.Array):
                return value.made(shape, at)
            made = self.torch.empty_strided(shape, stride, dtype=value.dtype, device=value.device)
            made.requires_grad_(value.requires_grad)
            if value.values is not None and self.mode is not None:
                self.values.note(made, values.Lazy(values.stretched, (value.values, at, shape), {}))
            return made
        if isinstance(value, dict):
            return {key: self.made(each, may_be_flat) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.made(each, may_be_flat) for each in value)
        return value

    def autocast(self) -> Any:
        enabled, dtype, cache = self.call.autocast
        if self.variant.changed.amp:
            enabled, dtype = True, self.torch.bfloat16
        return self.torch.autocast(self.call.device.type, enabled=enabled, dtype=dtype, cache_enabled=cache)

    def loss(self, module: Module, outputs: Any) -> Tensor:
        """A scalar to go backward from, where the program's own lines are not known: the model's own where it
        returns or keeps one, else the usual one for its output."""
        kept = losses.kept_by(self.torch, module, leaves(self.torch, outputs))
        if kept is not None:
            self.trace.marks["own loss"] = 1
            return kept
        with self.mode, self.recorder(), self.autocast():
            return self.assumed(outputs)

    def assumed(self, outputs: Any) -> Tensor:
        torch = self.torch
        tensors = [each for each in leaves(torch, outputs) if each.requires_grad and each.is_floating_point()]
        if not tensors:
            raise Stopped("the model's output has no gradient")
        scalars = [each for each in tensors if each.dim() == 0]
        if scalars:
            self.trace.marks["own loss"] = 1
            several: Any = scalars
            loss: Tensor = sum(several[1:], several[0])
            return loss
        if self.variant.changed.head:
            raise Stopped("its loss is not known")
        logits = max(tensors, key=lambda each: each.numel())
        return usual_loss(torch, logits)

    def lists(self) -> Any:
        """Fakes are made lists of by what is known of them."""
        from torch._subclasses.fake_tensor import FakeTensor

        stack = contextlib.ExitStack()
        for each in values.by(self.values, FakeTensor, lambda: self.operators.plainly()):
            stack.enter_context(each)
        return stack

    def on_this_thread(self) -> contextlib.AbstractContextManager[None]:
        """Backward on the thread that asks for it, not on those that autograd has for each GPU."""
        enabled = getattr(self.torch.autograd, "set_multithreading_enabled", None)
        return contextlib.nullcontext() if enabled is None else enabled(False)

    def judge_on(self) -> None:
        """After an attempt that was stopped: the rehearsal goes on in another way."""
        if self.guard is not None:
            self.guard.judge_on()

    def depends_on_shares(self) -> bool:
        """Whether in how many parts elements are chosen makes a difference."""
        return bool(self.values.asked) and self.by_shares > SHARED * self.trace.peak

    def fixed_sizes(self) -> set[int]:
        """The sizes of what its models have."""
        sizes: set[int] = self.copier.fixed_sizes()
        return sizes

    def recorder(self) -> Any:
        from torch.utils._python_dispatch import TorchDispatchMode

        rehearsal, which_device = self, self.torch.ops.prim.device.default
        operation, facts_of = self.operation, self.answers.of
        guard = self.guard if self.guard is not None and self.guard.sees_every_call() else None

        class Recorder(TorchDispatchMode):  # type: ignore[misc]
            pass

        def __torch_dispatch__(_: Any, func: Any, types: Any, args: Args = (), kwargs: Kwargs | None = None) -> Any:
            if unmade.KINDS and not unmade.KINDS.isdisjoint(types):
                # It has no memory: what it makes of itself comes here again.
                return NotImplemented
            if func is which_device:
                # Two calls of three: a fake knows it without torch's way through all modes.
                return args[0].device
            facts = facts_of(func)
            if facts.namespace not in QUESTIONS:
                rehearsal.look_at_clock()
            if facts.namespace in COLLECTIVES:
                raise Stopped("it communicates with other ranks")
            if guard is None or facts.namespace != "aten":
                return operation(func, facts, args, kwargs or {})
            # Nothing of the program's runs in there.
            guard.rest()
            try:
                return operation(func, facts, args, kwargs or {})
            finally:
                guard.go_on()

        # In the body of the class torch wraps it, which takes as long as it does.
        setattr(Recorder, "__torch_dispatch__", __torch_dispatch__)
        return Recorder()

    def operation(self, func: Any, facts: operators.Facts, args: Args, kwargs: Kwargs) -> Any:
        """One operator, and what it allocates."""
        accumulation = self.accumulation
        if func is accumulation.adds and accumulation.is_one(func, args, kwargs, sys._getframe(2)):
            # Of real steps it has a value.
            return args[0] if self.mode is not None else accumulation.in_place(*args)
        if func is accumulation.clones and accumulation.is_taken_over(func, args, sys._getframe(2)):
            return args[0]
        name, known, key = facts.name, self.answers, None
        self.samples.look(name, args)
        if name in PRODUCTS:
            self.multiplies = True
            self.multiplies_backward = self.multiplies_backward or self.is_backward()
        if name == "convolution" and takes_workspace(args):
            self.has_convolutions = True
        if self.mode is not None:
            may_be_known = facts.may_be_known and not known.is_off and not reduced.is_one(name, args)
            key = self.operators.key(func, args, kwargs) if may_be_known else None
            answer = self.operators.answer(key, func, facts, args, kwargs) if key is not None else None
            made = self.operators.made(answer[0], args) if answer is not None else None
            if answer is not None and made is not None:
                self.trace.flops += answer[2]
                self.record(made, name, args)
                result = made[0] if answer[1] is None else answer[1](made)
                self.values.follow(func, name, args, kwargs, result)
                return result
            if key is None and name not in MAKING:
                args, kwargs = self.with_fakes(func, args), self.with_fakes(func, kwargs)
        if self.mode is not None and reduced.is_one(name, args):
            return self.reduced_loss(func, name, args, kwargs)
        if name == "_local_scalar_dense":
            if self.is_in_lines:
                return self.number_in_lines(args[0])
            if self.flags is not None and self.flags.has(args[0]):
                return self.flags.value(args[0], self.operators.plainly)
            if self.mode is not None:
                try:
                    return self.values.number(args[0], self.operators.plainly)
                except values.NotKnown:
                    errors.foreseen("a value that is not known")
        if self.mode is not None and name == values.BINS and len(args) + len(kwargs) > 1:
            made = self.torch.empty((values.bins_of(args, kwargs),), dtype=self.torch.int64, device=args[0].device)
            self.values.follow(func, name, args, kwargs, made)
            self.record([made], name, args)
            return made
        if self.mode is not None and name in values.BY_VALUE:
            chosen = self.by_value(name, args)
            self.by_shares = max(self.by_shares, ANY if name == "nonzero" else bytes_of(chosen))
            return chosen
        if self.mode is not None and name in INDEXING and any(is_mask(each) for each in args[1]):
            returned = self.operation(func, facts, (args[0], self.places(args[1]), *args[2:]), kwargs)
            if name == "index":
                self.by_shares = max(self.by_shares, bytes_of(returned))
            return returned
        if self.mode is not None and sparse.are_added(self.torch, name, args):
            return sparse.added(self.torch, *args[:2])
        before = self.trace.flops
        self.count(name, args)
        returned = func(*args, **kwargs)
        self.record(leaves(self.torch, returned), name, args)
        if key is not None:
            self.operators.remember(key, returned, args, self.trace.flops - before)
        if self.mode is not None:
            self.values.follow(func, name, args, kwargs, returned)
        return returned

    def is_backward(self) -> bool:
        return self.task() >= 0

    def reduced_loss(self, func: Any, name: str, args: Args, kwargs: Kwargs) -> Any:
        """A loss that torch computes in what it returns."""
        key = None if self.answers.is_off else self.operators.key(func, args, kwargs)
        returned, taken = self.operators.reduced_loss(key, lambda: func(*args, **kwargs), name, args)
        self.record([returned], name, args)
        self.trace.allocate_for_a_moment(taken if returned.device == self.call.device else 0)
        self.values.follow(func, name, args, kwargs, returned)
        return returned

    def number_in_lines(self, tensor: Any) -> Any:
        """Most often a figure to be printed or kept. A whole number may be a size (`y[:, : lengths.max().item()]`): as
        it is, where it follows from what is known."""
        if not tensor.dtype.is_floating_point and self.mode is not None:
            try:
                found = self.values.value(tensor, self.operators.plainly)
                with self.operators.plainly():
                    return found.item()
            except values.NotKnown:
                errors.foreseen("a value of the caller's lines")
        return number_like(tensor)

    def by_value(self, name: str, args: Args) -> Any:
        """An operator whose result is as large as its values say."""
        mask = args[1] if name == "masked_select" else args[0]
        count = self.values.count(mask, self.operators.plainly)
        shape, dtype = ((count,), args[0].dtype) if name == "masked_select" else ((count, mask.dim()), self.torch.long)
        made = self.operators.new(shape, rules.natural(shape), dtype, mask.device)
        self.record([made], name, args)
        return made

    def places(self, indices: Any) -> list[Any]:
        """Indices with the places of a mask in the place of the mask."""
        found: list[Any] = []
        for each in indices:
            found += self.operators.columns(self.by_value("nonzero", (each,))) if is_mask(each) else [each]
        return found

    def record(self, tensors: list[Any], name: str, args: Args) -> None:
        device, known, dense = self.call.device, self.known, self.torch.strided
        looking = self.seen_by if self.seen_by is not None and self.seen_by.is_looking else None
        for tensor in tensors:
            if tensor is not None and tensor.device == device:
                if looking is not None:
                    looking.quiet.saw(tensor)
                if tensor.layout is dense:
                    storage = tensor.untyped_storage()
                    if storage._cdata not in known and self.is_new(storage):
                        self.trace.allocate(storage)
                    continue
                for storage in sparse.storages(self.torch, tensor):
                    if self.is_new(storage):
                        self.trace.allocate(storage)
        if name not in TAKING:
            return
        if name in convolving.NAMES and args[0].dtype in self.convolves_with and args[0].device == device:
            taken = convolving.workspace(self.torch.float32, name, args, tensors[0])
            self.trace.take_if_there_is_room(taken)
        if name == LOG_SOFTMAX and args[0].dim() == 2:
            taken = tensors[0].untyped_storage().nbytes()
            if taken > self.log_softmax:
                self.log_softmax, self.classes = taken, args[0].shape[1]
        if name in SOFTMAX and args[0].device == device:
            self.trace.allocate_for_a_moment(softmax_takes(name, args))

    def with_fakes(self, func: Any, value: Any) -> Any:
        """Arguments of an operation, with fakes for tensors of the program's that are no part of the model (a table
        in a global, the weights of a loss)."""
        kind = type(value)
        if kind in (list, tuple):
            made = [self.with_fakes(func, each) for each in value]
            return kind(made) if any(new is not old for new, old in zip(made, value)) else value
        if kind is dict:
            named = {key: self.with_fakes(func, each) for key, each in value.items()}
            return named if any(named[key] is not value[key] for key in value) else value
        if kind not in (self.torch.Tensor, self.torch.nn.Parameter):
            return value
        # A leaf that is trained gets its gradient past this mode.
        if value.requires_grad:
            raise Stopped("it trains a parameter that is no part of the model")
        if func._schema.is_mutable:
            raise Stopped("its forward changes a tensor outside of the model (%s)" % func.name())
        known = self.outer.get(id(value))
        if known is None or known[0]() is not value:
            fake = self.made(Shape(value))
            self.is_new(fake.untyped_storage())
            known = self.outer[id(value)] = weakref.ref(value), fake
        return known[1]

    def is_new(self, storage: Storage) -> bool:
        """Whether it was not seen before; the next one at its address will not have been."""
        key = storage._cdata
        if key in self.known:
            return False
        self.known[key] = weakref.ref(storage, lambda _: self.known.pop(key, None))
        return True

    def count(self, name: str, args: Args) -> None:
        """The operator's floating-point operations; a signature that is not known counts for nothing."""
        try:
            self.trace.flops += flops.of(name, args)
        except Exception:
            errors.foreseen("count operations")

    def add_operations(self, count: int) -> None:
        self.trace.flops += count

    def look_at_clock(self) -> None:
        if self.deadline.has_come() and get_ident() == self.thread:
            raise Stopped("it took too long")


def let_go(parameter: Any) -> None:
    parameter.grad = None


def number_like(tensor: Any) -> Any:
    """A plain number in place of a tensor's value."""
    if tensor.dtype.is_complex or tensor.dtype.is_floating_point:
        return 1.0
    return True if "bool" in str(tensor.dtype) else 1


def bytes_of(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def softmax_takes(name: str, args: Args) -> int:
    """The bytes that softmax's kernels take for themselves (aten/src/ATen/native/cuda/SoftMax.cu): a copy of what has
    gaps, and going backward the product of the gradient and the output."""
    given = args[:2] if "backward" in name else args[:1]
    copies = [each.numel() * each.element_size() for each in given if not each.is_contiguous()]
    product = args[0].numel() * args[0].element_size() if name == SOFTMAX_BACKWARD else 0
    # The product has no gaps.
    return product + sum(copies[1:]) if product else sum(copies)


def is_mask(value: Any) -> bool:
    return value is not None and str(value.dtype) in ("torch.bool", "torch.uint8")


def takes_workspace(args: Args) -> bool:
    """Whether a convolution may take a workspace as large as its output: not one whose windows are single
    points or lie side by side (the patches of a ViT), or which has a channel for each group."""
    weight, stride = args[1], args[3]
    window = list(weight.shape[2:])
    return max(window, default=1) > 1 and window != list(stride) and weight.shape[1] > 1


def sizes_of(torch: Torch, value: Any) -> list[tuple[int, ...]]:
    return [tuple(each.shape) for each in leaves(torch, value)]


def detached(torch: Torch, value: Any) -> Any:
    """The same without a graph."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, dict):
        return {key: detached(torch, each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(detached(torch, each) for each in value)
    return value


def leaves(torch: Torch, value: Any) -> list[Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(torch, each)]
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in leaves(torch, each)]
    inner = getattr(value, "__dict__", None)
    return [leaf for each in inner.values() for leaf in leaves(torch, each)] if inner else []


def usual_loss(torch: Torch, logits: Tensor) -> Tensor:
    """Cross-entropy over the classes: the last dimension of [N, C] and of [N, T, C], the second of images."""
    if logits.dim() >= 4:
        targets = torch.empty((logits.shape[0],) + tuple(logits.shape[2:]), dtype=torch.long, device=logits.device)
        return torch.nn.functional.cross_entropy(logits, targets)
    if logits.dim() < 2:
        return logits.sum()
    flat = logits.flatten(0, -2)
    targets = torch.empty(flat.shape[:1], dtype=torch.long, device=logits.device)
    return torch.nn.functional.cross_entropy(flat, targets)
