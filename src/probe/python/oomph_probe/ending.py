"""Ends the process over an error that Python's start cannot survive, as Python itself would, but without the
frames of oomph's loader.
"""
import os
import sys
import traceback

# Annotations are strings here: this file is run by itself, before there is a package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple


def like_pythons(error: BaseException, *ours: str) -> None:
    """`ours` are the files whose frames are left out."""
    outer = traceback.extract_stack()
    while outer and (is_ours(outer[-1].filename, ours) or "importlib" in outer[-1].filename):
        outer.pop()
    inner = [frame for frame in traceback.extract_tb(error.__traceback__) if not is_ours(frame.filename, ours)]
    lines = [
        "Fatal Python error: init_import_site: Failed to import the site module\n",
        "Python runtime state: initialized\n",
        "Traceback (most recent call last):\n",
    ]
    lines += traceback.format_list(list(outer) + inner)
    lines += traceback.format_exception_only(type(error), error)
    try:
        sys.stderr.write("".join(lines))
        sys.stderr.flush()
    finally:
        os._exit(1)


def is_ours(filename: str, ours: "Tuple[str, ...]") -> bool:
    return os.path.abspath(filename) in ours
