"""A step whose cross-entropy is computed over some rows at a time, as the patch of that name does: torch's function is
another one for the rehearsal's thread while it runs.

A step is rehearsed at another batch than the program's: a chunk has as many rows as there have to be to grow with it.

A head is fused with its loss where a cross-entropy of so many classes was seen. It counts only where its logits went
nowhere else: then its shape is what the patch is told.
"""

from __future__ import annotations

import functools
import sys
import weakref
from _thread import get_ident

from ..common import blocks, members
from ..patch import chunked, head_loss, heads
from . import sizes
from .effects import Stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Module, Torch

# Of what a step needs at the most the share from which a log-softmax is worth it.
WORTH = 0.05


class Scaled:
    """Of fake tensors, at a batch of so many times the program's own."""

    def scale(self: Any, device: Any, batch: int, at: int) -> None:
        fake = sys.modules["torch._subclasses.fake_tensor"].FakeTensor
        self.kinds = (*self.kinds, fake)
        self.on_cpu = device.type != "cuda"
        self.smallest = max(chunked.SMALLEST * at // batch, 1)
        self.chunk = chunked.CHUNK * at // batch

    @staticmethod
    def whole_samples(rows: int, of: int) -> int:
        return rows if of % sizes.PRIME else max(rows // sizes.PRIME, 1) * sizes.PRIME


class ScaledChunks(Scaled, chunked.Chunks):
    def rows_of(self, logits: Any) -> int:
        return self.whole_samples(super().rows_of(logits), len(logits))


class ScaledHeads(Scaled, heads.Heads):
    """With the head of so many classes, whatever its width is."""

    def __init__(self, torch: Torch, original: Any, classes: int) -> None:
        super().__init__(torch, original, (classes, None))
        self.otherwise = ""
        # Of the heads that were fused with their losses.
        self.shapes: set[tuple[int, int]] = set()
        self.told = self.tell

    def scale(self, device: Any, batch: int, at: int) -> None:
        super().scale(device, batch, at)
        self.weights = (*self.weights, *self.kinds)
        self.chunk_of_head = head_loss.CHUNK * at // batch

    def rows_of(self, logits: Any) -> int:
        return self.whole_samples(super().rows_of(logits), len(logits))

    def rows_at_once(self, rows: Any, call: Any) -> int:
        self.shapes.add(tuple(call.weight.shape))
        return self.whole_samples(super().rows_at_once(rows, call), len(rows))

    def tell(self, words: str, saved: int, otherwise: str) -> None:
        self.otherwise = self.otherwise or otherwise

    def take(self, model: Module) -> None:
        """A copy of one of the program's models."""
        alike = [each for each in members.modules(model) if (heads.shape_of(each) or (0,))[0] == self.shape[0]]
        layers = [each for each in alike if type(each) is self.torch.nn.Linear]
        for each in layers:
            if not heads.is_hooked(self.torch, each):
                setattr(each, "forward", functools.partial(self.called, each, each.forward))
        if not layers:
            self.tables += [weakref.ref(each) for each in alike if blocks.is_kind(each, ("Embedding",))]

    def called(self, module: Any, forward: Any, hidden: Any) -> Any:
        made = self.logits(hidden, module.weight, module.bias)
        return forward(hidden) if made is None else made


class Chunking:
    """`with Chunking(…):` around a rehearsed step. `classes`: those of a head that is fused with its loss."""

    def __init__(self, torch: Torch, device: Any, batch: int, at: int, classes: int = 0) -> None:
        functional: Any = sys.modules["torch.nn.functional"]
        entropy, linear = functional.cross_entropy, functional.linear
        self.heads = ScaledHeads(torch, entropy, classes) if classes else None
        own: Any = self.heads or ScaledChunks(torch, entropy)
        own.scale(device, batch, at)
        # Each module that has a function which is another one meanwhile, its name, and both.
        self.places = [(functional, "cross_entropy", entropy, of_thread(entropy, own.function()))]
        if self.heads is not None:
            by_function = self.heads.of_function(linear, self.heads.is_compiling)
            self.places.append((functional, "linear", linear, of_thread(linear, by_function)))
        library = sys.modules.get(chunked.LIBRARY)
        for holder, original in [] if library is None else chunked.holders(library):
            self.places.append((holder, chunked.SELECTED, original, of_thread(original, own.selected(original))))

    def take(self, model: Module) -> None:
        if self.heads is not None:
            self.heads.take(model)

    def is_of_use(self) -> None:
        """Raises `Stopped` where a head that was to be fused was not."""
        if self.heads is None:
            return
        if self.heads.otherwise:
            raise Stopped("its logits are used otherwise (%s)" % self.heads.otherwise)
        if len(self.heads.shapes) != 1:
            raise Stopped("no head of this size is called, or there are several")

    def head(self) -> str | None:
        """The one that was fused, as a patch is told of it."""
        return None if self.heads is None else "%dx%d" % next(iter(self.heads.shapes))

    def __enter__(self) -> None:
        for holder, name, _, ours in self.places:
            setattr(holder, name, ours)

    def __exit__(self, *error: Any) -> None:
        for holder, name, original, ours in self.places:
            if getattr(holder, name, None) is ours:
                setattr(holder, name, original)


def of_thread(original: Any, chunks: Any) -> Any:
    """The program's own threads may be at work: for them it is what it was."""
    thread = get_ident()

    def function(*args: Any, **kwargs: Any) -> Any:
        return (chunks if get_ident() == thread else original)(*args, **kwargs)

    return function
