"""Models whose parameters torch's `fully_shard` has divided among the ranks: a rehearsal's copy has every parameter
whole, and what gathers and reduces them enters the trace with the sizes and lifetimes that torch gives it
(torch/distributed/fsdp/_fully_shard: `_fsdp_param_group.py` and `_fsdp_collectives.py`). Nothing is sent: the hooks
that would do so are left out of the copy, and no method of the original's is called.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

    from ..common.protocols import Args, Kwargs, Module, Tensor, Torch

STATES = "torch.distributed._composable_state"
# What a group of parameters is at, as torch has it.
IDLE, FORWARD, BACKWARD, REDUCED = range(4)
# What a module may have in a parameter's place: its shard, all of it, a shard of fewer ranks behind forward.
PLACES = ("sharded_param", "_unsharded_param", "_sharded_post_forward_param")
# The streams that have a pool of blocks each: what computes, what gathers, what reduces.
COMPUTES, GATHERS, REDUCES = range(3)


class Unknown(Exception):
    """A way of sharding that this does not know."""


def is_sharded(module: Module) -> bool:
    """Whether `fully_shard` was called on it."""
    return any(
        base.__name__ == "FSDPModule" and base.__module__.startswith("torch.distributed")
        for base in type(module).__mro__
    )


class Parameter:
    """One parameter, in bytes unless said otherwise."""

    def __init__(self, torch: Torch, sharded: Any, ranks: int, gathered_in: Any) -> None:
        self.size, self.stride = tuple(sharded._orig_size), tuple(sharded._contiguous_orig_stride)
        own = sharded.sharded_param
        self.requires_grad = own.requires_grad
        self.dtype = getattr(sharded, "param_dtype", None) or (own.dtype if gathered_in is None else gathered_in)
        self.is_cast = self.dtype != own.dtype
        self.is_on_host = bool(getattr(sharded, "offload_to_cpu", False))
        # Elements of each rank, those included that only fill up the last one.
        self.padded = sharded.padded_sharded_param_size.numel()
        itemsize = own.dtype.itemsize
        self.kept = self.padded * itemsize
        self.trained = int(torch.Size(sharded.sharded_size).numel()) * itemsize
        self.piece = self.padded * self.dtype.itemsize
        self.whole = self.piece * ranks
        # Its copy, once there is one.
        self.copy: Any = None


class Group:
    """Parameters that are gathered and reduced together."""

    def __init__(self, torch: Torch, group: Any, is_root: bool, gathered_in: Any) -> None:
        self.ranks = int(getattr(group.mesh_info, "shard_mesh_size", 1))
        self.is_root = is_root
        self.parameters = [Parameter(torch, each, self.ranks, gathered_in) for each in group.fsdp_params]
        behind = group.post_forward_mesh_info
        self.reshards = behind is not None
        # Behind forward a rank may keep more than its shard: that of a smaller number of ranks.
        among = self.ranks if behind is None else int(getattr(behind, "shard_mesh_size", self.ranks))
        self.among = among if among != self.ranks else 0
        self.reduces = bool(group.reduce_grads)
        # What is sent on to the replicas stays until backward has ended, where its dtype is not the parameters'.
        is_sent_on = getattr(group.mesh_info, "replicate_mesh_size", 1) > 1
        self.keeps_reduced = is_sent_on and hasattr(group, "_all_reduce_state")
        # Later versions copy the parameters where there is one rank only.
        self.is_copied = self.ranks == 1 and hasattr(group, "_all_gather_output")
        self.own_dtype = group.fsdp_params[0].sharded_param.dtype if group.fsdp_params else None
        self.reduce_dtype = getattr(group, "_reduce_dtype", None)
        if gathered_in is not None and not self.reduce_dtype:
            self.reduce_dtype = self.own_dtype
        self.begin()

    def begin(self) -> None:
        self.at = IDLE
        # The buffer that its parameters are gathered in; None where there is none, and before that was asked for.
        self.buffer: tuple[int, int] | None = None
        self.is_asked_for = False
        self.wholes: list[tuple[int, int] | None] = []
        self.kept: list[tuple[int, int] | None] = []
        self.is_whole = False
        self.has_gradient = False
        # Where it comes in forward, once for each call.
        self.places: list[int] = []

    def pieces(self) -> int:
        return sum(each.piece for each in self.parameters)


class Memory:
    """What is taken for no tensor of the rehearsal's; and tensors in any container."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        # Set where the rehearsal begins.
        self.trace: Any = None
        # All that was taken at once.
        self.sizes: set[int] = set()
        # Whether lines run only for the sizes in them (regions.py).
        self.is_quiet = False

    def take(self, size: int, stream: int = COMPUTES) -> tuple[int, int] | None:
        if not size:
            return None
        self.sizes.add(size)
        return self.trace.take(size, stream), size

    def give(self, taken: tuple[int, int] | None) -> None:
        if taken is not None:
            self.trace.give(*taken)

    def does(self, act: Callable[..., None], *args: Any) -> None:
        """What takes and gives, and is done again where the trace is put together in another way (composed.py). No
        tensor may be let go of in it."""
        self.trace.note_call(act, args)
        act(*args)

    def cast(self, dtype: Any, value: Any) -> Any:
        def one(each: Any) -> Any:
            is_cast = isinstance(each, self.torch.Tensor) and each.is_floating_point() and each.dtype != dtype
            return each.to(dtype) if is_cast else each

        return tree().tree_map(one, value)

    def tensors(self, value: Any) -> Iterator[Any]:
        return (each for each in tree().tree_flatten(value)[0] if isinstance(each, self.torch.Tensor))


