"""Compiled models under DistributedDataParallel, in the orders in which programs compile and wrap: what a rehearsal says of a step is what
PyTorch's own profile of memory counts, and nothing is compiled by it. One rank over gloo.

By hand: python3 -m unittest test_compiled_ddp
"""
import unittest

import on_cpu
import torch
from compiled_of import Decoder, Held, blocks_in_place, in_place, unnamed, whole
from torch.nn.parallel import DistributedDataParallel

WIRE = on_cpu.install(patience=60)
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
# So small that the model has several, and its graph as many parts.
BUCKETS = 0.05
torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = 1 << 14


def reduced(model, **how):
    return DistributedDataParallel(model, bucket_cap_mb=BUCKETS, **how)


class Reduced(Held):
    WIRE = WIRE
    # Of a model as small as this one a bucket is a few hundredths, and one more is there for a moment.
    CLOSE = 0.04

    def test_a_compiled_module_that_is_wrapped_afterwards(self):
        line = self.held_to(lambda: reduced(whole(Decoder())))
        # Here gradients lie beside the buckets; what it would be if they were views of these is put together of the same graphs.
        (other,) = [each for each in line["variants"] if each.get("change") == "in_buckets"]
        freed = [each["trace"].count("-") for each in (line["variants"][0], other)]
        self.assertEqual(freed[1] - freed[0], len(line["trained"]))

    def test_a_wrapped_module_that_is_compiled_afterwards_in_parts_as_large_as_a_bucket(self):
        self.held_to(lambda: whole(reduced(Decoder(), gradient_as_bucket_view=True)))
        self.held_to(lambda: in_place(reduced(Decoder())))

    def test_compiled_blocks_of_a_wrapped_module(self):
        self.held_to(lambda: reduced(blocks_in_place(Decoder())))

    def test_a_loss_that_no_line_binds(self):
        self.held_to(lambda: reduced(blocks_in_place(Decoder())), step=unnamed)
        self.held_to(lambda: reduced(whole(Decoder())), step=unnamed)


if __name__ == "__main__":
    unittest.main()
