"""Which repeated blocks are found in a model, and which of them are left alone."""
import unittest

import patching
from fake_torch import Linear, Module, ModuleList, Sequential, _BatchNorm
from patching import Block, Net
from _oomph_probe.common import blocks


def found(model):
    return [(group.cls.__name__, len(group.members), group.why_not) for group in blocks.find(model)]


class SyncBatchNorm(_BatchNorm):
    pass


class Find(unittest.TestCase):
    def test_blocks_side_by_side_are_found_wherever_they_lie(self):
        self.assertEqual(found(Net([Block() for _ in range(3)])), [("Block", 3, None)])
        deep = Sequential([Linear(), Net([Block(), Block()])])
        self.assertEqual(found(deep), [("Block", 2, None)])

    def test_what_would_gain_nothing_is_no_block(self):
        for model in (
            Net([Block()]),
            Net([Linear() for _ in range(5)]),
            Net([patching.frozen(Block()) for _ in range(4)]),
            Sequential([Linear(), Block()]),
            Linear(),
        ):
            self.assertEqual(found(model), [])

    def test_stages_of_one_class_are_one_group_for_each_build(self):
        class Other(Module):
            pass

        with_more = Block()
        with_more.more = Other()
        stages = Sequential(
            [Sequential([Block(), Block()]), Sequential([with_more, Block(), Block()])]
        )
        groups = sorted(found(stages), reverse=True)
        self.assertEqual([(name, count) for name, count, _ in groups], [("Block", 4), ("Block", 1)])

    def test_of_nested_repetitions_the_one_of_more_members_is_taken(self):
        outer = [Sequential([Block(), Block(), Block()]) for _ in range(2)]
        self.assertEqual(found(ModuleList(outer)), [("Block", 6, None)])

    def test_a_shared_block_counts_once(self):
        block = Block()
        self.assertEqual(found(ModuleList([block, block, Block()])), [("Block", 2, None)])

    def test_blocks_with_a_way_of_their_own_are_left_alone(self):
        def hooked(block):
            block.first._forward_hooks[1] = print

        def replaced(block):
            block.forward = print

        def synchronised(block):
            block.norm = SyncBatchNorm()

        def drawing(block):
            block.generator = type("Generator", (), {})()

        for change, words in (
            (hooked, "hooks"),
            (replaced, "replaced"),
            (synchronised, "SyncBatchNorm"),
            (drawing, "generator"),
        ):
            members = [Block(), Block()]
            for member in members:
                change(member)
            self.assertIn(words, found(Net(members))[0][2])

    def test_wrappers_are_told_by_their_names(self):
        for name in ("OptimizedModule", "CheckpointWrapper", "FSDPBlock"):
            cls = type(name, (Block,), {})
            self.assertIsNotNone(found(Net([cls(), cls()]))[0][2])

    def test_running_statistics_are_noticed(self):
        members = [Block(), Block()]
        for member in members:
            member.norm = _BatchNorm()
        group = blocks.find(Net(members))[0]
        self.assertTrue(group.has_statistics)
        self.assertIsNone(group.why_not)
        self.assertFalse(blocks.find(Net([Block(), Block()]))[0].has_statistics)

    def test_what_works_in_place_is_another_build(self):
        one, other = Block(), Block()
        other.first.inplace = True
        self.assertEqual([count for _, count, _ in found(Net([one, other]))], [1, 1])


if __name__ == "__main__":
    unittest.main()
