"""What could be patched in this process at runtime: repeated blocks and the memory their forward
allocated, the DataLoaders' batch size, whether the program sets a precision itself.

Taken only when memory runs out: it walks over all objects tracked by Python's garbage collector,
which takes some tens of milliseconds; a run without an OOM pays nothing.
"""

from __future__ import annotations

import dis
import sys
import time
from importlib.machinery import PathFinder

from ..common import blocks, members, objects
from ..patch import loader, offload, precision, recompute
from . import compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.blocks import Group
    from ..common.protocols import Line, Module, Segments, Tensor, Torch

# Give up after so many seconds and do not try again: the process has too many objects.
PATIENCE = 1.0
# Seconds between two attempts, for programs that catch one OOM after another.
EVERY = 60.0
MAX_GROUPS = 8
# In the names of the files that recompute what is not kept: torch's, DeepSpeed's and Unsloth's.
CHECKPOINT = "checkpoint"
# `torch.sparse.mm` is not among the operations that autocast knows: what it is given would be of two types.
SPARSE = "it computes with sparse matrices, whose products take one type"
# Optimizers of 8 bits; losses that never make all logits.
PACKAGES = ("bitsandbytes", "torchao", "liger_kernel")


class Census:
    """What could be patched in this process."""

    def __init__(self, torch: Torch, pid: int) -> None:
        self.torch = torch
        self.pid = pid
        self.taken_at: Any = None

    def is_due(self, now: float) -> bool:
        return self.taken_at is None or now - self.taken_at >= EVERY

    def take(self, device: int, segments: Segments) -> Line | None:
        """The line for the wire, or None where there was no time to see every object."""
        self.taken_at = time.monotonic()
        found = ObjectScan(self.torch)
        if not found.look(self.taken_at + PATIENCE):
            return None
        roots = found.roots()
        groups: list[Any] = []
        for root in roots:
            groups.extend(self.group_line(root, group, segments) for group in blocks.find(root))
        groups.sort(key=lambda line: (-line.get("held", 0), -line["count"]))
        line = {
            "event": "patchable",
            "pid": self.pid,
            "device": device,
            "models": [type(root).__name__ for root in roots][:MAX_GROUPS],
            "blocks": groups[:MAX_GROUPS],
            "bf16": precision.does_bf16(self.torch, "cuda"),
        }
        normalizes = batch_norm(roots)
        if normalizes is not None:
            line["batch_norm"] = normalizes
        left = self.why_not_offload(roots)
        if left is not None:
            line["offload_left"] = left
        # An embedding's sparse gradient is none of its products.
        if found.has_sparse and not any(module.__dict__.get("sparse") is True for module in found.modules):
            line["amp_left"] = SPARSE
        own = self.own_precision(found, roots)
        if own is not None:
            line["precision"] = own
        graphs = compiled.facts(self.torch)
        if graphs is not None:
            line["compiled"] = graphs
        if shares_cuda():
            line["shares_cuda"] = True
        line["installed"] = installed()
        line.update(found.batches())
        return line

    def group_line(self, root: Module, group: Group, segments: Segments) -> Line:
        line: Line = {"class": group.cls.__name__, "count": len(group.members)}
        why_not = recompute.why_not_root(root) or group.why_not
        switch = [
            module
            for module in members.modules(root)
            if getattr(module, "supports_gradient_checkpointing", False)
        ]
        is_on = any(getattr(module, "is_gradient_checkpointing", False) for module in switch)
        if is_on:
            why_not = "they are already checkpointed"
        if why_not is not None:
            line["left"] = why_not
        held, checkpointed = held_through(group.cls, segments)
        if held:
            line["held"] = held
            if is_on and not checkpointed:
                line["idle"] = why_idle(root)
        return line

    def why_not_offload(self, roots: list[Module]) -> str | None:
        if not offload.can_hook(self.torch):
            return offload.LATER
        return next(filter(None, map(offload.why_not_root, roots)), None)

    def own_precision(self, found: ObjectScan, roots: list[Module]) -> str | None:
        if found.scaler:
            return "it scales its loss (GradScaler)"
        if found.has_half:
            return "it already uses half-precision tensors"
        for root in roots:
            if precision.is_sharded(root):
                return "FSDP's policy says it"
            said = precision.of_model(self.torch, root, "cuda")
            if said is not None:
                return said
        return precision.of_settings(self.torch) if roots else precision.of_accelerate()


