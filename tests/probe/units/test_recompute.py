"""Recomputation: the same results, the state as it was, or left alone in words."""
import copy
import random

from fake_torch import Module, Tensor, _BatchNorm, flags, no_grad
from patching import Block, Net, PatchTest, frozen, on


def outputs(net, times=3):
    return [net(Tensor(1.0)).value for _ in range(times)]


class Recomputation(PatchTest):
    def check_left_alone(self, net, words):
        expected = outputs(copy.deepcopy(net))
        made = self.patch("recompute")
        self.assertEqual(outputs(net), expected)
        self.assertEqual(self.checkpoint.kept, [])
        self.assertEqual(self.outcome(made, "recompute"), "declined")
        self.assertIn(words, self.words(made, "recompute"))

    def test_all_but_the_first_call_of_a_build_run_in_a_checkpoint(self):
        net = Net([Block(3.0), Block(5.0), Block(7.0)])
        expected = outputs(copy.deepcopy(net))
        made = self.patch("recompute")
        self.assertEqual(outputs(net), expected)
        self.assertEqual(len(self.checkpoint.kept), 3 + 3 + 3 - 1)
        for again, before in self.checkpoint.backward():
            self.assertEqual(again.value, before.value)
        self.assertEqual(self.checkpoint.kept, [])
        self.assertEqual(
            made.outcomes.said["recompute"], ("applied", "recomputed in backward: 3 Block")
        )

    def test_dropout_in_a_compiled_graph_is_said_to_draw_otherwise(self):
        class Dropout(Module):
            def __init__(self, p):
                super().__init__()
                self.p = p

            def forward(self, x):
                return x

        class Dropping(Block):
            def __init__(self, p):
                super().__init__()
                self.drop = Dropout(p)

        class OptimizedModule(Module):
            def __init__(self, module):
                super().__init__()
                self._orig_mod = module

            def forward(self, x):
                return self._orig_mod(x)

        def in_place(net):
            net._compiled_call_impl = net._call_impl
            return net

        def blocks_alone(net):
            for block in net.blocks:
                in_place(block)
            return net

        cases = [
            (OptimizedModule, 0.1, True),
            (in_place, 0.1, True),
            (OptimizedModule, 0.0, False),
            # A graph inside a block is recomputed as it is.
            (blocks_alone, 0.1, False),
            (lambda net: net, 0.1, False),
        ]
        for compiled, p, expected in cases:
            with self.subTest(compiled=compiled, p=p):
                self.afresh()
                net = compiled(Net([Dropping(p), Dropping(p)]))
                made = self.patch("recompute")
                outputs(net)
                outcome, words = made.outcomes.said["recompute"]
                self.assertEqual(outcome, "applied")
                self.assertEqual("; under torch.compile, dropout" in words, expected)

    def test_names_parameters_and_forward_stay_as_they_were(self):
        net = Net([Block(), Block()])
        before = [sorted(vars(part)["_parameters"]) for part in net.modules()]
        self.patch("recompute")
        outputs(net)
        self.assertEqual([sorted(vars(part)["_parameters"]) for part in net.modules()], before)
        self.assertFalse(any("forward" in vars(part) for part in net.modules()))

    def test_a_deep_copy_computes_with_its_own_weights(self):
        net = Net([Block(3.0), Block(3.0)])
        self.patch("recompute")
        outputs(net)
        other = copy.deepcopy(net)
        for block in other.blocks:
            block.first.weight.value = 1.0
        self.assertEqual(outputs(other, 1), [4.0])
        self.assertEqual(outputs(net, 1), [36.0])

    def test_without_gradients_nothing_is_done(self):
        net = Net([Block(), Block()])
        self.patch("recompute")
        outputs(net)
        del self.checkpoint.kept[:]
        with no_grad():
            outputs(net)
        self.assertEqual(self.checkpoint.kept, [])

    def test_arguments_by_name_and_in_tuples_come_through(self):
        class Taking(Block):
            def forward(self, x, pair=None, scale=1.0):
                return Tensor(x.value * pair[0].value * scale)

        class Giving(Net):
            def forward(self, x):
                for block in self.blocks:
                    x = block(x, pair=(Tensor(2.0), None), scale=3.0)
                return x

        net = Giving([Taking(), Taking()])
        self.patch("recompute")
        self.assertEqual(outputs(net), [36.0] * 3)
        tensors = {len(args) for _, args, _, _ in self.checkpoint.kept}
        # All tensors are given to the checkpoint, which goes by them for the random generators.
        self.assertEqual(tensors, {2})
        for again, before in self.checkpoint.backward():
            self.assertEqual(again.value, before.value)

    def test_running_statistics_are_counted_once(self):
        class NormedBlock(Block):
            def __init__(self):
                super().__init__()
                self.norm = _BatchNorm()

            def forward(self, x):
                return self.norm(super().forward(x))

        net = Net([NormedBlock(), NormedBlock()])
        twin = copy.deepcopy(net)
        outputs(twin)
        self.patch("recompute")
        outputs(net)
        self.checkpoint.backward()
        means = [[block.norm.running_mean.value for block in each.blocks] for each in (net, twin)]
        self.assertEqual(means[0], means[1])

    def test_random_numbers_of_python_are_drawn_again_and_go_on(self):
        class Drawing(Block):
            def forward(self, x):
                return Tensor(x.value * random.random())

        net = Net([Drawing(), Drawing()])
        random.seed(3)
        expected, after = outputs(copy.deepcopy(net)), random.random()
        self.patch("recompute")
        random.seed(3)
        self.assertEqual(outputs(net), expected)
        for again, before in self.checkpoint.backward():
            self.assertEqual(again.value, before.value)
        self.assertEqual(random.random(), after)

    def test_blocks_that_are_not_the_same_twice_are_left_alone(self):
        class Keeping(Block):
            def __init__(self):
                super().__init__()
                self.losses = []

            def forward(self, x):
                self.losses.append(x.value)
                return x

        class Counting(Block):
            calls = 0

            def forward(self, x):
                self.calls = self.calls + 1
                return Tensor(x.value * self.calls)

        class Buffering(Block):
            def __init__(self):
                super().__init__()
                self.register_buffer("u", Tensor(0.0))

            def forward(self, x):
                self.u.add_(1.0)
                return Tensor(x.value + self.u.value)

        class InPlace(Block):
            def forward(self, x):
                return x.add_(1.0)

        for cls, words in (
            (Keeping, "keeps losses"),
            (Counting, "keeps state between calls"),
            (Buffering, "keeps _buffers.u"),
            (InPlace, "change their input in place"),
        ):
            with self.subTest(cls.__name__):
                self.afresh()
                self.check_left_alone(Net([cls(), cls()]), words)

    def test_arguments_that_a_call_may_change_are_not_repeated(self):
        class Cache:
            seen = 0

        class Caching(Block):
            def forward(self, x, cache):
                cache.seen += 1
                return Tensor(x.value + cache.seen)

        class Net2(Net):
            def forward(self, x):
                cache = Cache()
                for block in self.blocks:
                    x = block(x, cache)
                return x

        self.check_left_alone(Net2([Caching(), Caching()]), "(Cache)")

    def test_an_error_of_the_block_is_the_programs(self):
        class Failing(Block):
            fails = False

            def forward(self, x):
                if type(self).fails:
                    raise MemoryError("out of memory")
                return x

        net = Net([Failing(), Failing()])
        self.patch("recompute")
        outputs(net)
        Failing.fails = True
        with self.assertRaisesRegex(MemoryError, "out of memory"):
            outputs(net)
        Failing.fails = False
        outputs(net, 1)

    def test_a_checkpoint_that_takes_nothing_is_done_without(self):
        net = Net([Block(3.0), Block(5.0)])
        expected = outputs(copy.deepcopy(net))
        made = self.patch("recompute")
        self.checkpoint.broken = True
        self.assertEqual(outputs(net), expected)
        self.assertEqual(self.outcome(made, "recompute"), "declined")

    def test_the_models_own_switch_is_used_where_it_takes_the_kind(self):
        class Switched(Net):
            supports_gradient_checkpointing = True
            is_gradient_checkpointing = False
            asked = None

            def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs=None):
                self.asked = gradient_checkpointing_kwargs

        class Older(Switched):
            def gradient_checkpointing_enable(self):
                raise AssertionError("it would take the other kind")

        class On(Switched):
            is_gradient_checkpointing = True

        made = self.patch("recompute")
        net = Switched([Block(), Block()])
        outputs(net)
        self.assertEqual(net.asked, {"use_reentrant": False})
        self.assertIn("own gradient checkpointing", self.words(made, "recompute"))
        self.assertEqual(self.checkpoint.kept, [])
        self.afresh()
        made = self.patch("recompute")
        outputs(Older([Block(), Block()]))
        self.assertIn("2 Block", self.words(made, "recompute"))
        self.afresh()
        made = self.patch("recompute")
        outputs(On([Block(), Block()]))
        self.assertEqual(self.outcome(made, "recompute"), "declined")

    def test_models_that_are_none_of_ours_are_passed_over(self):
        class Parallel(Net):
            pass

        Parallel.__name__ = "DataParallel"
        self.check_left_alone(Parallel([Block(), Block()]), "DataParallel")
        for net in (frozen(Net([Block(), Block()])), on("cpu", Net([Block(), Block()]))):
            self.afresh()
            made = self.patch("recompute")
            outputs(net)
            self.assertEqual(made.outcomes.said, {})
            made.settle()
            self.assertIn("no model call", self.words(made, "recompute"))

    def test_old_versions_decline(self):
        made = self.patch("recompute", "amp", version=(1, 13))
        self.assertIn("2.1", self.words(made, "recompute"))
        self.assertIn("2.0", self.words(made, "amp"))
        outputs(Net([Block(), Block()]))
        self.assertEqual(self.checkpoint.kept, [])

    def test_a_compiled_graph_gets_the_checkpoint_and_no_more(self):
        net = Net([Block(3.0), Block(5.0)])
        expected = outputs(copy.deepcopy(net), 1)
        self.patch("recompute")
        outputs(net)
        del self.checkpoint.kept[:]
        flags.is_compiling = True
        self.assertEqual(outputs(net, 1), expected)
        self.assertEqual(len(self.checkpoint.kept), 2)

    def test_nothing_is_looked_for_once_the_models_are_known(self):
        net = Net([Block(), Block()])
        before = Module.__call__
        self.patch("recompute")
        outputs(net, 1)
        self.assertIsNot(Module.__call__, before)
        outputs(net, 20)
        self.assertIs(Module.__call__, before)
