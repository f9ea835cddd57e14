"""Decides which call is rehearsed after an OOM and for how long, and reports the result.

Each model call and its shapes are rehearsed once (work.py), within a time budget for each OOM and for the process.
An OOM that nobody can catch (catches.py) has the whole of it at once. One that may be caught is not delayed for as
long; what was given up meanwhile is made up for when nobody has caught it and the process is about to end.
"""

from __future__ import annotations

import os
import sys
import time

from ..common import errors, frames
from ..knobs import batch
from . import (
    apart,
    beforehand,
    callers,
    catches,
    evaluations,
    functions,
    inputs,
    own_kernels,
    parts,
    randoms,
    roots,
    sources,
)
from .rehearsal import AS_IT_WAS
from .work import TASKS, Work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any, Callable

    from ..common.frames import Owners
    from ..common.protocols import Lifetime, Module, Torch, Wire
    from ..live.steps import Steps
    from .roots import Call, Roots
    from .work import Way

# Seconds: the longest that one OOM is delayed by its rehearsals, and the total of a process.
PATIENCE, IN_ALL = 1.35, 6.0
# Seconds that the end of a process is delayed by whatever we do from the out-of-memory on; what is left of them for the
# first rehearsal, however long the rest took; and those of a run that was started to be rehearsed.
LAST, AT_LEAST, ASKED_FOR = 2.1, 1.2, 10.0
# Seconds that the result may take to be sent where nobody waits for the program.
SEND_LAST = 1.0
SEND = 0.2
# Phases of a step that is rehearsed.
REHEARSED = ("forward", "backward")
# What the note is about that says why a step was not rehearsed.
ABOUT = "not_rehearsed"
# Imported by fake tensors at their first use, which takes seconds, and by torch's optimizers at theirs.
SLOW_TO_IMPORT = "torch._dynamo"


