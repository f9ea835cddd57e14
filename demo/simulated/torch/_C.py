"""The few functions of torch's C extension that tools call directly."""
import types

from .autograd.saved import SavedTensor
from .cuda import _runtime

_autograd = types.SimpleNamespace(SavedTensor=SavedTensor, _saved_tensors_hooks_is_enabled=lambda: True)
# There are no transforms of torch.func.
_functorch = types.SimpleNamespace(peek_interpreter_stack=lambda: None)


def _cuda_memoryStats(device):
    """The nested statistics. Initialises nothing."""
    allocator = _runtime.allocator_if_made()
    if allocator is None or device != 0:
        raise RuntimeError("Invalid device argument %s: did you call init?" % device)
    return allocator.statistics()


def _cuda_attach_out_of_memory_observer(observer):
    """observer(device, requested, total or allowed, device free); there is no way to detach it."""
    _runtime.lazy_init()
    _runtime.allocator_if_made().observers.append(observer)


def _cuda_record_memory_history(enabled, context, stacks, max_entries, clear_history=False, *_):
    _runtime.history.record(enabled, context, max_entries, clear_history)


def _cuda_isHistoryEnabled():
    return _runtime.history.enabled


def _cuda_getDeviceCount():
    return 1


def _cuda_isInBadFork():
    return _runtime.in_bad_fork()


def _cuda_emptyCache():
    if _runtime.is_initialized():
        _runtime.allocator().empty_cache()


def _cuda_init():
    _runtime.lazy_init()
