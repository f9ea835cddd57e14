"""Storage: what connects a tensor to the allocator. It frees its block as soon as nothing refers to it.

CPython's reference counts decide when that is, as in the real torch; so a training that keeps a tensor too long keeps
its memory here for the same reason.
"""
from . import _types
from .cuda import _runtime


class Storage:
    """`size` bytes on a device; nothing is allocated on the CPU, since its memory is not watched here."""

    __slots__ = ("_block", "_size", "_device", "_allocator", "_frames", "__weakref__")

    def __init__(self, size, device):
        self._block = None
        self._allocator = self._frames = None
        self._size = size
        self._device = device
        if device.type == "cuda" and size:
            self._allocator = _runtime.allocator()
            self._frames = _runtime.history.frames()
            self._block = self._allocator.allocate(size, self._frames)
            _runtime.history.note("alloc", self._block, size, self._frames)

    def __del__(self):
        block = self._block
        if block is not None:
            self._block = None
            # As torch does: with the stack of the allocation, where none is taken of the free.
            for action in ("free_requested", "free_completed"):
                _runtime.history.note(action, block, self._size, self._frames)
            self._allocator.free(block)

    def nbytes(self):
        return self._size

    size = nbytes

    def data_ptr(self):
        if self._device.type == "cpu":
            return id(self)
        return 0 if self._block is None else self._block.address

    @property
    def device(self):
        return self._device


CPU = _types.device("cpu")
