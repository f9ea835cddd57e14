"""Of a step that takes its samples one by one the rehearsal says what a real one needs, at its batch and at smaller ones.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import gc
import unittest

import card
import on_cpu
import rehearse
import torch
import torch.nn.functional as F
from torch import nn

WIRE = on_cpu.install(patience=rehearse.PATIENCE)
BATCH, SMALLER = 64, 16
WIDTH, LENGTH = 32, 24


class Masked(nn.Module):
    """Draws a mask for each sample, and has a loss for each."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(WIDTH, 8 * WIDTH), nn.Linear(8 * WIDTH, WIDTH)

    def forward(self, x):
        masks = torch.rand_like(x)
        for place in range(len(masks)):
            masks[place] = masks[place] * (masks[place].sum() > 0)
        return self.head(torch.relu(self.body(x * masks)))


class Alone(nn.Module):
    """Each sample goes through all of it by itself."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 8 * WIDTH), nn.Tanh(), nn.Linear(8 * WIDTH, WIDTH))

    def forward(self, x):
        return torch.stack([self.body(each) for each in x])


class OfTexts(nn.Module):
    """Is given lists of words, and makes its tensors itself."""

    def __init__(self):
        super().__init__()
        self.words = {"w%d" % number: number for number in range(50)}
        self.embedding, self.head = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, 400)

    def forward(self, texts):
        numbers = torch.tensor([[self.words[each] for each in text] for text in texts])
        return self.head(torch.tanh(self.embedding(numbers)))


def of_tensors(model):
    def training(batch):
        made, x, y = model(), torch.rand(batch, LENGTH, WIDTH), torch.rand(batch, LENGTH, WIDTH)
        while True:
            loss = F.mse_loss(made(x), y)
            loss.backward()
            del loss
            yield

    training.__name__ = model.__name__
    return training


def of_texts(batch):
    made, texts = OfTexts(), [["w%d" % (place % 50) for place in range(LENGTH)] for _ in range(batch)]
    while True:
        loss = made(texts).square().mean()
        loss.backward()
        del loss
        yield


def peak_of(training, batch):
    with card.Card() as counted:
        steps = training(batch)
        next(steps)
    steps.close()
    gc.collect()
    return counted.peak


def line_of(training, size):
    del WIRE.lines[:]
    WIRE.forget()
    try:
        with card.Card(size):
            next(training(BATCH))
    except torch.OutOfMemoryError:
        pass
    gc.collect()
    return WIRE.lines[-1]


class Singly(unittest.TestCase):
    def test_it_needs_what_a_real_step_needs(self):
        for training in (of_tensors(Masked), of_tensors(Alone), of_texts):
            real = {batch: peak_of(training, batch) for batch in (BATCH, SMALLER)}
            line = line_of(training, 0.7 * real[BATCH])
            with self.subTest(training.__name__):
                self.assertIsNone(rehearse.why_not(line))
                self.assertTrue(line["own_loss"])
                self.assertEqual(line["batch"], BATCH)
                for batch, peak in real.items():
                    given = line["arguments"] // BATCH * batch
                    predicted = line["before"] - line["arguments"] + given + rehearse.peak(line, batch)
                    self.assertLess(abs(predicted / peak - 1), 0.03, batch)

    def test_samples_that_are_picked_are_no_loop(self):
        """A few of them are taken by themselves, as for a picture of what was made."""

        class Picking(nn.Linear):
            def forward(self, x):
                return super().forward(x) + x[0] + x[1:3].mean()

        line = rehearse.said(Picking(WIDTH, WIDTH), torch.rand(BATCH, WIDTH))
        self.assertIsNone(rehearse.why_not(line))
        # At a multiple of the prime the sum over two samples is told from what grows with the batch.
        self.assertIn("%d" % (4 * WIDTH), line["variants"][0]["trace"].split())


if __name__ == "__main__":
    unittest.main()
