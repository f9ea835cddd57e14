"""The snapshot: segments and blocks as `torch.cuda.memory._snapshot` describes them, and the lines that allocated them.

Frames are recorded at the allocation as (code, line) pairs and only formatted when a snapshot is requested, since most
never are.
"""
import os
import sys
import time
from collections import deque

TORCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What is C++ in the real torch has no frames there.
WITHOUT_FRAMES = {os.path.join(TORCH, name) for name in ("_creation.py", "_operation.py", "_storage.py", "_tensor.py")}


class History:
    """Whether allocations record their Python stack, and the events that are kept:
    `torch.cuda.memory._record_memory_history`."""

    def __init__(self):
        self.enabled = False
        self.in_backward = False
        # A ring of the latest events; None where none are kept.
        self.events = None

    def record(self, enabled, context, max_entries, clear_history):
        self.enabled = enabled is not None and context is not None
        if clear_history or enabled != "all":
            self.events = None
        if enabled == "all" and (self.events is None or self.events.maxlen != max_entries):
            self.events = deque(self.events or (), maxlen=max_entries)

    def note(self, action, block, size, frames=None):
        """One event, if they are kept."""
        if self.events is not None:
            self.events.append((action, block.address, size, time.time_ns() // 1000, frames))

    def frames(self):
        """The stack of the caller, innermost first; none in backward, whose threads have no Python frames."""
        if not self.enabled or self.in_backward:
            return None
        frames = []
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename in WITHOUT_FRAMES:
            frame = frame.f_back
        while frame is not None:
            frames.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        return frames


def spelled_out(frames):
    """Frames as the snapshot lists them."""
    return [
        {"filename": code.co_filename, "line": line, "name": code.co_name} for code, line in frames or ()
    ]


def events(history):
    """The events as the snapshot lists them, the oldest first."""
    return [
        {"action": action, "addr": address, "size": size, "stream": 0, "time_us": at, "frames": spelled_out(frames)}
        for action, address, size, at, frames in list(history.events or ())
    ]


def take(allocator):
    """The list of segments. Unmapped ranges are left out, as in the real one: a segment begins where one ends."""
    segments = []
    with allocator.lock:
        for head in allocator.segments():
            current = None
            block = head
            while block is not None:
                if not block.mapped:
                    current = None
                else:
                    if current is None:
                        current = _segment(allocator, block)
                        segments.append(current)
                    _add(current, block)
                block = block.next
    return segments


def _segment(allocator, block):
    return {
        "device": allocator.device,
        "address": block.address,
        "total_size": 0,
        "allocated_size": 0,
        "active_size": 0,
        "requested_size": 0,
        "stream": 0,
        "segment_type": "small" if block.pool.small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": block.expandable is not None,
        "frames": spelled_out(block.segment_frames),
        "blocks": [],
    }


def _add(segment, block):
    segment["total_size"] += block.size
    if block.allocated:
        segment["allocated_size"] += block.size
        segment["active_size"] += block.size
        segment["requested_size"] += block.requested
    segment["blocks"].append(
        {
            "address": block.address,
            "size": block.size,
            "requested_size": block.requested,
            "state": "active_allocated" if block.allocated else "inactive",
            "frames": spelled_out(block.frames),
        }
    )
