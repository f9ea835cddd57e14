"""A head and its loss fused: where a model's last layer is a Linear (or `F.linear` by its embedding's weight) of the
shape that was chosen, its logits are not computed when it is called, but over some rows at a time by the cross-entropy
that they go to. Other uses of them compute them as they were (unmade.py), and that is said once.

The shape stands in what the user chose (`head=50257x768`), since a layer before the last may be as large: a rehearsal
has seen which one's outputs go to a cross-entropy and nowhere else.
"""

from __future__ import annotations

import sys
import weakref

from ..common import blocks, calls, errors, members
from . import chunked, compilation, derived, head_loss, unmade

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Args, Kwargs, Module, Torch
    from .outcomes import Outcomes

NAME = "head"
# What is relied on of tensors without memory: that asking for it is an error.
SINCE = (2, 1)
# Set on a module that is such a head.
MARK = "_oomph_head"
# Who divides or copies a model's parameters, or calls it in a way of its own.
OTHERS = ("DataParallel", "DeepSpeedEngine", "FSDPModule", "FullyShardedDataParallel", "PipelineModule")
# After so many calls whose logits were all computed after all it is off.
VAIN = 3


class FusedHead:
    """The patch of this process."""

    wants_roots = True

    def __init__(self, outcomes: Outcomes, value: str) -> None:
        classes, _, width = value.partition("x")
        self.shape = (int(classes), int(width))
        self.outcomes = outcomes
        self.nothing_found = "no layer of %d × %d was called" % self.shape
        self.largest = 0
        self.words = self.otherwise = ""

    def install(self) -> None:
        outcomes = self.outcomes
        if outcomes.version < SINCE:
            self.wants_roots = False
            return outcomes.decline(NAME, "needs torch 2.1 or later")
        torch: Any = outcomes.torch
        functional: Any = sys.modules["torch.nn.functional"]
        self.heads = heads = Heads(torch, functional.cross_entropy, self.shape)
        heads.on_cpu, heads.told, heads.left, heads.note = outcomes.on_cpu, self.note, self.leave, None
        functional.cross_entropy = heads.function()
        self.is_compiling = heads.is_compiling
        self.is_wrapped = False

        def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
            heads.keep_weights()

        # torch.compile must not look into it where a program compiles its optimizer's step.
        setattr(before_step, "_torchdynamo_disable", True)
        sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook(before_step)

    def take_root(self, root: Module, device: str) -> None:
        why = why_not(root)
        if why is not None:
            return self.outcomes.decline(NAME, why)
        alike = [module for module in members.modules(root) if shape_of(module) == self.shape]
        layers = [module for module in alike if type(module) is self.heads.torch.nn.Linear]
        if layers and not self.is_wrapped:
            self.is_wrapped = True
            calls.wrap_marked(self.heads.torch.nn.Linear, MARK, self.is_compiling, self.heads.of_module)
        for module in layers:
            setattr(module, MARK, 1)
        tables = [module for module in alike if blocks.is_kind(module, ("Embedding",))]
        if tables and not layers:
            self.replace_function(tables)
        if not layers and not tables and NAME not in self.outcomes.said:
            self.outcomes.decline(NAME, "%s has no layer of %d × %d" % (type(root).__name__, *self.shape))

    def replace_function(self, tables: list[Module]) -> None:
        """For a head that is its embedding's weight, given to torch's function."""
        functional: Any = sys.modules["torch.nn.functional"]
        if not self.heads.tables:
            functional.linear = self.heads.of_function(functional.linear, self.is_compiling)
        self.heads.tables += [weakref.ref(each) for each in tables]

    def leave(self, why: str) -> None:
        """Heads compute their logits themselves from now on."""
        if not self.words:
            self.outcomes.decline(NAME, why)

    def note(self, words: str, saved: int, otherwise: str) -> None:
        """A loss was fused, or logits were computed after all: told for the first ones and where they become larger."""
        if otherwise and not self.otherwise:
            self.otherwise = "the logits are used otherwise (%s), and computed as a whole there" % otherwise
        elif saved > self.largest:
            self.largest, self.words = saved, words
        elif otherwise or not words or self.words:
            return
        else:
            self.words = words
        if self.words:
            self.outcomes.apply(NAME, "; ".join(filter(None, (self.words, self.otherwise))))
        elif otherwise:
            self.outcomes.decline(NAME, self.otherwise)


