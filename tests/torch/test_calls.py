"""Which calls of a model are noted, under a real torch."""
import pathlib
import sys
import traceback
import unittest

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "probe" / "units"))
import support  # noqa: E402, F401
from _oomph_probe.live import modules  # noqa: E402
from _oomph_probe.rehearse import roots  # noqa: E402


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

    def test_what_is_traced_is_not_noted(self):
        self.model(torch.zeros(12, 4))
        torch.jit.trace(self.model, torch.zeros(1, 4))
        self.assertEqual([line["shape"] for line in self.roots.given.trained_lines()], [[12, 4]])
        # It is tried out after that, without gradients.
        self.assertTrue(all(type(size) is int for shape in self.shapes() for size in shape))


if __name__ == "__main__":
    unittest.main()
