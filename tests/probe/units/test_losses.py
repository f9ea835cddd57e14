"""The losses of the first steps: copied without waiting, and read once the copy has arrived."""
import types
import unittest
import unittest.mock

import support  # noqa: F401
from _oomph_probe.common import errors
from _oomph_probe.live import losses


class Event:
    def __init__(self, gpu):
        self.gpu = gpu

    def record(self):
        self.at = len(self.gpu.copied)

    def query(self):
        self.gpu.queries += 1
        return self.gpu.arrived >= self.at


class Tensor:
    """A number on a device; every operation that would wait for it fails."""

    def __init__(self, value, device="cuda", numel=1, index=0, dtype="f32"):
        self.value, self.dtype, self.count = value, dtype, numel
        self.device = types.SimpleNamespace(type=device, index=index)

    def numel(self):
        return self.count

    def is_floating_point(self):
        return self.dtype != "i64"

    def detach(self):
        return self

    def reshape(self, shape):
        return self

    def __float__(self):
        if self.device.type == "cuda":
            raise AssertionError("waits for the GPU")
        return self.value


class Place(Tensor):
    def __init__(self, gpu):
        super().__init__(None, "cpu")
        self.gpu = gpu

    def copy_(self, source, non_blocking):
        assert non_blocking
        self.value = source.value
        self.gpu.copied.append(source.value)


class Gpu:
    """torch, and how many of its copies have arrived."""

    def __init__(self):
        self.copied, self.arrived, self.queries, self.pinned = [], 0, 0, 0
        self.is_capturing = False
        self.modes = 0
        cuda = types.SimpleNamespace(
            current_device=lambda: 0, is_current_stream_capturing=lambda: self.is_capturing, Event=lambda: Event(self),
        )
        self.torch = types.SimpleNamespace(
            Tensor=Tensor, cuda=cuda, empty=self.empty, initial_seed=lambda: 7,
            _C=types.SimpleNamespace(
                _len_torch_dispatch_stack=lambda: self.modes, _len_torch_function_stack=lambda: 0
            ),
        )
        self.lifetime = types.SimpleNamespace(live=True)
        self.losses = losses.Losses(self.torch, 5, self.lifetime)

    def empty(self, count, dtype, device, pin_memory):
        assert pin_memory and device == "cpu"
        self.pinned += 1
        return types.SimpleNamespace(unbind=lambda: tuple(Place(self) for _ in range(count)))

    def backward(self, value, step, **kind):
        return self.losses.saw((Tensor(value, **kind),), step)


class Losses(unittest.TestCase):
    def setUp(self):
        self.gpu = Gpu()

    def test_is_read_once_it_has_arrived(self):
        gpu = self.gpu
        self.assertTrue(gpu.backward(2.5, 0))
        self.assertTrue(gpu.backward(2.25, 1))
        self.assertIsNone(gpu.losses.line(), "nothing has arrived")
        gpu.arrived = 1
        self.assertTrue(gpu.backward(2.0, 2))
        self.assertEqual(gpu.losses.line(), {"event": "losses", "pid": 5, "losses": [[1, 2.5]], "seed": 7})
        gpu.arrived = 3
        gpu.losses.read_last()
        self.assertEqual(gpu.losses.line()["losses"], [[2, 2.25], [3, 2.0]])
        self.assertIsNone(gpu.losses.line())
        self.assertEqual(gpu.pinned, 1, "the same memory for all of them")

    def test_ends_after_the_first_steps(self):
        gpu = self.gpu
        for step in range(losses.FIRST):
            self.assertTrue(gpu.backward(1.0, step))
        self.assertTrue(gpu.backward(9.0, losses.FIRST), "some are on their way")
        self.assertEqual(len(gpu.copied), losses.FIRST)
        gpu.arrived = 99
        self.assertFalse(gpu.backward(9.0, losses.FIRST + 1))
        self.assertEqual(len(gpu.losses.line()["losses"]), losses.FIRST)
        queries = gpu.queries
        self.assertFalse(gpu.backward(9.0, losses.FIRST + 2))
        self.assertEqual(gpu.queries, queries)

    def test_backward_passes_of_a_step_are_told_one_by_one_up_to_a_bound(self):
        gpu = self.gpu
        gpu.arrived = 999
        for _ in range(losses.MOST + 9):
            gpu.backward(1.0, 0)
        gpu.losses.read_last()
        self.assertEqual(gpu.losses.line()["losses"], [[1, 1.0]] * losses.MOST)

    def test_what_is_no_plain_loss_is_left_alone(self):
        gpu = self.gpu
        for kind in ({"numel": 4}, {"index": 1}, {"dtype": "i64"}, {"device": "meta"}):
            self.assertTrue(gpu.backward(1.0, 0, **kind))
        gpu.losses.saw((Tensor(1.0), Tensor(2.0)), 0)
        gpu.losses.saw(None, 0)
        gpu.modes = 1
        gpu.backward(1.0, 0)
        self.assertEqual(gpu.copied, [])

    def test_nothing_is_done_while_a_graph_is_captured(self):
        gpu = self.gpu
        gpu.backward(1.0, 0)
        gpu.arrived = 1
        gpu.is_capturing = True
        queries = gpu.queries
        gpu.backward(2.0, 1)
        gpu.losses.read_last()
        self.assertEqual((gpu.copied, gpu.queries), ([1.0], queries))
        gpu.is_capturing = False
        gpu.losses.read_last()
        self.assertEqual(gpu.losses.line()["losses"], [[1, 1.0]])

    def test_a_loss_on_the_cpu_is_there_at_once_and_no_number_is_none(self):
        gpu = self.gpu
        gpu.backward(1.5, 0, device="cpu")
        gpu.backward(float("nan"), 1, device="cpu")
        self.assertEqual(gpu.losses.line()["losses"], [[1, 1.5], [2, None]])
        self.assertEqual(gpu.pinned, 0)

    def test_an_error_of_ours_ends_it(self):
        gpu = self.gpu
        gpu.torch.initial_seed = lambda: 1 // 0
        self.assertFalse(gpu.backward(1.0, 0))
        self.assertIsNone(gpu.losses.line())

    def test_a_device_that_fails_is_no_error_of_ours(self):
        """A look at an event raises what the program's own next call will."""

        def fails(event):
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

        gpu = self.gpu
        self.assertTrue(gpu.backward(1.0, 0))
        with unittest.mock.patch.object(Event, "query", fails), unittest.mock.patch.object(errors, "ours") as ours:
            self.assertFalse(gpu.backward(1.0, 1))
            gpu.losses.read_last()
        ours.assert_not_called()

    def test_a_forked_child_is_left_alone(self):
        self.gpu.lifetime.live = False
        self.assertFalse(self.gpu.backward(1.0, 0))
        self.assertEqual(self.gpu.copied, [])


if __name__ == "__main__":
    unittest.main()
