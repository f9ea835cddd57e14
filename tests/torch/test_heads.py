"""A head and its cross-entropy fused: losses, gradients and all else that logits are used for as without, beside fewer logits.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import copy
import io
import itertools
import pickle
import sys
import unittest
from unittest import mock

import card
import rehearse
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from _oomph_probe.patch import chunked, head_loss, heads, outcomes
from _oomph_probe.rehearse import work
from test_chunked import Decoder
from torch import nn

WORDS, WIDTH = 517, 24


class Model(nn.Module):
    """Returns its logits, or what `then` makes of them."""

    def __init__(self, bias=False, tied=False, words=WORDS, width=WIDTH):
        super().__init__()
        self.embedding, self.inner = nn.Embedding(words, width), nn.Linear(width, width)
        self.head = nn.Linear(width, words, bias=bias)
        if tied:
            self.head.weight = self.embedding.weight

    def hidden(self, tokens):
        return F.gelu(self.inner(self.embedding(tokens)))

    def forward(self, tokens):
        return self.head(self.hidden(tokens))


class ByFunction(Model):
    def __init__(self, **how):
        super().__init__(**how)
        del self.head

    def forward(self, tokens):
        return F.linear(self.hidden(tokens), self.embedding.weight)


def patch(shape=(WORDS, WIDTH), smallest=0):
    """The patch of a process, as far as it is a test's: everything is put back by `mock`."""
    made = heads.FusedHead(outcomes.Outcomes(torch, (2, 11), on_cpu=True), "%dx%d" % shape)
    made.install()
    made.heads.smallest, made.heads.chunk_of_head = smallest, 16 * 4 * WORDS
    return made


class Patched(unittest.TestCase):
    is_patched = True

    def setUp(self):
        torch.manual_seed(0)
        for place, name in ((F, "cross_entropy"), (F, "linear")):
            one = mock.patch.object(place, name, getattr(place, name))
            one.start()
            self.addCleanup(one.stop)
        self.assertNotIn("__call__", vars(nn.Linear))
        self.addCleanup(lambda: "__call__" in vars(nn.Linear) and delattr(nn.Linear, "__call__"))
        hooks = sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks
        kept = dict(hooks)
        self.addCleanup(lambda: (hooks.clear(), hooks.update(kept)))
        # What other tests have compiled is no part of this process's training.
        for place in (heads.compilation, work.modules):
            compiled = mock.patch.object(place, "has_compiled", lambda: False)
            compiled.start()
            self.addCleanup(compiled.stop)
        self.original = F.cross_entropy
        self.patch = patch() if self.is_patched else None
        self.tokens = torch.randint(0, WORDS, (4, 33))
        self.target = torch.randint(0, WORDS, (4, 33))
        self.target[:, ::5] = -100

    def fused(self):
        return sum(self.patch.heads.fused)

    def both(self, model, run, autocast=None):
        """The same of a model as it is and of a copy with the patch: what `run` returns, and the gradients."""
        answers = []
        for patched in (False, True):
            one = copy.deepcopy(model)
            if patched:
                self.patch.take_root(one, "cpu")
            with torch.autocast("cpu", autocast or torch.bfloat16, autocast is not None):
                said = run(one)
            found = [each.grad for each in one.parameters()]
            answers.append((said, found))
        return answers

    def assert_same(self, answers, delta=3e-6, fused=1):
        (said, gradients), (patched, of_patched) = answers
        self.assertEqual(self.fused(), fused)
        self.assertEqual(said.dtype, patched.dtype)
        self.assertTrue(torch.allclose(said.double(), patched.double(), rtol=delta, atol=1e-7), (said, patched))
        for one, other in zip(gradients, of_patched):
            self.assertEqual(one is None, other is None)
            if one is not None:
                self.assertEqual(one.dtype, other.dtype)
                most = delta * 5 * float(one.double().abs().max())
                self.assertTrue(torch.allclose(one.double(), other.double(), rtol=delta * 10, atol=most))

    def trained(self, loss_of, backward=lambda loss: loss.sum().backward()):
        def run(model):
            loss = loss_of(model)
            backward(loss)
            return loss.detach()

        return run


def usual(model, tokens, target, **kwargs):
    return F.cross_entropy(model(tokens).view(-1, WORDS), target.view(-1), **kwargs)


