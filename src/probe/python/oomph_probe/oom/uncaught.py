"""Whether the process ends by an OOM error that nobody caught: its exit status may be hidden behind a pipe's or a
script's.
"""

from __future__ import annotations

import sys

# Errors that are looked at behind the one that ends the process.
LONGEST_CHAIN = 16


def ends_by_oom() -> bool:
    """To be asked while the process exits."""
    # At a prompt the latest error is kept, whatever came after it.
    if hasattr(sys, "ps1"):
        return False
    # A child of multiprocessing exits while the error still passes.
    return is_oom(getattr(sys, "last_value", None) or sys.exc_info()[1])


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
