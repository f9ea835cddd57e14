"""What torch has in C++: memory as a number, its statistics, observers, and stacks of blocks."""
import os
import sys
import time

CAPACITY = 1 << 30
DEVICES = 2


class OutOfMemoryError(RuntimeError):
    pass


class Device:
    def __init__(self):
        self.blocks = {}
        self.free = []
        self.allocated = self.peak = self.reserved = self.reserved_peak = 0
        self.ooms = self.allocations = 0
        self.fraction = 1.0
        self.history, self.next = [], 0

    def happened(self, action, owner, size, stack=()):
        """An event of the history, which is torch's ring with its fault: made smaller after it has wrapped,
        it writes behind its end."""
        if recording[0] is None:
            return
        event = {
            "action": action, "addr": owner, "size": size, "stream": 0,
            "time_us": time.time_ns() // 1000, "frames": list(stack),
        }
        if len(self.history) < entries[0]:
            self.history.append(event)
            return
        if self.next >= len(self.history):
            os.abort()
        self.history[self.next] = event
        self.next += 1
        if self.next == entries[0]:
            self.next = 0


devices = [Device() for _ in range(DEVICES)]
observers = []
grad_enabled = [True]
recording = [None]
context = [None]
entries = [1]
initialised = [False]
contexts = set()


class Tensor:
    """Bytes on a device (or on the host, which costs nothing here)."""

    dtype = "torch.uint8"
    requires_grad = True

    def __init__(self, size, device=0, is_cuda=True):
        self.size, self.is_cuda, self.grad, self.grad_fn = size, is_cuda, None, None
        self.device = type("device", (), {"index": device if is_cuda else None})
        if is_cuda:
            allocate(self, size, device, sys._getframe(1))

    @property
    def shape(self):
        return (self.size,)

    def numel(self):
        return self.size

    def element_size(self):
        return 1

    def data_ptr(self):
        return id(self)

    def __del__(self):
        if self.is_cuda and id(self) in devices[self.device.index].blocks:
            device = devices[self.device.index]
            size, _ = device.blocks.pop(id(self))
            device.allocated -= size
            device.free.append(size)
            device.happened("free_completed", id(self), size)


def empty(size, device=0):
    return Tensor(size, device)


def allocate(owner, size, ordinal, frame):
    from . import cuda

    cuda._lazy_init()
    contexts.add(ordinal)
    device = devices[ordinal]
    allowed = int(CAPACITY * device.fraction)
    if device.allocated + size > allowed:
        owner.is_cuda = False
        out_of_memory(ordinal, size, allowed)
    stack = []
    while recording[0] and context[0] and frame is not None:
        code = frame.f_code
        stack.append({"filename": code.co_filename, "line": frame.f_lineno, "name": code.co_name})
        frame = frame.f_back
    if size in device.free:
        device.free.remove(size)
    device.blocks[id(owner)] = (size, stack)
    device.happened("alloc", id(owner), size, stack)
    device.allocated += size
    device.allocations += 1
    device.peak = max(device.peak, device.allocated)
    device.reserved = device.allocated + sum(device.free)
    device.reserved_peak = max(device.reserved_peak, device.reserved)


def out_of_memory(ordinal, size, allowed):
    device = devices[ordinal]
    device.ooms += 1
    for observer in observers:
        observer(ordinal, size, allowed, CAPACITY - device.reserved)
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate %d bytes" % size)


def _cuda_memoryStats(ordinal):
    if not initialised[0]:
        raise RuntimeError("Invalid device argument: did you call init?")
    device = devices[ordinal]

    def stat(current, peak=0, allocated=0):
        every = {"current": current, "peak": peak, "allocated": allocated, "freed": 0}
        none = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
        return {"all": every, "large_pool": every, "small_pool": none}

    return {
        "allocation": stat(len(device.blocks), allocated=device.allocations),
        "allocated_bytes": stat(device.allocated, device.peak),
        "reserved_bytes": stat(device.reserved, device.reserved_peak),
        "active_bytes": stat(device.allocated),
        "inactive_split_bytes": stat(0),
        "requested_bytes": stat(device.allocated),
        "segment": stat(len(device.blocks) + len(device.free)),
        "num_alloc_retries": 0,
        "num_ooms": device.ooms,
    }


def _cuda_attach_out_of_memory_observer(observer):
    observers.append(observer)


def _cuda_record_memory_history(enabled, record, stacks, max_entries, clear_history=False):
    """Blocks keep the stacks that they have, whatever comes."""
    from . import cuda

    cuda._lazy_init()
    recording[0], context[0] = enabled, record
    entries[0] = max(1, max_entries or 1) if enabled == "all" else 1
    if enabled is None or clear_history:
        for device in devices:
            device.history, device.next = [], 0


if "STUB_ENTRY" in os.environ:
    globals()[os.environ["STUB_ENTRY"]] = globals().pop("_cuda_record_memory_history")


def _cuda_isHistoryEnabled():
    return recording[0] is not None


def is_grad_enabled():
    return grad_enabled[0]


class no_grad:
    def __enter__(self):
        self.before, grad_enabled[0] = grad_enabled[0], False

    def __exit__(self, *error):
        grad_enabled[0] = self.before
