"""How long a program waits for us once memory has run out: all parts together, whatever each of them takes.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import unittest
import unittest.mock

import rehearse
import torch
from rehearse import rehearsals, roots, work
from torch import nn

ONCE = unittest.mock.patch.object


def out_of_memory(every, model):
    """One that leaves a call of the model's."""
    every.ran_out(roots.Call(torch, model, (torch.rand(8, 4),), {}, 0), "forward")


class Delays(unittest.TestCase):
    def setUp(self):
        self.wire = rehearse.Wire()
        self.every = rehearse.rehearsals_with(self.wire)
        self.times = []
        torch.optim.SGD([nn.Parameter(torch.zeros(1))])
        times = ((rehearsals, "PATIENCE", 3.0), (rehearsals, "LAST", 4.0), (rehearsals, "AT_LEAST", 1.0))
        for owner, name, value in (*times, (work, "REFINED", 9.0), (work, "SECOND", 9.0)):
            self.during(ONCE(owner, name, value))
        self.during(self.is_caught(True))
        self.every.go_on = self.goes_on

    def during(self, patch):
        patch.start()
        self.addCleanup(patch.stop)

    def is_caught(self, is_so):
        return ONCE(rehearsals.catches, "may_be_caught", lambda *_: is_so)

    def goes_on(self, patience, send=None):
        """In place of a rehearsal that comes to nothing in all of its time."""
        self.times.append(round(patience, 1))
        self.every.delayed += patience
        self.every.work.micros += int(patience * 1e6)

    def test_what_is_noted_counts(self):
        self.every.waited(0.5)
        self.every.waited(1.0)
        out_of_memory(self.every, nn.Linear(4, 4))
        self.assertEqual(self.times, [1.5])

    def test_some_time_is_left_for_a_rehearsal(self):
        self.every.waited(30.0)
        out_of_memory(self.every, nn.Linear(4, 4))
        self.assertEqual(self.times, [1.0])

    def test_one_that_nobody_catches_has_all_that_is_left(self):
        self.every.waited(1.5)
        with self.is_caught(False):
            out_of_memory(self.every, nn.Linear(4, 4))
        self.assertEqual(self.times, [2.5])

    def test_at_the_end_it_does_not_begin_again_with_less(self):
        out_of_memory(self.every, nn.Linear(4, 4))
        self.every.ends()
        self.assertEqual(self.times, [3.0])

    def test_at_the_end_others_have_the_rest(self):
        out_of_memory(self.every, nn.Linear(4, 4))
        self.every.work.variants = [{}]
        self.every.work.next_takes = 0.5
        self.every.ends()
        self.assertEqual(self.times, [3.0, 1.0])

    def test_the_next_out_of_memory_is_another(self):
        self.every.waited(1.5)
        out_of_memory(self.every, nn.Linear(4, 4))
        self.every.waited(0.5)
        out_of_memory(self.every, nn.Linear(4, 4))
        self.assertEqual(self.times, [1.5, 2.5])
