"""Creating tensors. Where the real functions fill them with numbers, these only allocate the memory."""
from . import _types
from ._storage import CPU
from ._tensor import Tensor
from ._types import Size, float32, int64


def _shape(size):
    return Size(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else Size(size)


def _make(size, dtype, device, requires_grad=False):
    made = Tensor._empty(size, dtype, CPU if device is None else _types.device(device))
    made._touch()
    made.requires_grad = requires_grad
    return made


def empty(*size, dtype=None, device=None, requires_grad=False):
    return _make(_shape(size), dtype or float32, device, requires_grad)


zeros = ones = rand = randn = empty


def full(size, fill_value, dtype=None, device=None):
    return _make(size, dtype or (int64 if isinstance(fill_value, int) else float32), device)


def randint(low, high=None, size=None, dtype=None, device=None):
    """(high, size) or (low, high, size)."""
    if size is None:
        high, size = None, high
    return _make(size, dtype or int64, device)


def arange(*bounds, dtype=None, device=None):
    return _make((len(range(*bounds)),), dtype or int64, device)


def tensor(data, dtype=None, device=None):
    shape = []
    inner = data
    while isinstance(inner, (list, tuple, bytes, bytearray)):
        shape.append(len(inner))
        if not inner:
            break
        inner = inner[0]
    return _make(shape, dtype or (int64 if isinstance(inner, int) else float32), device)


def frombuffer(buffer, dtype, count=-1, offset=0):
    length = (len(buffer) - offset) // dtype.itemsize
    return _make((length if count < 0 else count,), dtype, None)