class Losses(Patched):
    def test_with_all_that_a_cross_entropy_takes(self):
        weight = torch.rand(WORDS) + 0.1
        ways = itertools.product(("mean", "sum", "none"), (None, weight), (0.0, 0.1), (-100, 3), (False, True))
        for count, (reduction, weighted, smoothing, ignored, bias) in enumerate(ways, 1):
            with self.subTest(reduction=reduction, weighted=weighted is not None, smoothing=smoothing, ignored=ignored, bias=bias):
                target = torch.where(self.target == -100, ignored, self.target)
                how = {"reduction": reduction, "weight": weighted, "label_smoothing": smoothing, "ignore_index": ignored}
                run = self.trained(lambda model: usual(model, self.tokens, target, **how))
                self.assert_same(self.both(Model(bias=bias), run), fused=count)

    def test_in_the_forms_that_programs_write(self):
        def shifted(logits):
            logits = logits.float()
            return F.cross_entropy(logits[..., :-1, :].contiguous().view(-1, WORDS), self.target[..., 1:].contiguous().view(-1))

        def sliced(logits):
            return nn.CrossEntropyLoss(reduction="sum")(logits[:, 1:].reshape(-1, WORDS).to(torch.float32), self.target[:, 1:].reshape(-1))

        forms = {
            "shifted": shifted,
            "sliced": sliced,
            "transposed": lambda logits: F.cross_entropy(logits.transpose(1, 2), self.target),
            "permuted": lambda logits: F.cross_entropy(logits.permute(0, 2, 1), self.target, reduction="none"),
            "flattened": lambda logits: F.cross_entropy(logits.flatten(0, 1), self.target.flatten()),
            "masked": lambda logits: F.cross_entropy(logits[self.target != -100], self.target[self.target != -100]),
            "one by one": lambda logits: sum(F.cross_entropy(each, its) for each, its in zip(logits, self.target)),
            "split": lambda logits: sum(F.cross_entropy(each.flatten(0, 1), its.flatten()) for each, its in zip(logits.split(2), self.target.split(2))),
            "last": lambda logits: F.cross_entropy(logits[:, -1], self.target[:, 1]),
            "softcapped": lambda logits: F.cross_entropy((torch.tanh(logits / 3.0) * 3.0).flatten(0, 1), self.target.flatten()),
            "unsqueezed": lambda logits: F.cross_entropy(logits.unsqueeze(0).squeeze(0).flatten(0, 1), self.target.flatten()),
        }
        fused = {"one by one": 4, "split": 2}
        count = 0
        for name, form in forms.items():
            with self.subTest(name):
                count += fused.get(name, 1)
                self.assert_same(self.both(Model(), self.trained(lambda model: form(model(self.tokens)))), fused=count)
        self.assertEqual(self.patch.otherwise, "")

    def test_each_rows_loss_is_equal_to_the_bit(self):
        run = self.trained(lambda model: usual(model, self.tokens, self.target, reduction="none"))
        (said, _), (patched, _) = self.both(Model(), run)
        self.assertTrue(torch.allclose(said, patched, rtol=1e-6, atol=0))

    def test_half_precision_weights_and_autocast(self):
        count = 0
        for dtype, autocast in ((torch.bfloat16, None), (torch.float16, None), (torch.float32, torch.bfloat16), (torch.bfloat16, torch.bfloat16)):
            with self.subTest(dtype=dtype, autocast=autocast):
                count += 1
                run = self.trained(lambda model: usual(model, self.tokens, self.target))
                self.assert_same(self.both(Model(bias=True).to(dtype), run, autocast), delta=2e-2, fused=count)

    def test_the_weights_gradient_is_summed_in_32_bits(self):
        model = Model().to(torch.bfloat16)
        tokens, target = torch.randint(0, 9, (8, 512)), torch.randint(0, 9, (8, 512))
        exact = copy.deepcopy(model).double()
        usual(exact, tokens, target).backward()
        self.patch.take_root(model, "cpu")
        usual(model, tokens, target).backward()
        self.assertEqual(self.fused(), 1)
        off = (model.head.weight.grad.double() - exact.head.weight.grad).norm() / exact.head.weight.grad.norm()
        self.assertLess(float(off), 0.01)

    def test_tied_weights_by_a_module_and_by_a_function(self):
        for count, model in enumerate((Model(tied=True), ByFunction()), 1):
            run = self.trained(lambda model: usual(model, self.tokens, self.target))
            self.assert_same(self.both(model, run), fused=count)

    def test_a_frozen_head_and_a_frozen_body(self):
        for count, frozen in enumerate(("head", "body"), 1):
            model = Model()
            for name, each in model.named_parameters():
                each.requires_grad_(("head" in name) != (frozen == "head"))
            self.assert_same(self.both(model, self.trained(lambda model: usual(model, self.tokens, self.target))), fused=count)

    def test_a_scaled_loss_accumulation_and_a_second_backward(self):
        def scaled(model):
            for part in range(3):
                loss = usual(model, self.tokens.roll(part, 0), self.target) * 1024
                loss.backward(retain_graph=part == 2)
            loss.backward()
            return loss.detach()

        self.assert_same(self.both(Model(), scaled), fused=3)

    def test_a_gradient_of_the_gradient(self):
        def run(model):
            loss = usual(model, self.tokens, self.target)
            (gradient,) = torch.autograd.grad(loss, model.inner.weight, create_graph=True)
            gradient.square().sum().backward()
            return gradient.detach()

        self.assert_same(self.both(Model(), run), delta=1e-5)

    def test_checkpoints_of_head_and_loss(self):
        for count, reentrant in enumerate((False, True), 1):
            def run(model, reentrant=reentrant):
                hidden = model.hidden(self.tokens)
                part = lambda hidden: F.cross_entropy(model.head(hidden).flatten(0, 1), self.target.flatten())
                loss = torch.utils.checkpoint.checkpoint(part, hidden, use_reentrant=reentrant)
                loss.backward()
                return loss.detach()

            # The second one runs forward again in backward, and the first one until it has what it needs.
            self.assert_same(self.both(Model(), run), fused=2 * count - 1)

    def test_without_gradients(self):
        def run(model):
            with torch.no_grad():
                return usual(model, self.tokens, self.target)

        answers = self.both(Model(), run)
        self.assert_same(answers)
        self.assertFalse(answers[1][0].requires_grad)
        detached = self.both(Model(), lambda model: usual(lambda tokens: model(tokens).detach(), self.tokens, self.target))
        self.assert_same(detached, fused=2)
        self.assertFalse(detached[1][0].requires_grad)

    def test_all_rows_ignored_is_no_number_as_it_is(self):
        target = torch.full_like(self.target, -100)
        (said, _), (patched, _) = self.both(Model(), self.trained(lambda model: usual(model, self.tokens, target)))
        self.assertTrue(said.isnan() and patched.isnan())

    def test_wrong_classes_are_torchs_errors(self):
        model = Model()
        self.patch.take_root(model, "cpu")
        for wrong in (self.target + WORDS, self.target[:, 1:]):
            with self.assertRaises((IndexError, ValueError)):
                F.cross_entropy(model(self.tokens).flatten(0, 1), wrong.flatten())


