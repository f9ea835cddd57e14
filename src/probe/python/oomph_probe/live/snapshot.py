"""Summaries of the allocator's snapshot: the free blocks within reserved memory, and the program's
lines that hold the most. Pure: a snapshot in, small values out.
"""

from __future__ import annotations

from ..common import frames
from . import regions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    from ..common.frames import Owners
    from ..common.protocols import Line, Segments

MAX_LINES = 12
# Blocks from this size on (bytes) are told by it: what is smaller has too few sizes.
TELLING = 1 << 20


def free_blocks(segments: Segments) -> tuple[int, list[Line]]:
    """The largest free block that an ordinary allocation could use, and all free blocks by size."""
    largest = 0
    classes: dict[Any, Any] = {}
    for segment in segments:
        # Private pools (CUDA graphs, the program's own) serve no other allocations.
        is_private = tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0)
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                continue
            size = block["size"]
            if not is_private and size > largest:
                largest = size
            of = classes.setdefault(upper_bound(size), [0, 0])
            of[0] += 1
            of[1] += size
    table = [
        {"up_to": bound, "count": count, "bytes": size}
        for bound, (count, size) in sorted(classes.items())
    ]
    return largest, table


def private_pools(segments: Segments, owners: Owners) -> list[Line]:
    """Pools that serve no other allocations (CUDA graphs', the program's own), the largest first: what is reserved for
    each, what of it is allocated, and the line that allocated the most of that, as far as stacks were recorded."""
    pools: dict[Any, list[Any]] = {}
    for segment in segments:
        pool = tuple(segment.get("segment_pool_id", (0, 0)))
        if pool != (0, 0):
            pools.setdefault(pool, []).append(segment)
    found = []
    for pool, parts in pools.items():
        blocks = [block for segment in parts for block in segment["blocks"]]
        held: dict[Any, int] = {}
        for own, _, block in placed(parts, owners):
            held[own] = held.get(own, 0) + block["size"]
        line: Line = {
            "pool": list(pool), "reserved": sum(block["size"] for block in blocks),
            "allocated": sum(block["size"] for block in blocks if block["state"] != "inactive"),
        }
        if held:
            line["line"] = frames.line_of(*max(held, key=lambda own: held[own]))
        found.append(line)
    return sorted(found, key=lambda line: -line["reserved"])[:MAX_LINES]


def upper_bound(size: int) -> int:
    """The smallest power of two that is not below `size`."""
    return 1 << max(size - 1, 0).bit_length()


class Holding:
    """What one line of the program holds, and the library lines through which it allocated."""

    __slots__ = ("bytes", "blocks", "inside")

    def __init__(self) -> None:
        self.bytes = 0
        self.blocks = 0
        self.inside: dict[Any, Any] = {}


def holdings(
    segments: Segments, owners: Owners, kinds: dict[int, str] | None = None, by_size: bool = False
) -> tuple[list[Line], int, int]:
    """The lines that hold the most bytes, largest first, separately for each kind of content, the bytes of
    all lines, and how many of these are a line's by their size alone. `kinds` maps an address to the kind of tensor
    there, as far as an optimizer knows it. Blocks without a stack belong to no line: those of backward, and those from
    before the recording; with `by_size` one of these is of the lines whose blocks have its size (see `unplaced`)."""
    kinds = kinds or {}
    found: dict[Any, Any] = {}
    sizes: dict[int, dict[Any, int]] = {}
    for own, inside, block in placed(segments, owners):
        key_of = own, kinds.get(block.get("address"))
        of = found.get(key_of)
        if of is None:
            of = found[key_of] = Holding()
        of.bytes += block["size"]
        of.blocks += 1
        of.inside[inside] = of.inside.get(inside, 0) + block["size"]
        if by_size and block["size"] >= TELLING and key_of[1] is None:
            of_size = sizes.setdefault(block["size"], {})
            of_size[key_of, inside] = of_size.get((key_of, inside), 0) + 1
    alike = add_alike(found, sizes, unplaced(segments, kinds)) if sizes else 0
    most = sorted(found.items(), key=lambda item: -item[1].bytes)[:MAX_LINES]
    return [as_line(own, kind, of) for (own, kind), of in most], sum(of.bytes for of in found.values()), alike


