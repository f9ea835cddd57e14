"""How far an evaluation of Trainer had come: its own variables, and lengths that run no code of the program's."""
import types
import unittest

import support  # noqa: F401
from _oomph_probe.oom import gathering


class Library:
    """As if it lay in site-packages."""

    def __init__(self, **parts):
        vars(self).update(parts)

    def __len__(self):
        return 12


Library.__len__.__code__ = Library.__len__.__code__.replace(co_filename="/v/lib/python3.11/site-packages/torch/utils/data/dataloader.py")


class Own:
    called = False

    def __len__(self):
        Own.called = True
        return 3


def frame(**variables):
    code = types.SimpleNamespace(
        co_name="evaluation_loop", co_filename="/v/site-packages/transformers/trainer.py", co_flags=0
    )
    return types.SimpleNamespace(f_code=code, f_locals=variables)


class Gathering(unittest.TestCase):
    def test_the_batches_so_far_and_all_of_them(self):
        loader = Library(batch_sampler=Library(sampler=Library(data_source=[1, 2])))
        self.assertEqual(gathering.of([frame(step=5, dataloader=loader)]), {"done": 5, "of": 12})

    def test_a_data_set_of_the_programs_is_not_asked(self):
        loader = Library(sampler=Library(data_source=Own()))
        self.assertEqual(gathering.of([frame(step=5, dataloader=loader)]), {"done": 5})
        self.assertFalse(Own.called)

    def test_before_the_first_batch_and_elsewhere_there_is_nothing(self):
        self.assertIsNone(gathering.of([frame(dataloader=[1])]))
        other = frame(step=5)
        other.f_code.co_filename = "/srv/transformers_trainer.py"
        self.assertIsNone(gathering.of([other]))

    def test_a_number_that_is_passed_already_says_nothing(self):
        self.assertEqual(gathering.of([frame(step=5, dataloader=[1, 2])]), {"done": 5})
