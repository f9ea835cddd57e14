"""Sparse gradients of a rehearsal (`nn.Embedding(sparse=True)`): tensors of two parts, indices and values, whose rows
an optimizer takes once each.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Line, Module, Storage, Torch

# Tensors as large as a gradient's rows that the step of one parameter makes at once: what it is coalesced to, the
# states' rows and what these become (torch/optim/_functional.py, adagrad.py). SGD adds it as it is.
MADE = {"SparseAdam": 5, "Adagrad": 4, "SGD": 0}
MOST_MADE = 5


def storages(torch: Torch, tensor: Any) -> list[Storage]:
    """What a tensor lies in."""
    if tensor.layout != torch.sparse_coo:
        return [tensor.untyped_storage()]
    with torch._C._DisableTorchDispatch():
        return [tensor._indices().untyped_storage(), tensor._values().untyped_storage()]


def are_added(torch: Torch, name: str, args: Any) -> bool:
    """Whether it is the sum of two gradients, which torch's fakes say to be empty."""
    return name == "add" and all(getattr(each, "layout", None) == torch.sparse_coo for each in args[:2])


def added(torch: Torch, one: Any, other: Any) -> Any:
    """Their parts one behind the other."""
    indices = torch.cat([one._indices(), other._indices()], 1)
    values = torch.cat([one._values(), other._values()])
    return torch.sparse_coo_tensor(indices, values, one.shape, check_invariants=False)


def made_by_a_step(torch: Torch, module: Module, optimizer: Line | None) -> list[int]:
    """The bytes that an optimizer's step takes at the most for each of the sparse gradients. Rows that come several
    times are added first: how many are left, their values say."""
    count = MOST_MADE if optimizer is None else MADE.get(optimizer["class"], MOST_MADE)
    found = []
    for parameter in module.parameters():
        gradient: Any = parameter.grad
        if gradient is None or gradient.layout != torch.sparse_coo:
            continue
        with torch._C._DisableTorchDispatch():
            values = gradient._values()
        found.append(count * values.numel() * values.element_size())
    return found
