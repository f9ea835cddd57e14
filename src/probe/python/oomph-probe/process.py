"""This process as the probe knows it: what is attached when CUDA is initialised, and how it is let
go after a fork and at exit. The only place that knows all the other parts.
"""
import atexit
import os
import sys

from . import (
    allocator,
    census,
    frames,
    growth,
    hello,
    observer,
    patches,
    recording,
    sampler,
    steps,
    structure,
    wire,
)

# Milliseconds that the end of the program may wait for the last lines. It takes as many only where
# the machine is so busy that the thread does not come to run; tests on such a machine ask for more.
FLUSH_AT_EXIT = 200


class Process:
    """One process of the training. `live` is False before CUDA is there, and for good after a fork."""

    def __init__(self, torch):
        self.torch = torch
        self.version = version_of(torch)
        self.socket = os.environ["OOMPH_PROBE_SOCKET"]
        self.interval = milliseconds("OOMPH_PROBE_INTERVAL_MS", 100, at_least=10)
        self.flush_at_exit = milliseconds("OOMPH_PROBE_FLUSH_MS", FLUSH_AT_EXIT, at_least=0)
        self.recording = self.make_recording()
        self.patches = patches.of_environment(torch, self.version)
        self.armed = False
        self.live = False
        self.finished = False

    def make_recording(self):
        """The recording of lines, before the program can have begun one of its own; or None."""
        if os.environ.get("OOMPH_PROBE_LINES") == "0" or self.version < (2, 1):
            return None
        seconds = milliseconds("OOMPH_PROBE_SETTLE_MS", 5000, at_least=10)
        return recording.Recording(self.torch, seconds)

    def arm(self):
        """Runs inside torch's CUDA initialisation; an exception here would fail the program's."""
        try:
            if not self.armed:
                self.armed = True
                self.attach()
        except Exception:
            pass

    def attach(self):
        self.pid = os.getpid()
        self.backend = allocator.backend(self.torch)
        self.resting = allocator.reason_to_rest(self.backend)
        self.allocator = allocator.Allocator(self.torch, self.backend)
        self.structure = structure.Structure(self.torch, self.pid)
        self.census = census.Census(self)
        self.steps = steps.Steps(self)
        self.owners = frames.Owners(self.torch)
        self.growth = growth.Growth(self, self.owners)
        self.wire = wire.Wire(self.socket, lambda: hello.compose(self))
        self.sampler = sampler.Sampler(self, self.interval)
        self.live = True
        os.register_at_fork(after_in_child=self.disarm)
        self.register_finish()
        if self.resting is None:
            for attach in (self.attach_observer, self.record_lines, self.steps.register):
                try:
                    attach()
                except Exception as error:
                    self.note("the probe does without %s: %s" % (attach.__name__, error))
        self.sampler.start()

    def register_finish(self):
        atexit.register(self.finish)
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            # A child of multiprocessing ends by os._exit, after these alone.
            util.Finalize(None, self.finish, exitpriority=0)

    def attach_observer(self):
        # Before 2.1 only the current device gets it, and without CUDA it crashed (pytorch 107330).
        if self.version >= (2, 1):
            attach = self.torch._C._cuda_attach_out_of_memory_observer
            attach(observer.Observer(self).observe)

    def record_lines(self):
        """Of each live block, the line that allocated it; the other back end keeps none."""
        if self.recording is not None and self.backend == "native" and not self.recording.begin():
            self.note("the program records its allocation history itself: it is left as it is")

    def note(self, text):
        self.wire.put({"event": "note", "level": "info", "text": text}, keep=True)

    def disarm(self):
        """In a forked child: the thread is gone, the socket is the parent's, CUDA cannot be used."""
        try:
            if self.live and os.getpid() != self.pid:
                self.live = False
                self.wire.abandon()
        except Exception:
            pass

    def finish(self):
        """At exit: the last lines, within the time that they may take."""
        try:
            if self.live and not self.finished and os.getpid() == self.pid:
                self.finished = True
                self.sampler.stop(self.flush_at_exit)
        except Exception:
            pass


def version_of(torch):
    """`(2, 11)` of "2.11.0+cu130"; `(0, 0)` where it cannot be read."""
    try:
        major, minor = str(torch.__version__).split(".")[:2]
        return int(major), int(minor)
    except Exception:
        return 0, 0


def milliseconds(name, default, at_least):
    """A variable's milliseconds, at most a minute, in seconds."""
    try:
        value = int(os.environ.get(name, default))
    except ValueError:
        value = default
    return min(max(value, at_least), 60000) / 1000.0
