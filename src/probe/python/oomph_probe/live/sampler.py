"""The thread that reads the allocator and feeds the socket. With no UI connected it neither reads nor
queues, and only tries to connect now and then.

A thread that wants the GIL stops the one that launches the GPU's work: once for each time that it wakes up or
comes back from a system call. So where steps come often their ends send the lines, on the training's thread,
which has the GIL already; this one then only looks at the allocator in between, which is the middle of a step
as often as not, and does everything else now and then.
"""

from __future__ import annotations

import time
from _thread import allocate_lock, get_ident, start_new_thread

from ..common import errors, signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from ..common.protocols import Line, Torch, Wire
    from ..patch.patches import Patches
    from .host_memory import HostMemory
    from .losses import Losses
    from .readings import Readings
    from .recording import Recording
    from .requests import Requests
    from .steps import Steps
    from .structure import Structure
    from .tracing import Tracing

# Time limit of one attempt to send; it is exceeded only when the UI's buffer is full.
# And at exit, which waits a set time for this thread.
SEND_LAST = 1.0
SEND = 0.05
# Pause between attempts to connect: the first, and the longest.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
# Steps in a row that could send at the interval, or nearly, after which they do.
STEADY_STEPS = 5
LATE = 2.0
# How many times the interval then lies between two that send, and between two looks where steps are SHORT (seconds):
# as often as the screen is drawn, at most, and not beyond LONGEST_APART (seconds) unless the interval is.
APART = 2.5
LONGEST_APART = 0.5
SHORT = 0.05
# Pauses between looks differ by so much of their length, from one to the next by the golden ratio, and where steps are
# long by multiples of it that grow: evenly spaced ones would keep pace with the steps and show a part of them alone, as
# would such as make up for each other before a step has ended. The program's random numbers are its own.
SPREAD, GOLDEN = 0.5, 0.618034
# How many times the interval readings wait for each other: whoever draws them is woken up for several at once.
TOGETHER = 1.8
# How often this thread then does the rest (seconds).
REST = 0.9
# The longest that this thread waits for a step's end that is sending.
PATIENCE = 1.0


class Alarm:
    """What the sampler's thread sleeps by; any thread may ring it."""

    def __init__(self) -> None:
        self.lock = allocate_lock()
        self.lock.acquire()

    def ring(self) -> None:
        try:
            self.lock.release()
        except RuntimeError:
            # It was woken and has not run yet.
            pass

    def sleep(self, seconds: float) -> None:
        self.lock.acquire(True, seconds)


class Sources:
    """Everything that is told without being asked for, but for OOMs: who has something for the wire, in the order in
    which it is sent."""

    def __init__(
        self,
        pid: int,
        readings: Readings,
        steps: Steps,
        structure: Structure,
        tracing: Tracing,
        requests: Requests,
        recording: Recording | None,
        patches: Patches | None,
        reads: bool,
        called: Callable[[], Line | None],
        host: HostMemory | None = None,
        losses: Losses | None = None,
    ) -> None:
        self.pid = pid
        self.readings = readings
        self.steps = steps
        self.structure = structure
        self.tracing = tracing
        self.requests = requests
        self.recording = recording
        self.patches = patches
        # Whether this allocator is read.
        self.reads = reads
        # What the model was given first, once.
        self.called = called
        self.host = host
        self.losses = losses

    def begin_anew(self) -> None:
        """A new connection knows nothing yet."""
        self.readings.forget()
        self.structure.unsent = True
        errors.here.send_again()
        if self.patches is not None:
            self.patches.send_again()
        if self.host is not None:
            self.host.send_again()

    def gather(self, wire: Wire, at_end: bool) -> None:
        """On the sampler's thread."""
        self.gather_patches(wire)
        self.put_called(wire)
        host = None if self.host is None else self.host.take()
        if host is not None:
            wire.put(host)
        losses = None if self.losses is None else self.losses.line()
        if losses is not None:
            wire.put(losses, keep=True)
        self.put_errors(wire, at_end)
        if not self.reads:
            return
        self.requests.take(wire.receive())
        self.readings.put_waiting(wire)
        self.steps.report(wire, at_end)
        for structure in self.structure.take():
            wire.put(structure)
        trace = self.tracing.take()
        if trace is not None:
            wire.put(trace)
        self.readings.gather(wire, at_end)
        if not at_end:
            self.update_recording(may_end=True)

    def look(self) -> None:
        """Within a step: a reading, and stacks from here on where memory has grown. A step that is larger than all
        before may run out before anything else is done."""
        self.readings.look()
        self.update_recording(may_end=False)

    def update_recording(self, may_end: bool) -> None:
        if self.recording is not None:
            self.recording.update(self.steps.count, self.readings.usages, self.steps.after, may_end)

    def gather_patches(self, wire: Wire) -> None:
        if self.patches is not None:
            for line in self.patches.take(self.pid, self.steps.count):
                wire.put(line)

    def put_errors(self, wire: Wire, at_end: bool) -> None:
        counted = errors.here.take(self.pid, at_end)
        if counted is not None:
            wire.put(counted)

    def put_called(self, wire: Wire) -> None:
        called = self.called()
        if called is not None:
            wire.put(called, keep=True)

    def put_steps(self, wire: Wire) -> None:
        """At a step's end, on the training's thread: what there is without another look, and the sizes of its inputs
        before the step that they came with."""
        self.put_called(wire)
        self.readings.put_waiting(wire)
        self.steps.report(wire, False)


