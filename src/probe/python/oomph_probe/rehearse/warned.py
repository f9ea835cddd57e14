"""Warnings of a rehearsal: the program has them from its own step, or will have them. Others' threads keep theirs."""

from __future__ import annotations

import sys

from . import apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# Writes an error before it raises it, where an operator does not go with the sizes that it is given.
LOGGER = "torch._subclasses.fake_tensor"


class OfRehearsals:
    """Stands in a filter of the `warnings` module where a pattern for the message would."""

    def match(self, text: str) -> bool:
        return apart.here.is_in_one()

    def filter(self, record: Any) -> bool:
        """As a filter of a logger's: whether a record is written."""
        return not apart.here.is_in_one()


class Silence:
    """While it is entered, a rehearsal's thread warns of nothing, and nothing is noted as warned of. The list of
    filters is changed in place: by the module's own functions it would forget what it has warned of."""

    def __enter__(self) -> None:
        self.filters: Any = getattr(sys.modules.get("warnings"), "filters", None)
        self.before = list(self.filters) if isinstance(self.filters, list) else []
        self.ours = ("ignore", OfRehearsals(), Warning, None, 0)
        if isinstance(self.filters, list):
            self.filters.insert(0, self.ours)
        logging: Any = sys.modules.get("logging")
        self.filter = OfRehearsals()
        self.logger: Any = None if logging is None else logging.getLogger(LOGGER)
        if self.logger is not None:
            self.logger.addFilter(self.filter)

    def __exit__(self, *error: Any) -> None:
        if isinstance(self.filters, list):
            # What the rehearsal has added is gone, too.
            self.filters[:] = self.before
        if self.logger is not None:
            self.logger.removeFilter(self.filter)