class ObjectScan:
    """Modules, loaders and gradient scalers among all objects."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        self.modules: list[Any] = []
        self.loaders: list[Any] = []
        self.in_use: set[int] = set()
        self.scaler = False
        self.has_half = self.has_sparse = False
        self.dense = getattr(torch, "strided", None)
        self.halves = tuple(getattr(torch, name) for name in ("float16", "bfloat16") if hasattr(torch, name))

    def look(self, until: float) -> bool:
        """False if the time ran out before every object was seen."""
        data = sys.modules.get("torch.utils.data.dataloader")
        kinds: list[tuple[type, Callable[[Any], None]]] = [(self.torch.nn.Module, self.modules.append)]
        if data is not None:
            kinds += [(data.DataLoader, self.loaders.append), (data._BaseDataLoaderIter, self.see_iterator)]
        kinds += [(kind, self.see_scaler) for kind, _ in precision.scalers(self.torch)]
        see = {id(kind): sees for base, sees in kinds for kind in objects.with_subclasses(base)}
        see.update((id(kind), self.see_tensor) for kind in objects.kinds_of_tensors(self.torch))
        found = objects.instances(see, until)
        for each in found or ():
            see[id(type(each))](each)
        return found is not None

    def see_tensor(self, tensor: Tensor) -> None:
        if not tensor.is_cuda:
            return
        if tensor.dtype in self.halves:
            self.has_half = True
        if getattr(tensor, "layout", self.dense) != self.dense:
            self.has_sparse = True

    def see_iterator(self, iterator: Any) -> None:
        self.in_use.add(id(getattr(iterator, "_dataset", None)))

    def see_scaler(self, scaler: Any) -> None:
        self.scaler = self.scaler or bool(scaler.is_enabled())

    def roots(self) -> list[Module]:
        """The models: modules on a GPU that are being trained and are not part of another."""
        inner: set[int] = set()
        for module in self.modules:
            inner.update(id(child) for child in members.children(module))
        return [
            module
            for module in self.modules
            if id(module) not in inner
            and any(each.requires_grad and each.is_cuda for each in members.parameters(module))
        ]

    def batches(self) -> Line:
        """The batch size of the loaders in use (of all loaders if none is), if they agree on one."""
        using = [each for each in self.loaders if id(each.dataset) in self.in_use] or self.loaders
        sizes, why_not = set(), None
        for each in using:
            asked = each.__dict__.get(loader.ASKED, each.batch_size)
            if asked is None or type(each.batch_sampler).__name__ not in (
                "BatchSampler",
                "NoneType",
            ):
                why_not = "the program's own batch sampler makes the batches"
            else:
                sizes.add((asked, each.batch_size))
        if not using:
            return {}
        if why_not is None and len(sizes) == 1:
            asked, size = sizes.pop()
            return {"batch": size, "batch_asked": asked}
        return {"batch_left": why_not or "DataLoaders of several batches are in use"}


def installed() -> list[str]:
    """Of the packages that a remedy may need those that are there: only looked for, nothing is imported."""
    return [name for name in PACKAGES if name in sys.modules or PathFinder.find_spec(name) is not None]


def shares_cuda() -> bool:
    """Whether this process has sent CUDA tensors to another one or received some. torch keeps what it has received by
    CUDA's handle and an offset, what it has sent by the handle alone (reductions.py of 2.11); tensors of the host are
    kept by a file's numbers or its name."""
    reductions = sys.modules.get("torch.multiprocessing.reductions")
    shared = getattr(reductions, "shared_cache", None) or {}
    return any(is_of_cuda(key) for key in list(shared))


def is_of_cuda(key: Any) -> bool:
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], int):
        key = key[0]
    return isinstance(key, bytes) and not key.startswith(b"/torch_")


def batch_norm(roots: list[Module]) -> str | None:
    """The class that normalizes by the batch while the model trains; None where none does."""
    for root in roots:
        for module in members.modules(root):
            if module.training and any(base.__name__ == "_BatchNorm" for base in type(module).__mro__):
                return type(module).__name__
    return None


def why_idle(root: Module) -> str:
    """Why checkpointing that is switched on keeps everything all the same."""
    switched = [part for part in members.modules(root) if getattr(part, "gradient_checkpointing", False)]
    if any(not part.training for part in switched):
        return "they are in eval mode, in which nothing is checkpointed: model.train()"
    return "their forward does not pass through torch.utils.checkpoint"


def held_through(cls: type, segments: Segments) -> tuple[int, int]:
    """Bytes of live blocks that were allocated inside the forward of a class, as far as their stacks
    were recorded, and how many of them by what checkpoints activations."""
    code = getattr(getattr(cls, "forward", None), "__code__", None)
    if code is None or not segments:
        return 0, 0
    lines = [line for _, line in dis.findlinestarts(code) if line is not None]
    span = range(code.co_firstlineno, max(lines) + 1)
    answers: dict[int, bool] = {}
    held = checkpointed = 0
    for segment in segments:
        for block in segment["blocks"]:
            stack = block.get("frames")
            if not stack or block["state"] == "inactive":
                continue
            # Blocks with the same stack share one list of frames.
            answer = answers.get(id(stack))
            if answer is None:
                answer = answers[id(stack)] = any(
                    frame["name"] == code.co_name
                    and frame["line"] in span
                    and frame["filename"] == code.co_filename
                    for frame in stack
                )
            if answer:
                held += block["size"]
                if any(CHECKPOINT in frame["filename"].rpartition("/")[2] for frame in stack):
                    checkpointed += block["size"]
    return held, checkpointed
