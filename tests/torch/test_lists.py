"""Lengths and counts that a forward takes out of tensors (`tolist`, `numpy`, `item`): as they are where they follow from what
is known, and in even shares where only their sum is.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import time
import unittest

import numpy as np
import rehearse
import torch
import torch.nn.functional as F
from _oomph_probe.rehearse import roots
from torch import nn

EXPERTS, CHOSEN, WIDTH = 8, 2, 32
READS = {
    "list": lambda lengths: lengths.tolist(),
    "list of data": lambda lengths: lengths.data.tolist(),
    "array": lambda lengths: lengths.cpu().numpy(),
    "items": lambda lengths: [each.item() for each in lengths],
}


class Sorted(nn.Module):
    """Packs its sequences, the longest first."""

    def __init__(self, read):
        super().__init__()
        self.embedding, self.layer, self.read = nn.Embedding(50, 16), nn.Linear(16, 32), read

    def forward(self, tokens, lengths):
        longest, order = torch.sort(lengths, descending=True)
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(tokens[order]), self.read(longest), batch_first=True)
        padded = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)[0]
        return self.layer(padded).square().mean()


class Bags(nn.Module):
    """Dense features beside tables whose rows are found by indices and offsets, a row of offsets for each table."""

    def __init__(self, tables=3):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(200, WIDTH, mode="sum") for _ in range(tables))
        self.dense, self.head = nn.Linear(13, WIDTH), nn.Linear(WIDTH * (1 + tables), 1)

    def forward(self, dense, offsets, *indices):
        found = [table(each, at) for table, each, at in zip(self.tables, indices, offsets)]
        return self.head(torch.cat([self.dense(dense), *found], 1)).square().mean()


def bags(batch, tables=3):
    offsets = torch.arange(0, 2 * batch, 2).expand(tables, batch).contiguous()
    return torch.randn(batch, 13), offsets, *(torch.randint(200, ((2 + at) * batch,)) for at in range(tables))


class OfArrays(nn.Module):
    """Is given arrays of numpy's and makes its tensors itself: of items, of their places, and of a mask."""

    def __init__(self, layers=3):
        super().__init__()
        self.items, self.places = nn.Embedding(100, WIDTH), nn.Embedding(100, WIDTH)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH)) for _ in range(layers)
        )

    def forward(self, items, lengths):
        x = self.items(torch.LongTensor(items))
        places = np.tile(np.arange(items.shape[1]), [items.shape[0], 1]) * (items != 0)
        x = x + self.places(torch.as_tensor(places))
        x = x * torch.from_numpy(items != 0).unsqueeze(-1)
        for layer in self.layers:
            x = x + layer(x)
        return x[:, : int(lengths.max())].square().mean()


def arrays(batch):
    return np.random.default_rng(0).integers(1, 100, (batch, 40)), np.full(batch, 30)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH)) for _ in range(EXPERTS)
        )

    def forward(self, x):
        return self.routed(x, *self.gate(x).softmax(-1).topk(CHOSEN)).square().mean()

    def each(self, parts):
        return [expert(part) for expert, part in zip(self.experts, parts)]


class Dispatching(Experts):
    """By what is not zero among the gates."""

    def routed(self, x, weights, chosen):
        gates = torch.zeros_like(self.gate(x)).scatter(1, chosen, weights)
        order = torch.nonzero(gates).sort(0)[1][:, 1]
        tokens = torch.nonzero(gates)[order, 0]
        made = torch.cat(self.each(x[tokens].split((gates > 0).sum(0).tolist())))
        return torch.zeros_like(x).index_add(0, tokens, made)


class Masking(Experts):
    def routed(self, x, weights, chosen):
        masks = F.one_hot(chosen, EXPERTS).permute(2, 1, 0)
        made = torch.zeros_like(x)
        for mask, expert in zip(masks, self.experts):
            choice, tokens = torch.where(mask)
            made = made.index_add(0, tokens, expert(x[tokens]) * weights[tokens, choice, None])
        return made