class Sampler:
    """A thread unknown to `threading`, so that debuggers, profilers and the program's own thread counts
    do not see it."""

    def __init__(self, torch: Torch, wire: Wire, alarm: Alarm, sources: Sources, interval: float) -> None:
        self.torch = torch
        self.wire = wire
        self.alarm = alarm
        self.sources = sources
        self.interval = interval
        self.stopping = False
        self.ended = allocate_lock()
        self.connection = 0
        self.pause = FIRST_PAUSE
        self.next_attempt = 0.0
        # Whose turn it is to fill the wire.
        self.turn = allocate_lock()
        # Steps in a row that could send and came often enough, when the last of them did, and when the next may.
        self.steady = 0
        self.stepped_at = self.due_at = 0.0
        # How many steps there were then, and whether they are short.
        self.stepped = 0
        self.are_short = False
        self.phase = self.long_phase = self.turned = 0.0
        # When this thread last did everything.
        self.gathered_at = 0.0
        # And when it last sent.
        self.flushed_at = 0.0

    def start(self) -> None:
        self.ended.acquire()
        start_new_thread(self.run, ())

    def stop(self, timeout: float) -> None:
        """Makes the thread send the rest and exit; waits at most `timeout` seconds."""
        self.stopping = True
        self.alarm.ring()
        self.ended.acquire(True, timeout)

    def run(self) -> None:
        self.wire.writer = get_ident()
        try:
            signals.take_none()
            # is_initialized() turns True only after the initialisation that started this thread.
            pause = 0.002
            while not self.torch.cuda.is_initialized():
                if self.sleep(pause):
                    break
                pause = min(pause * 1.5, 1.0)
            while not self.stopping and not self.sleep(self.pause_now()):
                self.tick()
            # The final reading; for a short program also the only one.
            if self.torch.cuda.is_initialized():
                self.tick()
                self.wire.flush(SEND_LAST, although_stalled=True)
            self.wire.end()
        except BaseException:
            errors.ours("the sampler's thread")
        finally:
            self.ended.release()

    def pause_now(self) -> float:
        if self.wire.is_connected():
            return self.wire.pause(self.look_pause())
        return min(max(self.next_attempt - time.monotonic(), 0.0), LONGEST_PAUSE)

    def sleep(self, seconds: float) -> bool:
        """True if the process is exiting."""
        self.alarm.sleep(seconds)
        return self.stopping

    def tick(self) -> None:
        try:
            now = time.monotonic()
            if self.steps_send(now) and now - self.gathered_at < REST and not self.stopping:
                self.sources.look()
                return
            self.gathered_at = now
            wire = self.wire
            if not wire.is_connected() and not self.find_front(wire):
                return
            if wire.connections != self.connection:
                self.begin_anew(wire.connections)
            is_ours = self.turn.acquire(True, PATIENCE)
            try:
                self.sources.gather(wire, self.stopping)
            finally:
                if is_ours:
                    self.turn.release()
            if self.stopping or wire.is_urgent or now - self.flushed_at >= TOGETHER * self.interval:
                self.flushed_at = now
                wire.flush(SEND)
        except BaseException:
            # No error here may reach the program's output; the next tick tries again.
            errors.refused("take a reading")
            self.tell_of_errors()

    def tell_of_errors(self) -> None:
        """Where readings fail, nothing else sends."""
        try:
            wire = self.wire
            if wire.is_connected():
                self.sources.put_errors(wire, self.stopping)
                wire.flush(SEND)
        except Exception:
            errors.foreseen("tell of errors")

    def find_front(self, wire: Wire) -> bool:
        now = time.monotonic()
        if now < self.next_attempt:
            return False
        self.next_attempt = now + self.pause
        self.pause = min(self.pause * 2, LONGEST_PAUSE)
        wire.flush(SEND)
        return wire.is_connected()

    def begin_anew(self, connection: int) -> None:
        """A new connection knows nothing yet: send everything again."""
        self.connection = connection
        self.pause = FIRST_PAUSE
        self.sources.begin_anew()

    def apart(self) -> float:
        return max(self.interval, min(self.interval * APART, LONGEST_APART))

    def period(self) -> float:
        return self.apart() if self.steady >= STEADY_STEPS else self.interval

    def look_pause(self) -> float:
        """Until the next look."""
        if self.steady < STEADY_STEPS:
            self.turned = (self.turned + GOLDEN) % 1.0
            self.long_phase = (self.long_phase + self.turned) % 1.0
            return self.interval * (1.0 + SPREAD * (self.long_phase - 0.5))
        self.phase = (self.phase + GOLDEN) % 1.0
        pause = self.apart() if self.are_short else self.interval
        return pause * (1.0 + SPREAD * (self.phase - 0.5))

    def steps_send(self, now: float) -> bool:
        """Whether steps come often enough to send the lines."""
        if now - self.stepped_at >= LATE * self.period():
            self.steady = 0
        return self.steady >= STEADY_STEPS

    def step_ended(self, now: float) -> None:
        """A step ended at or after `due_at`; on the training's thread, which must not wait."""
        wire = self.wire
        is_steady = now - self.stepped_at < LATE * self.period() and wire.sends_at_steps and wire.is_connected()
        self.steady = self.steady + 1 if is_steady else 0
        count, self.stepped = self.stepped, self.sources.steps.count
        self.are_short = now - self.stepped_at < SHORT * (self.stepped - count)
        self.stepped_at, self.due_at = now, now + self.period()
        if self.steady >= STEADY_STEPS and self.turn.acquire(False):
            try:
                self.sources.put_steps(wire)
                wire.flush_at_once()
            finally:
                self.turn.release()
