"""Decides what is rehearsed after an OOM and for how long, and reports the result.

Each variant of the step (as it was, with activation checkpointing, in bf16, both) is rehearsed once, at a prime
batch size: sizes that are multiples of it grow with the batch. Each model call and its shapes are rehearsed
once, within a time budget for each OOM and for the process.
"""
import time

from . import optimizers, rehearsal, roots

# Seconds: the longest that one OOM is delayed by its rehearsals, and the total of a process.
PATIENCE, IN_ALL = 1.5, 6.0
# Batch sizes that no other size is a multiple of by chance; the first above the program's own is taken.
PRIMES = (1009, 4099, 16411, 65537, 1000003)
VARIANTS = ((False, False), (True, False), (False, True), (True, True))


class Rehearsals:
    """Those of one process."""

    def __init__(self, process):
        self.process = process
        self.torch = process.torch
        self.done = set()
        self.spent = 0.0

    def ran_out(self, call, phase):
        """An out-of-memory has left a call, or its backward: rehearses it, and says what came of it."""
        if not self.process.live or self.process.steps.count >= roots.SETTLED_STEPS:
            return
        key = call.key()
        if key in self.done or self.spent >= IN_ALL:
            return
        self.done.add(key)
        began = time.monotonic()
        lines, error = rehearsal.on_own_thread(lambda: self.rehearse(call, began), PATIENCE + 0.2)
        self.spent += time.monotonic() - began
        if lines is None:
            lines = {"why_not": words_of(error)}
        lines.update(
            event="rehearsal", pid=self.process.pid, device=call.device.index, phase=phase,
            micros=int((time.monotonic() - began) * 1e6),
        )
        self.process.wire.put(lines, keep=True)
        self.process.wire.flush(0.2)

    def rehearse(self, call, began):
        """The line, but for where and when; what there was no time for is not in it."""
        module = call.module()
        if module is None:
            return {"why_not": "the model is gone"}
        until = began + PATIENCE
        batch = batch_of(call)
        if batch is None:
            return {"why_not": "none of its tensor arguments has the batch size as a dimension"}
        prime = next((each for each in PRIMES if each > batch), None)
        if prime is None:
            return {"why_not": "the batch dimension is not distinguishable from other sizes"}
        line = {"batch": batch, "before": call.before, "arguments": bytes_of(self.torch, [call.args, call.kwargs])}
        optimizer = optimizers.of(self.torch, call.device)
        if optimizer is not None:
            line["optimizer"] = optimizer
        variants, took = [], 0.0
        for checkpointing, amp in VARIANTS:
            if time.monotonic() + took > until:
                break
            started = time.monotonic()
            variant = rehearsal.Variant((batch, prime), amp and not call.autocast[0], checkpointing)
            if amp and call.autocast[0]:
                continue
            said = {"checkpointing": checkpointing, "amp": amp}
            try:
                one = rehearsal.Rehearsal(self.torch, call, variant, until)
                trace = one.run()
                said["trace"] = template(trace.words, prime, one.sizes)
                said["forward"] = trace.marks["forward"]
                line["own_loss"] = "own loss" in trace.marks
                line["weights"], line["trained"] = one.weights, one.trained
                line["convolutions"] = one.has_convolutions
            except BaseException as error:
                said["why_not"] = words_of(error)
            variants.append(said)
            took = time.monotonic() - started
            if not variants[0].get("trace"):
                break
        line["variants"] = variants
        return line


def bytes_of(torch, value):
    """What the tensors of noted arguments take on the GPU."""
    if isinstance(value, roots.Shape):
        if value.device.type == "cpu" or not value.shape:
            return 0
        size = torch.empty((), dtype=value.dtype, device="meta").element_size()
        for each in value.shape:
            size *= each
        return size
    if isinstance(value, dict):
        return sum(bytes_of(torch, each) for each in value.values())
    if isinstance(value, (list, tuple)):
        return sum(bytes_of(torch, each) for each in value)
    return 0


def batch_of(call):
    """The first dimension that most tensors among the arguments share."""
    counts = {}

    def look(value):
        if isinstance(value, roots.Shape):
            if value.shape:
                counts[value.shape[0]] = counts.get(value.shape[0], 0) + 1
        elif isinstance(value, dict):
            for each in value.values():
                look(each)
        elif isinstance(value, (list, tuple)):
            for each in value:
                look(each)

    look(call.args)
    look(call.kwargs)
    return max(counts, key=lambda size: counts[size]) if counts else None


def template(words, prime, fixed):
    """The trace with every size as `fixed+each*batch`, in the words of src/forecast/trace.rs: `4096`,
    `x512`. `fixed` are sizes that parameters have."""
    made = []
    for word in words:
        if word.startswith("-"):
            made.append(word)
            continue
        size = int(word)
        grows = size % prime == 0 and size not in fixed
        made.append("x%d" % (size // prime) if grows else word)
    return " ".join(made)


def words_of(error):
    """Why a rehearsal came to nothing, for a person."""
    kind = type(error).__name__
    if isinstance(error, (rehearsal.Stopped, rehearsal.fakes.CannotCopy)):
        return str(error)
    if kind in ("DataDependentOutputException", "DynamicOutputShapeException"):
        return "its forward depends on the values of tensors (%s)" % getattr(error, "func", kind)
    if kind in ("UnsupportedOperatorException", "UnsupportedFakeTensorException"):
        return "a custom operator has no fake implementation (%s)" % str(error)[:120]
    return "%s: %s" % (kind, str(error).strip().splitlines()[0][:160] if str(error).strip() else "")
