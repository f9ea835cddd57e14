"""Makes torch's allocator record, for each live block, the Python stack that allocated it, while
stack_policy.py says so; never touches a recording of the program's own.

torch cannot say who started a recording. So the entry points in `torch._C` that every Python caller
uses are wrapped to notice calls that are not ours; after one of those the probe stops recording.
"""
import os
import time
from _thread import allocate_lock, get_ident

from . import stack_policy

ENTRY = "_cuda_record_memory_history"
# The longest that a caller waits for one of our calls, which take microseconds: in a forked child the
# lock may be held by a thread that does not exist there.
PATIENCE = 1.0
# History entries kept for a snapshot: reading back 100,000 took 0.2 s.
HISTORY = 100000


class Recording:
    """Created when torch is imported, before the program can have called the entry points."""

    def __init__(self, torch, seconds):
        self.torch = torch
        self.policy = stack_policy.StackPolicy(seconds)
        self.lock = allocate_lock()
        self.caller = None
        self.is_ours = False
        self.is_others = False
        self.with_stacks = False
        # If a snapshot is requested, also keep the history of events, which memory_viz draws over time.
        self.keeps_history = bool(os.environ.get("OOMPH_PROBE_SNAPSHOT"))
        self.can_notice = self.wrap_entries()

    def wrap_entries(self):
        """Whether every entry point could be wrapped; if not, a recording once started is left on."""
        try:
            entries = self.torch._C
            # The other one serves callers of an older signature and may be removed.
            names = [name for name in dir(entries) if name.startswith(ENTRY)]
            for name in names:
                setattr(entries, name, self.noticing(getattr(entries, name)))
            return ENTRY in names
        except Exception:
            return False

    def noticing(self, entry):
        def record(*arguments, **named):
            self.called()
            return entry(*arguments, **named)

        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(record, name, getattr(entry, name))
        # inspect.signature then shows the entry point's own.
        record.__wrapped__ = entry
        return record

    def called(self):
        """Somebody calls an entry point; this must not raise."""
        if self.caller == get_ident():
            return
        is_locked = self.lock.acquire(True, PATIENCE)
        self.is_others = True
        if is_locked:
            self.lock.release()

    def begin(self):
        """Called before the program's first allocation. False if the program records already."""
        is_recording = getattr(self.torch._C, "_cuda_isHistoryEnabled", None)
        if self.is_others or (is_recording is not None and is_recording()):
            return False
        self.record(True)
        self.is_ours = True
        return True

    def update(self, steps, usages):
        """Starts or stops recording stacks as needed; on the sampler's thread."""
        if self.keeps_history or not self.is_ours or self.is_others or not self.can_notice:
            return
        try:
            wanted = self.policy.update(time.monotonic(), steps, usages)
            if wanted != self.with_stacks:
                self.record(wanted)
        except BaseException:
            # Leave the recording as it is: another attempt would fail as well.
            self.is_ours = False

    def record(self, with_stacks):
        """Blocks keep the stacks that they have.

        Without stacks the recording itself stays on, with a history of one entry. Stopping it would clear
        the allocator's pointer to the stack walker while a thread without the GIL may be about to call it
        (CUDACachingAllocator.cpp, `recordHistory` against `maybeGatherContext`), and prints a warning on
        stderr when it is stopped on another thread than it was started on.

        It is not stopped later either, when no thread can be about to call the walker: it may have to
        start again, and then the level is written, not atomically, after the walker's pointer. On arm64
        another thread may see the level before the pointer, and call a null pointer.
        """
        with self.lock:
            if self.is_others:
                return
            self.caller = get_ident()
            context = "all" if self.keeps_history else "state" if with_stacks else None
            try:
                self.torch.cuda.memory._record_memory_history(
                    enabled="all" if self.keeps_history else "state",
                    context=context,
                    stacks="python",
                    max_entries=HISTORY if self.keeps_history else 1,
                )
                self.with_stacks = with_stacks
            finally:
                self.caller = None
