"""Who keeps memory alive, under a real torch: its graphs, its objects, and that nothing of it is touched."""
import gc
import operator
import pathlib
import sys
import time
import unittest

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "probe" / "units"))
import support  # noqa: E402, F401
from _oomph_probe.common import frames, objects  # noqa: E402
from _oomph_probe.live import graphs  # noqa: E402
from _oomph_probe.oom import retainers  # noqa: E402
from _oomph_probe.rehearse import beforehand  # noqa: E402

WIDTH, BATCH = 64, 32


def net():
    return torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)], torch.nn.ReLU())


class Torch(unittest.TestCase):
    """`self.made` are the blocks: where each storage is that was made while it was watched."""

    def setUp(self):
        gc.collect()
        self.blocks = {}

    def watch(self, tensor):
        storage = tensor.untyped_storage()
        self.blocks[storage.data_ptr()] = storage.nbytes()
        return tensor

    def forward(self, model):
        """A loss, whose graph has saved what it needs."""
        states = torch.randn(BATCH, WIDTH)
        for place, layer in enumerate(model):
            states = layer(states)
            # What enters the ReLU is not saved, only what leaves it.
            if place != 3:
                self.watch(states)
        return self.watch((states * states).sum())

    def search(self):
        is_there = operator.attrgetter("is_cpu")
        owners = frames.Owners(torch)
        looked = retainers.Search(torch, self.blocks, owners, time.monotonic() + 60, is_there)
        with graphs.without_overrides(torch):
            return looked.run()[0]


class Graphs(Torch):
    def test_kept_losses_hold_their_activations(self):
        model, losses = net(), []
        for _ in range(6):
            losses.append(self.forward(model))
        found = self.search()
        self.assertEqual([(each["name"], each["length"]) for each in found], [("losses", 6)])
        # Of each step three outputs that the next layer saved, the ReLU's, and the loss.
        self.assertEqual(found[0]["bytes"], 6 * (4 * BATCH * WIDTH * 4 + 4))
        self.assertEqual(found[0]["graph"], 6 * 4 * BATCH * WIDTH * 4)

    def test_what_a_graph_has_saved_counts_once_though_it_is_there_as_an_object(self):
        model, total = net(), 0
        for _ in range(6):
            total = self.watch(total + self.forward(model))
        looked = retainers.Search(torch, self.blocks, frames.Owners(torch), time.monotonic() + 60, operator.attrgetter("is_cpu"))
        with graphs.without_overrides(torch):
            pool = looked.pool()
        sizes = [looked.size(each.addresses) for each in pool]
        self.assertGreaterEqual(max(sizes), 6 * 4 * BATCH * WIDTH * 4)
        self.assertLessEqual(sum(sizes), looked.size(self.blocks))
        self.assertEqual([each["name"] for each in self.search()], ["total"])

    def test_a_backward_has_freed_them(self):
        model, losses = net(), []
        for _ in range(6):
            loss = self.forward(model)
            loss.backward()
            losses.append(loss)
        del loss
        self.blocks = {}
        for each in losses:
            self.watch(each)
        self.assertEqual([(each["name"], each["bytes"]) for each in self.search()], [("losses", 6 * 4)])

    def test_a_sum_of_losses_is_a_tensor_with_their_graphs(self):
        model, total = net(), 0
        for _ in range(4):
            total = self.watch(total + self.forward(model))
        found = self.search()
        self.assertEqual([(each["name"], each["type"]) for each in found], [("total", "Tensor")])
        self.assertGreaterEqual(found[0]["graph"], 4 * 4 * BATCH * WIDTH * 4)

    def test_an_older_torch_tells_by_the_tensors_that_are_left(self):
        model, losses = net(), []
        for _ in range(6):
            losses.append(self.forward(model))
        looked = graphs.Graphs.__init__

        def older(self, *arguments):
            looked(self, *arguments)
            self.tells_data = False

        graphs.Graphs.__init__ = older
        try:
            found = self.search()
        finally:
            graphs.Graphs.__init__ = looked
        self.assertEqual([(each["name"], each["length"]) for each in found], [("losses", 6)])
        self.assertGreater(found[0]["graph"], 6 * 3 * BATCH * WIDTH * 4)

    def test_outputs_that_a_hook_keeps(self):
        model, outputs = net(), []

        def install():
            seen = {"outputs": outputs}
            return model[1].register_forward_hook(lambda module, inputs, output: seen["outputs"].append(output))

        handle = install()
        with torch.no_grad():
            for _ in range(5):
                model(torch.randn(BATCH, WIDTH))
        for each in outputs:
            self.watch(each)
        self.assertEqual([(each["name"], each["length"]) for each in self.search()], [("outputs", 5)])
        handle.remove()


