"""Compiled models whose parameters `fully_shard` has divided, in the orders in which programs compile and shard: what a rehearsal says of a
step is what PyTorch's own profile of memory counts, and nothing is compiled by it. One rank of two, whose process group does nothing
by itself.

By hand: python3 -m unittest test_compiled_shards
"""
import unittest

import on_cpu
import torch
import torch.nn.functional as F
from compiled_of import Decoder, Held, blocks_in_place, blocks_wrapped, unnamed, whole
from torch.utils.checkpoint import checkpoint

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore
except ImportError:
    raise unittest.SkipTest("this torch has no fully_shard") from None

WIRE = on_cpu.install(patience=60)
torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
MESH = init_device_mesh("cpu", (2,))

def sharded(model):
    for block in model.blocks:
        fully_shard(block, mesh=MESH)
    return fully_shard(model, mesh=MESH)


class Recomputed(Decoder):
    def forward(self, x, targets):
        blocks = list(self.blocks)
        x = self.embedding(x)
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False)
        logits = self.head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Sharded(Held):
    WIRE = WIRE

    def test_blocks_that_are_compiled_and_then_sharded(self):
        self.held_to(lambda: sharded(blocks_in_place(Decoder())))
        # Each block is what torch.compile returned for it, of a class that `fully_shard` has made.
        self.held_to(lambda: sharded(blocks_wrapped(Decoder())))

    def test_a_sharded_module_that_is_compiled_goes_on_behind_each_hook(self):
        self.held_to(lambda: whole(sharded(Decoder())))

    def test_a_loss_that_no_line_binds(self):
        self.held_to(lambda: sharded(blocks_in_place(Decoder())), step=unnamed)

    def test_compiled_blocks_that_are_recomputed(self):
        self.held_to(lambda: sharded(blocks_in_place(Recomputed())))


if __name__ == "__main__":
    unittest.main()
