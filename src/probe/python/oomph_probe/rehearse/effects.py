"""Stops a rehearsal before it has a visible effect: a print, a write, a message.

Every call on the rehearsal's thread is checked before it is made: with `sys.monitoring` from Python 3.12 on, where
a harmless call site is checked once, and with a profile function of that thread in older versions.
"""

from __future__ import annotations

import sys
from _thread import get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

# By the names of functions written in C: what is seen outside of the process, or waits for it.
EFFECTS = frozenset(
    "print input write writelines send sendall sendto sendmsg connect sleep fork forkpty system popen execv execve"
    " remove unlink rename mkdir rmdir".split()
)
NAME = "oomph rehearsal"


class Stopped(BaseException):
    """Why a rehearsal ends early, in words. No `except Exception` of a model's takes it."""


class Guard:
    """While it is entered, this thread calls nothing of `EFFECTS`."""

    def __enter__(self) -> Guard:
        self.thread = get_ident()
        self.tool = None
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is None:
            sys.setprofile(self.profile)
            return self
        self.tool = next((each for each in range(5, -1, -1) if monitoring.get_tool(each) is None), None)
        if self.tool is None:
            raise Stopped("other tools are tracing this interpreter")
        monitoring.use_tool_id(self.tool, NAME)
        monitoring.register_callback(self.tool, monitoring.events.CALL, self.called)
        monitoring.set_events(self.tool, monitoring.events.CALL)
        return self

    def __exit__(self, *error: Any) -> None:
        if self.tool is None:
            sys.setprofile(None)
            return
        monitoring = getattr(sys, "monitoring")
        monitoring.set_events(self.tool, 0)
        monitoring.register_callback(self.tool, monitoring.events.CALL, None)
        monitoring.free_tool_id(self.tool)

    def called(self, code: CodeType, offset: int, function: Any, argument: object) -> Any:
        if getattr(function, "__name__", None) in EFFECTS and get_ident() == self.thread:
            # A function of Python's own code is looked at where it calls one in C.
            if not hasattr(function, "__code__"):
                raise Stopped("its forward calls %s" % function.__name__)
        return getattr(sys, "monitoring").DISABLE

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and argument.__name__ in EFFECTS:
            raise Stopped("its forward calls %s" % argument.__name__)
