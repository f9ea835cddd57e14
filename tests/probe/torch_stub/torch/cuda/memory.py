"""The recording, the snapshot, and what the allocator says of itself."""
import os

from .. import _C


def get_allocator_backend():
    return os.environ.get("STUB_BACKEND", "native")


def get_per_process_memory_fraction(device=0):
    return _C.devices[device].fraction


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=None, clear_history=False):
    entry = os.environ.get("STUB_ENTRY", "_cuda_record_memory_history")
    getattr(_C, entry)(enabled, context, stacks, max_entries, clear_history)


def _snapshot(device=None):
    segments = []
    for ordinal, of in enumerate(_C.devices):
        held = [
            {"address": owner, "size": size, "state": "active_allocated", "frames": frames}
            for owner, (size, frames) in of.blocks.items()
        ]
        free = [{"size": size, "state": "inactive", "frames": []} for size in of.free]
        segments.append({"device": ordinal, "segment_pool_id": (0, 0), "blocks": held + free})
    settings = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
    return {
        "segments": segments,
        "device_traces": [list(of.history) for of in _C.devices],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": settings,
            "expandable_segments": "expandable_segments:True" in settings,
        },
    }
