"""Keeps what Python has compiled of our own files, in our own directory, where the user has said that no bytecode is to
be written (PYTHONDONTWRITEBYTECODE): else each Python that the program starts compiles them anew, which takes
a tenth of a second where it imports torch. Run by itself (hook.py). Nothing is written beside the user's files.
"""
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def keep(code: "Any", path: str) -> None:
    """`code` is what became of the file; None if it is still to be compiled."""
    if getattr(sys, "pycache_prefix", None):
        # Caches are elsewhere, in a directory of the user's.
        return
    import _frozen_importlib_external

    external: Any = _frozen_importlib_external
    loader, stat = external.SourceFileLoader(path, path), os.stat(path)
    if code is None:
        code = loader.source_to_code(loader.get_data(path), path)
    data = external._code_to_timestamp_pyc(code, int(stat.st_mtime), stat.st_size)
    loader._cache_bytecode(path, external.cache_from_source(path), data)
