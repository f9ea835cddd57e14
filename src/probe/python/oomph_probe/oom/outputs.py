"""How many elements the layers of a running forward have made: read from the autograd graph behind the tensors that its
frames hold. Only looks: nothing that was saved is unpacked, no tensor is made, and nodes are let go of at the end.
"""

from __future__ import annotations

import math
import time

from ..common import errors, frames
from ..live import graphs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from ..common.protocols import Module, Torch

# A walk that takes longer is left: what it has found by then counts.
PATIENCE = 0.15
MOST_NODES = 50000
BETWEEN_LOOKS = 500
# Of a container in a frame so many entries are looked at.
MOST_ENTRIES = 200


def of(torch: Torch, path: list[tuple[FrameType, Module]], stack: list[FrameType]) -> Walk:
    """What is behind the tensors of these frames; empty where nothing can be told."""
    walk = Walk()
    outermost = path[-1][0]
    inside = stack[: stack.index(outermost) + 1]
    try:
        with graphs.without_overrides(torch):
            nodes: list[Any] = []
            for frame in inside:
                nodes.extend(frames.read_locals(frame, lambda values: ends_of(torch, values)))
            walk.through(nodes)
    except Exception:
        errors.ours("what layers have made")
    walk.nodes.clear()
    walk.laid_out.clear()
    return walk


def ends_of(torch: Torch, values: dict[str, Any]) -> list[Any]:
    """The nodes that made the tensors among a frame's locals, those in plain containers too."""
    made_by: Any = getattr(torch.Tensor, "grad_fn", None)
    found: list[Any] = []
    for value in list(values.values()) if made_by is not None else ():
        kind = type(value)
        if kind in (list, tuple):
            some = list(value[:MOST_ENTRIES])
        elif kind is dict:
            some = list(value.values())[:MOST_ENTRIES]
        else:
            some = [value]
        for each in some:
            if torch.Tensor in type(each).__mro__:
                node = made_by.__get__(each)
                if node is not None:
                    found.append(node)
    return found


class Walk:
    """One way through the graph: inputs before what was made of them."""

    def __init__(self) -> None:
        self.until = time.monotonic() + PATIENCE
        # By id of a node, the node itself: its wrapper's identity lasts as long as it is held.
        self.nodes: dict[int, Any] = {}
        # By id of a node: the parameter that it only lays out otherwise (transposed, in another precision).
        self.laid_out: dict[int, Any] = {}
        # By the id of a parameter: the elements of each output that was made with it.
        self.made: dict[int, list[int]] = {}
        # The least first dimension of such an output, where it has three or more.
        self.batch: int | None = None

    def through(self, ends: list[Any]) -> None:
        todo = [(each, False) for each in ends]
        while todo:
            node, is_second = todo.pop()
            if is_second:
                self.look(node)
                continue
            if id(node) in self.nodes:
                continue
            if len(self.nodes) >= MOST_NODES:
                break
            if len(self.nodes) % BETWEEN_LOOKS == BETWEEN_LOOKS - 1 and time.monotonic() > self.until:
                break
            self.nodes[id(node)] = node
            todo.append((node, True))
            todo.extend((each, False) for each, _ in getattr(node, "next_functions", ()) if each is not None)

    def look(self, node: Any) -> None:
        parameter = getattr(node, "variable", None) if type(node).__name__ == "AccumulateGrad" else None
        if parameter is not None:
            self.laid_out[id(node)] = parameter
            return
        before = [self.laid_out.get(id(each)) for each, _ in node.next_functions if each is not None]
        given = [each for each in before if each is not None]
        if not given:
            return
        shape = shape_of(node)
        if shape is None:
            return
        count = math.prod(shape)
        if len(before) == 1 and count == given[0].numel():
            self.laid_out[id(node)] = given[0]
            return
        for each in given:
            # As large as the parameter itself: weights that are normed or scaled.
            if count != each.numel():
                self.made.setdefault(id(each), []).append(count)
                if len(shape) > 2:
                    self.batch = min(shape[0], self.batch or shape[0])
            elif len(given) == len(before):
                self.laid_out[id(node)] = each


def shape_of(node: Any) -> tuple[int, ...] | None:
    """Of a node's first output; None where it does not say (before torch 2.1)."""
    told = getattr(node, "_input_metadata", None)
    if not told:
        return None
    shape = tuple(told[0].shape)
    return shape if all(type(each) is int for each in shape) else None
