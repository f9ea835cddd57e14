"""demo/train.py on simulated GPUs: each scenario ends as it says, by the simulated allocator's arithmetic."""
import concurrent.futures
import re
import unittest

from support import GIB, MIB, simulated

EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
ENOUGH = ("--steps", "4")
"""Two steps past the warm-up of the growth scenario, which takes half of them."""


class Scenarios(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        wanted = {
            "leak": (("--scenario", "leak", "--card", "8"), {}),
            "leak at 32": (("--scenario", "leak", "--card", "8", "--batch-size", "32"), {}),
            "eval": (("--scenario", "eval", "--card", "8"), {}),
            "none": (("--scenario", "none", "--card", "8", "--steps", "12"), {}),
            "amp": (("--card", "8", "--amp") + ENOUGH, {}),
            "growth": (("--scenario", "growth", "--card", "8"), {}),
            "growth at 32": (("--scenario", "growth", "--card", "8", "--batch-size", "32") + ENOUGH, {}),
            "others": (("--scenario", "none", "--card", "8"), {"OOMPH_SIMULATED_FOREIGN_GIB": "5"}),
        }
        for card in ("8", "24", "141"):
            wanted["64 on " + card] = (("--card", card), {})
            wanted["32 on " + card] = (("--card", card, "--batch-size", "32", "--grad-accum", "2") + ENOUGH, {})
            wanted["expandable 64 on " + card] = (("--card", card), EXPANDABLE)
        for model in ("cnn", "mlp"):
            wanted[model + " 64"] = (("--model", model), {})
            wanted[model + " 32"] = (("--model", model, "--batch-size", "32", "--grad-accum", "2") + ENOUGH, {})
        for name, words in (
            ("gpt", ("--card", "8")),
            ("cnn", ("--card", "24", "--model", "cnn")),
            ("mlp", ("--card", "141", "--model", "mlp")),
        ):
            wanted["fragmented " + name] = (("--scenario", "fragmentation") + words, {})
            wanted["mended " + name] = (("--scenario", "fragmentation") + words, EXPANDABLE)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            started = {
                name: pool.submit(simulated, *words, **changes) for name, (words, changes) in wanted.items()
            }
            cls.runs = {name: future.result() for name, future in started.items()}

    def out_of_memory(self, name):
        run = self.runs[name]
        self.assertEqual(run.status, 1, run.output + run.errors)
        self.assertIsNotNone(run.oom, run.errors)
        return run

    def finished(self, name):
        run = self.runs[name]
        self.assertEqual(run.status, 0, run.errors)
        self.assertEqual(run.errors, "")
        return run

    def test_batch_64_does_not_fit_on_any_card_and_is_no_fragmentation(self):
        for card in (8, 24, 141):
            run = self.out_of_memory("64 on %d" % card)
            self.assertGreater(run.oom_size("allocated") + run.oom_size("requested") + 500 * MIB, 0.99 * card * GIB)
            self.assertLess(run.oom_size("unallocated"), 0.01 * card * GIB)

    def test_expandable_segments_alone_make_no_room_for_it(self):
        for card in (8, 24, 141):
            self.out_of_memory("expandable 64 on %d" % card)

    def test_batch_64_needs_all_of_it_from_the_first_step_on(self):
        for name in ("64 on 24", "cnn 64", "mlp 64"):
            self.assertEqual(self.ended_after(name), 1)

    def test_what_grows_later_runs_for_some_steps(self):
        self.assertEqual(self.ended_after("growth"), 25)
        self.assertLess(self.runs["growth"].oom_size("unallocated"), 0.01 * 8 * GIB)
        self.assertAlmostEqual(self.finished("growth at 32").peak / 8, 0.63, delta=0.05)

    def test_batch_32_fits_on_each_with_a_third_to_spare(self):
        for card in (8, 24, 141):
            self.assertAlmostEqual(self.finished("32 on %d" % card).peak / card, 0.63, delta=0.05)

    def test_the_other_models_are_sized_alike(self):
        for model in ("cnn", "mlp"):
            self.out_of_memory(model + " 64")
            self.assertAlmostEqual(self.finished(model + " 32").peak / 24, 0.63, delta=0.06)

    def test_amp_makes_batch_64_fit(self):
        run = self.finished("amp")
        # Linear layers and attention keep halves, norms keep whole floats: between 0.5 and 0.7 of 9.8 GiB.
        self.assertTrue(0.5 * 9.8 < run.peak < 0.7 * 9.8, run.peak)

    def test_fragmentation_ends_without_expandable_segments_and_finishes_with_them(self):
        for model in ("gpt", "cnn", "mlp"):
            run = self.out_of_memory("fragmented " + model)
            self.assertGreater(run.oom_size("unallocated"), 4 * run.oom_size("requested") if model == "gpt" else 0)
            self.assertGreater(run.oom_size("unallocated"), run.oom_size("requested"))
            self.assertLess(run.oom_size("allocated"), 0.86 * run.oom_size("capacity"))
            self.finished("mended " + model)

    def test_a_leak_ends_at_64_and_later_at_32(self):
        self.assertGreater(self.ended_after("leak at 32"), 1.5 * self.ended_after("leak"))

    def ended_after(self, name):
        """The steps of a run that ran out of memory."""
        return int(re.search(r"ended in step (\d+)", self.out_of_memory(name).output).group(1))

    def test_evaluation_piles_graphs_up(self):
        run = self.out_of_memory("eval")
        self.assertIn("in validate", run.errors)
        self.assertNotIn("in train_step", run.errors)

    def test_a_training_that_fits_finishes(self):
        run = self.finished("none")
        self.assertIn("finished 12 steps", run.output)
        self.assertLess(run.peak, 0.65 * 8)

    def test_others_on_the_card_are_named(self):
        run = self.out_of_memory("others")
        self.assertEqual(run.oom_size("foreign"), 5 * GIB)

    def test_everything_says_that_it_is_simulated(self):
        for run in self.runs.values():
            first, second = run.output.splitlines()[:2]
            self.assertTrue(first.startswith("simulated GPU ("), first)
            self.assertIn("on simulated GPU (", second)


class Progress(unittest.TestCase):
    def test_the_same_seed_gives_the_same_run(self):
        words = ("--scenario", "fragmentation", "--model", "mlp", "--card", "8", "--steps", "5", "--seed", "3")
        first, second = simulated(*words), simulated(*words)
        self.assertEqual(first.peak, second.peak)

    def test_bad_words_are_refused_before_anything_runs(self):
        for words, refusal in (
            (("--batch-size", "0"), "'0' is not a whole number of at least 1"),
            (("--card", "one"), "'one' is not a size between 2 and 4096 GiB"),
            (("--scenario", "luck"), "invalid choice: 'luck'"),
            (("--real",), "not allowed with argument --simulated"),
        ):
            run = simulated(*words)
            self.assertEqual((run.status, run.output), (2, ""))
            self.assertIn(refusal, run.errors)


if __name__ == "__main__":
    unittest.main()
