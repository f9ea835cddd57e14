"""Logits that are not computed yet: a tensor without memory that knows the hidden states, the weight and the bias that
they are the product of. Views, slices and copies in another precision stay so (derived.py); a cross-entropy computes
them over some rows at a time (head_loss.py). Anything else that is asked of them computes them as they would have been,
and goes on from there.

Both are right for autograd. The tensor is returned by a `torch.autograd.Function` whose backward is that of the head,
and torch's own nodes follow for what is made of it: who takes the computed logits gets its gradients by those. A
cross-entropy takes a way past them, straight to the hidden states, and only where nothing lies between that would be
missed: no hook, no node of somebody's own.

A program may ask for logits once its optimizer has changed the weight (an accuracy after the step): before a step the
weight of those that it still holds is kept as it is.
"""

from __future__ import annotations

import weakref

from . import derived

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Torch

# The nodes of autograd between the head and a cross-entropy that only pass gradients on, without their numbers.
PASSED = frozenset(
    (
        "AliasBackward CloneBackward DivBackward IndexBackward MulBackward PermuteBackward ReshapeAliasBackward"
        " SelectBackward SliceBackward SplitBackward SplitWithSizesBackward SqueezeBackward TBackward TanhBackward"
        " ToCopyBackward TransposeBackward UnbindBackward UnsafeViewBackward UnsqueezeBackward ViewBackward"
    ).split()
)
# So many of them at the most.
DEEP = 24
# Methods that look at memory, or write themselves down, past all operators: they are given what was computed.
PAST_OPERATORS = frozenset(
    (
        "data_ptr numpy tolist __repr__ __array__ __deepcopy__ __dlpack__ __reduce_ex__ __cuda_array_interface__"
        " storage untyped_storage pin_memory share_memory_ const_data_ptr"
    ).split()
)
# The classes of such tensors.
KINDS: set[type] = set()
# Those that want to see the gradient of the logits themselves.
WATCHING = frozenset("register_hook retain_grad register_post_accumulate_grad_hook requires_grad_".split())


class Call:
    """One call of a head: what its logits are made of. `dtype` is that in which they are computed."""

    def __init__(self, torch: Torch, hidden: Any, weight: Any, bias: Any, dtype: Any) -> None:
        self.torch: Any = torch
        self.hidden, self.weight, self.bias, self.dtype = hidden, weight, bias, dtype
        self.classes = weight.shape[0]
        self.versions = self.seen()
        # The node of autograd that they come out of; None without gradients.
        self.node: Any = None
        # Whoever may have some of them.
        self.alive: list[weakref.ref[Any]] = []
        # Told of the operator that computes them after all.
        self.told: Callable[[str], None] | None = None
        self.is_made = self.is_watched = False
        self.kept: tuple[Any, Any] | None = None

    def seen(self) -> tuple[int, ...]:
        return tuple(-1 if each is None else each._version for each in (self.hidden, self.weight, self.bias))

    def is_as_it_was(self) -> bool:
        return self.kept is None and self.seen() == self.versions

    def keep(self) -> None:
        """The weight is about to be changed, and somebody may still ask for the logits."""
        if self.kept is None and not self.is_made and any(each() is not None for each in self.alive):
            self.kept = self.weight.detach().clone(), None if self.bias is None else self.bias.detach().clone()

    def logits(self) -> Any:
        """All of them, without a graph."""
        torch = self.torch
        weight, bias = self.kept or (self.weight, self.bias)
        with torch.no_grad(), torch.autocast(self.hidden.device.type, enabled=False):
            bias = None if bias is None else bias.detach().to(self.dtype)
            return torch._C._nn.linear(self.hidden.detach().to(self.dtype), weight.detach().to(self.dtype), bias)

    def tell(self, name: str) -> None:
        if self.told is not None:
            self.told(name)

    def all_made(self) -> None:
        """Something is about to be written into one of them."""
        for each in self.alive:
            found = each()
            if found is not None:
                found.made()


