"""What a compiled model allocates, read from its compiled graphs, against what it does allocate: by PyTorch's own profile of
memory, on the CPU, where inductor writes the same kind of text as for a GPU. Needs a C++ compiler.

By hand: python3 -m unittest test_regions
"""
import contextlib
import os
import tempfile
import unittest
from unittest import mock

import on_cpu
import rehearse
import torch
import torch.nn.functional as F
from _oomph_probe.rehearse import partitioned, regions, wrappers
from torch import nn
from torch.profiler import ProfilerActivity, profile

WIRE = on_cpu.install(patience=60)
WIDTH, LENGTH = 64, 40


class Block(nn.Module):
    def __init__(self, drop=0.0):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return x + self.drop(self.down(F.gelu(self.up(self.norm(x)))))


class Decoder(nn.Module):
    """As many are published: what is returned are logits and the loss."""

    def __init__(self, drop=0.0, breaks=False):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, 50)
        self.blocks = nn.ModuleList(Block(drop) for _ in range(4))
        self.breaks = breaks

    def forward(self, x, targets):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        if self.breaks:
            torch._dynamo.graph_break()
        logits = self.head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def whole(model):
    return torch.compile(model)


def in_place(model):
    model.compile()
    return model


def blocks_wrapped(model):
    for at, block in enumerate(model.blocks):
        model.blocks[at] = torch.compile(block)
    return model


def blocks_in_place(model):
    for block in model.blocks:
        block.compile()
    return model


FAILS = []
# The true peaks by kind, batch and dropout: a model is compiled for each.
TRUE = {}


class Failing(torch.autograd.Function):
    """Runs out of memory where backward begins, once."""

    @staticmethod
    def forward(_, x):
        return x.clone()

    @staticmethod
    def backward(_, gradient):
        if FAILS:
            FAILS.clear()
            on_cpu.out_of_memory()
        return gradient


def step(model, batch):
    tokens = torch.zeros(batch, LENGTH, dtype=torch.long)
    logits, loss = model(tokens, tokens)
    Failing.apply(loss).backward()


def true_peak(model, batch):
    """Of a step behind the first one."""
    step(model, batch)
    model.zero_grad(set_to_none=True)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as taken:
        step(model, batch)
    events = [each for each in taken.profiler.kineto_results.events() if each.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def watch_again():
    """A profile has put torch's own call back, which a model that is compiled then keeps."""
    if not WIRE.roots.sees_modules():
        WIRE.roots.install()


@contextlib.contextmanager
def fresh():
    watch_again()
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield


class Regions(unittest.TestCase):
    def setUp(self):
        watch_again()
        WIRE.forget()
        WIRE.lines.clear()
        torch.manual_seed(0)

    def rehearsed(self, model, batch):
        FAILS.append(1)
        with self.assertRaises(torch.OutOfMemoryError):
            step(model, batch)
        (line,) = [line for line in WIRE.lines if line["event"] == "rehearsal"]
        self.assertIsNone(rehearse.why_not(line))
        return line

    def held_to(self, kind, is_first, batches=(6, 3), **how):
        """The rehearsed peak of the batch that failed, and of another, each against a run of it."""
        with fresh():
            model = kind(Decoder(**how))
            if not is_first:
                step(model, batches[0])
                model.zero_grad(set_to_none=True)
            line = self.rehearsed(model, batches[0])
        for batch in batches:
            with fresh(), self.subTest(kind.__name__, is_first=is_first, batch=batch):
                key = (kind, batch, str(how))
                true = TRUE[key] = TRUE.get(key) or true_peak(kind(Decoder(**how)), batch)
                said = rehearse.peak(line, batch)
                self.assertLess(abs(said / true - 1), 0.1 if how else 0.01, (said, true))
                self.assertGreater(said / true, 0.99, (said, true))
        return line

    def test_a_model_and_its_blocks_need_what_their_graphs_do(self):
        for kind, is_first in ((whole, True), (whole, False), (in_place, False), (blocks_wrapped, True), (blocks_in_place, False)):
            self.setUp()
            line = self.held_to(kind, is_first)
            self.assertTrue(line["variants"][0]["graphs"])
            self.assertFalse(any(each.get("graphs") for each in line["variants"] if each["checkpointing"] or each["amp"]))

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

    def test_a_model_with_a_graph_break_is_rehearsed_as_it_is_written(self):
        with fresh():
            line = self.rehearsed(whole(Decoder(breaks=True)), 6)
        self.assertNotIn("graphs", line["variants"][0])
        self.assertTrue(line["compiled"])


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

    def test_what_is_not_known_is_said(self):
        for lines in (
            ["buf0 = empty_strided_cuda((s0, 4), (4, 1), torch.float32)"],
            ["for each in args:", "    pass"],
            ["(buf0, buf1) = self.partitions[0]([a_1])"],
        ):
            with self.subTest(lines[0]), self.assertRaises(wrappers.Unknown):
                self.read(*lines, "return ()")
        with self.assertRaises(wrappers.Unknown):
            wrappers.read("nothing = 1\n")

    def test_other_functions_have_no_plan(self):
        self.assertEqual(regions.plans_of(torch, nn.Linear(2, 2)), [])
        with self.assertRaises(wrappers.Unknown):
            partitioned.read(torch, None)


if __name__ == "__main__":
    unittest.main()
