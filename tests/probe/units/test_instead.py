"""What is put where torch has a function is taken back, but not where somebody else has put something there since."""
import types
import unittest

import support  # noqa: F401
from _oomph_probe.common.instead import Instead


class Put(unittest.TestCase):
    def setUp(self):
        self.place = types.SimpleNamespace(function=lambda: "torch's")
        self.original = self.place.function
        self.instead = Instead(self.place, "function", lambda original: lambda: "around " + original())

    def test_it_stands_there_until_it_is_taken_back(self):
        with self.instead:
            self.assertEqual(self.place.function(), "around torch's")
            self.instead.put()
            self.assertEqual(self.place.function(), "around torch's", "once")
        self.assertIs(self.place.function, self.original)
        self.instead.take_back()
        self.assertIs(self.place.function, self.original)
        with self.instead:
            self.assertEqual(self.place.function(), "around torch's", "and again")

    def test_what_somebody_else_has_put_there_stays(self):
        with self.instead:
            ours = self.place.function
            self.place.function = lambda: "theirs, " + ours()
        self.assertEqual(self.place.function(), "theirs, around torch's")

    def test_a_class_that_derives_it_has_none_of_its_own_afterwards(self):
        base = type("Base", (), {"function": lambda self: "torch's"})
        place = type("Derived", (base,), {})
        with Instead(place, "function", lambda original: lambda self: "around " + original(self)):
            self.assertEqual((place().function(), base().function()), ("around torch's", "torch's"))
        self.assertNotIn("function", vars(place))
        self.assertEqual(place().function(), "torch's")

    def test_a_place_without_such_a_function_stays_without(self):
        for place in (None, types.SimpleNamespace()):
            with Instead(place, "other", lambda original: original):
                self.assertFalse(hasattr(place, "other"))


if __name__ == "__main__":
    unittest.main()
