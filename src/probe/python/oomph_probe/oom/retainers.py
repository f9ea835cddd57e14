"""Who keeps GPU memory alive: from a few of the largest tensors that no optimizer knows of, the references are
followed upwards until something has a name in the program, and from there is summed what it keeps. For a leak
this is the answer; the line that allocated the memory is not.

Never done by itself while the training goes well: at an out-of-memory, once where what stays between steps is certain
to fill the memory, or when somebody asks for it. It walks over all objects that Python's garbage collector knows, a
few times, with the GIL held: the training waits meanwhile, and a clock bounds it. It calls nothing of the program's and
leaves nothing behind (variables.py, graphs.py).
"""

from __future__ import annotations

import gc
import heapq
import itertools
import math
import operator
import sys
import time
import types
import weakref

from ..common import errors, frames, objects
from ..live import graphs
from . import variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Iterator

    from ..common.frames import Owners
    from ..common.protocols import Line, Segments, Tensor, Torch
    from ..live.steps import Steps
    from ..live.structure import Structure
    from .variables import Binding

# Seconds between two, for programs that catch one out-of-memory after another.
EVERY = 60.0
# In seconds; once that was too short for any name; and where a step is rehearsed, which says more of the step's own
# tensors. With other work on all cores a search takes three times as long as alone.
PATIENCE, LONGER, BESIDE_A_REHEARSAL = 1.0, 3.0, 0.2
# Objects of the heap beyond which even one walk over it takes longer, and how many are looked at between two looks at
# the clock.
MOST_OBJECTS = 5000000
AT_ONCE = 100000
# Names that are told, and how many tensors are tried for them.
MOST_NAMES, MOST_TRIES = 6, 10
# Walks over the heap for one of them, and levels that are shown.
MOST_WALKS, MOST_LEVELS = 12, 5
# Objects below a name that are looked at.
MOST_BELOW = 200000
# What is smaller, by its share of what is looked for, isn't told.
NOTABLE = 0.01
# Sizes are alike that differ by no more than an octave's part.
ALIKE = 4
# A container that has this share of a larger one's memory is the one that grows.
NEARLY_ALL = 0.9
# Nothing of these is kept by the program on purpose, or everything is.
NEVER_BELOW = (types.ModuleType, type, types.CodeType, types.FrameType, types.FunctionType)


class Link:
    """An object on the way up. The only kind of ours that refers to the program's objects meanwhile, so that it
    can be told from the program's own references."""

    __slots__ = ("thing", "below", "height")

    def __init__(self, thing: object, below: Link | None) -> None:
        self.thing = thing
        self.below = below
        self.height: int = 0 if below is None else below.height + 1


class Tensors:
    """A tensor, by a weak reference, with the blocks that it keeps."""

    __slots__ = ("reference", "addresses")

    def __init__(self, tensor: Tensor, addresses: set[int]) -> None:
        self.reference = weakref.ref(tensor)
        self.addresses = addresses


class Retainer:
    """Something with a name: the blocks that it keeps, those of them that tensors in it have themselves, and its
    words on the wire."""

    __slots__ = ("kept", "direct", "words")

    def __init__(self, kept: set[int], direct: set[int], words: Line) -> None:
        self.kept = kept
        self.direct = direct
        self.words = words


