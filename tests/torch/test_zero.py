"""What is told of DeepSpeed's ZeRO, by DeepSpeed itself on the CPU: each stage's parts against sums made here from the model.
Skipped where DeepSpeed is not installed (`DS_BUILD_OPS=0 DS_ACCELERATOR=cpu pip install deepspeed`). Two steps of each stage
in a process of its own, since an engine owns its process.
"""
import json
import os
import subprocess
import sys
import unittest
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
WIDTH, LAYERS = 256, 4
PARAMETERS = LAYERS * (WIDTH * WIDTH + WIDTH)
PROGRAM = """
import json, os, sys
sys.path.insert(0, %(here)r)
import rehearse  # noqa: F401
import torch
import deepspeed
from _oomph_probe.oom import zero
# It would be compiled, and one process needs none.
sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
model = torch.nn.Sequential(*[torch.nn.Linear(%(width)d, %(width)d) for _ in range(%(layers)d)])
settings = {
    "train_micro_batch_size_per_gpu": 4,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": %(stage)d, "reduce_bucket_size": 100000},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
}
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
told = {}
def tell(moment):
    class DeepSpeedEngine:
        pass
    def running(self):
        found = zero.optimizer_of([sys._getframe()])
        told[moment] = zero.Ledger(torch, found, lambda tensor: True).line()
    running(engine)
for step in range(2):
    loss = engine(torch.randn(4, %(width)d, dtype=torch.bfloat16)).float().pow(2).mean()
    engine.backward(loss)
    if step:
        tell("after backward")
    engine.step()
tell("after step")
print("told", json.dumps(told), flush=True)
"""


@unittest.skipUnless(find_spec("deepspeed"), "DeepSpeed is not installed")
class Zero(unittest.TestCase):
    def told(self, stage):
        program = PROGRAM % {"here": str(HERE), "width": WIDTH, "layers": LAYERS, "stage": stage}
        env = dict(
            os.environ, DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(29610 + stage),
        )
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=600)
        lines = [line for line in done.stdout.splitlines() if line.startswith("told ")]
        self.assertTrue(lines, done.stderr[-3000:])
        return json.loads(lines[-1][5:])

    def near(self, told, wanted, part):
        # Flat buffers are padded.
        self.assertAlmostEqual(told, wanted, delta=4096, msg=part)

    def check(self, stage):
        of = self.told(stage)
        after = of["after backward"]
        self.assertEqual((after["stage"], after["world"], after["bucket_elements"]), (stage, 1, 100000))
        self.near(after["parameters"], 2 * PARAMETERS, "bf16 parameters")
        self.near(after["master"], 4 * PARAMETERS, "fp32 copy")
        self.near(after["state"], 8 * PARAMETERS, "Adam's two moments")
        self.assertGreaterEqual(after["gradients"], 2 * PARAMETERS - 4096)
        self.assertLessEqual(after["gradients"] + after["buckets"], 4 * PARAMETERS + 4 * 100000)
        self.near(of["after step"]["master"], 4 * PARAMETERS, "fp32 copy after the step")

    def test_stage_one(self):
        self.check(1)

    def test_stage_two(self):
        self.check(2)

    def test_stage_three(self):
        self.check(3)


if __name__ == "__main__":
    unittest.main()
