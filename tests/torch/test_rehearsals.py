"""What is rehearsed of each kind of model, and why not where it is not.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import unittest

import rehearse
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + F.dropout(self.outer(F.gelu(self.inner(self.norm(x)))), 0.1, self.training)


class Decoder(nn.Module):
    """Returns its logits and its loss, as decoders do."""

    def __init__(self, width=32, layers=4, words=211):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(layers)])
        self.head = nn.Linear(width, words)

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16)
        )
        self.head = nn.Linear(16, 10)

    def forward(self, images):
        return self.head(self.layers(images).mean((2, 3)))


def tokens(batch=4, length=24):
    return torch.zeros(batch, length, dtype=torch.long)


class Peaks(unittest.TestCase):
    def test_a_decoders_is_that_of_a_real_step_at_every_batch(self):
        model = Decoder()
        line = rehearse.said(model, tokens(), tokens())
        self.assertIsNone(rehearse.why_not(line))
        for batch in (1, 4, 16):
            real = rehearse.real_peak(model, tokens(batch), tokens(batch))
            self.assertLess(abs(rehearse.peak(line, batch) / real - 1), 0.02, batch)

    def test_each_variant_needs_what_it_needs_every_time(self):
        peaks = set()
        for _ in range(4):
            line = rehearse.said(Decoder(), tokens(), tokens())
            peaks.add(tuple(rehearse.peak(line, 512, variant) for variant in range(4)))
        self.assertEqual(len(peaks), 1, peaks)
        (plain, recomputed, mixed, both), = peaks
        self.assertLess(recomputed, plain)
        self.assertLess(mixed, plain)
        self.assertLess(both, mixed)

    def test_a_model_that_returns_no_loss_gets_the_usual_one(self):
        line = rehearse.said(Convolutions(), torch.zeros(4, 3, 20, 20))
        self.assertIsNone(rehearse.why_not(line))
        self.assertFalse(line["own_loss"])
        self.assertTrue(line["convolutions"])

    def test_under_autocast_it_is_not_offered_again(self):
        line = rehearse.said(Decoder(), tokens(), tokens(), autocast=True)
        self.assertEqual([(each["checkpointing"], each["amp"]) for each in line["variants"]], [(False, False), (True, False)])


if __name__ == "__main__":
    unittest.main()
