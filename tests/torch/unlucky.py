"""A program that runs out of memory in its first step.

    unlucky.py bare|rehearsed MODE

MODE is what becomes of it: `ends` by it, `goes_on` after it with smaller batches, or something happens meanwhile.
"""
import hashlib
import os
import random
import signal
import sys
import threading

import numpy
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

MODE = sys.argv[2]
RUNS_OUT_AT = 64


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return x + torch.dropout(torch.relu(self.inner(x)), 0.2, self.training)


class Model(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width) for _ in range(4)])
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        if len(x) > 1000:
            rehearsed()
        for block in self.blocks:
            # Left out by chance, by two more generators.
            if random.random() < 0.1 or numpy.random.rand() < 0.1:
                continue
            x = checkpoint(block, x, use_reentrant=False)
        if len(x) == RUNS_OUT_AT:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return self.head(x)


def hang():
    """Seconds in C, where nobody can be stopped."""
    hashlib.pbkdf2_hmac("sha256", b"", b"", 60_000_000)


def rehearsed():
    """What happens in the rehearsal only, whose batch is larger than any."""
    if MODE.startswith("hangs"):
        hang()
    elif MODE == "loops":
        while True:
            len(MODE)
    elif MODE == "recurses":
        deeper(0)
    elif MODE == "memory":
        raise MemoryError
    elif MODE == "exits":
        sys.exit(9)
    elif MODE == "cpp":
        torch.zeros(3).view(5, 7)
    elif MODE == "warns":
        import warnings

        warnings.warn("only in the rehearsal")


def deeper(depth):
    return deeper(depth + 1) + 1


def step(model, optimizer, batch):
    x, y = torch.randn(batch, 16), torch.randint(5, (batch,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def later(act):
    timer = threading.Timer(0.4, act)
    timer.daemon = True
    timer.start()


def train():
    torch.manual_seed(3), random.seed(4), numpy.random.seed(5)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    try:
        step(model, optimizer, RUNS_OUT_AT)
    except torch.OutOfMemoryError:
        if MODE == "ends" or not MODE.endswith("goes_on"):
            raise
    for batch in (32, 48, 32):
        print(repr(step(model, optimizer, batch)))
    print(random.random(), numpy.random.rand(), torch.rand(1).item())


def main():
    if sys.argv[1] == "rehearsed":
        import on_cpu
        import rehearse

        # Only what does not come to an end is given up.
        lines = on_cpu.install(patience=1.0 if MODE.startswith(("hangs", "loops")) else rehearse.PATIENCE).lines
    if MODE == "hangs_sigint":
        later(lambda: os.kill(os.getpid(), signal.SIGINT))
    elif MODE == "hangs_sigterm":
        later(lambda: os.kill(os.getpid(), signal.SIGTERM))
    elif MODE == "hangs_handler":
        signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
        later(lambda: os.kill(os.getpid(), signal.SIGUSR1))
    elif MODE == "hangs_exit":
        later(lambda: os._exit(5))
    if MODE == "in_a_thread":
        threading.Thread(target=train).start()
        return
    try:
        train()
    finally:
        if sys.argv[1] == "rehearsed" and os.environ.get("LINES"):
            with open(os.environ["LINES"], "w") as file:
                file.write(repr([(line["variants"], line.get("why_not")) for line in lines]))


if __name__ == "__main__":
    main()
