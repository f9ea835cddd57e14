"""Where memory runs out in a call without gradients that a training step begins with, the step is rehearsed, and not an
evaluation: what it needs is what a real one needs, counted on a card that is played on the CPU.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import unittest

import rehearse
import targets_of
from test_rounds import BATCH, SMALLER, line_of, peak_of_a_step, peak_of_steps, predicted

# Of a step's need; at the least of them the first call of a step runs out.
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def lines_in_the_target(training, most):
    """What is said where memory runs out before anything with gradients is called."""
    for share in SHARES:
        line = line_of(training, most * share)
        if targets_of.here[0] == "target" and line is not None:
            yield share, line


class Targets(unittest.TestCase):
    def test_the_step_is_rehearsed(self):
        for training in targets_of.TARGETS:
            real = {batch: peak_of_a_step(training, batch) for batch in (BATCH, SMALLER)}
            found = list(lines_in_the_target(training, real[BATCH]))
            self.assertTrue(found, training.__name__)
            for share, line in found:
                with self.subTest(training.__name__, share=share):
                    self.assertIsNone(rehearse.why_not(line))
                    self.assertEqual(line["phase"], "forward")
                    self.assertTrue(line["own_loss"])
                    self.assertNotIn("evaluates", line)
                    self.assertFalse(line.get("evaluated"))
                    for batch, peak in real.items():
                        self.assertLess(abs(predicted(line, batch) / peak - 1), 0.02, (batch, peak))

    def test_an_evaluation_before_the_training_is_none_of_it(self):
        training = targets_of.an_evaluation_before_the_training
        found = list(lines_in_the_target(training, peak_of_a_step(training, BATCH)))
        self.assertTrue(found)
        for share, line in found:
            with self.subTest(share=share):
                self.assertEqual(line["phase"], "evaluation")
                self.assertIsNone(rehearse.why_not(line))

    def test_what_an_evaluation_binds_a_training_holds_as_well(self):
        """The loss is read from the model, and the logits stay until the next forward has returned."""
        training = targets_of.an_evaluation_that_binds_its_logits
        real = peak_of_steps(training, BATCH, 3)
        found = list(lines_in_the_target(training, real))
        self.assertTrue(found)
        for share, line in found:
            with self.subTest(share=share):
                self.assertTrue(line["own_loss"])
                steady = line["before"] + rehearse.steady_peak(line, BATCH)
                self.assertLess(abs(steady / real - 1), 0.05, (steady, real))


if __name__ == "__main__":
    unittest.main()
