"""What a tensor keeps alive through its autograd graph: the tensors that were saved for a backward which never
came. Only looks: nothing that was saved is unpacked, since that would call the program's hooks.
"""

from __future__ import annotations

import contextlib
import time

from ..common import errors
from . import structure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    from ..common.protocols import Tensor, Torch

# Nodes of all graphs together, and how many are walked between two looks at the clock.
MOST_NODES = 200000
BETWEEN_LOOKS = 1000


class Graphs:
    """The graphs of one process at one moment. Holds their nodes, and so the graphs, while it lives: a node's
    wrapper in Python, and with it its identity, would otherwise last no longer than the look at it."""

    def __init__(self, torch: Torch, blocks: dict[int, int], until: float) -> None:
        self.torch = torch
        self.blocks = blocks
        self.until = until
        self.nodes: dict[Any, Any] = {}
        self.names: dict[Any, Any] = {}
        # Before some torch of 2.x a saved tensor could only be unpacked.
        saved = getattr(getattr(torch._C, "_autograd", None), "SavedTensor", None)
        self.tells_data = hasattr(saved, "data")
        # Where it can't be told what was saved: the blocks of tensors by the node that made them.
        self.made: dict[Any, Any] = {}

    def made_by(self, tensor: Tensor, address: int) -> None:
        """Says what a node made, so far as a Python object is left of it."""
        if not self.tells_data and tensor.grad_fn is not None:
            self.nodes[id(tensor.grad_fn)] = tensor.grad_fn, None
            self.made.setdefault(id(tensor.grad_fn), set()).add(address)

    def behind(self, tensor: Tensor, seen: set[int]) -> set[int]:
        """The addresses of the blocks that the graph behind a tensor keeps, as far as no node of `seen` does."""
        addresses = set()
        nodes = [tensor.grad_fn]
        while nodes:
            node = nodes.pop()
            if node is None or id(node) in seen:
                continue
            seen.add(id(node))
            kept, following = self.look(node)
            addresses |= kept
            nodes.extend(following)
            if len(seen) % BETWEEN_LOOKS == 0 and time.monotonic() > self.until:
                break
        return addresses

    def saved_behind(self, tensor: Tensor) -> list[Tensor]:
        """What the graph behind a tensor has saved that was not told before; without parameters, which begin it."""
        found, nodes = [], [tensor.grad_fn]
        while nodes and time.monotonic() <= self.until:
            node = nodes.pop()
            if node is None or id(node) in self.nodes:
                continue
            self.nodes[id(node)] = node, None
            found += list(self.tensors_of(node))
            nodes += [each for each, _ in getattr(node, "next_functions", ())]
        return found

    def look(self, node: Any) -> tuple[set[int], list[Any]]:
        """What a node has saved, and the nodes behind it."""
        known = self.nodes.get(id(node))
        if known is None or known[1] is None:
            if len(self.nodes) >= MOST_NODES:
                return set(), []
            following = [each for each, _ in getattr(node, "next_functions", ())]
            known = self.nodes[id(node)] = node, (self.saved(node), following)
        return known[1]

    def saved(self, node: Any) -> set[int]:
        found = set(self.made.get(id(node), ()))
        for tensor in self.tensors_of(node):
            address = self.address_of(tensor)
            if address in self.blocks:
                found.add(address)
        return found

    def tensors_of(self, node: Any) -> Iterator[Tensor]:
        # What a Function of the program's own has put on its context.
        own = getattr(node, "__dict__", None)
        if own:
            yield from (each for each in list(own.values()) if issubclass(type(each), self.torch.Tensor))
        if not self.tells_data:
            return
        for name in self.names_of(type(node)):
            try:
                value = getattr(node, name)
                for saved in value if isinstance(value, (tuple, list)) else (value,):
                    data = saved.data
                    if data is not None:
                        yield data
            except Exception:
                # Freed by its backward, or changed in place since.
                errors.foreseen("what a node has saved")
                continue

    def names_of(self, kind: type) -> list[str]:
        names = self.names.get(kind)
        if names is None:
            names = self.names[kind] = [name for name in dir(kind) if name.startswith("_raw_saved_")]
        return names

    def address_of(self, tensor: Tensor) -> int | None:
        """Where its block is; None for tensors that have none, and those that are only copied once written to."""
        try:
            if getattr(self.torch._C, "_is_cow_tensor", is_not)(tensor):
                return None
            return structure.address_of(tensor)
        except Exception:
            errors.foreseen("address of a tensor")
            return None


def is_not(_: object) -> bool:
    return False


def without_overrides(torch: Torch) -> Any:
    """A context in which no `__torch_function__` of the program's is called, neither a mode's nor a subclass's."""
    context = getattr(torch._C, "DisableTorchFunction", None)
    return context() if context is not None else contextlib.nullcontext()
