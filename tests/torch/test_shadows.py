"""What no step trains has no state: a model's copy of itself. And hooks that are methods of the model are rehearsed.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import copy
import functools
import unittest

import rehearse
import torch
from torch import nn

WIDTH = 16


class Averaged(nn.Module):
    """An average of its weights lies beside them, with gradients switched on; and a head whose turn it is not."""

    def __init__(self):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.average = copy.deepcopy(self.online)
        self.other = nn.Linear(WIDTH, 3)
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)])

    def forward(self, x):
        return self.layers[0](self.online(x)).square().mean()


class ASampleEach(nn.Module):
    """Hooks that are methods of a wrapper: a gradient for each sample, from what forward has left."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        inner.weight.calls = 0
        # What a step that did not end has left.
        inner.max_batch_len = 8
        inner.register_forward_hook(self.keep)
        inner.register_full_backward_hook(functools.partial(self.by_sample, scale=2))

    def keep(self, module, given, made):
        module.weight.calls += 1
        module.kept = given[0].detach()

    def by_sample(self, module, into, out_of, scale):
        by_sample = torch.einsum("ni,nj->nij", out_of[0], module.kept) * scale
        module.weight.by_sample = torch.zeros(module.max_batch_len, *by_sample.shape[1:])
        module.weight.by_sample[: len(by_sample)] = by_sample

    def forward(self, x):
        return self.inner(x).square().mean()


class Shadows(unittest.TestCase):
    def test_a_copy_of_what_is_trained_is_not_trained(self):
        model = Averaged()
        line = rehearse.said(model, torch.randn(8, WIDTH))
        self.assertIsNone(rehearse.why_not(line))
        size = sum(each.numel() * 4 for each in model.average.parameters())
        every = sum(each.numel() * 4 for each in model.parameters())
        # The other head and the layer that was left out may have their turn.
        self.assertEqual(sum(line["trained"]), every - size)
        self.assertEqual(sum(line["weights"]), every)


class Hooks(unittest.TestCase):
    def test_those_of_the_model_are_part_of_its_step(self):
        model = ASampleEach(nn.Linear(WIDTH, WIDTH))
        line = rehearse.said(model, torch.randn(8, WIDTH))
        self.assertIsNone(rehearse.why_not(line))
        trace = line["variants"][0]["trace"].split()
        # The product, twice it, and the place of the size that the model has noted.
        self.assertEqual(trace.count("x%d" % (WIDTH * WIDTH * 4)), 3, trace)
        self.assertEqual(model.inner.weight.calls, 0)
        self.assertFalse(hasattr(model.inner, "kept") or hasattr(model.inner.weight, "by_sample"))

    def test_others_are_left_out(self):
        model, seen = nn.Sequential(nn.Linear(WIDTH, 1)), []
        model[0].register_forward_hook(lambda *_: seen.append(1))
        self.assertIsNone(rehearse.why_not(rehearse.said(model, torch.randn(8, WIDTH))))
        self.assertEqual(seen, [])
