"""Activations that wait for the backward in RAM, as `torch.autograd.graph.save_on_cpu` keeps them: what a forward saves
is moved to the host and comes back when its node needs it.

Parameters, buffers and small tensors stay. What comes back has the strides and the alignment that it had, so the same
kernels compute the same bits. A stretch of memory is moved once, however many saved views lie in it: a storage that is
watched by a weak reference cannot be taken for another one, and its version says whether it was written to since. What
a `torch.autograd.Function` saves is moved each time: its kernels may write without a new version.

Where the host has no room the tensor stays on the GPU. Pinned memory is taken while half of what is available is left.
Programs with hooks of their own around the forward are left alone; `torch.func` forbids hooks, so they are taken off
for it. Copies to the host wait for the GPU, like torch's own: nothing can run ahead of them on another stream.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref

from ..common import calls, errors, members
from . import amp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

    from ..common.protocols import Args, Kwargs, Module
    from .patches import Patches

NAME = "offload"
# Which pair of hooks is the innermost one, how ours are put there, and how torch.func forbids them.
ASKED = (
    "_top_saved_tensors_default_hooks",
    "_push_saved_tensors_default_hooks",
    "_pop_saved_tensors_default_hooks",
    "_saved_tensors_hooks_is_enabled",
    "_saved_tensors_hooks_disable",
)
# Why it stops.
OWN_HOOKS = "the program has hooks of its own for what a forward saves; the patch is off from that step on"
FORBIDDEN = "the program uses what forbids hooks of saved tensors (torch.func); the patch is off from there on"
# Set on a module: 1 = only in training mode, 2 = in either mode (the model trains in eval mode).
MARK = "_oomph_offload"
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

    def has_room(self, count: int) -> bool:
        return self.now + count + RESERVE <= self.available

    def may_pin(self, count: int) -> bool:
        return 2 * (self.now + count) <= self.available


class Offload:
    """The patch of this process."""

    wants_roots = True
    nothing_found = "no model call was seen (calls inside compiled functions are not visible)"

    def __init__(self, patches: Patches, value: str) -> None:
        if value != "cpu":
            raise ValueError("activations only go to the cpu")
        self.patches = patches
        self.torch = patches.torch
        self.classes: set[Any] = set()
        self.named: list[str] = []
        self.stopped = False
        # The pair of hooks of the forward that runs, if one does; None once they were taken off.
        self.hooks: Any = None
        self.kept: set[int] = set()
        self.ram = Ram()
        self.told = 0
        self.moved: weakref.WeakValueDictionary[Any, Moved] = weakref.WeakValueDictionary()

    def install(self) -> None:
        self.autograd: Any = getattr(self.torch._C, "_autograd", None)
        if not all(hasattr(self.autograd, name) for name in ASKED):
            return self.stop("needs a later version of torch, which says whose hooks are in force")
        self.is_compiling = calls.is_compiling_of(self.torch)
        self.weak: Any = sys.modules["torch.multiprocessing.reductions"].StorageWeakRef
        self.make_way()

    def stop(self, why: str) -> None:
        """Disables the patch for good."""
        self.stopped = True
        self.wants_roots = False
        self.patches.decline(NAME, why)

    def make_way(self) -> None:
        """torch.func and others forbid hooks, and raise where there are some: ours are taken off before."""
        original = self.autograd._saved_tensors_hooks_disable
        leave = self.take_off

        def disable(*args: Any, **kwargs: Any) -> Any:
            try:
                leave(FORBIDDEN)
            except Exception:
                errors.ours("take hooks off")
            return original(*args, **kwargs)

        self.autograd._saved_tensors_hooks_disable = disable

    def take_off(self, why: str | None = None) -> None:
        hooks, top = self.hooks, None
        if hooks is None:
            return
        try:
            top = self.autograd._top_saved_tensors_default_hooks(False)
            if top is not None and top[0] is hooks[0]:
                self.hooks = None
                self.autograd._pop_saved_tensors_default_hooks()
        finally:
            if why is not None:
                self.stop(why)

    def take_root(self, root: Module, device: str) -> None:
        if self.stopped:
            return
        why = why_not_root(root)
        if why is not None:
            return self.stop(why)
        self.wrap_call(type(root))
        setattr(root, MARK, 1 if root.training else 2)
        self.named.append(type(root).__name__)
        self.patches.apply(NAME, self.words())

    def words(self) -> str:
        shown = "%.1f GiB" % (self.told / 2**30) if self.told >= 1 << 30 else "%d MiB" % (self.told >> 20)
        ram = " (%s at the most)" % shown if self.told else ""
        return "what the forward of %s saves waits in RAM%s" % (", ".join(self.named), ram)

    def wrap_call(self, cls: type) -> None:
        if cls in self.classes:
            return
        self.classes.add(cls)
        calls.wrap_marked(cls, MARK, self.is_compiling, self.call)

    def call(self, original: Callable[..., Any], root: Module, args: Args, kwargs: Kwargs) -> Any:
        is_training = root.training or getattr(root, MARK) == 2
        if not (is_training and self.torch.is_grad_enabled() and self.enter(root)):
            return original(root, *args, **kwargs)
        try:
            return original(root, *args, **kwargs)
        finally:
            self.leave()

    def enter(self, root: Module) -> bool:
        """Puts the hooks around a forward, or leaves it as it is."""
        try:
            if self.stopped or self.hooks is not None:
                return False
            if self.torch.cuda.is_available() and self.torch.cuda.is_current_stream_capturing():
                return False
            autograd = self.autograd
            if not autograd._saved_tensors_hooks_is_enabled():
                return False
            if autograd._top_saved_tensors_default_hooks(False) is not None:
                self.stop(OWN_HOOKS)
                return False
            its_own = (*members.parameters(root), *members.buffers(root))
            self.kept = {tensor.untyped_storage()._cdata for tensor in its_own}
            self.ram.look()
            hooks = (self.pack, self.unpack)
            autograd._push_saved_tensors_default_hooks(*hooks)
            self.hooks = hooks
            return True
        except Exception:
            errors.ours("put hooks around a forward")
            self.stop("hooks could not be put around the forward")
            return False

    def leave(self) -> None:
        try:
            self.take_off()
            # Told again where it has become more by a tenth.
            if self.ram.most * 10 > self.told * 11:
                self.told = self.ram.most
                if not self.stopped:
                    self.patches.apply(NAME, self.words())
        except Exception:
            errors.ours("take hooks off a forward")

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
        if type(tensor) is not torch.Tensor or tensor.layout != torch.strided or tensor.is_inference():
            return None
        if tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
            return None
        if tensor.device.type != "cuda" and not self.patches.on_cpu:
            return None
        size, itemsize = tensor.numel() * tensor.element_size(), tensor.element_size()
        storage = tensor.untyped_storage()
        if size < SMALLEST or storage._cdata in self.kept:
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
        torch, count = self.torch, end - begin
        is_pinned = device.type == "cuda" and self.ram.may_pin(rounded(count))
        # torch's allocator of pinned memory gives powers of two.
        takes = rounded(count) if is_pinned else count
        if not self.ram.has_room(takes):
            return None
        flat = torch.empty(0, dtype=torch.uint8, device=device).set_(storage, begin, (count,), (1,))
        held = torch.empty(count, dtype=torch.uint8, pin_memory=is_pinned)
        held.copy_(flat)
        return Moved(begin, held, self.weak(storage), self.ram, takes, is_pinned)

    def unpack(self, kept: Any) -> Any:
        if type(kept) is not tuple:
            return kept
        moved, first, size, stride, dtype, device = kept
        torch, held = self.torch, moved.held
        with torch.no_grad():
            last = first + spanned(size, stride) * dtype.itemsize
            begin = first - first % ALIGNED
            back = torch.empty(last - begin, dtype=torch.uint8, device=device)
            back.copy_(held[begin:last], non_blocking=held.is_pinned() if device.type == "cuda" else False)
            return back.view(dtype).as_strided(size, stride, (first - begin) // dtype.itemsize)


def inside(outer: Callable[..., Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a model's first call by two patches, one within the other."""

    def call(original: Callable[..., Any], root: Module, args: Args, kwargs: Kwargs) -> Any:
        return outer(lambda model, *given, **named: inner(original, model, given, named), root, args, kwargs)

    return call


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


def why_not_root(root: Module) -> str | None:
    if hasattr(root, "_orig_mod"):
        return "the model is compiled, which plans what it saves as a whole"
    for base in type(root).__mro__:
        if base.__name__.startswith(("FSDP", "FullyShardedDataParallel")):
            return "FSDP moves what it saves itself"
    return amp.why_not_root(root)
