"""What a forward changes outside of its model is changed in a rehearsal's copies alone: the step is rehearsed with all of its
losses and features, and the program's own objects stay as the out-of-memory left them.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import gc
import unittest
import weakref

import outside_of
import rehearse
import torch
from test_rounds import BATCH, SMALLER, WIRE, line_of, peak_of_a_step, predicted

SHARES = (0.6, 0.9)


class Outside(unittest.TestCase):
    def setUp(self):
        self.kept = []
        ran_out = WIRE.every.ran_out

        def watched(*args, **kwargs):
            before = outside_of.state()
            try:
                ran_out(*args, **kwargs)
            finally:
                self.kept.append((before, outside_of.state()))

        WIRE.every.ran_out = watched
        self.addCleanup(delattr, WIRE.every, "ran_out")

    def test_it_is_rehearsed(self):
        for training in outside_of.OUTSIDE:
            real = {batch: peak_of_a_step(training, batch) for batch in (BATCH, SMALLER)}
            for share in SHARES:
                line = line_of(training, real[BATCH] * share)
                with self.subTest(training.__name__, share=share):
                    self.assertIsNone(rehearse.why_not(line))
                    self.assertTrue(line["own_loss"])
                    self.assertEqual(line.get("changes_outside", False), training.__name__ != "by_its_own_forward")
                    for batch, peak in real.items():
                        self.assertLess(abs(predicted(line, batch) / peak - 1), 0.02, (batch, peak))

    def test_what_the_program_lets_go_of_afterwards_is_gone(self):
        gone = []
        ran_out = WIRE.every.ran_out

        def watched(*args, **kwargs):
            latest = weakref.ref(outside_of.LATEST)
            ran_out(*args, **kwargs)
            outside_of.LATEST = None
            gone.append(latest() is None)

        WIRE.every.ran_out = watched
        gc.disable()
        self.addCleanup(gc.enable)
        for training in outside_of.OUTSIDE:
            del gone[:]
            # The card has no room for it when memory has run out.
            outside_of.LATEST = torch.zeros(4)
            line_of(training, 0.8 * peak_of_a_step(training, BATCH))
            with self.subTest(training.__name__):
                self.assertTrue(gone and all(gone))

    def test_the_programs_own_is_as_it_was(self):
        for training in outside_of.OUTSIDE:
            del self.kept[:]
            line_of(training, 0.8 * peak_of_a_step(training, BATCH))
            with self.subTest(training.__name__):
                self.assertTrue(self.kept)
                for before, after in self.kept:
                    self.assertEqual(before, after)


if __name__ == "__main__":
    unittest.main()