class Search:
    """One search. `blocks` are the bytes at each address that are to be explained, `is_there` says of a tensor
    whether it is on the device."""

    def __init__(
        self, torch: Torch, blocks: dict[int, int], owners: Owners, until: float, is_there: Callable[[Any], bool]
    ) -> None:
        self.torch = torch
        self.blocks = blocks
        self.until = until
        self.is_there = is_there
        self.variables = variables.Variables(owners)
        self.graphs = graphs.Graphs(torch, blocks, until)
        self.objects = 0
        self.walk = 0.0
        # The blocks of tensors that were tried, and of these the ones that something with a name keeps.
        self.tried: set[int] = set()
        self.explained: set[int] = set()

    def run(self) -> tuple[list[Line], bool]:
        """The names, the largest first, and whether there was time for all of them."""
        pool = self.pool()
        if pool is None:
            return [], False
        self.variables.collect()
        found: list[Any] = []
        for _ in range(MOST_TRIES):
            if len(found) >= MOST_NAMES or not self.has_time():
                break
            largest = self.largest(pool)
            if largest is None:
                break
            tensor = largest.reference()
            # If nobody in Python keeps it, it is not tried again.
            self.tried |= largest.addresses
            retainer = self.explain(tensor) if tensor is not None else None
            if retainer is not None:
                self.tried |= retainer.kept
                found.append(retainer)
        return self.rows(found), self.has_time()

    def rows(self, found: list[Retainer]) -> list[Line]:
        """As rows of the wire: what two of them keep is counted for the larger."""
        rows = []
        for each in sorted(found, key=lambda each: -self.size(each.kept)):
            kept = each.kept - self.explained
            if self.is_notable(kept):
                self.explained |= kept
                graph = self.size(kept - each.direct)
                rows.append(dict(each.words, bytes=self.size(kept), graph=graph))
        return rows

    def has_time(self) -> bool:
        """Whether another walk over the heap would end in time."""
        return time.monotonic() + self.walk <= self.until

    def pool(self) -> list[Tensors] | None:
        """The tensors there are, each with what it alone keeps, in the order in which their graphs were made;
        None where there are too many objects."""
        # By the types' ids: a metaclass may compare or hash in its own way.
        kinds = {id(kind) for kind in objects.kinds_of_tensors(self.torch)}
        found = []
        every = gc.get_objects()
        self.objects = len(every)
        if self.objects > MOST_OBJECTS:
            return None
        for first in range(0, len(every), AT_ONCE):
            for each in [each for each in every[first : first + AT_ONCE] if id(type(each)) in kinds]:
                if self.is_there(each):
                    address = self.graphs.address_of(each)
                    if address in self.blocks:
                        self.graphs.made_by(each, address)
                        found.append((sequence(each), address, weakref.ref(each)))
                del each
                if time.monotonic() > self.until:
                    return None
        del every
        # The last of a step reaches the others: what they keep is its.
        found.sort(key=lambda entry: -entry[0])
        pool = []
        seen: set[int] = set()
        # What a graph has saved may be there as an object as well: it is the graph's, and counts once.
        claimed: set[int] = set()
        for _, address, reference in found:
            tensor = reference()
            if tensor is not None:
                kept = (self.graphs.behind(tensor, seen) | {address}) - claimed
                claimed |= kept
                pool.append(Tensors(tensor, kept))
        return pool

    def largest(self, pool: list[Tensors]) -> Tensors | None:
        """One of those that keep the most together of what hasn't been tried, each about as much as the others: little
        is kept of a step, and much of all. The oldest of them, which no running function is about to let go. None
        where all that is left is little."""
        alike: dict[int, list[Tensors]] = {}
        sums: dict[int, int] = {}
        left: set[int] = set()
        for each in pool:
            each.addresses -= self.tried
            left |= each.addresses
            size = self.size(each.addresses)
            if size:
                about = int(math.log2(size) * ALIKE)
                alike.setdefault(about, []).append(each)
                sums[about] = sums.get(about, 0) + size
        if not sums or not self.is_notable(left):
            return None
        most = max(sums, key=sums.__getitem__)
        return alike[most][-1]

    def is_notable(self, addresses: set[int]) -> bool:
        return self.size(addresses) >= NOTABLE * self.size(self.blocks)

    def size(self, addresses: Iterable[int]) -> int:
        return sum(self.blocks[address] for address in addresses)

    def explain(self, tensor: Tensor) -> Retainer | None:
        """Who keeps a tensor; None where nobody in Python does."""
        things, end = self.climb(tensor)
        at, kept, direct = self.holder(things)
        named = self.name(things, at, end)
        if named is None:
            return None
        row = words(things, at, end, named)
        # A library's line is nothing that anybody could change.
        if "line" in row and self.variables.owners.of(row["line"]["file"]) == frames.LIBRARY:
            del row["line"]
        return Retainer(kept, direct, row)

    def climb(self, tensor: Tensor) -> tuple[list[object], Binding | None]:
        """What refers to a tensor, the uppermost first and the tensor last, and the name at which the way up
        ended, if it came to one."""
        order = itertools.count()
        waiting = [(0, next(order), Link(tensor, None))]
        seen = {id(tensor)}
        highest = waiting[0][2]
        # A variable of a library's function: it has been given what the program keeps.
        lent: tuple[list[object], Binding] | None = None
        for _ in range(MOST_WALKS):
            if not waiting:
                break
            _, _, link = heapq.heappop(waiting)
            end = self.variables.of(link.thing)
            if end is not None and not self.variables.is_librarys(end):
                return self.things(link), end
            if end is not None and lent is None:
                lent = self.things(link), end
            if not self.has_time():
                break
            for referrer in self.referrers(link.thing):
                if id(referrer) in seen:
                    continue
                seen.add(id(referrer))
                end = self.variables.at_the_end(referrer, link)
                if end is not None:
                    return self.things(variables.content(referrer, link)), end
                upper = Link(referrer, link)
                odd = is_odd(referrer)
                if upper.height > highest.height and not odd:
                    highest = upper
                heapq.heappush(waiting, (upper.height + 2 * odd, next(order), upper))
            referrer = None
        return lent or (self.things(highest), None)

    def things(self, link: Link | None) -> list[object]:
        """From a link down, without the dicts of attributes: they belong to the objects above them."""
        things: list[object] = []
        while link is not None:
            if not (things and objects.namespace_of(things[-1]) is link.thing):
                things.append(link.thing)
            link = link.below
        return things

    def referrers(self, thing: object) -> list[object]:
        """What refers to it, without what is ours."""
        began = time.monotonic()
        found = gc.get_referrers(thing)
        self.walk = time.monotonic() - began
        return [
            each
            for each in found
            if type(each) is not Link
            and not issubclass(type(each), types.ModuleType)
            and not (type(each) is types.FrameType and each.f_code.co_filename.startswith(frames.OURS))
        ]

    def holder(self, things: list[object]) -> tuple[int, set[int], set[int]]:
        """The place of what keeps the memory, the blocks that it keeps, and those of them that tensors in it have
        themselves: the innermost container with nearly all that any has, else the tensor."""
        found = [
            (at, *self.below(thing)) for at, thing in enumerate(things) if variables.length_of(thing) is not None
        ]
        if not found:
            return (len(things) - 1, *self.below(things[-1]))
        most = max(self.size(kept) for _, kept, _ in found)
        return [each for each in found if self.size(each[1]) >= NEARLY_ALL * most][-1]

    def below(self, top: object) -> tuple[set[int], set[int]]:
        """The blocks that an object keeps, and those of them that are not only in graphs."""
        seen = {id(top)}
        kept: set[int] = set()
        direct: set[int] = set()
        nodes: set[int] = set()
        waiting: list[Any] = [top]
        while waiting and len(seen) < MOST_BELOW:
            thing = waiting.pop()
            if issubclass(type(thing), self.torch.Tensor):
                self.add(thing, kept, direct, nodes)
                continue
            for inner in gc.get_referents(thing):
                if gc.is_tracked(inner) and id(inner) not in seen and not issubclass(type(inner), NEVER_BELOW):
                    seen.add(id(inner))
                    waiting.append(inner)
            if len(seen) % 1000 == 0 and time.monotonic() > self.until:
                break
        return kept | direct, direct

    def add(self, tensor: Tensor, kept: set[int], direct: set[int], nodes: set[int]) -> None:
        if self.is_there(tensor):
            kept |= self.graphs.behind(tensor, nodes)
            address = self.graphs.address_of(tensor)
            if address in self.blocks:
                direct.add(address)

    def name(self, things: list[object], at: int, end: Binding | None) -> tuple[Binding, str] | None:
        """What the thing at this place is called, and the way to it from there: `state` and `["losses"]`; None
        where it has no name."""
        way = ""
        for place in range(at - 1, -1, -1):
            above, thing = things[place], things[place + 1]
            binding = self.variables.attribute(above, thing)
            if binding is not None:
                return binding, way
            if variables.length_of(above) is not None:
                way = variables.place_in(above, thing) + way
        if end is not None:
            return end, way
        return (variables.UNNAMED, "") if at < len(things) - 1 else None


