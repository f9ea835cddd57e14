"""The record of an OOM, taken on the allocating thread before the exception is raised.

torch calls `observe` once for each OOM, including caught ones, after the allocator released its cache.
An exception raised here would REPLACE the training's OutOfMemoryError, so none may escape. In backward
it is called on a thread that has no Python frame at all.
"""

from __future__ import annotations

import time

from ..common import errors, frames, phases, signals
from ..live import snapshot
from ..rehearse.rehearsals import REHEARSED
from . import checkpoint, gathering, limit, operands, optimizer, progress, zero

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable

    from ..common.frames import Owners
    from ..common.protocols import Lifetime, Line, Segments, Torch, Wire
    from ..knobs.knobs import Knobs
    from ..live.allocator import Allocator
    from ..live.growth import Growth
    from ..live.losses import Losses
    from ..live.recording import Recording
    from ..live.steps import Steps
    from ..live.structure import Structure
    from ..live.tracing import Tracing
    from ..rehearse.rehearsals import Rehearsals
    from ..rehearse.roots import Roots
    from .census import Census
    from .dump import Dump
    from .retainers import Retainers

# Phases that make the same blocks again and again and have no gradients of activations: a block without a stack is of
# the line of others of its size.
REPEATS = ("forward", "evaluation")
# The record must be sent before the process dies, but waits no longer than this for a slow UI.
SEND = 0.2
# A program that catches OOMs in a loop gets its first ones in full, then one in so many seconds.
FULL_AT_FIRST = 10
FULL_EVERY = 5.0
# In addition the first OOM of each place in the program, up to so many places.
PLACES = 32
# The parts that are slow to collect.
EXPENSIVE = ("largest_free", "free_blocks", "private_pools", "lines", "growing", "progress", "model", "optimizer",
    "gathering", "loading", "zero", "gradients", "limit_line",
)


class Observer:
    """Called by the allocator."""

    def __init__(
        self,
        lifetime: Lifetime,
        wire: Wire,
        records: Records,
        rehearsals: Rehearsals,
        tracing: Tracing,
        retainers: Retainers,
        knobs: Knobs,
        census: Census,
        dump: Dump,
    ) -> None:
        self.lifetime = lifetime
        self.wire = wire
        self.records = records
        self.rehearsals = rehearsals
        self.tracing = tracing
        self.retainers = retainers
        self.knobs = knobs
        self.census = census
        self.dump = dump
        # Of the latest record.
        self.phase = ""
        # When it was begun to look into it.
        self.began = 0.0
        # The losses of the first steps; None where nobody sees them.
        self.losses: Losses | None = None

    def observe(self, device: int, requested: int, total: int, free: int) -> None:
        """`total` is the device's capacity, or the cap where one is set; `free` is the whole device's."""
        # Each part by itself, the record first because it matters most.
        parts = (
            self.send_record, self.send_knobs, self.send_losses, self.trace, self.send_retainers, self.send_census,
            self.send_dump, self.waited,
        )
        here, self.began = errors.here, time.monotonic()
        if signals.can_come_here():
            here.is_theirs = signals.is_a_handlers
        for send in parts:
            try:
                if self.lifetime.live and here.theirs is None:
                    send(device, requested, total, free)
            except BaseException:
                errors.ours("at an OOM: " + send.__name__)
        theirs = here.take_theirs() if signals.can_come_here() else None
        if theirs is not None:
            # It would have come without us as well; in a program's words there is none of ours before the handler.
            raise theirs.with_traceback(signals.from_its_handler(theirs))

    def send_record(self, device: int, requested: int, total: int, free: int) -> None:
        record = self.records.take(device, requested, total, free)
        self.phase = str(record.get("phase", ""))
        self.rehearsals.noticed(self.phase)
        self.wire.put(record, keep=True)
        self.wire.flush(SEND)

    def send_knobs(self, device: int, *_: Any) -> None:
        """Sends what is known of the numbers that set the program's sizes."""
        if self.records.is_again:
            return
        line = self.knobs.at_oom(int(device), self.records.steps.thread, self.phase == "evaluation")
        if line is not None:
            self.wire.put(line, keep=True)
            self.wire.flush(SEND)

    def send_losses(self, *_: Any) -> None:
        """Sends what the first steps' losses were: the process may be killed before another one ends."""
        if self.losses is None:
            return
        self.losses.read_last()
        line = self.losses.line()
        if line is not None:
            self.wire.put(line, keep=True)
            self.wire.flush(SEND)

    def trace(self, device: int, *_: Any) -> None:
        self.tracing.ran_out(device)

    def send_dump(self, *_: Any) -> None:
        if self.dump.save():
            self.wire.flush(SEND)

    def waited(self, *_: Any) -> None:
        """The program has waited for all of this."""
        self.rehearsals.waited(time.monotonic() - self.began)

    def send_retainers(self, device: int, *_: Any) -> None:
        """Sends who keeps the memory alive."""
        segments = self.records.segments
        is_rehearsed = self.rehearsals.are_to_come(self.phase)
        line = self.retainers.at_oom(device, segments, is_rehearsed) if segments else None
        if line is not None:
            self.wire.put(line, keep=True)
            self.wire.flush(SEND)

    def send_census(self, device: int, *_: Any) -> None:
        """Sends what could be patched in this process at runtime."""
        segments = self.records.give_up_segments()
        if self.census.is_due(time.monotonic()):
            line = self.census.take(device, segments)
            if line is not None:
                self.wire.put(line, keep=True)
                self.wire.flush(SEND)


