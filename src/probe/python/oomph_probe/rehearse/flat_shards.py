"""Models that torch's FullyShardedDataParallel wraps: each wrapper's parameters lie in one flat parameter, of which a
rank has a piece. A rehearsal's copy has the flat parameter whole, the modules inside use views of it, and what gathers
and reduces it enters the trace (torch/distributed/fsdp: `_runtime_utils.py`, `_flat_param.py`). No method of the
original's is called, and nothing is sent.
"""

from __future__ import annotations

from .shards import BACKWARD, FORWARD, GATHERS, IDLE, REDUCED, REDUCES, Unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Module, Tensor, Torch
    from .shards import Memory

WRAPPER = "FullyShardedDataParallel"
# Strategies under which parameters are divided again behind forward.
RESHARDING = ("FULL_SHARD", "HYBRID_SHARD")


def is_wrapper(module: Module) -> bool:
    kind = type(module)
    return kind.__name__ == WRAPPER and kind.__module__.startswith("torch.distributed")


class Unit:
    """A wrapper's flat parameter."""

    def __init__(self, state: Any, gathered_in: Any = None) -> None:
        handle = state._handle
        flat = handle.flat_param
        self.ranks = int(handle.world_size)
        self.is_divided = bool(handle.uses_sharded_strategy)
        self.is_root = bool(state._is_root)
        self.reshards = handle._sharding_strategy.name in RESHARDING and not self.is_root
        self.reduces = bool(state._sync_gradients)
        self.is_on_host = bool(handle._offload_params)
        self.own_dtype = handle._orig_param_dtype
        self.is_cast = bool(handle._uses_param_mixed_precision)
        self.dtype = handle._fwd_bwd_param_dtype if self.is_cast else self.own_dtype
        self.reduce_dtype = handle._reduce_dtype or self.dtype
        self.casts_inputs = self.is_cast and bool(state.mixed_precision.cast_forward_inputs)
        if gathered_in is not None and not self.is_cast and "float32" in str(self.own_dtype):
            # As MixedPrecision(param_dtype=…, reduce_dtype=torch.float32) has it.
            self.is_cast = self.casts_inputs = True
            self.dtype, self.reduce_dtype = gathered_in, handle._reduce_dtype or self.own_dtype
        self.prefetches = getattr(state.backward_prefetch, "name", "")
        self.requires_grad = flat.requires_grad
        # Elements: of all, and of this rank with those that fill it up.
        self.elements = flat._unpadded_unsharded_size.numel()
        self.piece = flat._local_shard.numel()
        aligned = getattr(handle, "_align_addresses", False)
        self.splits = list(flat._numels_with_padding if aligned else flat._numels)
        self.fills = list(flat._is_padding_mask) if aligned else [False] * len(self.splits)
        self.shapes, self.strides = list(flat._shapes), [tuple(each) for each in flat._strides]
        self.is_contiguous = list(flat._contiguities)
        self.places = [(info[0], info[1]) for info in flat._param_infos]
        self.shared = [(info[0], info[1], info[3], info[4]) for info in flat._shared_param_infos]
        itemsize = self.own_dtype.itemsize
        own = [each.numel_in_shard for each in flat._shard_param_infos if each.in_shard]
        self.kept = self.piece * itemsize
        self.trained = [each * itemsize for each in (own if handle._use_orig_params else [self.piece])]
        self.copy: Any = None
        self.begin()

    def begin(self) -> None:
        self.at = IDLE
        self.whole: tuple[int, int] | None = None
        # Its part of the gradient, before it is added.
        self.own: tuple[int, int] | None = None
        self.has_gradient = False
        # Where it comes in forward, once for each call.
        self.calls: list[int] = []

    def tensors(self, flat: Any) -> list[Any]:
        """The originals that lie in it, whole or in pieces."""
        found = [flat, *(getattr(flat, "_params", None) or ()), *(getattr(flat, "_tensors", None) or ())]
        for name, module in [*self.places, *((name, module) for name, module, _, _ in self.shared)]:
            found += [module.__dict__.get(name), module._parameters.get(name)]
        return [each for each in found if each is not None]


