"""A rehearsal that remembers what operators returned has the trace of one that asks for each.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import sys
import unittest

import rehearse
import torch
import torch.nn as nn
import torch.nn.functional as F
from _oomph_probe.common import frames
from _oomph_probe.rehearse import apart, before, effects, operators, rehearsal, roots


class Attention(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(width, 2, 32, batch_first=True) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(x.flatten(0, 1), torch.zeros(x.shape[0] * x.shape[1], dtype=torch.long))


class Rotary(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.register_buffer("turns", torch.polar(torch.ones(4, width // 2), torch.zeros(4, width // 2)))

    def forward(self, x):
        for layer in self.layers:
            pairs = torch.view_as_complex(layer(x).unflatten(-1, (-1, 2)))
            x = F.gelu(torch.view_as_real(pairs * self.turns).flatten(-2)) + (pairs.conj() * pairs).real.mean()
        return x.square().mean()


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(3)])

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)), inplace=True)
        for each in self.second:
            x = F.max_pool2d(torch.cat([each(x), x[:, :4].add(1).mul_(2)], 1)[:, :8], 2)
        return x.mean()


class Views(nn.Module):
    """Views of views, in-place changes through them, several outputs of one storage, and a size that changes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(8, 8))

    def forward(self, x):
        x = x @ self.weight
        for _ in range(3):
            left, right = (x * 1).chunk(2, dim=1)
            right = right.transpose(0, 1).contiguous().view(-1)
            left = left.clone()
            left[:, 0].mul_(2)
            kept = torch.empty(0).resize_(4, left.shape[0])
            kept.t_()
            x = torch.cat([left, right.view(4, -1).t() + kept], 1)
            x = torch.stack(x.unbind(1), 1)
        return x.square().sum()


class Frames(nn.Module):
    """The frames of one tensor, each of which begins elsewhere, views of them, another type's, and a loss for each."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x):
        losses = []
        for at in range(x.shape[1] - 1):
            frame = x[:, at]
            made = torch.tanh(self.conv(frame)) + frame[:, :, 1:, :].detach().sum() + frame.transpose(2, 3)
            seen = x.detach()[:, at + 1].view(torch.int32).float()
            losses += [F.mse_loss(made, x[:, at + 1]), F.smooth_l1_loss(made, seen), F.mse_loss(made, frame, reduction="none").sum()]
            losses.append(F.mse_loss(made.transpose(1, 2), seen[:1].transpose(1, 2).expand(made.shape[0], -1, -1, -1)))
        return torch.stack(losses).sum()


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        for _ in range(3):
            x = torch.fft.ifft(torch.fft.fft(self.linear(x)).conj()).imag + x
        return x.sum()


class Numbers(nn.Module):
    """Arguments that are equal and not the same, and default types."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        counts = torch.ones(x.shape[0], 8, dtype=torch.long)
        x = self.linear(x) + counts * 1 + counts * 1.0 + counts * True
        return (x * torch.tensor(2.0) + torch.full((8,), 1) + torch.full((8,), 1.0)).sum()


MODELS = (
    (Frames, (3, 4, 2, 6, 6)),
    (Attention, (3, 4, 16)), (Convolutions, (3, 3, 16, 16)), (Views, (3, 8)), (Complex, (3, 8)), (Numbers, (3, 8)),
)


def call_of(kind, shape):
    model, x = kind(), torch.zeros(shape, requires_grad=True)
    return model, roots.Call(torch, model, (x,), {}, 0)


def words(call, batch, known, checkpointing=False):
    one = rehearsal.Variant((3, batch), rehearsal.Changed(checkpointing=checkpointing))
    trace = rehearsal.Rehearsal(torch, call, one, apart.Deadline(float("inf")), known).run()
    return trace.words, trace.flops, trace.marks


def without():
    known = operators.Known()
    known.is_off = True
    return known


