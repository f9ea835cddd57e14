"""Signals are the program's: none comes to a thread of ours, and what one of its handlers raises while the probe is at
work on its thread goes on to it.
"""

from __future__ import annotations

import functools
import signal
import threading
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, TracebackType
    from typing import Any

# What a thread itself may cause; faulthandler's words about that are to be printed.
ITS_OWN = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")


def take_none() -> None:
    """Called on a thread of ours. A signal to the process goes to any thread that does not block it: one that the
    program has blocked, while it writes a checkpoint, say, would end it or run its handler all the same."""
    own = {getattr(signal, name) for name in ITS_OWN if hasattr(signal, name)}
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.valid_signals()) - own)


def can_come_here() -> bool:
    """Python runs handlers on one thread."""
    return get_ident() == threading.main_thread().ident


def is_a_handlers(error: BaseException | None) -> bool:
    """Whether a handler of the program's has raised it, and nothing of ours."""
    if error is None or not can_come_here():
        return False
    # Python's own handler of Ctrl-C has no frame.
    is_ctrl_c = type(error) is KeyboardInterrupt and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return is_ctrl_c or from_its_handler(error) is not None


def from_its_handler(error: BaseException) -> TracebackType | None:
    """Its traceback from the handler on; None where no handler is in it."""
    codes = {id(code_of(signal.getsignal(number))) for number in signal.valid_signals()} - {id(None)}
    trace = error.__traceback__
    while trace is not None and id(trace.tb_frame.f_code) not in codes:
        trace = trace.tb_next
    return trace


def code_of(handler: Any) -> CodeType | None:
    """What runs when it is called, where that is Python."""
    while type(handler) is functools.partial:
        handler = handler.func
    if not callable(handler):
        return None
    function = getattr(handler, "__func__", handler)
    code = getattr(function, "__code__", None)
    return code if code is not None else getattr(type(handler).__call__, "__code__", None)
