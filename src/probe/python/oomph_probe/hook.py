"""Notices that the program has imported torch, and then loads the probe. Imports nothing of torch
itself and does not depend on what the probe does.

A finder at the front of sys.meta_path answers for "torch" alone: it lets the other finders build the
spec and overrides `exec_module` of that one loader. It stays active until torch was really executed,
since `importlib.util.find_spec("torch")` discards the spec, and an import may fail and be retried. A
failing import is the program's own: it is neither caught nor wrapped.
"""
import os
import sys
from _thread import get_ident

# Annotations are strings here: `from __future__ import annotations` would read one more file at every start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Set


def install() -> None:
    """Starts watching for torch; loads the probe at once if torch is imported already."""
    if "torch" in sys.modules:
        load_probe()
    else:
        sys.meta_path.insert(0, TorchFinder())


def load_probe() -> None:
    """Loads the package beside this file by path, since it is not on sys.path."""
    try:
        if "_oomph_probe" in sys.modules:
            return
        import importlib.util

        here = os.path.dirname(__file__)
        spec: Any = importlib.util.spec_from_file_location(
            "_oomph_probe",
            os.path.join(here, "__init__.py"),
            submodule_search_locations=[here],
        )
        probe: Any = importlib.util.module_from_spec(spec)
        sys.modules["_oomph_probe"] = probe
        spec.loader.exec_module(probe)
        probe.start()
    except Exception:
        swallowed("load the probe")


def swallowed(where: str) -> None:
    """An error of ours was caught; nothing of the package may be loaded yet."""
    try:
        errors: Any = sys.modules.get("_oomph_probe.common.errors")
        if errors is None:
            # importlib.util would take longer than everything else here; this is what it would return.
            from _frozen_importlib_external import SourceFileLoader

            errors = type(sys)("_oomph_errors")
            errors.__file__ = os.path.join(os.path.dirname(__file__), "common", "errors.py")
            SourceFileLoader(errors.__name__, errors.__file__).exec_module(errors)
        errors.ours(where)
    except Exception:
        pass


class TorchFinder:
    """Answers for "torch" until it was imported, and for nothing else.

    Never removed from sys.meta_path: another thread may be iterating over that list, and would skip a
    finder if one before it vanished.
    """

    def __init__(self) -> None:
        self.done = False
        self.asking: Set[int] = set()

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name != "torch" or self.done:
            return None
        # Other hooks of this kind search all of sys.meta_path again, including this finder.
        thread = get_ident()
        if thread in self.asking:
            return None
        self.asking.add(thread)
        try:
            spec = self.ask_others(name, path, target)
        finally:
            self.asking.discard(thread)
        if spec is not None:
            self.watch(spec.loader)
        return spec

    def ask_others(self, name: str, path: "Any", target: "Any") -> "Any":
        finders = list(sys.meta_path)
        behind = finders[finders.index(self) + 1 :] if self in finders else finders
        for finder in behind:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec is not None else None
            if spec is not None:
                return spec
        return None

    def watch(self, loader: "Any") -> None:
        """Makes `loader` call back, once, after it executed the module."""
        try:
            original = loader.exec_module

            def exec_module(module: "Any") -> None:
                original(module)
                self.imported(loader)

            loader.exec_module = without_traceback(exec_module)
        except Exception:
            swallowed("watch for torch")

    def imported(self, loader: "Any") -> None:
        try:
            del loader.exec_module
        except Exception:
            swallowed("stop watching for torch")
        if not self.done:
            self.done = True
            load_probe()


def without_traceback(function: "Any") -> "Any":
    """The function, with its frame removed from tracebacks that pass through it.

    CPython removes the frames of its import machinery by file name (remove_importlib_frames in
    Python/import.c), so a failing `import torch` prints exactly what it would without the probe.
    """
    try:
        code = function.__code__.replace(co_filename="<frozen importlib._bootstrap>")
        function.__code__ = code
    except Exception:
        swallowed("hide a frame")
    return function
