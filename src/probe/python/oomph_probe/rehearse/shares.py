"""How many elements of a tensor are not zero, where its values are not known but how it was made is: the chosen experts
of each token, as a mask (`one_hot`, a `scatter` into zeros), have as many as there are choices. What counts them for
each expert (a sum of the mask, `bincount`) adds up to that, and each is given an even share.
"""

from __future__ import annotations

import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.protocols import Args, Tensor

# What leaves the zeros where they are, and what gives the elements on in another order, or a part of them.
KEEPING = frozenset("gt ne _to_copy clone detach abs logical_or bitwise_or lift_fresh_copy".split())
GIVING = frozenset(
    "select slice view _unsafe_view reshape squeeze unsqueeze permute transpose t alias unbind contiguous flatten"
    .split()
)
SUMS = frozenset(("sum", "count_nonzero"))
ZEROS = frozenset("zeros zeros_like new_zeros".split())
INTO_ZEROS = frozenset(("scatter", "scatter_"))


class Shares:
    """Those of one rehearsal, by the fakes' addresses: a number of elements that are not zero, or the sum of counts."""

    def __init__(self) -> None:
        self.zeros: dict[int, tuple[Any, int, int]] = {}
        self.filled: dict[int, tuple[Any, int, int]] = {}
        self.counts: dict[int, tuple[Any, int, int]] = {}

    def follow(self, name: str, args: Args, returned: Any, is_a_range: bool) -> None:
        """`is_a_range`: of two arguments the second is known."""
        if name in ZEROS:
            self.note(self.zeros, returned, 0)
        elif name in INTO_ZEROS and len(args) > 2 and self.is_zero(args[0], name):
            self.note(self.filled, returned, int(args[2].numel()))
        elif name == "eq" and is_a_range and args[0].dim() and args[0].shape[-1] == 1:
            # One of each row's is the one that it is compared with.
            self.note(self.filled, returned, int(args[0].numel()))
        elif name in ("bincount", "histc"):
            self.note(self.counts, returned, int(args[0].numel()))
        elif not self.filled and not self.counts or not args:
            return
        elif name in KEEPING or name in GIVING:
            for noted in (self.filled, self.counts):
                self.give(noted, args[0], returned)
        elif name in SUMS:
            count = self.of(self.filled, args[0])
            if count is not None:
                self.note(self.counts, returned, count)

    def give(self, noted: dict[int, tuple[Any, int, int]], given: Any, returned: Any) -> None:
        count = self.of(noted, given)
        for each in returned if type(returned) in (list, tuple) else (returned,):
            if count is not None and given.numel():
                self.note(noted, each, -(-count * each.numel() // given.numel()))

    def note(self, noted: dict[int, tuple[Any, int, int]], fake: Any, count: int) -> None:
        noted[id(fake)] = weakref.ref(fake), fake._version, count

    def of(self, noted: dict[int, tuple[Any, int, int]], fake: Any) -> int | None:
        found = noted.get(id(fake))
        if found is None or found[0]() is not fake or found[1] < fake._version:
            return None
        return found[2]

    def is_zero(self, fake: Any, name: str) -> bool:
        """Whether it was zeros before this operator."""
        found = self.zeros.get(id(fake))
        return found is not None and found[0]() is fake and fake._version <= found[1] + (name[-1:] == "_")

    def not_zero(self, fake: Tensor) -> int | None:
        return self.of(self.filled, fake)

    def listed(self, fake: Tensor) -> list[int] | None:
        """Counts in a row, which add up to their sum."""
        total = self.of(self.counts, fake)
        if total is None or fake.dim() != 1:
            return None
        length = int(fake.numel())
        return [total // length + (at < total % length) for at in range(length)]

    def counted(self, fake: Tensor) -> int | None:
        """A single count."""
        return self.of(self.counts, fake) if fake.numel() == 1 else None
