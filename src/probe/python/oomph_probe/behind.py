"""Where the next sitecustomize is if another tool's is in front of ours.

That one has run, and it runs us: by an import with itself off sys.path, or by a search of its own that
leaves it there. In the second case a plain import would find it again, and it would start twice.
"""
import sys

# Annotations are strings here: this file is run by itself, before there is a package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Tuple


def look(path: "List[str]", ours: "Tuple[str, ...]") -> None:
    """The next import of sitecustomize looks only behind the last of our directories on `path`."""
    place = max((at for at, entry in enumerate(path) if entry in ours), default=-1)
    sys.meta_path.insert(0, Next(path[place + 1 :]))


class Next:
    """Answers once, and is gone before the module that it finds runs: that may pass the word on as well."""

    def __init__(self, behind: "List[str]") -> None:
        self.behind = behind

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name != "sitecustomize":
            return None
        from _frozen_importlib_external import PathFinder

        sys.meta_path.remove(self)
        found = PathFinder.find_spec(name, self.behind)
        if found is None:
            raise ModuleNotFoundError("No module named 'sitecustomize'", name=name)
        return found
