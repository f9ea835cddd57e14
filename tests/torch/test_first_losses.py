"""The losses of the first steps under a real torch: they are the program's, and what reads them changes none of its numbers.

Needs torch; a CPU is enough: what a GPU's copies do is played in tests/probe/units/test_losses.py.
"""
import pathlib
import sys
import types
import unittest

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "probe" / "units"))
import support  # noqa: E402, F401
from _oomph_probe.live import losses, modules  # noqa: E402
from _oomph_probe.rehearse import roots  # noqa: E402


class Watching(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


class Listening(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


def train(steps, micro=1, ended=lambda count: None, around=None):
    """The losses of a small training, and its weights at the end."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    seen = []
    for count in range(1, steps + 1):
        optimizer.zero_grad()
        for _ in range(micro):
            loss = (model(torch.randn(16, 4)) - 1).square().mean()
            if around is None:
                loss.backward()
            else:
                with around:
                    loss.backward()
            seen.append([count, loss.item()])
        optimizer.step()
        ended(count)
    return seen, torch.cat([each.flatten() for each in model.parameters()]).detach()


class FirstLosses(unittest.TestCase):
    def setUp(self):
        self.engine = torch.autograd.graph._engine_run_backward
        self.read = losses.Losses(torch, 1, types.SimpleNamespace(live=True))
        self.roots = roots.Roots(torch, lambda call, phase: None, modules.Modules(torch))
        self.roots.install()
        self.roots.before_backward = self.read.saw
        self.addCleanup(self.stop)

    def stop(self):
        self.roots.before_backward = None
        self.roots.rest()
        self.assertIs(torch.autograd.graph._engine_run_backward, self.engine)

    def test_are_the_programs_and_change_none_of_its_numbers(self):
        seen, weights = train(12, micro=2, ended=self.roots.step_ended)
        line = self.read.line()
        self.assertEqual(line["losses"], seen[: 2 * losses.FIRST])
        self.assertEqual(line["seed"], 3)
        self.assertIs(torch.autograd.graph._engine_run_backward, self.engine, "put back after the first steps")
        again, same = train(12, micro=2)
        self.assertEqual(seen, again)
        self.assertTrue(torch.equal(weights, same))

    def test_modes_of_the_programs_own_see_nothing_of_it(self):
        for mode in (Watching, Listening):
            with self.subTest(mode.__name__):
                with_us, bare = mode(), mode()
                train(3, around=with_us)
                self.roots.before_backward = None
                train(3, around=bare)
                self.roots.before_backward = self.read.saw
                self.assertTrue(bare.seen)
                self.assertEqual(with_us.seen, bare.seen)

    def test_what_asks_for_gradients_only_has_no_loss(self):
        weight = torch.ones(3, requires_grad=True)
        torch.autograd.grad((weight * 2).sum(), weight)
        self.assertIsNone(self.read.line())
        (weight * 2).sum().backward()
        self.assertEqual(self.read.line()["losses"], [[1, 6.0]])

    def test_one_in_bf16_is_read_as_it_is(self):
        weight = torch.full((3,), 1.5, dtype=torch.bfloat16, requires_grad=True)
        (weight * 2).sum().backward()
        self.assertEqual(self.read.line()["losses"], [[1, 9.0]])


if __name__ == "__main__":
    unittest.main()
