"""Has torch's allocator keep, with each live block, the Python stack that allocated it, while that
is worth its cost (need.py), and never touches a recording of the program's own.

torch cannot say whose a recording is. So the entries in `torch._C` through which every Python
caller goes are wrapped, to notice a call that is not ours; after one we are out for good.
"""
import os
import time
from _thread import allocate_lock, get_ident

from . import need

ENTRY = "_cuda_record_memory_history"
# A caller waits no longer than this for a call of ours, which takes microseconds: in a forked child
# the lock may be held by a thread that is not there.
PATIENCE = 1.0
# Events kept for a snapshot: reading 100,000 back took 0.2 s.
HISTORY = 100000


class Recording:
    """Made when torch was imported, before the program can have called the entries."""

    def __init__(self, torch, seconds):
        self.torch = torch
        self.need = need.Need(seconds)
        self.lock = allocate_lock()
        self.caller = None
        self.is_ours = False
        self.is_others = False
        self.with_stacks = False
        # With a snapshot asked for, what happened before it as well: memory_viz draws it over time.
        self.keeps_history = bool(os.environ.get("OOMPH_PROBE_SNAPSHOT"))
        self.can_notice = self.wrap_entries()

    def wrap_entries(self):
        """Whether every entry could be wrapped; where not, a recording once begun is left on."""
        try:
            entries = self.torch._C
            # The other one is for callers of an older signature; it may go.
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
        # Whoever asks for the signature gets the entry's.
        record.__wrapped__ = entry
        return record

    def called(self):
        """Somebody calls an entry; it must not fail."""
        if self.caller == get_ident():
            return
        is_locked = self.lock.acquire(True, PATIENCE)
        self.is_others = True
        if is_locked:
            self.lock.release()

    def begin(self):
        """Before the program's first allocation. False where the program records already."""
        is_recording = getattr(self.torch._C, "_cuda_isHistoryEnabled", None)
        if self.is_others or (is_recording is not None and is_recording()):
            return False
        self.record(True)
        self.is_ours = True
        return True

    def look(self, steps, uses):
        """Begins or ends the stacks as they are needed; on the sampler's thread."""
        if self.keeps_history or not self.is_ours or self.is_others or not self.can_notice:
            return
        try:
            wanted = self.need.look(time.monotonic(), steps, uses)
            if wanted != self.with_stacks:
                self.record(wanted)
        except BaseException:
            # It stays as it is: what failed would fail again.
            self.is_ours = False

    def record(self, with_stacks):
        """Blocks keep the stacks that they have.

        Without stacks the recording itself stays on, of one entry. Ending it would take the
        allocator's pointer to the stack walker away while a thread without the GIL may be about to
        call it (CUDACachingAllocator.cpp, `recordHistory` against `maybeGatherContext`), and would
        complain on stderr when it ends on another thread than it began on.

        Nor is it ended later, when no thread can be on its way to the walker any more: it may have to
        begin again, and then the level is written, not atomically, after the walker's pointer. On
        arm64 another thread may see the one before the other, and call nothing.
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
