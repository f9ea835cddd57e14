"""The caching allocator's arithmetic: rounding, pools, splitting and joining, giving back, limits."""
import unittest

from support import GIB, MIB

from torch.simulation import text
from torch.simulation.allocator import Allocator
from torch.simulation.blocks import round_size, segment_size
from torch.simulation.gpu import CONTEXT_BYTES, Gpu
from torch.simulation.errors import OutOfMemoryError
from torch.simulation.settings import Settings


def allocator(gib=2.0, conf="", foreign=0):
    gpu = Gpu(gib * GIB, foreign=foreign, speed=0)
    gpu.create_context()
    return Allocator(gpu, Settings(conf))


def current(of, name, pool="all"):
    return of.statistics()[name][pool]["current"]


def check_sums(case, of):
    """What must hold at any moment, whatever was done before."""
    stats = of.statistics()
    blocks, reserved, inactive_split = [], 0, 0
    for head in of.segments():
        block = head
        while block is not None:
            if block.next is not None:
                case.assertIs(block.next.prev, block)
                case.assertEqual(block.address + block.size, block.next.address)
                both_free = not block.allocated and not block.next.allocated
                if both_free and block.mapped == block.next.mapped and block.expandable is None:
                    case.fail("two free neighbours were not joined")
            if block.mapped:
                reserved += block.size
                blocks.append(block)
                if not block.allocated and block.is_split and block.expandable is None:
                    inactive_split += block.size
            block = block.next
    live = [block for block in blocks if block.allocated]
    case.assertEqual(stats["allocated_bytes"]["all"]["current"], sum(block.size for block in live))
    case.assertEqual(stats["active_bytes"]["all"]["current"], sum(block.size for block in live))
    case.assertEqual(stats["requested_bytes"]["all"]["current"], sum(block.requested for block in live))
    case.assertEqual(stats["allocation"]["all"]["current"], len(live))
    case.assertEqual(stats["reserved_bytes"]["all"]["current"], reserved)
    case.assertEqual(stats["inactive_split_bytes"]["all"]["current"], inactive_split)
    case.assertEqual(of.gpu.mapped, reserved)
    for name, figure in stats.items():
        if not isinstance(figure, dict) or "all" not in figure:
            continue
        for field in ("current", "allocated", "freed"):
            parts = figure["small_pool"][field] + figure["large_pool"][field]
            case.assertEqual(figure["all"][field], parts, name)
        for pool in figure.values():
            case.assertEqual(pool["current"], pool["allocated"] - pool["freed"], name)
            case.assertGreaterEqual(pool["peak"], pool["current"], name)


class Sizes(unittest.TestCase):
    def test_requests_are_rounded_to_512_bytes(self):
        for asked, taken in ((1, 512), (512, 512), (513, 1024), (MIB, MIB), (MIB + 1, MIB + 512)):
            self.assertEqual(round_size(asked), taken)

    def test_the_driver_is_asked_for_2_or_20_mib_or_the_next_2_mib(self):
        cases = (
            (512, 2 * MIB),
            (MIB, 2 * MIB),
            (MIB + 512, 20 * MIB),
            (10 * MIB - 512, 20 * MIB),
            (10 * MIB, 10 * MIB),
            (10 * MIB + 512, 12 * MIB),
            (161 * MIB, 162 * MIB),
        )
        for asked, segment in cases:
            self.assertEqual(segment_size(asked), segment)


