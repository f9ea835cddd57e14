"""The variants of one step that are rehearsed, what the dialog needs first, and what comes of each.

Each variant (as it was, with activation checkpointing, in bf16, both, with what is saved in RAM) is rehearsed once, and
the step as it was at two more batches (sizes.py). There may be several ways to rehearse a step: from the first call of
the round on by the program's own lines, from the call that failed, or that alone. The first that leads to a loss is
taken.
"""

from __future__ import annotations

import sys
import time

from ..common import errors
from ..live import modules
from . import (
    apart,
    before,
    beforehand,
    chunking,
    compiling,
    composed,
    effects,
    fakes,
    inputs,
    losses,
    operators,
    optimizers,
    outside,
    packing,
    randoms,
    rehearsal,
    scripted,
    singly,
    sizes,
    values,
    warned,
)
from .rehearsal import AS_IT_WAS, Changed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Tuple

    from ..common.frames import Owners
    from ..common.protocols import Line, Torch
    from . import callers
    from .roots import Call
    from .trace import Trace

    # A call to begin with, and the lines from there on.
    Way = Tuple[Call, Optional[callers.Lines]]

# Seconds of all rehearsals at which the last variant should have ended: none is begun that would end later, but for
# the second, whose remedy leaves the batch and the numbers as they are.
REFINED, SECOND = 0.9, 1.45
# What a variant takes as a share of the first, which also fills torch's caches (measured: 0.5 to 0.8), and at the most
# as a multiple of the one before it, for which much was known already (0.15 to 0.5 of the first).
LATER, NEXT = 0.7, 1.5
# What is rehearsed, in this order, and at which of the batches.
FIRST, OWN, LESS = 0, 1, 2
CHECKPOINTED = (Changed(checkpointing=True), FIRST)
TASKS = (
    (AS_IT_WAS, FIRST), CHECKPOINTED, (Changed(amp=True), FIRST), (AS_IT_WAS, OWN),
    (AS_IT_WAS, LESS), (Changed(offload=True), FIRST), (Changed(checkpointing=True, amp=True), FIRST),
)
# First of the others, where the step as it was makes a large log-softmax.
CHUNKED = (Changed(chunks=True), FIRST)
# Before autocast where ranks divide the parameters: that has a precision of its own.
DIVIDED = ((Changed(in_bf16=True), FIRST), (AS_IT_WAS, OWN), (AS_IT_WAS, LESS))