class Rehearsals:
    """Those of one process."""

    def __init__(
        self,
        torch: Torch,
        pid: int,
        lifetime: Lifetime,
        wire: Wire,
        note: Callable[[str, str], None],
        steps: Steps,
        noted: Roots | None,
        asked_for: int,
        owners: Owners,
    ) -> None:
        self.torch = torch
        self.pid = pid
        self.lifetime = lifetime
        self.wire = wire
        self.note = note
        self.steps = steps
        # The calls that were noted; None where none are.
        self.noted = noted
        # The step that is rehearsed though memory does not run out; 0 for none.
        self.asked_for = asked_for
        if asked_for and noted is not None:
            noted.watched_steps = roots.WATCHED_STEPS
        self.owners = owners
        self.done: set[Any] = set()
        self.spent = 0.0
        # Seconds that the program waited for us since memory ran out, and the steps and rehearsals before that.
        self.delayed = 0.0
        self.delayed_at = 0, 0
        self.work: Any = None
        self.is_watching = False
        # Out-of-memories in the first steps, and those of them that left a call.
        self.ooms = self.asked = 0
        # The phase of the latest one, while no call has been left by it, and what autocast was.
        self.unasked: tuple[str, Any] | None = None
        if noted is not None:
            noted.left_evaluation = self.ran_out_evaluating

    def ran_out(self, call: Call, phase: str, stack: list[FrameType] | None = None) -> None:
        """An out-of-memory has left a call, or its backward: rehearses it, and says what came of it. `stack` are the
        frames that were left, where they have been."""
        is_late = self.steps.count >= roots.SETTLED_STEPS and not call.is_evaluation
        if not self.lifetime.live or is_late:
            return
        self.asked += 1
        began = time.monotonic()
        if self.unasked is not None and self.unasked[0] == "optimizer":
            # A compiled function that is left takes the step as well.
            phase = "optimizer"
        self.unasked = None
        self.look_for_batch(call)
        outer = frames.outwards(sys._getframe(1)) if stack is None else stack
        call.compiled_steps = own_kernels.of(self.torch, outer)
        ways = self.ways_of_evaluation(call, outer) if call.is_evaluation else self.ways_of(call, outer)
        if not ways:
            if self.noted is not None:
                self.noted.why_not = "the lines of a compiled function cannot be read"
            self.asked -= 1
            return
        key = call.key()
        if key in self.done or self.spent >= IN_ALL:
            return
        self.done.add(key)
        noted = self.noted
        was_evaluated = None if noted is None or noted.may_have_evaluated else False
        if noted is not None and noted.evaluated > 0:
            was_evaluated = True
        self.work = Work(self.torch, call, phase, self.steps.count, ways, was_evaluated)
        error = self.torch.cuda.OutOfMemoryError
        self.delayed += time.monotonic() - began
        if stack is not None or not catches.may_be_caught(sys._getframe(1), error, frames.home_of(self.torch)):
            # It ends the process: all the time that there is, once.
            self.ends()
            return
        if SLOW_TO_IMPORT in sys.modules:
            self.go_on(max(PATIENCE - self.delayed, AT_LEAST))
        if not self.work.is_done():
            self.watch_for_the_end()

    def look_for_batch(self, call: Call) -> None:
        """What the program calls its batch, of this call and of those beside it."""
        try:
            shapes = [shape.shape for shape in inputs.shapes_in([call.args, call.kwargs])]
            told = batch.told(shapes, self.owners, self.steps.thread)
            largest = None if call.seen is None else call.seen.largest
            first = None if self.noted is None else self.noted.rounds.first_of(call)
            for each in (call, largest, first):
                if each is not None:
                    each.told = told
        except Exception:
            errors.ours("look for the batch")

    def look_beforehand(self, call: Call, stack: list[FrameType]) -> None:
        """What was made of the batch before the steps."""
        try:
            places = [] if call.callers is None else call.callers.places
            call.made_before = beforehand.made_before(self.torch, places, stack)
            call.made_in_step = beforehand.made_in_step(self.torch, places, stack)
        except Exception:
            errors.ours("look for what was made before the steps")

    def ways_of(self, call: Call, stack: list[FrameType]) -> list[Way]:
        """How the step may be rehearsed, the best way first: from the first call of the round on by the program's own
        lines, else from the one that failed, else that alone."""
        if call.function is not None:
            lines = functions.lines_of(self.torch, call, stack)
            call.zero_grad = callers.zero_grad_of(self.torch, call.callers)
            return [] if lines is None else [(call, lines)]
        first = self.noted.rounds.first_of(call) if self.noted is not None else None
        if first is not None and first.module() is None:
            # A round of a model that is there no more.
            first = None
        ways: list[Way] = []
        for each in [call] if first is None else [first, call]:
            # A long file takes a tenth of a second: the last of them only where there is none yet.
            for is_whole in (False, True):
                if is_whole and first is not None and ways and each is not first:
                    continue
                lines = callers.lines_of(self.torch, each.callers, stack, is_whole)
                if lines is not None:
                    lines.give_values(each)
                    ways.append((each, lines))
        call.zero_grad = callers.zero_grad_of(self.torch, call.callers)
        self.look_beforehand(call, stack)
        call.adds_gradients = call.callers is not None and parts.are_added(call.callers.places, stack)
        sources.CUT.forget()
        return [*ways, (call, None)]

    def ran_out_evaluating(self, module: Module, args: Any, kwargs: Any) -> None:
        before = self.noted.before if self.noted is not None else 0
        call = evaluations.call_of(self.torch, module, args, kwargs, before)
        if call is not None:
            self.ran_out(call, "evaluation")

    def ways_of_evaluation(self, call: Call, stack: list[FrameType]) -> list[Way]:
        """It may be a part of a training step, by the lines behind it. Before the first step it says what one will need
        as well, whose batch most likely is the same."""
        ways: list[Way] = []
        if self.noted is not None and self.steps.count < roots.SETTLED_STEPS:
            call.steps = self.steps.count
            call.callers = callers.Callers(self.noted.torch_home, stack[0] if stack else None)
            lines = callers.lines_of(self.torch, call.callers, stack, is_without=True)
            if lines is not None:
                call.zero_grad = callers.zero_grad_of(self.torch, call.callers)
                ways.append((evaluations.as_a_part(call, lines), lines))
            sources.CUT.forget()
        has_trained = self.steps.count > 0 or self.noted is None or self.noted.latest is not None
        if self.noted is None or has_trained:
            return [*ways, (call, None)]
        step = evaluations.as_a_step(call, self.noted.least_before)
        if step is not None:
            lines = callers.lines_of(self.torch, call.callers, stack, is_evaluation=True)
            if lines is not None:
                lines.give_values(step)
                ways.append((step, lines))
            ways.append((step, None))
            sources.CUT.forget()
        return [*ways, (call, None)]

    def are_to_come(self, phase: str) -> bool:
        """Whether an out-of-memory is rehearsed once it has left what is called."""
        if self.noted is None or self.steps.count >= roots.SETTLED_STEPS:
            return False
        return phase == "evaluation" or phase in REHEARSED and self.noted.latest is not None

    def waited(self, seconds: float) -> None:
        """So long the program waited for what is noted of an out-of-memory."""
        now = self.steps.count, self.asked
        if now != self.delayed_at:
            self.delayed, self.delayed_at = 0.0, now
        self.delayed += seconds

    def noticed(self, phase: str) -> None:
        """An out-of-memory, whatever comes of it."""
        is_early = self.steps.count < roots.SETTLED_STEPS
        self.ooms += is_early
        can_be = self.noted is not None and hasattr(self.torch, "get_autocast_dtype")
        self.unasked = None
        if can_be and (is_early or phase == "evaluation"):
            self.unasked = phase, evaluations.at_oom(self.torch, "cuda")
            self.watch_for_the_end()

    def left_everything(self, traceback: TracebackType | None) -> None:
        """An error that nobody has caught, of an out-of-memory that left no call that was noted: between two calls,
        in the program's own loss, or in an evaluation of later steps."""
        if not has_fake_tensors(self.torch):
            return
        assert self.unasked is not None
        phase, autocast = self.unasked
        stack = evaluations.frames_of(traceback)
        call = None if self.noted is None else self.noted.latest
        if phase == "evaluation":
            before = max(self.steps.after.values(), default=0)
            call = evaluations.call_in(self.torch, stack, before, autocast)
        if call is not None and phase in ("evaluation", "forward", "backward"):
            self.ran_out(call, phase, stack)

    def finish(self) -> None:
        """At exit: says why nothing was rehearsed, where something could have been."""
        if self.ooms and not self.asked and self.noted is not None:
            # What was called has returned where memory ran out behind it: in the optimizer's step, between two calls.
            behind = "memory ran out outside of the model's call and its backward"
            why_not = self.noted.why_not if self.noted.latest is None else behind
            if not has_fake_tensors(self.torch):
                version = getattr(self.torch, "__version__", "of an unknown version")
                is_simulated = "simulated" in version
                why_not = "this torch (%s) has no fake tensors, which that takes" % version
                why_not = "the simulated torch has no fake tensors" if is_simulated else why_not
            said = "the step that failed could not be replayed: %s; what other batches need is only estimated"
            self.note(said % why_not, ABOUT)

    def step_ended(self, count: int) -> None:
        """An optimizer step has ended."""
        if self.noted is None:
            return
        if count == self.asked_for:
            self.got_through(self.noted.latest, count)
        self.noted.step_ended(count)

    def got_through(self, call: Call | None, count: int) -> None:
        """A step that got through is rehearsed as it was: what other batches would need is asked for."""
        if call is None or SLOW_TO_IMPORT not in sys.modules:
            return
        self.look_for_batch(call)
        stack = frames.outwards(sys._getframe(1))
        call.compiled_steps = own_kernels.of(self.torch, stack)
        ways = self.ways_of(call, stack)
        self.work = Work(self.torch, call, "optimizer", count, ways)
        self.work.left = [each for each in TASKS if each[0] == AS_IT_WAS]
        self.work.slack = ASKED_FOR
        self.go_on(ASKED_FOR, SEND_LAST)

    def go_on(self, patience: float, send: float | None = None) -> None:
        began = time.monotonic()
        work = self.work
        deadline = apart.Deadline(began + patience)
        kept = randoms.Randoms(self.torch)
        try:
            error = apart.run(lambda: work.until(deadline, self.owners), deadline, patience + 0.2)[1]
        finally:
            kept.put_back()
            # On the program's thread: what it has let go of meanwhile may end here.
            work.forget()
        taken = time.monotonic() - began
        self.spent += taken
        self.delayed += taken
        work.micros += int(taken * 1e6)
        self.wire.put(work.said(error, self.pid), keep=True)
        # Long lines need a UI that reads; one that was slow a moment ago may read again.
        self.wire.flush(send or SEND, although_stalled=send is not None)

    def watch_for_the_end(self) -> None:
        """An exception that nobody catches comes to `sys.excepthook`."""
        if self.is_watching:
            return
        self.is_watching = True
        original = sys.excepthook

        def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
            try:
                if self.unasked is not None and issubclass(kind, self.torch.cuda.OutOfMemoryError):
                    self.left_everything(traceback)
                elif issubclass(kind, Exception) and self.work is not None:
                    self.ends()
            except apart.Interrupted as interrupted:
                # It ends as it would have; a handler's own exit comes after the traceback.
                if isinstance(interrupted.error, SystemExit):
                    original(kind, error, traceback)
                    raise interrupted.error from None
            except Exception:
                errors.ours("rehearse before the end")
            original(kind, error, traceback)

        sys.excepthook = excepthook

    def ends(self) -> None:
        """The process is about to end: nobody waits for it to go on."""
        work = self.work
        if not self.lifetime.live or work.is_done() or self.steps.count != work.steps:
            return
        began = time.monotonic()
        # Not on a thread that may be ended in the middle of it.
        __import__(SLOW_TO_IMPORT)
        self.delayed += time.monotonic() - began
        left = LAST - self.delayed
        if not work.micros:
            left = max(left, AT_LEAST)
        # One that came to nothing begins again.
        if left > max(work.next_takes, 0 if work.variants else work.micros / 1e6):
            self.go_on(left, SEND_LAST)


def has_fake_tensors(torch: Torch) -> bool:
    """Whether this torch has what a step is rehearsed on; a stand-in for torch has not. They are only looked for: their
    import would take long at the end of a process."""
    return any(os.path.exists(os.path.join(place, "_subclasses")) for place in getattr(torch, "__path__", ()))
