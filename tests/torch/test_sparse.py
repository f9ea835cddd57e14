"""Sparse gradients in a rehearsal: indices and values in the place of a gradient as large as the table.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import unittest

import rehearse
import torch
import torch.nn.functional as F
from _oomph_probe.rehearse import optimizers, sizes
from torch import nn

ROWS, WIDTH, LENGTH = 3000, 64, 20


class Words(nn.Module):
    """The mean of its words' vectors."""

    def __init__(self, is_sparse=True):
        super().__init__()
        self.table, self.head = nn.Embedding(ROWS, WIDTH, sparse=is_sparse), nn.Linear(WIDTH, 10)

    def forward(self, words):
        return self.head(torch.relu(self.table(words).mean(1))).logsumexp(-1).mean()


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.EmbeddingBag(ROWS, WIDTH, sparse=True), nn.Linear(WIDTH, 10)

    def forward(self, words):
        return self.head(self.table(words)).logsumexp(-1).mean()


class Pairs(nn.Module):
    """Two tables, of which one is asked twice: its gradients are put together."""

    def __init__(self):
        super().__init__()
        self.words, self.around = nn.Embedding(ROWS, WIDTH, sparse=True), nn.Embedding(ROWS, WIDTH, sparse=True)

    def forward(self, words, near, far):
        word = self.words(words)
        found = (word * self.around(near)).sum(1)
        other = torch.bmm(self.around(far), word.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(found).mean() + F.logsigmoid(-other).mean())


def words(batch, *shape):
    return torch.randint(ROWS, (batch, *shape))


class Sparse(unittest.TestCase):
    def is_as_large(self, model, *args):
        """At its own batch and, by what was rehearsed, at half of it."""
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        line = rehearse.said(model, *args)
        self.assertIsNone(rehearse.why_not(line))
        self.assertEqual(line["optimizer"]["class"], "SGD")
        del optimizer
        for batch in (len(args[0]), len(args[0]) // 2):
            real = rehearse.real_peak(model, *(each[:batch] for each in args))
            self.assertAlmostEqual(rehearse.peak(line, batch) / real, 1, delta=0.01, msg=str(batch))

    def test_a_table_with_a_sparse_gradient(self):
        self.is_as_large(Words(), words(64, LENGTH))
        self.is_as_large(Bags(), words(64, LENGTH))

    def test_it_takes_no_gradient_as_large_as_the_table(self):
        args = words(8, 4)
        sparse, dense = (rehearse.peak(rehearse.said(Words(each), args), 8) for each in (True, False))
        self.assertLess(sparse + ROWS * WIDTH * 4 // 2, dense)

    def test_a_table_that_is_asked_twice(self):
        self.is_as_large(Pairs(), words(64), words(64), words(64, 5))

    def test_a_step_makes_rows_of_its_own(self):
        """Beside the gradient: what it is coalesced to, a state's rows and what they become, of the larger table."""
        model, args = Pairs(), (words(64), words(64), words(64, 5))
        optimizer = torch.optim.SparseAdam(model.parameters())
        line = rehearse.said(model, *args)
        step = 5 * 6 * 64 * WIDTH * 4
        self.assertEqual(line["optimizer"]["class"], "SparseAdam")
        moments = [sizes.size_at(word, 64) for word in line["variants"][0]["trace"].split() if not word.startswith("-")]
        self.assertIn(step, moments)
        del optimizer

    def test_their_optimizer_keeps_two_tensors_as_large_as_the_table(self):
        model = Pairs()
        optimizer = torch.optim.SparseAdam(model.parameters())
        self.assertEqual(optimizers.describe(optimizer)["states"], 2)


if __name__ == "__main__":
    unittest.main()
