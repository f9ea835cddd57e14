"""Compiled functions that call the model: a loss, a whole step with its backward and its optimizer, a method. What is said of a step is
what it takes by PyTorch's own profile of memory, and the model and its optimizer are as they were. Needs a C++ compiler.

By hand: python3 -m unittest test_compiled_functions
"""
import contextlib
import os
import tempfile
import unittest
import unittest.mock

import on_cpu
import rehearse
import torch
import torch.nn.functional as F
from _oomph_probe.rehearse import apart
from compiled_of import LENGTH, Decoder, fresh, true_peak, watch_again
from torch._dynamo.utils import counters
from torch._inductor.output_code import CompiledFxGraph
from torch.optim.optimizer import register_optimizer_step_pre_hook

WIRE = on_cpu.install(patience=60)


def loss_of(model, x, targets):
    logits, _ = model(x, targets)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train_step(model, optimizer, x, targets):
    optimizer.zero_grad()
    logits, loss = model(x, targets)
    torch._dynamo.graph_break()
    loss.backward()
    optimizer.step()
    return loss


def whole_step(model, optimizer, x, targets):
    _, loss = model(x, targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


class Training:
    """A program whose step is one of these."""

    def __init__(self, how):
        self.how = how
        self.model = Decoder()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loss = torch.compile(loss_of)
        self.compiled = torch.compile(whole_step)
        self.broken = torch.compile(train_step)
        self.method = torch.compile(self.compute)

    def compute(self, x):
        return loss_of(self.model, x, x)

    def step(self, batch):
        tokens = torch.zeros(batch, LENGTH, dtype=torch.long)
        if self.how == "loss":
            loss = self.loss(self.model, tokens, tokens)
            loss.backward()
        elif self.how == "method":
            loss = self.method(tokens)
            loss.backward()
        elif self.how == "step":
            self.compiled(self.model, self.optimizer, tokens, tokens)
        else:
            self.broken(self.model, self.optimizer, tokens, tokens)
        self.model.zero_grad()


# Whether memory runs out where the optimizer's step begins.
STEPPING = []


@torch._dynamo.disable
def begins_a_step(*_):
    if STEPPING:
        # As the observer says it.
        WIRE.every.noticed("optimizer")
        on_cpu.out_of_memory()


register_optimizer_step_pre_hook(begins_a_step)


def failing(graph, inputs):
    if apart.here.alive and apart.here.is_in_one():
        raise AssertionError("a rehearsal runs no graph")
    on_cpu.out_of_memory()


class Functions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        caches = unittest.mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=place.name)
        caches.start()
        cls.addClassCleanup(caches.stop)

    def rehearsed(self, how, where, is_caught=True):
        """The line of an out-of-memory in the second step."""
        WIRE.forget()
        WIRE.lines.clear()
        torch.manual_seed(0)
        training = Training(how)
        training.step(6)
        before = {name: each.clone() for name, each in training.model.state_dict().items()}
        frames = dict(counters["frames"])
        handle = None
        if where == "optimizer":
            STEPPING.append(1)
            graph = contextlib.nullcontext()
        elif where == "backward":
            handle = training.model.head.weight.register_hook(lambda _: on_cpu.out_of_memory())
            graph = contextlib.nullcontext()
        else:
            graph = unittest.mock.patch.object(CompiledFxGraph, "__call__", failing)
        with graph, self.assertRaises(torch.OutOfMemoryError):
            training.step(6)
        self.assertEqual(dict(counters["frames"]), frames, "a rehearsal compiles nothing")
        if handle is not None:
            handle.remove()
        STEPPING.clear()
        for name, each in training.model.state_dict().items():
            self.assertTrue(torch.equal(each, before[name]), name)
        self.assertFalse(training.optimizer.state)
        (line,) = [line for line in WIRE.lines if line["event"] == "rehearsal"]
        self.assertIsNone(rehearse.why_not(line))
        self.assertEqual((line["batch"], line["phase"]), (6, where))
        return line

    def held_to(self, how, where):
        with fresh(WIRE, is_cached=True):
            line = self.rehearsed(how, where)
        for batch in (6, 3):
            with fresh(WIRE, is_cached=True):
                training = Training(how)
                true = true_peak(training.model, batch, lambda _, batch, training=training: training.step(batch))
            self.assertAlmostEqual(rehearse.peak(line, batch) / true, 1.0, delta=0.01)
        watch_again(WIRE)
        self.assertTrue(line["variants"][0].get("graphs"))

    def test_a_function_that_returns_the_loss(self):
        self.held_to("loss", "forward")

    def test_a_method_of_an_object_that_has_the_model(self):
        self.held_to("method", "forward")

    def test_a_step_with_its_backward_and_its_optimizer(self):
        self.held_to("step", "forward")

    def test_out_of_memory_in_the_compiled_optimizer_the_step_is_known_and_what_its_phase_is(self):
        with fresh(WIRE, is_cached=True):
            line = self.rehearsed("step", "optimizer")
        self.assertTrue(line["variants"][0].get("graphs"))

    def test_a_step_that_begins_with_something_else_is_rehearsed_as_it_is_written(self):
        with fresh(WIRE, is_cached=True):
            line = self.rehearsed("broken", "forward")
        self.assertTrue(line["compiled"])


if __name__ == "__main__":
    unittest.main()