class Otherwise(Patched):
    """What else logits are used for: the same, as if nothing had been patched."""

    def same(self, use, fused=0, model=None, grads=True):
        answers = self.both(model or Model(), use)
        self.assertEqual(self.fused(), fused)
        (said, gradients), (patched, of_patched) = answers
        for one, other in zip(torch.utils._pytree.tree_leaves(said), torch.utils._pytree.tree_leaves(patched)):
            if isinstance(one, torch.Tensor):
                self.assertTrue(torch.equal(one, other.detach() + 0))
            else:
                self.assertEqual(one, other)
        for one, other in zip(gradients, of_patched):
            if one is not None:
                self.assertTrue(torch.allclose(one, other, rtol=1e-5, atol=1e-6 * float(one.abs().max())))
        self.patch.heads.fused[:] = self.patch.heads.asked_for[:] = [0, 0]

    def test_values_are_those_of_the_head(self):
        def by_nll(model):
            loss = F.nll_loss(F.log_softmax(model(self.tokens).float(), -1).view(-1, WORDS), self.target.view(-1))
            loss.backward()
            return loss.detach()

        def by_probabilities(model):
            loss = F.cross_entropy(model(self.tokens).flatten(0, 1), torch.full((132, WORDS), 1 / WORDS))
            loss.backward()
            return loss.detach()

        class Squared(torch.autograd.Function):
            @staticmethod
            def forward(ctx, logits):
                ctx.save_for_backward(logits)
                return logits.square().sum()

            @staticmethod
            def backward(ctx, given):
                return 2 * given * ctx.saved_tensors[0]

        def by_function(model):
            loss = Squared.apply(model(self.tokens)[:, 1:])
            loss.backward()
            return loss.detach()

        def changed(model):
            logits = model(self.tokens)
            copied, flat = logits.float().clone(), logits.view(-1, WORDS)
            logits[:, 0] = 0
            flat.mul_(2)
            loss = F.cross_entropy(flat, self.target.view(-1)) + F.cross_entropy(copied.view(-1, WORDS), self.target.view(-1))
            loss.backward()
            return loss.detach(), logits.detach().clone(), flat.detach().clone(), copied.detach().clone()

        def hooked(model):
            seen, logits = [], model(self.tokens)
            logits.register_hook(lambda gradient: seen.append(gradient.clone()))
            logits.retain_grad()
            F.cross_entropy(logits.flatten(0, 1), self.target.flatten()).backward()
            return seen, logits.grad

        uses = (
            by_nll, by_probabilities, by_function, changed, hooked,
            lambda model: model(self.tokens).argmax(-1),
            lambda model: model(self.tokens).topk(3).values.detach(),
            lambda model: model(self.tokens)[..., 5:7].detach(),
            lambda model: (model(self.tokens) + 1).sum(-1).detach(),
            lambda model: model(self.tokens).detach().cpu().double(),
            lambda model: torch.cat([model(self.tokens).detach(), torch.zeros(1, 33, WORDS)]),
            lambda model: model(self.tokens).detach().numpy().sum(),
            lambda model: model(self.tokens).tolist()[0][0][:5],
            lambda model: repr(model(self.tokens).detach()),
            lambda model: pickle.loads(pickle.dumps(model(self.tokens).detach())),
            lambda model: copy.deepcopy(model(self.tokens).detach()),
            lambda model: model(self.tokens)[0, 0, 0].item(),
            lambda model: (model(self.tokens).shape, model(self.tokens).dtype, model(self.tokens).transpose(1, 2).stride()),
            lambda model: torch.nn.utils.rnn.pad_sequence([each.detach() for each in model(self.tokens)]),
        )
        for number, use in enumerate(uses):
            with self.subTest(number):
                self.same(use)

    def test_a_loss_beside_another_use(self):
        def both_uses(model):
            logits = model(self.tokens)
            loss = F.cross_entropy(logits.view(-1, WORDS), self.target.view(-1))
            right = (logits.argmax(-1) == self.target).sum()
            loss.backward()
            return right

        self.same(both_uses, fused=1)
        self.assertIn("argmax", self.patch.otherwise)

    def test_gradients_by_two_ways_add_up(self):
        def z_loss(model):
            logits = model(self.tokens).float()
            loss = F.cross_entropy(logits.view(-1, WORDS), self.target.view(-1)) + 1e-2 * torch.logsumexp(logits, -1).square().mean()
            loss.backward()
            return loss.detach() * 0

        self.same(z_loss, fused=1)

    def test_logits_that_are_asked_for_after_the_step_are_those_before(self):
        def late(model):
            optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
            answers = []
            for _ in range(2):
                optimizer.zero_grad()
                logits = model(self.tokens)
                F.cross_entropy(logits.view(-1, WORDS), self.target.view(-1)).backward()
                optimizer.step()
                answers.append(logits.argmax(-1))
            return answers[0]

        self.same(late, fused=2)

    def test_the_next_step_needs_no_copy_of_the_weight_where_nobody_has_the_logits(self):
        model = Model()
        self.patch.take_root(model, "cpu")
        kept = []
        with mock.patch.object(heads.unmade.Call, "keep", lambda call: kept.append(call)):
            usual(model, self.tokens, self.target).backward()
            torch.optim.SGD(model.parameters(), lr=0.1).step()
        self.assertEqual((kept, self.fused()), ([], 1))

    def test_it_is_off_where_every_call_was_in_vain(self):
        model = Model()
        self.patch.take_root(model, "cpu")
        kinds = [type(model(self.tokens).mul_(1.0)) for _ in range(5)]
        self.assertEqual([kind is torch.Tensor for kind in kinds], [False] * 3 + [True] * 2)
        self.assertEqual(self.patch.outcomes.said["head"][0], "declined")


