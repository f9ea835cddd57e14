"""Which lines hold what is live at an OOM: by the stacks of its blocks, and by their sizes."""
import unittest

import support  # noqa: F401
from _oomph_probe.live import snapshot

MIB = 1 << 20


class Own:
    """Frames of train.py are the program's."""

    def innermost_own(self, files):
        return next((place for place, name in enumerate(files) if name == "train.py"), None)


def frame(line):
    return [{"filename": "train.py", "line": line, "name": "forward"}]


def block(size, stack=None, address=0, state="active_allocated"):
    return {"size": size, "frames": stack or [], "address": address, "state": state}


def holdings(blocks, kinds=None, by_size=True):
    lines, known, alike = snapshot.holdings([{"blocks": blocks}], Own(), kinds, by_size)
    return [(of["line"]["line"], of["bytes"], of["blocks"]) for of in lines], known, alike


class PrivatePools(unittest.TestCase):
    def test_each_has_what_is_reserved_for_it_and_the_line_that_allocated_the_most(self):
        segments = [
            {"segment_pool_id": (0, 0), "blocks": [block(9 * MIB, frame(1))]},
            {"segment_pool_id": (1, 0), "blocks": [block(3 * MIB, frame(31)), block(2 * MIB, frame(7)), block(1 * MIB, state="inactive")]},
            {"segment_pool_id": (0, 2), "blocks": [block(8 * MIB)]},
            {"segment_pool_id": (1, 0), "blocks": [block(1 * MIB, frame(31))]},
            {"blocks": [block(5 * MIB)]},
        ]
        first, second = snapshot.private_pools(segments, Own())
        self.assertEqual(first, {"pool": [0, 2], "reserved": 8 * MIB, "allocated": 8 * MIB})
        self.assertEqual((second["pool"], second["reserved"], second["allocated"]), ([1, 0], 7 * MIB, 6 * MIB))
        self.assertEqual(second["line"]["line"], 31)


class BlocksWithoutAStack(unittest.TestCase):
    def test_in_a_forward_they_are_of_the_lines_that_made_others_of_their_size(self):
        widen, attend = frame(32), frame(28)
        blocks = [block(72 * MIB, widen)] * 2 + [block(54 * MIB, attend)] + [block(72 * MIB)] * 10 + [block(54 * MIB)] * 5
        lines, known, alike = holdings(blocks)
        self.assertEqual(lines, [(32, 12 * 72 * MIB, 12), (28, 6 * 54 * MIB, 6)])
        self.assertEqual(alike, (10 * 72 + 5 * 54) * MIB)
        self.assertEqual(known, (12 * 72 + 6 * 54) * MIB, "with them")

    def test_one_size_is_divided_as_the_known_blocks_divide_it(self):
        one, other = frame(1), frame(2)
        blocks = [block(MIB, one)] * 3 + [block(MIB, other)] + [block(MIB)] * 9
        lines, known, alike = holdings(blocks)
        self.assertEqual(lines, [(1, 10 * MIB, 10), (2, 3 * MIB, 3)])
        self.assertEqual((known, alike), (13 * MIB, 9 * MIB), "each block once")

    def test_another_size_a_small_one_and_a_known_tensor_stay_without_a_line(self):
        blocks = [block(8 * MIB, frame(1)), block(4096, frame(1))]
        apart = [block(9 * MIB), block(4096), block(8 * MIB, address=7), block(8 * MIB, state="inactive")]
        lines, known, alike = holdings(blocks + apart, kinds={7: "parameters"})
        self.assertEqual((lines, alike), ([(1, 8 * MIB + 4096, 2)], 0))
        # Parameters say nothing of activations of their size.
        kept = [block(8 * MIB, frame(1), address=9), block(8 * MIB)]
        self.assertEqual(holdings(kept, kinds={9: "parameters"})[2], 0)

    def test_in_a_backward_they_are_nobodys(self):
        blocks = [block(8 * MIB, frame(1)), block(8 * MIB)]
        self.assertEqual(holdings(blocks, by_size=False), ([(1, 8 * MIB, 1)], 8 * MIB, 0))


if __name__ == "__main__":
    unittest.main()
