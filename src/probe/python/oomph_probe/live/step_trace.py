"""One step of the training as the allocator's history has it, in a compact form: every allocation and
free, the phase it belongs to, and for every block the program's line that allocated it. Pure: torch's
snapshot in, one line of the wire out.

The form of the trace is that of src/forecast/trace.rs: what was alive at the step's beginning, ` | `, then
`4096` allocates, `4096@1` does so on another stream, `-3` frees what was allocated three allocations ago.
"""

from __future__ import annotations

import bisect

from ..common import frames
from . import regions, snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.frames import Owners
    from ..common.protocols import Line, Segments

FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"
# Torch's functions that the backward engine calls on its own threads.
ENGINES = (("apply", "autograd/function.py"), ("hook", "utils/hooks.py"))
# A line of the wire above this is not sent, and its step not shown.
LONGEST = 100000
# The allocator hands out multiples of this (kMinBlockSize of CUDACachingAllocator.cpp).
ROUNDED_TO = 512


class Block:
    """An allocation: its place in the trace and what is known of its origin."""

    __slots__ = ("size", "number", "frames", "address", "module")

    def __init__(self, size: int, stack: Any, address: int | None) -> None:
        self.size = size
        self.module: Any = None
        self.number: int | None = None
        self.frames = stack
        self.address = address


def condense(
    segments: Segments,
    events: list[dict[str, Any]],
    began_us: int,
    optimizer_us: int | None,
    kinds: dict[int, Any],
    modules: Any,
    owners: Owners,
) -> Line:
    """The step that began at `began_us`, from the snapshot at its end; `optimizer_us` is when its optimizer
    began, None where it did not. `kinds` maps addresses to kinds of tensors, as they were at the end; `modules`
    knows which module was running, and when."""
    of_step = [event for event in events if event["time_us"] >= began_us]
    events = [event for event in of_step if event["action"] in ("alloc", "free_completed")]
    carried = carried_blocks(segments, events)
    table = Table(owners, kinds)
    words: list[str] = []
    phases: list[Any] = []
    of_blocks: list[Any] = []
    alive: dict[Any, Any] = {}
    streams: dict[int, Any] = {}
    for block in carried:
        block.number = len(of_blocks)
        of_blocks.append(block)
        alive[block.address] = block
    phase = FORWARD
    for event in events:
        address = event["addr"]
        if event["action"] == "alloc":
            phase = phase_of(event, phase, optimizer_us, owners)
            stream = streams.setdefault(event["stream"], len(streams))
            words.append("%d@%d" % (event["size"], stream) if stream else "%d" % event["size"])
            block = alive[address] = Block(event["size"], event.get("frames"), address)
            block.number = len(of_blocks)
            block.module = modules.at(event["time_us"]) if phase != OPTIMIZER else None
            of_blocks.append(block)
        elif address in alive:
            words.append("-%d" % (len(of_blocks) - alive.pop(address).number))
        else:
            continue
        if not phases or phases[-1][0] != phase:
            phases.append((phase, len(words) - 1))
    at_end = {id(block) for block in alive.values()}
    for block in alive.values():
        block.module = modules.places.get(block.address, block.module)
    numbers = [table.number_of(block, id(block) in at_end) for block in of_blocks]
    condensed = {
        "trace": " ".join([str(block.size) for block in carried] + ["|"] + words),
        "phases": [{"phase": phase, "from": at} for phase, at in phases],
        "origins": table.rows,
        "blocks": runs(numbers),
    }
    layout = layout_before(segments, of_step, carried, at_end, streams)
    if layout:
        condensed["layout"] = layout
    if modules.is_known:
        names = Names()
        condensed["block_modules"] = runs([names.number_of(block.module) for block in of_blocks])
        condensed["modules"] = names.names
    return condensed


class Modules:
    """Which module was running at a time, and which one's parameters lie at an address."""

    def __init__(self, seen: Any, places: dict[int, Any]) -> None:
        """`seen`: the marks of the step, (microseconds, id of a module or None), and the names of ids; or None."""
        marks, self.names = ([], {}) if seen is None else seen[:2]
        self.times = [time_us for time_us, _ in marks]
        self.labels = [label for _, label in marks]
        self.places = places
        self.is_known = seen is not None

    def at(self, time_us: int) -> Any:
        """The innermost module then; None outside of them."""
        place = bisect.bisect_right(self.times, time_us) - 1
        return self.names.get(self.labels[place]) if place >= 0 else None


class Names:
    """Names by number: 1 for the first, and so on; 0 for none."""

    def __init__(self) -> None:
        self.names: list[Any] = []
        self.known: dict[Any, Any] = {}

    def number_of(self, name: str) -> int:
        if name is None:
            return 0
        number = self.known.get(name)
        if number is None:
            self.names.append(name)
            number = self.known[name] = len(self.names)
        return number


def length(line: Line) -> int:
    """Bytes of a condensed step on the wire, about."""
    rows = sum(len(str(row)) for row in line["origins"])
    names = sum(len(name) + 3 for name in line.get("modules", ()))
    traced = len(line["trace"]) + len(line["blocks"]) + len(line.get("layout", ""))
    return traced + rows + names + len(line.get("block_modules", ""))


