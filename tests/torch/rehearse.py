"""Rehearsals of whole steps on a machine without a GPU: the models lie on the CPU, and so do their fakes."""
import pathlib
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "probe/units"))

import support  # noqa: E402,F401
import torch  # noqa: E402
from _oomph_probe.common import frames  # noqa: E402
from _oomph_probe.live import modules  # noqa: E402
from _oomph_probe.rehearse import apart, inputs, rehearsal, rehearsals, roots, sizes, trace, work  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

# Without a GPU entering the mode puts a guard for CUDA in place, which is not made for a second thread (torch 2.11).
FakeTensorMode.avoid_device_init = False
# A busy machine is no reason.
PATIENCE = 120


class Wire:
    def put(self, line, keep):
        self.line = line

    def flush(self, seconds, although_stalled=False):
        pass


def rehearsals_with(wire):
    """Those of a process before its first step."""
    lifetime, steps = types.SimpleNamespace(live=True), types.SimpleNamespace(count=0, thread=None, after={})
    return rehearsals.Rehearsals(torch, 1, lifetime, wire, print, steps, None, 0, frames.Owners(torch))


def said(model, *args, autocast=False, before=(), reads_values=False, **kwargs):
    """The line of an out-of-memory in this call; `before` are the arguments of calls that got through. `reads_values`: the
    numbers of small arguments are known, as where nobody can catch the error."""
    wire = Wire()
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))])
    rehearsals.PATIENCE = rehearsals.LAST = work.REFINED = work.SECOND = PATIENCE
    with torch.autocast("cpu", torch.bfloat16, autocast):
        call = roots.Call(torch, model, args, kwargs, 0)
        seen = inputs.Inputs()
        for each in before:
            seen.add(roots.Call(torch, model, each, {}, 0))
        seen.add(call)
    if reads_values:
        inputs.with_values(torch, [call.args, call.kwargs], [args, kwargs])
    rehearsals_with(wire).ran_out(call, "forward")
    return wire.line


def said_of_evaluation(model, *args):
    """The line of an out-of-memory in this call without gradients."""
    wire = Wire()
    rehearsals.PATIENCE = rehearsals.LAST = work.REFINED = PATIENCE
    call = roots.Call(torch, model, args, {}, 0)
    call.is_evaluation = True
    rehearsals_with(wire).ran_out(call, "forward")
    return wire.line


def why_not(line):
    """Why the step as it was could not be rehearsed; None where it was."""
    variants = line["variants"]
    return variants[0].get("why_not") if variants else line["why_not"]


def places(line):
    """Where the variants of checkpointing and precision stand: as it was, recomputed, in bf16, both, as far as there are."""
    others = [each.get("offload") or each.get("chunked") for each in line["variants"]]
    ways = {(each["checkpointing"], each["amp"]): at for at, each in enumerate(line["variants"]) if not others[at]}
    return [ways[way] for way in ((False, False), (True, False), (False, True), (True, True)) if way in ways]


def peak(line, batch, variant=0):
    """The most that is alive at once for a batch; None where there is no such trace."""
    trace = line["variants"][variant].get("trace")
    return None if trace is None else peak_beside({}, trace.split(), batch)


def steady_peak(line, batch, variant=0):
    """The same of a later step: what variables hold of the one before is there until it is let go of."""
    said = line["variants"][variant]
    held, words = {}, said["trace"].split()
    sizes_made = [trace.blocks(sizes.size_at(word, batch)) for word in words if not word.startswith("-")]
    for number, until in zip(said.get("held", ()), said.get("until", ())):
        held.setdefault(until, []).append(sizes_made[number])
    return peak_beside(held, words, batch)


def peak_beside(held, words, batch):
    """The most at once of a trace's words, beside what is there until the event of that number."""
    made, most = [], 0
    now = sum(sum(each) for each in held.values())
    for at, word in enumerate(words):
        now -= sum(held.pop(at, ()))
        if word.startswith("-"):
            now -= made[len(made) - int(word[1:])]
            continue
        made.append(trace.blocks(sizes.size_at(word, batch)))
        now += made[-1]
        most = max(most, now)
    return most


def real_peak(model, *args, loss=None):
    """The same of a real step on the CPU; `loss` makes it of the outputs."""
    call = roots.Call(torch, model, args, {}, 0)
    one = rehearsal.Rehearsal(torch, call, rehearsal.Variant(), apart.Deadline(float("inf")))
    trace = one.trace
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    for each in list(model.parameters()) + list(model.buffers()) + tensors:
        one.is_new(each.untyped_storage())
    with one.recorder():
        outputs = model(*args)
        value = one.assumed(outputs) if loss is None else loss(outputs)
    del outputs
    with one.recorder():
        value.backward()
    model.zero_grad()
    return trace.peak


def roots_of(model, *args):
    """The classes of what is noted as calls of a model, in a step."""
    noted = []

    class Noting(roots.Roots):
        def note(self, module, args, kwargs):
            noted.append(type(module).__name__)
            return True

    watched = Noting(torch, None, modules.Modules(torch))
    watched.install()
    try:
        model(*args).backward()
    finally:
        watched.rest()
    return noted
