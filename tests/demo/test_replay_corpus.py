"""The demo's simulated GPU and oomph's replay of the allocator make the same of the same traces (tests/allocator)."""
import os
import unittest

import replay_corpus
from support import ROOT


class Corpus(unittest.TestCase):
    def test_made_up_traces(self):
        with open(os.path.join(ROOT, "tests", "allocator", "made_up.txt")) as file:
            cases = list(replay_corpus.cases(file.read()))
        self.assertGreaterEqual(len(cases), 60)
        for settings, device, cap, expected, trace in cases:
            said = [str(figure) for figure in replay_corpus.play(trace, settings, device, cap)]
            self.assertEqual(said, expected, trace[:60])


if __name__ == "__main__":
    unittest.main()
