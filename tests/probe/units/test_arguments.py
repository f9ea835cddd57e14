"""DataLoaders' arguments for less of the host's memory: bounds, what goes with the last worker, and how tensors are shared."""
import sys
import types

from patching import PatchTest


class IterableDataset:
    pass


class Arguments(PatchTest):
    def setUp(self):
        super().setUp()

        class DataLoader:
            def __init__(
                self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0,
                collate_fn=None, pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None,
                multiprocessing_context=None, *, prefetch_factor=None, persistent_workers=False,
            ):
                if num_workers == 0 and (prefetch_factor or persistent_workers or timeout or multiprocessing_context):
                    raise ValueError("only with workers")
                self.num_workers, self.prefetch_factor = num_workers, prefetch_factor
                self.pin_memory, self.persistent_workers = pin_memory, persistent_workers
                self.timeout, self.context = timeout, multiprocessing_context

        self.cls = DataLoader
        module = types.ModuleType("torch.utils.data.dataloader")
        module.DataLoader, module.IterableDataset = DataLoader, IterableDataset
        sharing = types.ModuleType("torch.multiprocessing")
        sharing.strategy = "file_descriptor"
        sharing.get_sharing_strategy = lambda: sharing.strategy
        sharing.set_sharing_strategy = lambda name: setattr(sharing, "strategy", name)
        self.sharing = sharing
        for name, made in (("torch.utils.data.dataloader", module), ("torch.multiprocessing", sharing)):
            sys.modules[name] = made
            self.addCleanup(sys.modules.pop, name, None)

    def test_more_workers_become_the_bound_however_they_are_given(self):
        made = self.patch("workers=4")
        for loader in (self.cls([1], num_workers=8), self.cls([1], 2, True, None, None, 8), self.cls([1], num_workers=5)):
            self.assertEqual(loader.num_workers, 4)
        self.assertEqual(self.cls([1], num_workers=3).num_workers, 3)
        self.assertEqual(self.cls([1]).num_workers, 0)
        self.assertEqual(self.words(made, "workers"), "4 workers instead of 5 in 3 DataLoaders")

    def test_what_torch_only_takes_with_workers_goes_with_the_last_one(self):
        self.patch("workers=0")
        loader = self.cls([1], num_workers=2, prefetch_factor=4, persistent_workers=True, timeout=9)
        self.assertEqual((loader.num_workers, loader.prefetch_factor, loader.persistent_workers), (0, None, False))
        loader = self.cls([1], 1, None, None, None, 2, None, False, False, 9, None, "spawn")
        self.assertEqual((loader.num_workers, loader.timeout, loader.context), (0, 0, None))

    def test_an_iterable_dataset_keeps_its_workers(self):
        made = self.patch("workers=1")
        self.assertEqual(self.cls(IterableDataset(), num_workers=4).num_workers, 4)
        self.assertEqual(self.outcome(made, "workers"), "declined")
        self.assertIn("IterableDataset", self.words(made, "workers"))

    def test_fewer_batches_in_advance_where_there_are_workers(self):
        made = self.patch("prefetch=1")
        self.assertEqual(self.cls([1], num_workers=2, prefetch_factor=8).prefetch_factor, 1)
        self.assertEqual(self.cls([1], num_workers=2).prefetch_factor, 1, "torch's own number is 2")
        self.assertIsNone(self.cls([1]).prefetch_factor, "without workers it is refused")
        self.assertIn("in 2 DataLoaders", self.words(made, "prefetch"))

    def test_pinned_memory_and_workers_that_stay_are_switched_off(self):
        made = self.patch("pin_memory=off", "persistent_workers=off")
        loader = self.cls([1], 1, None, None, None, 2, None, True, persistent_workers=True)
        self.assertEqual((loader.pin_memory, loader.persistent_workers, loader.num_workers), (False, False, 2))
        self.assertEqual(self.words(made, "pin_memory"), "pin_memory=False in 1 DataLoader")
        self.assertEqual(self.words(made, "persistent_workers"), "persistent_workers=False in 1 DataLoader")

    def test_a_patch_that_finds_no_loader_says_so(self):
        made = self.patch("workers=4", "prefetch=1", "pin_memory=off")
        self.cls([1])
        made.settle()
        for name in ("workers", "prefetch", "pin_memory"):
            self.assertEqual(self.outcome(made, name), "declined")

    def test_no_number_is_made_up(self):
        for value in ("workers=-1", "workers=x", "prefetch=0", "pin_memory=on", "sharing=pigeon"):
            made = self.patch(value)
            self.assertEqual(self.outcome(made, value.split("=")[0]), "declined", value)
            self.assertEqual(self.cls([1], num_workers=2).num_workers, 2)

    def test_errors_are_the_programs(self):
        self.patch("workers=1")
        with self.assertRaises(TypeError):
            self.cls()
        with self.assertRaises(ValueError):
            self.cls([1], prefetch_factor=2)

    def test_tensors_are_shared_as_chosen(self):
        made = self.patch("sharing=file_system")
        self.assertEqual(self.sharing.strategy, "file_system")
        self.assertEqual(self.outcome(made, "sharing"), "applied")
        made = self.patch("sharing=file_system")
        self.assertEqual(self.outcome(made, "sharing"), "declined")
