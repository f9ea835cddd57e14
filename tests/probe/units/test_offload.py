"""Activations in RAM, where torch or the value leaves no way to it; tests/torch has the rest."""
import io
from unittest import mock

from patching import Block, Net, PatchTest
from fake_torch import Tensor
from _oomph_probe.patch import moving


class Offload(PatchTest):
    def test_a_torch_that_does_not_say_whose_hooks_are_in_force_is_left_alone(self):
        made = self.patch("offload=cpu")
        self.assertEqual(self.outcome(made, "offload"), "declined")
        self.assertIn("with this version of torch", self.words(made, "offload"))
        self.assertEqual(Net([Block()])(Tensor(1.0)).value, Net([Block()])(Tensor(1.0)).value)

    def test_only_to_the_cpu(self):
        self.assertEqual(self.outcome(self.patch("offload=disk"), "offload"), "declined")

    def test_a_limit_of_an_outer_group_counts(self):
        files = {
            "/proc/meminfo": "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n",
            "/proc/self/cgroup": "0::/job/step\n",
            "/sys/fs/cgroup/job/memory.max": "5000000\n",
            "/sys/fs/cgroup/job/memory.current": "1000000\n",
            "/sys/fs/cgroup/job/step/memory.max": "max\n",
            "/sys/fs/cgroup/job/step/memory.current": "1000000\n",
        }

        def opened(path):
            if path not in files:
                raise FileNotFoundError(path)
            return io.StringIO(files[path])

        with mock.patch.object(moving, "open", opened, create=True):
            self.assertEqual(moving.available(), 4_000_000)
            files["/proc/self/cgroup"] = ""
            self.assertEqual(moving.available(), 8000 << 10)
            files["/proc/meminfo"] = ""
            self.assertEqual(moving.available(), 0)
