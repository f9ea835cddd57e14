"""Keeps what Python has compiled of our own files, in our own directory, where the user has said that no bytecode is to
be written (PYTHONDONTWRITEBYTECODE): else each Python that the program starts compiles them anew, which takes
milliseconds. Run by itself, by the first Python of a session (hook.py). Nothing is written beside the user's files.
"""
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What a Python loads before it imports torch.
EARLY = (("hook.py",), ("knobs", "watch.py"), ("knobs", "parsers.py"))


def keep() -> None:
    if getattr(sys, "pycache_prefix", None):
        # Caches are elsewhere, in a directory of the user's.
        return
    import _frozen_importlib_external

    external: Any = _frozen_importlib_external
    for words in EARLY:
        path = os.path.join(os.path.dirname(__file__), *words)
        loader, stat = external.SourceFileLoader(path, path), os.stat(path)
        code = loader.source_to_code(loader.get_data(path), path)
        data = external._code_to_timestamp_pyc(code, int(stat.st_mtime), stat.st_size)
        loader._cache_bytecode(path, external.cache_from_source(path), data)
