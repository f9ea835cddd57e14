"""What the front asks for: a search waits for the end of a step, and is made again where it had no time."""
import types
import unittest

import support  # noqa: F401
from _oomph_probe.live import requests


class Requests(unittest.TestCase):
    def setUp(self):
        self.sent, self.notes, self.too_short = [], [], []
        torch = types.SimpleNamespace()
        torch.cuda = types.SimpleNamespace(memory=types.SimpleNamespace(_snapshot=lambda device: {"segments": []}))
        self.retainers = types.SimpleNamespace(take=self.look, was_too_short=False)
        self.steps = types.SimpleNamespace(count=18, hurry=lambda: None)
        self.requests = requests.Requests(
            torch, types.SimpleNamespace(put=lambda line, keep: self.sent.append(line)), self.notes.append, None,
            self.steps, types.SimpleNamespace(until_now=lambda *_: []), self.retainers, None, None,
        )

    def look(self, device, segments):
        self.retainers.was_too_short = self.too_short.pop(0)
        return {"event": "retainers", "device": device}

    def ask(self):
        self.requests.take(b'{"request": "retainers"}\n')

    def searches(self):
        """How many steps end until nothing is looked for any more."""
        before = len(self.sent)
        for _ in range(5):
            self.requests.step_ended(0)
        self.assertFalse(self.requests.is_waiting())
        return len(self.sent) - before

    def test_one_that_had_time_is_made_once(self):
        self.too_short = [False]
        self.assertEqual(self.searches(), 0)
        self.ask()
        self.assertEqual(self.searches(), 1)

    def test_one_that_had_no_time_is_made_a_second_time_and_no_third(self):
        for too_short, made in (([True, False], 2), ([True, True], 2), ([True, True], 2)):
            self.too_short = too_short
            self.ask()
            self.assertEqual(self.searches(), made)
        self.assertEqual(self.notes, [])

    def test_one_that_failed_is_not_made_again(self):
        self.retainers.was_too_short = True
        self.ask()
        self.assertEqual(self.searches(), 0)
        self.assertEqual(len(self.notes), 1)


if __name__ == "__main__":
    unittest.main()
