"""How far a forward had come: models as classes, memory running out at a place of each."""
import gc
import unittest
import weakref

import fake_torch
import support  # noqa: F401
from _oomph_probe.common import frames
from _oomph_probe.oom import progress, tree
from fake_torch import Module, ModuleList, Sequential

torch = fake_torch.make()


class Layer(Module):
    """A leaf of so many features that runs out of memory where it is told to."""

    def __init__(self, width=8, entry=None, stride=None):
        super().__init__()
        self.out_features = width
        self.in_features = entry or width
        if stride:
            self.stride = (stride, stride)
        self.fails = False

    def forward(self, x):
        return look() if self.fails else x


class OutOfMemory(Exception):
    pass


def look():
    stack = frames.own_frames()
    raise OutOfMemory(progress.of(progress.path_of(torch, stack), stack))


def share(call, *inputs):
    try:
        call(*inputs)
    except OutOfMemory as error:
        return error.args[0]
    raise AssertionError("it ran to its end")


def at(root, leaf, x=None):
    """The share where a leaf's own allocation fails."""
    leaf.fails = True
    try:
        return share(root, x)
    finally:
        leaf.fails = False


class Block(Module):
    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.narrow = Layer(), Layer(32, 8), Layer(8, 32)

    def forward(self, x):
        return self.narrow(self.wide(self.norm(x)))


class Decoder(Module):
    """An input of 8 features, eight blocks of 8 + 32 + 8, a head of 64 whose loss keeps twice as much."""

    def __init__(self, fails_in_loss=False):
        super().__init__()
        self.blocks = ModuleList([Block() for _ in range(8)])
        self.head = Layer(64, 8)
        self.fails_in_loss = fails_in_loss

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        x = self.head(x)
        return look() if self.fails_in_loss else x


INPUT = 8
WHOLE = INPUT + 8 * 48 + 64 + 128


class AShareIs(unittest.TestCase):
    def test_what_comes_before_by_width(self):
        model = Decoder()
        for number, name, done in ((2, "norm", 8), (2, "wide", 40), (5, "narrow", 48), (7, "norm", 8)):
            leaf = getattr(model.blocks._modules[str(number)], name)
            self.assertAlmostEqual(at(model, leaf), (INPUT + number * 48 + done) / WHOLE, 3)
        # The head has asked for its output; the loss is to come.
        self.assertAlmostEqual(at(model, model.head), (INPUT + 8 * 48 + 64 + 64) / WHOLE, 3)

    def test_nearly_whole_in_the_loss(self):
        self.assertAlmostEqual(share(Decoder(fails_in_loss=True), None), (INPUT + 8 * 48 + 64 + 64) / WHOLE, 3)

    def test_the_same_in_whatever_wraps_the_model(self):
        class Wrapped(Module):
            def __init__(self, module):
                super().__init__()
                self.module = module

            def forward(self, x):
                return self.module(x)

        model = Decoder()
        leaf = model.blocks._modules["4"].wide
        self.assertEqual(at(Wrapped(Wrapped(model)), leaf), at(model, leaf))

    def test_less_for_fewer_places(self):
        """A picture: strides leave a quarter of the places; a shortcut starts from the same as they."""

        class Stage(Module):
            def __init__(self, entry, width):
                super().__init__()
                self.first, self.second = Layer(width, entry, 2), Layer(width)
                self.shortcut = Layer(width, entry, 2)

            def forward(self, x):
                return self.shortcut(self.second(self.first(x)))

        stages = [Stage(8 << k, 16 << k) for k in range(3)]
        model = Sequential([Layer(8, 8)] + stages)
        weights = [INPUT + 8] + [3 * (16 << k) / 4 ** (k + 1) for k in range(3)]
        whole = sum(weights) + 2 * 64 / 4**3
        self.assertAlmostEqual(at(model, stages[1].shortcut), sum(weights[:3]) / whole, 3)

    def test_more_for_what_is_laid_out_in_more_places(self):
        class Shuffle(Module):
            def __init__(self):
                super().__init__()
                self.upscale_factor = 2

            def forward(self, x):
                return x

        def half(shuffle):
            small = [Layer() for _ in range(8)]
            return small, Sequential([*small, Layer(32, 8), shuffle, *(Layer(8) for _ in range(8))])

        small, plain = half(Layer(32))
        shuffled, root = half(Shuffle())
        self.assertGreater(at(plain, small[-1]), 2 * at(root, shuffled[-1]))

    def test_more_where_that_is_called_twice(self):
        class Twice(Module):
            def __init__(self):
                super().__init__()
                self.body = Sequential([Layer() for _ in range(8)])
                self.up1, self.up2, self.shuffle = Layer(32, 8), Layer(32, 8), Layer()
                self.shuffle.upscale_factor = 2
                self.high = Layer(8)

            def forward(self, x):
                return self.high(self.shuffle(self.up2(self.shuffle(self.up1(self.body(x))))))

        class Once(Twice):
            def forward(self, x):
                return self.high(self.shuffle(self.up2(self.up1(self.body(x)))))

        once, twice = Once(), Twice()
        last = [model.body._modules["7"] for model in (once, twice)]
        self.assertGreater(at(once, last[0]), 2 * at(twice, last[1]))

    def test_of_experts_a_part_of_the_places_each(self):
        class Mixed(Module):
            def __init__(self):
                super().__init__()
                self.router = Layer(2, 8)
                self.experts = ModuleList([Layer() for _ in range(4)])

            def forward(self, x):
                self.router(x)
                for expert in self.experts:
                    expert(x)

        model = Sequential([Mixed() for _ in range(2)] + [Layer()])
        second = model._modules["1"]
        whole = INPUT + 2 * 10 + 8 + 16
        self.assertAlmostEqual(at(model, second.experts._modules["3"]), (INPUT + 20) / whole, 3)

    def test_what_the_code_has_come_past_where_no_part_runs(self):
        class Between(Decoder):
            def forward(self, x):
                for block in self.blocks:
                    x = block(x)
                    if block is self.blocks._modules["3"]:
                        look()
                return self.head(x)

        self.assertAlmostEqual(share(Between(), None), (INPUT + 4 * 48) / WHOLE, 3)

    def test_the_whole_where_a_loss_runs_after_the_model(self):
        loss = type("_Loss", (Module,), {"__module__": "torch.nn.modules.loss", "forward": lambda self: look()})
        self.assertEqual(share(loss()), 1.0)


