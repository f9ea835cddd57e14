"""Optimizers step through their parameters one by one where torch would have chosen otherwise, and nowhere else."""
import sys
import types

from patching import PatchTest


class Foreach(PatchTest):
    def setUp(self):
        super().setUp()
        self.choice = (False, True)
        shared = types.ModuleType("torch.optim.optimizer")
        adam = types.ModuleType("torch.optim.adam")
        other = types.ModuleType("torch.optim.other")

        def choose(params, differentiable, use_fused=False):
            return self.choice

        shared._default_to_fused_or_foreach = adam._default_to_fused_or_foreach = choose
        other._default_to_fused_or_foreach = self.others = lambda *_: (False, True)

        class Adam:
            def step(self):
                return algorithm()

        def algorithm():
            return adam._default_to_fused_or_foreach([], False)

        self.adam, self.optimizer, self.algorithm, self.other = adam, Adam(), algorithm, other
        for module in (shared, adam, other):
            sys.modules[module.__name__] = module
            self.addCleanup(sys.modules.pop, module.__name__, None)

    def test_torchs_own_choice_becomes_one_by_one_and_is_named_by_its_class(self):
        made = self.patch("foreach=off")
        self.assertEqual([self.optimizer.step() for _ in range(2)], [(False, False)] * 2)
        self.assertEqual(self.outcome(made, "foreach"), "applied")
        self.assertEqual(self.words(made, "foreach"), "foreach=False in Adam: parameters one by one")

    def test_a_call_without_a_class_is_named_by_its_function(self):
        made = self.patch("foreach=off")

        def from_nobody():
            return self.algorithm()

        # The stack of a test has a `self` not far above.
        def deeper(n):
            return from_nobody() if n == 0 else deeper(n - 1)

        self.assertEqual(deeper(4), (False, False))
        self.assertIn("in algorithm:", self.words(made, "foreach"))

    def test_a_fused_step_and_one_that_is_one_by_one_already_are_left_alone(self):
        for choice in ((True, False), (False, False)):
            self.afresh()
            self.choice = choice
            made = self.patch("foreach=off")
            self.assertEqual(self.optimizer.step(), choice)
            made.settle()
            self.assertEqual(self.outcome(made, "foreach"), "declined")

    def test_another_function_of_that_name_is_not_replaced(self):
        self.patch("foreach=off")
        self.assertIs(self.other._default_to_fused_or_foreach, self.others)

    def test_before_torch_2_there_is_nothing_to_do(self):
        made = self.patch("foreach=off", version=(1, 13))
        self.assertEqual(self.optimizer.step(), (False, True))
        self.assertIn("needs torch 2.0", self.words(made, "foreach"))

    def test_it_can_only_be_switched_off(self):
        made = self.patch("foreach=on")
        self.assertEqual(self.outcome(made, "foreach"), "declined")
        self.assertEqual(self.optimizer.step(), (False, True))

    def test_a_version_without_that_function_declines(self):
        del sys.modules["torch.optim.optimizer"]._default_to_fused_or_foreach
        made = self.patch("foreach=off")
        self.assertEqual(self.outcome(made, "foreach"), "declined")
