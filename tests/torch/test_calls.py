"""Which calls of a model are noted, under a real torch."""
import os
import pathlib
import subprocess
import sys
import traceback
import unittest

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "probe" / "units"))
import support  # noqa: E402, F401
from _oomph_probe.live import modules  # noqa: E402
from _oomph_probe.rehearse import roots  # noqa: E402


class Imports(unittest.TestCase):
    def test_torchs_compiler_is_not_imported_for_us(self):
        lines = (
            "import sys; sys.path[:0] = %r; import support, torch; from _oomph_probe.common import calls; "
            "print(calls.is_compiling_of(torch)(), 'torch._dynamo' in sys.modules)" % sys.path[:1]
        )
        done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "False False\n")


BEFORE_CUDA = """
import inspect, typing, support, torch
from torch import nn
from _oomph_probe import process
from _oomph_probe.live import modules
from _oomph_probe.rehearse import roots
process.Process(torch)
noted = roots.Roots(torch, None, modules.Modules(torch))
print(nn.Module.__call__ is nn.Module._wrapped_call_impl)
model = nn.Identity()
for _ in range(205):
    model = nn.Sequential(model)
print(model(torch.ones(1)))
bare = inspect.signature(nn.Linear(1, 1))
noted.install()
print(nn.Module.__call__ is nn.Module._wrapped_call_impl, inspect.signature(nn.Linear(1, 1)) == bare)
print(typing.get_type_hints(nn.Module.__call__))
noted.rest()
print(nn.Module.__call__ is nn.Module._wrapped_call_impl)
"""


class BeforeCuda(unittest.TestCase):
    def test_a_program_that_uses_no_gpu_has_torchs_own_calls(self):
        lines = "import sys; sys.path[:0] = %r" % sys.path[:1] + BEFORE_CUDA
        environment = dict(os.environ, OOMPH_PROBE_SOCKET="/nowhere/socket")
        done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, env=environment)
        self.assertEqual(done.stdout, "True\ntensor([1.])\nFalse True\n{}\nTrue\n", done.stderr)


