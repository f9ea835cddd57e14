"""What the inputs of a model's calls were like: their batch size, their bytes, and how much their size differs
from call to call (texts of random lengths, images of several sizes).
"""

from __future__ import annotations

import sys

from ..common import members
from . import singly
from .effects import Stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Line, Module, Tensor, Torch
    from .roots import Call

# Models of which calls are compared.
MOST_MODELS = 16
# Lengths that people choose are multiples of one of these; another comes of the text itself.
ROUND = (32, 50)
# Numbers that are read of one tensor.
MOST_VALUES = 1 << 16
# Images have as many channels, which are no batch.
CHANNELS = (1, 3, 4)


class Shape:
    """What a tensor was like."""

    __slots__ = ("shape", "stride", "dtype", "device", "requires_grad", "identity", "storage", "values")

    def __init__(self, tensor: Tensor) -> None:
        self.shape = tuple(tensor.shape)
        self.stride = tensor.stride()
        self.dtype = tensor.dtype
        self.device = tensor.device
        self.requires_grad = tensor.requires_grad
        # The same for one tensor by two names, as long as it lives.
        self.identity = id(tensor)
        # What it lies in, and how large that is: several may be views of one.
        self.storage = storage_of(tensor)
        # Of a small one of whole numbers, on the host, where they were read (`with_values`).
        self.values: Any = None


