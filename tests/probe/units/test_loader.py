"""The batch of DataLoaders: exactly one size becomes another, once."""
import inspect
import sys
import types

from patching import PatchTest


class Sampler:
    def __init__(self, batch_size):
        self.batch_size = batch_size


class Loaders(PatchTest):
    def setUp(self):
        super().setUp()

        class DataLoader:
            def __init__(
                self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, **more
            ):
                self.dataset, self.batch_size, self.batch_sampler = dataset, batch_size, batch_sampler

            def __setattr__(self, name, value):
                if name in vars(self):
                    raise ValueError(name + " is not to be set again")
                super().__setattr__(name, value)

        self.cls = DataLoader
        module = types.ModuleType("torch.utils.data.dataloader")
        module.DataLoader = DataLoader
        sys.modules["torch.utils.data.dataloader"] = module
        self.addCleanup(sys.modules.pop, "torch.utils.data.dataloader", None)

    def test_the_old_size_becomes_the_new_however_it_is_given(self):
        made = self.patch("batch=64:32")
        for loader in (
            self.cls([1], 64),
            self.cls([1], batch_size=64),
            self.cls(dataset=[1], batch_size=64),
            self.cls([1], 64, True, None, None),
        ):
            self.assertEqual(loader.batch_size, 32)
        self.assertIn("in 4 DataLoaders", self.words(made, "batch"))

    def test_a_loader_made_from_a_loader_is_not_made_smaller_again(self):
        self.patch("batch=64:32")
        first = self.cls([1], batch_size=64)
        again = self.cls(first.dataset, batch_size=first.batch_size)
        self.assertEqual(again.batch_size, 32)

    def test_other_sizes_and_kinds_are_left_alone(self):
        made = self.patch("batch=64:32")
        for size in (1, 16, 63, None, True, 64.0):
            self.assertIs(self.cls([1], batch_size=size).batch_size, size)
        self.assertEqual(self.cls([1]).batch_size, 1)
        self.assertEqual(made.outcomes.said, {})
        made.settle()
        self.assertEqual(made.outcomes.said["batch"], ("declined", "no DataLoader of batch 64 was made"))

    def test_a_batch_sampler_of_its_own_is_left_alone_and_named(self):
        made = self.patch("batch=64:32")
        loader = self.cls([1], batch_sampler=Sampler(64))
        self.assertEqual(loader.batch_sampler.batch_size, 64)
        self.assertIn("batch sampler", self.words(made, "batch"))

    def test_the_sampler_that_a_framework_makes_of_ours_is_no_reason_to_decline(self):
        made = self.patch("batch=64:32")
        self.cls([1], batch_size=64)
        self.cls([1], batch_sampler=Sampler(32))
        self.assertEqual(self.outcome(made, "batch"), "applied")

    def test_the_signature_stays_for_those_who_ask(self):
        before = inspect.signature(self.cls.__init__)
        self.patch("batch=64:32")
        self.assertEqual(inspect.signature(self.cls.__init__), before)

    def test_a_subclass_is_covered_and_errors_are_the_programs(self):
        class Mine(self.cls):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)

        self.patch("batch=64:32")
        self.assertEqual(Mine([1], batch_size=64).batch_size, 32)
        with self.assertRaises(TypeError):
            self.cls()

    def test_what_is_no_smaller_batch_declines(self):
        for value in ("batch=64", "batch=64:64", "batch=32:64", "batch=a:b", "batch=4:0"):
            made = self.patch(value)
            self.assertEqual(self.outcome(made, "batch"), "declined")
            self.assertEqual(self.cls([1], batch_size=64).batch_size, 64)


class Chosen(PatchTest):
    def test_a_word_that_is_no_patch_is_said(self):
        made = self.patch("sorcery")
        self.assertEqual(self.outcome(made, "sorcery"), "declined")

    def test_a_torch_without_what_a_patch_needs_is_left_alone(self):
        del self.torch.nn, self.torch.is_grad_enabled
        sys.modules.pop("torch.utils.checkpoint")
        made = self.patch("recompute", "amp", "batch=4:2")
        lines = made.take(7, 99)
        self.assertEqual({line["outcome"] for line in lines}, {"declined"})
        self.assertEqual({line["patch"] for line in lines}, {"recompute", "amp", "batch"})

    def test_lines_are_taken_once_and_again_for_a_new_front(self):
        made = self.patch("sorcery")
        self.assertEqual(len(made.take(7, 0)), 1)
        self.assertEqual(made.take(7, 0), [])
        made.send_again()
        line = made.take(7, 0)[0]
        self.assertEqual((line["event"], line["pid"], line["patch"]), ("patch", 7, "sorcery"))
