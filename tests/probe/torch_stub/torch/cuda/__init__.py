"""Initialised lazily, as torch does it: queued calls run once, inside the initialisation."""
from .. import _C
from . import memory

_queued = []
_initialising = [False]


def is_initialized():
    return _C.initialised[0]


def _lazy_call(call):
    if is_initialized():
        call()
    else:
        _queued.append(call)


def _lazy_init():
    if is_initialized() or _initialising[0]:
        return
    _initialising[0] = True
    # The allocator can be read by now, but torch does not call itself initialised yet.
    for call in _queued:
        call()
    _initialising[0] = False
    _C.initialised[0] = True


init = _lazy_init


def device_count():
    assert is_initialized() or _initialising[0], "device_count before CUDA was initialised"
    return _C.DEVICES


def current_device():
    _lazy_init()
    return 0


def get_device_properties(ordinal):
    assert is_initialized() or _initialising[0], "properties before CUDA was initialised"

    class Properties:
        name = "Stand-in %d" % ordinal
        total_memory = _C.CAPACITY
        uuid = "0000000%d-1111-2222-3333-444444444444" % ordinal

    return Properties


def set_per_process_memory_fraction(fraction, device=0):
    _lazy_init()
    _C.devices[device].fraction = fraction


def reset_peak_memory_stats(device=0):
    of = _C.devices[device]
    of.peak, of.reserved_peak = of.allocated, of.reserved