def unplaced(segments: Segments, kinds: dict[int, str]) -> dict[int, int]:
    """How many live blocks of each size have no stack, without those whose kind is known. In a forward pass, and in an
    evaluation, these are what it had made before stacks were recorded: repeated layers and batches make blocks of the
    same sizes, so that their lines are those of the blocks that came later. In backward they would be gradients of such
    sizes."""
    counts: dict[int, int] = {}
    for segment in segments:
        for block in segment["blocks"]:
            if block["state"] == "inactive" or block.get("frames") or block["size"] < TELLING:
                continue
            if block.get("address") not in kinds:
                counts[block["size"]] = counts.get(block["size"], 0) + 1
    return counts


def add_alike(found: dict[Any, Any], sizes: dict[int, dict[Any, int]], counts: dict[int, int]) -> int:
    """Divides blocks without a stack among the lines that have such of their size, as these divide them; how many bytes
    that were."""
    added = 0
    for size, count in counts.items():
        lines = sorted(sizes.get(size, {}).items(), key=lambda item: item[1])
        all_known, left = sum(known for _, known in lines), count
        for place, ((key_of, inside), known) in enumerate(lines):
            # The line with the most has what is left.
            part = left if place == len(lines) - 1 else count * known // all_known
            left -= part
            of = found[key_of]
            of.bytes += part * size
            of.blocks += part
            of.inside[inside] = of.inside.get(inside, 0) + part * size
            added += part * size
    return added


def by_line(segments: Segments, owners: Owners) -> dict[Any, int]:
    """Bytes held, by the program's line and the library's innermost line below it."""
    held: dict[Any, Any] = {}
    for own, inside, block in placed(segments, owners):
        place = own, inside
        held[place] = held.get(place, 0) + block["size"]
    return held


def placed(segments: Segments, owners: Owners) -> Iterator[Any]:
    """The live blocks that have a stack: the program's line, the library's line, the block."""
    # Blocks with the same stack share one list; the snapshot keeps all lists alive meanwhile.
    stacks: dict[int, Any] = {}
    held = [
        (block["frames"], block)
        for segment in segments
        for block in segment["blocks"]
        if block.get("frames") and block["state"] != "inactive"
    ]
    compiled = regions.Regions()
    for stack, _ in held:
        if id(stack) not in stacks:
            place = stacks[id(stack)] = own_and_inside(stack, owners)
            compiled.learn(stack, place[0])
    told: dict[int, Any] = {}
    for stack, block in held:
        if id(stack) not in told:
            told[id(stack)] = compiled.told(stack, *stacks[id(stack)])
        own, inside = told[id(stack)]
        yield own, inside, block


def own_and_inside(stack: list[Any], owners: Owners) -> tuple[Any, Any]:
    """The program's innermost line, and the library's innermost below it (None if there is none)."""
    place = owners.innermost_own([frame["filename"] for frame in stack])
    if place is None:
        # Backward of what was compiled has no frames of the program's.
        compiled = next((at for at, frame in enumerate(stack) if frames.is_compiled(frame["filename"])), None)
        if compiled is not None:
            return key(stack[compiled]), None
        place = len(stack) - 1
    inside = key(stack[0]) if place > 0 else None
    return key(stack[place]), inside


def key(frame: dict[str, Any]) -> Any:
    return frame["filename"], frame["line"], frame["name"]


def as_growing(place: Any, held: int, more: int, first: int, last: int) -> Line:
    """A line that held `more` after step `last` than after step `first`."""
    own, inside = place
    line = {
        "line": frames.line_of(*own),
        "bytes": held,
        "per_step": more // max(last - first, 1),
        "from_step": first,
        "to_step": last,
    }
    if inside is not None:
        line["inside"] = frames.line_of(*inside)
    return line


def as_line(own: Any, kind: str | None, of: Holding) -> Line:
    line = {"line": frames.line_of(*own), "bytes": of.bytes, "blocks": of.blocks}
    if kind is not None:
        line["kind"] = kind
    inside = max(of.inside, key=lambda each: of.inside[each])
    if inside is not None:
        line["inside"] = frames.line_of(*inside)
    return line
