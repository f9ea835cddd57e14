"""Cross-entropy of a large vocabulary over some rows at a time: what torch makes as large as all logits (their
log-softmax, which is kept for backward, and its gradient) is only made of a few rows, by the same operators.

Each row's loss and gradient are what they were, to rounding: a mean or a sum adds the rows up in another order.
Backward computes the rows' log-softmax again; an evaluation has the rows' alone as well. Taken for two-dimensional
logits with classes as targets; weights, an ignored index, label smoothing and the three reductions are torch's own in
each chunk. Anything else goes on to torch as it is: probabilities as targets, subclasses of tensors, transforms of
torch.func, what is being compiled. Where a graph of the gradient is asked for, backward makes all of it at once.

TRL's trainers (GRPO, DPO, …) compute no cross-entropy: their `selective_log_softmax` picks the log-probability of one
class in each row, which is that row's cross-entropy but for its sign. So it is computed in the same way; at 32 bits,
that is, which Accelerate's mixed precision gives: backward makes four tensors as large as the logits there. At 16 bits
TRL goes sequence by sequence itself, and chunks would save nothing.
"""

from __future__ import annotations

import sys

from ..common import calls, errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Torch
    from .outcomes import Outcomes

NAME = "cross_entropy"
# What has to be imported (hook.py waits for it), and TRL's function in it.
LIBRARY, SELECTED = "trl.trainer.utils", "selective_log_softmax"
# A class that there is not: each row counts.
NO_CLASS = -(1 << 40)
# Logits that take less are left alone.
SMALLEST = 64 << 20
# What a chunk's logits take at the most, and how many chunks there are at the least.
CHUNK, LEAST_CHUNKS = 64 << 20, 16
# So many tensors as large as its logits a chunk makes.
MADE = 3
REDUCTIONS = ("mean", "sum", "none")
# How torch's own names its arguments, in this order (2.0 to 2.15).
SIGNATURE = (
    ("weight", None), ("size_average", None), ("ignore_index", -100), ("reduce", None), ("reduction", "mean"),
    ("label_smoothing", 0.0),
)


class ChunkedCrossEntropy:
    """The patch of this process."""

    nothing_found = "no cross-entropy over large two-dimensional logits was computed"

    def __init__(self, outcomes: Outcomes, value: str) -> None:
        if value != "chunked":
            raise ValueError("a cross-entropy can only be chunked")
        self.outcomes = outcomes
        self.largest = 0

    def install(self) -> None:
        functional: Any = sys.modules["torch.nn.functional"]
        self.chunks = chunks = Chunks(self.outcomes.torch, functional.cross_entropy)
        chunks.on_cpu, chunks.note = self.outcomes.on_cpu, self.note
        functional.cross_entropy = chunks.function()
        if LIBRARY in sys.modules:
            self.imported(sys.modules[LIBRARY])

    def imported(self, module: Any) -> None:
        """TRL's file was imported; others may have its function from there already."""
        for holder, original in holders(module):
            setattr(holder, SELECTED, self.chunks.selected(original))

    def note(self, rows: int, classes: int, saved: int) -> None:
        """Logits were taken; told for the first ones and where they have become larger."""
        if saved > self.largest:
            self.largest = saved
            words = "cross-entropy of %d × %d in chunks of rows: at least %d MiB less" % (rows, classes, saved >> 20)
            self.outcomes.apply(NAME, words)