class Work:
    """The variants of one call, and what came of those that were rehearsed."""

    def __init__(
        self, torch: Torch, call: Call, phase: str, steps: int, ways: list[Way], was_evaluated: bool | None = None
    ) -> None:
        self.torch = torch
        # Whether a model was called without gradients before.
        self.was_evaluated = was_evaluated
        # The one that failed.
        self.failed = call
        # How it may be rehearsed; the first is tried, and given up for the next where its lines do not lead to a loss.
        self.ways = ways
        self.phase = self.failed_in = phase
        self.call, self.first = self.take_way()
        # Those that had ended when memory ran out.
        self.steps = steps
        self.micros = 0
        self.began = self.attempted = 0.0
        # More where somebody waits for the answer.
        self.slack = 1.0
        # Seconds of the first variant, and what another one is expected to take.
        self.first_took = self.next_takes = 0.0
        self.line: dict[Any, Any] = {}
        # Whether what is carried over from step to step is no longer among its arguments.
        self.has_left_out = False
        self.variants: list[Any] = []
        # The step as it was, at each batch: what it allocated, and the sizes that parameters have.
        self.traces: list[tuple[int, list[str]]] = []
        self.fixed: Any = frozenset()
        # The same where ranks divide or reduce otherwise, by the name of the change; the places of these variants.
        self.changed: dict[str, list[tuple[int, list[str]]]] = {}
        self.at: dict[str, int] = {}
        # What operators returned, and what keeps the rehearsals from having an effect.
        self.known = operators.Known()
        self.guard: Any = None
        # What the step changes outside of its model, and whether the program's own hooks are called.
        self.outside: outside.Outside | None = None
        self.with_hooks = True
        # How many times the places in so many elements were asked for.
        self.shares: list[int] = []
        # Questions about what is not known that are answered with no (values.py).
        self.no: set[values.Place] = set()
        # Variants that were put together of the one that was run last.
        self.changes: list[Line] = []
        # Whether arguments whose first dimension is a multiple of the batch grow with it.
        self.is_flat = False
        # Whether samples are gone through one by one, and whether they are the items of lists.
        self.is_singly = self.is_listed = False
        self.left = [each for each in TASKS if not (each[0].amp and call.autocast[0])]
        if call.is_evaluation and len(self.ways) == 0:
            self.left = [each for each in TASKS if each[0] == AS_IT_WAS]

    def take_way(self) -> tuple[Call, Call]:
        """The call to be rehearsed, which may have larger inputs than the one that begins there, and that one."""
        while len(self.ways) > 1 and self.ways[0][0].module() is None:
            # Its model was of an earlier training, and is gone by now.
            self.ways.pop(0)
        first, lines = self.ways.pop(0)
        call = largest_like(first)
        call.lines, call.zero_grad = lines, self.failed.zero_grad
        call.adds_gradients = self.failed.adds_gradients
        # Memory ran out in a step, whatever has gradients in it.
        self.phase = "forward" if call.is_without_gradients else self.failed_in
        return call, first

    def forget(self) -> None:
        """Of the program's objects nothing is kept between two rehearsals."""
        if self.guard is not None and self.guard.before is not None:
            self.guard.before.forget()

    def is_done(self) -> bool:
        """Whether no variant would be begun if there were more time."""
        return not self.left or bool(self.variants) and not self.would_end_in_time(self.micros / 1e6)

    def would_end_in_time(self, spent: float) -> bool:
        """Whether the next of them would."""
        variant, _ = self.left[0]
        until = SECOND if self.left[0] == CHECKPOINTED or variant.chunks else REFINED
        return spent + self.next_takes <= until * self.slack

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
        self.began = time.monotonic()
        batch = self.batch()
        draws = randoms.Randoms(self.torch)
        guard = self.guard = effects.Guard(owners, before.Before(), apart.looks_up(deadline))
        outer = self.outside = outside.Outside(owners)
        try:
            with warned.Silence(), compiling.left(), scripted.as_written(self.torch), guard:
                self.until_guarded(deadline, batch, draws)
        finally:
            # They are the program's.
            guard.outside = None
            outer.forget()

    def until_guarded(self, deadline: apart.Deadline, batch: int, draws: randoms.Randoms) -> None:
        apart.here.is_guarded(self.guard)
        while self.left and time.monotonic() + self.next_takes < deadline.at:
            variant, which = self.left[0]
            began = time.monotonic()
            spent = self.micros / 1e6 + began - self.began
            if self.variants and not self.would_end_in_time(spent):
                self.left.pop(0)
                continue
            if deadline.has_come():
                # The program draws by itself again.
                break
            # Each draws the same: what is left out by chance is the same in all.
            draws.put_back()
            if which == FIRST:
                try:
                    said = self.one(variant, batch, deadline)
                except losses.NoLoss as no_loss:
                    errors.foreseen("run the caller's lines: %s" % no_loss)
                    batch = self.next_way()
                    continue
                if "why_not" in said and deadline.has_come():
                    # There may be more time for it later.
                    raise effects.Stopped("it took too long")
                if "why_not" in said and not self.variants and self.call.is_evaluated_first:
                    batch = self.next_way()
                    continue
                self.variants.append(said)
                for change in self.changes:
                    self.at[change["change"]] = len(self.variants)
                    self.variants.append(change)
                self.changes = []
            else:
                self.again(sizes.further_of(batch)[which - OWN], batch, deadline)
            self.left.pop(0)
            # What was tried before the last attempt is tried no more.
            self.took(time.monotonic() - max(began, self.attempted))
            if "trace" not in self.variants[0]:
                self.left = []

    def took(self, seconds: float) -> None:
        """So long did the one take that has just ended."""
        if not self.first_took:
            self.first_took, self.next_takes = seconds, LATER * seconds
        else:
            self.next_takes = min(LATER * self.first_took, NEXT * seconds)

    def batch(self) -> int:
        """The batch of the call that is rehearsed; `Stopped` where it has none."""
        if self.call.module() is None:
            raise effects.Stopped("the model is gone")
        batch = inputs.batch_of(self.call)
        if batch is None:
            batch = singly.length_of([*self.call.args, *self.call.kwargs.values()])
            self.is_listed = self.is_singly = batch is not None
        if batch is None:
            raise effects.Stopped("none of its tensor arguments has the batch size as a dimension")
        if not self.line:
            self.line = self.beginning(batch)
        return batch

    def next_way(self) -> int:
        self.call, self.first = self.take_way()
        self.line = {}
        if self.call.is_evaluation:
            self.left = [each for each in TASKS if each[0] == AS_IT_WAS]
        return self.batch()

    def beginning(self, batch: int) -> Line:
        call = self.call
        self.has_left_out = False
        # What was there at the first call of these lines is there in every step; later ones find what steps have left.
        first = self.first.first or self.first
        arguments = inputs.bytes_of(self.torch, [call.args, call.kwargs], call.device)
        more = arguments - inputs.bytes_of(self.torch, [first.args, first.kwargs], call.device)
        beside: list[inputs.Shape] = []
        if call.lines is not None:
            # They were there by then as well.
            beside = inputs.beside(call, call.lines.given(), batch)
            arguments = inputs.bytes_of(self.torch, [call.args, call.kwargs, beside], call.device)
        line: Line = {"batch": batch, "before": first.before + more, "arguments": arguments}
        counted = inputs.shapes_in([call.args, call.kwargs, beside])
        made = beforehand.bytes_of_batch(self.torch, self.failed, batch, counted, first is self.failed)
        if made:
            line["before_of_batch"] = min(made, max(line["before"] - arguments, 0))
        seen = call.seen
        if seen is not None and (seen.calls == 1 or seen.differ()):
            possible = inputs.possible_size(self.torch, call)
            if seen.differ() or possible is not None:
                line["inputs"] = seen.line()
            if possible is not None:
                line["inputs"]["possible"] = possible
        line["zero_grad"] = call.zero_grad or "unknown"
        if call.adds_gradients:
            line["adds_gradients"] = True
        if call.is_evaluation:
            line["evaluates"] = True
        elif call.is_evaluated_first or self.was_evaluated is not None:
            # What a step begins with is no evaluation.
            was_evaluated = self.was_evaluated and not call.is_without_gradients
            line["evaluated"] = call.is_evaluated_first or was_evaluated
        if getattr(getattr(self.torch.backends, "cudnn", None), "benchmark", False):
            line["autotunes"] = True
        if modules.has_compiled():
            line["compiled"] = True
        ranks = ranks_of(self.torch)
        if ranks > 1:
            line["ranks"] = ranks
            if call.rebuilds_buckets:
                line["rebuilds_buckets"] = True
            if self.failed.is_compiled:
                line["compiled_whole"] = True
        # An evaluation's lines tell of its loss, not of the step that it stands for.
        lines = None if call.is_evaluated_first else call.lines
        if lines is not None and lines.copies_a_model():
            line["copies_model"] = True
        if lines is not None and lines.evaluates_next() and not self.was_evaluated:
            line["evaluates_next"] = True
        optimizer = optimizers.of(
            self.torch, call.device, first.steps, self.steps, self.failed.compiled_steps
        )
        if optimizer is not None:
            line["optimizer"] = optimizer
        return line

    def one(self, variant: Changed, batch: int, deadline: apart.Deadline) -> Line:
        """A variant at the first of the batches."""
        said: Line = {"checkpointing": variant.checkpointing, "amp": variant.amp}
        if variant.offload:
            said["offload"] = True
        if variant.chunks:
            said["chunked"] = True
        if variant.in_bf16:
            said["change"] = composed.IN_BF16
        at = sizes.first_of(batch)
        try:
            if not self.is_singly:
                try:
                    one, trace = self.traced(variant, batch, at, deadline)
                except singly.OneByOne as error:
                    errors.foreseen("rehearse a multiple of the batch: %s" % error)
                    self.is_singly = True
            if self.is_singly:
                return self.one_by_one(said, variant, batch, deadline)
            if variant == AS_IT_WAS:
                self.changes = self.in_other_ways(one, batch, at)
                self.traces, self.fixed = [(at, trace.words)], one.fixed_sizes()
                if one.log_softmax > chunking.WORTH * trace.peak:
                    self.left[1:1] = self.in_chunks(one.classes, one.copier.is_divided())
            if one.chunking is not None and one.chunking.head() is not None:
                # It has no logits to be taken in chunks.
                said["head"] = one.chunking.head()
                self.left = [each for each in self.left if each != CHUNKED]
            say(said, sizes.by_one(trace.words, at, one.fixed_sizes()), trace, one.outlive, batch / at)
            self.told_by(said, one, trace)
        except losses.NoLoss:
            if self.ways and not self.traces:
                raise
            said["why_not"] = "its lines lead to no loss"
        except BaseException as error:
            errors.foreseen("rehearse a step")
            said["why_not"] = words_of(error)
        return said

    def in_chunks(self, classes: int, is_divided: bool) -> list[tuple[Changed, int]]:
        """The loss in chunks, and before it with the head: a program that was not called with gradients yet has none
        that is patched; what is compiled or divided among ranks is left alone, and what is read outside of the loss."""
        is_left_alone = is_divided or self.call.is_compiled or self.line.get("compiled") or self.call.outputs_are_read
        has_head = not (self.call.is_evaluation or is_left_alone)
        return [(Changed(chunks=True, head=classes), FIRST), CHUNKED] if has_head else [CHUNKED]

    def told_by(self, said: Line, one: rehearsal.Rehearsal, trace: Trace) -> None:
        """What else a variant says."""
        if one.has_only_graphs():
            said["graphs"] = True
        if one.offloading is not None:
            said["ram"] = one.offloading.line()
        if one.carried:
            self.leave_out(one.carried)
        self.line.update(
            own_loss="own loss" in trace.marks, weights=one.weights, trained=one.trained,
            convolutions=one.has_convolutions, multiplies=one.multiplies, multiplies_backward=one.multiplies_backward,
        )

    def one_by_one(self, said: Line, variant: Changed, batch: int, deadline: apart.Deadline) -> Line:
        """A variant at the program's own batch and at another one, which is all that there is of it."""
        began = time.monotonic()
        own, less = sizes.further_of(batch)
        further = 2 * own if self.is_listed else less
        self.left = [each for each in self.left if each[1] == FIRST]
        one, trace = self.traced(variant, batch, own, deadline)
        _, other = self.traced(variant, batch, further, deadline)
        told = singly.words((own, trace.words), (further, other.words), one.fixed_sizes())
        if variant == AS_IT_WAS:
            self.traces, self.fixed = [(own, trace.words)], one.fixed_sizes()
        say(said, told, trace, one.outlive, batch / own)
        self.told_by(said, one, trace)
        # It took both.
        self.attempted = began
        return said

    def in_other_ways(self, one: rehearsal.Rehearsal, batch: int, at: int) -> list[Line]:
        """What the step would be if ranks divided or reduced otherwise."""
        made = []
        for name in composed.possible(one):
            try:
                other = composed.Composed(name, one)
            except Exception:
                errors.ours("put a step together in another way")
                continue
            said: Line = {"checkpointing": False, "amp": False, "change": name}
            if other.weights is not None:
                said.update(weights=other.weights, trained=other.trained)
            words = sizes.by_one(other.trace.words, at, one.fixed_sizes())
            say(said, words, other.trace, other.outlive(one), batch / at)
            self.changed[name] = [(at, other.trace.words)]
            made.append(said)
        if one.copier.is_divided() and any(each[0] != AS_IT_WAS for each in self.left):
            # FSDP's own precision comes before autocast.
            left = self.left
            if one.copier.shards.groups:
                # What `fully_shard` has taken over is not checkpointed (common/blocks.py): a copy for nothing.
                left = [each for each in left if not each[0].checkpointing]
            later = [each for each in left if each[0].amp]
            sooner = [each for each in left if not each[0].amp and each not in DIVIDED]
            self.left = sooner + list(DIVIDED if composed.may_be_bf16(one) else DIVIDED[1:]) + later
        return made

    def leave_out(self, carried: list[str]) -> None:
        """Arguments that are what the step before has returned: they count as what outlives it."""
        if self.has_left_out or self.call.lines is None:
            return
        self.has_left_out = True
        places, call = self.call.lines.carried(), self.call
        given = [places[name].value_in(call.args, call.kwargs) for name in carried]
        took = inputs.bytes_of(self.torch, given, call.device)
        for name in ("before", "arguments"):
            self.line[name] = max(self.line[name] - took, 0)

    def again(self, at: int, batch: int, deadline: apart.Deadline) -> None:
        """The step as it was at another batch: its sizes are told by all of them."""
        try:
            one, trace = self.traced(AS_IT_WAS, batch, at, deadline)
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
            return
        self.change_again(one, at)

    def change_again(self, one: rehearsal.Rehearsal, at: int) -> None:
        """What was put together in other ways, at another batch."""
        for name, traces in self.changed.items():
            try:
                traces.append((at, composed.Composed(name, one).trace.words))
                told = " ".join(sizes.by_several(traces, self.fixed))
                place = self.at[name]
                self.variants[place] = dict(self.variants[place], trace=told)
            except (Exception, sizes.Contradiction):
                # By one batch it is told already.
                errors.foreseen("put a step together at another batch")

    def traced(
        self, variant: Changed, batch: int, at: int, deadline: apart.Deadline
    ) -> tuple[rehearsal.Rehearsal, Trace]:
        try:
            return self.tried(variant, batch, at, deadline)
        except (losses.NoLoss, singly.OneByOne, values.ManyTurns):
            raise
        except losses.NoFurther as none:
            # Once more, up to the first backward.
            errors.foreseen("run the lines behind backward: %s" % none)
            if self.call.lines is None or not self.call.lines.goes_further:
                raise
            self.call.lines.goes_further = False
            return self.tried(variant, batch, at, deadline)
        except (Exception, effects.Stopped):
            # torch writes some errors to a log, which stops it, too.
            if self.is_flat or self.traces or deadline.has_come() or not inputs.are_flat(self.call, batch):
                raise
            errors.foreseen("rehearse with inputs of which only the first dimension is the batch")
            self.is_flat = True
            return self.tried(variant, batch, at, deadline)

    def tried(
        self, variant: Changed, batch: int, at: int, deadline: apart.Deadline
    ) -> tuple[rehearsal.Rehearsal, Trace]:
        self.attempted = time.monotonic()
        self.guard.judge_on()
        made = rehearsal.Variant((batch, at), variant, self.is_flat, self.is_listed)
        one = rehearsal.Rehearsal(
            self.torch, self.call, made, deadline, self.known, self.guard, self.outside, self.with_hooks
        )
        one.values.shares, one.values.no = self.shares, self.no
        one.optimizer = self.line.get("optimizer")
        try:
            with packing.by(one.sequences), one.lists():
                trace = one.run()
        except singly.OneByOne:
            raise
        except (Exception, effects.Stopped) as error:
            if deadline.has_come() or not self.is_worth_another(one, error):
                raise
            return self.tried(variant, batch, at, deadline)
        finally:
            if one.copier is not None and one.copier.views is not None:
                one.copier.views.forget()
        if one.depends_on_shares() and not self.shares:
            # Once more, by how many share.
            self.shares = one.values.parts()
            return self.tried(variant, batch, at, deadline)
        if one.values.assumes:
            self.line["assumes_values"] = True
        if one.sequences.spread is not None:
            self.line["lengths_spread"] = round(one.sequences.spread, 3)
        if self.outside is not None and self.outside.is_changed_inside:
            self.line["changes_outside"] = True
        return one, trace


    def is_worth_another(self, one: rehearsal.Rehearsal, error: BaseException) -> bool:
        """Whether a rehearsal that has failed may go further the next time."""
        stopped_at, self.guard.outside = self.guard.outside, None
        if isinstance(error, values.ManyTurns):
            return False
        if self.outside is not None and self.outside.takes(stopped_at):
            self.outside.is_changed_inside |= self.guard.deep > 1
            errors.foreseen("change what is outside of the model")
            return True
        if one.values.answers_no(error.__traceback__):
            errors.foreseen("pass a check of the program's")
            return True
        # What the first of the variants got through is no fault of theirs in another one.
        if self.with_hooks and not self.traces and one.copier is not None and one.copier.has_hooks:
            errors.foreseen("call the program's hooks")
            self.with_hooks = False
            return True
        return False


def say(said: Line, words: list[str], trace: Trace, outlive: dict[str, list[int]], share: float) -> None:
    """`share`: the program's batch as a share of the one that was traced."""
    said["trace"] = " ".join(words)
    said["forward"], said["loss"] = trace.marks["forward"], trace.marks["loss"]
    said.update({name: numbers for name, numbers in outlive.items() if numbers})
    said["flops"] = int(trace.flops * share)


def ranks_of(torch: Torch) -> int:
    """How many processes train together."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size())


def largest_like(call: Call) -> Call:
    """The call with the largest inputs of those of its model that were otherwise the same."""
    largest = None if call.seen is None else call.seen.largest
    if largest is None or largest.autocast != call.autocast or largest.device != call.device:
        return call
    if largest.module() is not call.module():
        # Of a model that is gone, whose place in memory this one has.
        return call
    if not inputs.has_size(largest, call.told):
        # Of another kind: an agent acts on one observation, and learns from many.
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
