"""Which calls of backward count as steps where a program has no optimizer of torch's, under a real torch."""
import pathlib
import sys
import unittest

import torch
from torch.utils import checkpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "probe" / "units"))
import support  # noqa: E402, F401
from _oomph_probe.live import modules, step_hooks  # noqa: E402
from _oomph_probe.rehearse import roots  # noqa: E402


class Backwards(unittest.TestCase):
    def setUp(self):
        self.ended = 0
        self.goes_on = True
        self.roots = roots.Roots(torch, lambda call, phase: None, modules.Modules(torch))
        self.roots.install()
        self.roots.after_backward = self.end
        self.addCleanup(self.stop)

    def end(self):
        self.ended += 1
        return self.goes_on

    def stop(self):
        self.roots.after_backward = None
        self.roots.rest()

    def test_each_that_accumulates_gradients_counts_once(self):
        weight = torch.ones(3, requires_grad=True)
        (weight * 2).sum().backward()
        torch.autograd.backward((weight * 2).sum())
        self.assertEqual(self.ended, 2)
        torch.autograd.grad((weight * 2).sum(), weight)
        self.assertEqual(self.ended, 2)
        checkpoint.checkpoint(lambda x: x * weight, torch.ones(3, requires_grad=True), use_reentrant=True).sum().backward()
        self.assertEqual(self.ended, 3, "the backward within a backward is a part of it")

    def test_goes_on_when_the_calls_of_modules_are_left_alone(self):
        weight = torch.ones(3, requires_grad=True)
        self.roots.rest()
        self.assertFalse(self.roots.sees_modules())
        (weight * 2).sum().backward()
        self.assertEqual(self.ended, 1)
        self.goes_on = False
        (weight * 2).sum().backward()
        (weight * 2).sum().backward()
        self.assertEqual(self.ended, 2)
        self.roots.rest()
        self.assertIsNone(self.roots.backward)


class Optimizers(unittest.TestCase):
    def test_are_told_by_their_instances(self):
        module = sys.modules["torch.optim.optimizer"]

        class Own(torch.optim.Optimizer):
            def step(self, closure=None):
                pass

        hooked = [each for each in torch.optim.Optimizer.__subclasses__() if hasattr(each.step, "hooked")]
        self.assertEqual(step_hooks.has_optimizer(module), bool(hooked))
        Own([torch.ones(1, requires_grad=True)], {})
        self.assertTrue(step_hooks.has_optimizer(module))


if __name__ == "__main__":
    unittest.main()
