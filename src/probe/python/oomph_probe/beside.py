"""Where Python keeps bytecode in a directory of the user's (PYTHONPYCACHEPREFIX, -X pycache_prefix), what it compiles
of our own files stays beside them: the session's directory goes with the session, and whatever is kept of it elsewhere
would stay there for good. Run by itself, before anything else of ours is (sitecustomize.py).
"""
import os
import sys
from _frozen_importlib_external import SourceFileLoader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Beside(SourceFileLoader):
    """Finds the bytecode of a source beside it, and puts it there."""

    def get_code(self, name: "Any") -> "Any":
        code: Any = super().get_code(name)
        # The hook itself is named by who loads it.
        hook: Any = sys.modules.get("_oomph_hook")
        return code if hook is None else hook.named(code, self.path)

    def get_data(self, path: "Any") -> "Any":
        return super().get_data(self.place(path))

    def set_data(self, path: str, data: "Any", **more: "Any") -> None:
        super().set_data(self.place(path), data, **more)

    def place(self, path: str) -> str:
        if not path.endswith(".pyc"):
            return path
        return os.path.join(os.path.dirname(self.path), "__pycache__", os.path.basename(path))


def take_back(cached: "Any", prefix: str) -> None:
    """Removes what Python has kept of the loader before it ran, and the directories that were made for it."""
    prefix = os.path.abspath(prefix)
    try:
        place = os.path.abspath(cached)
        os.unlink(place)
        while os.path.dirname(place) != prefix and place.startswith(prefix + os.sep):
            place = os.path.dirname(place)
            os.rmdir(place)
    except OSError:
        # There are others in it, or there was nothing.
        pass
