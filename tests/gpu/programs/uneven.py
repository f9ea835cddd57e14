"""A decoder (grid.py) under DistributedDataParallel on as many GPUs as there are ranks, each bounded by a cap; the last
rank holds more than the others, as one does that also evaluates, so that it alone runs out of memory."""
import argparse
import os

import grid
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--cap", type=float, default=12.0, help="GiB that each rank may reserve")
parser.add_argument("--extra", type=float, default=3.0, help="GiB that the last rank holds beside its training")
args = parser.parse_args()

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
total = torch.cuda.get_device_properties(local).total_memory
torch.cuda.set_per_process_memory_fraction(args.cap * grid.GIB / total)
dist.init_process_group("nccl")
is_last = dist.get_rank() == dist.get_world_size() - 1
held = torch.empty(int(args.extra * grid.GIB) if is_last else 0, dtype=torch.uint8, device="cuda")
model = DistributedDataParallel(grid.Tokens(True).cuda(), device_ids=[local])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(args.steps):
    loss = model(torch.randint(0, 8000, (args.batch_size, 512), device="cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(f"step {step + 1} loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
