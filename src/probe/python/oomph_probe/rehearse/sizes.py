"""The sizes of a trace as functions of the batch: what stays, what grows with it, what grows with its square.

The first batch that a step is rehearsed at is a multiple of a prime, so a size that the prime divides grows with the
batch. That is not all: half a batch, a queue beside it, groups of samples. Where there is time the step is
rehearsed at two more batches, in the range that is asked about, and each size is told by all three. None of them is 1:
what is done for one sample only is often left out. Where a smaller batch needs more, nothing is known.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, List, Tuple

    Points = List[Tuple[int, int]]

# Between a size and the stream of an allocation that is not on the usual one.
STREAM = "@"
# No other size is a multiple of it by chance.
PRIME = 1009
# Samples that belong together: the batch stays a multiple of as many as it was one of, up to so many.
TOGETHER = 16
# Rounded to whole pages, rows or groups a size is still one that grows with the batch.
ROUNDED = 0.02
# By so much a peak may differ from the one that the sizes say.
CLOSE = 0.02


class Contradiction(Exception):
    """The sizes at several batches do not go together."""


def first_of(batch: int) -> int:
    """The batch that a step is rehearsed at first."""
    together = next(each for each in range(min(batch, TOGETHER), 0, -1) if batch % each == 0)
    # Halves are common.
    return PRIME * (together if together % 2 == 0 else 2 * together)


def further_of(batch: int) -> tuple[int, int]:
    """Two more: the program's own and a smaller one that divides it; both larger than 1."""
    own = max(batch, 2)
    less = next((own // each for each in range(2, own) if own % each == 0), 2 * own)
    return own, less


def by_one(words: list[str], batch: int, fixed: Any) -> list[str]:
    """The words of src/forecast/trace.rs for a trace at a multiple of the prime: `4096` stays, `x512` grows with the
    batch, `xx4` with its square (a loss that compares each sample with each). `fixed` are sizes of parameters."""
    made = []
    for word in words:
        # What lies on a stream of its own has a size of its own.
        size = None if word.startswith("-") or STREAM in word else int(word)
        if size is None or size % PRIME or size in fixed:
            made.append(word)
        elif size % (PRIME * PRIME):
            made.append("x" + share(size, batch))
        else:
            made.append("xx" + share(size, batch * batch))
    return made


def by_several(traces: list[tuple[int, list[str]]], fixed: Any) -> list[str]:
    """The same of traces at several batches, the first one as above. Raises `Contradiction`."""
    first = by_one(traces[0][1], traces[0][0], fixed)
    at = [(batch, words) for batch, words in traces]
    if any(pattern(words) != pattern(traces[0][1]) for _, words in at[1:]):
        return agreeing(first, at[1:])
    made = []
    for number, word in enumerate(first):
        if word.startswith("-") or STREAM in word:
            made.append(word)
            continue
        told = of_points([(batch, int(words[number])) for batch, words in at])
        if told is None:
            return agreeing(first, at[1:])
        made.append(told)
    return made


def agreeing(words: list[str], traces: list[tuple[int, list[str]]]) -> list[str]:
    """The words, if the peaks that they say are those of all traces."""
    if not all(abs(peak(at(words, batch)) / max(peak(each), 1) - 1) <= CLOSE for batch, each in traces):
        raise Contradiction("what it needs does not follow from its batch")
    return words


def of_points(points: Points) -> str | None:
    """The word of one size at several batches; None where no size that grows with its batch is like that."""
    (batch, size), others = points[0], points[1:]
    if all(other == size for _, other in others):
        return str(size)
    if all(other * batch == size * at for at, other in others):
        return "x" + share(size, batch)
    if all(other * batch * batch == size * at * at for at, other in others):
        return "xx" + share(size, batch * batch)
    straight = a_line(points)
    if straight is not None:
        return straight
    curved = a_parabola(points)
    if curved is not None:
        return curved
    ratios = [(other / at, other, at) for at, other in points]
    most = max(ratios)
    return "x" + share(most[1], most[2]) if min(ratios)[0] >= most[0] * (1 - ROUNDED) else None


def a_line(points: Points) -> str | None:
    """Something beside what grows with the batch."""
    (a, size_a), (b, size_b) = points[:2]
    rise, run = sloped(size_a - size_b, a - b)
    if rise <= 0 or any((size_a - size) * run != rise * (a - at) for at, size in points[2:]):
        return None
    rest = size_a * run - rise * a
    return None if rest % run else summed(("x", share(rise, run)), ("", "%d" % (rest // run)))


def a_parabola(points: Points) -> str | None:
    """Pairs of samples, less those of one with itself. Three points lie on one always: only whole numbers count, and
    those that grow from a batch of 1 on."""
    if len(points) < 3:
        return None
    (a, size_a), (b, size_b), (c, size_c) = points[:3]
    below = (a - b) * (a - c) * (b - c)
    square = (size_a * (b - c) - size_b * (a - c) + size_c * (a - b), below)
    each = (-size_a * (b * b - c * c) + size_b * (a * a - c * c) - size_c * (a * a - b * b), below)
    if square[0] % below or each[0] % below:
        return None
    squared, linear = square[0] // below, each[0] // below
    rest = size_a - squared * a * a - linear * a
    if squared <= 0 or 3 * squared + linear < 0 or squared + linear + rest < 0:
        return None
    return summed(("xx", "%d" % squared), ("x", "%d" % linear), ("", "%d" % rest))


def summed(*terms: tuple[str, str]) -> str:
    """A sum, what grows most first: a word that begins with a minus is a free."""
    return "+".join(power + each for power, each in terms if each != "0")


def sloped(rise: int, run: int) -> tuple[int, int]:
    return (-rise, -run) if run < 0 else (rise, run)


def share(size: int, of: int) -> str:
    """So many of each, as a fraction where that is no whole number."""
    by = divisor(size, of)
    return "%d" % (size // by) if of == by else "%d/%d" % (size // by, of // by)


def divisor(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


def pattern(words: list[str]) -> list[str]:
    """What is allocated and freed in which order, whatever its size."""
    return [word if word.startswith("-") or STREAM in word else "" for word in words]


def at(words: list[str], batch: int) -> Iterator[str]:
    """The words of a trace at a batch."""
    for word in words:
        yield word if word.startswith("-") else str(size_at(word, batch))


def size_at(word: str, batch: int) -> int:
    size = 0
    for term in word.split(STREAM)[0].split("+"):
        number = term.lstrip("x")
        above, _, below = number.partition("/")
        power = len(term) - len(number)
        size += -(-int(above) * batch**power // int(below or 1))
    return max(size, 0)


def peak(words: Any) -> int:
    """The most that is allocated at once."""
    sizes: list[int] = []
    now = most = 0
    for word in words:
        if word.startswith("-"):
            now -= sizes[len(sizes) - int(word[1:].rstrip("?"))]
            continue
        sizes.append(int(word.split(STREAM)[0]))
        now += sizes[-1]
        most = max(most, now)
    return most
