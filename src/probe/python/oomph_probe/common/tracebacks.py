"""A program's traceback as it would be with nothing of ours in the way: wrappers leave no frames in it.

Each of them would show a line of torch's file that has nothing to do with the error, once for every module of a nested
model.
"""

from __future__ import annotations

import sys

# From this version on `raise` passes an error on with the traceback that it has; before, with the one that was caught.
LEAVES_OUT = (3, 11)


def without_this_frame(error: BaseException) -> None:
    """Takes the frame that caught the error out of its traceback: called in the `except` of a wrapper, before `raise`.

    Before Python 3.11 that frame stays until the next wrapper around it takes it out, so one is left of many."""
    caught = error.__traceback__
    if caught is None:
        return
    if sys.version_info >= LEAVES_OUT:
        error.__traceback__ = caught.tb_next
        return
    ours, each = caught.tb_frame.f_code, caught
    while each.tb_next is not None:
        if each.tb_next.tb_frame.f_code is ours:
            each.tb_next = each.tb_next.tb_next
            return
        each = each.tb_next
