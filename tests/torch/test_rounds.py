"""Of a round that calls several models, or goes backward several times, all is rehearsed: what it needs is what a real one
needs, counted on a card that is played on the CPU.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import gc
import pathlib
import subprocess
import sys
import unittest

import card
import on_cpu
import rehearse
import rounds_of
import torch
from _oomph_probe.rehearse import sizes

WIRE = on_cpu.install(patience=rehearse.PATIENCE)
BATCH, SMALLER = 512, 128


def peak_of_a_step(training, batch):
    """Of the first one."""
    return peak_of_steps(training, batch, 1)


def peak_of_steps(training, batch, count):
    with card.Card() as counted:
        steps = training(batch)
        for _ in range(count):
            next(steps)
    steps.close()
    gc.collect()
    return counted.peak


def line_of(training, size, batch=BATCH, count=1):
    """What is said when it runs out of memory on a card of this size; None where that is outside of a call."""
    del WIRE.lines[:]
    WIRE.forget()
    try:
        with card.Card(size):
            steps = training(batch)
            for _ in range(count):
                next(steps)
    except torch.OutOfMemoryError:
        pass
    gc.collect()
    return WIRE.lines[-1] if WIRE.lines else None


def predicted(line, batch):
    """What is there before a step, and what the step adds to it."""
    given = line["arguments"] // line["batch"] * batch
    return line["before"] - line["arguments"] + given + rehearse.peak(line, batch)


def left_as_gradients(line):
    """The bytes that the rehearsed step leaves, but for what is held beyond it: they are taken for gradients."""
    words, left, count = line["variants"][0]["trace"].split(), {}, 0
    for word in words:
        if word[0] == "-":
            del left[count - int(word[1:])]
        else:
            left[count] = sizes.size_at(word, line["batch"])
            count += 1
    return sum(size for number, size in left.items() if number not in line["variants"][0].get("held", ()))


class Rounds(unittest.TestCase):
    def test_all_of_it_is_rehearsed(self):
        for training in rounds_of.ROUNDS:
            real = {batch: peak_of_a_step(training, batch) for batch in (BATCH, SMALLER)}
            lines = [line_of(training, real[BATCH] * share) for share in (0.55, 0.9)]
            self.assertTrue(any(lines), training.__name__)
            for line in filter(None, lines):
                with self.subTest(training.__name__, phase=line["phase"]):
                    self.assertIsNone(rehearse.why_not(line))
                    self.assertTrue(line["own_loss"])
                    for batch, peak in real.items():
                        self.assertLess(abs(predicted(line, batch) / peak - 1), 0.02, batch)

    def test_what_is_carried_over_from_step_to_step(self):
        """A memory that begins empty is as large in the rehearsal as it becomes."""
        for training in rounds_of.CARRIED:
            real = {batch: peak_of_steps(training, batch, 4) for batch in (BATCH // 4, SMALLER // 4)}
            most = real[BATCH // 4]
            for share in (0.4, 0.75):
                line = line_of(training, most * share, BATCH // 4, 4)
                with self.subTest(training.__name__, share=share):
                    self.assertIsNone(rehearse.why_not(line))
                    for batch, peak in real.items():
                        given = line["arguments"] // line["batch"] * batch
                        said = line["before"] - line["arguments"] + given + rehearse.steady_peak(line, batch)
                        self.assertLess(abs(said / peak - 1), 0.03, (batch, said, peak))

    def test_a_graph_that_is_kept_ends_where_its_variables_are_bound_again(self):
        training = rounds_of.a_graph_that_is_kept
        real = {batch: peak_of_steps(training, batch, 3) for batch in (BATCH, SMALLER)}
        line = line_of(training, 0.4 * real[BATCH])
        self.assertIsNone(rehearse.why_not(line))
        for batch, peak in real.items():
            given = line["arguments"] // line["batch"] * batch
            said = line["before"] - line["arguments"] + given + rehearse.steady_peak(line, batch)
            # The batch before, which the graph holds too, is not in it.
            self.assertLess(abs(said / peak - 1), 0.05, (batch, said, peak))
        self.assertTrue(line["variants"][0]["held"])
        self.assertLessEqual(left_as_gradients(line), sum(line["trained"]))
        # A function's variables end with it.
        training = rounds_of.a_graph_that_ends_with_its_function
        line = line_of(training, 0.4 * peak_of_a_step(training, BATCH))
        self.assertIsNone(rehearse.why_not(line))
        self.assertLessEqual(left_as_gradients(line), sum(line["trained"]))

    def test_what_was_made_of_the_batch_before_the_steps_is_less_with_a_smaller_one(self):
        training = rounds_of.with_a_style
        real = {batch: peak_of_steps(training, batch, 2) for batch in (BATCH, SMALLER)}
        for share in (0.7, 0.9):
            line = line_of(training, share * real[BATCH])
            with self.subTest(share=share):
                self.assertIsNone(rehearse.why_not(line))
                # Of the style and of three layers of features.
                self.assertEqual(line["before_of_batch"], BATCH * (128 + 3 * 256) * 4)
                for batch, peak in real.items():
                    less = line["before_of_batch"] * (BATCH - batch) // BATCH
                    self.assertLess(abs((predicted(line, batch) - less) / peak - 1), 0.03, batch)
        # What each step binds anew is no such thing.
        of_others = peak_of_a_step(rounds_of.adversaries, BATCH)
        self.assertNotIn("before_of_batch", line_of(rounds_of.adversaries, 0.9 * of_others))

    def test_sampling_that_follows_the_step_is_said(self):
        size = 0.6 * peak_of_a_step(rounds_of.with_sampling_behind_it, BATCH)
        self.assertTrue(line_of(rounds_of.with_sampling_behind_it, size)["evaluates_next"])
        self.assertNotIn("evaluates_next", line_of(rounds_of.twice_over_a_batch, size))
        size = 0.6 * peak_of_a_step(rounds_of.with_a_test_behind_its_function, BATCH)
        self.assertTrue(line_of(rounds_of.with_a_test_behind_its_function, size)["evaluates_next"])
        self.assertNotIn("evaluates_next", line_of(rounds_of.an_agent, 0.9 * peak_of_a_step(rounds_of.an_agent, BATCH)))

    def test_gradients_that_are_added_up_are_said(self):
        size = 0.6 * peak_of_a_step(rounds_of.in_parts, BATCH)
        line = line_of(rounds_of.in_parts, size)
        self.assertIsNone(rehearse.why_not(line))
        self.assertTrue(line["adds_gradients"])
        self.assertNotIn("adds_gradients", line_of(rounds_of.in_one_part, size))
        self.assertNotIn("adds_gradients", line_of(rounds_of.twice_over_a_batch, size))

    def test_what_was_assumed_of_values_is_said(self):
        size = 0.6 * peak_of_a_step(rounds_of.experts_by_value, BATCH)
        self.assertTrue(line_of(rounds_of.experts_by_value, size)["assumes_values"])
        # These follow from the mask, which was there.
        size = 0.6 * peak_of_a_step(rounds_of.a_mask_that_is_asked, BATCH)
        self.assertNotIn("assumes_values", line_of(rounds_of.a_mask_that_is_asked, size))

    def test_what_a_variable_holds_ends_where_it_is_bound_again(self):
        size = 0.9 * peak_of_a_step(rounds_of.adversaries, BATCH)
        (step, *_) = line_of(rounds_of.adversaries, size)["variants"]
        self.assertEqual(len(step["held"]), len(step["until"]))
        # The losses of the discriminator are bound behind the generator's backward.
        self.assertGreater(max(step["until"]), step["loss"])


class AtTheEnd(unittest.TestCase):
    """Out of memory outside of a call that was noted: `late.py`."""

    def said(self, mode):
        program = pathlib.Path(__file__).with_name("late.py")
        done = subprocess.run([sys.executable, str(program), mode], capture_output=True, text=True, timeout=300)
        bare = subprocess.run([sys.executable, str(program), mode, "bare"], capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (bare.returncode, bare.stderr))
        self.assertEqual(done.returncode, 1)
        return eval(done.stdout)

    def test_in_the_programs_own_loss(self):
        (line,) = self.said("loss")
        self.assertIsNone(rehearse.why_not(line))
        self.assertTrue(line["own_loss"])

    def test_an_evaluation_of_later_steps(self):
        (line,) = self.said("evaluation")
        self.assertIsNone(rehearse.why_not(line))
        self.assertEqual((line["phase"], line["batch"], line["evaluates"]), ("evaluation", 48, True))
        # Nothing is kept for a backward: two layers' outputs at once, and what is returned.
        self.assertLess(rehearse.peak(line, 48), 4 * 48 * 64 * 4)

    def test_an_evaluation_before_the_first_step(self):
        (line,) = self.said("before")
        self.assertIsNone(rehearse.why_not(line))
        self.assertEqual((line["phase"], line["evaluated"]), ("evaluation", True))
        # A step at that batch.
        self.assertGreater(rehearse.peak(line, 48), 4 * 48 * 64 * 4)


if __name__ == "__main__":
    unittest.main()