class Aside(Patched):
    """What it leaves alone."""

    def kind(self, model, call=None):
        self.patch.take_root(model, "cpu")
        return type((call or model)(self.tokens))

    def test_hooks_of_a_head_see_its_logits(self):
        seen = []
        for register in ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"):
            model = Model()
            getattr(model.head, register)(lambda *given: seen.append(type(given[-1])) or None)
            self.assertIs(self.kind(model), torch.Tensor)
        self.assertNotIn(self.patch.heads.unmade, seen)

    def test_other_layers_other_shapes_and_small_logits(self):
        class Quantised(nn.Linear):
            pass

        model = Model()
        model.head = Quantised(WIDTH, WORDS)
        self.assertIs(self.kind(model), torch.Tensor)
        self.assertIs(self.kind(Model(words=WORDS + 1)), torch.Tensor)
        self.patch.heads.smallest = 1 << 30
        self.assertIs(self.kind(Model()), torch.Tensor)

    def test_a_layer_beside_a_head_of_lora_computes(self):
        class Lora(nn.Module):
            def __init__(self, base):
                super().__init__()
                self.base, self.down, self.up = base, nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WORDS, bias=False)

            def forward(self, hidden):
                return self.base(hidden) + self.up(self.down(hidden))

        model = Model()
        model.head = Lora(model.head.requires_grad_(False))
        self.assert_same(self.both(model, self.trained(lambda model: usual(model, self.tokens, self.target))), fused=0)
        self.assertIn("add", self.patch.otherwise)

    def test_what_is_compiled_or_divided(self):
        model = Model()
        model.head = torch.compile(model.head, backend="eager")
        self.assertIs(self.kind(model), torch.Tensor)
        self.assertIn("compiled", self.patch.outcomes.said["head"][1])
        with mock.patch.object(heads.compilation, "has_compiled", lambda: True):
            self.assertIs(self.kind(Model()), torch.Tensor)
        self.assertEqual(self.patch.outcomes.said["head"], ("declined", "the program compiles parts of itself"))
        self.assertIs(self.kind(type("FullyShardedDataParallel", (nn.Sequential,), {})(Model())), torch.Tensor)

    def test_transforms_and_inference(self):
        model = Model()
        self.patch.take_root(model, "cpu")
        parameters = dict(model.named_parameters())
        torch.func.grad(lambda given: usual(lambda tokens: torch.func.functional_call(model, given, (tokens,)), self.tokens, self.target))(parameters)
        self.assertEqual(self.fused(), 0)
        with torch.inference_mode():
            self.assertIs(type(model(self.tokens)), torch.Tensor)

    def test_copies_and_files_of_a_patched_model_are_as_they_were(self):
        model = Model()
        self.patch.take_root(model, "cpu")
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        other = copy.deepcopy(model)
        with torch.no_grad():
            other.head.weight.add_(1)
        for each in (loaded, other):
            self.assertEqual(list(each.state_dict()), list(model.state_dict()))
            expected = F.linear(each.hidden(self.tokens), each.head.weight)
            self.assertTrue(torch.equal(each(self.tokens).detach() + 0, expected))

    def test_a_tensor_of_another_chunked_loss_stays_whole(self):
        logits = torch.randn(132, WORDS, requires_grad=True)
        chunks = chunked.Chunks(torch, self.original)
        chunks.on_cpu, chunks.smallest = True, 0
        with mock.patch.object(F, "cross_entropy", chunks.function()):
            other = patch()
            self.assertEqual(float(F.cross_entropy(logits, self.target.view(-1))), float(self.original(logits, self.target.view(-1))))
            self.assertEqual(sum(other.heads.fused), 0)


