"""Whether an optimizer's step is compiled is known before there was one: inductor makes no temporaries of all parameters at once.

By hand: python3 -m unittest test_compiled_steps
"""
import unittest

import on_cpu
import torch
import torch.nn.functional as F
from compiled_of import FAILS
from torch import nn

WIRE = on_cpu.install(patience=60)
# Frames are what is looked at, not kernels.
BACKEND = "eager"


@torch._dynamo.disable
def may_fail():
    if FAILS:
        FAILS.clear()
        on_cpu.out_of_memory()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        may_fail()
        return self.layers(x)


class Training:
    """A program that compiles one of these."""

    def __init__(self, how):
        self.model = Model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.how = how
        if how == "model":
            self.model.compile(backend=BACKEND)
        elif how == "its own":
            self.optimizer.step = torch.compile(self.optimizer.step, backend=BACKEND)
        elif how == "an attribute":
            self.update = torch.compile(self.optimizer.step, backend=BACKEND)
        elif how == "a method":
            self.whole = torch.compile(self.step_at_once, backend=BACKEND)

    def step_at_once(self, x, y):
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()

    def step(self, batch):
        x, y = torch.zeros(batch, 8), torch.zeros(batch, dtype=torch.long)
        if self.how == "a method":
            self.whole(x, y)
            return
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        if self.how == "an attribute":
            self.update()
        else:
            self.optimizer.step()


def whole_step(model, optimizer, x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()


class Steps(unittest.TestCase):
    def makes_temporaries(self, step):
        WIRE.forget()
        WIRE.lines.clear()
        torch._dynamo.reset()
        FAILS.append(1)
        with self.assertRaises(torch.OutOfMemoryError):
            step()
        (line,) = [line for line in WIRE.lines if line["event"] == "rehearsal"]
        self.assertEqual((line["optimizer"]["class"], line["optimizer"]["has_state"]), ("AdamW", False))
        return line["optimizer"]["foreach"]

    def test_a_step_in_lists_makes_temporaries_and_a_compiled_one_does_not(self):
        for how, does in (("nothing", True), ("model", True), ("its own", False), ("an attribute", False), ("a method", False)):
            with self.subTest(how):
                training = Training(how)
                self.assertEqual(self.makes_temporaries(lambda: training.step(6)), does)

    def test_a_compiled_function_of_the_programs_takes_the_step_of_what_it_is_given_or_reaches(self):
        model = Model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        x, y = torch.zeros(6, 8), torch.zeros(6, dtype=torch.long)
        at_once = torch.compile(whole_step, backend=BACKEND)
        self.assertFalse(self.makes_temporaries(lambda: at_once(model, optimizer, x, y)))

        @torch.compile(backend=BACKEND)
        def update():
            optimizer.step()

        def step():
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            update()

        self.assertFalse(self.makes_temporaries(step))
        # Of another optimizer than the compiled function's.
        other = Training("nothing")
        del optimizer, update, step
        self.assertTrue(self.makes_temporaries(lambda: other.step(6)))


if __name__ == "__main__":
    unittest.main()
