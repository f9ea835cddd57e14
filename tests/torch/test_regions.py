"""What a compiled model allocates, read from its compiled graphs, against what it does allocate: by PyTorch's own profile of
memory, on the CPU, where inductor writes the same kind of text as for a GPU. Needs a C++ compiler.

By hand: python3 -m unittest test_regions
"""
import ast
import os
import tempfile
import types
import unittest
from unittest import mock

import on_cpu
import rehearse
import torch
from _oomph_probe.rehearse import compilations, partitioned, scaling, wrappers
from compiled_of import (
    FAILS,
    LENGTH,
    WIDTH,
    Decoder,
    Failing,
    blocks_in_place,
    blocks_wrapped,
    fresh,
    in_place,
    step,
    true_peak,
    watch_again,
    whole,
)
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WIRE = on_cpu.install(patience=60)
# The true peaks by kind, batch and dropout: a model is compiled for each.
TRUE = {}


class Attending(nn.Module):
    """Blocks with attention that are computed again in backward: what attention draws is drawn again, in a call of its own."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, 50)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.ins = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(3))

    def block(self, x, at):
        parts = self.ins[at](self.norms[at](x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        return x + F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2)

    def forward(self, x, targets):
        x = self.embedding(x)
        for at in range(len(self.norms)):
            x = checkpoint(self.block, x, at, use_reentrant=False)
        logits = self.head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class OnlyLoss(nn.Module):
    """What it returns is a number, so that nobody else has its logits: their gradient is written in their place."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, 2000)

    def forward(self, x):
        return F.cross_entropy(self.head(self.embedding(x)).flatten(0, 1), x.flatten())


def dynamic(model):
    return torch.compile(model, dynamic=True)


def method(model):
    model.forward = torch.compile(model.forward)
    return model


