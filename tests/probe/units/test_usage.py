"""The line of a function at which something grows, from its bytecode."""
import unittest

import support  # noqa: F401
from _oomph_probe.oom import usage


class Grows(unittest.TestCase):
    def line(self, function, name, attribute=False):
        """The line that grows and the one that assigns, counted from the function's first."""
        found = usage.of(function.__code__, name, attribute)
        return [None if each is None else each[1] - function.__code__.co_firstlineno for each in found]

    def test_by_a_method_that_makes_it_longer(self):
        def keep(x):
            losses = []
            print(losses, x)
            losses.append(x)

        self.assertEqual(self.line(keep, "losses"), [3, 1])
        # What is appended does not grow.
        self.assertEqual(self.line(keep, "x"), [None, None])

    def test_by_an_item_of_its_own_or_of_what_is_in_it(self):
        def keep(cache, key, x):
            cache[key] = x

        def deeper(cache, key, x):
            cache[key % 3][x + 1] = x

        def through(state, x):
            state["outs"].append(
                x
            )

        self.assertEqual(self.line(keep, "cache"), [1, None])
        self.assertEqual(self.line(deeper, "cache"), [1, None])
        self.assertEqual(self.line(through, "state"), [1, None])
        for function in (keep, deeper, through):
            self.assertEqual(self.line(function, "x"), [None, None])

    def test_by_an_addition_in_place(self):
        def sums(x):
            total = 0
            total += x
            y = x
            return total + y

        self.assertEqual(self.line(sums, "total"), [2, 1])
        self.assertEqual(self.line(sums, "y"), [None, 3])

    def test_as_an_attribute(self):
        class Meter:
            def update(self, history, x):
                self.history.append(x)
                self.total += x
                history.append(x)

        self.assertEqual(self.line(Meter.update, "history", True), [1, None])
        self.assertEqual(self.line(Meter.update, "total", True), [2, 2])
        self.assertEqual(self.line(Meter.update, "history"), [3, None])

    def test_in_a_function_within(self):
        def install():
            outputs = []

            def hook(x):
                outputs.append(x)

            def other(outputs, x):
                outputs.append(x)

            return hook, other

        self.assertEqual(self.line(install, "outputs"), [4, 1])


if __name__ == "__main__":
    unittest.main()
