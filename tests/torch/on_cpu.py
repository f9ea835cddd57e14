"""The probe's part that rehearses, put in front of a program on a machine without a GPU: models on the CPU count."""
import types

import rehearse
import torch
from _oomph_probe.common import frames
from _oomph_probe.live import modules
from _oomph_probe.rehearse import rehearsals, roots

LAST = rehearsals.LAST


class Lines(rehearse.Wire):
    """Keeps every line."""

    def __init__(self):
        self.lines = []

    def put(self, line, keep):
        self.lines.append(line)


def install(imports=True, patience=rehearsals.PATIENCE):
    """Rehearses what runs out of memory from now on; returns what has the lines that are sent. `imports`: what torch imports at the
    first use is there already, as on a machine with a GPU."""
    if imports:
        __import__(rehearsals.SLOW_TO_IMPORT)
        # The first one of a process takes seconds.
        rehearse.said(torch.nn.Linear(1, 1), torch.zeros(2, 1))
    rehearsals.PATIENCE = patience
    # Where nobody catches it.
    rehearsals.LAST = max(patience, LAST)
    wire = Lines()
    rehearsals.IN_ALL = float("inf")
    roots.DEVICES = ("cuda", "cpu")
    torch._C._cuda_memoryStats = lambda device: {"allocated_bytes": {"all": {"current": 0}}}
    steps, lifetime = types.SimpleNamespace(count=0, thread=None, after={}), types.SimpleNamespace(live=True)
    noted = roots.Roots(torch, lambda call, phase: every.ran_out(call, phase), modules.Modules(torch))
    every = rehearsals.Rehearsals(torch, 1, lifetime, wire, print, steps, noted, 0, frames.Owners(torch))
    noted.install()

    def forget():
        # A model may lie where one lay before.
        every.done.clear()
        steps.count = noted.steps = noted.evaluated = 0
        noted.latest = None
        noted.rounds.end()

    def stepped(*_):
        steps.count += 1
        noted.steps = steps.count

    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(stepped)
    wire.forget = forget
    wire.every = every
    wire.roots = noted
    return wire


def out_of_memory():
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
