"""A training on two ranks over gloo, with or without patches of what ranks do; rank 0 prints what came of it as JSON.

    ranks_patched.py PROGRAM PORT [PATCH ...]
"""
import contextlib
import importlib
import json
import os
import sys
import warnings

warnings.filterwarnings("ignore")

import rehearse  # noqa: E402,F401  (it loads the probe's package)
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from _oomph_probe.patch import patches, ranks  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed._tools.mem_tracker import MemTracker  # noqa: E402

DEVICE = torch.device("cpu")
STEPS = 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


def model():
    return nn.Sequential(nn.Embedding(100, 64), *(Block() for _ in range(3)), nn.Linear(64, 100))


def fsdp2(**how):
    from torch.distributed.fsdp import fully_shard

    made = model()
    for block in list(made)[1:-1]:
        fully_shard(block, **how)
    return fully_shard(made, **how)


def set_later():
    made = fsdp2()
    made.set_reshard_after_forward(False)
    return made


def own_precision():
    from torch.distributed.fsdp import MixedPrecisionPolicy

    return fsdp2(mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16))


def fsdp1(**how):
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    strategy = ShardingStrategy.SHARD_GRAD_OP
    return FullyShardedDataParallel(
        model(), None, strategy, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=DEVICE, limit_all_gathers=False, **how
    )


PROGRAMS = {
    "ddp": lambda: nn.parallel.DistributedDataParallel(model()),
    "ddp-views": lambda: nn.parallel.DistributedDataParallel(model(), gradient_as_bucket_view=True),
    "ddp-static": lambda: nn.parallel.DistributedDataParallel(model(), static_graph=True),
    "ddp-unused": lambda: nn.parallel.DistributedDataParallel(model(), find_unused_parameters=True),
    "ddp-zeroed": lambda: nn.parallel.DistributedDataParallel(model()),
    "fsdp2": fsdp2,
    "fsdp2-whole": lambda: fsdp2(reshard_after_forward=False),
    "fsdp2-set-later": set_later,
    "fsdp2-own-precision": own_precision,
    "fsdp1": fsdp1,
}


def how_it_is(made):
    """What of it the patches change."""
    if hasattr(made, "gradient_as_bucket_view"):
        return {"views": made.gradient_as_bucket_view}
    if hasattr(made, "sharding_strategy"):
        units = made.fsdp_modules(made)
        return {
            "strategies": sorted({each.sharding_strategy.name for each in units}),
            "limits": sorted({each.limit_all_gathers for each in units}),
            "gathered": sorted({str(each.mixed_precision.param_dtype) for each in units}),
        }
    from torch.distributed.fsdp import FSDPModule

    groups = [each._get_fsdp_state()._fsdp_param_group for each in made.modules() if isinstance(each, FSDPModule)]
    return {
        "reshards": [group.post_forward_mesh_info is group.mesh_info for group in groups],
        "gathered": sorted({str(group.mp_policy.param_dtype) for group in groups}),
        "reduced": sorted({str(group.mp_policy.reduce_dtype) for group in groups}),
    }


def of_rank(rank, size, name, chosen):
    torch.set_num_threads(1)
    patched = patches.Patches(torch, (2, 11), chosen, on_cpu=True)
    patched.install()
    if patched.head is not None:
        patched.head.heads.smallest = 0
    dist.init_process_group("gloo", rank=rank, world_size=size)
    torch.manual_seed(0)
    if name.startswith("fsdp"):
        # As hook.py has it.
        patched.imported(importlib.import_module(ranks.FSDP))
    made = PROGRAMS[name]()
    optimizer = torch.optim.AdamW(made.parameters())
    losses, peaks = [], []
    for step in range(STEPS):
        tokens = torch.arange(48).reshape(6, 8) + step + 10 * rank
        tracker = MemTracker()
        tracker.track_external(made, optimizer)
        # It looks into the memory of every tensor.
        with tracker if patched.head is None else contextlib.nullcontext():
            loss = F.cross_entropy(made(tokens).flatten(0, 1).float(), tokens.flatten())
            loss.backward()
        sums = [each.grad.double().sum().item() for each in made.parameters()] if not name.startswith("fsdp") else []
        if patched.head is None:
            peaks.append(tracker.get_tracker_snapshot("peak")[DEVICE]["Total"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=name != "ddp-zeroed")
        losses.append(loss.item().hex())
    if patched.head is not None:
        fused = patched.head.heads.fused[1]
    patched.settle()
    if rank == 0:
        told = {"losses": losses, "peak": max(peaks[-1:], default=0), "gradients": sums, "is": how_it_is(made), "patches": patched.outcomes.said}
        print(json.dumps(dict(told, fused=fused) if patched.head is not None else told))
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", sys.argv[2]
    torch.multiprocessing.spawn(of_rank, (2, sys.argv[1], sys.argv[3:]), nprocs=2)
