"""A program that is rehearsed, and whose rehearsal meets its deadline. It then fails for a reason of its own.

    struck.py count               how many operations the rehearsal of the model makes
    struck.py at FIRST LAST       the deadline comes at each of these operations, one after another
    struck.py wide SHARE          the same at a share of the looks of a model whose backward has thousands of parts to do
    struck.py late FIRST STEP N   patience ends after FIRST, FIRST + STEP, … microseconds, while it goes on

The model is many small nested modules with checkpointing of both kinds, a custom autograd function, hooks on
tensors and on what is saved for backward, and a module that computes slowly without an operation.
"""
import sys
import time
import types

import rehearse
import torch
import torch.nn as nn
from _oomph_probe.rehearse import apart, rehearsal, roots, work
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 2 * x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x.cos() * gradient


class Leaf(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + torch.relu(self.linear(self.norm(x)))


class Hooked(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.leaf = Leaf(width)

    def forward(self, x):
        with saved_tensors_hooks(lambda saved: saved * 1, lambda packed: packed * 1):
            made = Twice.apply(self.leaf(x)) + 0
        made.add_(1).mul_(2)
        made = made.view(-1).view(x.shape)
        if made.requires_grad:
            made.register_hook(lambda gradient: gradient * 1)
        return made


class Checkpointed(nn.Module):
    def __init__(self, width, reentrant):
        super().__init__()
        self.inner, self.reentrant = nn.Sequential(Leaf(width), Hooked(width)), reentrant

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=self.reentrant)


class Wide(nn.Module):
    def __init__(self, width=8, parts=4000):
        super().__init__()
        self.weight, self.parts = nn.Parameter(torch.ones(width)), parts

    def forward(self, x):
        return torch.stack([Twice.apply(x * self.weight) for _ in range(self.parts)]).square().mean()


class Slow(nn.Module):
    """Python, and no operation."""

    def forward(self, x):
        return x.view(list(x.shape)) if sum(range(20000)) else x


class Nested(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.parts = nn.ModuleList(
            [Leaf(width), Checkpointed(width, False), Slow(), Hooked(width), Checkpointed(width, True), Leaf(width)]
        )

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x.square().mean()


class Clock:
    """Stands still, and is late from one look on."""

    def __init__(self, late_from):
        self.looks, self.late_from = 0, late_from

    def monotonic(self):
        self.looks += 1
        return 0.0 if self.looks < self.late_from else 1e9


def one(model, call):
    return rehearsal.Rehearsal(torch, call, rehearsal.Variant((3, 1009)), apart.Deadline(1.0)).run()


def looks(model, call, late_from):
    clock = Clock(late_from)
    apart.time = clock
    try:
        _, error = apart.run(lambda: one(model, call), apart.Deadline(1.0), 600)
    finally:
        apart.time = time
    return clock.looks, error


def main(mode, *numbers):
    model, x = Wide() if mode == "wide" else Nested(), torch.zeros(3, 8, requires_grad=True)
    call = roots.Call(torch, model, (x,), {}, 0)
    # What torch imports at its first use is no part of what is struck.
    count, error = looks(model, call, float("inf"))
    if error is not None:
        raise error
    if mode == "count":
        print(count)
        return
    if mode == "wide":
        # It ends at once.
        _, error = looks(model, call, int(count * float(numbers[0])))
        assert isinstance(error, rehearsal.Stopped), error
    elif mode == "at":
        first, last = map(int, numbers)
        for at in range(first, last):
            _, error = looks(model, call, at)
            assert isinstance(error, rehearsal.Stopped), (at, error)
    else:
        first, step, times = map(int, numbers)
        for number in range(times):
            late(model, call, (first + number * step) / 1e6)
    raise ValueError("of its own")


def late(model, call, patience):
    """Nobody waits for it any more, and the program goes on."""
    every = rehearse.rehearsals_with(rehearse.Wire())
    made = every.work = work.Work(torch, call, "forward", 0, [(call, None)])
    deadline = apart.Deadline(time.monotonic() + patience)
    apart.run(lambda: made.until(deadline, every.owners), deadline, patience)


if __name__ == "__main__":
    main(*sys.argv[1:])
