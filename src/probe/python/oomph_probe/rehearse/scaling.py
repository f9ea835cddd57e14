"""The sizes of a compiled graph at another batch than the one that it was compiled for: a size, or a shape, is the one
that some tensor of the program's own lines has there."""

from __future__ import annotations

import itertools

from .wrappers import Count, Formula, sizes_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Mapping

    from ..common.protocols import Torch
    from .wrappers import Form, Graph

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

    def has_variable_batch(self, graph: Graph, values: Mapping[str, int]) -> bool:
        """Whether the batch is among a graph's variables: what else it has is as large at any."""
        if graph.batch_is_variable is None:
            graph.batch_is_variable = any(value and value % self.now == 0 for value in values.values())
        return graph.batch_is_variable

    def bytes_at(self, graph: Graph, taken: tuple[Any, ...], values: Mapping[str, int]) -> int:
        """Of one of a graph's buffers, by the event that it is taken with: so many elements at the batch that it was
        compiled for."""
        was, now = self.was, self.now
        _, number, count, of_each = taken
        elements = count.at(values) if isinstance(count, Count) else int(count)
        if was == now or self.has_variable_batch(graph, values):
            return int(elements) * of_each
        power = graph.powers.get(number)
        if power is None:
            power = graph.powers[number] = self.power_of(elements, of_each)
        return int(elements * now**power // was**power) * of_each

    def power_of(self, elements: int, of_each: int) -> int:
        """With which power of the batch a buffer grows, by what there is at the rehearsed one. Once known it stays: the
        first rehearsal is at a multiple of a prime (sizes.py), and at others a copy of a weight may be as large as
        half of another one."""
        was, now = self.was, self.now
        for kinds in ((of_each,), ELEMENTS):
            for power in (1, 0, 2):
                scaled, rest = divmod(elements * now**power, was**power)
                if rest == 0 and any(scaled * size in self.sizes for size in kinds):
                    return power
        return 0 if elements * now % was else 1

    def form_at(self, graph: Graph, form: Form, values: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape and strides of a tensor."""
        sizes, strides = sizes_at(form.sizes, values), sizes_at(form.strides, values)
        if self.was == self.now or self.has_variable_batch(graph, values):
            return sizes, strides
        if form.growing is None:
            form.growing = self.growing(sizes)
        shape = self.grown(sizes, form.growing)
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

    def growing(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The dimensions that grow with the batch."""
        was = self.was
        grows = [at for at, size in enumerate(sizes) if size and size % was == 0][:MOST]
        # The batch itself first, and the fewest dimensions.
        chosen = [each for count in range(len(grows) + 1) for each in itertools.combinations(grows, count)]
        chosen.sort(key=lambda each: (len(each), [sizes[at] != was for at in each]))
        for each in chosen:
            if self.grown(sizes, each) in self.shapes:
                return each
        first = [at for at in grows if sizes[at] == was] or grows
        return tuple(first[:1])

    def grown(self, sizes: tuple[int, ...], places: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(size // self.was * self.now if at in places else size for at, size in enumerate(sizes))

    def type_of(self, torch: Torch, form: Form, shape: tuple[int, ...]) -> Any:
        if form.dtype is not None:
            return getattr(torch, form.dtype)
        return next(iter(self.shapes.get(shape, ())), torch.float32)
