"""What stands in the text of a file for a number that is changed."""
import os
import tempfile
import unittest
from binascii import crc32

import support  # noqa: F401
from _oomph_probe.patch import source

TEXT = b"a = 128\nb = 2 ** 7 // ranks; c = 4 * 32\nd = 2 * 3 ** 2 - 1_0\n"


class Written(unittest.TestCase):
    def edited(self, *changes):
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "train.py")
            with open(path, "wb") as file:
                file.write(TEXT)
            one = source.File(path, crc32(TEXT))
            one.changes += changes
            return one, one.edited()

    def test_a_number_and_what_is_computed_of_numbers_are_replaced_whole(self):
        one, text = self.edited((1, 4, 128, 64), (2, 4, 128, 64), (2, 25, 128, 9), (3, 4, 8, 4))
        self.assertEqual(text, "a = 64\nb = 64 // ranks; c = 9\nd = 4\n")
        # A place of the changed text is told as it is in the file.
        self.assertEqual(one.column_in_file(2, 21), 25)

    def test_another_number_is_refused(self):
        one, text = self.edited((2, 4, 64, 32))
        self.assertIsNone(text)
        self.assertIn("line 2 has no 64", one.refused)


if __name__ == "__main__":
    unittest.main()
