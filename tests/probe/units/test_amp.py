"""bf16 autocast around a model: entered and left with each call, or left to the program."""
import collections
import dataclasses

import fake_torch
from fake_torch import Tensor, autocast, bfloat16, flags, float16, float32, no_grad
from patching import Block, Net, PatchTest, on


class Recording(Net):
    """A model that notes what it computes in."""

    def __init__(self):
        super().__init__([Block()])
        self.seen = []

    def forward(self, x):
        self.seen.append(flags.autocast)
        return super().forward(x)


class Amp(PatchTest):
    def test_the_first_call_and_every_other_is_inside(self):
        net = Recording()
        made = self.patch("amp")
        results = [net(Tensor(1.0)) for _ in range(3)]
        self.assertEqual(net.seen, [bfloat16] * 3)
        self.assertIsNone(flags.autocast)
        self.assertEqual([result.dtype for result in results], [float32] * 3)
        self.assertEqual(
            made.outcomes.said["amp"], ("applied", "bf16 autocast around the forward of Recording")
        )

    def test_an_exception_leaves_it(self):
        class Failing(Recording):
            def forward(self, x):
                super().forward(x)
                raise ValueError("the program's own")

        net = Failing()
        self.patch("amp")
        for _ in range(2):
            with self.assertRaisesRegex(ValueError, "the program's own"):
                net(Tensor(1.0))
            self.assertIsNone(flags.autocast)
        self.assertEqual(net.seen, [bfloat16] * 2)

    def test_an_evaluation_computes_as_it_did(self):
        net = Recording()
        self.patch("amp")
        net(Tensor(1.0))
        with no_grad():
            net(Tensor(1.0))
        net.eval()
        net(Tensor(1.0))
        self.assertEqual(net.seen, [bfloat16, None, None])

    def test_a_model_that_trains_in_evaluation_mode_is_trained_so(self):
        net = Recording().eval()
        self.patch("amp")
        net(Tensor(1.0))
        net(Tensor(1.0))
        self.assertEqual(net.seen, [bfloat16] * 2)

    def test_each_model_has_its_own_and_parts_have_none(self):
        one, other = Recording(), Recording()
        self.patch("amp")
        for _ in range(2):
            one(Tensor(1.0))
            other(Tensor(1.0))
        # As a recomputation calls it: outside the model.
        before = flags.autocast
        one.blocks._modules["0"](Tensor(1.0))
        self.assertEqual((one.seen, other.seen), ([bfloat16] * 2, [bfloat16] * 2))
        self.assertIs(flags.autocast, before)

    def test_a_precision_of_the_programs_own_is_left_alone(self):
        def half(net):
            next(net.parameters()).dtype = float16

        def scaled(net):
            net.scaler = fake_torch.GradScaler()

        def inside(net):
            flags.autocast = float16

        for change, words in ((half, "float16"), (scaled, "GradScaler"), (inside, "autocast")):
            with self.subTest(change.__name__):
                self.afresh()
                net = Recording()
                change(net)
                before = flags.autocast
                made = self.patch("amp")
                net(Tensor(1.0))
                self.assertEqual(net.seen, [before])
                self.assertEqual(self.outcome(made, "amp"), "declined")
                self.assertIn(words, self.words(made, "amp"))
                del net, change

    def test_autocast_entered_inside_the_model_ends_ours(self):
        class Own(Recording):
            def forward(self, x):
                with autocast("cuda", float16):
                    return super().forward(x)

        class Guarding(Recording):
            def forward(self, x):
                with autocast("cuda", enabled=False):
                    pass
                return super().forward(x)

        net = Own()
        made = self.patch("amp")
        net(Tensor(1.0))
        self.assertEqual(self.outcome(made, "amp"), "declined")
        flags.autocast = None
        net(Tensor(1.0))
        self.assertEqual(net.seen, [float16, float16])
        self.afresh()
        guarding = Guarding()
        made = self.patch("amp")
        guarding(Tensor(1.0))
        guarding(Tensor(1.0))
        self.assertEqual(guarding.seen, [bfloat16] * 2)
        self.assertEqual(self.outcome(made, "amp"), "applied")

    def test_a_device_without_bf16_is_left_alone(self):
        self.torch.cuda.get_device_capability = lambda: (7, 5)
        made = self.patch("amp")
        net = Recording()
        net(Tensor(1.0))
        self.assertIn("not support bf16", self.words(made, "amp"))
        self.assertEqual(net.seen, [None])

    def test_what_has_its_own_way_is_left_alone(self):
        for name in ("DataParallel", "FSDPNet", "DeepSpeedEngine"):
            self.afresh()
            made = self.patch("amp")
            net = type(name, (Recording,), {})()
            net(Tensor(1.0))
            self.assertEqual((self.outcome(made, "amp"), net.seen), ("declined", [None]))

    def test_a_model_on_the_cpu_is_no_business_of_ours(self):
        made = self.patch("amp")
        net = on("cpu", Recording())
        net(Tensor(1.0))
        self.assertEqual((net.seen, made.outcomes.said), ([None], {}))

    def test_a_scaler_that_is_off_does_not_count(self):
        keep = fake_torch.GradScaler(enabled=False)
        made = self.patch("amp")
        Recording()(Tensor(1.0))
        self.assertEqual(self.outcome(made, "amp"), "applied")
        del keep


class Results(PatchTest):
    def check(self, result):
        from _oomph_probe.patch import amp

        return amp.in_float32(self.torch, result)

    def test_containers_come_back_as_their_own_kind_with_other_tensors(self):
        @dataclasses.dataclass
        class Fields:
            logits: object
            other: object = None

        Pair = collections.namedtuple("Pair", "a b")
        half, full = Tensor(1.0, bfloat16), Tensor(2.0)
        for result, inner in (
            ((half, full), lambda r: r[0]),
            ([half, 3], lambda r: r[0]),
            ({"logits": half, "n": 3}, lambda r: r["logits"]),
            (collections.OrderedDict(logits=half), lambda r: r["logits"]),
            (Pair(half, (full, None)), lambda r: r.a),
            (Fields(half), lambda r: r.logits),
            ({"nested": [(half,)]}, lambda r: r["nested"][0][0]),
        ):
            new = self.check(result)
            self.assertIs(type(new), type(result))
            self.assertEqual(inner(new).dtype, float32)
            # What the model may have kept of it stays what it was.
            self.assertEqual(inner(result).dtype, bfloat16)

    def test_what_has_nothing_of_it_is_the_very_same(self):
        strange = object()
        for result in (Tensor(1.0), (Tensor(1.0), 2), [Tensor(1.0)], {"a": 1}, strange, None):
            self.assertIs(self.check(result), result)

    def test_what_cannot_be_made_anew_is_handed_on(self):
        class Stubborn(dict):
            def __copy__(self):
                raise TypeError("not this one")

        stubborn = Stubborn(a=Tensor(1.0, bfloat16))
        self.assertIs(self.check(stubborn), stubborn)