def words(things: list[object], at: int, end: Binding | None, named: tuple[Binding, str]) -> Line:
    """What the wire has of the thing at this place, apart from its size."""
    (binding, way), thing = named, things[at]
    above = [variables.describe(each) for each in reversed(things[:at])]
    if end is not None and end is not binding:
        above.append(end.words())
    row: Line = {
        "name": binding.name + way,
        "kind": binding.kind,
        "of": binding.of,
        "type": type(thing).__name__,
    }
    length, line = variables.length_of(thing), binding.line()
    if length is not None:
        row["length"] = length
    if line is not None:
        row["line"] = line
    below = [variables.describe(each) for each in things[at + 1 :]]
    for field, levels in (("above", above), ("below", below)):
        if levels:
            row[field] = levels[:MOST_LEVELS]
    return row


def is_odd(referrer: object) -> bool:
    """Whether it is neither a container nor an object with attributes: a cell, a function."""
    return variables.length_of(referrer) is None and objects.namespace_of(referrer) is None


def sequence(tensor: Tensor) -> int:
    """When its graph was made; -1 without one."""
    try:
        return tensor.grad_fn._sequence_nr() if tensor.grad_fn is not None else -1
    except Exception:
        errors.foreseen("when a graph was made")
        return -1


class Retainers:
    """The searches of this self."""

    def __init__(self, torch: Torch, pid: int, owners: Owners, steps: Steps, structure: Structure) -> None:
        self.torch = torch
        self.pid = pid
        self.owners = owners
        self.steps = steps
        self.structure = structure
        # When the last out-of-memory was looked into.
        self.looked_at: float | None = None
        # Whether the last search came to no name because it had no time: the next one has more.
        self.was_too_short = False

    def at_oom(self, device: int, segments: Segments, is_rehearsed: bool = False) -> Line | None:
        """The line of an out-of-memory; None where the last one was looked into a moment ago. `is_rehearsed`: it is
        in a step that will be."""
        now = time.monotonic()
        if self.looked_at is not None and now - self.looked_at < EVERY:
            return None
        self.looked_at = now
        return self.take(device, segments, BESIDE_A_REHEARSAL if is_rehearsed else None)

    def take(self, device: int, segments: Segments, patience: float | None = None) -> Line:
        """The line for the wire. `patience` are the seconds that it may take."""
        began = time.monotonic()
        if patience is None:
            patience = LONGER if self.was_too_short else PATIENCE
        line = {"event": "retainers", "pid": self.pid, "device": int(device), "step": self.steps.count}
        if not getattr(sys, "_is_gil_enabled", is_true)():
            line["left"] = "Python runs without a GIL, so its objects change while they are looked at"
            return line
        kinds, _ = self.structure.kinds({})
        blocks = {address: size for address, size in live(segments) if address not in kinds}
        search = Search(self.torch, blocks, self.owners, began + patience, operator.attrgetter("is_cuda"))
        collects = gc.isenabled()
        # No object of the program's is finalized from within.
        gc.disable()
        try:
            with graphs.without_overrides(self.torch):
                found, ended = search.run()
        finally:
            if collects:
                gc.enable()
        self.was_too_short = not ended and not any(row["kind"] != variables.OTHER for row in found)
        explained = search.size(search.explained)
        line.update(
            retainers=found,
            looked_for=search.size(blocks),
            unexplained=search.size(blocks) - explained,
            micros=int((time.monotonic() - began) * 1e6),
        )
        if not ended:
            line["left"] = "the search ran out of time after %d objects" % search.objects
        return line


def live(segments: Segments) -> Iterator[tuple[int, int]]:
    """The address and the size of each live block."""
    for segment in segments:
        address = segment.get("address", 0)
        for block in segment["blocks"]:
            address = block.get("address", address)
            if block["state"] != "inactive":
                yield address, block["size"]
            address += block["size"]


def is_true() -> bool:
    return True
