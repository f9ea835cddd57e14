"""Models that `fully_shard` or FullyShardedDataParallel has divided among ranks: a rehearsal gathers and reduces on paper, as
torch does, and sends nothing. One rank of two, whose process group does nothing by itself."""
import types
import unittest
import unittest.mock

import on_cpu
import torch
import torch.nn.functional as F
from _oomph_probe.live import gathered
from _oomph_probe.rehearse import roots, shards, work
from torch import nn

try:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import (
        CPUOffload,
        CPUOffloadPolicy,
        FullyShardedDataParallel,
        MixedPrecision,
        MixedPrecisionPolicy,
        ShardingStrategy,
        fully_shard,
    )
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    from torch.testing._internal.distributed.fake_pg import FakeStore
except ImportError:
    raise unittest.SkipTest("this torch has no fully_shard") from None

WIRE = on_cpu.install(patience=60)
RANKS = 2
torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
MESH = init_device_mesh("cpu", (RANKS,))
# Emptied by the block that runs out of memory.
FAILS = []
WIDTH = 64
# Elements of a block, and of what is beside them.
BLOCK = 2 * WIDTH + 2 * 4 * WIDTH * WIDTH + 5 * WIDTH
REST = 2 * 100 * WIDTH + 100


class Block(nn.Module):
    def __init__(self, is_last):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.is_last = is_last

    def forward(self, x):
        if self.is_last and FAILS and FAILS.pop():
            on_cpu.out_of_memory()
        return x + self.down(F.relu(self.up(self.norm(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(100, WIDTH), nn.Linear(WIDTH, 100)
        self.blocks = nn.ModuleList(Block(at == 2) for at in range(3))

    def forward(self, x):
        x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def sharded(**how):
    model = Decoder()
    for block in model.blocks:
        fully_shard(block, mesh=MESH, **how)
    return fully_shard(model, mesh=MESH, **how)


def step(model, optimizer, fails=False):
    tokens = torch.zeros(6, 8, dtype=torch.long)
    FAILS[:] = [True] * fails
    logits = model(tokens)
    F.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()


def loss_of(model, tokens):
    return model(tokens).sum()


def played(trace):
    """The sizes of the allocations of a trace that are never freed, and how often each fixed size is there at most."""
    sizes, alive, most = [], {}, {}
    for word in trace.split():
        if word.startswith("-"):
            del alive[len(sizes) - int(word[1:])]
            continue
        alive[len(sizes)] = word
        sizes.append(word)
        now = list(alive.values()).count(word)
        most[word] = max(most.get(word, 0), now)
    # What a variable holds grows with the batch.
    return sorted(word for word in alive.values() if not word.startswith("x")), most


def reduced(*elements):
    """What each group's gradients are once they are reduced."""
    return sorted("%d@%d" % (4 * each // RANKS, shards.REDUCES) for each in elements)


class Rehearsing(unittest.TestCase):
    def setUp(self):
        WIRE.forget()
        WIRE.lines.clear()
        torch.manual_seed(0)

    def line_of(self, model, before=False):
        optimizer = torch.optim.AdamW(model.parameters())
        if before:
            step(model, optimizer)
        with self.assertRaises(torch.OutOfMemoryError):
            step(model, optimizer, fails=True)
        (line,) = [line for line in WIRE.lines if line["event"] == "rehearsal"]
        self.assertIsNone(on_cpu.rehearse.why_not(line))
        return line


class Sharded(Rehearsing):
    def rehearsed(self, before=False, **how):
        return self.line_of(sharded(**how), before)

    def test_a_rank_has_its_part_of_parameters_and_gradients(self):
        for before in (False, True):
            with self.subTest(before=before):
                self.setUp()
                line = self.rehearsed(before)
                own = 4 * (3 * BLOCK + REST) // RANKS
                self.assertEqual((sum(line["weights"]), sum(line["trained"])), (own, own))
                gradients, _ = played(line["variants"][0]["trace"])
                self.assertEqual(gradients, reduced(BLOCK, BLOCK, BLOCK, REST))
                self.assertEqual(line["ranks"], RANKS)

    def test_a_loss_that_no_line_binds(self):
        model = sharded()
        FAILS[:] = [True]
        with self.assertRaises(torch.OutOfMemoryError):
            loss_of(model, torch.zeros(6, 8, dtype=torch.long)).backward()
        (line,) = [line for line in WIRE.lines if line["event"] == "rehearsal"]
        self.assertIsNone(on_cpu.rehearse.why_not(line))
        self.assertTrue(line["own_loss"])

    def test_a_buffer_is_beside_the_next_one_s_copy(self):
        line = self.rehearsed()
        _, most = played(line["variants"][0]["trace"])
        self.assertEqual(most["%d@%d" % (4 * BLOCK, shards.GATHERS)], 2)
        up = str(4 * 4 * WIDTH * WIDTH)
        # A block's two matrices and their gradients: what the last block had is let go of.
        self.assertEqual(most[up], 4)

    def test_blocks_that_stay_whole_are_all_there(self):
        line = self.rehearsed(reshard_after_forward=False)
        _, most = played(line["variants"][0]["trace"])
        self.assertEqual(most[str(4 * 4 * WIDTH * WIDTH)], 3 * 2 + 2)

    def test_what_is_gathered_in_bf16_is_reduced_in_another_precision(self):
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        line = self.rehearsed(mp_policy=policy)
        gradients, most = played(line["variants"][0]["trace"])
        self.assertEqual(gradients, reduced(BLOCK, BLOCK, BLOCK, REST))
        self.assertEqual(most["%d@%d" % (2 * BLOCK, shards.GATHERS)], 2)
        # One block's gradients at a time.
        self.assertEqual(most[str(4 * BLOCK)], 1)

    def test_nothing_is_sent_and_the_model_is_as_it_was(self):
        groups = torch.distributed.distributed_c10d
        names = ("all_gather_into_tensor", "reduce_scatter_tensor", "all_reduce", "barrier")
        sent = []
        kept = {name: getattr(groups, name) for name in names}
        model = sharded()
        optimizer = torch.optim.AdamW(model.parameters())
        step(model, optimizer)

        def looked_at(name):
            def call(*args, **kwargs):
                sent.append(name)
                return kept[name](*args, **kwargs)

            return call

        rehearses = WIRE.every.ran_out

        def ran_out(*args):
            for name in names:
                setattr(torch.distributed, name, looked_at(name))
                setattr(groups, name, looked_at(name))
            try:
                return rehearses(*args)
            finally:
                for name in names:
                    setattr(torch.distributed, name, kept[name])
                    setattr(groups, name, kept[name])

        WIRE.every.ran_out = ran_out
        try:
            with self.assertRaises(torch.OutOfMemoryError):
                step(model, optimizer, fails=True)
        finally:
            WIRE.every.ran_out = rehearses
        self.assertEqual(len([line for line in WIRE.lines if line["event"] == "rehearsal"]), 1)
        self.assertEqual(sent, [])
        states = [each._get_fsdp_state() for each in (model, *model.blocks)]
        self.assertTrue(all(each._fsdp_param_group._all_gather_result is None for each in states))


class Flat(Rehearsing):
    """FullyShardedDataParallel, each block a unit of its own."""

    def rehearsed(self, before=False, **how):
        return self.line_of(flat(**how), before)

    def test_a_rank_has_its_part_of_parameters_and_gradients(self):
        for keeps_parameters in (True, False):
            for before in (False, True):
                with self.subTest(keeps_parameters=keeps_parameters, before=before):
                    self.setUp()
                    line = self.rehearsed(before, use_orig_params=keeps_parameters)
                    own = 4 * (3 * BLOCK + REST) // RANKS
                    self.assertEqual((sum(line["weights"]), sum(line["trained"])), (own, own))
                    gradients, most = played(line["variants"][0]["trace"])
                    self.assertEqual(gradients, reduced(BLOCK, BLOCK, BLOCK, REST))
                    # In backward the next unit is gathered while the last one's gradient is there.
                    self.assertEqual(most["%d@%d" % (4 * BLOCK, shards.GATHERS)], 2)
                    self.assertEqual(most[str(4 * BLOCK)], 1)

    def test_what_is_gathered_in_bf16_is_reduced_in_another_precision(self):
        policy = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        line = self.rehearsed(mixed_precision=policy)
        gradients, most = played(line["variants"][0]["trace"])
        self.assertEqual(gradients, reduced(BLOCK, BLOCK, BLOCK, REST))
        self.assertEqual(most["%d@%d" % (2 * BLOCK, shards.GATHERS)], 2)
        self.assertEqual(most["%d@%d" % (4 * BLOCK, shards.REDUCES)], 1)


BF16 = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}


class Changed(Rehearsing):
    """What a step would be if it were sharded otherwise is to the word what it is where the program shards it so."""

    def variants_of(self, model, before=True):
        self.setUp()
        line = self.line_of(model, before)
        others = ("checkpointing", "amp", "offload", "chunked")
        as_it_was = [each for each in line["variants"] if not any(each.get(name) for name in others)]
        return line, {each.get("change"): each for each in as_it_was}

    def compared(self, name, model, as_changed, before=True):
        line, variants = self.variants_of(model, before)
        other, others = self.variants_of(as_changed, before)
        for what in ("trace", "forward", "loss"):
            self.assertEqual(variants[name][what], others[None][what], what)
        self.assertNotEqual(variants[name]["trace"], variants[None]["trace"])
        for what in ("weights", "trained"):
            self.assertEqual(variants[name].get(what, line[what]), other[what], what)
        # What the program has already is no change.
        self.assertNotIn(name, others)

    def test_divided_again_behind_forward(self):
        self.compared("reshard", sharded(reshard_after_forward=False), sharded())

    def test_in_ram(self):
        self.compared("offload", sharded(), sharded(offload_policy=CPUOffloadPolicy(pin_memory=False)))

    def test_gathered_in_bf16(self):
        self.compared("in_bf16", sharded(), sharded(mp_policy=MixedPrecisionPolicy(**BF16)))

    def test_flat_ones(self):
        self.compared("reshard", flat(sharding_strategy=ShardingStrategy.SHARD_GRAD_OP), flat())
        with unittest.mock.patch.object(torch.Tensor, "pin_memory", lambda self: self):
            # On a CPU its backward does not run (torch 2.11).
            self.compared("offload", flat(), flat(cpu_offload=CPUOffload(offload_params=True)), before=False)
        self.compared("in_bf16", flat(), flat(mixed_precision=MixedPrecision(**BF16)))

    def test_gradients_in_buckets(self):
        self.compared("in_buckets", replicated(False), replicated(True))


class Live(unittest.TestCase):
    """What is gathered at a moment, as the live map has it."""

    def seen(self, model, blocks):
        looked = gathered.Gathered()
        self.assertIsNone(looked.now(None))
        looked.look(model)
        seen = []
        for block in blocks:
            block.register_forward_pre_hook(lambda *_: seen.append(looked.now(None)))
        step(model, torch.optim.AdamW(model.parameters()))
        seen.append(looked.now(None))
        # The most of the last seconds is what a reading between two layers has, too.
        self.assertGreaterEqual(looked.lately(None), seen[-1])
        return seen

    def test_a_layer_is_gathered_while_it_runs(self):
        model = sharded()
        seen = self.seen(model, model.blocks)
        for of_block in seen[:-1]:
            self.assertGreaterEqual(of_block, 4 * BLOCK)
        # Behind the step all is divided again.
        self.assertEqual(seen[-1], 0)

    def test_all_of_them_where_they_stay_whole(self):
        model = sharded(reshard_after_forward=False)
        seen = self.seen(model, model.blocks)
        self.assertGreaterEqual(seen[2], 3 * 4 * BLOCK)

    def test_flat_parameters(self):
        model = flat()
        seen = self.seen(model, [each for each in model.modules() if type(each) is Block])
        for of_block in seen[:-1]:
            self.assertGreaterEqual(of_block, 4 * BLOCK)
        self.assertEqual(seen[-1], 0)


def flat(**how):
    wraps = ModuleWrapPolicy({Block})
    return FullyShardedDataParallel(Decoder(), auto_wrap_policy=wraps, device_id=torch.device("cpu"), **how)


def replicated(in_buckets, **how):
    model = nn.parallel.DistributedDataParallel(Decoder(), gradient_as_bucket_view=in_buckets, **how)
    # The group gives no result.
    model.register_comm_hook(None, unreduced)
    return model


def unreduced(_, bucket):
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class Replicated(Rehearsing):
    def test_gradients_that_lie_in_the_buckets_are_let_go_of(self):
        for in_buckets in (True, False):
            with self.subTest(in_buckets=in_buckets):
                self.setUp()
                line = self.line_of(replicated(in_buckets), before=True)
                gradients, _ = played(line["variants"][0]["trace"])
                self.assertEqual(sum(map(int, gradients)), 0 if in_buckets else sum(line["trained"]))
                self.assertEqual(sum(line["trained"]), 4 * (3 * BLOCK + REST))

    def test_buckets_are_made_anew_where_all_parameters_are_used(self):
        line = self.line_of(replicated(False), before=True)
        self.assertTrue(line["rebuilds_buckets"])
        self.assertNotIn("compiled_whole", line)
        self.setUp()
        unused = replicated(False, find_unused_parameters=True)
        self.assertNotIn("rebuilds_buckets", self.line_of(unused, before=True))

    def test_a_head_whose_logits_are_looked_through_is_not_fused(self):
        for how, are_read in (({}, False), ({"find_unused_parameters": True}, True), ({"static_graph": True}, True)):
            with self.subTest(**how):
                self.assertIs(roots.reads_outputs(replicated(False, **how)), are_read)
                call = types.SimpleNamespace(is_evaluation=False, is_compiled=False, outputs_are_read=are_read)
                tasks = work.Work.in_chunks(types.SimpleNamespace(call=call, line={}), 512, False)
                self.assertEqual([each for each, _ in tasks if each.head], [] if are_read else [tasks[0][0]])


if __name__ == "__main__":
    unittest.main()
