"""What the tests of compiled models share: a decoder whose compiled graphs need a third less than its lines, a step of it that runs out
of memory where backward begins, and what a step takes by PyTorch's own profile of memory. Needs a C++ compiler."""
import contextlib
import os
import tempfile
import unittest
import unittest.mock

import on_cpu
import rehearse
import torch
import torch.nn.functional as F
from torch import nn
from torch._dynamo.utils import counters
from torch.profiler import ProfilerActivity, profile

WIDTH, LENGTH = 64, 80
FAILS = []


class Block(nn.Module):
    def __init__(self, drop=0.0):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        y = self.up(self.norm(x))
        # Five tensors as it is written, one where it is fused.
        return x + self.drop(self.down(0.9 * y * torch.sigmoid(1.7 * y) + y.abs()))


class Decoder(nn.Module):
    """As many are published: what is returned are logits and the loss."""

    def __init__(self, drop=0.0, breaks=False, blocks=3):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, 50)
        self.blocks = nn.ModuleList(Block(drop) for _ in range(blocks))
        self.breaks = breaks

    def forward(self, x, targets):
        x = self.embedding(x)
        for at, block in enumerate(self.blocks):
            x = block(x)
            if self.breaks and at == 1:
                torch._dynamo.graph_break()
        logits = self.head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def whole(model):
    return torch.compile(model)


def in_place(model):
    model.compile()
    return model


def blocks_wrapped(model):
    for at, block in enumerate(model.blocks):
        model.blocks[at] = torch.compile(block)
    return model


def blocks_in_place(model):
    for block in model.blocks:
        block.compile()
    return model


class Failing(torch.autograd.Function):
    """Runs out of memory where backward begins, once."""

    @staticmethod
    def forward(_, x):
        return x.clone()

    @staticmethod
    def backward(_, gradient):
        if FAILS:
            FAILS.clear()
            on_cpu.out_of_memory()
        return gradient


def step(model, batch):
    tokens = torch.zeros(batch, LENGTH, dtype=torch.long)
    logits, loss = model(tokens, tokens)
    Failing.apply(loss).backward()


def returned_at_once(model, tokens):
    return model(tokens, tokens)[1]


def unnamed(model, batch):
    """No name is bound between the model's call and backward."""
    Failing.apply(returned_at_once(model, torch.zeros(batch, LENGTH, dtype=torch.long))).backward()


def true_peak(model, batch, step=step):
    """Of a step behind the first ones, by which DistributedDataParallel has made its buckets anew."""
    for _ in range(2):
        step(model, batch)
        model.zero_grad(set_to_none=True)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as taken:
        step(model, batch)
    events = [each for each in taken.profiler.kineto_results.events() if each.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def watch_again(wire):
    """A profile has put torch's own call back, which a model that is compiled then keeps."""
    if not wire.roots.sees_modules():
        wire.roots.install()


@contextlib.contextmanager
def fresh(wire, is_cached=False):
    """Nothing is compiled yet. `is_cached`: kernels may be there already."""
    watch_again(wire)
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=not is_cached):
        yield


class Held(unittest.TestCase):
    """What is said of a step is held to what it takes."""

    # What has the lines that are sent.
    WIRE = None
    CLOSE = 0.01

    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        caches = unittest.mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=place.name)
        caches.start()
        cls.addClassCleanup(caches.stop)

    def held_to(self, make, batches=(6, 3), step=step):
        with fresh(self.WIRE, is_cached=True):
            self.WIRE.forget()
            self.WIRE.lines.clear()
            torch.manual_seed(0)
            model = make()
            for _ in range(2):
                # In the second DistributedDataParallel makes its buckets anew.
                step(model, batches[0])
                model.zero_grad(set_to_none=True)
            before = dict(counters["frames"])
            FAILS.append(1)
            with self.assertRaises(torch.OutOfMemoryError):
                step(model, batches[0])
            self.assertEqual(dict(counters["frames"]), before, "a rehearsal compiles nothing")
            (line,) = [line for line in self.WIRE.lines if line["event"] == "rehearsal"]
            self.assertIsNone(rehearse.why_not(line))
            self.assertTrue(line["variants"][0].get("graphs"))
            model.zero_grad(set_to_none=True)
            step(model, batches[0])
            self.assertEqual(dict(counters["frames"]), before, "and what was compiled is still good")
        for batch in batches:
            with fresh(self.WIRE, is_cached=True):
                true = true_peak(make(), batch, step)
            self.assertAlmostEqual(rehearse.peak(line, batch) / true, 1.0, delta=self.CLOSE)
        watch_again(self.WIRE)
        return line
