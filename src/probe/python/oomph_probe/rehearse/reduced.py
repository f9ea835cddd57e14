"""Losses that torch computes in what they return (ATen's Loss.cpp and cuda/Loss.cu): the single number that they are
reduced to keeps the memory of all of their elements as long as it is there, which nothing in its shape says.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Args, Torch

# Where their reduction stands among the arguments, and whether they take as much again for a moment.
LOSSES = {
    "mse_loss": (2, True),
    "smooth_l1_loss": (2, True),
    "binary_cross_entropy": (3, False),
    "soft_margin_loss": (2, False),
}
NOT_REDUCED = 0


def is_one(name: str, args: Args) -> bool:
    """Whether an operator is such a loss, and reduced to one number."""
    return name in LOSSES and (len(args) <= LOSSES[name][0] or args[LOSSES[name][0]] != NOT_REDUCED)


def over_all_elements(torch: Torch, name: str, args: Args, returned: Any) -> tuple[Any, int]:
    """What a loss returns, over memory of that size, and the bytes that it takes for a moment beside it."""
    takes_more = LOSSES[name][1]
    if returned.dim() or not is_one(name, args):
        return returned, 0
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    made = torch.empty(shape, dtype=returned.dtype, device=returned.device)
    taken = made.untyped_storage().nbytes() if takes_more else 0
    return made.as_strided((), ()), taken
