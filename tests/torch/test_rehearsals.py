"""What is rehearsed of each kind of model, and why not where it is not.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import importlib
import pathlib
import sys
import tempfile
import unittest

import rehearse
import torch
import torch.nn as nn
import torch.nn.functional as F
from _oomph_probe.live import modules
from _oomph_probe.rehearse import apart, rehearsal, roots, sizes


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


# A package that keeps the kinds of tensors that it has met, as einops does.
NOTES_KINDS = """
NOTED = {}

def twice(x):
    NOTED[type(x)] = True
    return x + x
"""


class Calling(nn.Module):
    """With a function of another package in it."""

    def __init__(self, function):
        super().__init__()
        self.layer, self.function = nn.Linear(8, 8), function

    def forward(self, x):
        return self.layer(self.function(x)).sum()


@torch.jit.script
def gated(x, y):
    return torch.tanh(x) * torch.sigmoid(y)


class Scripted(nn.Module):
    """With a function that TorchScript compiled."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(16, 32), nn.Linear(16, 16)

    def forward(self, x):
        return self.outer(gated(*self.inner(x).chunk(2, -1))).square().mean()


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16)
        )
        self.head = nn.Linear(16, 10)

    def forward(self, images):
        return self.head(self.layers(images).mean((2, 3)))


class Contrastive(nn.Module):
    """Two encoders; each image is compared with every text of the batch."""

    def __init__(self, width=16):
        super().__init__()
        self.images, self.texts = nn.Linear(48, width), nn.Embedding(99, width)

    def forward(self, images, texts):
        images = F.normalize(self.images(images.flatten(1)), dim=-1)
        texts = F.normalize(self.texts(texts).mean(1), dim=-1)
        logits = 10 * images @ texts.t()
        truth = torch.arange(len(logits), device=logits.device)
        return (F.cross_entropy(logits, truth) + F.cross_entropy(logits.t(), truth)) / 2


class Detector(nn.Module):
    """As RetinaNet: features of three sizes, two heads over all of them, a focal loss over dense targets."""

    def __init__(self, classes=7, width=16):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, width, 3, 4, 1), nn.BatchNorm2d(width), nn.ReLU())
        self.stages = nn.ModuleList([nn.Conv2d(width, width, 3, 2, 1) for _ in range(3)])
        self.lateral = nn.ModuleList([nn.Conv2d(width, width, 1) for _ in range(3)])
        self.classes = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, classes, 3, 1, 1))
        self.boxes = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.ReLU(), nn.Conv2d(width, 4, 3, 1, 1))

    def forward(self, images, targets):
        x, features = self.first(images), []
        for stage, lateral in zip(self.stages, self.lateral):
            x = F.relu(stage(x))
            features.append(lateral(x))
        for place in (1, 0):
            above = F.interpolate(features[place + 1], size=features[place].shape[-2:])
            features[place] = features[place] + above
        scores = torch.cat([self.classes(each).flatten(2) for each in features], 2)
        boxes = torch.cat([self.boxes(each).flatten(2) for each in features], 2)
        classes, places = targets.split((scores.shape[1], 4), 1)
        chance = scores.sigmoid()
        entropy = F.binary_cross_entropy_with_logits(scores, classes, reduction="none")
        focal = (entropy * ((1 - chance) * classes + chance * (1 - classes)) ** 2).sum()
        return {"classes": focal, "boxes": F.smooth_l1_loss(boxes, places)}


class ListDetector(Detector):
    """Takes its images as torchvision's do."""

    def forward(self, images, targets):
        return super().forward(torch.stack(images), torch.stack(targets))


