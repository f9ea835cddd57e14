"""torch.cuda on the simulated GPU: initialised as late as the real one, memory figures from its allocator."""
from .. import _types
from ..simulation.errors import OutOfMemoryError
from . import _runtime, memory
from ._runtime import DeferredCudaCallError
from .memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)


class _DeviceProperties:
    """The result of get_device_properties; the fields that name the GPU say that it is simulated."""

    def __init__(self, gpu):
        self.name = gpu.name
        self.total_memory = gpu.capacity
        self.uuid = gpu.uuid
        self.major, self.minor = 0, 0
        self.multi_processor_count = 1

    def __repr__(self):
        return "_CudaDeviceProperties(name='%s', total_memory=%dMB, uuid=%s)" % (
            self.name,
            self.total_memory >> 20,
            self.uuid,
        )


is_initialized = _runtime.is_initialized
_is_in_bad_fork = _runtime.in_bad_fork
_lazy_call = _runtime.lazy_call
_lazy_init = _runtime.lazy_init
init = _runtime.lazy_init


def is_available():
    return True


def device_count():
    return 1


def current_device():
    _runtime.lazy_init()
    return 0


def set_device(device):
    _runtime.lazy_init()
    _index(device)


def _index(device):
    index = 0 if device is None else _types.device(device).index or 0
    if index != 0:
        raise RuntimeError("CUDA error: invalid device ordinal (simulated: there is one device)")
    return index


def get_device_properties(device=None):
    _runtime.lazy_init()
    _index(device)
    return _DeviceProperties(_runtime.gpu())


def get_device_name(device=None):
    return get_device_properties(device).name


def get_device_capability(device=None):
    return 0, 0


def is_bf16_supported(including_emulation=True):
    return True


def synchronize(device=None):
    _runtime.lazy_init()
    _runtime.gpu().wait()


def manual_seed(seed):
    def set_seed():
        _runtime.loss.seed = seed

    _runtime.lazy_call(set_seed)


manual_seed_all = manual_seed


def is_current_stream_capturing():
    """There are no graphs."""
    return False


__all__ = [name for name in dir() if not name.startswith("_")]
