"""Autocast: which operations run in low precision, and the cache of the weights' casts.

The lists are the real ones, reduced to the operations that exist here. They alone decide memory under AMP: linear
layers, convolutions and attention save 16-bit tensors; normalisation and losses stay in float32 and save float32; every
weight has a low-precision copy until the outermost context ends.
"""
import threading

from .. import _types


class _State(threading.local):
    dtype = None
    depth = 0
    cache = None


_state = _State()


class autocast:
    """`with torch.autocast("cuda", dtype=torch.bfloat16):`, also as a decorator."""

    def __init__(self, device_type="cuda", dtype=None, enabled=True, cache_enabled=True):
        if isinstance(device_type, str) and device_type != "cuda":
            enabled = False
        self.dtype = (dtype or _types.float16) if enabled else None

    def __enter__(self):
        self.before = _state.dtype
        _state.dtype = self.dtype
        _state.depth += 1
        if _state.cache is None:
            _state.cache = {}
        return self

    def __exit__(self, *_):
        _state.dtype = self.before
        _state.depth -= 1
        if not _state.depth:
            clear_autocast_cache()

    def __call__(self, function):
        def wrapped(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return wrapped


def is_autocast_enabled(device_type="cuda"):
    return _state.dtype is not None


def set_autocast_enabled(device_type, enabled=None):
    on = device_type if enabled is None else enabled
    _state.dtype = (_state.dtype or _types.float16) if on else None
    if _state.cache is None:
        _state.cache = {}


def set_autocast_dtype(device_type, dtype):
    if _state.dtype is not None:
        _state.dtype = dtype


def get_autocast_dtype(device_type="cuda"):
    return _state.dtype or _types.float16


def clear_autocast_cache():
    _state.cache = {}


def lowered(*tensors):
    """The arguments of an operation on the low-precision list, cast if autocast is on."""
    return [_cast(tensor) for tensor in tensors]


def _cast(tensor):
    dtype = _state.dtype
    if tensor is None or dtype is None or tensor.dtype is not _types.float32:
        return tensor
    if not (tensor.is_leaf and tensor.requires_grad):
        return tensor.to(dtype)
    cached = _state.cache.get(id(tensor))
    if cached is None:
        cached = tensor.to(dtype)
        # The tensor is kept beside its cast, so that its id is not reused.
        _state.cache[id(tensor)] = cached = (tensor, cached)
    return cached[1]


def raised(tensor):
    """The argument of an operation on the float32 list."""
    if _state.dtype is not None and tensor.dtype in (_types.bfloat16, _types.float16):
        return tensor.to(_types.float32)
    return tensor
