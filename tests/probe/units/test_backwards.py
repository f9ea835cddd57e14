"""What is read where the backward passes of a step begin: torch's function is wrapped for one step, and put back."""
import sys
import types
import unittest
from unittest import mock

import support  # noqa: F401
from _oomph_probe.live import backwards


class Engine:
    """torch's two names for the function that runs a backward, and an allocator that has so much."""

    def __init__(self):
        self.allocated = 0
        self.ran = 0
        self.inner = None
        self.graph = types.SimpleNamespace(_engine_run_backward=self.run)
        self.torch = types.SimpleNamespace(
            autograd=types.SimpleNamespace(_engine_run_backward=self.graph._engine_run_backward),
            _C=types.SimpleNamespace(),
        )
        self.is_free = True
        with mock.patch.dict(sys.modules, {"torch.autograd.graph": self.graph}):
            self.read = backwards.Backwards(
                self.torch, types.SimpleNamespace(stats=self.stats), lambda: self.is_free
            )
        self.original = self.graph._engine_run_backward

    def run(self, *args, **kwargs):
        self.ran += 1
        inner, self.inner = self.inner, None
        if inner is not None:
            self.allocated += 100
            return inner()
        return args

    def stats(self, device):
        return {"allocated_bytes": {"all": {"current": self.allocated}}}

    def backward(self, allocated):
        self.allocated = allocated
        return self.torch.autograd._engine_run_backward("root", accumulate_grad=True)

    def is_torchs(self):
        places = (self.graph, self.torch.autograd)
        return all(place._engine_run_backward is self.original for place in places)


class Step(unittest.TestCase):
    def setUp(self):
        self.engine = Engine()
        self.read = self.engine.read

    def test_is_read_once_and_torchs_function_put_back(self):
        self.read.begin(8, 0, 10)
        self.assertTrue(self.read.is_on())
        self.assertEqual(self.engine.backward(70), ("root",))
        self.assertEqual(self.engine.backward(60), ("root",))
        self.assertEqual(self.read.end(8), {"step": 8, "before": 10, "allocated": 70})
        self.assertTrue(self.engine.is_torchs())
        self.engine.backward(90)
        self.assertIsNone(self.read.end(9))

    def test_has_no_part_in_a_backward_within_a_backward(self):
        self.read.begin(8, 0, 10)
        self.engine.inner = lambda: self.engine.torch.autograd._engine_run_backward("inner")
        self.engine.backward(70)
        self.assertEqual(self.read.end(8)["allocated"], 70)
        self.assertEqual(self.engine.ran, 2)

    def test_without_a_backward_says_nothing(self):
        self.read.begin(8, 0, 10)
        self.assertIsNone(self.read.end(8))
        self.read.begin(9, 0, 10)
        self.engine.backward(70)
        self.assertIsNone(self.read.end(10), "another step")
        self.assertTrue(self.engine.is_torchs())

    def test_whose_backward_failed_says_nothing(self):
        def fail():
            raise MemoryError("out of memory")

        self.read.begin(8, 0, 10)
        self.engine.inner = fail
        with self.assertRaises(MemoryError) as raised:
            self.engine.backward(70)
        frames = []
        each = raised.exception.__traceback__
        while each is not None:
            frames.append(each.tb_frame.f_code.co_filename)
            each = each.tb_next
        self.assertFalse([name for name in frames if "oomph-probe" in name])
        self.engine.backward(50)
        self.assertIsNone(self.read.end(8))
        self.assertTrue(self.engine.is_torchs())

    def test_is_left_alone_where_others_wrap_the_engine(self):
        self.engine.is_free = False
        self.read.begin(8, 0, 10)
        self.assertFalse(self.read.is_on())
        self.engine.is_free = True
        self.read.begin(8, 0, 10)
        ours = self.engine.graph._engine_run_backward
        theirs = lambda *args, **kwargs: ours(*args, **kwargs)  # noqa: E731
        self.engine.graph._engine_run_backward = self.engine.torch.autograd._engine_run_backward = theirs
        self.read.end(8)
        self.assertIs(self.engine.graph._engine_run_backward, theirs)
        self.read.begin(9, 0, 10)
        self.assertFalse(self.read.is_on(), "never again")
        self.assertEqual(self.engine.backward(70), ("root",))


if __name__ == "__main__":
    unittest.main()
