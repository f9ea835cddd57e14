"""A step whose forward moves what it saves to RAM, as the patch of that name does: the same hooks on fake tensors, so
that the trace has what stays and what comes back, and a count of what RAM takes and what is copied.

A step is rehearsed at another batch than the program's. What is small enough to stay, and what RAM takes, are told by
the sizes that its tensors would have at the program's own.
"""

from __future__ import annotations

import math
import sys
import weakref

from ..common import errors
from ..patch import copying, moving, offload
from . import sizes
from .effects import Stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Line, Module, Torch

# Bytes of an element of the largest type, which those of the others divide.
LARGEST_ITEM = 16


class CountedRam(moving.Ram):
    """Of a host that has room for everything: whether it has is judged where the amount is read."""

    def __init__(self, batch: int, at: int) -> None:
        super().__init__()
        # The program's batch, and the one that is rehearsed.
        self.batch = batch
        self.at = at
        # Bytes copied there and back.
        self.out = self.back = 0
        try:
            self.look()
        except Exception:
            errors.foreseen("read the host's memory")

    def has_room(self, takes: int) -> bool:
        return True

    def may_pin(self, count: int) -> bool:
        return super().may_pin(self.scaled(count))

    def takes(self, count: int, is_pinned: bool) -> int:
        return super().takes(self.scaled(count), is_pinned)

    def scaled(self, count: int) -> int:
        return count * self.batch // self.at


class Offloading(moving.Mover):
    """The hooks of one rehearsed step: nothing is copied."""

    ram: CountedRam

    def __init__(self, torch: Torch, device: Any, batch: int, at: int) -> None:
        super().__init__(torch, CountedRam(batch, at), copying.Clock(torch), device.type != "cuda")
        self.kind = sys.modules["torch._subclasses.fake_tensor"].FakeTensor
        self.smallest = max(moving.SMALLEST * at // batch, 1)
        self.watched = self.watch
        self.at = at
        # What was moved of storages that grow with the batch.
        self.growing: weakref.WeakSet[moving.Moved] = weakref.WeakSet()

    def watch(self, storage: Any) -> Any:
        """torch's own reference is a call that stops a rehearsal; the next storage may lie at the same address."""
        place = storage._cdata

        def forget(_: Any) -> None:
            for key in [each for each in self.moved if each[0] == place]:
                del self.moved[key]

        return weakref.ref(storage, forget)

    def put_around(self, module: Module, original: Module | None) -> None:
        """Around the copy's forward; `Stopped` where the patch would leave the original alone."""
        why = None if original is None else offload.why_not_root(original)
        why = why or (None if offload.can_hook(self.torch) else offload.LATER)
        if why is not None:
            raise Stopped(why)
        self.keep(module)
        forward, hooks = module.forward, self.torch.autograd.graph.saved_tensors_hooks
        pack, unpack = self.pack, self.unpack

        def run(*args: Any, **kwargs: Any) -> Any:
            with hooks(pack, unpack):
                return forward(*args, **kwargs)

        setattr(module, "forward", run)

    def copied(self, storage: Any, begin: int, end: int, device: Any) -> moving.Moved | None:
        moved = super().copied(storage, begin, end, device)
        if moved is not None and storage.nbytes() % sizes.PRIME == 0:
            self.growing.add(moved)
        return moved

    def length(self, moved: moving.Moved, count: int) -> int:
        """A view of a part of each row ends before its storage does: that it grows with the batch is to be seen, in
        whole elements of whatever type."""
        step = self.at * (LARGEST_ITEM // math.gcd(self.at, LARGEST_ITEM))
        return -(-count // step) * step if moved in self.growing else count

    def fetched(self, storage: Any, begin: int, count: int, device: Any, is_pinned: bool) -> Any:
        self.ram.out += self.ram.scaled(count)
        return None

    def put_back(self, back: Any, held: Any, begin: int) -> None:
        self.ram.back += self.ram.scaled(len(back))

    def line(self) -> Line:
        """At the program's batch."""
        return {"takes": self.ram.most, "out": self.ram.out, "back": self.ram.back}
