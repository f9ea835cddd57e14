"""A step that takes its samples one by one: a forward with a loop over them, or a model that is given a list of texts.
At a batch that is a multiple of a prime (sizes.py) it would go on for minutes, and no list is so long: it is rehearsed
at the program's own batch and at another one, and the sizes of the first are told by those of the second. Of a list
that is one with each item twice, so that texts are as long in both.
"""

from __future__ import annotations

from .effects import Stopped
from .sizes import CLOSE, PRIME, STREAM, Contradiction, at, peak, share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    Counts = Dict[int, int]

# Samples that are looked at by themselves; so many are none that a program picks.
MOST = 64
# Less than such a share of the batch is taken for a sample.
PART = 64


class OneByOne(Stopped):
    """The samples are gone through one by one."""


class Samples:
    """Counts the samples that a step takes by themselves, of a batch that is a multiple of the prime."""

    def __init__(self, batch: int) -> None:
        self.batch = batch if batch % PRIME == 0 else 0
        self.seen = 0

    def look(self, name: str, args: Any) -> None:
        """Raises once there are too many of them; most operators are none of these."""
        if not self.batch or name not in TAKING or not TAKING[name](self.batch, args):
            return
        self.seen += 1
        if self.seen > MOST or name in AT_ONCE:
            raise OneByOne("its samples are gone through one by one")


def selects(batch: int, args: Any) -> bool:
    return size_of(args[0], args[1] if len(args) > 1 else 0) == batch


def slices(batch: int, args: Any) -> bool:
    if len(args) < 4 or size_of(args[0], args[1]) != batch:
        return False
    first, last = args[2] or 0, args[3]
    return type(last) is int and 0 < last - first <= batch // PART


def divides(batch: int, args: Any) -> bool:
    if len(args) < 2 or size_of(args[0], args[2] if len(args) > 2 else 0) != batch:
        return False
    parts = batch // max(args[1], 1) if type(args[1]) is int else len(args[1])
    return parts > MOST


TAKING = {"select": selects, "unbind": selects, "slice": slices, "split": divides, "split_with_sizes": divides}
AT_ONCE = ("unbind", "split", "split_with_sizes")


def size_of(tensor: Any, dimension: int) -> int:
    return int(tensor.shape[dimension]) if tensor.dim() else 0


def length_of(given: List[Any]) -> int | None:
    """How many texts, or other samples that are no tensors, are in the lists that a model was given; None where there
    are tensors, or the lists are not equally long."""
    lists = [each for each in given if type(each) in (list, tuple)]
    lengths = {len(each) for each in lists}
    is_plain = all(type(part) in (str, list, tuple) for each in lists for part in each)
    return lengths.pop() if len(lengths) == 1 and is_plain else None


def resized(given: Any, was: int, now: int) -> Any:
    """A list of as many samples: of each of its own equally many, in their order."""
    if type(given) not in (list, tuple) or len(given) != was or was == 0:
        return given
    return type(given)(given[place * was // now] for place in range(now))


def words(own: tuple[int, list[str]], other: tuple[int, list[str]], fixed: Any) -> list[str]:
    """The words of the trace at a program's own batch, as sizes.py has them, told by one at another. Raises
    `Contradiction`."""
    for by_number in (True, False):
        made = told(own, other, fixed, by_number)
        if abs(peak(at(made, other[0])) / max(peak(other[1]), 1) - 1) <= CLOSE:
            return made
    raise Contradiction("what it needs does not follow from its batch")


def told(own: tuple[int, list[str]], other: tuple[int, list[str]], fixed: Any, by_number: bool) -> list[str]:
    """`by_number`: sizes of which there are as many more as samples are those of a sample, and grow together."""
    (batch, words_here), (at_other, words_there) = own, other
    here, there = counts_of(words_here), counts_of(words_there)
    powers = {size: power_of(size, batch, at_other, here, there, by_number) for size in here if size not in fixed}
    made = []
    for word in words_here:
        power = 0 if word.startswith("-") or STREAM in word else powers.get(int(word), 0)
        made.append("x" * power + share(int(word), batch**power) if power else word)
    return made


def power_of(size: int, batch: int, other: int, here: Counts, there: Counts, by_number: bool) -> int:
    """With which power of the batch a size grows, by how many there are of it at one batch and at the other."""
    for power in (1, 2):
        scaled, rest = divmod(size * other**power, batch**power)
        if rest == 0 and here[size] == there.get(scaled) != there.get(size):
            return power
    is_of_samples = here[size] * other == there.get(size, 0) * batch
    return 1 if by_number and is_of_samples else 0


def counts_of(words_here: list[str]) -> Counts:
    found: Counts = {}
    for word in words_here:
        if not word.startswith("-") and STREAM not in word:
            found[int(word)] = found.get(int(word), 0) + 1
    return found
