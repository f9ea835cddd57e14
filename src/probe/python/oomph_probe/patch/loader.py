"""Another batch size for the DataLoaders of a program that has no argument for it.

Only a batch size equal to the old one is replaced, so a framework that builds a second loader from
the first does not shrink it twice. Loaders with their own batch sampler, and data sets that batch
themselves, are skipped. There are more and smaller steps: schedules by steps, gradient accumulation
and logged rates change with them.
"""

from __future__ import annotations

import functools
import sys

from ..common import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Args, Kwargs
    from .outcomes import Outcomes

NAME = "batch"
# Set on a loader: the batch size that the program asked for.
ASKED = "_oomph_batch_asked"


class Loader:
    """The batch size patch of this process."""

    wants_roots = False

    def __init__(self, outcomes: Outcomes, value: str) -> None:
        self.outcomes = outcomes
        old, _, new = value.partition(":")
        self.old, self.new = int(old), int(new)
        if not 0 < self.new < self.old:
            raise ValueError("%s is not a smaller batch" % value)
        self.count = 0
        self.nothing_found = "no DataLoader of batch %d was made" % self.old

    def install(self) -> None:
        module = sys.modules["torch.utils.data.dataloader"]
        cls = module.DataLoader
        original = cls.__init__
        change = self.change

        @functools.wraps(original)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            args, kwargs, asked = change(args, kwargs)
            original(self, *args, **kwargs)
            if asked is not None:
                # Not by attribute assignment: DataLoader's __setattr__ rejects some names.
                self.__dict__[ASKED] = asked

        cls.__init__ = __init__

    def change(self, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs, int | None]:
        """The loader's arguments to use, and the requested batch size where it is replaced."""
        try:
            # DataLoader(dataset, batch_size, shuffle, sampler, batch_sampler, …) since 1.0.
            sampler = args[4] if len(args) > 4 else kwargs.get("batch_sampler")
            in_row = len(args) > 1
            asked = args[1] if in_row else kwargs.get("batch_size")
            if isinstance(asked, bool) or asked != self.old or not isinstance(asked, int):
                if sampler is not None and sampler_batch(sampler) == self.old and not self.count:
                    self.outcomes.decline(
                        NAME, "its own batch sampler makes batches of %d" % self.old
                    )
                return args, kwargs, None
            if sampler is not None:
                # torch rejects both together, with its own message.
                return args, kwargs, None
            if in_row:
                args = (args[0], self.new) + tuple(args[2:])
            else:
                kwargs = dict(kwargs, batch_size=self.new)
            self.count += 1
            self.outcomes.apply(
                NAME,
                "batches of %d instead of %d in %d DataLoader%s: more, smaller steps; "
                "schedules counted in steps change"
                % (self.new, self.old, self.count, "" if self.count == 1 else "s"),
            )
            return args, kwargs, asked
        except BaseException:
            errors.refused("change a batch")
            return args, kwargs, None


def sampler_batch(sampler: Any) -> int | None:
    size = getattr(sampler, "batch_size", None)
    return size if isinstance(size, int) else None
