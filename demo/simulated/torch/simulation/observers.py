"""Calling the out-of-memory observers the way libtorch calls them.

In forward the observer runs on the program's own thread. In backward it runs on an autograd thread, which has no
Python frame beneath the observer: `sys._getframe(1)` raises there, gradients are off, and what the observer raises
replaces the OutOfMemoryError all the same. Both are kept, because observers have died of both.
"""
import itertools
import sys
import threading
import weakref
import _thread


class Calls(list):
    """A list that can be watched for its end: the thread's only reference to it goes with the thread."""


def call(observer, arguments):
    """On this thread. What the observer raises leaves here."""
    observer(*arguments)


def call_without_frames(observer, arguments, prepare):
    """On a thread of its own whose lowest Python frame is the observer's. What it raises leaves here.

    `prepare` runs on that thread beforehand. A bare thread running C code (`list.extend` over `map`) is the one way to
    call Python with no Python beneath; what such a call raises reaches `sys.unraisablehook`, where it is fetched.
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
    """The step before the observer's: say which thread it is, then prepare it."""

    def step(_):
        threads.add(threading.get_ident())
        prepare()

    return step
