"""A stand-in for PyTorch on a simulated GPU, used only by demo/train.py.

Put on the path only after demo/train.py found no usable torch, so that oomph can be tried without an NVIDIA GPU.
Tensors have sizes but no numbers; the caching allocator underneath follows PyTorch's own rules, so the probe, the
scanner and the remedies meet the behaviour of the real one. Nothing it prints is a measurement of a GPU. Standard
library only, Python 3.8 and later.
"""
from . import _types
from ._types import Size, bfloat16, device, dtype, float16, float32, float64, int32, int64, uint8
from ._types import bool_ as bool
from ._tensor import Tensor, is_tensor
from .autograd import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from .simulation.errors import AcceleratorError, OutOfMemoryError
from .version import __version__
from . import _C, amp, autograd, cuda, nn, optim, serialization, utils, version
from .serialization import load, save
from .amp import (
    autocast,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from ._creation import (
    arange,
    empty,
    frombuffer,
    full,
    ones,
    rand,
    randint,
    randn,
    tensor,
    zeros,
)

long = int64
float = float32
half = float16


def manual_seed(seed):
    """Seeds the simulated loss, the only random thing here."""
    cuda.manual_seed(seed)


def set_float32_matmul_precision(precision):
    """Accepted and ignored: the simulated GPU has one speed."""
    if precision not in ("highest", "high", "medium"):
        raise ValueError("precision must be one of highest, high, medium")


def get_default_dtype():
    return float32
