"""Decides what is rehearsed after an OOM and for how long, and reports the result.

Each variant of the step (as it was, with activation checkpointing, in bf16, both) is rehearsed once, and the step as it
was at two more batches (sizes.py), what the dialog needs first. Each model call and its shapes are rehearsed
once, within a time budget for each OOM and for the process. An OOM that nobody can catch (catches.py) has the whole of
it at once. One that may be caught is not delayed for as long; what was given up meanwhile is made up for when nobody
has caught it and the process is about to end.
"""

from __future__ import annotations

import sys
import time

from ..common import errors, frames
from ..knobs import batch
from . import (
    apart,
    callers,
    catches,
    changes,
    effects,
    fakes,
    inputs,
    losses,
    operators,
    optimizers,
    randoms,
    rehearsal,
    roots,
    sizes,
    warned,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable

    from ..common.frames import Owners
    from ..common.protocols import Lifetime, Line, Torch, Wire
    from ..live.steps import Steps
    from .roots import Call, Roots

# Seconds: the longest that one OOM is delayed by its rehearsals, and the total of a process.
PATIENCE, IN_ALL = 1.5, 6.0
# Seconds that the end of a process is delayed by all of them, those before included, but for at least so many; and
# those of a run that was started to be rehearsed.
LAST, AT_LEAST, ASKED_FOR = 2.3, 1.0, 10.0
# Seconds that the result may take to be sent where nobody waits for the program.
SEND_LAST = 1.0
SEND = 0.2
# Seconds of all rehearsals after which no variant is begun, and at which none at a further batch may end: the others
# say more.
REFINED = 1.0
# What a variant takes as a share of the first, which also fills torch's caches (measured: 0.5 to 0.8).
LATER = 0.8
# Imported by fake tensors at their first use, which takes seconds, and by torch's optimizers at theirs.
SLOW_TO_IMPORT = "torch._dynamo"
AS_IT_WAS = (False, False)
# What is rehearsed, in this order: (checkpointing, bf16), and at which of the batches.
FIRST, OWN, LESS = 0, 1, 2
TASKS = (
    (AS_IT_WAS, FIRST), ((True, False), FIRST), ((False, True), FIRST), (AS_IT_WAS, OWN), (AS_IT_WAS, LESS),
    ((True, True), FIRST),
)


class Rehearsals:
    """Those of one process."""

    def __init__(
        self,
        torch: Torch,
        pid: int,
        lifetime: Lifetime,
        wire: Wire,
        note: Callable[[str], None],
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
        self.work: Any = None
        self.is_watching = False
        # Out-of-memories in the first steps, and those of them that left a call.
        self.ooms = self.asked = 0

    def ran_out(self, call: Call, phase: str) -> None:
        """An out-of-memory has left a call, or its backward: rehearses it, and says what came of it."""
        if not self.lifetime.live or self.steps.count >= roots.SETTLED_STEPS:
            return
        self.asked += 1
        self.look_for_batch(call)
        self.look_for_loss(call)
        key = call.key()
        if key in self.done or self.spent >= IN_ALL:
            return
        self.done.add(key)
        self.work = Work(self.torch, call, phase, self.steps.count)
        error = self.torch.cuda.OutOfMemoryError
        if not catches.may_be_caught(sys._getframe(1), error, frames.home_of(self.torch)):
            # It ends the process: all the time that there is, once.
            self.ends()
            return
        if SLOW_TO_IMPORT in sys.modules:
            self.go_on(PATIENCE)
        if not self.work.is_done():
            self.watch_for_the_end()

    def look_for_batch(self, call: Call) -> None:
        """What the program calls its batch, of this call and of the largest one like it."""
        try:
            shapes = [shape.shape for shape in inputs.shapes_in([call.args, call.kwargs])]
            call.told = batch.told(shapes, self.owners, self.steps.thread)
            if call.seen is not None and call.seen.largest is not None:
                call.seen.largest.told = call.told
        except Exception:
            errors.ours("look for the batch")

    def look_for_loss(self, call: Call) -> None:
        """What the program does with the model's output, of this call and of the largest one like it."""
        call.lines = callers.lines_of(self.torch, call.callers, sys._getframe(1))
        call.zero_grad = callers.zero_grad_of(self.torch, call.callers)
        callers.forget_sources()
        if call.seen is not None and call.seen.largest is not None:
            call.seen.largest.lines, call.seen.largest.zero_grad = call.lines, call.zero_grad

    def are_to_come(self) -> bool:
        """Whether an out-of-memory in a step is rehearsed."""
        return self.noted is not None and self.noted.latest is not None and self.steps.count < roots.SETTLED_STEPS

    def noticed(self) -> None:
        """An out-of-memory, whatever comes of it."""
        if self.steps.count < roots.SETTLED_STEPS:
            self.ooms += 1

    def finish(self) -> None:
        """At exit: says why nothing was rehearsed, where something could have been."""
        if self.ooms and not self.asked and self.noted is not None:
            self.note("the step that ran out of memory was not rehearsed: %s" % self.noted.why_not)

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
        self.look_for_loss(call)
        self.work = Work(self.torch, call, "optimizer", count)
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
        taken = time.monotonic() - began
        self.spent += taken
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
                if issubclass(kind, Exception):
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
        # Not on a thread that may be ended in the middle of it.
        __import__(SLOW_TO_IMPORT)
        self.go_on(max(LAST - work.micros / 1e6, AT_LEAST), SEND_LAST)


class Work:
    """The variants of one call, and what came of those that were rehearsed."""

    def __init__(self, torch: Torch, call: Call, phase: str, steps: int) -> None:
        self.torch = torch
        # The one to be rehearsed, and the one that failed, which may have had smaller inputs.
        self.call, self.failed = largest_like(call), call
        self.phase = phase
        # Those that had ended when memory ran out.
        self.steps = steps
        self.micros = 0
        self.began = 0.0
        # More where somebody waits for the answer.
        self.slack = 1.0
        self.first_took = 0.0
        self.line: dict[Any, Any] = {}
        self.variants: list[Any] = []
        # The step as it was, at each batch: what it allocated, and the sizes that parameters have.
        self.traces: list[tuple[int, list[str]]] = []
        self.fixed: Any = frozenset()
        # What operators returned, and what keeps the rehearsals from having an effect.
        self.known = operators.Known()
        self.guard: Any = None
        # Whether arguments whose first dimension is a multiple of the batch grow with it.
        self.is_flat = False
        self.left = [each for each in TASKS if not (each[0][1] and call.autocast[0])]

    def is_done(self) -> bool:
        """Whether no variant would be begun if there were more time."""
        return not self.left or bool(self.variants) and self.micros / 1e6 > REFINED * self.slack

    def said(self, error: BaseException | None, pid: int) -> Line:
        """The line; with the error that ended it, if one did."""
        # A copy first: the thread may still be at it.
        line = dict(self.line.copy(), variants=list(self.variants), pid=pid, phase=self.phase, micros=self.micros)
        if error is not None and not self.variants:
            line["why_not"] = words_of(error)
        line.update(event="rehearsal", device=self.call.device.index)
        return line

    def until(self, deadline: apart.Deadline, owners: Owners) -> None:
        """As many as there is time for. Nothing is tried again, and no others where the first fails."""
        call, end = self.call, deadline.at
        self.began = time.monotonic()
        module = call.module()
        if module is None:
            raise effects.Stopped("the model is gone")
        batch = inputs.batch_of(call)
        if batch is None:
            raise effects.Stopped("none of its tensor arguments has the batch size as a dimension")
        if not self.line:
            self.line = self.beginning(batch)
        guard = self.guard = effects.Guard(owners, changes.Before(), apart.looks_up(deadline))
        with warned.Silence(), guard:
            apart.here.is_guarded(guard)
            while self.left and time.monotonic() + LATER * self.first_took < end:
                variant, which = self.left[0]
                began = time.monotonic()
                spent = self.micros / 1e6 + began - self.began
                taken = spent + LATER * self.first_took if which != FIRST else spent
                if self.variants and taken > REFINED * self.slack:
                    self.left.pop(0)
                    continue
                if which == FIRST:
                    said = self.one(variant, batch, deadline)
                    if "why_not" in said and deadline.has_come():
                        # There may be more time for it later.
                        raise effects.Stopped("it took too long")
                    self.variants.append(said)
                else:
                    self.again(sizes.further_of(batch)[which - OWN], batch, deadline)
                self.left.pop(0)
                if not self.first_took:
                    self.first_took = time.monotonic() - began
                if "trace" not in self.variants[0]:
                    self.left = []

    def beginning(self, batch: int) -> Line:
        call, failed = self.call, self.failed
        arguments = inputs.bytes_of(self.torch, [call.args, call.kwargs])
        more = arguments - inputs.bytes_of(self.torch, [failed.args, failed.kwargs])
        line: Line = {"batch": batch, "before": failed.before + more, "arguments": arguments}
        seen = call.seen
        if seen is not None and (seen.calls == 1 or seen.differ()):
            possible = inputs.possible_size(self.torch, call)
            if seen.differ() or possible is not None:
                line["inputs"] = seen.line()
            if possible is not None:
                line["inputs"]["possible"] = possible
        line["zero_grad"] = call.zero_grad or "unknown"
        if getattr(getattr(self.torch.backends, "cudnn", None), "benchmark", False):
            line["autotunes"] = True
        if call.lines is not None and call.lines.copies_a_model():
            line["copies_model"] = True
        optimizer = optimizers.of(self.torch, call.device)
        if optimizer is not None:
            line["optimizer"] = optimizer
        return line

    def one(self, variant: tuple[bool, bool], batch: int, deadline: apart.Deadline) -> Line:
        """A variant at the first of the batches."""
        checkpointing, amp = variant
        said: Line = {"checkpointing": checkpointing, "amp": amp}
        at = sizes.first_of(batch)
        try:
            one, trace = self.traced(variant, batch, at, deadline)
            if variant == AS_IT_WAS:
                self.traces, self.fixed = [(at, trace.words)], one.sizes
            said["trace"] = " ".join(sizes.by_one(trace.words, at, one.sizes))
            said["forward"] = trace.marks["forward"]
            said["loss"] = trace.marks["loss"]
            said.update({name: numbers for name, numbers in one.outlive.items() if numbers})
            said["flops"] = trace.flops
            self.line.update(
                own_loss="own loss" in trace.marks, weights=one.weights, trained=one.trained,
                convolutions=one.has_convolutions,
            )
        except BaseException as error:
            errors.foreseen("rehearse a step")
            said["why_not"] = words_of(error)
        return said

    def again(self, at: int, batch: int, deadline: apart.Deadline) -> None:
        """The step as it was at another batch: its sizes are told by all of them."""
        try:
            trace = self.traced(AS_IT_WAS, batch, at, deadline)[1]
        except BaseException as error:
            errors.foreseen("rehearse a step at another batch")
            if deadline.has_come():
                raise effects.Stopped("it took too long") from error
            return
        self.traces.append((at, trace.words))
        try:
            told = " ".join(sizes.by_several(self.traces, self.fixed))
            self.variants[0] = dict(self.variants[0], trace=told)
        except sizes.Contradiction as contradiction:
            self.variants = [{"checkpointing": False, "amp": False, "why_not": words_of(contradiction)}]

    def traced(
        self, variant: tuple[bool, bool], batch: int, at: int, deadline: apart.Deadline
    ) -> tuple[rehearsal.Rehearsal, rehearsal.Trace]:
        try:
            return self.tried(variant, batch, at, deadline)
        except losses.NoLoss as no_loss:
            # Once more, without the program's own lines.
            errors.foreseen("run the caller's lines: %s" % no_loss)
            self.call.lines = None
            return self.tried(variant, batch, at, deadline)
        except (Exception, effects.Stopped):
            # torch writes some errors to a log, which stops it, too.
            if self.is_flat or self.traces or deadline.has_come() or not inputs.are_flat(self.call, batch):
                raise
            errors.foreseen("rehearse with inputs of which only the first dimension is the batch")
            self.is_flat = True
            return self.tried(variant, batch, at, deadline)

    def tried(
        self, variant: tuple[bool, bool], batch: int, at: int, deadline: apart.Deadline
    ) -> tuple[rehearsal.Rehearsal, rehearsal.Trace]:
        checkpointing, amp = variant
        made = rehearsal.Variant((batch, at), amp, checkpointing, self.is_flat)
        one = rehearsal.Rehearsal(self.torch, self.call, made, deadline, self.known, self.guard)
        return one, one.run()


def largest_like(call: Call) -> Call:
    """The call with the largest inputs of those of its model that were otherwise the same."""
    largest = None if call.seen is None else call.seen.largest
    if largest is None or largest.autocast != call.autocast or largest.device != call.device:
        return call
    try:
        return largest if inputs.batch_of(largest) == inputs.batch_of(call) else call
    except effects.Stopped:
        return call


def words_of(error: BaseException) -> str:
    """Why a rehearsal came to nothing, for a person."""
    kind = type(error).__name__
    if isinstance(error, (effects.Stopped, fakes.CannotCopy, sizes.Contradiction)):
        return str(error)
    if kind in ("DataDependentOutputException", "DynamicOutputShapeException"):
        return "its forward depends on the values of tensors (%s)" % getattr(error, "func", kind)
    if kind in ("UnsupportedOperatorException", "UnsupportedFakeTensorException"):
        return "a custom operator has no fake implementation (%s)" % str(error)[:120]
    return "%s: %s" % (kind, str(error).strip().splitlines()[0][:160] if str(error).strip() else "")
