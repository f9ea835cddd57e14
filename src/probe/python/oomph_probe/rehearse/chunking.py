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
        self.functional: Any = sys.modules["torch.nn.functional"]
        self.original = self.functional.cross_entropy
        own, original, thread = ScaledChunks(torch, self.original, device, batch, at), self.original, get_ident()
        chunks = own.function()

        def cross_entropy(*args: Any, **kwargs: Any) -> Any:
            # The program's own threads may be at work.
            return (chunks if get_ident() == thread else original)(*args, **kwargs)

        self.ours = cross_entropy

    def __enter__(self) -> None:
        self.functional.cross_entropy = self.ours

    def __exit__(self, *error: Any) -> None:
        if self.functional.cross_entropy is self.ours:
            self.functional.cross_entropy = self.original
