"""Puts something of ours where torch has a function, and takes it back: unless somebody else has put something of his
there since, who may have kept ours.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable


class Instead:
    """`make` is given what is there, and makes what is to be there instead. Where the place has no such thing, nothing
    is put."""

    def __init__(self, place: Any, name: str, make: Callable[[Any], Any]) -> None:
        self.place, self.name, self.make = place, name, make
        # `is_its_own`: no class has it from one that it derives from.
        self.is_there = self.is_its_own = False
        self.original: Any = None
        self.ours: Any = None

    def put(self) -> None:
        if self.is_there or not hasattr(self.place, self.name):
            return
        self.is_its_own = not isinstance(self.place, type) or self.name in vars(self.place)
        self.original = getattr(self.place, self.name)
        self.ours = self.make(self.original)
        setattr(self.place, self.name, self.ours)
        self.is_there = True

    def take_back(self) -> None:
        if self.is_there and getattr(self.place, self.name, None) is self.ours:
            if self.is_its_own:
                setattr(self.place, self.name, self.original)
            else:
                delattr(self.place, self.name)
        self.is_there = False
        self.original = self.ours = None

    def __enter__(self) -> None:
        self.put()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.take_back()
