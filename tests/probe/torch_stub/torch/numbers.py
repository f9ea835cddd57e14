"""What a training's losses take, where a program asks for it (STUB_LOSSES): numbers that lie on the device, a backward that
begins from them, and copies that arrive while the program goes on.

`torch.loss(2.5)` is one. Reading it would wait for the device, and is an error.
"""
import types

import torch

from . import _C, autograd, cuda, optim
from .autograd import graph

SEED = [0]
DEVICE = types.SimpleNamespace(type="cuda", index=0)
# Copies that were begun. Each has arrived once the next one begins.
copies = []


def loss(value):
    number = _C.Tensor(4)
    number.value = value
    number.device = DEVICE
    return number


class Place:
    """Pinned memory for one number."""

    value = None

    def copy_(self, source, non_blocking):
        assert non_blocking, "the training waits for its own loss"
        self.coming = source.value
        copies.append(self)

    def __float__(self):
        assert self.value is not None, "read before it arrived"
        return self.value


class Pinned:
    def __init__(self, count):
        self.count = count

    def unbind(self):
        return tuple(Place() for _ in range(self.count))


class Event:
    def record(self):
        self.behind = len(copies)

    def query(self):
        arrived = self.behind < len(copies)
        if arrived:
            place = copies[self.behind - 1]
            place.value = place.coming
        return arrived


def no_number(tensor):
    raise AssertionError("the training waits for its own loss")


def empty(size, device=0, dtype=None, pin_memory=False):
    return Pinned(size) if pin_memory else _C.empty(size, device)


def manual_seed(seed):
    SEED[0] = seed


def _engine_run_backward(roots, accumulate_grad=True):
    """Nothing to be done: gradients cost nothing here."""


def backward(loss):
    graph._engine_run_backward((loss,), accumulate_grad=True)


def install():
    _C.Tensor.is_floating_point = lambda self: hasattr(self, "value")
    _C.Tensor.numel = lambda self: 1 if hasattr(self, "value") else self.size
    _C.Tensor.detach = _C.Tensor.reshape = lambda self, *shape: self
    _C.Tensor.__float__ = no_number
    _C._len_torch_dispatch_stack = _C._len_torch_function_stack = lambda: 0
    # An optimizer of torch's marks what it has hooked.
    optim.Optimizer.step.hooked = True
    cuda.Event = Event
    cuda.is_current_stream_capturing = lambda: False
    cuda.OutOfMemoryError = _C.OutOfMemoryError
    graph._engine_run_backward = autograd._engine_run_backward = _engine_run_backward
    autograd.backward = graph.backward = backward
    torch.loss, torch.empty, torch.manual_seed = loss, empty, manual_seed
    torch.initial_seed = lambda: SEED[0]
    torch.get_autocast_dtype = lambda kind: "torch.float16"
    torch.is_autocast_enabled = lambda kind=None: False
    torch.is_autocast_cache_enabled = lambda: True