class Records:
    """What is known of each OOM: the slow parts not of every one of a series."""

    def __init__(
        self,
        torch: Torch,
        pid: int,
        owners: Owners,
        allocator: Allocator,
        steps: Steps,
        structure: Structure,
        growth: Growth,
        recording: Recording | None,
        noted: Roots | None = None,
    ) -> None:
        self.torch = torch
        self.pid = pid
        self.owners = owners
        self.noted = noted
        self.allocator = allocator
        self.steps = steps
        self.structure = structure
        self.growth = growth
        self.recording = recording
        self.seen = 0
        self.full_at = 0.0
        self.latest: tuple[Any, Line] = None, {}
        # The place of the latest and how many allocations there had been by then, and whether nothing was allocated
        # between the one before and it.
        self.last: Any = None
        self.is_again = False
        self.places: set[Any] = set()
        # The id of the optimizer whose step ran when memory ran out; 0 for none.
        self.stepping = 0
        # Of the snapshot that the latest record was made of.
        self.segments: Segments = []

    def take(self, device: int, requested: int, total: int, free: int) -> Line:
        """The line of one."""
        reading = self.allocator.read(device)
        cap = self.limit(device, total)
        sample = self.allocator.sample(self.pid, device, reading, cap, is_exact=True)
        record: Line = {
            "event": "oom",
            "pid": self.pid,
            "device": device,
            "requested": requested,
            "total": total,
            "free": free,
            "sample": {name: sample[name] for name in sample if name != "event"},
            "step": self.steps.count,
        }
        if cap is not None:
            record["limit"] = cap
        if self.recording is not None:
            self.recording.policy.record_always()
        self.seen += 1
        now = time.monotonic()
        self.add_parts(record, device, (self.add_stack, self.add_structure, self.add_call))
        # cuDNN tries one algorithm after another: among OOMs at one place with the same bytes allocated,
        # the last attempt's record is the one that counts. (`device` is copied: nothing of the call is kept.)
        place = int(device), record["step"], record.get("stack"), record["sample"]["allocated"]
        last = place, reading.allocations
        self.is_again, self.last = last == self.last and now - self.full_at < FULL_EVERY, last
        is_new = self.is_new_place(record.get("stack"))
        in_full = is_new or self.seen <= FULL_AT_FIRST or now - self.full_at >= FULL_EVERY
        if in_full and not self.is_again:
            self.add_parts(
                record,
                device,
                (self.add_snapshot, self.add_progress, self.add_optimizer, self.add_loading, self.add_zero,
                 self.add_gradients, self.add_limit_line),
            )
            self.full_at = now
            self.latest = place, {name: record[name] for name in EXPENSIVE if name in record}
        elif place == self.latest[0]:
            record.update(self.latest[1])
            if self.is_again:
                # Where in the model it is, no line says.
                for name in ("progress", "model"):
                    record.pop(name, None)
                self.add_parts(record, device, (self.add_progress,))
        return record

    def add_parts(self, record: Line, device: int, parts: Iterable[Callable[[Line, int], None]]) -> None:
        """Adds each part by itself, so that one that fails does not affect the others."""
        for add in parts:
            try:
                add(record, device)
            except Exception:
                errors.ours("record of an OOM: " + add.__name__)

    def is_new_place(self, stack: Any) -> bool:
        place = repr(stack)
        if not stack or place in self.places or len(self.places) >= PLACES:
            return False
        self.places.add(place)
        return True

    def limit(self, device: int, total: int) -> int | None:
        """The cap in force: what the allocator may use, where that is not the whole device."""
        try:
            if self.allocator.limit(device) is not None:
                return total
            # Before 2.7 torch does not expose the fraction; CUDA's own figures differ slightly.
            capacity = self.allocator.devices()[device]["total"]
            return total if total < 0.99 * capacity else None
        except Exception:
            errors.ours("cap at an OOM")
            return None

    def add_limit_line(self, record: Line, device: int) -> None:
        found = limit.line(self.owners) if "limit" in record else None
        if found is not None:
            record["limit_line"] = found

    def add_stack(self, record: Line, device: int) -> None:
        stack = frames.Stack(self.torch, self.owners, self.steps.thread)
        record["stack"] = stack.lines
        record["grad_enabled"] = bool(self.torch.is_grad_enabled())
        if not (stack.is_in_module or stack.is_in_backward):
            stack.has_trained_model = phases.has_trained_model(self.torch, frames.own_frames())
        if not stack.is_in_backward:
            self.add_operands(record, stack)
        record["phase"] = phases.phase(
            stack,
            self.steps.count,
            record["grad_enabled"],
            self.steps.is_running(),
        )
        self.stepping = self.steps.running
        self.steps.forget_running()

    def add_operands(self, record: Line, stack: frames.Stack) -> None:
        try:
            found = operands.Operands(self.torch, frames.own_frames(), self.owners.torch_home)
        except Exception:
            errors.foreseen("the variables of the line that ran out of memory")
            return
        stack.has_history = found.has_history
        if found.largest is not None:
            record["operands"] = found.largest

    def add_call(self, record: Line, device: int) -> None:
        """What was there before the step: no later one has shown it."""
        if self.noted is None or self.steps.count > 0 or record.get("phase") not in REHEARSED:
            return
        before = self.noted.at_first_call(device)
        if before is not None:
            record["before"] = before

    def add_progress(self, record: Line, device: int) -> None:
        if record.get("phase") == "forward":
            stack = frames.own_frames()
            path = progress.path_of(self.torch, stack)
            model = progress.model_bytes(path, device)
            if model is not None:
                record["model"] = model
            # Of one call of several, whose activations are all there, a share says nothing.
            is_one_of_several = self.noted is not None and self.noted.is_repeated()
            share = None if is_one_of_several else progress.of(path, stack, self.torch)
            if share is not None:
                record["progress"] = share
        if record.get("phase") == "evaluation":
            gathered = gathering.of(frames.own_frames())
            if gathered is not None:
                record["gathering"] = gathered

    def add_optimizer(self, record: Line, device: int) -> None:
        """What the optimizer's step needs: where it has run out, or is still to come for the first time."""
        in_step = record.get("phase") == "optimizer"
        if not in_step and self.steps.count > 0:
            return
        found = optimizer.of(self.torch, self.structure, self.stepping if in_step else 0, device)
        line = None if found is None else found.line()
        if line is None:
            return
        began = self.steps.began
        if in_step and began is not None and began[1] == device:
            line["before"] = began[2]["allocated"]
            line["peak_before"] = began[2]["peak"]
        record["optimizer"] = line

    def add_loading(self, record: Line, device: int) -> None:
        loading = checkpoint.of(frames.own_frames())
        if loading is not None:
            record["loading"] = loading

    def add_zero(self, record: Line, device: int) -> None:
        held = zero.of(self.torch, frames.of_training(self.steps.thread), device)
        if held is not None:
            record["zero"] = held

    def add_structure(self, record: Line, device: int) -> None:
        structure = self.structure.of(device)
        if structure is not None:
            record["structure"] = structure

    def add_gradients(self, record: Line, device: int) -> None:
        """Those of this moment: the structure's are those of the end of a step."""
        if "structure" in record:
            record["gradients"] = self.structure.gradients(device)

    def add_snapshot(self, record: Line, device: int) -> None:
        segments = self.torch.cuda.memory._snapshot(device)["segments"]
        segments = [segment for segment in segments if segment.get("device", device) == device]
        record["largest_free"], record["free_blocks"] = snapshot.free_blocks(segments)
        pools = snapshot.private_pools(segments, self.owners)
        if pools:
            record["private_pools"] = pools
        self.segments = segments
        try:
            kinds, _ = self.structure.kinds({})
        except Exception:
            errors.ours("kinds of memory at an OOM")
            kinds = {}
        by_size = record.get("phase") in REPEATS
        lines, known, alike = snapshot.holdings(segments, self.owners, kinds, by_size)
        record["lines"], record["lines_known"] = lines, known
        if alike:
            record["lines_alike"] = alike
        growing = self.growth.lines(device)
        if growing:
            record["growing"] = growing

    def give_up_segments(self) -> Segments:
        """They are many."""
        segments, self.segments = self.segments, []
        return segments