class Calls(unittest.TestCase):
    def setUp(self):
        self.was = roots.DEVICES, getattr(torch._C, "_cuda_memoryStats", None)
        roots.DEVICES = ("cpu",)
        torch._C._cuda_memoryStats = lambda device: {"allocated_bytes": {"all": {"current": 0}}}
        self.failed = []
        self.roots = roots.Roots(torch, lambda call, phase: self.failed.append(phase), modules.Modules(torch))
        self.roots.install()
        self.addCleanup(self.stop)
        self.model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(30)))

    def stop(self):
        self.roots.rest()
        roots.DEVICES, torch._C._cuda_memoryStats = self.was

    def shapes(self):
        return [line["shape"] for line in self.roots.given.latest.lines()]

    def test_a_long_evaluation_before_the_first_step_hides_no_training(self):
        with torch.no_grad():
            for _ in range(800):
                self.model(torch.zeros(6, 4))
        self.assertIsNone(self.roots.latest)
        self.assertEqual(self.roots.calls, 800)
        self.model(torch.zeros(12, 4))
        self.assertIsNotNone(self.roots.latest)
        self.assertEqual(self.shapes(), [[12, 4]])

    def test_what_only_we_read_calls_nothing_of_the_programs(self):
        said = []

        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                said.append(function.__name__)
                return function(*args, **(kwargs or {}))

        with Mode():
            self.model[0](torch.zeros(6, 4))
        self.assertEqual(self.roots.calls, 1)
        self.assertEqual(said, ["zeros", "linear"])

    def test_a_profile_that_begins_meanwhile_knows_the_modules_of_later_ones_as_well(self):
        for _ in range(2):
            with torch.profiler.profile(with_stack=True, activities=[torch.profiler.ProfilerActivity.CPU]) as taken:
                self.model(torch.zeros(6, 4))
            found = []

            def walk(events):
                for event in events:
                    found.append(event.name)
                    walk(event.children)

            walk(taken.profiler.kineto_results.experimental_event_tree())
            self.assertTrue(any(name.startswith("nn.Module: Linear") for name in found), sorted(set(found))[:20])
            self.assertFalse(self.roots.sees_modules())

    def test_an_evaluation_has_sizes_of_its_own(self):
        with torch.no_grad():
            self.model(torch.zeros(6, 4))
        self.assertEqual(self.shapes(), [[6, 4]])
        self.assertEqual(self.roots.given.trained_lines(), [], "a changed batch shows where it is trained")
        self.model(torch.zeros(12, 4))
        self.model(torch.zeros(12, 4))
        self.assertEqual(self.shapes(), [[12, 4]])
        with torch.no_grad():
            self.model(torch.zeros(6, 4))
        self.assertEqual(self.shapes(), [[6, 4]])
        (trained,) = self.roots.given.trained_lines()
        self.assertEqual((trained["shape"], trained["varies"]), ([12, 4], []))

    def test_an_error_passes_through_without_frames_of_the_wrappers(self):
        class Fails(torch.nn.Module):
            def forward(self, error):
                raise error

        model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Sequential(Fails())))

        def frames_of(error):
            try:
                model(error)
            except type(error) as caught:
                return [(frame.filename, frame.name) for frame in traceback.extract_tb(caught.__traceback__)]

        for kind in (torch.cuda.OutOfMemoryError, RuntimeError, KeyboardInterrupt):
            behind_ours = frames_of(kind("no"))
            self.roots.rest()
            alone = frames_of(kind("no"))
            self.roots.install()
            kept = 0 if sys.version_info >= (3, 11) else 1
            self.assertEqual(len(behind_ours), len(alone) + kept, kind)
            if not kept:
                self.assertEqual(behind_ours, alone, kind)

    def test_an_error_of_backward_passes_through_as_well(self):
        class Fails(torch.autograd.Function):
            @staticmethod
            def forward(context, value):
                return value.clone()

            @staticmethod
            def backward(context, gradient):
                raise torch.cuda.OutOfMemoryError("no")

        def frames_of():
            try:
                Fails.apply(torch.ones(2, requires_grad=True)).sum().backward()
            except torch.cuda.OutOfMemoryError as caught:
                return [(frame.filename, frame.name) for frame in traceback.extract_tb(caught.__traceback__)]

        behind_ours = frames_of()
        self.roots.rest()
        self.assertEqual(len(behind_ours), len(frames_of()) + (sys.version_info < (3, 11)))

    def test_what_the_program_has_made_of_its_modules_is_not_run(self):
        """A `parameters` that says what is trained, a `__hash__`, a comparison."""
        ran = []

        class Own(torch.nn.Sequential):
            def parameters(self, recurse=True):
                ran.append("parameters")
                return super().parameters(recurse)

            def named_parameters(self, *args, **kwargs):
                ran.append("named_parameters")
                return super().named_parameters(*args, **kwargs)

            def modules(self):
                ran.append("modules")
                return super().modules()

            def named_modules(self, *args, **kwargs):
                ran.append("named_modules")
                return super().named_modules(*args, **kwargs)

            def children(self):
                ran.append("children")
                return super().children()

            def __getattr__(self, name):
                ran.append(name)
                return super().__getattr__(name)

            def __hash__(self):
                ran.append("hash")
                return super().__hash__()

            def __eq__(self, other):
                ran.append("equals")
                return self is other

        def called():
            self.roots.modules.begin(by_hooks=False)
            model(torch.zeros(12, 4))
            with torch.no_grad():
                model(torch.zeros(6, 4))
            self.roots.modules.take()

        model = Own(Own(torch.nn.Linear(4, 4)), torch.nn.Linear(4, 4))
        ran.clear()
        called()
        self.assertIsNotNone(self.roots.latest)
        self.assertEqual(ran, [])

    def test_a_model_that_calls_itself_gets_about_as_deep_as_alone(self):
        class Tree(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.here = torch.nn.Linear(1, 1)

            def forward(self, value, depth):
                return value + self(value, depth - 1) if depth else self.here(value)

        def deepest():
            depth = 20
            while True:
                try:
                    tree(torch.zeros(1), depth)
                except RecursionError:
                    return depth
                depth += 5

        for by_hooks in (False, True):
            tree = Tree()
            self.roots.rest()
            self.roots.modules.end()
            alone = deepest()
            if not by_hooks:
                self.roots.install()
            self.roots.modules.begin(by_hooks)
            ours = deepest()
            self.assertGreater(ours, alone - modules.DEEPEST, by_hooks)
            self.assertIsNone(self.roots.modules.marks)
            self.roots.modules.is_too_deep = False

    def test_what_is_traced_is_not_noted(self):
        self.model(torch.zeros(12, 4))
        torch.jit.trace(self.model, torch.zeros(1, 4))
        self.assertEqual([line["shape"] for line in self.roots.given.trained_lines()], [[12, 4]])
        # It is tried out after that, without gradients.
        self.assertTrue(all(type(size) is int for shape in self.shapes() for size in shape))


if __name__ == "__main__":
    unittest.main()