class Blocks(unittest.TestCase):
    def test_small_requests_share_a_segment_and_large_ones_do_not_join_them(self):
        memory = allocator()
        for _ in range(4):
            memory.allocate(512 * 1024)
        self.assertEqual(current(memory, "reserved_bytes", "small_pool"), 2 * MIB)
        memory.allocate(2 * MIB)
        self.assertEqual(current(memory, "reserved_bytes", "large_pool"), 20 * MIB)
        self.assertEqual(current(memory, "segment"), 2)
        check_sums(self, memory)

    def test_a_rest_of_at_most_1_mib_stays_with_a_large_block(self):
        memory = allocator()
        self.assertEqual(memory.allocate(19 * MIB + 1).size, 20 * MIB)
        memory = allocator()
        first = memory.allocate(30 * MIB)
        memory.free(first)
        self.assertEqual(memory.allocate(29 * MIB).size, 30 * MIB)
        memory = allocator()
        memory.free(memory.allocate(30 * MIB))
        self.assertEqual(memory.allocate(28 * MIB).size, 28 * MIB)
        self.assertEqual(current(memory, "inactive_split_bytes"), 2 * MIB)
        check_sums(self, memory)

    def test_a_rest_of_512_bytes_is_kept_apart_in_the_small_pool(self):
        memory = allocator()
        memory.allocate(512)
        self.assertEqual(current(memory, "inactive_split_bytes", "small_pool"), 2 * MIB - 512)
        check_sums(self, memory)

    def test_the_best_fit_is_the_smallest_then_the_lowest(self):
        memory = allocator()
        sizes = [60 * MIB, 40 * MIB, 50 * MIB, 40 * MIB]
        blocks = [memory.allocate(size) for size in sizes]
        addresses = [block.address for block in blocks]
        for block in blocks:
            memory.free(block)
        self.assertEqual(memory.allocate(40 * MIB).address, addresses[1])
        self.assertEqual(memory.allocate(40 * MIB).address, addresses[3])
        self.assertEqual(memory.allocate(40 * MIB).address, addresses[2])
        check_sums(self, memory)

    def test_neighbours_are_joined_in_any_order_of_freeing(self):
        for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
            memory = allocator()
            memory.free(memory.allocate(30 * MIB))
            blocks = [memory.allocate(size * MIB) for size in (8, 8, 8)]
            self.assertEqual(current(memory, "segment"), 1)
            for position in order:
                memory.free(blocks[position])
                check_sums(self, memory)
            self.assertEqual(len(memory.large.free), 1)
            self.assertEqual(current(memory, "inactive_split_bytes"), 0)

    def test_figures_add_up_through_a_long_and_mixed_life(self):
        import random

        for conf in ("", "expandable_segments:True", "max_split_size_mb:24"):
            chance = random.Random(7)
            memory = allocator(gib=1.0, conf=conf)
            live = []
            for step in range(600):
                if live and chance.random() < 0.48:
                    memory.free(live.pop(chance.randrange(len(live))))
                else:
                    try:
                        live.append(memory.allocate(chance.choice((100, 70000, MIB, 3 * MIB, 11 * MIB, 47 * MIB))))
                    except OutOfMemoryError:
                        for block in live[::2]:
                            memory.free(block)
                        live = live[1::2]
                if step % 97 == 0:
                    memory.empty_cache()
                if step % 10 == 0:
                    check_sums(self, memory)
            for block in live:
                memory.free(block)
            memory.empty_cache()
            check_sums(self, memory)
            self.assertEqual(current(memory, "reserved_bytes"), 0)
            self.assertEqual(memory.gpu.used_by_this_process, CONTEXT_BYTES)


class Pressure(unittest.TestCase):
    def test_free_segments_go_back_before_memory_is_out(self):
        memory = allocator(gib=1.0)
        memory.free(memory.allocate(300 * MIB))
        self.assertEqual(current(memory, "reserved_bytes"), 300 * MIB)
        memory.allocate(400 * MIB)
        stats = memory.statistics()
        self.assertEqual(stats["num_alloc_retries"], 1)
        self.assertEqual(stats["num_ooms"], 0)
        self.assertEqual(stats["num_device_free"], 1)
        self.assertEqual(current(memory, "reserved_bytes"), 400 * MIB)

    def test_a_segment_with_one_live_block_cannot_go_back(self):
        memory = allocator(gib=1.0)
        memory.free(memory.allocate(300 * MIB))
        kept = memory.allocate(2 * MIB)
        with self.assertRaises(OutOfMemoryError):
            memory.allocate(400 * MIB)
        self.assertEqual(current(memory, "reserved_bytes"), 300 * MIB)
        memory.free(kept)
        memory.allocate(400 * MIB)

    def test_the_message_names_the_segment_and_the_gpu(self):
        memory = allocator(gib=1.0)
        memory.allocate(100 * MIB)
        with self.assertRaises(OutOfMemoryError) as raised:
            memory.allocate(500 * MIB + 1)
        message = str(raised.exception)
        self.assertIn("Tried to allocate 502.00 MiB. GPU 0 has a total capacity of 1024.00 MiB", message)
        self.assertIn("of which 424.00 MiB is free.", message)
        self.assertIn("this process has 600.00 MiB memory in use.", message)
        self.assertIn("100.00 MiB is allocated by PyTorch, and 0 bytes is reserved", message)
        self.assertEqual(memory.statistics()["num_ooms"], 1)

    def test_others_on_the_gpu_take_their_part_and_are_named(self):
        memory = allocator(gib=2.0, foreign=GIB)
        with self.assertRaises(OutOfMemoryError) as raised:
            memory.allocate(600 * MIB)
        self.assertIn("Process 745 has 1024.00 MiB memory in use. Including", str(raised.exception))

    def test_a_fraction_is_a_cap_on_what_is_reserved(self):
        memory = allocator(gib=2.0)
        memory.set_memory_fraction(0.25)
        memory.allocate(500 * MIB)
        with self.assertRaises(OutOfMemoryError) as raised:
            memory.allocate(14 * MIB)
        self.assertIn(" 512.00 MiB allowed; Of the allocated", str(raised.exception))
        memory.allocate(12 * MIB)

    def test_max_split_size_keeps_large_blocks_whole(self):
        memory = allocator(gib=1.0, conf="max_split_size_mb:64")
        memory.free(memory.allocate(200 * MIB))
        memory.allocate(30 * MIB)
        self.assertEqual(current(memory, "reserved_bytes"), 230 * MIB)
        self.assertEqual(memory.allocate(190 * MIB).size, 200 * MIB)
        self.assertEqual(memory.statistics()["oversize_allocations"]["current"], 1)
        check_sums(self, memory)

    def test_max_split_size_gives_one_large_block_back_when_that_is_enough(self):
        memory = allocator(gib=1.0, conf="max_split_size_mb:64")
        large, other = memory.allocate(300 * MIB), memory.allocate(30 * MIB)
        memory.free(large)
        memory.free(other)
        memory.allocate(250 * MIB)
        stats = memory.statistics()
        self.assertEqual(stats["num_alloc_retries"], 0)
        self.assertEqual(current(memory, "reserved_bytes"), 280 * MIB)

    def test_the_garbage_collector_may_free_in_the_midst_of_an_allocation(self):
        memory = allocator()
        late = memory.allocate(30 * MIB)
        original = memory._best_fit

        def interrupted(pool, size):
            memory.free(late)
            memory._best_fit = original
            return original(pool, size)

        memory._best_fit = interrupted
        memory.allocate(30 * MIB)
        self.assertEqual(current(memory, "allocated_bytes"), 30 * MIB)
        check_sums(self, memory)