class Operators(unittest.TestCase):
    def test_the_same_trace(self):
        for kind, shape in MODELS:
            with self.subTest(kind.__name__):
                _model, call = call_of(kind, shape)
                known = operators.Known()
                for batch in (1009, 1009, 12, 1009):
                    self.assertEqual(words(call, batch, known), words(call, batch, without()))

    def test_the_same_trace_where_blocks_are_recomputed(self):
        _model, call = call_of(Attention, (3, 4, 16))
        known = operators.Known()
        for _ in range(2):
            self.assertEqual(words(call, 1009, known, True), words(call, 1009, without(), True))

    def test_asked_once(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        _model, call = call_of(Attention, (3, 4, 16))
        known, asked = operators.Known(), []
        original = FakeTensorMode.dispatch

        def dispatch(self, func, *args, **kwargs):
            asked.append(func)
            return original(self, func, *args, **kwargs)

        FakeTensorMode.dispatch = dispatch
        try:
            words(call, 1009, known)
            first = len(asked)
            words(call, 1009, known)
        finally:
            FakeTensorMode.dispatch = original
        self.assertFalse(known.is_off)
        self.assertGreater(first, 50)
        # The arguments and the weights are made anew, and by some torches detached.
        again = [func for func in asked[first:] if func not in (torch.ops.aten.detach.default,)]
        self.assertLess(len(again), first / 5, again)

    def test_frames_have_an_answer_in_common(self):
        from torch._subclasses.fake_tensor import FakeTensorMode

        counts, original = [], FakeTensorMode.dispatch

        def dispatch(self, func, *args, **kwargs):
            counts[-1][func] = counts[-1].get(func, 0) + 1
            return original(self, func, *args, **kwargs)

        FakeTensorMode.dispatch = dispatch
        try:
            for frames_in_all in (4, 12):
                counts.append({})
                _model, call = call_of(Frames, (3, frames_in_all, 2, 6, 6))
                words(call, 1009, operators.Known())
        finally:
            FakeTensorMode.dispatch = original
        for func in (torch.ops.aten.convolution.default, torch.ops.aten.mse_loss.default, torch.ops.aten.tanh.default):
            self.assertEqual(counts[0].get(func, 0), counts[1].get(func, 0), func)
        self.assertGreater(counts[0][torch.ops.aten.convolution.default], 0)

    def test_complex_numbers_are_asked_for_and_all_else_is_remembered(self):
        """Positions as rotations: an operator on complex numbers has flags that no size says."""
        _model, call = call_of(Rotary, (3, 4, 16))
        known = operators.Known()
        self.assertEqual(words(call, 1009, known), words(call, 1009, without()))
        self.assertFalse(known.is_off)
        remembered = {key[0] for key in known.answers}
        self.assertIn(torch.ops.aten.gelu.default, remembered)
        self.assertFalse({torch.ops.aten.view_as_real.default, torch.ops.aten._conj.default} & remembered)

    def test_nothing_is_remembered_of_a_torch_that_is_unknown(self):
        _model, call = call_of(Attention, (3, 4, 16))
        known, make = operators.Known(), torch._C._DisableTorchDispatch
        del torch._C._DisableTorchDispatch
        try:
            mode = type("Mode", (), {"shape_env": None, "_allow_unsafe_data_ptr_access": True})()
            operators.Operators(torch, mode, known)
        finally:
            torch._C._DisableTorchDispatch = make
        self.assertTrue(known.is_off)
        self.assertEqual(words(call, 1009, known), words(call, 1009, without()))

    @unittest.skipIf(hasattr(sys, "monitoring"), "calls are judged at their places")
    def test_what_is_judged_behind_an_operator(self):
        """The guard rests while an operator of torch's own runs, and not behind it."""

        class Printing(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(8, 8)

            def forward(self, x):
                x = self.linear(x)
                print("never")
                return x.sum()

        _model, call = call_of(Printing, (3, 8))
        guard = effects.Guard(frames.Owners(torch), before.Before())
        one = rehearsal.Rehearsal(
            torch, call, rehearsal.Variant((3, 1009)), apart.Deadline(float("inf")), operators.Known(), guard
        )
        with self.assertRaises(effects.Stopped), guard:
            # It asks the guard how it sees calls.
            one.run()


if __name__ == "__main__":
    rehearse.torch.set_num_threads(1)
    unittest.main()