class Memory(Patched):
    is_patched = False

    def test_a_step_has_a_chunk_of_logits_alone(self):
        words, width = 4096, 16
        tokens = torch.randint(0, words, (8, 512))
        peaks = []
        for patched in (False, True):
            made = Model(words=words, width=width)
            if patched:
                one = patch((words, width))
                one.heads.chunk_of_head = 64 * words * 4
                one.take_root(made, "cpu")
            gpu = card.Card()
            for each in made.parameters():
                gpu.one.is_new(each.untyped_storage())
            with gpu:
                loss = F.cross_entropy(made(tokens).float().view(-1, words), tokens.view(-1))
                loss.backward()
            peaks.append(gpu.peak)
        logits = tokens.numel() * words * 4
        self.assertGreater(peaks[0], 2 * logits)
        self.assertLess(peaks[1], 0.2 * logits)
        self.assertGreater(peaks[0] - peaks[1], one.largest)
        self.assertGreater(one.largest, 1.7 * logits)


class Classifier(nn.Module):
    """With many classes; `is_counted`: and how many it got right."""

    def __init__(self, dtype=torch.float32, is_counted=False):
        super().__init__()
        self.body, self.out = nn.Linear(48, 48, dtype=dtype), nn.Linear(48, 3001, dtype=dtype)
        self.is_counted = is_counted

    def forward(self, given, target):
        scores = self.out(F.relu(self.body(given)))
        loss = F.cross_entropy(scores, target)
        return (loss, (scores.argmax(-1) == target).sum()) if self.is_counted else (loss, scores)


