"""Weights that are computed of others before each call (weight_norm), and what else a model keeps of a step in attributes: the
next step's take their places one by one.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import unittest
import warnings

import rehearse
import torch
from torch import nn

WIDTH, BATCH = 64, 4
WEIGHT = WIDTH * WIDTH * 4


class Normalized(nn.Module):
    """Layers whose weights are computed of a direction and a length; the last one's input is kept."""

    def __init__(self):
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.layers = nn.ModuleList(nn.utils.weight_norm(nn.Linear(WIDTH, WIDTH)) for _ in range(3))
        self.features = None

    def forward(self, x):
        for layer in self.layers:
            self.features = x
            x = layer(x).relu()
        return x.sum()


class ComputedWeights(unittest.TestCase):
    def test_they_are_there_once_and_from_step_to_step(self):
        model = Normalized()
        # As where memory runs out behind them: what the step has computed is there.
        model(torch.rand(BATCH, WIDTH))
        line = rehearse.said(model, torch.rand(BATCH, WIDTH))
        self.assertIsNone(rehearse.why_not(line))
        # Directions alone.
        self.assertEqual(line["weights"].count(WEIGHT), 3)
        self.assertEqual(line["trained"].count(WEIGHT), 3)
        variant = line["variants"][0]
        words = variant["trace"].split()
        made = [at for at, word in enumerate(words) if not word.startswith("-")]
        held = dict(zip(variant["held"], variant["until"]))
        computed = [number for number in held if words[made[number]] == str(WEIGHT)]
        self.assertEqual(len(computed), 3)
        for number, until in held.items():
            # Each until the next step has its own.
            self.assertEqual(until, made[number] + 1)
        features = [number for number in held if words[made[number]].startswith("x")]
        self.assertEqual([words[made[number]] for number in features], ["x%d" % (WIDTH * 4)])


if __name__ == "__main__":
    unittest.main()
