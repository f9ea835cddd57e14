"""Real ranks over gloo: what a rehearsal says of a sharded step is what torch's own tracker counts, and it sends nothing; what is
patched is in force, and the losses stay.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import rehearse

HERE = pathlib.Path(__file__).parent
# How far it may be off: the allocator's blocks are a little larger than what torch counts.
CLOSE = 0.01


def run(program, name, *words):
    port = str(20000 + os.getpid() % 20000)
    command = [sys.executable, str(HERE / program), name, port, *words]
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=environment)
    if done.returncode != 0:
        raise AssertionError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


class Rehearsed(unittest.TestCase):
    def check(self, *kinds, close=CLOSE):
        for kind in kinds:
            with self.subTest(kind):
                said = run("ranks_of.py", kind)
                self.assertEqual(said["sent"], [], "nothing is asked of the other ranks")
                line, tracked = said["line"], said["tracked"]["Total"]
                self.assertIsNone(rehearse.why_not(line))
                told = sum(line["weights"]) + rehearse.peak(line, said["batch"])
                # On a CPU the tracker counts what lies in RAM, too.
                self.assertAlmostEqual(told / (tracked - said["in_ram"]), 1.0, delta=close)

    def test_fully_shard(self):
        self.check("whole", "fsdp2", "fsdp2-whole")
        # Kernels of CPUs take more for themselves in bf16.
        self.check("fsdp2-bf16", close=0.05)

    def test_shards_in_ram(self):
        self.check("fsdp2-offload")

    def test_shards_that_are_replicated_or_kept_among_fewer(self):
        self.check("fsdp2-hybrid", "fsdp2-hybrid-reduced", "fsdp2-of-two")

    def test_fully_sharded_data_parallel(self):
        self.check("fsdp1", "fsdp1-grad", "fsdp1-bf16", "fsdp1-hybrid", "fsdp1-hybrid-grad")


class Asked(unittest.TestCase):
    """What torch's tracker does not count: nothing is sent, and what cannot be rehearsed is said."""

    def told(self, kind):
        said = run("ranks_of.py", kind)
        self.assertEqual(said["sent"], [], kind)
        return said

    def test_replicas_and_steps_that_send_nothing(self):
        for kind in ("ddp", "ddp-no-sync", "fsdp1-no-sync"):
            with self.subTest(kind):
                line = self.told(kind)["line"]
                self.assertIsNone(rehearse.why_not(line))
                self.assertEqual(line["ranks"], 2)
                self.assertTrue(line["variants"][0]["trace"])

    def test_tensor_parallelism_is_not_rehearsed(self):
        line = self.told("tensors")["line"]
        self.assertIn("tensor parallelism, which is not rehearsed", line["variants"][0]["why_not"])
        self.assertFalse(any(variant.get("trace") for variant in line["variants"]))

    def test_a_pipeline_is_not_rehearsed(self):
        told = self.told("stages")
        self.assertIsNone(told["line"])
        self.assertEqual(told["why_not"], "pipeline parallelism is not rehearsed")


class Patched(unittest.TestCase):
    def compared(self, name, *patches):
        bare, patched = run("ranks_patched.py", name), run("ranks_patched.py", name, *patches)
        return bare, patched

    def test_gradients_lie_in_the_buckets_and_losses_are_equal_to_the_bit(self):
        for name in ("ddp", "ddp-zeroed"):
            with self.subTest(name):
                bare, patched = self.compared(name, "gradients=buckets")
                self.assertEqual(bare["losses"], patched["losses"])
                self.assertEqual((bare["is"]["views"], patched["is"]["views"]), (False, True))
                self.assertEqual(patched["patches"]["gradients"][0], "applied")
                if name == "ddp":
                    self.assertLess(patched["peak"], bare["peak"])

    def test_parameters_are_divided_again_and_losses_are_equal_to_the_bit(self):
        for name in ("fsdp2-whole", "fsdp2-set-later", "fsdp1"):
            with self.subTest(name):
                bare, patched = self.compared(name, "reshard=on")
                self.assertEqual(bare["losses"], patched["losses"])
                self.assertEqual(patched["patches"]["reshard"][0], "applied")
                if name == "fsdp1":
                    self.assertEqual((patched["is"]["strategies"], patched["is"]["limits"]), (["FULL_SHARD"], [True]))
                else:
                    # The outermost module's are needed at once in backward.
                    self.assertEqual(patched["is"]["reshards"][1:], [True, True, True])

    def test_head_and_loss_are_fused_and_ranks_reduce_the_same_gradients(self):
        for name, fused in (("ddp", 4), ("ddp-unused", 0), ("ddp-static", 3)):
            with self.subTest(name):
                bare, patched = self.compared(name, "head=100x64")
                for before, now in zip(bare["losses"], patched["losses"]):
                    self.assertAlmostEqual(float.fromhex(before), float.fromhex(now), delta=1e-5)
                for before, now in zip(bare["gradients"], patched["gradients"]):
                    self.assertAlmostEqual(before, now, delta=1e-4)
                # With these there is a node of DistributedDataParallel's own behind the model, which must not be passed
                # by; of a static graph in the first step.
                self.assertEqual(patched["fused"], fused)

    def test_a_head_whose_weight_is_divided_is_left_alone(self):
        for name in ("fsdp2", "fsdp1"):
            with self.subTest(name):
                patched = run("ranks_patched.py", name, "head=100x64")
                self.assertEqual((patched["patches"]["head"][0], patched["fused"]), ("declined", 0))

    def test_parameters_are_gathered_in_bf16(self):
        for name in ("fsdp2", "fsdp1"):
            with self.subTest(name):
                bare, patched = self.compared(name, "shards=bf16")
                for before, now in zip(bare["losses"], patched["losses"]):
                    self.assertAlmostEqual(float.fromhex(before), float.fromhex(now), delta=0.05)
                self.assertLess(patched["peak"], bare["peak"])
                self.assertEqual(patched["is"]["gathered"], ["torch.bfloat16"])
                self.assertEqual(patched["patches"]["shards"][0], "applied")

    def test_what_the_program_says_stays(self):
        for name, patch in (("ddp-views", "gradients=buckets"), ("fsdp2", "reshard=on"), ("fsdp2-own-precision", "shards=bf16")):
            with self.subTest(name):
                bare, patched = self.compared(name, patch)
                self.assertEqual((bare["losses"], bare["is"]), (patched["losses"], patched["is"]))
                self.assertEqual(patched["patches"][patch.partition("=")[0]][0], "declined")


if __name__ == "__main__":
    unittest.main()
