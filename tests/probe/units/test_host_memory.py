"""What a process says of its use of the host's memory: its loaders, where it grows, what is pinned."""
import json
import os
import socket
import sys
import tempfile
import types
import unittest

import support  # noqa: F401
from _oomph_probe.common import frames, wire
from _oomph_probe.live import doing, host_memory, loaders


class Watched(unittest.TestCase):
    def setUp(self):
        self.module = types.ModuleType("torch.utils.data._utils.signal_handling")
        self.told = []
        self.module._set_worker_pids = lambda key, pids: self.told.append((key, pids))
        sys.modules[self.module.__name__] = self.module
        self.addCleanup(sys.modules.pop, self.module.__name__, None)
        self.loaders = loaders.Loaders()
        self.loaders.watch()

    def iterate(self, workers=4, prefetch=2, batch=64, pin=True):
        module = self.module

        class Iterator:
            def __init__(self, loader):
                self._num_workers, self._prefetch_factor, self._dataset_kind = workers, prefetch, 0
                module._set_worker_pids(id(self), tuple(range(100, 100 + workers)))

        return Iterator(types.SimpleNamespace(pin_memory=pin, persistent_workers=False, batch_size=batch))

    def test_a_loader_is_known_once_it_has_workers(self):
        self.assertIsNone(self.loaders.take())
        self.iterate()
        self.assertEqual(len(self.told), 1, "torch's own function is called")
        self.assertEqual(
            self.loaders.take(),
            [{
                "workers": 4, "pin_memory": True, "persistent": False, "iterable": False, "prefetch": 2, "batch": 64,
                "pids": [100, 101, 102, 103],
            }],
        )
        self.assertIsNone(self.loaders.take(), "told once")

    def test_the_next_epochs_workers_are_of_the_same_loader(self):
        self.iterate()
        self.iterate()
        self.iterate(batch=None)
        self.assertEqual([known.get("batch") for known in self.loaders.take()], [64, None])

    def test_before_cuda_is_there_it_is_told_at_once_and_nothing_waits_for_that(self):
        said = []
        self.loaders.tell = said.append
        self.iterate()
        self.assertEqual([[known["workers"] for known in one] for one in said], [[4]])
        self.assertEqual(len(self.loaders.take()), 1, "and again on the connection that comes with CUDA")

        def nobody_listens(known):
            raise ConnectionRefusedError

        self.loaders.tell = nobody_listens
        self.iterate(workers=2)
        self.assertEqual(len(self.told), 2, "torch's own function is called")

    def test_one_line_over_a_connection_of_its_own(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "socket")
            self.assertRaises(OSError, wire.say_once, path, {"event": "process_host"})
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)
                listener.listen(1)
                wire.say_once(path, {"event": "process_host", "pid": 7})
                connection, _ = listener.accept()
                with connection, connection.makefile() as lines:
                    received = [json.loads(line) for line in lines]
        self.assertEqual([(line["event"], line["pid"]) for line in received], [("process_host", 7)])
        self.assertIn("ns", received[0])

    def test_what_is_no_loader_changes_nothing(self):
        self.module._set_worker_pids(1, (7,))
        self.assertEqual(self.told, [(1, (7,))])
        self.assertIsNone(self.loaders.take())


class Memory(unittest.TestCase):
    def setUp(self):
        self.stats = {}
        cuda = types.SimpleNamespace(host_memory_stats=lambda: self.stats)
        torch = types.SimpleNamespace(cuda=cuda, __file__="/nowhere/torch/__init__.py")
        self.memory = host_memory.HostMemory(torch, 7, frames.Owners(torch), loaders.Loaders())

    def look(self):
        self.memory.looked_at = 0.0
        return self.memory.take() or {}

    def test_fast_growth_is_told_with_its_line_and_what_is_done_there(self):
        self.assertNotIn("growth", self.look())

        def save_checkpoint():
            held = b"x" * (160 << 20)
            return self.look(), len(held)

        line, _ = save_checkpoint()
        growth = line["growth"]
        self.assertEqual((line["event"], line["pid"], growth["doing"]), ("process_host", 7, "checkpoint"))
        self.assertGreaterEqual(growth["grew"], 150 << 20)
        self.assertIn("test_host_memory.py", growth["line"]["file"])
        again, _ = save_checkpoint()
        self.assertNotIn("growth", again, "it has been as large before")

    def test_names_say_what_is_done(self):
        def named(name, path="train.py"):
            code = types.SimpleNamespace(co_name=name, co_filename=path)
            return doing.doing_of(types.SimpleNamespace(f_code=code))

        for name in ("save_checkpoint", "_save_checkpoint", "state_dict", "full_state_dict", "save_pretrained"):
            self.assertEqual(named(name), "checkpoint", name)
        self.assertEqual(named("save", "/x/torch/serialization.py"), "checkpoint")
        for name in ("evaluate", "evaluation_loop", "validate", "val_epoch", "_eval"):
            self.assertEqual(named(name), "evaluation", name)
        for name in ("train", "load_state_dict", "checkpoint", "save", "retrieval", "load_val", "eval_dataset"):
            self.assertIsNone(named(name), name)

    def test_pinned_memory_is_told_as_it_changes(self):
        self.stats = {"allocated_bytes.current": 64 << 20}
        self.assertEqual(self.look()["pinned"], 64 << 20)
        self.stats = {"allocated_bytes.current": 65 << 20}
        self.assertNotIn("pinned", self.look())
        self.memory.send_again()
        self.assertEqual(self.look()["pinned"], 65 << 20)


class AtPeaks(unittest.TestCase):
    def test_what_was_done_at_the_highest_reading_stays_until_a_higher_one(self):
        peaks = doing.AtPeaks()

        def evaluate(allocated):
            peaks.look(0, allocated)
            return peaks.known.get(0)

        def train_step(allocated):
            peaks.look(0, allocated)
            return peaks.known.get(0)

        self.assertIsNone(train_step(100))
        self.assertEqual(evaluate(120), "evaluation")
        self.assertEqual(train_step(90), "evaluation", "a lower one is of another moment")
        self.assertEqual(train_step(120.5), "evaluation", "and so is one that is hardly higher")
        self.assertIsNone(train_step(130))
        peaks.look(1, 5)
        self.assertEqual(peaks.known, {0: None, 1: None}, "each device has its own")
