"""What is read of DeepSpeed's objects: played by ones of the same names."""
import sys
import types
import unittest

import support  # noqa: F401
from _oomph_probe.oom import zero


class Tensor:
    def __init__(self, size, on=0, address=None):
        self.size, self.is_cuda, self.device = size, on is not None, types.SimpleNamespace(index=on)
        self.address = id(self) if address is None else address
        self.grad = None

    def untyped_storage(self):
        return types.SimpleNamespace(data_ptr=lambda: self.address, nbytes=lambda: self.size)

    def element_size(self):
        return 2


class DeepSpeedEngine:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def forward(self):
        return zero.of(TORCH, [sys._getframe()], 0)


TORCH = types.SimpleNamespace(
    Tensor=Tensor, distributed=types.SimpleNamespace(get_world_size=lambda group=None: 4),
)


def optimizer(name="DeepSpeedZeroOptimizer", **own):
    kind = type(name, (), {"__module__": "deepspeed.runtime.zero.stage_1_and_2"})
    made = kind()
    made.__dict__.update(own)
    return made


class Zero(unittest.TestCase):
    def test_each_part_has_its_tensors_and_none_counts_twice(self):
        flat = Tensor(1000)
        view = Tensor(1000, address=flat.address)
        parameter = Tensor(1000, address=flat.address)
        parameter.grad = Tensor(300)
        inner = types.SimpleNamespace(state={1: {"exp_avg": Tensor(500), "step": Tensor(4, on=None)}})
        line = DeepSpeedEngine(optimizer(
            bit16_groups_flat=[flat], bit16_groups=[[parameter]], single_partition_of_fp32_groups=[Tensor(500), view],
            averaged_gradients={0: [Tensor(250)]}, partition_gradients=True, reduce_bucket_size=500, optimizer=inner,
        )).forward()
        self.assertEqual(line, {
            "stage": 2, "world": 4, "parameters": 1000, "whole": 1000, "master": 500, "gradients": 550, "buckets": 0,
            "gathered": 0, "state": 500, "bucket_elements": 500,
        })

    def test_stage_three_tells_what_is_gathered(self):
        gathered, shard = Tensor(800), Tensor(200)
        gathered.ds_tensor, gathered.ds_numel = shard, 400
        line = DeepSpeedEngine(optimizer(
            "DeepSpeedZeroOptimizer_Stage3", fp16_partitioned_groups_flat=[shard], fp16_groups=[[gathered]],
            offload_optimizer=True, optimizer=None,
        )).forward()
        self.assertEqual((line["stage"], line["parameters"], line["gathered"], line["whole"]), (3, 200, 800, 800))
        self.assertTrue(line["offloads_optimizer"])

    def test_another_device_and_other_engines_are_nothing(self):
        line = DeepSpeedEngine(optimizer(bit16_groups_flat=[Tensor(1000, on=1)])).forward()
        self.assertEqual(line["parameters"], 0)
        self.assertIsNone(DeepSpeedEngine(types.SimpleNamespace()).forward())
        self.assertIsNone(zero.of(TORCH, [sys._getframe()], 0))


if __name__ == "__main__":
    unittest.main()
