"""A GPU of some size, played on a CPU: what the tensors of a program take is counted, and an operation that would need more
than there is runs out of memory.
"""
import contextlib
import types

import rehearse  # noqa: F401
import torch
from _oomph_probe.rehearse import apart, rehearsal, trace


class Counted(trace.Trace):
    """Allocations of a program; `size` bytes are there."""

    def __init__(self, device, size):
        super().__init__(device)
        self.size = size

    def allocate(self, storage):
        super().allocate(storage)
        if self.allocated > self.size:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate %d bytes." % storage.nbytes())


class Card:
    """`with Card(size) as card:` counts what is allocated in it; `card.peak` is the most at once."""

    def __init__(self, size=float("inf")):
        call = types.SimpleNamespace(args=[], kwargs={}, device=torch.device("cpu"))
        self.one = rehearsal.Rehearsal(torch, call, rehearsal.Variant(), apart.Deadline(float("inf")))
        self.trace = self.one.trace = Counted(call.device, size)
        self.before = torch._C.__dict__.get("_cuda_memoryStats")

    def __enter__(self):
        torch._C._cuda_memoryStats = lambda device: {"allocated_bytes": {"all": {"current": self.trace.allocated}}}
        self.one.accumulation.measure(contextlib.nullcontext())
        self.mode = self.one.recorder()
        self.mode.__enter__()
        return self

    def __exit__(self, *error):
        self.mode.__exit__(*error)
        torch._C._cuda_memoryStats = self.before

    @property
    def peak(self):
        return self.trace.peak