class Heads(chunked.Chunks):
    """The cross-entropy of a head of this shape; of other logits it is in chunks, as without a head."""

    def __init__(self, torch: Torch, original: Callable[..., Any], shape: tuple[int, int | None]) -> None:
        super().__init__(torch, original)
        self.shape = shape
        self.unmade, self.head = unmade.kinds(torch)
        self.whole = head_loss.made(torch, original)
        self.told: Callable[[str, int, str], None] | None = None
        self.left: Callable[[str], None] | None = None
        # Embeddings whose weight may be the head's as well.
        self.tables: list[weakref.ref[Any]] = []
        self.weights: tuple[Any, ...] = (self.torch.Tensor, self.torch.nn.Parameter)
        self.calls: list[weakref.ref[Any]] = []
        # With gradients and without: how many calls there were, and how many of them went to a loss.
        self.asked_for, self.fused = [0, 0], [0, 0]
        self.chunk_of_head = head_loss.CHUNK
        self.disabled = self.torch._C.DisableTorchFunctionSubclass

    def of_module(self, original: Callable[..., Any], module: Module, args: Args, kwargs: Kwargs) -> Any:
        """In the place of a marked module's call."""
        made = None
        if len(args) == 1 and not kwargs and type(module) is self.torch.nn.Linear and not is_hooked(self.torch, module):
            made = self.logits(args[0], module.weight, module.bias)
        return original(module, *args, **kwargs) if made is None else made

    def of_function(self, original: Callable[..., Any], is_compiling: Callable[[], bool]) -> Callable[..., Any]:
        """In the place of `F.linear`."""

        def linear(input: Any, weight: Any, bias: Any = None) -> Any:
            if is_compiling() or not self.is_a_tables(weight):
                return original(input, weight, bias)
            made = self.logits(input, weight, bias)
            return original(input, weight, bias) if made is None else made

        linear.__doc__ = original.__doc__
        setattr(linear, "__wrapped__", original)
        return linear

    def is_a_tables(self, weight: Any) -> bool:
        return any(getattr(each(), "weight", None) is weight for each in self.tables)

    def logits(self, hidden: Any, weight: Any, bias: Any) -> Any:
        """Those that are not computed yet; None where the layer computes them as it does."""
        try:
            call = self.call(hidden, weight, bias)
        except Exception:
            errors.foreseen("look at a head")
            return None
        if call is None:
            return None
        made = self.head.apply(hidden, weight, bias, call)
        call.node = made.grad_fn
        self.calls = [each for each in self.calls if each() is not None] + [weakref.ref(call)]
        return made

    def call(self, hidden: Any, weight: Any, bias: Any) -> Any:
        torch = self.torch
        if type(hidden) not in self.kinds or type(weight) not in self.weights or hidden.dim() < 2:
            return None
        if tuple(weight.shape) != (self.shape[0], hidden.shape[-1]) or self.shape[1] not in (None, hidden.shape[-1]):
            return None
        if (hidden.device.type != "cuda" and not self.on_cpu) or weight.device != hidden.device:
            return None
        dtypes = (torch.float32, torch.float16, torch.bfloat16)
        enabled, dtype, _ = chunked.autocast_of(torch, hidden.device.type)
        if hidden.dtype not in dtypes or weight.dtype not in dtypes:
            return None
        if not enabled:
            if not hidden.dtype == weight.dtype == (weight if bias is None else bias).dtype:
                return None
            dtype = hidden.dtype
        rows = hidden.numel() // max(hidden.shape[-1], 1)
        if rows * weight.shape[0] * dtype.itemsize < self.smallest or torch.is_inference_mode_enabled():
            return None
        if chunked.is_transformed(torch):
            return None
        if compilation.has_compiled():
            # Logits may be given to what is compiled.
            if self.left is not None:
                self.left("the program compiles parts of itself")
            return None
        mode = int(torch.is_grad_enabled())
        if self.asked_for[mode] >= VAIN and not self.fused[mode]:
            return None
        self.asked_for[mode] += 1
        made = unmade.Call(torch, hidden, weight, bias, dtype)
        made.told = self.computed
        return made

    def computed(self, operator: str) -> None:
        if self.told is not None:
            self.told("", 0, operator)

    def function(self) -> Callable[..., Any]:
        of_others, is_compiling, kind = super().function(), self.is_compiling, self.unmade
        disabled, original = self.disabled, self.original

        def cross_entropy(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if type(input) is not kind or is_compiling():
                return of_others(input, target, *args, **kwargs)
            loss = self.of_head(input, target, args, kwargs)
            if loss is not None:
                return loss
            asked = self.of_computed(input, target, args, kwargs)
            with disabled():
                if asked is not None:
                    return self.loss(input, target, asked)
                return original(input, target, *args, **kwargs)

        cross_entropy.__doc__ = original.__doc__
        setattr(cross_entropy, "__wrapped__", original)
        return cross_entropy

    def of_computed(self, input: Any, target: Any, args: Any, kwargs: Any) -> Any:
        """Whether the loss of logits that are there is computed in chunks."""
        try:
            input._call.tell("a cross-entropy that is not taken")
            real = input.detach()
            real = real.made() if type(real) is self.unmade else real
            input.made()
            return self.asked(real, target, args, kwargs)
        except Exception:
            errors.foreseen("look at a cross-entropy")
            return None

    def of_head(self, input: Any, target: Any, args: Any, kwargs: Any) -> Any:
        """The loss, with the head; None where the logits have to be computed for it."""
        try:
            trains = input.requires_grad and self.torch.is_grad_enabled()
            asked = self.fits(input, target, args, kwargs)
            if asked is None:
                return None
        except Exception:
            errors.foreseen("look at a head's cross-entropy")
            return None
        torch, call = self.torch, input._call
        kind = call.hidden.device.type
        with torch.set_grad_enabled(trains), self.disabled():
            rows = derived.rows_of(input)
            rows = rows.reshape(-1, rows.shape[-1])
            autocast = chunked.autocast_of(torch, kind)
            how = head_loss.How(call.dtype, input._changes, autocast, self.rows_at_once(rows, call))
            loss = self.whole.apply(rows, call.weight, call.bias, target.reshape(-1), asked, how)
            self.fused[int(torch.is_grad_enabled())] += 1
            self.tell_of(rows, call, how, trains)
            return loss.view(target.shape) if asked["reduction"] == "none" else loss

    def fits(self, input: Any, target: Any, args: Any, kwargs: Any) -> Any:
        """What is asked of the loss; None where it is not taken."""
        asked, call = self.named(args, kwargs), input._call
        if asked is None or type(target) not in self.kinds or target.is_floating_point() or input.dim() < 2:
            return None
        shape = tuple(input.shape)
        if input._at != 1 or shape[:1] + shape[2:] != tuple(target.shape) or target.device != call.hidden.device:
            return None
        if call.is_made or not call.is_as_it_was() or chunked.is_transformed(self.torch):
            return None
        if input.requires_grad and self.torch.is_grad_enabled():
            with self.disabled():
                return asked if unmade.leads_straight(input) else None
        return asked

    def rows_at_once(self, rows: Any, call: Any) -> int:
        """Of a chunk."""
        most = self.chunk_of_head // max(call.classes * 4, 1)
        return max(min(most, -(-len(rows) // chunked.LEAST_CHUNKS)), 1)

    def tell_of(self, rows: Any, call: Any, how: Any, trains: bool) -> None:
        if self.told is None:
            return
        try:
            # A log-softmax and its gradient, without gradients the logits beside one; there is a chunk of all, and the
            # sum in 32 bits.
            each = call.dtype.itemsize
            of_one = 8 if trains else each + 4
            weight = call.weight
            wider = weight.numel() * (4 - weight.element_size()) if trains and weight.requires_grad else 0
            saved = (len(rows) * of_one - how.rows * (each + 12)) * call.classes - wider
            words = "head and cross-entropy of %d × %d in chunks of rows: at least %d MiB less"
            self.told(words % (len(rows), call.classes, max(saved, 0) >> 20), max(saved, 0), "")
        except BaseException:
            errors.refused("note a head's cross-entropy")

    def keep_weights(self) -> None:
        """Before an optimizer's step."""
        try:
            for each in self.calls:
                call = each()
                if call is not None and call.weight.requires_grad:
                    call.keep()
            self.calls = [each for each in self.calls if each() is not None]
        except BaseException:
            errors.refused("keep a head's weight")


def shape_of(module: Module) -> tuple[int, ...] | None:
    """Of its own weight."""
    weight = dict(members.held(module, "_parameters")).get("weight")
    return None if weight is None else tuple(weight.shape)


def is_hooked(torch: Any, module: Module) -> bool:
    """Whether somebody looks at a head's call, or has put another forward in its place."""
    everywhere = torch.nn.modules.module
    names = ("forward_hooks", "backward_hooks", "forward_pre_hooks", "backward_pre_hooks")
    if any(getattr(everywhere, "_global_" + name, None) for name in names):
        return True
    return blocks.has_hooks(module) or "forward" in vars(module) or bool(vars(module).get("_compiled_call_impl"))


def why_not(root: Module) -> str | None:
    for module in members.modules(root):
        kind = blocks.is_kind(module, OTHERS)
        if kind:
            return "%s handles parameters in its own way" % kind
        if blocks.is_kind(module, ("OptimizedModule",)) or vars(module).get("_compiled_call_impl"):
            return "the model is compiled"
    return None
