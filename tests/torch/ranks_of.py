"""Ranks that train a sharded model over gloo, one process each: what a step takes by torch's own tracker, and what its rehearsal says. A
process group stands between, which fails on any collective while oomph is at work.

    ranks_of.py KIND       the last line of rank 0 is what came of it, as JSON
"""
import contextlib
import functools
import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")

import on_cpu  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed._tools.mem_tracker import MemTracker  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import (  # noqa: E402
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp._fully_shard import _fsdp_collectives  # noqa: E402
from torch.distributed.fsdp.wrap import ModuleWrapPolicy  # noqa: E402
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402

WIDTH, BATCH = 128, 6
DEVICE = torch.device("cpu")
# Gloo's threads let go of what was sent now or a moment later: the least of several steps is what a step takes.
TRIES = 4
FAILS = []
# Whether oomph is at work, and what it asked of the other ranks.
OURS, SENT = [], []


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


def refusing(store, rank, size, timeout):
    """A process group that is gloo's, but for what is sent while oomph is at work."""
    inner = dist.ProcessGroupGloo(store, rank, size, timeout)

    class Refusing(dist.ProcessGroup):
        def __init__(self):
            super().__init__(rank, size)

        def getBackendName(self):
            return "refusing"

        @property
        def pg_name(self):
            return dist.distributed_c10d._world.pg_names[self]

        @property
        def group_name(self):
            return self.pg_name

    def passed(name):
        method = getattr(inner, name)

        def call(self, *args, **kwargs):
            if OURS:
                SENT.append(name)
                raise RuntimeError("a collective of oomph's: " + name)
            return method(*args, **kwargs)

        return call

    sends = (
        "allgather", "_allgather_base", "allgather_into_tensor_coalesced", "allgather_coalesced", "allreduce",
        "allreduce_coalesced", "alltoall", "alltoall_base", "barrier", "broadcast", "gather", "reduce", "reduce_scatter",
        "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "scatter", "send", "recv", "recv_anysource",
    )
    for name in sends:
        if hasattr(inner, name):
            setattr(Refusing, name, passed(name))
    reduces = Refusing.allreduce

    def _reduce_scatter_base(self, output, given, options):
        """In what is given: gloo makes a copy, which NCCL does not."""
        how = dist.AllreduceOptions()
        how.reduceOp = options.reduceOp
        work = reduces(self, [given], how)
        work.wait()
        output.copy_(given.view(size, -1)[rank].view_as(output))
        return work

    Refusing._reduce_scatter_base = _reduce_scatter_base
    return Refusing()


def copied_in(gradients, into, ranks):
    """As the kernel of GPUs does: that of CPUs makes copies of its own."""
    rows, at = into.view(ranks, -1), 0
    for each in gradients:
        for rank, part in enumerate(torch.chunk(each, ranks)):
            rows[rank, at : at + part.numel()].copy_(part.reshape(-1))
        at += -(-each.size(0) // ranks) * each[0].numel()


def fsdp2(mesh=None, **how):
    def made(size):
        shape, names = mesh or ((size,), ("shard",))
        made_of = init_device_mesh("cpu", shape, mesh_dim_names=names)
        model = Decoder()
        for block in model.blocks:
            fully_shard(block, mesh=made_of, **how)
        return fully_shard(model, mesh=made_of, **how)

    return made


def fsdp1(mesh=None, **how):
    def made(size):
        if mesh is not None:
            how["device_mesh"] = init_device_mesh("cpu", mesh[0], mesh_dim_names=mesh[1])
        wraps = ModuleWrapPolicy({Block})
        return FullyShardedDataParallel(Decoder(), auto_wrap_policy=wraps, device_id=DEVICE, **how)

    return made


def ddp(size):
    return nn.parallel.DistributedDataParallel(Decoder())


def in_tensors(size):
    """Tensor parallelism: each layer's matrices are divided."""
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tensor",))
    model = Decoder()
    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


def in_stages(size):
    """A pipeline, of one stage: two parts of the batch go through it one after the other."""
    stage = PipelineStage(Decoder(), 0, size, DEVICE)
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=loss_of)
    # What is trained, and how.
    stage.submod.schedule = [schedule]
    return stage.submod


HYBRID = (2, 2), ("replicate", "shard")
BF16_REDUCED = MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)
KINDS = {
    "whole": (2, lambda size: Decoder()),
    "fsdp2": (2, fsdp2()),
    "fsdp2-whole": (2, fsdp2(reshard_after_forward=False)),
    "fsdp2-bf16": (2, fsdp2(mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))),
    "fsdp2-hybrid": (4, fsdp2(HYBRID)),
    "fsdp2-hybrid-reduced": (4, fsdp2(HYBRID, mp_policy=BF16_REDUCED)),
    "fsdp2-of-two": (4, fsdp2(reshard_after_forward=2)),
    "fsdp2-offload": (2, fsdp2(offload_policy=CPUOffloadPolicy(pin_memory=False))),
    "fsdp1": (2, fsdp1()),
    "fsdp1-grad": (2, fsdp1(sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)),
    "fsdp1-none": (2, fsdp1(sharding_strategy=ShardingStrategy.NO_SHARD)),
    "fsdp1-bf16": (2, fsdp1(mixed_precision=MixedPrecision(torch.bfloat16, torch.float32))),
    "fsdp1-hybrid": (4, fsdp1(HYBRID, sharding_strategy=ShardingStrategy.HYBRID_SHARD)),
    "fsdp1-no-sync": (2, fsdp1()),
    "ddp": (2, ddp),
    "ddp-no-sync": (2, ddp),
    "tensors": (2, in_tensors),
    "stages": (1, in_stages),
    "fsdp1-hybrid-grad": (4, fsdp1(HYBRID, sharding_strategy=ShardingStrategy._HYBRID_SHARD_ZERO2)),
}


