"""How what a forward saves is moved to RAM and comes back: a pair of hooks for `torch.autograd.graph`.

Parameters, buffers and small tensors stay. What comes back has the strides and the alignment that it had, so the same
kernels compute the same bits. A stretch of memory is moved once, however many saved views lie in it: a storage that is
watched by a weak reference cannot be taken for another one, and its version says whether it was written to since. What
a `torch.autograd.Function` saves is moved each time: its kernels may write without a new version.

Where the host has no room the tensor stays on the GPU. Pinned memory is taken while half of what is available is left.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref

from ..common import errors, members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    from ..common.protocols import Module, Torch
    from .copying import Clock

# Smaller ones cost more time than they give memory.
SMALLEST = 1 << 20
# What allocators of GPUs align to: a copy that begins at such a byte has all of it aligned as before.
ALIGNED = 512
# Kept free of the host's memory, in any case.
RESERVE = 1 << 30
MEMORY = "/proc/meminfo"
# What a container or a job may take, and what it has: of cgroups of the second and of the first version.
GROUPS = "/sys/fs/cgroup"
LIMITS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))


class Moved:
    """A stretch of a storage, in RAM."""

    def __init__(self, begin: int, held: Any, source: Any, ram: Ram, takes: int, is_pinned: bool) -> None:
        self.begin = begin
        self.held = held
        # Keeps the storage's address from being given to another one.
        self.source = source
        ram.take(takes, is_pinned)
        weakref.finalize(self, ram.give, takes, is_pinned).atexit = False


class Ram:
    """What the moved tensors take of the host."""

    def __init__(self) -> None:
        self.now = self.most = self.pinned = self.most_pinned = 0
        self.available = 0
        # Nodes are freed on autograd's threads too, and within any allocation of Python's.
        self.lock = threading.RLock()

    def take(self, count: int, is_pinned: bool) -> None:
        with self.lock:
            self.now += count
            self.most = max(self.most, self.now)
            if is_pinned:
                self.pinned += count
                self.most_pinned = max(self.most_pinned, self.pinned)

    def give(self, count: int, is_pinned: bool) -> None:
        with self.lock:
            self.now -= count
            if is_pinned:
                self.pinned -= count

    def look(self) -> None:
        """What is available, and what is ours already: torch keeps pinned memory that was given back."""
        self.available = available() + self.now + max(self.most_pinned - self.pinned, 0)

    def has_room(self, takes: int) -> bool:
        return self.now + takes + RESERVE <= self.available

    def may_pin(self, count: int) -> bool:
        return 2 * (self.now + rounded(count)) <= self.available

    def takes(self, count: int, is_pinned: bool) -> int:
        """torch's allocator of pinned memory gives powers of two."""
        return rounded(count) if is_pinned else count