class Counting(Experts):
    def routed(self, x, weights, chosen):
        flat = chosen.flatten()
        sizes = torch.bincount(flat, minlength=EXPERTS).tolist()
        return torch.cat(self.each(x.repeat_interleave(CHOSEN, 0)[flat.argsort()].split(sizes)))


class CountingOnTheHost(Experts):
    def routed(self, x, weights, chosen):
        flat = chosen.flatten()
        ends = flat.bincount(minlength=EXPERTS).cpu().numpy().cumsum(0)
        given = x.repeat_interleave(CHOSEN, 0)[flat.argsort()]
        return torch.cat(self.each([given[begin:end] for begin, end in zip([0, *ends], ends)]))


class CountingEach(Experts):
    def routed(self, x, weights, chosen):
        counts = F.one_hot(chosen, EXPERTS).sum((0, 1))
        given, begin, parts = x.repeat_interleave(CHOSEN, 0)[chosen.flatten().argsort()], 0, []
        for count in counts:
            parts.append(given[begin : begin + count.item()])
            begin += count.item()
        return torch.cat(self.each(parts))


class Lists(unittest.TestCase):
    def test_lengths(self):
        tokens, lengths = torch.randint(50, (4, 24)), torch.tensor([6, 24, 12, 6])
        for name, read in READS.items():
            model = Sorted(read)
            began = time.process_time()
            line = rehearse.said(model, tokens, lengths, reads_values=True)
            took = time.process_time() - began
            with self.subTest(name):
                self.assertIsNone(rehearse.why_not(line))
                self.assertNotIn("assumes_values", line)
                # Twelve of 24 in the mean.
                self.assertIn("x%d" % (12 * 16 * 4), line["variants"][0]["trace"].split())
                off = rehearse.peak(line, 4) / rehearse.real_peak(model, tokens, lengths)
                self.assertLess(abs(off - 1), 0.05)
                if name != "items":
                    # Sixteen thousand of them are no sixteen thousand questions.
                    self.assertLess(took, 5)

    def test_counts_of_experts(self):
        x = torch.randn(512, WIDTH)
        for kind in (Dispatching, Masking, Counting, CountingOnTheHost, CountingEach):
            model = kind()
            line = rehearse.said(model, x)
            with self.subTest(kind.__name__):
                self.assertIsNone(rehearse.why_not(line))
                self.assertTrue(line["assumes_values"])
                off = rehearse.peak(line, 512) / rehearse.real_peak(model, x)
                self.assertLess(abs(off - 1), 0.05)

    def test_offsets_of_bags_have_the_batch_second(self):
        model = Bags()
        line = rehearse.said(model, *bags(512))
        self.assertIsNone(rehearse.why_not(line))
        for batch in (128, 512, 1024):
            real = rehearse.real_peak(model, *bags(batch), loss=lambda loss: loss)
            self.assertLess(abs(rehearse.peak(line, batch) / real - 1), 0.06, batch)

    def test_arrays_have_the_batch_as_tensors_do(self):
        model = OfArrays()
        line = rehearse.said(model, *arrays(64), reads_values=True)
        self.assertIsNone(rehearse.why_not(line))
        self.assertEqual((line["batch"], len(rehearse.places(line))), (64, 4))
        for batch in (32, 64, 128):
            real = rehearse.real_peak(model, *arrays(batch), loss=lambda loss: loss)
            self.assertLess(abs(rehearse.peak(line, batch) / real - 1), 0.03, batch)
        # Words are no numbers.
        with self.assertRaises(roots.CannotNote):
            roots.noted(torch, np.array(["a", "b"]))

    def test_what_a_list_is_made_of_is_torchs_again(self):
        from torch._subclasses.fake_tensor import FakeTensor

        before = dict(vars(FakeTensor))
        rehearse.said(Counting(), torch.randn(64, WIDTH))
        self.assertEqual(dict(vars(FakeTensor)), before)


if __name__ == "__main__":
    unittest.main()
