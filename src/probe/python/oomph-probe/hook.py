"""Notices that the program has imported torch, and then loads the probe; it imports nothing of
torch itself and knows nothing of what the probe does.

A finder in front of sys.meta_path answers for "torch" alone: it lets the other finders make the
spec and overrides `exec_module` on that one loader. It keeps its place until torch was really
executed, since `importlib.util.find_spec("torch")` throws the spec away and an import may fail and
be tried again. A failing import is the program's own: it is neither caught nor wrapped.
"""
import os
import sys
from _thread import get_ident


def install():
    """Begins to watch for torch; at once where something imported it before us."""
    if "torch" in sys.modules:
        load_probe()
    else:
        sys.meta_path.insert(0, TorchFinder())


def load_probe():
    """Loads the package beside this file by its path: it is on nobody's sys.path."""
    try:
        if "_oomph_probe" in sys.modules:
            return
        import importlib.util

        here = os.path.dirname(__file__)
        spec = importlib.util.spec_from_file_location(
            "_oomph_probe",
            os.path.join(here, "__init__.py"),
            submodule_search_locations=[here],
        )
        probe = importlib.util.module_from_spec(spec)
        sys.modules["_oomph_probe"] = probe
        spec.loader.exec_module(probe)
        probe.start()
    except Exception:
        pass


class TorchFinder:
    """Answers for "torch" until it was imported, and for nothing else.

    It is never taken out of sys.meta_path: another thread may be walking that list, and would
    pass over a finder if one in front of it vanished.
    """

    def __init__(self):
        self.done = False
        self.asking = set()

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.done:
            return None
        # Other hooks of this kind ask the whole of sys.meta_path again, us included.
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

    def ask_others(self, name, path, target):
        finders = list(sys.meta_path)
        behind = finders[finders.index(self) + 1 :] if self in finders else finders
        for finder in behind:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec is not None else None
            if spec is not None:
                return spec
        return None

    def watch(self, loader):
        """Has `loader` call back after it executed the module, once."""
        try:
            original = loader.exec_module

            def exec_module(module):
                original(module)
                self.imported(loader)

            loader.exec_module = without_traceback(exec_module)
        except Exception:
            pass

    def imported(self, loader):
        try:
            del loader.exec_module
        except Exception:
            pass
        if not self.done:
            self.done = True
            load_probe()


def without_traceback(function):
    """The function, its frame left out of tracebacks that pass through it.

    CPython drops the frames of its import machinery by their file name (remove_importlib_frames
    in Python/import.c), so that a failing `import torch` prints exactly what it would without us.
    """
    try:
        code = function.__code__.replace(co_filename="<frozen importlib._bootstrap>")
        function.__code__ = code
    except Exception:
        pass
    return function
