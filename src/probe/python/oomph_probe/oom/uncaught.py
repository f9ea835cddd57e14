"""Whether the process ends by an OOM error that nobody caught: its exit status may be hidden behind a pipe's or a
script's.
"""

from __future__ import annotations

import sys

from ..common import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# From this version on a child of multiprocessing has handled the error that ends it, and forgotten it, before
# anything runs that is registered for its end.
FORGETS = (3, 13)
# Errors that are looked at behind the one that ends the process.
LONGEST_CHAIN = 16


class Uncaught:
    """What is known of this process's end."""

    def __init__(self) -> None:
        # Whether an OOM error left the `run` of this child of multiprocessing.
        self.left_child = False

    def watch_children(self) -> None:
        """Those that are started from here, and this process if it is to become one."""
        util = sys.modules.get("multiprocessing.util")
        context = sys.modules.get("multiprocessing.context")
        if sys.version_info < FORGETS or util is None or context is None:
            return
        try:
            # Both are called in the child right before its `run`; a child that is spawned calls only the second,
            # which is its own and does nothing.
            util.register_after_fork(self, Uncaught.watch_run)
            setattr(context.SpawnProcess, "_after_fork", staticmethod(self.watch_run))
        except Exception:
            errors.foreseen("watch the children of multiprocessing")

    def watch_run(self) -> None:
        """In a child: looks at what leaves its `run`, where there is an error."""
        try:
            child: Any = sys.modules["multiprocessing.process"].current_process()
            run = child.run

            def watched() -> None:
                try:
                    run()
                except BaseException as error:
                    self.left_run(error)
                    raise

            child.run = watched
        except BaseException:
            errors.refused("watch a child of multiprocessing")

    def left_run(self, error: BaseException) -> None:
        try:
            if error.__traceback__ is not None:
                # What the child prints is what it would print without the frame of ours.
                error.__traceback__ = error.__traceback__.tb_next
            self.left_child = is_oom(error)
        except BaseException:
            errors.refused("look at what ends a child of multiprocessing")

    def is_oom(self) -> bool:
        """Whether this process ends by one; to be asked while it exits."""
        # At a prompt the latest error is kept, whatever came after it.
        if hasattr(sys, "ps1"):
            return False
        # Until 3.12 a child of multiprocessing exits while the error still passes.
        return self.left_child or is_oom(getattr(sys, "last_value", None) or sys.exc_info()[1])


def is_oom(error: BaseException | None) -> bool:
    """Whether it is one, or came of one."""
    if isinstance(error, SystemExit) and not error.code:
        return False
    for _ in range(LONGEST_CHAIN):
        if error is None or names_it(error):
            break
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return error is not None and names_it(error)


def names_it(error: BaseException) -> bool:
    if any(base.__name__ == "OutOfMemoryError" for base in type(error).__mro__):
        return True
    # torch before 1.13, and the driver's own. Of another class the text would be the program's code.
    words = error.args[0] if type(error) is RuntimeError and error.args else ""
    return isinstance(words, str) and "out of memory" in words
