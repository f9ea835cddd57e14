"""Makes torch's allocator record, for each live block, the Python stack that allocated it, while
stack_policy.py says so, and else nothing; never touches a recording of the program's own.

torch cannot say who started a recording. So the entry points in `torch._C` that every Python caller
uses are wrapped to notice calls that are not ours; after one of those the probe stops recording.
"""

from __future__ import annotations

import inspect
import os
import time
from _thread import allocate_lock, get_ident

from ..common import errors
from . import stack_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Torch
    from .stack_policy import Usage

ENTRY = "_cuda_record_memory_history"
# The longest that a caller waits for one of our calls, which take microseconds: in a forked child the
# lock may be held by a thread that does not exist there.
PATIENCE = 1.0
# History entries kept for a snapshot: reading back 100,000 took 0.2 s.
HISTORY = 100000
# And for the trace of one step.
MOST_EVENTS = 20000
# Seconds without stacks after which the recording ends altogether.
QUIET = 1.0


class Recording:
    """Created when torch is imported, before the program can have called the entry points."""

    def __init__(self, torch: Torch, seconds: float) -> None:
        self.torch = torch
        self.policy = stack_policy.StackPolicy(seconds)
        self.lock = allocate_lock()
        self.caller: int | None = None
        self.is_ours = False
        self.is_others = False
        self.with_stacks = False
        # Counts the times that stacks began to be recorded.
        self.stretch = 0
        self.traces = self.has_history = False
        self.can_clear = self.knows_clearing()
        # The thread that began the recording that is on; and since when it has been on without stacks.
        self.began_on: int | None = None
        self.quiet_since: float | None = None
        # If a snapshot is requested, also keep the history of events, which memory_viz draws over time.
        self.keeps_history = bool(os.environ.get("OOMPH_PROBE_SNAPSHOT"))
        self.can_notice = self.wrap_entries()

    def wrap_entries(self) -> bool:
        """Whether every entry point could be wrapped; if not, a recording once started is left on."""
        try:
            entries = self.torch._C
            # The other one serves callers of an older signature and may be removed.
            names = [name for name in dir(entries) if name.startswith(ENTRY)]
            for name in names:
                setattr(entries, name, self.noticing(getattr(entries, name)))
            return ENTRY in names
        except BaseException:
            errors.refused("wrap the recording")
            return False

    def knows_clearing(self) -> bool:
        """Whether this torch can be asked to clear the history."""
        try:
            entry = self.torch.cuda.memory._record_memory_history
            return "clear_history" in inspect.signature(entry).parameters
        except Exception:
            errors.foreseen("whether a history can be cleared")
            return False

    def noticing(self, entry: Any) -> Callable[..., Any]:
        def record(*arguments: Any, **named: Any) -> Any:
            self.called()
            return entry(*arguments, **named)

        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(record, name, getattr(entry, name))
        # inspect.signature then shows the entry point's own.
        setattr(record, "__wrapped__", entry)
        return record

    def called(self) -> None:
        """Somebody calls an entry point; this must not raise."""
        if self.caller == get_ident():
            return
        is_locked = self.lock.acquire(True, PATIENCE)
        was_others, self.is_others = self.is_others, True
        if is_locked:
            try:
                if self.is_ours and not was_others:
                    self.hand_over()
            finally:
                self.lock.release()

    def hand_over(self) -> None:
        """Leaves an empty history: the program may ask for a smaller one (see `trace`)."""
        try:
            if self.can_clear and self.began_on is not None:
                self.call_entry(None, clears=True)
        except BaseException:
            errors.refused("hand the recording over")

    def begin(self) -> bool:
        """Called before the program's first allocation. False if the program records already."""
        is_recording = getattr(self.torch._C, "_cuda_isHistoryEnabled", None)
        if self.is_others or (is_recording is not None and is_recording()):
            return False
        self.record(True)
        self.is_ours = True
        return True

    def may_change(self) -> bool:
        return self.is_ours and self.can_notice and not (self.keeps_history or self.is_others)

    def update(self, steps: int, usages: dict[int, Usage], after: dict[int, int], may_end: bool = True) -> None:
        """Starts or stops recording stacks as needed; on the sampler's thread."""
        if not self.may_change():
            return
        try:
            wanted = self.policy.update(time.monotonic(), steps, usages, after, may_end)
            if wanted != self.with_stacks:
                self.record(wanted)
            self.rest()
        except BaseException:
            # Leave the recording as it is: another attempt would fail as well.
            errors.ours("record stacks or not")
            self.is_ours = False

    def rest(self) -> None:
        """Ends a recording that has been on without stacks for a while: an event without a stack still
        costs a third of a microsecond. Called on every thread that may have begun it, often.

        torch prints a warning where a recording ends on another thread than it began on; and an earlier one,
        which cannot be asked to clear its history, adds a hook each time (pytorch 153571), so it goes on.
        """
        if self.quiet_since is None or self.began_on != get_ident():
            return
        if not (self.can_clear and self.may_change()):
            return
        if time.monotonic() - self.quiet_since >= QUIET:
            with self.lock:
                if not self.is_others:
                    self.call_entry(None, ends=True)
            self.quiet_since = self.began_on = None

    def record(self, with_stacks: bool) -> None:
        """Blocks keep the stacks that they have.

        A recording begins and ends without stacks, and ends only a while after the last one was taken.
        Its end clears the allocator's pointer to the stack walker, which a thread without the GIL may be
        about to call (CUDACachingAllocator.cpp, `recordHistory` against `maybeGatherContext`); without
        stacks no thread looks at that pointer. At the beginning a second call turns stacks on: the pointer
        and the level are two stores, which arm64 may show to another thread in the other order, unless the
        allocator's lock was taken in between.
        """
        with self.lock:
            if with_stacks and not self.with_stacks:
                self.stretch += 1
            self.with_stacks = with_stacks
            self.apply()

    def trace(self, on: bool) -> bool:
        """Keeps the history of events with their stacks, as long as it is on. False where it cannot be.

        The history is a ring. If it has wrapped and is then made smaller without being cleared, torch goes on
        writing behind the smaller end and at last behind the buffer's (CUDACachingAllocator.cpp,
        `RingBuffer`): the program dies of SIGSEGV. So its size never changes, it is cleared at each switch,
        and a torch that cannot be asked to clear it keeps none.
        """
        if not (self.may_change() and self.can_clear):
            return False
        try:
            with self.lock:
                self.traces = on
                self.apply()
            return not self.is_others
        except BaseException:
            errors.ours("record a history or not")
            self.is_ours = False
            return False

    def apply(self) -> None:
        """Sets the recording as it is wanted, with the lock held."""
        if self.is_others:
            return
        if self.began_on is None:
            self.call_entry(None)
            self.began_on = get_ident()
        context = "alloc" if self.traces else "state" if self.with_stacks else None
        self.call_entry(context, clears=self.traces != self.has_history)
        self.has_history = self.traces
        is_quiet = not (self.traces or self.with_stacks)
        self.quiet_since = time.monotonic() if is_quiet else None

    def call_entry(self, context: str | None, clears: bool = False, ends: bool = False) -> None:
        """torch's entry, with the lock held, in our own name."""
        enabled, entries, more = "state", 1, {}
        if self.keeps_history:
            enabled, context, entries = "all", "all", HISTORY
        elif self.can_clear:
            enabled, entries = "all", MOST_EVENTS
        if self.can_clear:
            more = {"clear_history": clears}
        self.caller = get_ident()
        try:
            self.torch.cuda.memory._record_memory_history(
                enabled=None if ends else enabled,
                context=context,
                stacks="python",
                max_entries=entries,
                **more,
            )
        finally:
            self.caller = None