class Mover:
    """Moves what nodes save, and brings it back: a pair of hooks."""

    def __init__(self, torch: Torch, ram: Ram, clock: Clock, on_cpu: bool) -> None:
        self.torch = torch
        self.ram = ram
        self.clock = clock
        # Tensors of the CPU are moved as those of a GPU are.
        self.on_cpu = on_cpu
        # Only plain tensors are moved.
        self.kind: Any = torch.Tensor
        # Storages that stay: parameters and buffers.
        self.kept: set[int] = set()
        self.smallest = SMALLEST
        self.watched: Any = sys.modules["torch.multiprocessing.reductions"].StorageWeakRef
        self.moved: weakref.WeakValueDictionary[Any, Moved] = weakref.WeakValueDictionary()

    def keep(self, root: Module) -> None:
        its_own = (*members.parameters(root), *members.buffers(root))
        self.kept = {tensor.untyped_storage()._cdata for tensor in its_own}

    def pack(self, tensor: Any) -> Any:
        try:
            made = self.to_ram(tensor, sys._getframe(1))
            if made is not None:
                return made
        except Exception:
            errors.foreseen("move an activation")
        # The node's own output would hold the node that holds it.
        return tensor if tensor.is_leaf else tensor.detach()

    def to_ram(self, tensor: Any, caller: Any) -> Any:
        """What a node keeps in the place of a tensor: how it lies in what was moved; None where it stays."""
        torch = self.torch
        if type(tensor) is not self.kind or tensor.layout != torch.strided or tensor.is_inference():
            return None
        if tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
            return None
        if tensor.device.type != "cuda" and not self.on_cpu:
            return None
        size, itemsize = tensor.numel() * tensor.element_size(), tensor.element_size()
        storage = tensor.untyped_storage()
        if size < self.smallest or storage._cdata in self.kept:
            return None
        begin, end = stretch(tensor)
        if 2 * (end - begin) > storage.nbytes():
            begin, end = 0, storage.nbytes()
        key = (storage._cdata, tensor._version, begin, end)
        moved = None if is_function(caller) else self.moved.get(key)
        if moved is None:
            moved = self.copied(storage, begin, end, tensor.device)
            if moved is None:
                return None
            self.moved[key] = moved
        first = tensor.storage_offset() * itemsize - moved.begin
        return moved, first, tensor.size(), tensor.stride(), tensor.dtype, tensor.device

    def copied(self, storage: Any, begin: int, end: int, device: Any) -> Moved | None:
        count = end - begin
        is_pinned = device.type == "cuda" and self.ram.may_pin(count)
        takes = self.ram.takes(count, is_pinned)
        if not self.ram.has_room(takes):
            return None
        held = self.fetched(storage, begin, count, device, is_pinned)
        return Moved(begin, held, self.watched(storage), self.ram, takes, is_pinned)

    def fetched(self, storage: Any, begin: int, count: int, device: Any, is_pinned: bool) -> Any:
        """A copy in RAM."""
        torch = self.torch
        flat = torch.empty(0, dtype=torch.uint8, device=device).set_(storage, begin, (count,), (1,))
        held = torch.empty(count, dtype=torch.uint8, device="cpu", pin_memory=is_pinned)
        started = self.clock.starts(device)
        held.copy_(flat)
        self.clock.ends(started)
        return held

    def put_back(self, back: Any, held: Any, begin: int) -> None:
        """The bytes from there on."""
        started = self.clock.starts(back.device)
        is_pinned = back.device.type == "cuda" and held.is_pinned()
        back.copy_(held[begin : begin + len(back)], non_blocking=is_pinned)
        self.clock.ends(started)

    def length(self, moved: Moved, count: int) -> int:
        """The bytes that are made for so many of a stretch."""
        return count

    def unpack(self, kept: Any) -> Any:
        if type(kept) is not tuple:
            return kept
        moved, first, size, stride, dtype, device = kept
        torch = self.torch
        with torch.no_grad():
            last = first + spanned(size, stride) * dtype.itemsize
            begin = first - first % ALIGNED
            back = torch.empty(self.length(moved, last - begin), dtype=torch.uint8, device=device)
            self.put_back(back, moved.held, begin)
            return back.view(dtype).as_strided(size, stride, (first - begin) // dtype.itemsize)


def stretch(tensor: Any) -> tuple[int, int]:
    """The bytes of its storage that a strided tensor spans, from an aligned one on."""
    itemsize = tensor.element_size()
    begin = tensor.storage_offset() * itemsize
    return begin - begin % ALIGNED, begin + spanned(tensor.size(), tensor.stride()) * itemsize


def spanned(size: Any, stride: Any) -> int:
    """Elements from the first one to the last one."""
    return sum((count - 1) * step for count, step in zip(size, stride)) + 1


def is_function(caller: Any) -> bool:
    """Whether a torch.autograd.Function saves: its `apply` is the nearest of Python's frames."""
    return caller is not None and caller.f_code.co_filename.replace("\\", "/").endswith("torch/autograd/function.py")


def rounded(count: int) -> int:
    return 1 << max(count - 1, 0).bit_length()


def available() -> int:
    """Of the machine's memory and of each group of this process, in bytes; 0 where it is not known."""
    with open(MEMORY) as lines:
        found = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    return max(min(found + list(left_in_groups())), 0) if found else 0


def left_in_groups() -> Iterator[int]:
    try:
        with open("/proc/self/cgroup") as lines:
            groups = [line.rstrip("\n").split(":", 2) for line in lines]
    except OSError:
        return
    for _, controllers, path in groups:
        if controllers and "memory" not in controllers.split(","):
            continue
        top = GROUPS + "/memory" if controllers else GROUPS
        # A limit of an outer group counts as well.
        parts = path.strip("/").split("/")
        for count in range(len(parts) + 1):
            folder = os.path.join(top, *parts[:count])
            for limit, usage in LIMITS:
                try:
                    with open(os.path.join(folder, limit)) as most, open(os.path.join(folder, usage)) as now:
                        yield int(most.read()) - int(now.read())
                except (OSError, ValueError):
                    continue
