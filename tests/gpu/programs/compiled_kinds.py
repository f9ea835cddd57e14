"""Trainings that are compiled or sharded, one kind each, on models of grid.py.

    [torchrun …] compiled_kinds.py --kind gpt-wrapped --batch-size 16 [--steps 8] [--cap GIB]
    compiled_kinds.py --kind gpt-wrapped --batch-size 16 --caught TIMES     an attempt at so many times the batch fails, is caught,
                                                                          and the losses behind it are printed exactly

`--cap` bounds what PyTorch may reserve. The last line is the peak of what was allocated on the fullest rank, as JSON,
by rank 0. On a CPU (`--device cpu --tiny`) the models are small and nothing runs out.
"""
import argparse
import json
import os
import random
import sys
import time

import grid
import torch
import torch.nn.functional as F


class Logits(torch.nn.Module):
    """Tokens of grid.py without its loss: that is in the caller's lines, outside of the graph."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, tokens):
        inner = self.inner
        x = inner.embed(tokens) + inner.position.weight[: tokens.shape[1]]
        for block in inner.blocks:
            x = block(x)
        return inner.head(inner.norm(x))


def wrapped(model, args, **how):
    return torch.compile(model, backend=args.backend, **({} if args.backend != "inductor" else how))


def in_place(model, args):
    model.compile(backend=args.backend)
    return model


def blocks(model, args):
    for block in model.blocks:
        block.compile(backend=args.backend)
    return model


def blocks_wrapped(model, args):
    for at, block in enumerate(model.blocks):
        model.blocks[at] = torch.compile(block, backend=args.backend)
    return model


def process_group(args):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(20000 + os.getpid() % 20000))
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.distributed.init_process_group("nccl" if args.device == "cuda" else "gloo", rank=rank, world_size=size)


def ddp(model, args):
    process_group(args)
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=[own_gpu()] if args.device == "cuda" else None)


def own_gpu():
    return int(os.environ.get("LOCAL_RANK", 0))


def ddp_compiled(model, args):
    return wrapped(ddp(model, args), args)


def compiled_ddp(model, args):
    """In the order of nanoGPT; timm and torchvision wrap first (`ddp_compiled`)."""
    return ddp(wrapped(model, args), args)


def blocks_ddp(model, args):
    return ddp(blocks(model, args), args)


def fsdp2_blocks(model, args):
    """In the order of torchtitan: each block is compiled in place, and sharded then."""
    return fsdp2(blocks(model, args), args)


def fsdp2_blocks_wrapped(model, args):
    return fsdp2(blocks_wrapped(model, args), args)


def fsdp2_compiled(model, args):
    return wrapped(fsdp2(model, args), args)


def method(model, args):
    model.forward = torch.compile(model.forward, backend=args.backend)
    return model


class Breaking(torch.nn.Module):
    """A decoder whose graph has to end in the middle."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.blocks = inner, inner.blocks

    def forward(self, tokens):
        inner = self.inner
        x = inner.embed(tokens) + inner.position.weight[: tokens.shape[1]]
        for at, block in enumerate(inner.blocks):
            if at == len(inner.blocks) // 2:
                torch._dynamo.graph_break()
            x = block(x)
        logits = inner.head(inner.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def loss_of(model, tokens):
    return model(tokens)


def whole_step(model, optimizer, tokens):
    """What a program may compile as one function: with its backward and its optimizer."""
    loss = model(tokens)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def fsdp1(model, args):
    from torch.distributed.fsdp import FullyShardedDataParallel

    process_group(args)
    return FullyShardedDataParallel(model, device_id=own_gpu() if args.device == "cuda" else None, use_orig_params=True)


def fsdp1_grad(model, args):
    """Parameters stay whole behind forward."""
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    process_group(args)
    wraps = ModuleWrapPolicy({type(block) for block in model.blocks})
    how = {"sharding_strategy": ShardingStrategy.SHARD_GRAD_OP, "auto_wrap_policy": wraps}
    return FullyShardedDataParallel(model, device_id=own_gpu() if args.device == "cuda" else None, **how)


def fsdp1_blocks(model, args):
    """Each block a unit of its own, in bf16."""
    import functools

    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    process_group(args)
    kinds = {type(block) for block in model.blocks}
    precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    wrap = functools.partial(FullyShardedDataParallel, auto_wrap_policy=ModuleWrapPolicy(kinds), mixed_precision=precision)
    return wrap(model, device_id=own_gpu() if args.device == "cuda" else None)


def fsdp2(model, args, precision=None, reshards=True):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    process_group(args)
    how = {"mesh": init_device_mesh(args.device, (torch.distributed.get_world_size(),))}
    if precision is not None:
        how["mp_policy"] = MixedPrecisionPolicy(param_dtype=precision, reduce_dtype=torch.float32)
    if not reshards:
        how["reshard_after_forward"] = False
    for block in model.blocks:
        fully_shard(block, **how)
    return fully_shard(model, **how)


# What is trained, whether in bf16, the batch to begin with, and how it is compiled or sharded.
KINDS = {
    "gpt-wrapped": ("logits", True, 24, wrapped),
    "gpt-in-place": ("decoder", True, 24, in_place),
    "gpt-blocks": ("decoder", True, 24, blocks),
    "gpt-blocks-wrapped": ("decoder", False, 16, blocks_wrapped),
    "gpt-recompute": ("recompute", True, 32, wrapped),
    "gpt-graphs": ("decoder", True, 24, lambda model, args: wrapped(model, args, mode="reduce-overhead")),
    "bert-dynamic": ("bert", True, 32, lambda model, args: wrapped(model, args, dynamic=True)),
    "vit": ("vit", True, 96, wrapped),
    "resnet": ("resnet", False, 192, wrapped),
    "unet": ("unet", True, 48, wrapped),
    "ddp": ("decoder", True, 24, ddp),
    "ddp-compiled": ("decoder", True, 24, ddp_compiled),
    "compiled-ddp": ("decoder", True, 24, compiled_ddp),
    "blocks-ddp": ("decoder", True, 24, blocks_ddp),
    "fsdp2-blocks": ("decoder", True, 24, fsdp2_blocks),
    "fsdp2-blocks-bf16": ("decoder", False, 24, lambda model, args: fsdp2(blocks(model, args), args, torch.bfloat16)),
    "fsdp2-blocks-wrapped": ("decoder", True, 24, fsdp2_blocks_wrapped),
    "fsdp2-blocks-recompute": ("recompute", True, 48, fsdp2_blocks),
    "fsdp2-compiled": ("decoder", True, 24, fsdp2_compiled),
    "gpt-method": ("decoder", True, 24, method),
    "gpt-breaks": ("breaking", True, 24, wrapped),
    "gpt-dynamic": ("decoder", True, 24, lambda model, args: wrapped(model, args, dynamic=True)),
    # What is compiled is a function that calls the model.
    "gpt-function": ("decoder", True, 24, lambda model, args: model),
    "gpt-step": ("decoder", True, 24, lambda model, args: model),
    "gpt-optimizer-compiled": ("decoder", True, 24, wrapped),
    "fsdp1": ("decoder", False, 16, fsdp1),
    "fsdp1-grad": ("decoder", False, 16, fsdp1_grad),
    "fsdp2": ("decoder", False, 16, fsdp2),
    "fsdp2-bf16": ("decoder", False, 24, lambda model, args: fsdp2(model, args, torch.bfloat16)),
    "fsdp2-recompute": ("recompute", True, 48, fsdp2),
    "fsdp2-whole": ("decoder", True, 24, lambda model, args: fsdp2(model, args, reshards=False)),
    "fsdp2-large": ("huge", False, 2, lambda model, args: fsdp2(model, args, torch.bfloat16)),
    "fsdp1-blocks": ("decoder", False, 24, fsdp1_blocks),
    # Another length in each step, and graphs that are compiled for each.
    "bert": ("bert", True, 32, wrapped),
    # Forward and backward fit, and the optimizer's step does not, of which some is temporary unless it is compiled.
    "gpt-optimizer": ("huge", True, 1, wrapped),
    "gpt-large-optimizer-compiled": ("huge", True, 1, wrapped),
    "fsdp2-optimizer": ("huge", False, 1, fsdp2),
}


def made(args):
    name = KINDS[args.kind][0]
    small = dict(layers=2, width=args.width, vocabulary=100, length=32) if args.tiny else {}
    if name in ("decoder", "logits", "recompute", "bert", "breaking"):
        model = grid.Tokens(name != "bert", recompute=name == "recompute", **small)
        return {"logits": Logits, "breaking": Breaking}.get(name, lambda inner: inner)(model)
    if name == "huge":
        return grid.Tokens(True, **(small or dict(layers=16, width=2048)))
    grid_args = argparse.Namespace(recompute=False)
    return grid.MODELS[name](grid_args)


def batch(args, size, step):
    name = KINDS[args.kind][0]
    if name in grid.IMAGES:
        side = 32 if args.tiny and name != "vit" else 224
        return torch.randn(size, 3, side, side, device=args.device)
    longest = 32 if args.tiny else 512
    length = random.Random(step).randrange(longest // 4, longest) if name == "bert" else longest
    return torch.randint(0, 100 if args.tiny else 8000, (size, length), device=args.device)


def say(**line):
    """In one piece: ranks write into one stream."""
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), (json.dumps(line) + "\n").encode())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=sorted(KINDS), required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--cap", type=float, help="GiB that PyTorch may reserve")
    parser.add_argument("--caught", type=float, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--width", type=int, default=64, help="of tiny ones: from 512 on their tensors are told in MiB")
    args = parser.parse_args()
    if args.device == "cuda":
        torch.cuda.set_device(own_gpu())
    if args.cap:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(args.cap * (1 << 30) / total)
    torch.manual_seed(0)
    is_bf16 = KINDS[args.kind][1]
    model = KINDS[args.kind][3](made(args).to(args.device), args)
    has_loss = KINDS[args.kind][0] != "logits"
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if args.kind.endswith("-optimizer-compiled"):
        optimizer.step = torch.compile(optimizer.step, backend=args.backend)
    losses = []
    compute = torch.compile(loss_of, backend=args.backend) if args.kind == "gpt-function" else loss_of
    at_once = torch.compile(whole_step, backend=args.backend) if args.kind == "gpt-step" else None

    def train(size, step):
        inputs = batch(args, size, step)
        try:
            if at_once is not None:
                with torch.autocast(args.device, torch.bfloat16, enabled=is_bf16):
                    losses.append(at_once(model, optimizer, inputs).item().hex())
                return
            with torch.autocast(args.device, torch.bfloat16, enabled=is_bf16):
                output = compute(model, inputs)
                loss = output if has_loss else F.cross_entropy(output.flatten(0, 1), inputs.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        except torch.OutOfMemoryError:
            # When, for whoever waits for the end.
            say(out=time.time())
            raise
        losses.append(loss.item().hex())

    for step in range(args.steps):
        train(args.batch_size, step)
        if args.caught and step == 1:
            try:
                train(int(args.batch_size * args.caught), step)
            except torch.OutOfMemoryError:
                optimizer.zero_grad()
                torch.cuda.empty_cache()
                losses.append("out")
        print("step", step, flush=True)
    peak = torch.cuda.max_memory_allocated() if args.device == "cuda" else 0
    rank = 0
    if torch.distributed.is_initialized():
        # The fullest rank's.
        rank, most = torch.distributed.get_rank(), torch.tensor(peak, device=args.device)
        torch.distributed.all_reduce(most, torch.distributed.ReduceOp.MAX)
        peak = most.item()
        torch.distributed.destroy_process_group()
    if rank == 0:
        say(kind=args.kind, batch=args.batch_size, peak=peak, losses=losses)
    return 0


if __name__ == "__main__":
    sys.exit(main())
