"""What a forward saves in RAM: what is rehearsed of it beside a real step on the CPU with the patch's own hooks.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import sys
import unittest

import card
import rehearse
import torch
import torch.nn as nn
import torch.nn.functional as F
from _oomph_probe.patch import copying, moving, offload
from _oomph_probe.rehearse import offloading, sizes, work

OFFLOADED = work.Changed(offload=True)
TASKS = ((work.AS_IT_WAS, work.FIRST), (OFFLOADED, work.FIRST))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (4, -1)).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out((q @ k.transpose(-1, -2)).softmax(-1).matmul(v).transpose(1, 2).flatten(2))
        return x + self.outer(F.gelu(self.inner(x)))


class Decoder(nn.Module):
    def __init__(self, width=64, layers=6, words=307):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        logits = self.head(self.blocks(self.embedding(tokens)))
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        widths = (3, 16, 16, 32, 32)
        self.layers = nn.Sequential(
            *(nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True)) for a, b in zip(widths, widths[1:]))
        )

    def forward(self, images):
        return self.layers(images).square().mean()


class Layers(nn.Module):
    """Wide ones; what stays is what backward needs at once."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.SiLU(), nn.Dropout(0.1)) for _ in range(10)))

    def forward(self, x):
        return (self.layers(x) - 1).square().mean()


class Fused(nn.Module):
    """Queries, keys and values are views of parts of each row, and are saved as such."""

    def __init__(self, width=64, layers=4, words=31):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(nn.ModuleList((nn.Linear(width, 3 * width), nn.Linear(width, width))) for _ in range(layers))

    def forward(self, tokens):
        x = self.embedding(tokens)
        for inner, outer in self.layers:
            q, k, v = (each.unflatten(-1, (4, -1)).transpose(1, 2) for each in inner(x).split(x.shape[-1], -1))
            x = x + outer(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return (x - 1).square().mean()


class CountedRam(moving.Ram):
    def has_room(self, takes):
        return True


class Mover(moving.Mover):
    """Its copies are of no card."""

    def fetched(self, *given):
        with torch._C._DisableTorchDispatch():
            return super().fetched(*given)

    def put_back(self, *given):
        with torch._C._DisableTorchDispatch():
            super().put_back(*given)


def real(model, args):
    """The peak of a real step with the patch's hooks, and what went to RAM."""
    ram = CountedRam()
    mover = Mover(torch, ram, copying.Clock(torch), True)
    mover.keep(model)
    gpu = card.Card()
    for each in (*model.parameters(), *model.buffers(), *args):
        gpu.one.is_new(each.untyped_storage())
    with gpu:
        with torch.autograd.graph.saved_tensors_hooks(mover.pack, mover.unpack):
            loss = model(*args)
        loss.backward()
    model.zero_grad()
    return gpu.peak, ram.most


class Offloading(unittest.TestCase):
    def setUp(self):
        tasks, work.TASKS = work.TASKS, TASKS
        self.addCleanup(setattr, work, "TASKS", tasks)

    def test_what_is_moved_lies_in_ram_whatever_the_default_is(self):
        mover = Mover(torch, CountedRam(), copying.Clock(torch), True)
        storage = torch.arange(16, dtype=torch.uint8).untyped_storage()
        with torch.device("meta"):
            held = mover.fetched(storage, 4, 8, torch.device("cpu"), False)
        self.assertEqual(held.device, torch.device("cpu"))
        self.assertEqual(held.tolist(), list(range(4, 12)))

    def test_what_is_rehearsed_is_what_a_step_with_the_patch_needs(self):
        torch.manual_seed(0)
        for model, args in (
            (Decoder(), (torch.randint(0, 307, (24, 128)),)),
            (Images(), (torch.randn(8, 3, 64, 64),)),
            (Layers(), (torch.randn(4096, 256),)),
            (Fused(), (torch.randint(0, 31, (24, 256)),)),
        ):
            with self.subTest(type(model).__name__):
                line = rehearse.said(model, *args)
                # A loss in chunks may be among them.
                at = [bool(each.get("offload")) for each in line["variants"]].index(True)
                variant = line["variants"][at]
                batch = len(args[0])
                peak, ram = real(model, args)
                self.assertAlmostEqual(rehearse.peak(line, batch, at) / peak, 1, delta=0.02)
                self.assertLess(peak, 0.7 * rehearse.peak(line, batch, 0))
                self.assertAlmostEqual(variant["ram"]["takes"] / ram, 1, delta=0.01)
                self.assertAlmostEqual(variant["ram"]["out"] / ram, 1, delta=0.01)
                self.assertGreaterEqual(variant["ram"]["back"], variant["ram"]["out"])

    def test_what_comes_back_of_a_storage_has_whole_elements(self):
        # A batch that the bytes of no float divide.
        at = sizes.first_of(30)
        self.assertTrue(at % 4)
        one = offloading.Offloading(torch, torch.device("cpu"), 30, at)
        with torch._subclasses.FakeTensorMode():
            rows = torch.empty(at, 2, 83500)
            kept = one.to_ram(rows[:, 0], sys._getframe())
            back = one.unpack(kept)
        self.assertEqual(back.shape, (at, 83500))
        self.assertEqual(back.untyped_storage().nbytes() % at, 0)

    def test_what_the_patch_leaves_alone_is_not_rehearsed(self):
        model = Layers()
        model._orig_mod = None
        self.assertIn("compiled", offload.why_not_root(model))
        line = rehearse.said(model, torch.randn(64, 256))
        self.assertIn("compiled", line["variants"][1]["why_not"])


if __name__ == "__main__":
    unittest.main()
