"""A program that runs out of memory outside of a training's call of its model.

    late.py loss|evaluation|before [bare]

Its own lines after the call; an evaluation when steps are no longer watched; one before the first step.
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

MODE, IS_BARE = sys.argv[1], "bare" in sys.argv
ROWS = 48


def ran_out(phase):
    if not IS_BARE:
        EVERY.noticed(phase)
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(64, 64)

    def forward(self, x):
        if MODE != "loss" and type(x) is torch.Tensor and len(x) == ROWS and not torch.is_grad_enabled():
            ran_out("evaluation")
        return torch.relu(self.inner(x))


def loss_of(output, wanted):
    if MODE == "loss" and type(output) is torch.Tensor:
        ran_out("forward")
    return F.cross_entropy(output, wanted)


def evaluate(model):
    model.eval()
    with torch.no_grad():
        return model(torch.randn(ROWS, 64)).argmax(-1)


def train():
    model = nn.Sequential(*[Layer() for _ in range(6)])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    if MODE == "before":
        evaluate(model)
    for _ in range(5):
        given, wanted = torch.randn(16, 64), torch.randint(64, (16,))
        output = model(given)
        loss = loss_of(output, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if not IS_BARE:
        # Steps are no longer watched by then.
        EVERY.noted.rest()
    evaluate(model)


if not IS_BARE:
    import on_cpu
    import rehearse

    WIRE = on_cpu.install(patience=rehearse.PATIENCE)
    EVERY = WIRE.every
    hook = sys.excepthook
    sys.excepthook = lambda *error: (print(WIRE.lines), hook(*error))
train()