def kinds(torch: Any) -> tuple[Any, Any]:
    """The class of such tensors, and the Function that returns them. Made once torch is there."""
    rules = derived.Rules(torch)
    disabled = torch._C.DisableTorchFunctionSubclass

    class Unmade(torch.Tensor):  # type: ignore[misc]
        # `_at`: the dimension of the classes; `_rows`: what makes rows of the hidden states those of these logits;
        # `_changes`: what is done to the logits of a row; `_by`: what makes them of `_of`.
        __slots__ = ("_call", "_of", "_by", "_at", "_rows", "_changes", "_real")
        _call: Any
        _of: Any
        _by: Any
        _real: Any

        @staticmethod
        def __new__(
            cls, call: Any, like: Any, at: int, rows: Any = (), changes: Any = (), of: Any = None, by: Any = None
        ) -> Any:
            made = torch.Tensor._make_wrapper_subclass(
                cls, like.size(), strides=like.stride(), storage_offset=like.storage_offset(), dtype=like.dtype,
                device=call.hidden.device,
            )
            made._call, made._at, made._rows, made._changes = call, at, rows, changes
            made._of, made._by, made._real = of, by, None
            call.alive.append(weakref.ref(made))
            return made

        def made(self) -> Any:
            """Computed, as an operator of torch's would have returned them."""
            if self._real is None:
                if self._of is None:
                    self._call.is_made = True
                    self._real = self._call.logits()
                else:
                    func, args, kwargs = self._by
                    self._real = func(self._of.made(), *args, **kwargs)
                    # A copy needs no more of what it was made of.
                    self._of = self._by = None
            return self._real

        def is_made(self) -> bool:
            return self._real is not None

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            if name in WATCHING and args and type(args[0]) is cls:
                args[0]._call.is_watched = True
            with disabled():
                if name in PAST_OPERATORS and args and type(args[0]) is cls:
                    made = args[0].detach()
                    made = made.made() if type(made) is cls else made
                    # torch's own refusal of what has gradients stays.
                    made = made.detach().requires_grad_() if args[0].requires_grad and name == "numpy" else made
                    args[0]._call.tell(name)
                    return func(made, *args[1:], **(kwargs or {}))
                return func(*args, **(kwargs or {}))

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            rule = rules.of.get(func)
            if rule is not None and args and type(args[0]) is cls and not args[0].is_made():
                derived = rule(args[0], func, args[1:], kwargs)
                if derived is not None:
                    return derived
            elif rule is None and has_parts(func):
                # In inference mode nothing has taken it apart.
                return func.decompose(*args, **kwargs)
            return computed(cls, func, args, kwargs)

    def forward(ctx: Any, hidden: Any, weight: Any, bias: Any, call: Any) -> Any:
        ctx.save_for_backward(hidden, weight, bias)
        ctx.dtype = call.dtype
        shape = tuple(hidden.shape[:-1]) + (call.classes,)
        return Unmade(call, torch.empty(shape, dtype=call.dtype, device="meta"), len(shape) - 1)

    def backward(ctx: Any, given: Any) -> Any:
        hidden, weight, bias = ctx.saved_tensors
        wants_hidden, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        kind, rows = hidden.device.type, given.reshape(-1, given.shape[-1])
        made: list[Any] = [None, None, None, None]
        with torch.autocast(kind, enabled=False):
            if wants_hidden:
                made[0] = (given @ weight.to(ctx.dtype)).to(hidden.dtype)
            if wants_weight:
                made[1] = (rows.t() @ hidden.reshape(-1, hidden.shape[-1]).to(ctx.dtype)).to(weight.dtype)
            if wants_bias:
                made[2] = rows.sum(0).to(bias.dtype)
        return tuple(made)

    KINDS.add(Unmade)
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return Unmade, type("Head", (torch.autograd.Function,), members)


def has_parts(func: Any) -> bool:
    """Whether torch has other operators that make up this one everywhere."""
    try:
        return bool(func._can_decompose())
    except (AttributeError, RuntimeError):
        return False


def computed(cls: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """An operator on the logits themselves."""
    changes = func._schema.is_mutable
    back: dict[int, Any] = {}

    def put(value: Any) -> Any:
        if type(value) is cls:
            if not value.is_made():
                value._call.tell(str(func.overloadpacket).rpartition(".")[2])
            if changes:
                value._call.all_made()
            real = value.made()
            back[id(real)] = value
            return real
        if isinstance(value, (list, tuple)):
            made = [put(each) for each in value]
            return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
        return value

    args, kwargs = put(args), {name: put(each) for name, each in kwargs.items()}
    result = func(*args, **kwargs)
    # What was written into is returned as what it was.
    return back.get(id(result), result) if changes else result


def held_by(tensor: Any) -> Any:
    """What memory a tensor holds: of logits that are not computed the hidden states."""
    if type(tensor) not in KINDS:
        return tensor
    return tensor.made() if tensor.is_made() else tensor._call.hidden


def leads_straight(given: Any) -> bool:
    """Whether only what passes gradients on lies between the head and these logits, which have gradients."""
    node, call = given.grad_fn, given._call
    if call.node is None or call.is_watched:
        return False
    for _ in range(DEEP):
        if node is call.node:
            return True
        if node is None or node.name().rstrip("0123456789") not in PASSED:
            return False
        others = [each for each, _ in node.next_functions if each is not None]
        if len(others) != 1:
            return False
        node = others[0]
    return False
