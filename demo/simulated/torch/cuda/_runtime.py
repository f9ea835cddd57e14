"""The one simulated device of this process: created when CUDA is initialised, gone in a forked child.

Separate from `torch.cuda` so that tensors can reach the allocator without the public module.
"""
import os
import threading
import traceback

from ..autograd import grad_mode
from ..simulation import observers
from ..simulation.allocator import Allocator
from ..simulation.gpu import Gpu
from ..simulation.loss import SimulatedLoss
from ..simulation.settings import Settings
from ..simulation.snapshot import History


class DeferredCudaCallError(Exception):
    """A queued call failed during initialisation."""


class _State:
    def __init__(self):
        self.gpu = None
        self.allocator = None
        self.initialised_in = None
        self.initialising = False
        self.queued = []
        self.lock = threading.RLock()


_state = _State()
history = History()
loss = SimulatedLoss()


def is_initialized():
    return _state.initialised_in == os.getpid()


def in_bad_fork():
    return _state.initialised_in is not None and not is_initialized()


def lazy_call(call):
    """Calls it now, or during the initialisation to come."""
    if is_initialized():
        call()
    else:
        _state.queued.append((call, traceback.format_stack()))


def lazy_init():
    """Reads the allocator's settings, creates the context, then runs the queued calls; is_initialized() is False
    there."""
    with _state.lock:
        if is_initialized() or _state.initialising:
            return
        if in_bad_fork():
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
                "'spawn' start method"
            )
        _make_allocator()
        _state.initialising = True
        try:
            for queued, stack in _state.queued:
                try:
                    queued()
                except Exception as error:
                    raise DeferredCudaCallError(
                        "CUDA call failed lazily at initialization with error: %s\n\nCUDA call was originally invoked "
                        "at:\n\n%s" % (error, "".join(stack))
                    ) from error
            _state.queued = []
        finally:
            _state.initialising = False
        _state.initialised_in = os.getpid()


def _make_allocator():
    if _state.allocator is not None:
        return
    settings = Settings.of_environment()
    described = gpu()
    described.create_context()
    allocator = Allocator(described, settings)
    allocator.call_observer = _call_observer
    _state.allocator = allocator


def gpu():
    """The GPU, described by the environment; asking for it initialises nothing."""
    if _state.gpu is None:
        _state.gpu = Gpu.of_environment()
    return _state.gpu


def allocator():
    """The allocator; the first request initialises CUDA."""
    if not is_initialized():
        lazy_init()
    return _state.allocator


def allocator_if_made():
    """The allocator, or None before it was created during initialisation."""
    return None if in_bad_fork() else _state.allocator


def _call_observer(observer, arguments):
    if history.in_backward:
        observers.call_without_frames(observer, arguments, _without_gradients)
    else:
        observers.call(observer, arguments)


def _without_gradients():
    grad_mode._mode.enabled = False
