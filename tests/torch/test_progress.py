"""How far a forward had come, of models on the CPU that run out of a card that is played there: what is said at a place of
the forward beside what the whole step then takes."""
import unittest

import card
import torch
from _oomph_probe.common import frames
from _oomph_probe.oom import progress
from torch import nn

# Of what a step takes beside its weights, so much is off at the most.
NEAR = 0.15


class Looking(card.Counted):
    """Says how far the forward is where memory runs out."""

    share = seen = None

    def allocate(self, storage):
        try:
            super().allocate(storage)
        except torch.OutOfMemoryError:
            stack = frames.own_frames()
            self.seen = self.allocated
            self.share = progress.of(progress.path_of(torch, stack), stack, torch)
            raise


def step(model, x, size=float("inf")):
    """A step on a card of some size: its peak, the share that was said where it ran out, and what was there by then."""
    on = card.Card(size)
    on.trace.__class__ = Looking
    with on:
        try:
            model(x).mean().backward()
        except torch.OutOfMemoryError:
            pass
    model.zero_grad()
    return on.peak, on.trace.share, on.trace.seen


def conv(entry, width, kernel=3, stride=1, groups=1):
    return nn.Conv2d(entry, width, kernel, stride, kernel // 2, groups=groups, bias=False)


def classifying(width, *layers):
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


class Dense(nn.Module):
    """Each layer takes all features that were made before it."""

    def __init__(self, entry, count=6, growth=8):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(entry + k * growth), nn.ReLU(), conv(entry + k * growth, growth))
            for k in range(count)
        )

    def forward(self, x):
        made = [x]
        for layer in self.layers:
            made.append(layer(torch.cat(made, 1)))
        return torch.cat(made, 1)


def densely():
    first = [conv(3, 16), Dense(16), conv(64, 16, 1), nn.AvgPool2d(2), Dense(16), conv(64, 32, 1), nn.AvgPool2d(2)]
    return classifying(80, *first, Dense(32))


class Halves(nn.Module):
    """Half of the features pass by; where positions become fewer, both halves are made of the whole."""

    def __init__(self, width, stride):
        super().__init__()
        self.stride = stride
        entry = width if stride > 1 else width // 2
        self.one = nn.Sequential(conv(entry, entry, 3, stride, entry), nn.BatchNorm2d(entry), conv(entry, width // 2, 1))
        if stride > 1:
            half = width // 2
            self.other = nn.Sequential(conv(entry, entry, 3, stride, entry), nn.BatchNorm2d(entry), conv(entry, half, 1))

    def forward(self, x):
        if self.stride > 1:
            return torch.cat([self.one(x), self.other(x)], 1)
        one, other = x.chunk(2, 1)
        return torch.cat([self.one(one), other], 1)


def halved():
    blocks = [Halves(64, stride) for _ in range(2) for stride in (2, 1, 1, 1)]
    return classifying(64, conv(3, 64), *blocks)


class Gated(nn.Module):
    """A block that weighs its features by their means."""

    def __init__(self, width):
        super().__init__()
        self.first, self.norm = conv(width, width), nn.BatchNorm2d(width)
        self.squeeze, self.excite = nn.Conv2d(width, width // 4, 1), nn.Conv2d(width // 4, width, 1)
        self.last = conv(width, width)

    def forward(self, x):
        made = self.norm(self.first(x))
        gate = self.excite(torch.relu(self.squeeze(made.mean((2, 3), keepdim=True))))
        return x + self.last(made * gate.sigmoid())


class Refined(nn.Module):
    """A part is called so often as an argument says."""

    def __init__(self):
        super().__init__()
        self.begin = nn.Sequential(*[conv(16, 16) for _ in range(8)])
        self.refine = nn.Sequential(conv(16, 16), nn.GELU())

    def forward(self, x):
        x = self.begin(x)
        for _ in range(12):
            x = x + self.refine(x)
        return x


class AForwardsShare(unittest.TestCase):
    def off(self, model, x):
        """By how much the whole is off that is said at places of the forward, of what the step takes."""
        torch.manual_seed(0)
        whole, *_ = step(model, x)
        for place in (0.35, 0.55, 0.75):
            _, share, seen = step(model, x, int(whole * place))
            self.assertIsNotNone(share, place)
            yield seen / share / whole - 1

    def assert_near(self, model, x, near=NEAR):
        off = list(self.off(model, x))
        self.assertLess(max(map(abs, off)), near, off)

    def test_where_widths_grow_with_every_layer(self):
        # What is concatenated twice is counted once.
        self.assert_near(densely(), torch.randn(4, 3, 32, 32), 2 * NEAR)

    def test_where_halves_stand_beside_each_other(self):
        self.assert_near(halved(), torch.randn(4, 3, 64, 64))

    def test_where_features_are_weighed(self):
        gated = [Gated(16) for _ in range(6)]
        self.assert_near(classifying(16, conv(3, 16), *gated), torch.randn(4, 3, 32, 32))

    def test_is_not_known_before_a_loop_over_one_part(self):
        model, x = Refined(), torch.randn(2, 16, 32, 32)
        whole, *_ = step(model, x)
        _, share, _ = step(model, x, whole // 4)
        self.assertIsNone(share)


if __name__ == "__main__":
    unittest.main()