class Care(Torch):
    def test_saved_tensors_are_not_unpacked(self):
        model, called = net(), []

        def unpack(tensor):
            called.append(tensor)
            return tensor

        with saved_tensors_hooks(lambda tensor: tensor, unpack):
            losses = [self.forward(model) for _ in range(3)]
        again = [checkpoint(model, torch.randn(BATCH, WIDTH, requires_grad=True), use_reentrant=False)]
        ran = []
        handle = model[0].register_forward_hook(lambda *_: ran.append(1))
        self.search()
        self.assertEqual((called, ran), ([], []))
        handle.remove()
        del losses, again

    def test_no_override_of_the_programs_is_called(self):
        called = []

        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, kinds, args=(), kwargs=None):
                called.append(function)
                return function(*args, **(kwargs or {}))

        class Own(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, kinds, args=(), kwargs=None):
                called.append(function)
                return super().__torch_function__(function, kinds, args, kwargs)

        own = torch.randn(BATCH).as_subclass(Own)
        losses = [self.forward(net())]
        del called[:]
        with Mode():
            self.search()
        self.assertEqual(called, [])
        del own, losses

    def test_results_random_numbers_and_lifetimes_stay(self):
        model = net()
        losses = [self.forward(model) for _ in range(3)]
        state = torch.get_rng_state()
        counts = [sys.getrefcount(loss) for loss in losses]
        self.search()
        self.assertTrue(torch.equal(state, torch.get_rng_state()))
        self.assertEqual(counts, [sys.getrefcount(loss) for loss in losses])
        sum(losses).backward()
        self.assertTrue(all(each.grad is not None for each in model.parameters()))
        copy = torch._lazy_clone(torch.randn(BATCH))
        self.search()
        self.assertTrue(torch._C._is_cow_tensor(copy))

    def test_what_it_lets_go_of_is_freed(self):
        import weakref

        losses = [self.forward(net()) for _ in range(3)]
        self.search()
        alive = [weakref.ref(loss) for loss in losses]
        losses.clear()
        self.assertEqual([each() for each in alive], [None] * 3)


class MadeInTheStep(unittest.TestCase):
    """A forward that is called by its name has made tensors before a part of the model is called and runs out."""

    def test_what_variables_and_their_graphs_hold_of_the_batch_is_told(self):
        found = []

        def part(joined):
            stack = [sys._getframe(), sys._getframe(1), sys._getframe(2)]
            places = [(frame.f_code, frame.f_lasti, frame.f_lineno) for frame in stack[1:]]
            found.extend(beforehand.made_in_step(torch, places, stack))
            return joined

        def forward(states, weight, norm):
            one = states @ weight + 1
            joined = norm(torch.stack([one, one * 2], dim=1))
            return part(joined)

        def train():
            weight, norm = torch.nn.Parameter(torch.randn(WIDTH, WIDTH)), torch.nn.LayerNorm(WIDTH)
            for states in [torch.randn(BATCH, WIDTH)]:
                earlier = torch.randn(BATCH, 999)
                forward(states, weight, norm)
            return earlier

        train()
        shapes = [each.shape for each in found]
        self.assertIn((BATCH, WIDTH), shapes)
        # The stack, which no variable holds, is what the norm has saved.
        self.assertEqual(shapes.count((BATCH, 2, WIDTH)), 2)
        # What the loop around the steps binds is there for other reasons.
        self.assertNotIn((BATCH, 999), shapes)


class Kinds(unittest.TestCase):
    def test_tensors_that_answer_in_python_are_not_asked(self):
        from torch._subclasses.fake_tensor import FakeTensor

        class Own(torch.Tensor):
            pass

        class Answers(torch.Tensor):
            @classmethod
            def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
                raise AssertionError("it was asked")

        kinds = objects.kinds_of_tensors(torch)
        for kind in (torch.Tensor, torch.nn.Parameter, Own):
            self.assertIn(kind, kinds)
        for kind in (FakeTensor, Answers):
            self.assertNotIn(kind, kinds)


if __name__ == "__main__":
    unittest.main()
