"""Where the demo runs: never in front of a torch that works, and on the simulated GPU where none does."""
import os
import stat
import tempfile
import unittest

from support import Run

WORDS = ("--scenario", "none", "--card", "8", "--steps", "1")

USABLE = """
# Stands for a real torch with CUDA: enough to see that it is the one that is asked.
__version__ = "2.11.0"
class cuda:
    @staticmethod
    def is_available(): return True
    @staticmethod
    def mem_get_info(device=None): return FREE, 100
def manual_seed(seed): pass
def __getattr__(name):
    if name in ("nn", "set_float32_matmul_precision"): raise SystemExit("the real torch was used")
    raise AttributeError(name)
"""

WITHOUT_CUDA = """
import os
with open(os.path.join(os.path.dirname(__file__), "imports"), "a") as file:
    file.write("x")
__version__ = "2.9.1+cpu"
class cuda:
    @staticmethod
    def is_available(): return False
"""

BROKEN = """
import torch.version
raise OSError("libcudart.so.13: cannot open shared object file")
"""


class Place(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def torch(self, source):
        """A torch package on PYTHONPATH with this source."""
        package = os.path.join(self.folder.name, "torch")
        os.mkdir(package)
        for name, text in (("__init__.py", source), ("version.py", "")):
            with open(os.path.join(package, name), "w") as file:
                file.write(text)

    def nvidia_smi(self, answer):
        """An nvidia-smi first on PATH; the folder to put there."""
        folder = tempfile.mkdtemp(dir=self.folder.name)
        path = os.path.join(folder, "nvidia-smi")
        with open(path, "w") as file:
            file.write("#!/bin/sh\necho '%s'\n" % answer)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        return folder + os.pathsep + os.environ["PATH"]

    def run_demo(self, *words, **changes):
        changes.setdefault("PATH", self.nvidia_smi("0, 81559"))
        return Run(*words, PYTHONPATH=self.folder.name, **changes)

    def test_a_torch_with_cuda_is_used_and_not_shadowed(self):
        self.torch(USABLE)
        run = self.run_demo(*WORDS)
        self.assertEqual((run.status, run.output, run.errors), (1, "", "the real torch was used\n"))

    def test_a_device_in_use_is_left_alone_unless_real_is_said(self):
        self.torch(USABLE)
        path = self.nvidia_smi("70123, 81559")
        run = self.run_demo(*WORDS, PATH=path)
        self.assertEqual(run.status, 0, run.errors)
        self.assertTrue(run.output.startswith("simulated GPU (8 GiB): GPU 0 is in use (70123 of 81559 MiB;"))
        run = self.run_demo("--real", "--steps", "1", PATH=path)
        self.assertEqual(run.errors, "the real torch was used\n")

    def test_without_nvidia_smi_torch_is_asked_how_full_the_device_is(self):
        self.torch(USABLE.replace("FREE", "20"))
        empty = os.path.join(self.folder.name, "empty")
        os.mkdir(empty)
        run = self.run_demo(*WORDS, PATH=empty)
        self.assertIn("GPU 0 is in use", run.output)

    def test_a_torch_without_cuda_is_imported_once_and_gives_way(self):
        self.torch(WITHOUT_CUDA)
        run = self.run_demo(*WORDS)
        self.assertEqual(run.status, 0, run.errors)
        first = run.output.splitlines()[0]
        self.assertEqual(
            first,
            "simulated GPU (8 GiB): PyTorch 2.9.1+cpu finds no CUDA device here. "
            "No figure below was measured on a GPU.",
        )
        with open(os.path.join(self.folder.name, "torch", "imports")) as file:
            self.assertEqual(file.read(), "x")

    def test_a_torch_that_cannot_be_imported_gives_way_and_is_named(self):
        self.torch(BROKEN)
        run = self.run_demo(*WORDS)
        self.assertEqual(run.status, 0, run.errors)
        self.assertIn("(OSError: libcudart.so.13: cannot open shared object file)", run.output.splitlines()[0])

    def test_real_without_a_usable_torch_is_refused_with_the_mend(self):
        self.torch(WITHOUT_CUDA)
        run = self.run_demo("--real")
        self.assertEqual((run.status, run.output), (1, ""))
        self.assertIn("train.py: --real, but PyTorch 2.9.1+cpu finds no CUDA device here; leave --real out", run.errors)

    def test_no_size_of_a_simulated_card_with_real(self):
        run = self.run_demo("--real", "--card", "8")
        self.assertEqual(run.status, 2)
        self.assertIn("--card is the simulated GPU's memory", run.errors)


if __name__ == "__main__":
    unittest.main()
