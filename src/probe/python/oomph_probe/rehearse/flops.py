"""Floating-point operations of an operator by the shapes of its tensors, as torch.utils.flop_counter counts
them: matrix products, convolutions and attention; all else is small beside these. torch's own module is not
imported, since that imports triton, which takes time and may print a warning.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Args, Tensor
# Of attention's forward: its backward multiplies five times where it multiplies twice.
ATTENTION_BACKWARD = 2.5


def of(name: str, args: Args) -> int:
    """Of one call; `name` without its namespace and overload."""
    if name in PRODUCTS:
        left, right = args[PRODUCTS[name]], args[PRODUCTS[name] + 1]
        return 2 * left.numel() * right.shape[-1]
    if name == "linear":
        return 2 * args[0].numel() * args[1].shape[0]
    if name in ("convolution", "_convolution"):
        return convolution(args[0], args[1], args[6], made_by(args))
    if name == "convolution_backward":
        made, given, weight, mask = args[0], args[1], args[2], args[10]
        return (bool(mask[0]) + bool(mask[1])) * convolution(given, weight, args[7], made.shape)
    if name.startswith("_scaled_dot_product"):
        is_backward = "backward" in name
        query, key, value = args[1:4] if is_backward else args[:3]
        each = query.shape[-1] + value.shape[-1]
        forward = 2 * (query.numel() // query.shape[-1]) * key.shape[-2] * each
        return int(forward * ATTENTION_BACKWARD) if is_backward else forward
    return 0


# Where the first factor stands.
PRODUCTS = {"mm": 0, "bmm": 0, "_scaled_mm": 0, "addmm": 1, "addmm_": 1, "baddbmm": 1, "baddbmm_": 1}


def convolution(given: Any, weight: Tensor, is_transposed: bool, made: Any) -> int:
    """Every weight is used once at each place of the output, of the input where it is transposed."""
    places = tuple(given.shape[2:] if is_transposed else made[2:])
    count = 2 * given.shape[0] * weight.numel()
    for each in places:
        count *= each
    return count


def made_by(args: Args) -> tuple[int, ...]:
    """The shape of a convolution's output."""
    given, weight, _, stride, padding, dilation = args[:6]
    places = []
    for place, size in enumerate(given.shape[2:]):
        kernel = each_of(dilation, place) * (weight.shape[2 + place] - 1) + 1
        places.append((size + 2 * each_of(padding, place) - kernel) // each_of(stride, place) + 1)
    return (given.shape[0], weight.shape[0], *places)


def each_of(values: list[int], place: int) -> int:
    return values[place] if len(values) > place else values[-1]