def tree() -> Any:
    return sys.modules["torch.utils._pytree"]


class Shards:
    """Those of the models of one rehearsal."""

    def __init__(self, torch: Torch, memory: Memory, gathered_in: Any = None) -> None:
        self.torch = torch
        self.memory = memory
        # Where the program has no precision of its own for them: what float32 parameters are gathered in.
        self.gathered_in = gathered_in
        self.groups: dict[int, Group] = {}
        self.known: dict[int, tuple[Any, Parameter]] = {}
        # Of each module whether backward is in it.
        self.ends: list[list[bool]] = []
        self.function: Any = None
        self.begin()

    def begin(self) -> None:
        # The outermost module of a forward, the groups in the order of their calls, and what one leaves to the next.
        self.root: Any = None
        self.order: list[Group] = []
        self.gathered: tuple[int, int] | None = None
        self.reduced: tuple[int, int] | None = None
        self.sent_on: list[tuple[int, int] | None] = []
        self.is_ending = False
        for group in self.groups.values():
            group.begin()
        for each in self.ends:
            each[0] = False

    def add(self, module: Module) -> Any:
        """Notes the parameters of a module's group, before they are copied; returns what `attach` takes."""
        states = sys.modules.get(STATES)
        state: Any = None if states is None else states._get_module_state(module)
        if state is None or not hasattr(state, "_fsdp_param_group") or not hasattr(state, "_mp_policy"):
            raise Unknown
        own = state._fsdp_param_group
        if own is None or id(own) in self.groups:
            return state
        gathered_in = self.gathered_in if is_single(self.torch, own.fsdp_params) else None
        group = self.groups[id(own)] = Group(self.torch, own, bool(state._is_root), gathered_in)
        for sharded, parameter in zip(own.fsdp_params, group.parameters):
            for name in PLACES:
                tensor = getattr(sharded, name, None)
                if tensor is not None:
                    self.known[id(tensor)] = tensor, parameter
            self.memory.sizes |= {parameter.whole, parameter.piece}
        return state

    def parameter(self, tensor: Tensor) -> Parameter | None:
        found = self.known.get(id(tensor))
        return None if found is None else found[1]

    def attach(self, copy: Module, state: Any) -> None:
        """Lets a copy's calls gather and reduce."""
        group = self.groups.get(id(state._fsdp_param_group))
        policy = state._mp_policy
        casts = policy.param_dtype if getattr(policy, "cast_forward_inputs", True) else None
        if policy.param_dtype is None and group is not None and any(each.is_cast for each in group.parameters):
            casts = self.gathered_in
        fetched = [self.groups.get(id(each._fsdp_param_group)) for each in state._states_to_forward_prefetch]
        behind = [self.groups.get(id(each._fsdp_param_group)) for each in state._states_to_backward_prefetch]
        is_in_backward = [False]
        does = self.memory.does

        def before(module: Module, args: Args, kwargs: Kwargs) -> Any:
            if is_in_backward[0]:
                # Computed again there.
                does(self.gather, group)
                does(self.wait, group)
                return None
            if self.memory.is_quiet:
                cast = self.memory.cast
                return (args, kwargs) if casts is None else (cast(casts, args), cast(casts, kwargs))
            if self.root is None:
                self.root = module
            if casts is not None:
                args, kwargs = self.memory.cast(casts, args), self.memory.cast(casts, kwargs)
            if group is not None:
                does(self.enter, group)
                args, kwargs = self.reduce_behind(group, args, kwargs)
            for each in fetched:
                does(self.gather, each)
            return args, kwargs

        def after(module: Module, args: Args, output: Any) -> Any:
            if is_in_backward[0]:
                return None
            if self.memory.is_quiet:
                return output if policy.output_dtype is None else self.memory.cast(policy.output_dtype, output)
            if group is not None:
                does(self.leave, group)
            if self.torch.is_grad_enabled():
                for each in self.memory.tensors(output):
                    if each.requires_grad:
                        each.register_hook(going_back)
            if self.root is module:
                does(self.let_go_of_gathered)
                self.root = None
            return output if policy.output_dtype is None else self.memory.cast(policy.output_dtype, output)

        def going_back(gradient: Any) -> Any:
            is_in_backward[0] = True
            if not self.is_ending:
                self.is_ending = True
                self.torch.autograd.Variable._execution_engine.queue_callback(self.end)
            does(self.back, group, not behind)
            for each in behind:
                does(self.gather, each)
            return gradient

        self.ends.append(is_in_backward)
        copy.register_forward_pre_hook(before, with_kwargs=True)
        copy.register_forward_hook(after)

    def enter(self, group: Group) -> None:
        group.at = FORWARD
        self.gather(group)
        self.wait(group)

    def leave(self, group: Group) -> None:
        if group.reshards:
            self.keep_part(group)
            self.shard(group)
        group.places.append(len(self.order))
        self.order.append(group)
        group.at = IDLE

    def gather(self, group: Group | None) -> None:
        if group is None or group.is_asked_for or group.is_whole:
            return
        group.is_asked_for = True
        if group.is_copied:
            return
        pieces = group.pieces()
        # What is cast, or lies on the host, is put together first.
        moved = sum(each.piece for each in group.parameters if each.is_cast or each.is_on_host)
        first = self.memory.take(moved, GATHERS)
        group.buffer = self.memory.take(pieces * group.ranks, GATHERS)
        self.memory.give(first)

    def wait(self, group: Group | None) -> None:
        """The gathered parameters are copied out of their buffer."""
        if group is None or not group.is_asked_for:
            return
        # Torch's function has a name for the buffer before until it returns.
        before = self.gathered if group.at == FORWARD else None
        for each in group.parameters:
            moved = each.piece if group.is_copied and (each.is_cast or each.is_on_host) else 0
            first = self.memory.take(moved)
            group.wholes.append(self.memory.take(each.whole))
            self.memory.give(first)
        if group.at == FORWARD:
            # The next one's copy goes on beside it.
            self.memory.give(before)
            self.gathered = group.buffer
        else:
            self.memory.give(group.buffer)
        group.buffer, group.is_asked_for, group.is_whole = None, False, True
        self.let_go_of_parts(group)

    def keep_part(self, group: Group) -> None:
        if group.among:
            group.kept = [self.memory.take(each.whole // group.among) for each in group.parameters]

    def let_go_of_parts(self, group: Group) -> None:
        for part in group.kept:
            self.memory.give(part)
        group.kept = []

    def shard(self, group: Group) -> None:
        for whole in group.wholes:
            self.memory.give(whole)
        group.wholes, group.is_whole = [], False

    def back(self, group: Group | None, fetches: bool) -> None:
        """Backward has come to what a group's modules returned."""
        if group is None or group.at == BACKWARD:
            return
        group.at = BACKWARD
        self.gather(group)
        self.wait(group)
        if fetches and group.places:
            place = group.places.pop()
            if place > 0:
                self.gather(self.order[place - 1])

    def reduce(self, group: Group) -> None:
        """Backward has passed a group: its gradients are divided among the ranks."""
        does = self.memory.does
        having = [each for each in group.parameters if each.copy is not None and each.copy.grad is not None]
        if not group.reduces or not having:
            does(self.passed, group, 0, None)
            return
        gradients = [each.copy.grad for each in having]
        for each in having:
            each.copy.grad = None
        padded = sum(each.padded for each in having)
        dtype = group.reduce_dtype or gradients[0].dtype
        does(self.passed, group, padded, dtype)
        # Now they are copied.
        gradients.clear()
        does(self.divide, group, padded, dtype)

    def passed(self, group: Group, padded: int, dtype: Any) -> None:
        """Its gradients are there, to be copied into one buffer."""
        group.at = REDUCED
        self.shard(group)
        self.let_go_of_parts(group)
        if padded:
            self.let_go_of_reduced()
            self.reduced = self.memory.take(padded * group.ranks * dtype.itemsize)

    def divide(self, group: Group, padded: int, dtype: Any) -> None:
        own = self.memory.take(padded * dtype.itemsize, REDUCES)
        if dtype != group.own_dtype and group.own_dtype is not None:
            first, own = own, self.memory.take(padded * group.own_dtype.itemsize, REDUCES)
            if group.keeps_reduced:
                self.sent_on.append(first)
            else:
                self.memory.give(first)
        if group.has_gradient or group.parameters[0].is_on_host:
            # Added to what is there, or copied to the host.
            self.memory.give(own)
        group.has_gradient = True

    def end(self) -> None:
        """Backward has ended."""
        for group in self.groups.values():
            if group.at != REDUCED:
                self.reduce(group)
        self.memory.does(self.finish)
        self.is_ending = False
        for each in self.ends:
            each[0] = False

    def finish(self) -> None:
        for group in self.groups.values():
            group.at = IDLE
            self.memory.give(group.buffer)
            group.buffer, group.is_asked_for = None, False
            group.places.clear()
        self.order.clear()
        self.let_go_of_reduced()
        for each in self.sent_on:
            self.memory.give(each)
        self.sent_on.clear()

    def reduce_behind(self, group: Group, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """The arguments, so that the group is reduced once their gradients are there."""
        if not self.torch.is_grad_enabled():
            return args, kwargs
        flat, spec = tree().tree_flatten((args, kwargs))
        tensor = self.torch.Tensor
        at = [place for place, each in enumerate(flat) if isinstance(each, tensor) and each.requires_grad]
        if not at:
            return args, kwargs
        if self.function is None:
            self.function = function_of(self.torch)
        passed = self.function.apply(lambda: self.reduce(group), *(flat[place] for place in at))
        for place, each in zip(at, passed):
            flat[place] = each
        return tuple(tree().tree_unflatten(flat, spec))

    def let_go_of_gathered(self) -> None:
        self.memory.give(self.gathered)
        self.gathered = None

    def let_go_of_reduced(self) -> None:
        self.memory.give(self.reduced)
        self.reduced = None


def is_single(torch: Torch, parameters: Any) -> bool:
    """Whether all are in float32, of which a lower precision can be made."""
    return all(each.sharded_param.dtype == torch.float32 for each in parameters)


def function_of(torch: Torch) -> Any:
    """Passes tensors on, and tells when their gradients have come."""

    class Passed(torch.autograd.Function):  # type: ignore[name-defined,misc]
        @staticmethod
        def forward(ctx: Any, tell: Any, *tensors: Any) -> Any:
            ctx.tell = tell
            return tensors

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            ctx.tell()
            return (None, *gradients)

    return Passed
