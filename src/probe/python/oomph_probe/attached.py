"""Everything that is there once CUDA is initialised, and how it is released after a fork and at exit. The only module
that knows all the others: each of them is given what it needs here.
"""

from __future__ import annotations

import atexit
import os
import sys

from .common import errors, frames, spool, wire
from .knobs import knobs
from .live import (
    allocator,
    backwards,
    growth,
    hello,
    host_memory,
    losses,
    modules,
    readings,
    requests,
    sampler,
    step_hooks,
    steps,
    structure,
    tracing,
)
from .oom import census, dump, observer, retainers
from .rehearse import rehearsals, roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .common.protocols import Line, Settings, Torch, Wire
    from .live import loaders, recording
    from .oom import uncaught
    from .patch import patches
    from .rehearse.roots import Call


class Lifetime:
    """Whether the probe is at work in this process."""

    def __init__(self) -> None:
        # For good no more in a forked child.
        self.live = True


class Attached:
    """Everything that is there once CUDA is initialised."""

    def __init__(
        self,
        torch: Torch,
        version: tuple[int, int],
        settings: Settings,
        recorded: recording.Recording | None,
        patched: patches.Patches | None,
        ending: uncaught.Uncaught,
        loading: loaders.Loaders,
    ) -> None:
        self.torch, self.version, self.settings, self.recording = torch, version, settings, recorded
        self.uncaught = ending
        self.allocator = allocator.Allocator(torch, allocator.backend(torch))
        seen = modules.Modules(torch)
        self.roots = noted = self.note_calls(seen)
        self.given = None if noted is None else noted.given
        self.pid = pid = os.getpid()
        self.lifetime = Lifetime()
        self.finished = False
        if noted is not None:
            noted.called = self.allocator.gathered.look
        self.owners = frames.Owners(torch)
        if patched is not None and self.allocator.resting is None:
            patched.outcomes.read = self.read_current
        self.steps = steps.Steps(pid, self.allocator)
        self.structure = structure.Structure(torch, pid)
        self.growth = growth.Growth(torch, self.owners, recorded)
        self.losses = losses.Losses(torch, pid, self.lifetime)
        self.tracing = tracing.Tracing(
            torch, pid, self.owners, self.allocator, self.steps, self.structure, recorded, seen, wrapper=noted
        )
        alarm = sampler.Alarm()
        self.wire = self.make_wire(alarm)
        self.retainers = retainers.Retainers(torch, pid, self.owners, self.steps, self.structure)
        self.dump = dump.Dump(torch, pid, self.note)
        self.rehearsals = rehearsals.Rehearsals(
            torch, pid, self.lifetime, self.wire, self.note, self.steps, noted, settings.rehearsed_step,
            self.owners,
        )
        self.requests = requests.Requests(
            torch, self.wire, self.note, self.allocator, self.steps, self.growth, self.retainers, self.dump,
            self.tracing,
        )
        self.readings = readings.Readings(torch, pid, self.allocator)
        self.host_memory = host_memory.HostMemory(torch, pid, self.owners, loading)
        sources = sampler.Sources(
            pid, self.readings, self.steps, self.structure, self.tracing, self.requests, recorded, patched,
            reads=self.allocator.resting is None,
            called=knobs.FirstCall(pid, hello.number("OOMPH_PROBE_RUN") or 1, settings.rehearsed_step, self.given).take,
            host=self.host_memory,
            losses=self.losses,
        )
        self.sampler = sampler.Sampler(torch, self.wire, alarm, sources, settings.interval)

    def note_calls(self, seen: modules.Modules) -> roots.Roots | None:
        """What notes the model's calls from now on; or None."""
        if self.version < roots.SINCE:
            return None
        noted = roots.Roots(self.torch, self.ran_out, seen)
        try:
            noted.install()
        except BaseException:
            errors.refused("note the calls of models")
        return noted

    def ran_out(self, call: Call, phase: str) -> None:
        """An out-of-memory has left a call of the model, or its backward."""
        if self.settings.rehearses and self.allocator.resting is None:
            self.rehearsals.ran_out(call, phase)

    def make_wire(self, alarm: sampler.Alarm) -> Wire:
        """The way to the UI: its socket, or on another node a file."""
        def compose() -> Line:
            return hello.compose(self.torch, self.pid, self.allocator)

        # On another node the socket's name is free for anybody to take.
        socket = self.settings.socket
        here = "" if "OOMPH_PROBE_BOOT" in os.environ and spool.is_elsewhere() else socket
        return spool.of(socket, self.pid, alarm.ring, compose) or wire.Wire(here, compose)

    def read_current(self) -> allocator.Reading:
        return self.allocator.read(self.torch.cuda.current_device())

    def start(self) -> None:
        os.register_at_fork(after_in_child=self.disarm)
        self.register_finish()
        if self.allocator.resting is None:
            for attach in (self.attach_observer, self.record_lines, self.register_hooks):
                try:
                    attach()
                except Exception as error:
                    errors.ours("attach: " + attach.__name__)
                    self.note("the probe continues without %s: %s" % (attach.__name__, error))
        self.sampler.start()

    def register_finish(self) -> None:
        atexit.register(self.finish)
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            # A child of multiprocessing ends with os._exit, after running only these.
            util.Finalize(None, self.finish, exitpriority=0)

    def attach_observer(self) -> None:
        # Before 2.1 only the current device gets the observer, and without CUDA it crashed (pytorch 107330).
        if self.version < (2, 1):
            return
        records = observer.Records(
            self.torch, self.pid, self.owners, self.allocator, self.steps, self.structure, self.growth, self.recording,
            self.roots,
        )
        asked = census.Census(self.torch, self.pid)
        sizes = knobs.Knobs(self.torch, self.pid, self.owners, self.given)
        ours = observer.Observer(
            self.lifetime, self.wire, records, self.rehearsals, self.tracing, self.retainers, sizes, asked, self.dump
        )
        ours.losses = self.losses
        self.torch._C._cuda_attach_out_of_memory_observer(ours.observe)

    def record_lines(self) -> None:
        """Records the line that allocated each live block; cudaMallocAsync records none."""
        if self.recording is not None and self.allocator.backend == "native" and not self.recording.begin():
            self.note("the program records its allocation history itself; the probe leaves it alone")
        self.tracing.begin()

    def register_hooks(self) -> None:
        # Earlier versions have no global hooks of optimizers.
        if self.version >= (2, 0):
            hooks = step_hooks.StepHooks(
                self.lifetime, self.torch, self.steps, self.sampler, self.requests, self.tracing, self.recording,
                self.structure, self.growth, self.rehearsals,
                backwards.Backwards(self.torch, self.allocator, self.is_engine_free),
            )
            hooks.register()
            if self.roots is not None:
                self.roots.after_backward = hooks.after_backward
                self.roots.before_backward = self.losses.saw

    def is_engine_free(self) -> bool:
        """Whether what notes the model's calls has put torch's function that runs a backward back."""
        return self.roots is None or self.roots.backward is None

    def note(self, text: str, about: str | None = None) -> None:
        line: Line = {"event": "note", "level": "info", "text": text}
        if about:
            line["about"] = about
        self.wire.put(line, keep=True)

    def disarm(self) -> None:
        """In a forked child: the thread is gone, the socket is the parent's, CUDA cannot be used."""
        try:
            if self.lifetime.live and os.getpid() != self.pid:
                self.lifetime.live = False
                self.wire.abandon()
                if self.roots is not None:
                    self.roots.rest()
        except BaseException:
            errors.refused("after a fork")

    def finish(self) -> None:
        """At exit: sends the last lines, within the time limit."""
        try:
            if self.lifetime.live and not self.finished and os.getpid() == self.pid:
                self.finished = True
                of_rehearsals = (self.rehearsals.finish,) if self.settings.rehearses else ()
                for last in (self.say_what_ends_it, self.losses.read_last, *of_rehearsals):
                    try:
                        last()
                    except BaseException:
                        # Of any kind: the program may have put something of its own in a library's place.
                        errors.ours("at exit: " + last.__name__)
                self.sampler.stop(self.settings.flush_at_exit)
        except BaseException:
            # Python would print it, below the program's own last words.
            errors.ours("at exit")

    def say_what_ends_it(self) -> None:
        if self.uncaught.is_oom():
            self.wire.put({"event": "uncaught_oom", "pid": self.pid}, keep=True)
