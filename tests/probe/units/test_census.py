"""What a process is found to be changeable in, once memory has run out."""
import gc
import sys
import types

import fake_torch
from fake_torch import Tensor, bfloat16
from patching import Block, Net, PatchTest, frozen
from _oomph_probe.oom import census
from _oomph_probe.patch import loader


class BatchSampler:
    pass


class Own:
    pass


class DataLoader:
    def __init__(self, batch_size, sampler=None):
        self.dataset, self.batch_size, self.batch_sampler = [], batch_size, sampler or BatchSampler()


class _BaseDataLoaderIter:
    def __init__(self, of):
        self._dataset = of.dataset


def segments(*blocks):
    return [{"blocks": [dict(size=size, state=state, frames=stack) for size, state, stack in blocks]}]


class Found(PatchTest):
    def setUp(self):
        super().setUp()
        gc.collect()
        module = types.ModuleType("torch.utils.data.dataloader")
        module.DataLoader, module._BaseDataLoaderIter = DataLoader, _BaseDataLoaderIter
        sys.modules["torch.utils.data.dataloader"] = module
        self.addCleanup(sys.modules.pop, "torch.utils.data.dataloader", None)

    def take(self, segments=()):
        return census.Census(self.torch, 7).take(0, segments)

    def test_the_models_blocks_are_named_and_a_teachers_are_not(self):
        net, teacher = Net([Block(), Block(), Block()]), frozen(Net([Block(), Block()]))
        line = self.take()
        self.assertEqual(line["models"], ["Net"])
        self.assertEqual(line["blocks"], [{"class": "Block", "count": 3}])
        self.assertEqual((line["event"], line["pid"], line["bf16"]), ("patchable", 7, True))
        self.assertNotIn("precision", line)
        del net, teacher

    def test_sparse_matrices_are_no_matter_for_autocast(self):
        net, matrix = Net([Block()]), Tensor()
        self.torch.strided, matrix.layout = "strided", "strided"
        self.assertNotIn("amp_left", self.take())
        matrix.layout = "sparse_coo"
        self.assertIn("sparse matrices", self.take()["amp_left"])
        net.sparse = True
        self.assertNotIn("amp_left", self.take(), "an embedding's gradient")

    def test_one_that_shares_cuda_tensors_with_another_says_so(self):
        reductions = types.ModuleType("torch.multiprocessing.reductions")
        sys.modules["torch.multiprocessing.reductions"] = reductions
        self.addCleanup(sys.modules.pop, "torch.multiprocessing.reductions", None)
        self.assertNotIn("shares_cuda", self.take())
        # A file's numbers and its name: tensors of the host.
        reductions.shared_cache = {(17, 4711): None, b"/torch_1_2_3": None}
        self.assertNotIn("shares_cuda", self.take())
        # Received by a handle and an offset, sent by the handle alone.
        for key in ((b"c" + bytes(64), 512), b"c" + bytes(64)):
            reductions.shared_cache = {b"/torch_1_2_3": None, key: None}
            self.assertIs(self.take()["shares_cuda"], True)

    def test_one_that_normalizes_by_the_batch_is_named_while_it_trains(self):
        kind = type("BatchNorm2d", (type("_BatchNorm", (type(Block()),), {}),), {})
        norm = kind()
        net = Net([norm, Block()])
        norm.training = True
        self.assertEqual(self.take()["batch_norm"], "BatchNorm2d")
        norm.training = False
        self.assertNotIn("batch_norm", self.take())
        del net

    def test_what_their_forward_holds_is_counted_by_the_recorded_lines(self):
        net = Net([Block(), Block()])
        code = Block.forward.__code__

        def frame(line, name="forward", file=code.co_filename):
            return {"filename": file, "line": line, "name": name}

        inside = [frame(1, "linear", "torch.py"), frame(code.co_firstlineno + 1)]
        line = self.take(
            segments(
                (100, "active_allocated", inside),
                (20, "active_allocated", inside),
                (7, "inactive", inside),
                (5, "active_allocated", []),
                (3, "active_allocated", [frame(1)]),
                (3, "active_allocated", [frame(code.co_firstlineno, "step")]),
            )
        )
        self.assertEqual(line["blocks"][0]["held"], 120)
        del net

    def test_checkpointing_that_is_on_and_saves_nothing_says_why(self):
        net = Net([Block(), Block()])
        net.supports_gradient_checkpointing = net.is_gradient_checkpointing = True
        for block in net.blocks:
            block.gradient_checkpointing = True
        code = Block.forward.__code__
        own = {"filename": code.co_filename, "line": code.co_firstlineno + 1, "name": "forward"}
        through = {"filename": "/env/torch/utils/checkpoint.py", "line": 9, "name": "checkpoint"}
        bare = segments((100, "active_allocated", [own]))
        (line,) = self.take(bare)["blocks"]
        self.assertEqual(line["left"], "they are already checkpointed")
        self.assertIn("does not pass through torch.utils.checkpoint", line["idle"])
        for block in net.blocks:
            block.training = False
        (line,) = self.take(bare)["blocks"]
        self.assertIn("model.train()", line["idle"])
        (line,) = self.take(segments((100, "active_allocated", [own, through])))["blocks"]
        self.assertEqual((line["held"], "idle" in line), (100, False))
        net.is_gradient_checkpointing = False
        (line,) = self.take(bare)["blocks"]
        self.assertNotIn("idle", line)
        del net

    def test_a_precision_of_its_own_is_noticed(self):
        net = Net([Block(), Block()])
        logits = Tensor(1.0, bfloat16)
        self.assertIn("half-precision", self.take()["precision"])
        del logits
        scaler = fake_torch.GradScaler()
        self.assertIn("GradScaler", self.take()["precision"])
        del scaler, net

    def test_what_fsdp_has_is_not_offered_autocast(self):
        net = Net([Block(), Block()])
        net.__class__ = type("FSDPNet", (Net,), {})
        self.assertIn("FSDP", self.take()["precision"])
        del net

    def test_the_batch_of_the_loaders_in_use(self):
        train, validation = DataLoader(64), DataLoader(16)
        self.assertEqual(self.take()["batch_left"], "DataLoaders of several batches are in use")
        iterator = _BaseDataLoaderIter(train)
        self.assertEqual(self.take()["batch"], 64)
        vars(train)[loader.ASKED] = 128
        line = self.take()
        self.assertEqual((line["batch"], line["batch_asked"]), (64, 128))
        train.batch_sampler = Own()
        self.assertIn("batch sampler", self.take()["batch_left"])
        del iterator, validation

    def test_a_process_of_too_many_objects_is_left(self):
        self.assertFalse(census.ObjectScan(self.torch).look(until=0.0))

    def test_it_is_not_asked_again_at_once(self):
        asked = census.Census(self.torch, 7)
        self.assertTrue(asked.is_due(10.0))
        asked.take(0, ())
        self.assertFalse(asked.is_due(asked.taken_at + 1.0))
        # A clock's sum and difference may be off by its last digit.
        self.assertTrue(asked.is_due(asked.taken_at + census.EVERY + 0.001))
