"""A model that checkpoints itself if it is told to, as those of transformers: what is rehearsed is what it then needs.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import functools
import unittest

import rehearse
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Cache:
    """What a generation would fill, and a step does not need: an argument that a layer may change."""

    def __init__(self):
        self.kept = []


class Layer(nn.Module):
    """Runs its forward in a checkpoint, then without the cache."""

    gradient_checkpointing = False

    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm = nn.LayerNorm(width)

    def __call__(self, x, cache=None):
        if self.gradient_checkpointing and self.training:
            return self._gradient_checkpointing_func(functools.partial(super().__call__, cache=None), x)
        return super().__call__(x, cache=cache)

    def forward(self, x, cache=None):
        return x + self.outer(F.gelu(self.inner(self.norm(x))))


class Model(nn.Module):
    supports_gradient_checkpointing = True

    def __init__(self, width=64, count=8):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(count))

    @property
    def is_gradient_checkpointing(self):
        return any(layer.gradient_checkpointing for layer in self.layers)

    def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs=None):
        for layer in self.layers:
            layer.gradient_checkpointing = True
            layer._gradient_checkpointing_func = functools.partial(checkpoint, **gradient_checkpointing_kwargs)

    def forward(self, x):
        cache = Cache()
        for layer in self.layers:
            x = layer(x, cache=cache)
        return (x - 1).square().mean()


class OwnSwitch(unittest.TestCase):
    def test_is_rehearsed_as_it_checkpoints_itself(self):
        torch.manual_seed(0)
        model, x = Model(), torch.randn(512, 64)
        line = rehearse.said(model, x)
        plain, recomputed, *_ = rehearse.places(line)
        self.assertFalse(model.is_gradient_checkpointing)
        self.assertLess(rehearse.peak(line, 512, recomputed), 0.7 * rehearse.peak(line, 512, plain))
        model.gradient_checkpointing_enable({"use_reentrant": False})
        real = rehearse.real_peak(model, x, loss=lambda value: value)
        self.assertAlmostEqual(rehearse.peak(line, 512, recomputed) / real, 1, delta=0.03)


if __name__ == "__main__":
    unittest.main()
