"""Backward on a thread of its own, on which the observer is called without any Python frame."""
import _thread

from .. import _C


def _engine_run_backward(size):
    device = _C.devices[0]
    if device.allocated + size <= _C.CAPACITY:
        return
    device.ooms += 1
    done = _thread.allocate_lock()
    for observer in _C.observers:
        done.acquire()
        # `done` is released when the thread ends, since nothing else holds the guard then.
        _thread.start_new_thread(observer, (Guard(0, done), size, _C.CAPACITY, 0))
        done.acquire()
        done.release()
    raise _C.OutOfMemoryError("CUDA out of memory. Tried to allocate %d bytes" % size)


class Guard(int):
    """The device's ordinal, which tells when its call is over by being let go of."""

    def __new__(cls, value, lock):
        guard = int.__new__(cls, value)
        guard.lock = lock
        return guard

    def __del__(self):
        self.lock.release()


def backward(size):
    _engine_run_backward(size)
