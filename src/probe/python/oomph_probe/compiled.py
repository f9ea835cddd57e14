"""Keeps what Python has compiled of our own files, in our own directory, where the user has said that no bytecode is to be
written (PYTHONDONTWRITEBYTECODE): else each Python that the program starts compiles them anew, which takes milliseconds. Run
by itself, by the first Python of a session (hook.py). Nothing is written beside any file of the user's.
"""
import os
import sys

# What a Python loads before it imports torch.
EARLY = (("hook.py",), ("knobs", "watch.py"), ("knobs", "parsers.py"))


def keep() -> None:
    if getattr(sys, "pycache_prefix", None):
        # Caches are elsewhere, in a directory of the user's.
        return
    from _frozen_importlib_external import SourceFileLoader, _code_to_timestamp_pyc, cache_from_source

    for words in EARLY:
        path = os.path.join(os.path.dirname(__file__), *words)
        loader, stat = SourceFileLoader(path, path), os.stat(path)
        data = _code_to_timestamp_pyc(loader.source_to_code(loader.get_data(path), path), int(stat.st_mtime), stat.st_size)
        loader._cache_bytecode(path, cache_from_source(path), data)
