"""Cross-entropy over some rows at a time: losses and gradients as torch's own, and what it needs of memory.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import card
import rehearse
import torch
import torch.nn.functional as F
from _oomph_probe.live import modules
from _oomph_probe.patch import chunked
from _oomph_probe.rehearse import chunking, roots, work
from torch import nn

ORIGINAL = F.cross_entropy
ROWS, CLASSES = 203, 517


def chunks():
    made = chunked.Chunks(torch, ORIGINAL)
    made.on_cpu, made.smallest = True, 0
    return made


class Chunked(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.taken = []
        self.chunks = chunks()
        self.chunks.note = lambda *given: self.taken.append(given)
        self.function = self.chunks.function()
        self.logits = torch.randn(ROWS, CLASSES) * 4
        self.target = torch.randint(0, CLASSES, (ROWS,))
        self.target[::7] = -100

    def both(self, logits, target, autocast=False, **kwargs):
        """Losses and gradients of torch's own and of chunks, from the same outer gradient."""
        answers = []
        for function in (ORIGINAL, self.function):
            given = logits.clone().requires_grad_()
            with torch.autocast("cpu", torch.bfloat16, autocast):
                loss = function(given, target, **kwargs)
            outer = torch.linspace(0.5, 2, loss.numel()).view(loss.shape).to(loss.dtype)
            (gradient,) = torch.autograd.grad(loss, given, outer)
            answers += [loss.detach(), gradient]
        loss, gradient, chunked_loss, chunked_gradient = answers
        self.assertEqual(loss.dtype, chunked_loss.dtype)
        self.assertEqual(gradient.dtype, chunked_gradient.dtype)
        return answers

    def assert_same(self, answers, delta=2e-6):
        loss, gradient, chunked_loss, chunked_gradient = (each.double() for each in answers)
        self.assertTrue(torch.allclose(loss, chunked_loss, rtol=delta, atol=0, equal_nan=True), (loss, chunked_loss))
        self.assertTrue(
            torch.allclose(gradient, chunked_gradient, rtol=delta * 10, atol=delta * float(gradient.abs().max()), equal_nan=True)
        )

    def test_losses_and_gradients_are_those_of_torch_to_rounding(self):
        weight = torch.rand(CLASSES) + 0.1
        ways = itertools.product(("mean", "sum", "none"), (None, weight), (0.0, 0.1), (-100, 3))
        for reduction, weighted, smoothing, ignored in ways:
            with self.subTest(reduction=reduction, weighted=weighted is not None, smoothing=smoothing, ignored=ignored):
                target = torch.where(self.target == -100, ignored, self.target)
                self.assert_same(
                    self.both(
                        self.logits, target, reduction=reduction, weight=weighted, label_smoothing=smoothing, ignore_index=ignored
                    )
                )
        self.assertEqual(len(self.taken), 24)
        self.assertGreaterEqual(-(-ROWS // self.chunks.rows_of(self.logits)), 15)

    def test_each_rows_loss_and_gradient_is_equal_to_the_bit(self):
        loss, gradient, chunked_loss, chunked_gradient = self.both(self.logits, self.target, reduction="none")
        self.assertTrue(torch.equal(loss, chunked_loss))
        self.assertTrue(torch.equal(gradient, chunked_gradient))

    def test_half_precision_and_autocast(self):
        for dtype, autocast in ((torch.bfloat16, False), (torch.bfloat16, True), (torch.float32, True)):
            with self.subTest(dtype=dtype, autocast=autocast):
                self.assert_same(self.both(self.logits.to(dtype), self.target, autocast), delta=1e-2)

    def test_all_rows_ignored_is_no_number_as_it_is(self):
        target = torch.full((ROWS,), -100)
        self.assert_same(self.both(self.logits, target))

    def test_logits_with_gaps(self):
        self.assert_same(self.both(torch.randn(CLASSES, ROWS).t(), self.target))

    def test_a_gradient_of_the_gradient(self):
        second = []
        for function in (ORIGINAL, self.function):
            given = self.logits.clone().requires_grad_()
            loss = function(given, self.target)
            (gradient,) = torch.autograd.grad(loss, given, create_graph=True)
            second.append(torch.autograd.grad(gradient.square().sum(), given)[0])
        self.assertTrue(torch.allclose(*second, rtol=1e-4, atol=1e-9))

    def test_what_is_torchs_own_stays_so(self):
        given = self.logits.clone().requires_grad_()
        probabilities = torch.rand(ROWS, CLASSES)
        images = torch.randn(2, 5, 4).requires_grad_()
        self.function(given, probabilities)
        self.function(images, torch.zeros(2, 4, dtype=torch.long))
        self.function(given, self.target, size_average=False)
        torch.func.grad(lambda logits: self.function(logits, self.target))(self.logits)
        for wrong in (self.target[1:], self.target + CLASSES):
            with self.assertRaises((ValueError, IndexError)):
                self.function(given, wrong)
        self.taken = [each for each in self.taken if each[0] != ROWS]
        self.assertEqual(self.taken, [])
        self.assertIs(self.function.__wrapped__, ORIGINAL)

    def test_an_evaluation_never_has_the_whole_log_softmax(self):
        logits, target = torch.randn(4096, 2048), torch.randint(0, 2048, (4096,))
        peaks, losses = [], []
        for function in (ORIGINAL, self.function):
            gpu = card.Card()
            with gpu, torch.no_grad():
                made = logits * 2
                losses.append(function(made, target))
                del made
            peaks.append(gpu.peak)
        self.assertGreaterEqual(peaks[0] - peaks[1], self.taken[-1][2])
        # There no mode sees what a cross-entropy is made of.
        with torch.inference_mode():
            losses.append(self.function(logits * 2, target))
        for loss in losses[1:]:
            self.assertTrue(torch.allclose(losses[0], loss, rtol=1e-6))
            self.assertFalse(loss.requires_grad)

    def test_the_saving_is_that_of_the_log_softmax_and_its_gradient(self):
        logits = torch.randn(4096, 2048)
        target = torch.randint(0, 2048, (4096,))
        peaks = []
        for function in (ORIGINAL, self.function):
            # As a head gives them: nobody keeps them but who needs them for backward.
            leaf = logits[:, :1].clone().requires_grad_()
            gpu = card.Card()
            with gpu:
                made = leaf * logits
                loss = function(made, target)
                loss.backward()
                del made
            peaks.append(gpu.peak)
        size = logits.numel() * 4
        saved = self.taken[-1][2]
        self.assertAlmostEqual(saved / size, 13 / 16, delta=0.01)
        self.assertGreaterEqual(peaks[0] - peaks[1], saved)


def picked(logits, index):
    """What TRL's function says, in two of the ways in which it has computed it."""
    if logits.dtype in (torch.float32, torch.float64):
        taken = logits.gather(-1, index.unsqueeze(-1)).squeeze(-1)
        return taken - torch.stack([torch.logsumexp(each, dim=-1) for each in logits])
    rows = [F.log_softmax(each, dim=-1).gather(-1, at.unsqueeze(-1)) for each, at in zip(logits, index)]
    return torch.stack(rows).squeeze(-1)


class OfTrl(unittest.TestCase):
    """The log-probability of one class in each row."""

    def setUp(self):
        torch.manual_seed(0)
        self.taken = []
        self.chunks = chunks()
        self.chunks.note = lambda *given: self.taken.append(given)
        self.function = self.chunks.selected(picked)
        self.logits, self.index = torch.randn(3, 64, 517) * 4, torch.randint(0, 517, (3, 64))

    def assert_same(self, logits, index, delta):
        answers = []
        for function in (picked, self.function):
            given = logits.detach().clone().requires_grad_()
            said = function(given, index)
            outer = torch.linspace(0.5, 2, said.numel()).view(said.shape).to(said.dtype)
            answers.append((said.detach(), torch.autograd.grad(said, given, outer)[0]))
        for mine, own in zip(*answers):
            self.assertEqual((mine.dtype, mine.shape), (own.dtype, own.shape))
            close = torch.allclose(mine.double(), own.double(), rtol=delta, atol=delta * float(mine.abs().max()))
            self.assertTrue(close, (mine, own))

    def test_values_and_gradients_are_the_same_to_rounding(self):
        for dtype, delta in ((torch.float32, 2e-6), (torch.float64, 1e-12), (torch.bfloat16, 0)):
            with self.subTest(dtype=dtype):
                self.assert_same(self.logits.to(dtype), self.index, delta)
        self.assertEqual([each[:2] for each in self.taken], [(192, 517)] * 2)

    def test_logits_that_would_have_to_be_copied_go_sequence_by_sequence(self):
        turned = self.logits.transpose(0, 1).contiguous().transpose(0, 1)
        made = [function(turned, self.index) for function in (picked, self.function)]
        self.assertTrue(torch.allclose(*made, rtol=2e-6, atol=2e-5))
        self.assertEqual([each[:2] for each in self.taken], [(64, 517)] * 3)

    def test_several_classes_of_a_row_and_wrong_ones_are_left_alone(self):
        said = []
        function = self.chunks.selected(lambda *given: said.append(given))
        function(self.logits, self.index.unsqueeze(-1).expand(3, 64, 2))
        function(self.logits, self.index[:2])
        function(self.logits.requires_grad_(), self.index, "more")
        self.assertEqual(len(said), 3)
        self.assertEqual(self.taken, [])
        with self.assertRaises((IndexError, RuntimeError)):
            self.function(self.logits, self.index - 517)

    def test_a_step_needs_less_by_what_is_said(self):
        hidden, head = torch.randn(8, 512, 16), torch.randn(16, 2048)
        index = torch.randint(0, 2048, (8, 512))
        peaks = []
        for function in (picked, self.function):
            leaf, gpu = hidden.clone().requires_grad_(), card.Card()
            with gpu:
                function((leaf @ head) / 0.9, index).sum().backward()
            peaks.append(gpu.peak)
        self.assertGreaterEqual(peaks[0] - peaks[1], self.taken[-1][2])
        self.assertGreater(self.taken[-1][2], 0.8 * 8 * 512 * 2048 * 4)

    def test_the_patch_and_a_rehearsal_find_it_where_it_was_imported_to(self):
        utils, trainer = (types.ModuleType(name) for name in (chunked.LIBRARY, "trl.trainer.grpo_trainer"))
        utils.selective_log_softmax = trainer.selective_log_softmax = picked
        modules_of_trl = {each.__name__: each for each in (utils, trainer)}
        with mock.patch.dict("sys.modules", modules_of_trl):
            with chunking.Chunking(torch, torch.device("cpu"), 1, 1):
                for each in (utils, trainer):
                    self.assertIs(each.selective_log_softmax is picked, False)
            self.assertIs(trainer.selective_log_softmax, picked)
            entropy = chunked.ChunkedCrossEntropy(types.SimpleNamespace(torch=torch, on_cpu=True), "chunked")
            with mock.patch.object(F, "cross_entropy", ORIGINAL):
                entropy.install()
            for each in (utils, trainer):
                self.assertIs(each.selective_log_softmax.__wrapped__, picked)

            def fused(logits, index, temperature=1.0, row_mask=None):
                pass

            # As TRL has it from 1.x on.
            utils.selective_log_softmax = trainer.selective_log_softmax = fused
            with mock.patch.object(F, "cross_entropy", ORIGINAL):
                entropy.install()
            self.assertIs(trainer.selective_log_softmax, fused)


class Imported(unittest.TestCase):
    """In a program of its own, which imports TRL before or after torch."""

    def test_who_imports_the_function_by_its_name_has_the_one_in_chunks(self):
        source = pathlib.Path(__file__).resolve().parents[2] / "src/probe/python"
        with tempfile.TemporaryDirectory() as directory:
            place = pathlib.Path(directory)
            (place / "probe").mkdir()
            shutil.copy(source / "sitecustomize.py", place / "probe")
            (place / "probe/oomph-probe").symlink_to(source / "oomph_probe")
            library = place / "trl/trainer"
            library.mkdir(parents=True)
            for each in (library.parent, library):
                (each / "__init__.py").touch()
            (library / "utils.py").write_text("import torch\ndef selective_log_softmax(logits, index): pass\n")
            (library / "dpo_trainer.py").write_text("from .utils import selective_log_softmax\n")
            words = {
                "PYTHONPATH": "%s:%s" % (place / "probe", place), "OOMPH_PROBE_SOCKET": str(place / "nobody"),
                "OOMPH_PATCHES": "cross_entropy=chunked", "OOMPH_PATCHES_ON_CPU": "1",
            }
            for first in ("import torch", "import trl.trainer.utils", "import trl.trainer.dpo_trainer"):
                program = first + "; import torch; from trl.trainer.dpo_trainer import *; print(selective_log_softmax.__code__.co_filename)"
                command = [sys.executable, "-c", program]
                told = subprocess.run(command, env={**os.environ, **words}, stdout=subprocess.PIPE, check=True)
                self.assertIn(b"chunked.py", told.stdout, first)


class Decoder(nn.Module):
    """Most of its step are its logits."""

    def __init__(self, width=32, words=3001):
        super().__init__()
        self.embedding, self.inner, self.head = nn.Embedding(words, width), nn.Linear(width, width), nn.Linear(width, words)

    def forward(self, tokens):
        return F.cross_entropy(self.head(F.gelu(self.inner(self.embedding(tokens)))).flatten(0, 1), tokens.flatten())


class Evaluated(unittest.TestCase):
    """What is said of an evaluation before the first step: with one, what was there first may be its."""

    def said(self, **known):
        wire = rehearse.Wire()
        every = rehearse.rehearsals_with(wire)
        every.noted = roots.Roots(torch, lambda call, phase: None, modules.Modules(torch))
        for name, value in known.items():
            setattr(every.noted, name, value)
        model = nn.Linear(8, 8)
        every.ran_out(roots.Call(torch, model, (torch.randn(4, 8),), {}, 0), "forward")
        return wire.line.get("evaluated")

    def test_is_known_where_every_call_was_seen(self):
        self.assertIs(self.said(), False)
        self.assertIs(self.said(evaluated=2), True)
        self.assertIsNone(self.said(may_have_evaluated=True))


class Rehearsed(unittest.TestCase):
    def test_an_evaluation_is_rehearsed_in_chunks_too(self):
        torch.manual_seed(0)
        model, tokens = Decoder(), torch.randint(0, 3001, (16, 512))
        line = rehearse.said_of_evaluation(model, tokens)
        plain, variant = line["variants"]
        self.assertTrue(line["evaluates"])
        self.assertTrue(variant.get("chunked"), line["variants"])
        self.assertLess(rehearse.peak(line, 16, 1), 0.8 * rehearse.peak(line, 16, 0))

    def test_what_is_rehearsed_is_what_a_step_with_the_patch_needs(self):
        torch.manual_seed(0)
        tasks = ((work.AS_IT_WAS, work.FIRST),)
        model, tokens = Decoder(), torch.randint(0, 3001, (16, 512))
        without_head = mock.patch.object(work.Work, "in_chunks", lambda *_: [work.CHUNKED])
        with mock.patch.object(work, "TASKS", tasks), without_head:
            line = rehearse.said(model, tokens)
        plain, variant = line["variants"]
        self.assertTrue(variant.get("chunked"), line["variants"])
        self.assertIs(F.cross_entropy, ORIGINAL)
        made = chunks()
        peaks = []
        for function in (ORIGINAL, made.function()):
            gpu = card.Card()
            for each in (*model.parameters(), tokens):
                gpu.one.is_new(each.untyped_storage())
            with mock.patch.object(F, "cross_entropy", function), gpu:
                model(tokens).backward()
            model.zero_grad()
            peaks.append(gpu.peak)
        for number, peak in enumerate(peaks):
            self.assertAlmostEqual(rehearse.peak(line, 16, number) / peak, 1, delta=0.02)
        self.assertLess(peaks[1], 0.8 * peaks[0])

    def test_a_small_loss_is_not_rehearsed_in_chunks(self):
        line = rehearse.said(nn.Sequential(nn.Linear(64, 512), nn.Linear(512, 4)), torch.randn(64, 64))
        self.assertFalse(any(each.get("chunked") for each in line["variants"]))


if __name__ == "__main__":
    unittest.main()
