"""The sizes of what a model was given: of every tensor among the arguments of the outermost calls, also inside
containers, dataclasses and objects, and which of them differ from call to call. No tensor is kept.
"""

from __future__ import annotations

import os
import weakref

from ..common import frames, objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType
    from typing import Any

    from ..common.frames import Owners
    from ..common.protocols import Args, Kwargs, Line, Module, Torch

MOST_TENSORS = 64
MOST_MODELS = 16
DEPTH = 4
# Of a list of tensors (images of several sizes) so many are looked at.
MOST_OF_A_LIST = 16


class Tensors:
    """The calls of one model: each tensor's latest shape, by where it is among the arguments."""

    def __init__(self, module: Module) -> None:
        self.module = weakref.ref(module)
        self.calls = 0
        self.shapes: dict[str, tuple[int, ...]] = {}
        # The dimensions that were not the same in all calls, and the least and the most of each dimension.
        self.varying: dict[str, set[int]] = {}
        self.ranges: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.lists: dict[str, int] = {}

    def add(self, torch: Torch, args: Args, kwargs: Kwargs) -> None:
        self.lists = {}
        shapes = {}
        for path, shape in self.walk(torch, args, kwargs):
            shapes[path] = shape
            if len(shapes) >= MOST_TENSORS:
                break
        self.take(shapes)

    def take(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """The shapes of another call."""
        self.calls += 1
        for path, shape in shapes.items():
            before = self.shapes.get(path)
            if before is not None and before != shape:
                changed = range(min(len(before), len(shape)))
                self.varying.setdefault(path, set()).update(at for at in changed if before[at] != shape[at])
                least, most = self.ranges.get(path, (before, before))
                self.ranges[path] = tuple(map(min, least, shape)), tuple(map(max, most, shape))
        self.shapes = shapes

    def range_of(self, path: str) -> dict[str, list[int]]:
        """The least and the most of each dimension; nothing where no call differed."""
        if path not in self.ranges:
            return {}
        least, most = self.ranges[path]
        return {"least": list(least), "most": list(most)}

    def lines(self) -> list[Line]:
        """Where each tensor is among the arguments, its sizes, the dimensions that differ from call to call, and the
        least and the most of each where one does."""
        return [
            {"at": path, "shape": list(shape), "varies": sorted(self.varying.get(path, ())), **self.range_of(path)}
            for path, shape in list(self.shapes.items())
        ] + [{"at": path, "length": length} for path, length in list(self.lists.items())]

    def walk(self, torch: Torch, args: Args, kwargs: Kwargs) -> Iterator[tuple[str, tuple[int, ...]]]:
        for place, value in enumerate(args):
            yield from self.inside(torch, value, str(place), DEPTH)
        for name, value in kwargs.items():
            yield from self.inside(torch, value, str(name), DEPTH)

    def inside(self, torch: Torch, value: Any, path: str, depth: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        if objects.is_a(value, torch.Tensor):
            # Not what a class of the program's calls its shape.
            is_plain = type(value) in (torch.Tensor, torch.nn.Parameter)
            yield path, tuple(value.shape if is_plain else torch.Tensor.shape.__get__(value))
        elif type(value).__name__ == "ndarray" and type(value).__module__ == "numpy":
            yield path, tuple(value.shape)
        elif not depth or objects.is_a(value, (str, bytes, int, float, type(None), torch.nn.Module)):
            return
        elif objects.is_a(value, (list, tuple)):
            inside = objects.elements(value)
            self.lists[path] = len(inside)
            names = getattr(type(value), "_fields", None) or range(len(inside))
            for name, each in list(zip(names, inside))[:MOST_OF_A_LIST]:
                yield from self.inside(torch, each, "%s.%s" % (path, name), depth - 1)
        else:
            for name, each in list(items(value)):
                yield from self.inside(torch, each, "%s.%s" % (path, name), depth - 1)


class Given:
    """The calls of all models of a process."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        # By the model's id, and whether it is evaluated: that may be in other batches.
        self.of_models: dict[tuple[int, bool], Tensors] = {}
        self.latest: Tensors | None = None
        # The latest one that was no evaluation, and the latest one that was.
        self.trained: Tensors | None = None
        self.evaluated: Tensors | None = None

    def add(self, module: Module, args: Args, kwargs: Kwargs, is_evaluated: bool = False) -> None:
        """Notes a call; some microseconds for each tensor."""
        key = id(module), is_evaluated
        known = self.of_models.pop(key, None)
        # Another model may lie where one lay that is gone.
        if known is None or known.module() is not module:
            known = Tensors(module)
            self.make_room()
        self.latest = self.of_models[key] = known
        self.latest.add(self.torch, args, kwargs)
        if is_evaluated:
            self.evaluated = self.latest
        else:
            self.trained = self.latest

    def make_room(self) -> None:
        """For another model: a search over settings makes ever new ones, and lets go of them. What was called last is
        the last to be forgotten."""
        if len(self.of_models) >= MOST_MODELS:
            self.of_models = {key: each for key, each in self.of_models.items() if each.module() is not None}
        if len(self.of_models) >= MOST_MODELS:
            del self.of_models[next(iter(self.of_models))]

    def trained_lines(self) -> list[Line]:
        """Of the model that was trained last."""
        return [] if self.trained is None else self.trained.lines()


def of_running(torch: Torch, owners: Owners, stack: Iterable[FrameType]) -> Tensors | None:
    """The call of the outermost module that runs in these frames; None where none does. Other calls are looked at in
    the first steps only, and hardly any without gradients: an evaluation that runs out is often seen here alone."""
    outermost = None
    for frame in stack:
        code = frame.f_code
        if code.co_name in CALLS and code.co_filename == owners.torch_home + CALLED_IN:
            outermost = frame
    if outermost is None:
        return None
    return frames.read_locals(outermost, lambda values: noted(torch, values))


# What calls a module's forward, in all versions of torch.
CALLS = ("_call_impl", "_wrapped_call_impl", "__call__")
CALLED_IN = os.path.join("nn", "modules", "module.py")


def noted(torch: Torch, values: dict[str, Any]) -> Tensors | None:
    module: Any = values.get("self")
    args, kwargs = values.get("args", values.get("input")), values.get("kwargs")
    if not objects.is_a(module, torch.nn.Module) or type(args) is not tuple or type(kwargs) is not dict:
        return None
    seen = Tensors(module)
    seen.add(torch, args, kwargs)
    return seen


def items(value: Any) -> Any:
    """What a dict, a dict's wrapper (a tokenizer's BatchEncoding) or an object has, by name."""
    if objects.is_a(value, dict):
        return objects.entries(value)
    own = objects.namespace_of(value) or {}
    data = own.get("data")
    return objects.entries(data) if objects.is_a(data, dict) else own.items()