def carried_blocks(segments: Segments, events: list[dict[str, Any]]) -> list[Any]:
    """What was alive before the events, by address: what is alive after them and was not made by them, and
    what they freed first."""
    made: set[int] = set()
    before: dict[int, Any] = {}
    for event in events:
        address = event["addr"]
        if event["action"] == "alloc":
            made.add(address)
        elif address not in made:
            before.setdefault(address, Block(event["size"], event.get("frames"), address))
        else:
            made.discard(address)
    for segment in segments:
        address = segment.get("address", 0)
        for block in segment["blocks"]:
            place = block.get("address", address)
            if block["state"].startswith("active") and place not in made and place not in before:
                before[place] = Block(block.get("requested_size", block["size"]), block.get("frames"), place)
            address = place + block["size"]
    return [before[address] for address in sorted(before)]


def layout_before(
    segments: Segments, events: list[dict[str, Any]], carried: list[Any], at_end: set[int], streams: dict[int, Any]
) -> str | None:
    """Where the carried blocks lay when the step began: each segment, by address, as `+SIZE`, with `@STREAM` for others
    than the first, and behind it its blocks by address: `.` is a carried block of its rounded size, a number one of
    another size, a number with a minus a free stretch. None where segments grow in place or a pool is private."""
    there = {}
    for segment in segments:
        if segment.get("is_expandable") or tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0):
            return None
        there[segment.get("address", 0)] = (segment.get("total_size", 0), segment.get("stream", 0))
    for event in reversed(events):
        if event["action"] == "segment_alloc":
            there.pop(event["addr"], None)
        elif event["action"] == "segment_free":
            there[event["addr"]] = (event["size"], event["stream"])
    sizes = {}
    for segment in segments:
        address = segment.get("address", 0)
        for block in segment["blocks"]:
            place = block.get("address", address)
            sizes[place] = block["size"]
            address = place + block["size"]
    words, at = [], 0
    for address in sorted(there):
        size, stream = there[address]
        number = streams.setdefault(stream, len(streams))
        words.append("+%d@%d" % (size, number) if number else "+%d" % size)
        place, end = address, address + size
        while at < len(carried) and carried[at].address < end:
            block = carried[at]
            if block.address < place:
                return None
            if block.address > place:
                words.append("-%d" % (block.address - place))
            rounded = -(-block.size // ROUNDED_TO) * ROUNDED_TO
            taken = sizes.get(block.address, rounded) if id(block) in at_end else rounded
            words.append("." if taken == rounded else "%d" % taken)
            place = block.address + taken
            at += 1
        if place < end:
            words.append("-%d" % (end - place))
    return " ".join(words) if at == len(carried) else None


def phase_of(event: Any, phase: str, optimizer_us: int | None, owners: Owners) -> str:
    """Backward runs on the engine's threads, which have no Python frames but those of a recomputation, of functions
    that have a backward of their own (what was compiled is one), and of hooks: a function of torch is outermost."""
    if optimizer_us is not None and event["time_us"] >= optimizer_us:
        return OPTIMIZER
    stack = event.get("frames")
    if stack is None:
        return phase
    if not stack or any(is_recomputation(frame, owners) for frame in stack):
        return BACKWARD
    outermost = stack[-1]
    for name, file in ENGINES:
        if outermost["name"] == name and outermost["filename"] == owners.torch_home + file:
            return BACKWARD
    return FORWARD


def is_recomputation(frame: dict[str, Any], owners: Owners) -> bool:
    return frame["name"] in ("unpack_hook", "recompute_fn") and frame["filename"].startswith(owners.torch_home)


class Table:
    """The origins of blocks: the program's line, the library's below it, and the kind of tensor."""

    def __init__(self, owners: Owners, kinds: dict[int, Any]) -> None:
        self.owners = owners
        self.kinds = kinds
        self.regions = regions.Regions()
        self.rows: list[Any] = []
        self.known: dict[Any, Any] = {}

    def number_of(self, block: Any, is_alive: bool) -> int:
        """1 for the first row, and so on; 0 where nothing is known."""
        # The kinds are those of the end: an address may have had another block before.
        kind = self.kinds.get(block.address) if is_alive else None
        own = inside = None
        if block.frames:
            own, inside = snapshot.own_and_inside(block.frames, self.owners)
            self.regions.learn(block.frames, own)
            own, inside = self.regions.told(block.frames, own, inside)
        if own is None and kind is None:
            return 0
        key = own, inside, kind
        number = self.known.get(key)
        if number is None:
            row = {}
            if own is not None:
                row["line"] = frames.line_of(*own)
            if inside is not None:
                row["inside"] = frames.line_of(*inside)
            if kind is not None:
                row["kind"] = kind
            self.rows.append(row)
            number = self.known[key] = len(self.rows)
        return number


def runs(numbers: list[int]) -> str:
    """`3 3 3 0` as "3*3 0"."""
    words, at = [], 0
    while at < len(numbers):
        end = at
        while end < len(numbers) and numbers[end] == numbers[at]:
            end += 1
        words.append(str(numbers[at]) if end == at + 1 else "%d*%d" % (numbers[at], end - at))
        at = end
    return " ".join(words)
