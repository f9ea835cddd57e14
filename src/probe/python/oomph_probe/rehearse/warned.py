"""Warnings of a rehearsal, and what it would log: the program has them from its own step, or will have them. Others'
threads keep theirs."""

from __future__ import annotations

import sys

from ..common.instead import Instead
from . import apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class OfRehearsals:
    """Stands in a filter of the `warnings` module where a pattern for the message would."""

    def match(self, text: str) -> bool:
        return apart.here.is_in_one()


class Silence:
    """While it is entered, a rehearsal's thread warns of nothing, and nothing is noted as warned of; no logger is
    enabled there. The list of filters is changed in place: by the module's own functions it would forget what it has
    warned of.
    """

    def __enter__(self) -> None:
        self.filters: Any = getattr(sys.modules.get("warnings"), "filters", None)
        self.before = list(self.filters) if isinstance(self.filters, list) else []
        self.ours = ("ignore", OfRehearsals(), Warning, None, 0)
        if isinstance(self.filters, list):
            self.filters.insert(0, self.ours)
        # Asked before a record is made, and not among its callers: a record of others' threads names their own line.
        self.loggers = Instead(getattr(sys.modules.get("logging"), "Logger", None), "isEnabledFor", unless_in_one)
        self.loggers.put()

    def __exit__(self, *error: Any) -> None:
        if isinstance(self.filters, list):
            # What the rehearsal has added is gone, too.
            self.filters[:] = self.before
        self.loggers.take_back()


def unless_in_one(original: Any) -> Any:
    """What says whether a logger is enabled, which none is in a rehearsal."""

    def is_enabled_for(logger: Any, level: Any) -> bool:
        return not apart.here.is_in_one() and original(logger, level)

    return is_enabled_for