class NothingIsSaid(unittest.TestCase):
    def test_of_few_parts(self):
        model = Sequential([Layer() for _ in range(7)])
        self.assertIsNone(at(model, model._modules["6"]))

    def test_of_a_beginning(self):
        model = Decoder()
        self.assertIsNone(at(model, model.blocks._modules["0"].narrow))

    def test_outside_of_modules(self):
        self.assertIsNone(share(look))

    def test_of_a_part_that_is_called_again_and_again(self):
        class Again(Module):
            def __init__(self):
                super().__init__()
                self.many = ModuleList([Layer() for _ in range(9)])
                self.cell = Layer()

            def forward(self, x):
                for _ in range(3):
                    x = self.cell(x)

        model = Again()
        self.assertIsNone(at(model, model.cell))

    def test_of_what_is_recomputed_or_compiled(self):
        model = Decoder()
        for path in (
            "/usr/lib/python3/site-packages/torch/utils/checkpoint.py",
            "/tmp/torchinductor_user/ab/cab.py",
            "/usr/lib/python3/site-packages/torch/_dynamo/eval_frame.py",
        ):
            text = "def around(call, x):\n    return call(x)\n"
            names = {}
            exec(compile(text, path, "exec"), names)
            block = model.blocks._modules["4"]
            inner, block.forward = block.forward, lambda x: names["around"](inner, x)
            self.assertIsNone(at(model, block.wide), path)
            del block.__dict__["forward"]

    def test_of_a_model_too_large_to_walk(self):
        model = Decoder()
        before, tree.MAX_MODULES = tree.MAX_MODULES, 20
        try:
            with self.assertRaises(OverflowError):
                at(model, model.head)
        finally:
            tree.MAX_MODULES = before


class NothingIsKept(unittest.TestCase):
    def test_of_the_model_or_its_inputs(self):
        class Input:
            pass

        model, x = Decoder(fails_in_loss=True), Input()
        kept = [weakref.ref(model), weakref.ref(x)]
        share(model, x)
        del model, x
        gc.collect()
        self.assertEqual([each() for each in kept], [None, None])


class Parameter:
    is_cuda = True

    def __init__(self, count, trained=True, device=0):
        self.count, self.requires_grad = count, trained
        self.device = type("Device", (), {"index": device})

    def numel(self):
        return self.count

    def element_size(self):
        return 4


class TheModelsBytesAre(unittest.TestCase):
    def test_those_of_its_parameters_on_the_device_each_once(self):
        inner, outer = Module(), Module()
        shared = Parameter(100)
        inner._parameters.update(a=shared, b=Parameter(10, trained=False), none=None)
        outer._parameters.update(a=shared, other=Parameter(5, device=1))
        outer.inner = inner
        self.assertEqual(
            progress.model_bytes([(None, inner), (None, outer)], 0), {"parameters": 440, "trained": 400}
        )
        self.assertIsNone(progress.model_bytes([(None, Module())], 0))
        self.assertIsNone(progress.model_bytes([], 0))


if __name__ == "__main__":
    unittest.main()