class Chunks:
    """In the place of torch's function, for those that ask for it."""

    def __init__(self, torch: Torch, original: Callable[..., Any]) -> None:
        self.torch: Any = torch
        self.original = original
        self.on_cpu = False
        self.smallest, self.chunk = SMALLEST, CHUNK
        self.kinds: tuple[Any, ...] = (torch.Tensor,)
        self.note: Callable[[int, int, int], None] | None = None
        self.is_compiling = calls.is_compiling_of(torch)
        self.node = self.made()

    def function(self) -> Callable[..., Any]:
        original, is_compiling = self.original, self.is_compiling

        def cross_entropy(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            # A compiled loss is fused by the compiler.
            if is_compiling():
                return original(input, target, *args, **kwargs)
            asked = self.asked(input, target, args, kwargs)
            return original(input, target, *args, **kwargs) if asked is None else self.loss(input, target, asked)

        cross_entropy.__doc__ = original.__doc__
        setattr(cross_entropy, "__wrapped__", original)
        return cross_entropy

    def selected(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """In the place of TRL's function."""
        is_compiling = self.is_compiling

        def selective_log_softmax(logits: Any, index: Any, *args: Any, **kwargs: Any) -> Any:
            is_known = not args and not kwargs and not is_compiling() and self.is_of_each_row(logits, index)
            chosen = self.of_rows(logits, index) if is_known else None
            return original(logits, index, *args, **kwargs) if chosen is None else chosen

        selective_log_softmax.__doc__ = original.__doc__
        setattr(selective_log_softmax, "__wrapped__", original)
        return selective_log_softmax

    def is_of_each_row(self, logits: Any, index: Any) -> bool:
        """Whether one class is asked for in each row, as long as the rows are worth it."""
        try:
            is_plain = type(logits) in self.kinds and type(index) in self.kinds
            if not is_plain or logits.dim() < 2 or index.shape != logits.shape[:-1]:
                return False
            if logits.dtype not in (self.torch.float32, self.torch.float64):
                return False
            return bool(logits.numel() * logits.element_size() >= self.smallest)
        except Exception:
            errors.foreseen("look at log-probabilities")
            return False

    def of_rows(self, logits: Any, index: Any) -> Any:
        """The log-probability of each row's class; None where that is left to the original."""
        if logits.dim() > 2 and not logits.is_contiguous():
            # As one matrix they would be copied.
            if logits.shape[0] == 0 or not self.is_of_each_row(logits[0], index[0]):
                return None
            parts = [self.of_rows(*pair) for pair in zip(logits.unbind(0), index.unbind(0))]
            return None if any(part is None for part in parts) else self.torch.stack(parts)
        rows, classes = logits.reshape(-1, logits.shape[-1]), index.reshape(-1)
        asked = self.asked(rows, classes, (), {"reduction": "none", "ignore_index": NO_CLASS})
        return None if asked is None else self.loss(rows, classes, asked).neg().view(index.shape)

    def asked(self, logits: Any, target: Any, args: Any, kwargs: Any) -> dict[str, Any] | None:
        """The arguments by their names; None where torch's own is left to it."""
        try:
            asked, torch = self.named(args, kwargs), self.torch
            if asked is None:
                return None
            is_plain = type(logits) in self.kinds and type(target) in self.kinds and not logits.is_sparse
            if not is_plain or logits.dim() != 2 or target.dim() != 1 or len(target) != len(logits):
                return None
            if logits.device.type != "cuda" and not self.on_cpu:
                return None
            if logits.numel() * logits.element_size() < self.smallest or not logits.is_floating_point():
                return None
            return None if target.is_floating_point() or is_transformed(torch) else asked
        except Exception:
            errors.foreseen("look at a cross-entropy")
            return None

    def named(self, args: Any, kwargs: Any) -> dict[str, Any] | None:
        """What is asked beside logits and targets, by its names; None where it is not taken."""
        names = [name for name, _ in SIGNATURE]
        if len(args) > len(names) or any(name not in names for name in kwargs):
            return None
        asked = {**dict(SIGNATURE), **dict(zip(names, args)), **kwargs}
        weight = asked["weight"]
        if weight is not None and (type(weight) not in self.kinds or weight.requires_grad):
            return None
        if asked["size_average"] is not None or asked["reduce"] is not None or asked["reduction"] not in REDUCTIONS:
            return None
        return {name: asked[name] for name in ("weight", "ignore_index", "reduction", "label_smoothing")}

    def loss(self, logits: Any, target: Any, asked: dict[str, Any]) -> Any:
        if self.note is not None:
            try:
                # Of the log-softmax, its gradient and that of the logits two are not made but for a chunk, and the
                # logits are kept instead of one of them. Without gradients the log-softmax is not.
                taken = logits.numel() * logits.element_size()
                of_chunk = taken * self.rows_of(logits) // len(logits)
                self.note(len(logits), logits.shape[1], max(taken - MADE * of_chunk, 0))
            except BaseException:
                errors.refused("note a cross-entropy")
        return self.node.apply(logits, target, asked, autocast_of(self.torch, logits.device.type))

    def rows_of(self, logits: Any) -> int:
        """Of a chunk."""
        most = self.chunk // max(logits.shape[1] * logits.element_size(), 1)
        return max(min(most, -(-len(logits) // LEAST_CHUNKS)), 1)

    def made(self) -> Any:
        torch, original, rows_of = self.torch, self.original, self.rows_of

        def forward(ctx: Any, logits: Any, target: Any, asked: dict[str, Any], autocast: Any) -> Any:
            ctx.asked, ctx.autocast = asked, autocast
            ctx.save_for_backward(logits, target)
            step, each = rows_of(logits), {**asked, "reduction": "none"}
            starts = range(0, len(logits), step)
            losses = torch.cat([original(logits[at : at + step], target[at : at + step], **each) for at in starts])
            if asked["reduction"] == "none":
                return losses
            # As in torch's kernels at no less than 32 bits.
            total = losses.sum(dtype=torch.promote_types(losses.dtype, torch.float32))
            if asked["reduction"] == "mean":
                ctx.weights = counted(torch, target, asked, total)
                total = total / ctx.weights
            return total.to(losses.dtype)

        def backward(ctx: Any, given: Any) -> Any:
            logits, target = ctx.saved_tensors
            asked = ctx.asked
            enabled, dtype, cache = ctx.autocast
            kind = logits.device.type
            if torch.is_grad_enabled():
                # A graph of the gradient is asked for.
                with torch.autocast(kind, enabled=enabled, dtype=dtype, cache_enabled=cache):
                    whole = original(logits, target, **asked)
                return torch.autograd.grad(whole, logits, given, create_graph=True)[0], None, None, None
            each, step = {**asked, "reduction": "none"}, rows_of(logits)
            if asked["reduction"] == "mean":
                given = given / ctx.weights.to(given.dtype)
            gradient = torch.empty_like(logits)
            for at in range(0, len(logits), step):
                with torch.enable_grad(), torch.autocast(kind, enabled=enabled, dtype=dtype, cache_enabled=False):
                    rows = logits[at : at + step].detach().requires_grad_()
                    losses = original(rows, target[at : at + step], **each)
                by = given[at : at + step] if asked["reduction"] == "none" else given.expand(losses.shape)
                gradient[at : at + step] = torch.autograd.grad(losses, rows, by)[0]
            return gradient, None, None, None

        function = torch.autograd.Function
        members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        return type("ChunkedCrossEntropyBackward", (function,), members)


def holders(module: Any) -> list[tuple[Any, Any]]:
    """The modules that have TRL's function by its name, each with what is there. Since it takes a temperature and a
    mask of rows it has a fused kernel as well, which needs no chunks."""
    original = getattr(module, SELECTED, None)
    if getattr(getattr(original, "__code__", None), "co_argcount", 0) != 2:
        return []
    modules = list(sys.modules.values())
    return [(each, original) for each in modules if getattr(each, "__dict__", {}).get(SELECTED) is original]


def counted(torch: Any, target: Any, asked: dict[str, Any], like: Any) -> Any:
    """What a mean is divided by: the rows that are not ignored, or their weights."""
    counts = target != asked["ignore_index"]
    if asked["weight"] is None:
        return counts.sum().to(like.dtype)
    weights = asked["weight"].gather(0, target.masked_fill(~counts, 0))
    return weights.masked_fill(~counts, 0).sum(dtype=like.dtype)


def autocast_of(torch: Any, kind: str) -> tuple[bool, Any, bool]:
    if hasattr(torch, "get_autocast_dtype"):
        return torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind), torch.is_autocast_cache_enabled()
    if kind == "cuda":
        return torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype(), torch.is_autocast_cache_enabled()
    return torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype(), torch.is_autocast_cache_enabled()


def is_transformed(torch: Any) -> bool:
    """Whether a transform of torch.func or a trace is at work."""
    peek = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)
    return (peek is not None and peek() is not None) or calls.is_tracing(torch)
