"""A rehearsal that meets its deadline, wherever that is: the program goes on, and ends as it would without it.

Needs torch; a CPU is enough. By hand: python3 -m unittest discover -s tests/torch
"""
import pathlib
import subprocess
import sys
import unittest

PROGRAM = pathlib.Path(__file__).with_name("struck.py")
# Deadlines of one process.
BATCH = 100


def run(*words):
    command = [sys.executable, str(PROGRAM)] + [str(word) for word in words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


class Deadline(unittest.TestCase):
    def ends_as_bare(self, *words):
        done = run(*words)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        first, *_, last = done.stderr.splitlines()
        self.assertEqual(first, "Traceback (most recent call last):", done.stderr)
        self.assertEqual(last, "ValueError: of its own", done.stderr)
        self.assertEqual(done.stderr.count("Traceback"), 1, done.stderr)

    def test_at_every_operation(self):
        count = int(run("count").stdout)
        self.assertGreater(count, 200)
        for first in range(1, count, BATCH):
            with self.subTest(first=first):
                self.ends_as_bare("at", first, min(first + BATCH, count + 1))

    def test_in_a_backward_that_has_much_to_do(self):
        """What it had yet to do is let go of before the program goes on, and exits."""
        for share in (0.6, 0.7, 0.8, 0.9):
            with self.subTest(share=share):
                self.ends_as_bare("wide", share)

    def test_given_up_at_any_time(self):
        """Nobody waits for it any more; the program fails, and exits while the last one still runs."""
        for first in range(0, 4000, 100):
            with self.subTest(first=first):
                self.ends_as_bare("late", first, 700, 40)


if __name__ == "__main__":
    unittest.main()