class Regions(unittest.TestCase):
    def setUp(self):
        watch_again(WIRE)
        WIRE.forget()
        WIRE.lines.clear()
        torch.manual_seed(0)

    def rehearsed(self, model, batch, step=step):
        FAILS.append(1)
        with self.assertRaises(torch.OutOfMemoryError):
            step(model, batch)
        (line,) = [line for line in WIRE.lines if line["event"] == "rehearsal"]
        self.assertIsNone(rehearse.why_not(line))
        return line

    def held_to(self, kind, is_first, batches=(6, 3), within=None, **how):
        """The rehearsed peak of the batch that failed, and of another, each against a run of it."""
        with fresh(WIRE):
            model = kind(Decoder(**how))
            if not is_first:
                step(model, batches[0])
                model.zero_grad(set_to_none=True)
            line = self.rehearsed(model, batches[0])
        for batch in batches:
            with fresh(WIRE, is_cached=True), self.subTest(kind.__name__, is_first=is_first, batch=batch):
                key = (kind, batch, str(how))
                true = TRUE[key] = TRUE.get(key) or true_peak(kind(Decoder(**how)), batch)
                said = rehearse.peak(line, batch)
                self.assertLess(abs(said / true - 1), within or (0.1 if how else 0.01), (said, true))
                self.assertGreater(said / true, 0.99, (said, true))
        return line

    def test_a_model_and_its_blocks_need_what_their_graphs_do(self):
        for kind, is_first in ((whole, True), (whole, False), (in_place, False), (blocks_wrapped, True), (blocks_in_place, False)):
            self.setUp()
            line = self.held_to(kind, is_first)
            self.assertTrue(line["variants"][0]["graphs"])
            self.assertFalse(any(each.get("graphs") for each in line["variants"] if each["checkpointing"] or each["amp"]))

    def test_an_evaluation_before_the_first_step_is_a_step_as_it_is_written(self):
        """Its graph keeps nothing for a backward: a step by that would need too little."""
        tokens = torch.zeros(6, 80, dtype=torch.long)
        with fresh(WIRE):
            model = Decoder()
            compiled = whole(model)
            with torch.no_grad():
                compiled(tokens, tokens)
            WIRE.every.ran_out_evaluating(model, (tokens, tokens), {})
            (line,) = [line for line in WIRE.lines if line["event"] == "rehearsal"]
        self.assertTrue(line["evaluated"])
        self.assertNotIn("graphs", line["variants"][0])
        written = true_peak(Decoder(), 6)
        self.assertLess(abs(rehearse.peak(line, 6) / written - 1), 0.05)

    def test_graphs_that_came_from_the_compilers_cache_are_known_as_well(self):
        with tempfile.TemporaryDirectory() as place, mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=place):
            for is_from_cache in (False, True):
                torch._dynamo.reset()
                torch._dynamo.utils.counters.clear()
                self.setUp()
                model = whole(Decoder())
                # The cache takes up what has its backward as well.
                step(model, 6)
                model.zero_grad(set_to_none=True)
                line = self.rehearsed(model, 6)
                hits = torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"]
                self.assertEqual(hits > 0, is_from_cache)
                self.assertTrue(line["variants"][0].get("graphs"), is_from_cache)

    def test_what_dropout_keeps_is_the_graphs(self):
        self.assertTrue(self.held_to(whole, True, drop=0.1)["variants"][0]["graphs"])

    def test_a_graph_that_has_to_end_is_followed_by_the_next_one(self):
        for is_first in (True, False):
            self.setUp()
            self.assertTrue(self.held_to(whole, is_first, within=0.01, breaks=True)["variants"][0]["graphs"])

    def test_sizes_that_are_variables_follow_from_the_call(self):
        for is_first in (True, False):
            self.setUp()
            self.assertTrue(self.held_to(dynamic, is_first)["variants"][0]["graphs"])

    def test_attention_that_is_recomputed_is_the_graphs(self):
        # Attention of a CPU takes 3 to 6 % for itself while it runs, which no text says.
        for is_first in (True, False):
            with self.subTest(is_first=is_first):
                self.setUp()
                with fresh(WIRE):
                    model = whole(Attending())
                    if not is_first:
                        step(model, 6)
                        model.zero_grad(set_to_none=True)
                    line = self.rehearsed(model, 6)
                self.assertTrue(line["variants"][0].get("graphs"))
                for batch in (6, 3):
                    with fresh(WIRE, is_cached=True):
                        true = TRUE[Attending, batch] = TRUE.get((Attending, batch)) or true_peak(whole(Attending()), batch)
                    self.assertGreater(rehearse.peak(line, batch) / true, 0.93)
                    self.assertLess(rehearse.peak(line, batch) / true, 1.005)

    def test_a_gradient_may_take_the_place_of_what_only_the_graph_has(self):
        def loss_alone(model, batch):
            Failing.apply(model(torch.zeros(batch, LENGTH, dtype=torch.long))).backward()

        for is_first in (True, False):
            with self.subTest(is_first=is_first):
                self.setUp()
                with fresh(WIRE):
                    model = whole(OnlyLoss())
                    if not is_first:
                        loss_alone(model, 6)
                        model.zero_grad(set_to_none=True)
                    line = self.rehearsed(model, 6, loss_alone)
                self.assertTrue(line["variants"][0].get("graphs"))
                for batch in (6, 3):
                    with fresh(WIRE, is_cached=True):
                        true = TRUE[OnlyLoss, batch] = TRUE.get((OnlyLoss, batch)) or true_peak(whole(OnlyLoss()), batch, loss_alone)
                    self.assertAlmostEqual(rehearse.peak(line, batch) / true, 1.0, delta=0.01)

    def test_where_lengths_vary_the_batch_is_no_variable_and_sizes_grow_with_it(self):
        def step_of(length):
            def one(model, batch):
                tokens = torch.zeros(batch, length, dtype=torch.long)
                _, loss = model(tokens, tokens)
                Failing.apply(loss).backward()

            return one

        with fresh(WIRE):
            model = whole(Decoder())
            for length in (LENGTH, LENGTH // 2):
                # From the second on lengths are a variable.
                step_of(length)(model, 6)
                model.zero_grad(set_to_none=True)
            line = self.rehearsed(model, 6, step_of(LENGTH))
        self.assertTrue(line["variants"][0]["graphs"])
        for batch in (6, 3):
            with fresh(WIRE, is_cached=True):
                true = true_peak(torch.compile(Decoder(), dynamic=True), batch, step_of(LENGTH))
            self.assertAlmostEqual(rehearse.peak(line, batch) / true, 1.0, delta=0.01)

    def test_under_autocast_copies_of_weights_do_not_grow_with_the_batch(self):
        """They are most of what a step of a few samples takes."""
        def in_bf16(model, batch):
            tokens = torch.zeros(batch, 4, dtype=torch.long)
            with torch.autocast("cpu", torch.bfloat16):
                _, loss = model(tokens, tokens)
            Failing.apply(loss).backward()

        for kind in (whole, dynamic):
            with fresh(WIRE), self.subTest(kind.__name__):
                self.setUp()
                model = kind(Decoder())
                in_bf16(model, 6)
                model.zero_grad(set_to_none=True)
                line = self.rehearsed(model, 6, in_bf16)
                self.assertTrue(line["variants"][0]["graphs"])
                words = line["variants"][0]["trace"].split()
                up = "%d" % (2 * 4 * WIDTH * WIDTH)
                self.assertGreaterEqual(words.count(up), 6, "two of each block")

    def test_a_compiled_method_is_known_as_well(self):
        self.assertTrue(self.held_to(method, False)["variants"][0]["graphs"])

    def test_what_has_graphs_of_cudas_is_taken_as_its_graphs_but_is_less_sure(self):
        with fresh(WIRE):
            model = whole(Decoder())
            step(model, 6)
            model.zero_grad(set_to_none=True)
            graph = compilations.inductors

            def private(value):
                found = graph(value)
                return types.SimpleNamespace(source_code=found.source_code, fx_kwargs={"cudagraphs": True})

            with mock.patch.object(compilations, "inductors", private):
                line = self.rehearsed(model, 6)
        self.assertNotIn("graphs", line["variants"][0])
        self.assertTrue(line["compiled"])
        with fresh(WIRE, is_cached=True):
            true = TRUE[whole, 6, "{}"] = TRUE.get((whole, 6, "{}")) or true_peak(whole(Decoder()), 6)
        self.assertAlmostEqual(rehearse.peak(line, 6) / true, 1.0, delta=0.01)

    def test_what_was_compiled_for_something_else_is_rehearsed_as_it_is_written(self):
        with fresh(WIRE):
            model = whole(Decoder())
            step(model, 6)
            model.zero_grad(set_to_none=True)
            with mock.patch.object(scaling.Sizes, "are_alike", lambda *_: False):
                line = self.rehearsed(model, 6)
        self.assertNotIn("graphs", line["variants"][0])
        self.assertIsNone(rehearse.why_not(line))


class Partitioned(unittest.TestCase):
    def events_of(self, function, *given):
        traced = make_fx(function, tracing_mode="fake")(*given)
        return [event[::2] if event[0] == wrappers.TAKEN else event[:1] for event in partitioned.read(torch, traced.graph).events]

    def test_what_is_added_up_by_index_computes_what_it_adds(self):
        def added(indices, values):
            made = torch.ops.aten.full.default([50, 8], 0.0, dtype=values.dtype)
            return [torch.ops.aten.index_put.default(made, [indices], values.to(made.dtype) * 2, True)]

        indices, gone = torch.zeros(400, dtype=torch.long), (wrappers.INPUT_LEFT,)
        self.assertEqual(self.events_of(added, indices, torch.zeros(400, 8)), [(wrappers.TAKEN, 400), gone, gone])
        # What has no atomic addition is left to torch, which is given a tensor, and returns another.
        taken = [each for each in self.events_of(added, indices, torch.zeros(400, 8, dtype=torch.bfloat16)) if len(each) > 1]
        self.assertEqual(taken, [(wrappers.TAKEN, 400), (wrappers.TAKEN, 3200), (wrappers.TAKEN, 400)])

    def test_a_part_of_what_is_chosen_point_by_point_is_no_tensor(self):
        def chosen(first, second):
            made = torch.ops.aten.full.default([3, 4, 8], 0.0)
            parts = [torch.ops.aten.select_scatter.default(made, each, 0, at) for at, each in enumerate((first, second))]
            return [parts[0] + parts[1]]

        taken = [each for each in self.events_of(chosen, torch.zeros(4, 8), torch.zeros(4, 8)) if len(each) > 1]
        self.assertEqual(taken, [(wrappers.TAKEN, 96)])


class Wrappers(unittest.TestCase):
    BEGIN = "class Runner:\n    def call(self, args):\n        a_1, a_2 = args\n        args.clear()\n"

    def read(self, *lines):
        return wrappers.read(self.BEGIN + "".join("        %s\n" % line for line in lines) + "\nrunner = 1\n")

    def test_names_are_followed_to_the_end_of_a_buffer(self):
        graph = self.read(
            "assert_size_stride(a_1, (2, 3), (3, 1))",
            "with torch.cuda._DeviceGuard(0):",
            "    torch.cuda.set_device(0)",
            "    buf0 = empty_strided_cuda((2, 3), (3, 1), torch.bfloat16)",
            "    stream0 = get_raw_stream(0)",
            "    triton_poi_fused_0.run(a_1, buf0, 6, stream=stream0)",
            "    del a_1",
            "    buf1 = reinterpret_tensor(buf0, (6, ), (1, ), 0); del buf0  # reuse",
            "    buf2 = empty_strided_cuda((4, ), (1, ), torch.float32)",
            "    buf3 = buf1; del buf1  # reuse",
            "    del buf3",
            "return (reinterpret_tensor(buf2, (2, 2), (2, 1), 0), a_2, None, )",
        )
        self.assertEqual(
            graph.events,
            [(wrappers.TAKEN, 0, 6, 2), (wrappers.INPUT_LEFT, "a_1"), (wrappers.TAKEN, 1, 4, 4), (wrappers.LEFT, 0), (wrappers.INPUT_LEFT, "a_2")],
        )
        self.assertEqual((graph.returned, graph.inputs, graph.shapes), ([1, "a_2", None], ["a_1", "a_2"], {"a_1": (2, 3)}))

    def test_what_a_library_returns_is_as_large_as_is_asserted(self):
        graph = self.read(
            "buf0 = torch.ops.aten._scaled_dot_product_flash_attention.default(a_1, a_1, a_1, scale=0.125)",
            "buf1 = buf0[0]",
            "assert_size_stride(buf1, (2, 8), (8, 1), 'torch.ops.aten')",
            "buf2 = buf0[6]",
            "assert_size_stride(buf2, (2, ), (1, ), 'torch.ops.aten')",
            "del buf0",
            "buf5 = extern_kernels.convolution(buf1, a_2, stride=(1, 1))",
            "assert_size_stride(buf5, (3, ), (1, ), 'torch.ops.aten')",
            "return (buf5, buf2, )",
        )
        taken = [event[2] for event in graph.events if event[0] == wrappers.TAKEN]
        self.assertEqual(taken, [16, 2, 3])
        self.assertEqual([event[1] for event in graph.events if event[0] == wrappers.LEFT], [1])
        self.assertEqual(graph.returned, [3, 2])

    def test_sizes_are_worked_out_from_what_it_is_given(self):
        text = "def trial():\n    a_1 = 5\n    a_2 = rand_strided((5, 8), (8, 1), device='cuda:0', dtype=torch.bfloat16)\n"
        lines = (
            "s77 = a_1",
            "assert_size_stride(a_2, (s77, 8), (8, 1))",
            "buf0 = empty_strided_cuda((4*s77, 8), (8, 1), torch.float32)",
            # How much a kernel of a GPU does.
            "triton_poi_fused_0_xnumel = 32*s77",
            "triton_poi_fused_0.run(a_2, buf0, triton_poi_fused_0_xnumel, stream=0)",
            "ps0 = max(4, s77 // 2)",
            "ps1 = weird(s77) // 2",
            "buf1 = torch.ops.aten.convolution.default(a_2, a_2)",
            "assert_size_stride(buf1, (s77 // 2, 3), (3, 1), 'torch.ops.aten')",
            "return (reinterpret_tensor(buf0, (s77, 32), (32, 1), 0), buf1, 4*s77, )",
        )
        graph = wrappers.read(self.BEGIN + "".join("        %s\n" % line for line in lines) + text)
        values = graph.values({"a_1": 6, "a_2": None})
        self.assertEqual(values, {"s77": 6, "triton_poi_fused_0_xnumel": 192, "ps0": 4})
        taken = [(event[2].at(values), event[3]) for event in graph.events if event[0] == wrappers.TAKEN]
        # What a library returns is of the type of what it is given.
        self.assertEqual(taken, [(4 * 6 * 8, 4), (9, 2)])
        first, second, number = graph.forms
        self.assertEqual(wrappers.sizes_at(first.sizes, values), (6, 32))
        self.assertEqual((second.dtype, number.at(values)), ("bfloat16", 24))
        with self.assertRaises(wrappers.Unknown):
            number.at({})

    def test_what_a_kernel_adds_up_in_parts_is_put_together_afterwards(self):
        """So many parts as the sizes make, which inductor writes with fractions."""
        text = "def trial():\n    a_1 = 5\n"
        parts = "math.floor(15/16 + (1/16)*s77)"
        lines = (
            "s77 = a_1",
            "workspace_0 = empty_strided_cuda((2*8*%s, ), (1, ), torch.float32)" % parts,
            "triton_per_fused_0.run(a_2, workspace_0, s77, 8, stream=0)",
            "buf1 = workspace_0[0 * %s * 8 : (0 + 1) * %s * 8].view(%s, 8).sum(dim=0)" % (parts, parts, parts),
            "buf2 = workspace_0[1 * 4 * 8 : (1 + 1) * 4 * 8].view(4, 8).sum(dim=0).to(torch.bfloat16)",
            "del workspace_0",
            "return (buf1, buf2, )",
        )
        graph = wrappers.read(self.BEGIN + "".join("        %s\n" % line for line in lines) + text)
        values = graph.values({"a_1": 40})
        taken = [(each[2].at(values) if isinstance(each[2], wrappers.Count) else each[2], each[3]) for each in graph.events if not each[0]]
        self.assertEqual(taken, [(2 * 8 * 3, 4), (8, 4), (8, 2)])
        self.assertEqual(([each[1] for each in graph.events if each[0] == wrappers.LEFT], graph.returned), ([0], [1, 2]))

    def test_an_input_in_whose_place_something_is_written_is_there_as_long_as_that(self):
        graph = self.read(
            "buf0 = a_1; del a_1  # reuse",
            "triton_poi_fused_0.run(buf0, a_2, 6, stream=0)",
            "del a_2",
            "buf1 = reinterpret_tensor(buf0, (6, ), (1, ), 0); del buf0  # reuse",
            "buf2 = empty_strided_cuda((4, ), (1, ), torch.float32)",
            "del buf1",
            "return (buf2, )",
        )
        self.assertEqual(graph.events, [(wrappers.INPUT_LEFT, "a_2"), (wrappers.TAKEN, 0, 4, 4), (wrappers.INPUT_LEFT, "a_1")])

    def test_what_is_drawn_again_is_taken_out_of_pairs(self):
        graph = self.read(
            "buf0 = empty_strided_cuda((2, 8), (8, 1), torch.bfloat16)",
            "buf1 = torch.ops.higher_order.run_and_save_rng_state(torch.ops.aten.attention.default, reinterpret_tensor(buf0, (2, 8), (8, 1), 0))",
            "del buf0",
            "buf2 = buf1[0]",
            "assert_size_stride(buf2, (16, ), (1, ), 'torch.ops')",
            "buf3 = buf1[1][0]",
            "assert_size_stride(buf3, (2, 8), (8, 1), 'torch.ops')",
            "buf4 = buf1[1][1]",
            "assert_size_stride(buf4, (2, ), (1, ), 'torch.ops')",
            "buf5 = torch.ops.higher_order.run_with_rng_state(buf2, torch.ops.aten.attention.default, buf3)",
            "buf6 = buf5[0]",
            "assert_size_stride(buf6, (2, 8), (8, 1), 'torch.ops')",
            "return (buf3, buf4, buf6, )",
        )
        sizes = {each[1]: each[2:] for each in graph.events if each[0] == wrappers.TAKEN}
        self.assertEqual([sizes[each] for each in graph.returned], [(16, 2), (2, 4), (16, 2)])

    def test_a_state_to_draw_from_is_no_argument(self):
        """On a GPU torch gives it to the graph behind the rest."""
        begin = self.BEGIN.replace("a_1, a_2 =", "a_1, a_2, fwd_rng_state_0 =")
        lines = ("buf0 = empty_strided_cuda((2, ), (1, ), torch.float32)", "return (buf0, a_2, )")
        text = begin + "".join("        %s\n" % line for line in lines) + "\nrunner = 1\n"
        graph = types.SimpleNamespace(source_code=text)
        facts = types.SimpleNamespace(
            num_mutated_inp_runtime_indices=0, num_symints_saved_for_bw=0, num_outputs=1, num_forward=1, num_graphsafe_rng_states=1
        )
        function = types.SimpleNamespace(metadata=facts, compiled_fw=graph, compiled_bw=graph)
        with mock.patch.object(compilations, "autograd_function", lambda *_: function):
            plan = compilations.Plan(torch, None)
        self.assertEqual((plan.forward.inputs, plan.saved), (["a_1", "a_2"], ["a_2"]))

    def test_what_graphs_of_cudas_take_is_written_in_parts(self):
        """The same as if it were not: nothing is let go of before the part that reads it."""
        lines = (
            "buf0 = empty_strided_cuda((4, ), (1, ), torch.float32)",
            "triton_poi_fused_0.run(a_1, buf0, 4, stream=0)",
            "buf1 = empty_strided_cuda((8, ), (1, ), torch.float32)",
            "triton_poi_fused_1.run(a_1, a_2, buf0, buf1, 8, stream=0)",
            "del a_1",
            "del buf0",
            "buf2 = empty_strided_cuda((16, ), (1, ), torch.float32)",
            "buf3 = buf2; del buf2  # reuse",
        )
        plain = self.read(*lines[:2], *lines[2:], "return (buf1, buf3, )")
        part = "\ndef partition_0(args):\n    %s\n\n"
        part %= "\n    ".join(
            ["a_1, a_2, buf0 = args", "args.clear()", "with torch.cuda._DeviceGuard(0):", *("    " + each for each in lines[2:])]
            + ["del a_2", "return (buf1, buf3, )"]
        )
        outer = (
            *lines[:2], "partition0_args = [a_1, a_2, buf0]", "del a_1, buf0",
            "(buf1, buf3) = self.partitions[0](partition0_args)", "del partition0_args", "return (buf1, buf3, )",
        )
        parted = wrappers.read(part + self.BEGIN + "".join("        %s\n" % line for line in outer) + "\nrunner = 1\n")
        self.assertEqual((parted.events, parted.returned), (plain.events, plain.returned))
        self.assertEqual([event[0] for event in plain.events].count(wrappers.LEFT), 1)

    def test_what_is_not_known_is_said(self):
        for lines in (
            ["buf0 = empty_strided_cuda((other(s0), 4), (4, 1), torch.float32)"],
            ["for each in args:", "    pass"],
            ["(buf0, buf1) = self.partitions[0]([a_1])"],
            ["partition0_args = [a_1]", "(buf0, buf1) = self.partitions[0](partition0_args)"],
        ):
            with self.subTest(lines[0]), self.assertRaises(wrappers.Unknown):
                self.read(*lines, "return ()")
        with self.assertRaises(wrappers.Unknown):
            wrappers.read("nothing = 1\n")

    def test_other_functions_have_no_plan(self):
        self.assertEqual(compilations.Known(torch).of(nn.Linear.forward), [])
        with self.assertRaises(wrappers.Unknown):
            partitioned.read(torch, None)


class Scaling(unittest.TestCase):
    def test_a_shape_is_the_one_that_some_tensor_has(self):
        sizes = scaling.Sizes((6, 5), {5 * 12 * 4}, {(5, 12): {torch.bfloat16}, (12, 12): {torch.float32}})
        # Twelve is no multiple of the batch but the model's own.
        self.assertEqual([sizes.growing(each) for each in ((6, 12), (12, 12), (6, 7))], [(0,), (), (0,)])
        form, graph = wrappers.Form((6, 12), (1, 6), None), wrappers.Graph()
        self.assertEqual(sizes.form_at(graph, form, {}), ((5, 12), (1, 5)))
        self.assertEqual(sizes.type_of(torch, form, (5, 12)), torch.bfloat16)
        self.assertEqual(sizes.bytes_at(graph, (wrappers.TAKEN, 0, 72, 4), {}), 240)
        self.assertTrue(sizes.are_alike((5, 12), (6, 12)))
        self.assertFalse(sizes.are_alike((5, 12), (6, 13)))

    def test_what_a_size_grows_with_is_told_once_at_a_batch_where_nothing_is_alike_by_chance(self):
        # A weight of 16384 elements and its copy in bf16, and what grows: 64 of each sample in the same type.
        graph, cast, grown = wrappers.Graph(), (wrappers.TAKEN, 0, 16384, 2), (wrappers.TAKEN, 1, 6 * 64, 2)
        large = scaling.Sizes((6, 6054), {65536, 32768, 6054 * 128}, {})
        self.assertEqual([large.bytes_at(graph, each, {}) for each in (cast, grown)], [32768, 6054 * 128])
        # Half of the copy in bf16, in elements of eight bytes, is as large as the weight.
        small = scaling.Sizes((6, 3), {65536, 32768, 3 * 128}, {})
        self.assertEqual([small.bytes_at(graph, each, {}) for each in (cast, grown)], [32768, 3 * 128])

    def test_where_the_batch_is_a_variable_nothing_else_grows_and_where_another_size_is_one_the_batch_does(self):
        formula = wrappers.Formula(ast.parse("s77", mode="eval").body)
        count = wrappers.Count((6, formula, 10), (wrappers.Formula(ast.parse("10*s77", mode="eval").body), 10, 1))
        sizes = scaling.Sizes((6, 6054), {6054 * 12 * 10 * 4}, {})
        lengths, batches = wrappers.Graph(), wrappers.Graph()
        self.assertEqual(sizes.bytes_at(lengths, (wrappers.TAKEN, 0, count, 4), {"s77": 12}), 6054 * 12 * 10 * 4)
        self.assertEqual(sizes.bytes_at(batches, (wrappers.TAKEN, 0, count, 4), {"s77": 6054}), 6 * 6054 * 10 * 4)
        self.assertEqual(sizes.bytes_at(batches, (wrappers.TAKEN, 1, 6 * 12 * 10, 4), {"s77": 6054}), 6 * 12 * 10 * 4)


if __name__ == "__main__":
    unittest.main()
