"""Calls the OOM observers as libtorch does.

In forward the observer runs on the program's own thread. In backward it runs on an autograd thread without any Python
frame beneath the observer: `sys._getframe(1)` raises there, gradients are disabled, and an exception in the observer
still replaces the OutOfMemoryError. Both are reproduced, because observers have failed on both.
"""
import itertools
import sys
import threading
import weakref
import _thread


class Calls(list):
    """A list whose end can be observed: the thread has the only reference to it, so it is freed with the thread."""


def call(observer, arguments):
    """On this thread. An exception in the observer propagates."""
    observer(*arguments)


def call_without_frames(observer, arguments, prepare):
    """On a new thread whose lowest Python frame is the observer's. An exception in the observer propagates.

    `prepare` runs on that thread first. A bare thread that runs C code (`list.extend` over `map`) is the only way to
    call Python without a Python frame beneath; an exception there reaches `sys.unraisablehook`, where it is picked up.
    """
    done = threading.Lock()
    done.acquire()
    raised = []
    before = sys.unraisablehook
    calls = Calls()
    watch = weakref.ref(calls, lambda _: done.release())

    def fetch(unraisable):
        if threading.get_ident() in threads:
            raised.append(unraisable.exc_value or unraisable.exc_type())
        else:
            before(unraisable)

    threads = set()
    steps = itertools.chain(
        map(_note(threads, prepare), [None]),
        map(observer, *([argument] for argument in arguments)),
    )
    sys.unraisablehook = fetch
    try:
        _thread.start_new_thread(calls.extend, (steps,))
        del calls, steps
        done.acquire()
    finally:
        sys.unraisablehook = before
        del watch
    if raised:
        raise raised[0]


def _note(threads, prepare):
    """The step before the observer: records which thread it is, then prepares it."""

    def step(_):
        threads.add(threading.get_ident())
        prepare()

    return step