class Expandable(unittest.TestCase):
    conf = "expandable_segments:True"

    def test_one_segment_grows_by_20_mib_and_by_2_mib(self):
        memory = allocator(conf=self.conf)
        memory.allocate(30 * MIB)
        self.assertEqual(current(memory, "reserved_bytes", "large_pool"), 40 * MIB)
        memory.allocate(15 * MIB)
        self.assertEqual(current(memory, "reserved_bytes", "large_pool"), 60 * MIB)
        memory.allocate(100)
        self.assertEqual(current(memory, "reserved_bytes", "small_pool"), 2 * MIB)
        self.assertEqual(current(memory, "segment"), 2)
        self.assertEqual(current(memory, "inactive_split_bytes"), 0)
        check_sums(self, memory)

    def test_holes_between_live_blocks_go_back_by_whole_granules(self):
        memory = allocator(gib=1.0, conf=self.conf)
        blocks = [memory.allocate(100 * MIB) for _ in range(5)]
        for block in blocks[::2]:
            memory.free(block)
        memory.allocate(200 * MIB)
        stats = memory.statistics()
        self.assertEqual(stats["num_alloc_retries"], 1)
        self.assertEqual(stats["num_ooms"], 0)
        check_sums(self, memory)

    def test_the_same_life_is_out_of_memory_without(self):
        memory = allocator(gib=1.0)
        memory.free(memory.allocate(500 * MIB))
        kept = [memory.allocate(100 * MIB) for _ in range(5)]
        for block in kept[::2]:
            memory.free(block)
        with self.assertRaises(OutOfMemoryError):
            memory.allocate(200 * MIB)

    def test_an_empty_segment_disappears(self):
        memory = allocator(conf=self.conf)
        memory.free(memory.allocate(50 * MIB))
        memory.empty_cache()
        self.assertEqual(current(memory, "segment"), 0)
        self.assertEqual(memory.gpu.mapped, 0)
        memory.allocate(50 * MIB)
        check_sums(self, memory)


class Text(unittest.TestCase):
    def test_sizes_at_the_bounds_of_units(self):
        cases = (
            (0, "0 bytes"),
            (1024, "1024 bytes"),
            (1025, "1.00 KiB"),
            (MIB, "1024.00 KiB"),
            (MIB + 1, "1.00 MiB"),
            (GIB, "1024.00 MiB"),
            (GIB + 1, "1.00 GiB"),
            (int(23.64 * GIB), "23.64 GiB"),
        )
        for size, printed in cases:
            self.assertEqual(text.format_size(size), printed)


class ForeignCard(unittest.TestCase):
    def test_a_full_gpu_refuses_the_context(self):
        gpu = Gpu(2 * GIB, foreign=2 * GIB - 100 * MIB, speed=0)
        with self.assertRaisesRegex(RuntimeError, "CUDA error: out of memory"):
            gpu.create_context()


if __name__ == "__main__":
    unittest.main()
