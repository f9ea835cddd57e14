"""What cuDNN takes beside the tensors of a convolution, and gives back before it returns. It goes on with less where
there is no room, so it is no need; but where there is, it is what a step's peak is made of.

Measured of 58 convolutions of 1 to 3 dimensions in fp32 (with TF32) and bf16, forward and backward (torch 2.11, cuDNN
9.19, H200). Its kernels read and write channels last: input and output are copied, so in most the workspace is both of
them and the weight. What is laid out so already takes next to nothing, and so do windows of one point (a product of
matrices) and channels of their own. Two of three forward passes in one dimension, and some with a stride, write their
output in place. Where algorithms are tried first it takes what is there: that is counted elsewhere.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

    from ..common.protocols import Torch

BACKWARD = "convolution_backward"
NAMES = ("convolution", BACKWARD)
# With fewer input channels it reads them as they are, unless the window is wide.
LEAST_CHANNELS, WIDE = 4, 7
# Where not, they are filled up to so many, in half precision and in fp32.
PADDED = (8, 4)
# A product of matrices needs rows of so many elements.
ALIGNED = 4


def dtypes_with(torch: Torch) -> frozenset[Any]:
    """The types of numbers that kernels are for which take one, as cuDNN is set."""
    cudnn: Any = torch.backends.cudnn
    if not cudnn.enabled or cudnn.benchmark:
        return frozenset()
    return frozenset([torch.float16, torch.bfloat16, *([torch.float32] if may_use_tf32(cudnn) else [])])


def may_use_tf32(cudnn: Any) -> bool:
    """What torch 2.9 on has for convolutions alone; to ask for both kinds there is an error where they differ."""
    precision = getattr(getattr(cudnn, "conv", None), "fp32_precision", None)
    return bool(cudnn.allow_tf32) if precision is None else precision == "tf32"


def workspace(single: Any, name: str, args: Sequence[Any], made: Any) -> int:
    """Its bytes, without the weight's copy, which is small beside them; 0 where it takes next to nothing. `single` is
    the type of fp32, `made` a forward's output."""
    is_backward = name == BACKWARD
    source, weight = args[1:3] if is_backward else args[:2]
    stride, is_transposed, groups = (args[4], args[7], args[9]) if is_backward else (args[3], args[6], args[8])
    is_single = source.dtype == single
    if is_channels_last(source, weight):
        return 0
    window, channels = list(weight.shape[2:]), source.shape[1]
    takes_in = bytes_of(source)
    takes_out = bytes_of(args[0] if is_backward else made)
    if groups > 1 and groups == channels:
        return 0
    if max(window) == 1 and max(stride) == 1:
        points = 1
        for size in source.shape[2:]:
            points *= size
        return takes_in + takes_out if is_backward and points % ALIGNED else 0
    if channels < LEAST_CHANNELS:
        if max(window) < WIDE and (is_single or not is_backward):
            return 0
        return takes_in * PADDED[is_single] // channels + takes_out
    if not is_backward and len(window) == 1 and not is_transposed:
        return takes_in
    return takes_in + takes_out


def is_channels_last(*tensors: Any) -> bool:
    return any(each.stride(1) == 1 and each.shape[1] > 1 and not each.is_contiguous() for each in tensors)


def bytes_of(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())