class FlatShards:
    """Those of the models of one rehearsal."""

    def __init__(self, torch: Torch, memory: Memory, gathered_in: Any = None) -> None:
        self.torch = torch
        self.memory = memory
        self.gathered_in = gathered_in
        self.units: list[Unit] = []
        # Kept, since an id is only good while its object lives.
        self.hidden: dict[int, Any] = {}
        self.kind: Any = None
        self.begin()

    def begin(self) -> None:
        self.order: list[Unit] = []
        self.is_ending = False
        for unit in self.units:
            unit.begin()

    def add(self, module: Any) -> Unit | None:
        """Notes a wrapper's parameters before its modules are copied."""
        if module._handle is None:
            return None
        if getattr(module, "_is_root", None) is None:
            raise Unknown
        unit = Unit(module, self.gathered_in)
        for each in unit.tensors(module._handle.flat_param):
            self.hidden[id(each)] = each
        self.units.append(unit)
        return unit

    def hides(self, tensor: Tensor) -> bool:
        return id(tensor) in self.hidden

    def standing_in(self) -> Any:
        """A module in a wrapper's place."""
        if self.kind is None:
            self.kind = kind_of(self.torch)
        return self.kind()

    def attach(self, copy: Any, inner: Module, unit: Unit | None, copied: Callable[[Module], Any]) -> None:
        copy.inner = inner
        if unit is None:
            return
        places = [(name, copied(module)) for name, module in unit.places]
        shared = [(name, copied(module), other, copied(of)) for name, module, other, of in unit.shared]
        for name, module in [*places, *((name, module) for name, module, _, _ in shared)]:
            module.__dict__.pop(name, None)
            module._parameters[name] = None
        if unit.requires_grad:
            unit.copy.register_post_accumulate_grad_hook(lambda _: self.reduce(unit))

        does = self.memory.does

        def flow(*args: Any, **kwargs: Any) -> Any:
            if unit.at == BACKWARD:
                # Computed again there.
                self.view(unit, places, shared)
                return inner(*args, **kwargs)
            if not self.memory.is_quiet:
                does(self.enter, unit)
            self.view(unit, places, shared)
            if unit.casts_inputs:
                args, kwargs = self.memory.cast(unit.dtype, args), self.memory.cast(unit.dtype, kwargs)
            if self.memory.is_quiet:
                return inner(*args, **kwargs)
            output = inner(*args, **kwargs)
            does(self.leave, unit)
            if self.torch.is_grad_enabled():
                for each in self.memory.tensors(output):
                    if each.requires_grad:
                        each.register_hook(lambda gradient: self.come_back(unit, gradient))
            return output

        copy.flow = flow

    def view(self, unit: Unit, places: Any, shared: Any) -> None:
        """The modules' parameters are parts of the flat one."""
        parts = unit.copy.split(unit.splits)
        kept = [part for part, fills in zip(parts, unit.fills) if not fills]
        for at, (name, module) in enumerate(places):
            part, shape = kept[at], unit.shapes[at]
            plain = unit.is_contiguous[at]
            module._parameters[name] = part.view(shape) if plain else part.as_strided(shape, unit.strides[at])
        for name, module, other, of in shared:
            module._parameters[name] = of._parameters[other]

    def enter(self, unit: Unit) -> None:
        unit.at = FORWARD
        self.gather(unit)

    def leave(self, unit: Unit) -> None:
        if unit.reshards:
            self.divide(unit)
        unit.calls.append(len(self.order))
        self.order.append(unit)
        unit.at = IDLE

    def gather(self, unit: Unit) -> None:
        if unit.whole is not None or not unit.is_divided:
            return
        size = unit.piece * unit.dtype.itemsize
        # What is cast, or lies on the host, is put together first.
        first = self.memory.take(size if unit.is_cast or unit.is_on_host else 0, GATHERS)
        unit.whole = self.memory.take(size * unit.ranks, GATHERS)
        self.memory.give(first)

    def divide(self, unit: Unit) -> None:
        self.memory.give(unit.whole)
        unit.whole = None

    def come_back(self, unit: Unit, gradient: Any) -> Any:
        """Backward has come to what a unit returned."""
        if not self.is_ending:
            self.is_ending = True
            self.torch.autograd.Variable._execution_engine.queue_callback(self.end)
        self.memory.does(self.back, unit)
        return gradient

    def back(self, unit: Unit) -> None:
        if unit.at != BACKWARD:
            unit.at = BACKWARD
            self.gather(unit)
            if unit.prefetches == "BACKWARD_PRE":
                self.fetch(unit)

    def fetch(self, unit: Unit) -> None:
        """The unit that backward comes to next is gathered already."""
        place = unit.calls.pop() if unit.calls else 0
        if place > 0:
            self.gather(self.order[place - 1])

    def reduce(self, unit: Unit) -> None:
        """The flat gradient is there."""
        does = self.memory.does
        if not unit.reduces or not unit.is_divided:
            does(self.passed, unit, None)
            return
        gradient = unit.copy.grad
        unit.copy.grad = None
        does(self.passed, unit, gradient.dtype)
        del gradient
        does(self.accumulate, unit)

    def passed(self, unit: Unit, dtype: Any) -> None:
        unit.at = REDUCED
        self.divide(unit)
        if unit.prefetches == "BACKWARD_POST":
            self.fetch(unit)
        if dtype is None:
            return
        take, give, reduced = self.memory.take, self.memory.give, unit.reduce_dtype.itemsize
        cast = take(unit.elements * reduced if dtype != unit.reduce_dtype else 0, REDUCES)
        whole = unit.piece * unit.ranks
        filled = take(whole * reduced if whole > unit.elements else 0, REDUCES)
        unit.own = take(unit.piece * reduced, REDUCES)
        if unit.reduce_dtype != unit.own_dtype:
            first, unit.own = unit.own, take(unit.piece * unit.own_dtype.itemsize, REDUCES)
            give(first)
        give(filled)
        give(cast)

    def accumulate(self, unit: Unit) -> None:
        if unit.has_gradient or unit.is_on_host:
            # Added to what is there, or copied to the host.
            self.memory.give(unit.own)
        unit.has_gradient, unit.own = True, None

    def end(self) -> None:
        """Backward has ended."""
        self.memory.does(self.finish)
        self.is_ending = False

    def finish(self) -> None:
        for unit in self.units:
            self.divide(unit)
            unit.at = IDLE
            unit.calls.clear()
        self.order.clear()


def kind_of(torch: Torch) -> Any:
    class Wrapped(torch.nn.Module):  # type: ignore[name-defined,misc]
        """Has what the module inside has, as the wrapper does."""

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            flow = self.__dict__.get("flow")
            return self.inner(*args, **kwargs) if flow is None else flow(*args, **kwargs)

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

    return Wrapped
