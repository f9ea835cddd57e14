"""Models under torch.compile: their calls are noted, a rehearsal runs them as they are written, and neither compiles anything
or changes what is compiled."""
import contextlib
import pathlib
import sys
import unittest

import on_cpu
import torch
import torch.nn.functional as F
from _oomph_probe.common import frames
from _oomph_probe.live import regions, snapshot, step_trace
from _oomph_probe.oom import compiled as compiled_facts
from _oomph_probe.rehearse import roots
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch._functorch.aot_autograd import make_boxed_func
from torch import nn

WIRE = on_cpu.install(patience=60)
FAILS = {"forward": False, "backward": False}


def failing(where):
    def compiler(graph, inputs):
        def run(*args):
            if FAILS[where]:
                on_cpu.out_of_memory()
            return graph(*args)

        return make_boxed_func(run)

    return compiler


# Graphs that run out of memory where they are told to.
BACKEND = aot_autograd(fw_compiler=failing("forward"), bw_compiler=failing("backward"))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Decoder(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, width), nn.Linear(width, 50)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))

    def forward(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def wrapped(model, **how):
    return torch.compile(model, **how)


def in_place(model, **how):
    model.compile(**how)
    return model


def blocks_wrapped(model, **how):
    for at, block in enumerate(model.blocks):
        model.blocks[at] = torch.compile(block, **how)
    return model


def blocks_in_place(model, **how):
    for block in model.blocks:
        block.compile(**how)
    return model


def method(model, **how):
    model.forward = torch.compile(model.forward, **how)
    return model


KINDS = (wrapped, in_place, blocks_wrapped, blocks_in_place, method)


def step(model, batch, loss=F.cross_entropy):
    tokens = torch.zeros(batch, 8, dtype=torch.long)
    logits = model(tokens)
    value = loss(logits.flatten(0, 1), tokens.flatten())
    value.backward()
    return value.item()


@contextlib.contextmanager
def out(where):
    FAILS[where] = True
    try:
        yield
    finally:
        FAILS[where] = False


def compiled():
    """How many frames were compiled, and what they were."""
    return dict(counters["frames"]), dict(counters["stats"]), dict(counters["aot_autograd"])


class Compiled(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        WIRE.forget()
        WIRE.lines.clear()
        torch.manual_seed(0)

    def rehearsed(self):
        (line,) = [line for line in WIRE.lines if line["event"] == "rehearsal"]
        return line

    def test_an_oom_in_each_kind_of_compiled_model_is_rehearsed(self):
        plain = Decoder()
        plain.head.weight.register_hook(lambda _: on_cpu.out_of_memory())
        with self.assertRaises(torch.OutOfMemoryError):
            step(plain, 6)
        written = self.rehearsed()
        for kind in KINDS:
            for where in FAILS:
                with self.subTest(kind.__name__, where=where):
                    self.setUp()
                    model = kind(Decoder(), backend=BACKEND)
                    step(model, 6)
                    before = compiled()
                    with out(where), self.assertRaises(torch.OutOfMemoryError):
                        step(model, 6)
                    line = self.rehearsed()
                    self.assertEqual((line["batch"], line["phase"]), (6, where))
                    self.assertIsNone(on_cpu.rehearse.why_not(line))
                    self.assertEqual(line["variants"][0]["trace"], written["variants"][0]["trace"])
                    self.assertEqual(compiled(), before, "a rehearsal compiles nothing")
                    step(model, 6)
                    self.assertEqual(compiled(), before, "and what was compiled is still good")

    def test_the_loss_and_other_functions_that_are_compiled_run_as_they_are_written(self):
        loss = torch.compile(F.cross_entropy, backend=BACKEND)
        model = Decoder()
        step(model, 6, loss)
        before = compiled()
        for where in FAILS:
            with self.subTest(where=where):
                WIRE.forget()
                WIRE.lines.clear()
                step(model, 6, loss)
                with out(where), self.assertRaises(torch.OutOfMemoryError):
                    step(model, 6, loss)
                line = self.rehearsed()
                self.assertIsNone(on_cpu.rehearse.why_not(line))
                self.assertEqual(line["phase"], where)
                self.assertEqual(compiled(), before)

    def test_what_runs_out_in_a_compiled_function_of_an_optimizer_is_no_forward(self):
        model = Decoder()
        step(model, 6)
        function = torch.compile(lambda gradient: gradient / gradient.norm(), backend=BACKEND)
        with torch.no_grad():
            function(model.head.weight.grad)
            with out("forward"), self.assertRaises(torch.OutOfMemoryError):
                function(model.head.weight.grad)
        self.assertEqual([line for line in WIRE.lines if line["event"] == "rehearsal"], [])

    def test_the_same_frames_are_compiled_as_with_nothing_in_front(self):
        noted = next(each for each in roots_installed())
        for kind in KINDS:
            with self.subTest(kind.__name__):
                seen = []
                for is_bare in (True, False):
                    torch._dynamo.reset()
                    counters.clear()
                    if is_bare:
                        noted.rest()
                    torch.manual_seed(0)
                    model = kind(Decoder(), backend=BACKEND)
                    losses = [step(model, batch) for batch in (6, 6, 4, 3)]
                    if is_bare:
                        noted.install()
                    seen.append((compiled(), losses))
                self.assertEqual(seen[0], seen[1])

    def test_a_model_that_is_compiled_again_after_the_first_steps_is_taken_as_before(self):
        noted = next(each for each in roots_installed())
        model = wrapped(Decoder(), backend=BACKEND)
        step(model, 6)
        noted.rest()
        try:
            counters.clear()
            calls = noted.calls
            step(model, 6)
            self.assertEqual(counters["frames"], {})
            step(model, 4)
            self.assertEqual((counters["frames"]["total"], noted.calls), (1, calls))
        finally:
            noted.install()


# The stacks of an operator of the program's own, innermost first, as the allocator's history has them.
STACKS = {"forward": [], "backward": []}


def stack():
    frame, found = sys._getframe(1), []
    while frame is not None:
        code = frame.f_code
        found.append({"filename": code.co_filename, "line": frame.f_lineno, "name": code.co_name})
        frame = frame.f_back
    return found


@torch.library.custom_op("oomph_tests::seen", mutates_args=())
def seen(x: torch.Tensor) -> torch.Tensor:
    STACKS["forward"].append(stack())
    return x.clone()


@torch.library.custom_op("oomph_tests::seen_back", mutates_args=())
def seen_back(x: torch.Tensor) -> torch.Tensor:
    STACKS["backward"].append(stack())
    return x.clone()


seen.register_fake(lambda x: torch.empty_like(x))
seen_back.register_fake(lambda x: torch.empty_like(x))
seen.register_autograd(lambda ctx, gradient: seen_back(gradient))


class Seen(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x):
        wide = self.up(x)
        kept = seen(wide)
        return self.down(torch.relu(kept))


class Inductor(unittest.TestCase):
    """Code that inductor has written, on a CPU; it needs a compiler for C++."""

    @classmethod
    def setUpClass(cls):
        torch._dynamo.reset()
        model = torch.compile(Seen())
        model(torch.randn(4, 16)).sum().backward()
        cls.owners = frames.Owners(torch)
        cls.code = {}
        for where, found in STACKS.items():
            # As the allocator is called from: not from within the operator.
            at = next(at for at, frame in enumerate(found[-1]) if frames.is_compiled(frame["filename"]))
            cls.code[where] = found[-1][at:]

    def test_a_kernel_of_forward_is_the_programs_line_and_what_it_makes(self):
        own, inside = snapshot.own_and_inside(self.code["forward"], self.owners)
        self.assertEqual((pathlib.Path(own[0]).name, own[2]), ("test_compiled.py", "forward"))
        line = frames.line_of(*inside)
        self.assertEqual(line["file"], "compiled region")
        self.assertIn("kept", line["function"])
        self.assertEqual(step_trace.phase_of({"frames": self.code["forward"]}, "x", None, self.owners), "forward")

    def test_a_kernel_of_backward_is_of_backward(self):
        code = self.code["backward"]
        # On a GPU the engine has a thread for it, which begins there.
        home = self.owners.torch_home + "autograd/function.py"
        ends = max(at for at, frame in enumerate(code) if frame["filename"] == home and frame["name"] == "apply")
        engine = code[: ends + 1]
        own, inside = snapshot.own_and_inside(engine, self.owners)
        line = frames.line_of(*own)
        self.assertEqual((line["file"], inside), ("compiled region", None))
        self.assertTrue(line["function"].startswith("["), line)
        # Where its forward has been seen it is of the line that called that, or of a region of the function.
        known = regions.Regions()
        forward, below = snapshot.own_and_inside(self.code["forward"], self.owners)
        known.learn(self.code["forward"], forward)
        self.assertEqual(known.told(engine, own, inside), (forward, own))
        known.learn(self.code["forward"], (forward[0], forward[1] + 1, forward[2]))
        line = frames.line_of(*known.told(engine, own, inside)[0])
        self.assertEqual((line["file"], line["line"]), ("compiled region of test_compiled.py:forward", 0))
        self.assertEqual(step_trace.phase_of({"frames": engine}, "x", None, self.owners), "backward")

    def test_what_was_compiled_again_for_other_sizes_is_counted(self):
        torch._dynamo.reset()
        counters.clear()
        torch._dynamo.utils._compilation_metrics.clear()
        self.assertIsNone(compiled_facts.facts(torch))
        model = torch.compile(Decoder(), backend="eager", dynamic=False)
        for batch in (6, 5, 4):
            step(model, batch)
        said = compiled_facts.facts(torch)
        self.assertEqual(said["resized"], 2)
        self.assertGreaterEqual(said["functions"], 1)
        self.assertNotIn("budget", said)


def roots_installed():
    import gc

    return [each for each in gc.get_objects() if type(each) is roots.Roots]


if __name__ == "__main__":
    unittest.main()
