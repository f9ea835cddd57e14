"""The sizes of a compiled graph at another batch than the one that it was compiled for: a size, or a shape, is the one
that some tensor of the program's own lines has there."""

from __future__ import annotations

import itertools

from .wrappers import Count, Formula, sizes_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

    from ..common.protocols import Torch
    from .wrappers import Form

# The sizes of elements.
ELEMENTS = (4, 2, 8, 1)
# Dimensions that may be multiples of the batch; more are no tensor's.
MOST = 6


class Sizes:
    """`batch`: the one that graphs were compiled for, and the rehearsed one; `sizes` and `shapes` are those of the
    tensors that there are at that."""

    def __init__(
        self, batch: tuple[int, int], sizes: set[int], shapes: Mapping[tuple[int, ...], set[Any]]
    ) -> None:
        self.was, self.now = batch
        self.sizes = sizes
        self.shapes = shapes

    def are_alike(self, shape: tuple[int, ...], compiled: tuple[Any, ...]) -> bool:
        """Whether one is the other at the rehearsed batch; what is a variable there may be anything."""
        if len(shape) != len(compiled):
            return False
        was, now = self.was, self.now
        return all(
            isinstance(b, Formula) or a == b or (a * was == b * now and b % was == 0) for a, b in zip(shape, compiled)
        )

    def bytes_at(self, count: Any, of_each: int, values: Mapping[str, int]) -> int:
        """Of a buffer with so many elements at the batch that it was compiled for."""
        if isinstance(count, Count):
            return count.at(values) * of_each
        was, now = self.was, self.now
        elements = int(count)
        if was == now:
            return elements * of_each
        for power in (1, 0, 2):
            scaled, rest = divmod(elements * now**power, was**power)
            if rest == 0 and any(scaled * size in self.sizes for size in (of_each, *ELEMENTS)):
                return scaled * of_each
        scaled, rest = divmod(elements * now, was)
        return (elements if rest else scaled) * of_each

    def form_at(self, form: Form, values: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape and strides of a tensor."""
        sizes, strides = sizes_at(form.sizes, values), sizes_at(form.strides, values)
        if any(isinstance(each, Formula) for each in form.sizes) or self.was == self.now:
            return sizes, strides
        shape = self.shape_at(sizes)
        if shape == sizes:
            return sizes, strides
        # As dense as it was: dimensions lie in memory in the same order.
        made = list(strides)
        step = 1
        for at in sorted(range(len(shape)), key=lambda at: (strides[at], shape[at])):
            if strides[at]:
                made[at] = max(step, 1)
                step = made[at] * shape[at]
        return shape, tuple(made)

    def shape_at(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        was, now = self.was, self.now
        grows = [at for at, size in enumerate(sizes) if size and size % was == 0][:MOST]
        # The batch itself first, and the fewest dimensions.
        chosen = [each for count in range(len(grows) + 1) for each in itertools.combinations(grows, count)]
        chosen.sort(key=lambda each: (len(each), [sizes[at] != was for at in each]))
        for each in chosen:
            shape = self.grown(sizes, each)
            if shape in self.shapes:
                return shape
        first = [at for at in grows if sizes[at] == was] or grows
        return self.grown(sizes, tuple(first[:1])) if now != was else sizes

    def grown(self, sizes: tuple[int, ...], places: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(size // self.was * self.now if at in places else size for at, size in enumerate(sizes))

    def type_of(self, torch: Torch, form: Form, shape: tuple[int, ...]) -> Any:
        if form.dtype is not None:
            return getattr(torch, form.dtype)
        return next(iter(self.shapes.get(shape, ())), torch.float32)