class Generator(nn.Module):
    """As HF has it: logits in 32 bits, shifted by its own function."""

    def __init__(self, kind):
        super().__init__()
        import transformers

        common = {"vocab_size": 3001}
        if kind == "llama":
            config = transformers.LlamaConfig(
                hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, **common
            )
            self.inner = transformers.LlamaForCausalLM(config)
        else:
            config = transformers.GPT2Config(n_positions=512, n_embd=32, n_layer=1, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **common)
            self.inner = transformers.GPT2LMHeadModel(config)

    def forward(self, tokens):
        return self.inner(input_ids=tokens, labels=tokens)


class Rehearsed(Patched):
    """What is said before of a step with the patch is what that needs."""

    is_patched = False

    def compare(self, model, *given, head, loss_of=lambda said: said[0], close=0.02):
        tasks = ((work.AS_IT_WAS, work.FIRST),)
        with mock.patch.object(work, "TASKS", tasks):
            line = rehearse.said(model, *given)
        self.assertEqual([each.get("head") for each in line["variants"]], [None, head])
        plain, variant = line["variants"]
        # The head's product once more.
        self.assertGreater(variant["flops"], 1.05 * plain["flops"])
        shape = tuple(int(each) for each in head.split("x"))
        peaks, gradients = [], []
        for is_patched in (False, True):
            if is_patched:
                patched = patch(shape, smallest=chunked.SMALLEST)
                patched.heads.chunk_of_head = head_loss.CHUNK
                patched.take_root(model, "cpu")
            gpu = card.Card()
            for each in (*model.parameters(), *model.buffers(), *given):
                gpu.one.is_new(each.untyped_storage())
            with gpu:
                loss_of(model(*given)).backward()
            gradients.append([each.grad for each in model.parameters()])
            model.zero_grad()
            peaks.append(gpu.peak)
        self.assertEqual(patched.heads.fused, [0, 1])
        self.assertEqual(patched.otherwise, "")
        for number, peak in enumerate(peaks):
            self.assertAlmostEqual(rehearse.peak(line, len(given[0]), number) / peak, 1, delta=close)
        self.assertLess(peaks[1], 0.4 * peaks[0])
        for one, other in zip(*gradients):
            self.assertTrue(torch.allclose(one, other, rtol=1e-3, atol=1e-5 * float(one.abs().max())))

    def test_a_program_of_ones_own(self):
        self.compare(Decoder(), torch.randint(0, 3001, (16, 512)), head="3001x32", loss_of=lambda loss: loss)

    def test_a_classifier_with_many_classes(self):
        self.compare(Classifier(), torch.randn(8192, 48), torch.randint(0, 3001, (8192,)), head="3001x48")

    def test_a_model_of_transformers(self):
        self.compare(Generator("llama"), torch.randint(0, 3001, (16, 512)), head="3001x32", loss_of=lambda said: said.loss)

    def test_a_model_of_transformers_whose_head_is_its_embedding(self):
        self.compare(Generator("gpt2"), torch.randint(0, 3001, (16, 512)), head="3001x32", loss_of=lambda said: said.loss)

    def test_logits_that_are_used_otherwise_are_no_head_to_be_fused(self):
        tasks = ((work.AS_IT_WAS, work.FIRST),)
        with mock.patch.object(work, "TASKS", tasks):
            line = rehearse.said(Classifier(is_counted=True), torch.randn(8192, 48), torch.randint(0, 3001, (8192,)))
        plain, fused, in_chunks = line["variants"]
        self.assertIn("argmax", fused["why_not"])
        self.assertTrue(in_chunks["chunked"] and "trace" in in_chunks)


if __name__ == "__main__":
    unittest.main()