class Array(Shape):
    """What an array of numpy's was like, of which a forward makes a tensor itself."""

    __slots__ = ("kind",)

    def __init__(self, torch: Torch, array: Any) -> None:
        self.shape = tuple(array.shape)
        self.stride = tuple(step // max(array.itemsize, 1) for step in array.strides)
        self.kind = array.dtype
        self.dtype = getattr(torch, array.dtype.name)
        self.device = torch.device("cpu")
        self.requires_grad = False
        self.identity = id(array)
        self.storage = self.identity, array.nbytes
        self.values: Any = None

    def made(self, shape: tuple[int, ...], at: int | None) -> Any:
        """One like it of another size along one dimension: with its numbers, where they were read, over and over."""
        numpy = sys.modules["numpy"]
        if self.values is None:
            return numpy.zeros(shape, self.kind)
        if at is None or not self.shape[at]:
            return self.values.copy()
        return self.values.take([each % self.shape[at] for each in range(shape[at])], at)


def array_of(torch: Torch, value: Any) -> Array | None:
    """Of an array with numbers as torch has them."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray:
        return None
    return Array(torch, value) if isinstance(getattr(torch, value.dtype.name, None), torch.dtype) else None


def storage_of(tensor: Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage._cdata, storage.nbytes()


def with_values(torch: Torch, noted: Any, given: Any) -> None:
    """Reads the numbers of small tensors (a mask, lengths) that were noted, where their tensors are still there."""
    if isinstance(noted, Array):
        if noted.values is None and noted.identity == id(given) and elements(noted) <= MOST_VALUES:
            noted.values = given.copy()
    elif isinstance(noted, Shape):
        is_tensor = isinstance(given, torch.Tensor) and tuple(given.shape) == noted.shape
        whole = not noted.dtype.is_floating_point and not noted.dtype.is_complex
        if is_tensor and whole and noted.values is None and elements(noted) <= MOST_VALUES:
            # No mode of the program's is told.
            with torch._C._DisableTorchDispatch():
                noted.values = given.detach().cpu().clone()
    elif isinstance(noted, dict) and isinstance(given, dict):
        for key in noted:
            with_values(torch, noted[key], given.get(key))
    elif isinstance(noted, (list, tuple)) and isinstance(given, (list, tuple)):
        for each, tensor in zip(noted, given):
            with_values(torch, each, tensor)


class Seen:
    """The calls of one model so far: the smallest and the largest inputs, in elements for each sample."""

    def __init__(self) -> None:
        self.calls = 0
        self.least = self.most = 0
        # The call with the most of them, by its batch size.
        self.largest: Call | None = None

    def add(self, call: Call) -> None:
        size = size_of(call)
        if size is None:
            return
        self.calls += 1
        self.least = size if self.calls == 1 else min(self.least, size)
        if size > self.most:
            self.most, self.largest = size, call

    def line(self) -> Line:
        return {"calls": self.calls, "least": self.least, "most": self.most}

    def differ(self) -> bool:
        return self.least < self.most


class Inputs:
    """The calls of all models of a process."""

    def __init__(self) -> None:
        # What calls of a model were like, by its place and how many tensors it is given; with the model.
        self.of_models: dict[Any, tuple[Any, Seen]] = {}

    def add(self, call: Call) -> None:
        """Notes one; what it costs is a few microseconds."""
        # A memory that begins empty makes no call smaller than another.
        key = id(call.module()), len(shapes_in([call.args, call.kwargs]))
        known = self.of_models.pop(key, None)
        # Another model may lie where one lay that is gone.
        if known is None or known[0]() is not call.module():
            known = call.module, Seen()
            self.make_room()
        self.of_models[key] = known
        seen = known[1]
        call.seen = seen
        seen.add(call)

    def make_room(self) -> None:
        """For another model: a search over settings makes ever new ones, and lets go of them. What was called last is
        the last to be forgotten."""
        if len(self.of_models) >= MOST_MODELS:
            self.of_models = {key: each for key, each in self.of_models.items() if each[0]() is not None}
        if len(self.of_models) >= MOST_MODELS:
            del self.of_models[next(iter(self.of_models))]


def size_of(call: Call) -> int | None:
    """Elements of the inputs for each sample, of texts in lists their words; None where they have no batch."""
    shapes = shapes_in([call.args, call.kwargs])
    batch = most_common(shapes)
    if not batch:
        given = [*call.args, *call.kwargs.values()]
        length = None if shapes else singly.length_of(given)
        lists = [each for each in given if type(each) in (list, tuple)]
        return sum(len(text) for texts in lists for text in texts) // length if length else None
    return sum(elements(shape) for shape in shapes if shape.shape and shape.shape[0] == batch) // batch


def possible_size(torch: Torch, call: Call) -> int | None:
    """What `size_of` would be of the longest text that the model takes, by its table of positions, where the
    text of this call is as long as it happened to be; None where nothing longer is to be expected."""
    module = call.module()
    if module is None:
        return None
    size, positions = size_of(call), positions_of(torch, module)
    if not size or not positions:
        return None
    batch = batch_of(call)
    texts = [
        shape.shape[1]
        for shape in shapes_in([call.args, call.kwargs])
        if len(shape.shape) == 2 and shape.shape[0] == batch and not shape.dtype.is_floating_point
    ]
    longest = max(texts, default=0)
    if not longest < positions or any(longest % each == 0 for each in ROUND):
        return None
    return size * positions // longest


def positions_of(torch: Torch, module: Module) -> int | None:
    """The rows of its embedding of positions; None where it has none."""
    for name, part in members.named_modules(module):
        if isinstance(part, torch.nn.Embedding) and name.rpartition(".")[2].startswith(("pos", "wpe")):
            return part.num_embeddings
    return None


def elements(shape: Shape) -> int:
    count = 1
    for each in shape.shape:
        count *= each
    return count


def shapes_in(value: Any) -> list[Shape]:
    """The tensors' shapes inside noted arguments."""
    if isinstance(value, Shape):
        return [value]
    if isinstance(value, dict):
        return [shape for each in value.values() for shape in shapes_in(each)]
    if isinstance(value, (list, tuple)):
        return [shape for each in value for shape in shapes_in(each)]
    return []


def most_common(shapes: list[Shape]) -> int | None:
    counts: dict[int, int] = {}
    for shape in shapes:
        if shape.shape:
            counts[shape.shape[0]] = counts.get(shape.shape[0], 0) + 1
    return max(counts, key=lambda size: counts[size]) if counts else None


def batch_of(call: Call) -> int | None:
    """What the program calls its batch; else the first dimension that most tensors among the arguments share."""
    given = list(call.args) + list(call.kwargs.values())
    # Beside a tensor it is something else: the states of a recurrent model of one layer.
    for each in given if not any(isinstance(each, Shape) for each in given) else ():
        if is_list_of_images(each):
            raise Stopped("its batch is a list of %d images" % len(each))
    return call.told or most_common(shapes_in([call.args, call.kwargs]))


def has_size(call: Call, size: int | None) -> bool:
    """Whether a dimension of some tensor among a call's arguments is so large, or as large as several of them."""
    shapes = shapes_in([call.args, call.kwargs])
    return size is None or any(each > 0 and each % size == 0 for shape in shapes for each in shape.shape)


def dimension_of(shape: Shape, batch: int, is_first: bool) -> int | None:
    """The dimension of a tensor that is the batch; None where it has none. `is_first`: other tensors of the call begin
    with it, so that it is the second one only in states of layers, and in indices (a row for each table, as offsets of
    bags of embeddings are)."""
    sizes = shape.shape
    if sizes[:1] == (batch,) and (is_first or sizes[1:2] != (batch,)):
        return 0
    if sizes[1:2] != (batch,):
        return None
    is_second = not is_first or sizes[0] > 1 and (len(sizes) > 2 or has_whole_numbers(shape))
    return 1 if is_second else None


def has_whole_numbers(shape: Shape) -> bool:
    return not (shape.dtype.is_floating_point or shape.dtype.is_complex)


def are_flat(call: Call, batch: int) -> bool:
    """Whether some tensor's first dimension is the batch times another, as where texts are laid end to end."""
    return batch > 1 and any(
        shape.shape[:1] != (batch,) and shape.shape and shape.shape[0] and shape.shape[0] % batch == 0
        for shape in shapes_in([call.args, call.kwargs])
    )


def is_list_of_images(value: Any) -> bool:
    """As detectors take them: of three dimensions, the first of them channels."""
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(each, Shape) and len(each.shape) == 3 and each.shape[0] in CHANNELS for each in value)
    )


def bytes_of(torch: Torch, value: Any, device: Any) -> int:
    """What the tensors of noted arguments take on a device; views of one tensor no more than that."""
    taken: dict[tuple[int, int], int] = {}
    for shape in shapes_in(value):
        if shape.device == device and shape.shape:
            size = elements(shape) * torch.empty((), dtype=shape.dtype, device="meta").element_size()
            taken[shape.storage] = taken.get(shape.storage, 0) + size
    return sum(min(size, storage[1]) for storage, size in taken.items())


def beside(call: Call, values: Any, batch: int) -> list[Shape]:
    """Of noted variables the tensors that are no arguments of the call, and grow with its batch."""
    given = {shape.identity for shape in shapes_in([call.args, call.kwargs])}
    found: dict[int, Shape] = {}
    for shape in shapes_in(values):
        if shape.identity not in given and dimension_of(shape, batch, True) is not None:
            found.setdefault(shape.identity, shape)
    return list(found.values())
