"""torch.cuda.memory: the allocator's figures, the snapshot, the history and the per-process fraction."""
from .. import _C
from ..simulation import snapshot as _snapshots
from . import _runtime


def memory_stats_as_nested_dict(device=None):
    return _C._cuda_memoryStats(0) if _runtime.is_initialized() else {}


def memory_stats(device=None):
    """Flattened and sorted, like the real one."""
    flat = {}

    def flatten(prefix, value):
        if isinstance(value, dict):
            for key, inner in value.items():
                flatten(prefix + "." + key if prefix else key, inner)
        else:
            flat[prefix] = value

    flatten("", memory_stats_as_nested_dict(device))
    return dict(sorted(flat.items()))


def _figure(name, field):
    if not _runtime.is_initialized():
        return 0
    return memory_stats_as_nested_dict()[name]["all"][field]


def memory_allocated(device=None):
    return _figure("allocated_bytes", "current")


def max_memory_allocated(device=None):
    return _figure("allocated_bytes", "peak")


def memory_reserved(device=None):
    return _figure("reserved_bytes", "current")


def max_memory_reserved(device=None):
    return _figure("reserved_bytes", "peak")


def reset_peak_memory_stats(device=None):
    _runtime.allocator().stats.reset_peaks()


def reset_accumulated_memory_stats(device=None):
    _runtime.allocator().stats.reset_accumulated()


def empty_cache():
    if _runtime.is_initialized():
        _runtime.allocator().empty_cache()


def mem_get_info(device=None):
    """(free, total) of the GPU; creates a context, like the real one."""
    _runtime.lazy_init()
    gpu = _runtime.gpu()
    return gpu.free, gpu.capacity


def get_allocator_backend():
    return "native"


def set_per_process_memory_fraction(fraction, device=None):
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError("Invalid fraction value: %s. Allowed range: 0~1" % fraction)
    _runtime.allocator().set_memory_fraction(fraction)


def get_per_process_memory_fraction(device=None):
    allowed = _runtime.allocator().allowed
    return 1.0 if allowed is None else allowed / _runtime.gpu().capacity


def memory_snapshot(mempool_id=None, include_traces=True):
    return _snapshot()["segments"]


def _record_memory_history(
    enabled="all", context="all", stacks="all", max_entries=2 ** 63 - 1, device=None, clear_history=False, **_
):
    """Python stacks of live blocks, and of events where all are asked for."""
    if enabled not in (None, "state", "all"):
        raise ValueError("Expected enabled to be one of None, 'state', 'all' but got %r" % (enabled,))
    if not _runtime.is_initialized():
        _runtime.lazy_init()
    _C._cuda_record_memory_history(enabled, context, stacks, max_entries, clear_history)


def _snapshot(device=None, augment_with_fx_traces=False):
    allocator = _runtime.allocator_if_made()
    if allocator is None:
        allocator = _runtime.allocator()
    return {
        "segments": _snapshots.take(allocator),
        "device_traces": [_snapshots.events(_runtime.history)],
        "allocator_settings": allocator.settings.as_dict(),
        "external_annotations": [],
    }


def memory_summary(device=None, abbreviated=False):
    stats = memory_stats_as_nested_dict()
    lines = ["simulated GPU: memory summary"]
    for name in ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes"):
        if stats:
            figure = stats[name]["all"]
            lines.append("%-22s current %d peak %d" % (name, figure["current"], figure["peak"]))
    return "\n".join(lines)
