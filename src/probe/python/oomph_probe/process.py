"""The probe of this process: what is attached when CUDA is initialised, and how it is released after
a fork and at exit. The only module that knows all the others: each of them is given what it needs here.
"""

from __future__ import annotations

import atexit
import os
import sys

from .common import errors, frames, signals, spool, wire
from .knobs import knobs
from .live import (
    allocator,
    backwards,
    growth,
    hello,
    host_memory,
    loaders,
    losses,
    modules,
    readings,
    recording,
    requests,
    sampler,
    steps,
    structure,
    tracing,
)
from .oom import census, dump, observer, retainers, uncaught
from .patch import patches
from .rehearse import rehearsals, roots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .common.protocols import Line, Torch, Wire
    from .rehearse.roots import Call

# Milliseconds that the program's exit may wait for the last lines. It takes this long only on a
# machine so busy that the thread is not scheduled; tests on such a machine raise it.
FLUSH_AT_EXIT = 200


class Settings:
    """What the environment said when torch was imported; the program may change it later."""

    def __init__(self) -> None:
        self.socket = os.environ["OOMPH_PROBE_SOCKET"]
        self.interval = milliseconds("OOMPH_PROBE_INTERVAL_MS", 100, at_least=10)
        self.flush_at_exit = milliseconds("OOMPH_PROBE_FLUSH_MS", FLUSH_AT_EXIT, at_least=0)
        self.rehearsed_step = rehearsed_step()
        # Where nobody asks what another run would need, calls are noted all the same: they say what the batch is, and
        # each backward is a step where there is no optimizer.
        self.rehearses = os.environ.get("OOMPH_PROBE_REHEARSE") != "0"


class Lifetime:
    """Whether the probe is at work in this process."""

    def __init__(self) -> None:
        # For good no more in a forked child.
        self.live = True


class Process:
    """One training process from its import of torch on: what must be there before CUDA is initialised."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        errors.here.is_a_handlers = signals.is_a_handlers
        self.version = version_of(torch)
        self.settings = Settings()
        self.recording = self.make_recording()
        self.patches = patches.of_environment(torch, self.version)
        self.modules = modules.Modules(torch)
        self.roots = self.make_roots()
        self.loaders = loaders.Loaders(self.tell_of_loaders)
        self.loaders.watch()
        self.uncaught = uncaught.Uncaught()
        self.uncaught.watch_children()
        self.armed = False
        # From CUDA's initialisation on.
        self.attached: Attached | None = None

    def make_recording(self) -> recording.Recording | None:
        """The stack recording, made before the program can have started one of its own; or None."""
        if os.environ.get("OOMPH_PROBE_LINES") == "0" or self.version < (2, 1):
            return None
        seconds = milliseconds("OOMPH_PROBE_SETTLE_MS", 5000, at_least=10)
        return recording.Recording(self.torch, seconds)

    def make_roots(self) -> roots.Roots | None:
        """What notes the model's calls; or None."""
        if self.version < roots.SINCE:
            return None
        return roots.Roots(self.torch, self.ran_out, self.modules)

    def tell_of_loaders(self, known: list[Line]) -> None:
        """DataLoaders have started workers; once CUDA is initialised, the sampler tells of them."""
        if self.armed or ("OOMPH_PROBE_BOOT" in os.environ and spool.is_elsewhere()):
            return
        wire.say_once(self.settings.socket, {"event": "process_host", "pid": os.getpid(), "loaders": known})

    def ran_out(self, call: Call, phase: str) -> None:
        """An out-of-memory has left a call of the model, or its backward."""
        if self.settings.rehearses and self.attached is not None and self.attached.allocator.resting is None:
            self.attached.rehearsals.ran_out(call, phase)

    def arm(self) -> None:
        """Runs inside torch's CUDA initialisation; an exception here would make that fail."""
        try:
            if not self.armed:
                self.armed = True
                self.note_calls()
                self.attached = Attached(
                    self.torch, self.version, self.settings, self.recording, self.patches, self.modules, self.roots,
                    self.uncaught, self.loaders,
                )
                self.attached.start()
        except Exception:
            errors.ours("attach to the training")

    def note_calls(self) -> None:
        try:
            if self.roots is not None:
                self.roots.install()
        except Exception:
            errors.ours("note the calls of models")


class Attached:
    """Everything that is there once CUDA is initialised."""

    def __init__(
        self,
        torch: Torch,
        version: tuple[int, int],
        settings: Settings,
        recorded: recording.Recording | None,
        patched: patches.Patches | None,
        seen: modules.Modules,
        noted: roots.Roots | None,
        ending: uncaught.Uncaught,
        loading: loaders.Loaders,
    ) -> None:
        self.torch, self.version, self.settings, self.recording = torch, version, settings, recorded
        self.uncaught = ending
        self.roots = noted
        self.given = None if noted is None else noted.given
        self.pid = pid = os.getpid()
        self.lifetime = Lifetime()
        self.finished = False
        self.allocator = allocator.Allocator(torch, allocator.backend(torch))
        if noted is not None:
            noted.called = self.allocator.gathered.look
        self.owners = frames.Owners(torch)
        if patched is not None and self.allocator.resting is None:
            patched.read = self.read_current
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
            self.torch, self.pid, self.owners, self.allocator, self.steps, self.structure, self.growth, self.recording
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
            hooks = steps.StepHooks(
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
        except Exception:
            errors.ours("after a fork")

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


def rehearsed_step() -> int:
    """The step that is rehearsed though memory does not run out; 0 for none."""
    text = os.environ.get("OOMPH_PROBE_REHEARSE", "")
    return int(text) if text.isdigit() and int(text) > 1 else 0


def version_of(torch: Torch) -> tuple[int, int]:
    """`(2, 11)` of "2.11.0+cu130"; `(0, 0)` where it cannot be parsed."""
    try:
        major, minor = str(torch.__version__).split(".")[:2]
        return int(major), int(minor)
    except Exception:
        errors.foreseen("torch's version")
        return 0, 0


def milliseconds(name: str, default: int, at_least: int) -> float:
    """A variable in milliseconds, capped at a minute, returned in seconds."""
    try:
        value = int(os.environ.get(name, default))
    except ValueError:
        value = default
    return min(max(value, at_least), 60000) / 1000.0
