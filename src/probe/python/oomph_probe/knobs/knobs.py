"""What is known, when memory has run out, of the numbers that set a program's sizes: what its model was given, what its
parsers made of its words, and where those numbers stand in its variables and its text.
"""

from __future__ import annotations

import sys
import time

from ..common import errors, frames, members
from . import given as given_sizes
from . import search, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..common.frames import Owners
    from ..common.protocols import Line, Module, Torch
    from .given import Given, Tensors

# An OOM that a program catches is no end, and tells the same again.
AT_MOST = 3
# A size may be a product of what the model is given and of ranks, accumulation or views, up to so many.
LARGEST_FACTOR = 64
# A name that is spelled like one of these is sent whatever its number.
SPELLED = ("batch", "bs", "accum", "micro", "world", "ranks", "length", "seq", "block", "size")


class Knobs:
    """The knobs of this process."""

    def __init__(self, torch: Torch, pid: int, owners: Owners, given: Given | None) -> None:
        self.torch = torch
        self.pid = pid
        self.owners = owners
        self.given = given
        self.taken = 0

    def at_oom(self, device: int, training_thread: int | None, is_evaluated: bool = False) -> Line | None:
        """What is known now, of an evaluation where memory ran out in one; None where it was told before, or where no
        model was called."""
        if self.taken >= AT_MOST:
            return None
        began = time.monotonic()
        seen, of_evaluation, failed = self.called(is_evaluated)
        given = seen.lines() if seen is not None else []
        if seen is None or not given:
            return None
        self.taken += 1
        sizes = {size for each in given for size in each.get("shape", ()) if size > 1}
        sizes |= {each["length"] for each in given if "length" in each}
        parsed = parsed_numbers()
        names = [
            each
            for each in search.Names(self.owners).of_frames(frames.of_training(training_thread))
            if is_related(each, sizes)
        ]
        wanted = {each["value"] for each in names} | sizes
        return {
            "event": "knobs",
            "pid": self.pid,
            "device": device,
            "given": given,
            "evaluated": of_evaluation,
            "failed": failed,
            "batch_first": batch_first(seen.module()),
            "world": world_of(self.torch),
            "parsed": parsed,
            "names": names,
            "literals": search.literals(search.own_files(self.owners), wanted)
            + settings.literals(self.owners, frames.of_training(training_thread), wanted),
            "took": time.monotonic() - began,
        }

    def called(self, is_evaluated: bool) -> tuple[Tensors | None, bool, bool]:
        """The call to tell of, whether it is one of an evaluation, and whether it is the very one that failed."""
        running = given_sizes.of_running(self.torch, self.owners, frames.own_frames())
        if self.given is None:
            return running, is_evaluated, running is not None
        if not is_evaluated:
            latest = self.given.latest
            if running is not None and latest is not None and running.module() is latest.module():
                # Calls are noted in the first steps only: the one that failed may have been given more.
                latest.take(running.shapes)
                return latest, False, True
            return latest or running, False, latest is None
        seen = running or self.given.evaluated
        return seen or self.given.latest, seen is not None, running is not None


def batch_first(module: Module | None) -> bool | None:
    """The modules' own word on which dimension the batch is; None where they say nothing, or not the same."""
    said = {getattr(part, "batch_first", None) for part in members.modules(module)} if module is not None else set()
    said.discard(None)
    return bool(said.pop()) if len(said) == 1 else None


class FirstCall:
    """What the model was given first, told once in a run after the first: it shows whether a changed batch is in
    force. In a run that was started to see its steps it is told in the first run as well, and again whenever larger or
    smaller inputs have come."""

    def __init__(self, pid: int, run: int, rehearsed_step: int, given: Given | None) -> None:
        self.pid = pid
        self.given = given if run > 1 or rehearsed_step else None
        self.is_told_again = rehearsed_step > 0
        self.ranges: list[Any] | None = None

    def take(self) -> Line | None:
        lines = self.given.trained_lines() if self.given is not None else []
        if not lines:
            return None
        if self.is_told_again:
            ranges = [(line["at"], line.get("least"), line.get("most")) for line in lines]
            if ranges == self.ranges:
                return None
            self.ranges = ranges
        else:
            self.given = None
        return {"event": "called", "pid": self.pid, "given": lines}


def parsed_numbers() -> list[Line]:
    parsers: Any = sys.modules.get("_oomph_parsers")
    return list(parsers.noted.values()) if parsers is not None else []


def is_related(named: Line, sizes: set[int]) -> bool:
    name, value = named["name"].rpartition(".")[2].lower(), named["value"]
    if any(each in name for each in SPELLED):
        return True
    return any(value == size or value % size == 0 and value // size <= LARGEST_FACTOR for size in sizes)


def world_of(torch: Torch) -> int:
    """The number of ranks that train together."""
    try:
        distributed: Any = torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_world_size())
    except Exception:
        errors.foreseen("the number of ranks")
    return 1
