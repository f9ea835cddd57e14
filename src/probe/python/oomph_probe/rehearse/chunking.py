"""A step whose cross-entropy is computed over some rows at a time, as the patch of that name does: torch's function is
another one for the rehearsal's thread while it runs.

A step is rehearsed at another batch than the program's: a chunk has as many rows as there have to be to grow with it.
"""

from __future__ import annotations

import sys
from _thread import get_ident

from ..patch import chunked
from . import sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Torch

# Of what a step needs at the most the share from which a log-softmax is worth it.
WORTH = 0.05


class ScaledChunks(chunked.Chunks):
    """Of fake tensors, at a batch of so many times the program's own."""

    def __init__(self, torch: Torch, original: Any, device: Any, batch: int, at: int) -> None:
        super().__init__(torch, original)
        self.kinds = (*self.kinds, sys.modules["torch._subclasses.fake_tensor"].FakeTensor)
        self.on_cpu = device.type != "cuda"
        self.smallest = max(chunked.SMALLEST * at // batch, 1)
        self.chunk = chunked.CHUNK * at // batch

    def rows_of(self, logits: Any) -> int:
        rows = super().rows_of(logits)
        return rows if len(logits) % sizes.PRIME else max(rows // sizes.PRIME, 1) * sizes.PRIME


class Chunking:
    """`with Chunking(…):` around a rehearsed step."""

    def __init__(self, torch: Torch, device: Any, batch: int, at: int) -> None:
        functional: Any = sys.modules["torch.nn.functional"]
        entropy = functional.cross_entropy
        own = ScaledChunks(torch, entropy, device, batch, at)
        # Each module that has a function which is another one meanwhile, its name, and both.
        self.places = [(functional, "cross_entropy", entropy, of_thread(entropy, own.function()))]
        library = sys.modules.get(chunked.LIBRARY)
        for holder, original in [] if library is None else chunked.holders(library):
            self.places.append((holder, chunked.SELECTED, original, of_thread(original, own.selected(original))))

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
