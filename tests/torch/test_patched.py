"""Patches inside of a real torch: what they take away, and that the losses stay.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import json
import pathlib
import subprocess
import sys
import unittest

PROGRAM = pathlib.Path(__file__).with_name("patched_of.py")


def run(program, *patches):
    done = subprocess.run([sys.executable, str(PROGRAM), program, *patches], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


class Foreach(unittest.TestCase):
    def test_the_losses_are_those_of_foreach_to_rounding_and_its_temporaries_are_gone(self):
        for optimizer in ("adamw", "sgd", "radam"):
            with self.subTest(optimizer):
                # On a CPU torch itself goes one by one: what a GPU would do is typed.
                foreach, patched = run(optimizer + "-foreach"), run(optimizer, "foreach=off")
                for with_foreach, without in zip(foreach["losses"], patched["losses"]):
                    self.assertAlmostEqual(with_foreach, without, delta=2e-6 * abs(with_foreach))
                # At the most five of eight equal layers.
                self.assertLess(patched["temporaries"], foreach["temporaries"] * 0.65)
                outcome, words = patched["patches"]["foreach"]
                self.assertEqual(outcome, "applied")
                self.assertIn(optimizer, words.lower())

    def test_a_checkpoint_has_what_the_program_said(self):
        self.assertEqual(run("adamw", "foreach=off")["foreach"], [None])

    def test_what_is_typed_stays(self):
        bare, patched = run("adamw-foreach"), run("adamw-foreach", "foreach=off")
        self.assertEqual((bare["losses"], bare["temporaries"]), (patched["losses"], patched["temporaries"]))
        self.assertEqual(patched["patches"]["foreach"][0], "declined")


class Fused(unittest.TestCase):
    def test_the_losses_are_those_of_foreach_to_rounding_and_there_are_no_temporaries(self):
        for optimizer in ("adamw", "sgd"):
            with self.subTest(optimizer):
                foreach, patched = run(optimizer + "-foreach"), run(optimizer, "fused=on")
                for with_foreach, without in zip(foreach["losses"], patched["losses"]):
                    self.assertAlmostEqual(with_foreach, without, delta=5e-6 * abs(with_foreach))
                # Steps that are counted, and nothing as large as a layer.
                self.assertLess(patched["temporaries"], 64 * 64 * 4)
                self.assertGreater(foreach["temporaries"], 8 * 64 * 64 * 4)
                outcome, words = patched["patches"]["fused"]
                self.assertEqual(outcome, "applied")
                self.assertIn("sgd" if optimizer == "sgd" else "adam", words)

    def test_a_checkpoint_is_that_of_an_unpatched_run(self):
        bare, patched = run("adamw"), run("adamw", "fused=on")
        self.assertEqual(bare["groups"], patched["groups"])
        self.assertEqual(bare["state"], patched["state"])

    def test_what_is_typed_or_has_no_fused_form_stays(self):
        for program in ("adamw-foreach", "radam"):
            bare, patched = run(program), run(program, "fused=on")
            self.assertEqual((bare["losses"], bare["temporaries"]), (patched["losses"], patched["temporaries"]))
            self.assertEqual(patched["patches"]["fused"][0], "declined")


class OutputsToRam(unittest.TestCase):
    def test_an_evaluation_says_the_same_and_keeps_few_batches(self):
        bare, patched = run("trainer"), run("trainer", "eval_outputs=2")
        for what in ("losses", "outputs", "typed"):
            self.assertEqual(bare[what], patched[what], what)
        self.assertEqual(len(bare["losses"]), 6)
        self.assertEqual(bare["come"], {"done": 23, "of": 24})
        # Two of 24 batches.
        self.assertEqual(patched["kept"] * 12, bare["kept"])
        self.assertEqual(patched["patches"]["eval_outputs"][0], "applied")
        # Logits of 96 rows of 16 words over 50, and the labels, which are int64.
        self.assertEqual(patched["measured"]["eval_outputs"], {"at": "evaluation", "to_ram": 96 * 16 * (50 * 4 + 8)})


class CompileOptions(unittest.TestCase):
    def test_a_graph_keeps_less_within_a_budget_and_losses_stay(self):
        bare, patched = run("compiled"), run("compiled", "budget=50")
        self.assertLess(int(patched["kept"]), int(bare["kept"]))
        for before, now in zip(bare["losses"], patched["losses"]):
            self.assertAlmostEqual(before, now, delta=1e-6 * abs(before))
        self.assertEqual(patched["patches"]["budget"][0], "applied")

    def test_one_graph_is_for_all_sizes(self):
        bare, patched = run("compiled"), run("compiled", "dynamic=on")
        self.assertEqual((bare["compiled"], patched["compiled"]), (4, 1))
        for before, now in zip(bare["losses"], patched["losses"]):
            self.assertAlmostEqual(before, now, delta=1e-6 * abs(before))
        self.assertEqual(patched["patches"]["dynamic"][0], "applied")

    def test_where_nothing_is_compiled_that_is_said(self):
        said = run("adamw", "budget=50", "dynamic=on")["patches"]
        self.assertEqual((said["budget"][0], said["dynamic"][0]), ("declined", "declined"))


class LoadToCpu(unittest.TestCase):
    def test_a_training_that_goes_on_from_a_checkpoint_has_the_same_losses(self):
        bare, patched = run("resumed"), run("resumed", "load=cpu")
        self.assertEqual(bare["losses"], patched["losses"])
        self.assertEqual(bare["losses"][4:8], bare["losses"][8:])
        self.assertEqual(bare["whole"], patched["whole"])
        # The whole model's file is left alone.
        self.assertEqual((bare["places"], patched["places"]), ([None, None], ["cpu", None]))
        self.assertEqual(patched["patches"]["load"], ["applied", "map_location=cpu in 1 call of torch.load"])
        # Two layers of 8 × 8 and their biases, and AdamW's two moments of each with a count.
        parameters = 2 * (8 * 8 + 8) * 4
        self.assertEqual(patched["measured"]["load"], {"at": "loading", "to_ram": 3 * parameters + 4 * 4})


class Offload(unittest.TestCase):
    def same(self, program):
        bare, patched = run(program), run(program, "offload=cpu")
        for what in ("losses", "gradients"):
            self.assertEqual(bare[what], patched[what], what)
        return patched

    def test_losses_and_gradients_are_equal_to_the_bit_and_all_that_was_moved_is_freed(self):
        for program in ("saving", "saving-twice", "saving-checkpointed", "saving-hooked"):
            with self.subTest(program):
                patched = self.same(program)
                self.assertEqual(patched["patches"]["offload"][0], "applied")
                self.assertEqual(patched["ram"]["now"], 0)
                # All but what lies within the program's own hooks.
                self.assertEqual(patched["ram"]["most"] > 8 << 20, program != "saving-hooked")

    def test_with_autocast_the_first_step_is_moved_too(self):
        bare, patched = run("saving", "amp"), run("saving", "amp", "offload=cpu")
        self.assertEqual((bare["losses"], bare["gradients"]), (patched["losses"], patched["gradients"]))
        self.assertEqual({name: said[0] for name, said in patched["patches"].items()}, {"amp": "applied", "offload": "applied"})

    def test_it_is_taken_off_for_what_forbids_hooks(self):
        outcome, words = self.same("saving-functional")["patches"]["offload"]
        self.assertEqual(outcome, "declined")
        self.assertIn("torch.func", words)


class ChunkedCrossEntropy(unittest.TestCase):
    def test_losses_and_gradients_are_the_same_to_rounding_beside_fewer_logits(self):
        bare, patched = run("words"), run("words", "cross_entropy=chunked")
        for before, after in zip(bare["losses"], patched["losses"]):
            self.assertAlmostEqual(before, after, delta=1e-5 * before)
        for before, after in zip(bare["gradients"], patched["gradients"]):
            self.assertAlmostEqual(before, after, delta=1e-4)
        outcome, words = patched["patches"]["cross_entropy"]
        self.assertEqual(outcome, "applied")
        self.assertIn("8192 × 2048", words)
        self.assertLess(patched["logits"], bare["logits"] - 0.7)


if __name__ == "__main__":
    unittest.main()