def targets(batch, size=64):
    return torch.zeros(batch, 11, sum((size // by) ** 2 for by in (8, 16, 32)))


def tokens(batch=4, length=24):
    return torch.zeros(batch, length, dtype=torch.long)


class Peaks(unittest.TestCase):
    def test_the_product_that_the_backward_of_softmax_makes(self):
        class Softmax(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(8, 512)

            def forward(self, x):
                return self.inner(x).softmax(-1).square().sum()

        trace = rehearse.said(Softmax(), torch.zeros(64, 8))["variants"][0]["trace"].split()
        product = [at for at, word in enumerate(trace[:-1]) if sizes.size_at(word, 64) == 64 * 512 * 4 and trace[at + 1] == "-1"]
        self.assertTrue(product, trace)

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
            peaks.add(tuple(rehearse.peak(line, 512, variant) for variant in rehearse.places(line)))
        self.assertEqual(len(peaks), 1, peaks)
        (plain, recomputed, mixed, both), = peaks
        self.assertLess(recomputed, plain)
        self.assertLess(mixed, plain)
        self.assertLess(both, mixed)

    def test_a_loss_that_compares_each_sample_with_each_grows_with_the_square(self):
        def given(batch):
            return torch.zeros(batch, 3, 4, 4), tokens(batch)

        model = Contrastive()
        line = rehearse.said(model, *given(4))
        self.assertIn(" xx4", line["variants"][0]["trace"])
        for batch in (4, 64, 512):
            real = rehearse.real_peak(model, *given(batch))
            self.assertLess(abs(rehearse.peak(line, batch) / real - 1), 0.02, batch)

    def test_sizes_that_one_batch_alone_does_not_tell(self):
        """A queue beside the batch, halves of it, pairs without those of one with itself: told by three batches."""

        class Queued(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(8, 16)
                self.register_buffer("queue", torch.zeros(700, 16))

            def forward(self, x):
                x = self.inner(x)
                first, second = x.chunk(2)
                everything = torch.cat([x, self.queue])
                others = (x @ x.t()).flatten()[:-1].view(len(x) - 1, len(x) + 1)[:, 1:].clone()
                return (first * second).exp().sum() + everything.exp().sum() + others.exp().sum()

        model = Queued()
        line = rehearse.said(model, torch.zeros(8, 8))
        self.assertIsNone(rehearse.why_not(line))
        words = line["variants"][0]["trace"].split()
        self.assertIn("x64+%d" % (700 * 64), words)
        self.assertIn("xx4+-4", words)
        for batch in (2, 8, 300):
            real = rehearse.real_peak(model, torch.zeros(batch, 8))
            self.assertLess(abs(rehearse.peak(line, batch) / real - 1), 0.02, batch)

    def test_a_smaller_batch_that_needs_more_is_not_known(self):
        class Padded(Plain):
            """Makes up for few samples."""

            def forward(self, x):
                few = 16 if len(x) < 8 else 1
                return self.inner(x.repeat(few, 64)[:, :8].repeat(few, 1))

        self.assertIn("does not follow from its batch", rehearse.why_not(rehearse.said(Padded(), torch.zeros(8, 8))))

    def test_samples_that_belong_together_and_texts_laid_end_to_end(self):
        class Grouped(Plain):
            def forward(self, x, labels):
                groups = self.inner(x).view(x.shape[0] // 4, 4, 8)
                return (groups.mean(1).repeat_interleave(4, 0) * labels.view(-1, 3)[:, :1]).sum()

        line = rehearse.said(Grouped(), torch.zeros(12, 8), torch.zeros(36))
        self.assertIsNone(rehearse.why_not(line))
        self.assertEqual(line["batch"], 12)

    def test_a_detectors_is_that_of_a_real_step(self):
        model = Detector()
        line = rehearse.said(model, torch.zeros(4, 3, 64, 64), targets(4))
        self.assertIsNone(rehearse.why_not(line))
        self.assertTrue(line["own_loss"])
        for batch in (2, 4, 16):
            real = rehearse.real_peak(model, torch.zeros(batch, 3, 64, 64), targets(batch))
            self.assertLess(abs(rehearse.peak(line, batch) / real - 1), 0.03, batch)

    def test_what_a_recomputation_computes_again(self):
        line = rehearse.said(Decoder(), tokens(), tokens())
        plain, recomputed, mixed, both = [line["variants"][at]["flops"] for at in rehearse.places(line)]
        self.assertEqual((plain, recomputed), (mixed, both))
        # Of the batch's samples of 24 tokens: the blocks' two products are computed once more, the head's is not.
        again = line["batch"] * 24 * 4 * 2 * (2 * 32 * 128)
        self.assertEqual(recomputed - plain, again)

    def test_operations_are_counted_as_torch_counts_them(self):
        from torch.utils.flop_counter import FlopCounterMode

        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Conv1d(32, 96, 3)
                self.back = nn.ConvTranspose1d(32, 8, 3, stride=2)

            def forward(self, x):
                query, key, value = self.inner(x).transpose(1, 2).chunk(3, -1)
                scores = (query @ key.transpose(1, 2)).softmax(-1)
                return self.back((scores @ value).transpose(1, 2)).mean()

        for model, given in [
            (Attention(), (torch.zeros(4, 32, 40, requires_grad=True),)),
            (Detector(), (torch.zeros(4, 3, 64, 64), targets(4))),
            (Decoder(), (tokens(), tokens())),
        ]:
            call = roots.Call(torch, model, given, {}, 0)
            one = rehearsal.Rehearsal(torch, call, rehearsal.Variant(), apart.Deadline(float("inf")))
            with FlopCounterMode(display=False) as counter, one.recorder():
                one.assumed(model(*given)).backward()
            self.assertEqual(one.trace.flops, counter.get_total_flops(), type(model).__name__)
            self.assertGreater(one.trace.flops, 0)

    def test_the_largest_inputs_are_rehearsed_where_they_differ(self):
        model = Decoder()
        long = rehearse.said(model, tokens(4, 48), tokens(4, 48))
        line = rehearse.said(model, tokens(), tokens(), before=[(tokens(4, 48), tokens(4, 48))])
        self.assertEqual(line["inputs"], {"calls": 2, "least": 48, "most": 96})
        self.assertEqual(line["variants"][0]["trace"], long["variants"][0]["trace"])
        self.assertNotIn("inputs", long)

    def test_a_model_that_returns_no_loss_gets_the_usual_one(self):
        line = rehearse.said(Convolutions(), torch.zeros(4, 3, 20, 20))
        self.assertIsNone(rehearse.why_not(line))
        self.assertFalse(line["own_loss"])
        self.assertTrue(line["convolutions"])

    def test_a_loss_that_keeps_the_memory_of_all_its_elements(self):
        kept = {
            nn.MSELoss(): True, nn.SmoothL1Loss(): True, nn.BCELoss(): True, nn.SoftMarginLoss(): True,
            nn.L1Loss(): False, nn.HuberLoss(): False, nn.BCEWithLogitsLoss(): False,
            nn.MSELoss(reduction="none"): True,
        }
        for loss, keeps in kept.items():
            model, given = Compared(loss), (torch.rand(4, 64), torch.rand(4, 64))
            line = rehearse.said(model, *given)
            with self.subTest(str(loss)):
                self.assertIsNone(rehearse.why_not(line))
                self.assertEqual(rehearse.peak(line, 4), rehearse.real_peak(model, *given))
                made = loss(torch.rand(4, 64), torch.rand(4, 64))
                self.assertEqual(made.untyped_storage().nbytes() > 4, keeps)

    def test_a_text_that_is_as_long_as_it_happens_to_be_may_be_followed_by_longer_ones(self):
        model = Texts(positions=64)
        said = lambda length, **more: rehearse.said(model, torch.zeros(4, length, dtype=torch.long), **more).get("inputs")
        self.assertEqual(said(37), {"calls": 1, "least": 37, "most": 37, "possible": 64})
        # Padded to one length, or as long as the model takes, or of one odd length each time.
        self.assertIsNone(said(32))
        self.assertIsNone(said(50))
        self.assertIsNone(said(64))
        self.assertIsNone(said(37, before=[(torch.zeros(4, 37, dtype=torch.long),)]))
        shorter = [(torch.zeros(4, 31, dtype=torch.long),)]
        self.assertEqual(said(37, before=shorter), {"calls": 2, "least": 31, "most": 37, "possible": 64})

    def test_recurrent_layers_keep_what_cudnn_kept(self):
        # Measured on a GPU (torch 2.11), without the 256 bytes at their end.
        cases = (
            (nn.LSTM(512, 1024, 3, batch_first=True), (32, 512), False, 1140850688),
            (nn.LSTM(512, 1024, 3, batch_first=True), (64, 512), True, 1140850688),
            (nn.LSTM(512, 512, 2, batch_first=True, bidirectional=True, dropout=0.2), (64, 128), False, 371195904),
            (nn.GRU(512, 512, 2, batch_first=True), (64, 128), False, 218103808),
            (nn.RNN(32, 64, 2, batch_first=True), (8, 16), False, 98304),
        )
        for layer, (batch, time), autocast, kept in cases:
            line = rehearse.said(Last(layer), torch.zeros(batch, time, layer.input_size), autocast=autocast)
            self.assertIsNone(rehearse.why_not(line))
            counted = line["variants"][0]["trace"].split()
            self.assertIn(kept, [int(word[1:]) * batch for word in counted if word.startswith("x")], layer)

    def test_windows_that_lie_side_by_side_take_no_workspace(self):
        class Patches(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.patches = torch.nn.Conv2d(3, 8, 4, stride=4)
                self.depthwise = torch.nn.Conv2d(8, 8, 7, padding=3, groups=8)
                self.pointwise = torch.nn.Conv2d(8, 10, 1)

            def forward(self, x):
                return self.pointwise(self.depthwise(self.patches(x))).mean((2, 3))

        line = rehearse.said(Patches(), torch.zeros(4, 3, 20, 20))
        self.assertIsNone(rehearse.why_not(line))
        self.assertFalse(line["convolutions"])

    def test_what_checkpointing_calls_again_is_no_call_of_the_model(self):
        from torch.utils.checkpoint import checkpoint

        class Recomputed(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

            def forward(self, x):
                for block in self.blocks:
                    x = checkpoint(block, x, use_reentrant=False)
                return x.sum()

        noted = rehearse.roots_of(Recomputed(), torch.zeros(4, 8))
        self.assertEqual(noted, ["Recomputed"])

    def test_one_observation_is_not_the_largest_of_batches(self):
        """An agent has acted on one, and learns from many."""
        batch_size = 512
        agent = nn.Sequential(nn.Linear(16, 64), nn.Linear(64, 6))
        line = rehearse.said(agent, torch.zeros(batch_size, 16), before=[(torch.zeros(1, 16),)])
        self.assertEqual((line["batch"], line["arguments"]), (512, 512 * 16 * 4))

    def test_blocks_that_the_patch_leaves_alone_are_not_recomputed(self):
        class Block(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.wide, self.narrow = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16)

            def forward(self, x, others=None):
                return self.narrow(torch.tanh(self.wide(x)))

        class Keeping(Block):
            def forward(self, x, others=None):
                self.latest = self.wide(x)
                return self.narrow(torch.tanh(self.latest))

        class InPlace(Block):
            def forward(self, x, others=None):
                x.mul_(0.5)
                return self.narrow(torch.tanh(self.wide(x)))

        class Stack(torch.nn.Module):
            def __init__(self, kind, argument):
                super().__init__()
                self.blocks, self.argument = torch.nn.ModuleList(kind() for _ in range(6)), argument

            def forward(self, x):
                for block in self.blocks:
                    x = block(x + 1, self.argument)
                return x.sum()

        def share_left(kind, argument):
            line = rehearse.said(Stack(kind, argument), torch.zeros(256, 16))
            as_it_was, recomputed, *_ = rehearse.places(line)
            return rehearse.peak(line, 256, recomputed) / rehearse.peak(line, 256, as_it_was)

        self.assertLess(share_left(Block, None), 0.6)
        # It may change the list.
        self.assertGreater(share_left(Block, [3]), 0.99)
        # Known once the first of them has run.
        self.assertGreater(share_left(Keeping, None), 0.75)
        self.assertGreater(share_left(InPlace, None), 0.75)

    def test_under_autocast_it_is_not_offered_again(self):
        line = rehearse.said(Decoder(), tokens(), tokens(), autocast=True)
        self.assertFalse(any(each["amp"] for each in line["variants"]))
        self.assertEqual(len(rehearse.places(line)), 2)


class ByTime(unittest.TestCase):
    """Inputs that begin with the time, and a state of layers beside them: the batch is what the program calls so."""

    def test_the_second_dimension_is_scaled(self):
        class Words(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.nn.Embedding(100, 32)
                self.mix = torch.nn.Linear(32, 32)
                self.out = torch.nn.Linear(32, 100)

            def forward(self, words, state):
                return self.out(torch.tanh(self.mix(self.table(words)) + state[0].sum(0)))

        batch_size = 20
        line = rehearse.said(
            Words(), torch.zeros(35, batch_size, dtype=torch.long), (torch.zeros(2, batch_size, 32), torch.zeros(2))
        )
        self.assertEqual(line["batch"], batch_size)
        trace = line["variants"][0]["trace"]
        # The embedded words grow with it; the weights of the output's layer do not.
        self.assertIn("x%d" % (35 * 32 * 4), trace.split())


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.layer, self.head = nn.Embedding(99, 16), nn.LSTM(16, 16, batch_first=True), nn.Linear(16, 99)

    def forward(self, tokens):
        return self.head(self.layer(self.embedding(tokens))[0])


class Texts(nn.Module):
    def __init__(self, positions):
        super().__init__()
        self.words, self.position_embeddings = nn.Embedding(99, 8), nn.Embedding(positions, 8)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return (self.words(tokens) + self.position_embeddings(places)).square().mean()


class Last(nn.Module):
    """A recurrent layer alone; its loss is of its output."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, given):
        output, state = self.layer(given)
        return output.float().square().mean()


class Packed(Recurrent):
    """Its sequences are as long as it is told, in any order."""

    def forward(self, tokens, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        output, (state, _) = self.layer(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        return self.head(padded + state[-1].unsqueeze(1))


class Repacked(nn.Module):
    def __init__(self, batch_first):
        super().__init__()
        self.inner, self.outer, self.batch_first = nn.Linear(16, 64), nn.Linear(64, 16), batch_first

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.inner(x), lengths, batch_first=self.batch_first)
        padded, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=self.batch_first)
        return self.outer(padded).square().mean()


class Masked(nn.Module):
    """Asks its mask for its content, as some encoders do."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(24, 24)

    def forward(self, tokens, mask):
        x = self.inner(tokens.float())
        return x if mask.all() else x.masked_fill(mask == 0, 0)


class Experts(nn.Module):
    """Each token goes to the expert of its own choice: how many go where is in the values."""

    def __init__(self, width=16, count=4):
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList([nn.Linear(width, width) for _ in range(count)])

    def forward(self, x):
        flat = x.flatten(0, 1)
        chosen, out = self.gate(flat).argmax(-1), torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            at = (chosen == number).nonzero().flatten()
            out = out.index_add(0, at, expert(flat[at]))
        return out.view_as(x)


class EvenExperts(Experts):
    """Every expert gets as many tokens: of one size whatever the values are."""

    def forward(self, x):
        flat = x.flatten(0, 1)
        scores = self.gate(flat).softmax(0)
        each = flat.shape[0] // len(self.experts)
        chosen = scores.topk(each, dim=0).indices
        parts = [expert(flat[chosen[:, number]]) for number, expert in enumerate(self.experts)]
        return x + torch.cat(parts).view_as(x)


class Printing(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        print("a step", file=sys.stderr)
        return self.inner(x)


TABLE, SCALE, CALLS = torch.arange(8.0), nn.Parameter(torch.ones(8)), {"forward": 0}


class Outside(nn.Module):
    """Uses something that is no part of it, and has methods that sound like more than they are."""

    def __init__(self, how):
        super().__init__()
        self.inner, self.how, self.names = nn.Linear(8, 8), how, ["a"]

    def remove(self, x):
        self.names.remove("a")
        return x

    def write(self, x):
        handle = self.inner.register_forward_hook(lambda *_: None)
        handle.remove()
        return self.remove(x)

    def forward(self, x):
        if self.how == "table":
            x = x + TABLE
        elif self.how == "changes the table":
            TABLE.add_(1)
        elif self.how == "parameter":
            x = x * SCALE
        elif self.how == "global":
            CALLS["forward"] += 1
        elif self.how == "default":
            keeps(x)
        elif self.how == "caught":
            try:
                keeps(x)
            except:  # noqa: E722
                keeps(x)
        return self.write(self.inner(x))


def keeps(x, kept=[]):  # noqa: B006
    kept.append(len(x))
    return kept


class Compared(nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.inner, self.loss = nn.Linear(64, 64), loss

    def forward(self, x, y):
        # Backward has the most: by then all that forward has kept is there.
        made = self.inner(x).sigmoid()
        return self.loss(made, y).mean() + (made * 2).exp().mean()


class Flagged(nn.Module):
    """Initializes itself by the first batch, as normalizing flows do."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.register_buffer("is_set", torch.tensor(1, dtype=torch.uint8))

    def forward(self, x):
        if self.is_set.item() == 0:
            self.is_set.fill_(1)
        return self.inner(x) if self.is_set.item() else x


class Padded(nn.Module):
    """Makes a column of padding for its first batch and keeps it."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.padding = None
        # As many as samples, and none for each.
        self.table = torch.ones(4, 8)

    def forward(self, x):
        if self.padding is None:
            self.padding = torch.ones(x.shape[0], 1)
        steep = x[:, :1].exp().sin()
        return self.inner(torch.cat((x, self.padding), 1)) @ self.table.t() * steep


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x)


class Kinds(unittest.TestCase):
    """The answer for each kind of program; src/probe/REHEARSALS.md has the same as a table."""

    def why_not(self, model, *args):
        return rehearse.why_not(rehearse.said(model, *args))

    def test_recurrent_layers_of_packed_sequences(self):
        lengths = torch.tensor([24, 6, 12, 6])
        short = rehearse.said(Packed(), tokens(), lengths, reads_values=True)
        self.assertIsNone(rehearse.why_not(short))
        self.assertNotIn("assumes_values", short)
        # 7.3 around 12.
        self.assertEqual(short["lengths_spread"], 0.612)
        # 12 of 24 in the mean: what the layer returns, of the packed, and padded again.
        words = short["variants"][0]["trace"].split()
        self.assertIn("x%d" % (12 * 16 * 4), words)
        self.assertIn("x%d" % (24 * 99 * 4), words)
        whole = rehearse.said(Packed(), tokens(), torch.tensor([24] * 4))
        self.assertLess(rehearse.peak(short, 4), rehearse.peak(whole, 4))
        self.assertEqual(whole["lengths_spread"], 0)
        self.assertNotIn("lengths_spread", rehearse.said(Recurrent(), tokens()))

    def test_packed_sequences_whose_lengths_are_not_known_count_as_whole_ones(self):
        model = Packed()
        lengths = torch.tensor([24, 6, 12, 6])
        model.register_forward_pre_hook(lambda _, given: (given[0], given[0].ne(7).sum(1)))
        line = rehearse.said(model, tokens(), lengths)
        self.assertIsNone(rehearse.why_not(line))

    def test_packing_follows_torchs(self):
        """Against a real step, without a recurrent layer between."""
        for batch_first in (True, False):
            for lengths in ([24] * 4, [24, 20, 12, 8]):
                x = torch.randn((4, 24, 16) if batch_first else (24, 4, 16))
                model, lengths = Repacked(batch_first), torch.tensor(lengths)
                line = rehearse.said(model, x, lengths, reads_values=True)
                self.assertIsNone(rehearse.why_not(line))
                self.assertNotIn("assumes_values", line)
                off = rehearse.peak(line, 4) / rehearse.real_peak(model, x, lengths)
                self.assertLess(abs(off - 1), 0.05, (batch_first, lengths, off))

    def test_a_function_that_torchscript_has_compiled(self):
        model, x = Scripted(), torch.randn(8, 16)
        call = torch._C.ScriptFunction.__call__
        # By then it is compiled for what it was called with.
        before = [model(x).item() for _ in range(4)]
        line = rehearse.said(model, x)
        self.assertIsNone(rehearse.why_not(line))
        self.assertEqual(rehearse.peak(line, 8), rehearse.real_peak(model, x))
        self.assertEqual(model(x).item(), before[-1])
        self.assertEqual(torch._C.ScriptFunction.__call__, call)

    def test_a_mask_that_is_asked_for_its_content(self):
        mask = torch.ones(4, 24, dtype=torch.long)
        line = rehearse.said(Masked(), tokens(), mask)
        self.assertIsNone(rehearse.why_not(line))
        self.assertTrue(line["assumes_values"])

    def test_a_flag_of_the_models_own_is_read(self):
        model = Flagged()
        self.assertIsNone(self.why_not(model, torch.zeros(4, 8)))
        self.assertEqual(model.is_set.item(), 1)
        model.is_set.fill_(0)
        # The rehearsal sets its copy, and asks for it again.
        self.assertIn("depends on the values", self.why_not(model, torch.zeros(4, 8)))
        self.assertEqual(model.is_set.item(), 0)

    def test_what_a_model_keeps_of_its_first_batch_is_of_the_rehearsed_one(self):
        model = Padded()
        call = torch.zeros(4, 7)
        model(call)
        line = rehearse.said(model, call)
        self.assertIsNone(rehearse.why_not(line))
        # The padded batch grows with it: 8 floats each.
        self.assertIn("x32", line["variants"][0]["trace"].split())
        # And so does what is as large as the padding, already by the first batch that is rehearsed.
        one = rehearsal.Rehearsal(
            torch, roots.Call(torch, model, (call,), {}, 0), rehearsal.Variant((4, sizes.PRIME)), apart.Deadline(float("inf"))
        )
        words = sizes.by_one(one.run().words, sizes.PRIME, one.fixed_sizes())
        self.assertGreaterEqual(words.count("x4"), 2)
        self.assertEqual(tuple(model.padding.shape), (4, 1))

    def test_experts_whose_share_is_in_the_values(self):
        line = rehearse.said(Experts(), torch.zeros(4, 8, 16))
        self.assertIsNone(rehearse.why_not(line))
        # Each gets an even share.
        self.assertTrue(line["assumes_values"])
        self.assertGreaterEqual(line["variants"][0]["trace"].split().count("x%d" % (8 * 16 * 4 // 4)), 12)

    def test_experts_that_get_even_shares(self):
        self.assertIsNone(self.why_not(EvenExperts(), torch.zeros(4, 8, 16)))

    def test_images_in_a_list_are_no_batch(self):
        images = [torch.zeros(3, 64, 64) for _ in range(4)]
        self.assertIn("list of 4 images", self.why_not(ListDetector(), images, list(targets(4))))

    def test_a_model_that_prints_is_stopped_before_it_does(self):
        self.assertIn("calls", self.why_not(Printing(), torch.zeros(4, 8)))

    def test_methods_that_are_only_called_so(self):
        model = Outside("nothing")
        self.assertIsNone(self.why_not(model, torch.zeros(4, 8)))
        self.assertEqual((model.names, len(model.inner._forward_hooks)), (["a"], 0))

    def test_what_is_no_part_of_the_model(self):
        for how, why in (
            ("changes the table", "changes a tensor outside"), ("parameter", "trains a parameter that is no part"),
            ("default", "changes a list outside"), ("caught", "changes a list outside"),
        ):
            with self.subTest(how):
                self.assertIn(why, self.why_not(Outside(how), torch.zeros(4, 8)) or "")
        for how in ("table", "global"):
            self.assertIsNone(self.why_not(Outside(how), torch.zeros(4, 8)))
        self.assertTrue(torch.equal(TABLE, torch.arange(8.0)))
        self.assertEqual((SCALE.grad, CALLS, keeps.__defaults__), (None, {"forward": 0}, ([],)))

    def test_what_a_package_that_only_computes_notes_wherever_it_lies(self):
        # Of any other package the dict has a copy, which it changes.
        for name, notes in (("jaxtyping", True), ("of_the_program", False)):
            with self.subTest(name), tempfile.TemporaryDirectory() as place:
                package = pathlib.Path(place, name)
                package.mkdir()
                (package / "__init__.py").write_text(NOTES_KINDS)
                sys.path.insert(0, place)
                try:
                    noting = importlib.import_module(name)
                    self.assertIsNone(self.why_not(Calling(noting.twice), torch.zeros(4, 8)))
                    self.assertEqual(bool(noting.NOTED), notes)
                finally:
                    sys.path.remove(place)
                    sys.modules.pop(name, None)

    def test_weights_that_torch_computes_of_others_before_each_call(self):
        for normalized in (nn.utils.weight_norm, nn.utils.spectral_norm):
            # As after a move to the GPU: what it computed of the old ones lies there still.
            model = normalized(nn.Conv1d(1, 8, 3)).double()
            line = rehearse.said(model, torch.zeros(4, 1, 20, dtype=torch.double))
            self.assertIsNone(rehearse.why_not(line))

    def test_a_destructor_of_its_own(self):
        deleted = []

        class Closing(Plain):
            def __del__(self):
                deleted.append(True)

        model = Closing()
        self.assertIn("destructor", self.why_not(model, torch.zeros(4, 8)))
        self.assertEqual(deleted, [])

    def test_a_compiled_model_is_rehearsed_as_it_is_written(self):
        model = Decoder()
        compiled = torch.compile(model)
        self.assertIn(type(compiled).__name__, roots.WRAPPERS)
        self.assertIsNone(self.why_not(model, tokens(), tokens()))

    def test_fabrics_wrapper_does_not_ask_who_began_the_backward(self):
        inner = nn.Linear(8, 8)

        class _FabricModule(nn.Module):
            """As Lightning's: a hook on its outputs, which refuses a backward that did not come through it."""

            __module__ = "lightning.fabric.wrappers"

            def __init__(self):
                super().__init__()
                self._forward_module = inner

            def forward(self, x):
                output = self._forward_module(x)
                self._register_backward_hook(output)
                return output

            def _register_backward_hook(self, output):
                output.register_hook(refuses)

        def refuses(_):
            raise RuntimeError("call `fabric.backward(loss)`")

        x = torch.randn(8, 8)
        self.assertIsNone(self.why_not(_FabricModule(), x))
        with self.assertRaises(RuntimeError):
            _FabricModule()(x).sum().backward()

    def test_wrappers_are_passed_for_the_module_they_call(self):
        wrapped = torch.nn.DataParallel(Plain())
        self.assertFalse(self.noting().note(wrapped, (torch.zeros(2, 8),), {}))

    def test_evaluation_is_no_step(self):
        noting = self.noting()
        with torch.no_grad():
            noting.note(Plain(), (torch.zeros(2, 8),), {})
        self.assertIsNone(noting.latest)

    def test_sharded_parameters_are_no_plain_tensors(self):
        class Shard(torch.Tensor):
            pass

        model = Plain()
        model.inner.weight = nn.Parameter(torch.zeros(8, 8).as_subclass(Shard))
        self.assertIn("Shard is a tensor subclass", self.why_not(model, torch.zeros(4, 8)))

    def noting(self):
        return roots.Roots(torch, lambda call, phase: None, modules.Modules(torch))


if __name__ == "__main__":
    unittest.main()