# What torch's tracker does not count as it is: reduced gradients of C++, matrices of which each rank has a part.
UNTRACKED = ("ddp", "ddp-no-sync", "tensors", "stages")


def passes(model, is_sent=True):
    with contextlib.nullcontext() if is_sent else model.no_sync():
        forward_and_backward(model)


def forward_and_backward(model):
    tokens = torch.zeros(BATCH, 8, dtype=torch.long)
    if hasattr(model, "schedule"):
        model.schedule[0].step(tokens, target=tokens)
        return
    loss_of(model(tokens), tokens).backward()


def loss_of(logits, tokens):
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten())


def peak_of(model, optimizer):
    """What a step takes at the most, by torch's own tracker."""
    tracker = MemTracker()
    tracker.track_external(model)
    with tracker:
        passes(model)
    optimizer.zero_grad()
    return {getattr(key, "value", str(key)): count for key, count in tracker.get_tracker_snapshot("peak")[DEVICE].items()}


def shards_of(module):
    return sum(each.to_local().nbytes for each in module.parameters())


def of_rank(rank, size, name):
    torch.set_num_threads(1)
    wire = on_cpu.install(patience=60)
    dist.Backend.register_backend("refusing", refusing, devices=["cpu"])
    dist.init_process_group("refusing", rank=rank, world_size=size)
    _fsdp_collectives.foreach_reduce_scatter_copy_in = copied_in
    torch.manual_seed(0)
    model = KINDS[name][1](size)
    optimizer = torch.optim.AdamW(model.parameters())
    passes(model)
    optimizer.step()
    optimizer.zero_grad()
    tracked = [peak_of(model, optimizer) for _ in range(TRIES if name not in UNTRACKED else 0)] or [{}]
    # What of it lies in RAM where shards do: these, and at the peak a block's part of the gradients.
    in_ram = shards_of(model) + shards_of(model.blocks[-1]) if "offload" in name else 0
    rehearses = wire.every.ran_out

    def ran_out(*args):
        OURS.append(True)
        try:
            return rehearses(*args)
        finally:
            OURS.clear()

    wire.every.ran_out = ran_out
    FAILS[:] = [True]
    try:
        passes(model, is_sent="no-sync" not in name)
        raise SystemExit("memory did not run out")
    except RuntimeError as error:
        # A pipeline raises one of its own for it.
        if not isinstance(error, torch.OutOfMemoryError) and not isinstance(error.__cause__, torch.OutOfMemoryError):
            raise
    dist.barrier()
    line = next((line for line in wire.lines if line["event"] == "rehearsal"), None)
    told = {"sent": SENT, "tracked": min(tracked, key=lambda each: each.get("Total", 0)), "line": line, "batch": BATCH, "in_ram": in_ram}
    told["why_not"] = wire.roots.why_not
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(told))


if __name__ == "__main__":
    kind = sys.argv[1]
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", sys.argv[2]
    torch.multiprocessing.spawn(of_rank, (KINDS[kind][0], kind), nprocs=KINDS[kind][0])
