"""A distributed training: gloo where the ranks share a device, NCCL where each has its own."""
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--batch-size", type=int, default=64)
args = parser.parse_args()

local = int(os.environ["LOCAL_RANK"])
own_device = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
device = local if own_device else 0
torch.cuda.set_device(device)
dist.init_process_group("nccl" if own_device else "gloo")
model = torch.nn.Sequential(torch.nn.Linear(2048, 8192), torch.nn.ReLU(), torch.nn.Linear(8192, 10)).cuda()
ddp = DistributedDataParallel(model, device_ids=[device])
optimizer = torch.optim.AdamW(ddp.parameters())
for step in range(args.steps):
    loss = ddp(torch.randn(args.batch_size, 2048, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
    if dist.get_rank() == 0:
        print(f"step {step + 1} loss {loss.item():.4f}", flush=True)
dist.destroy_process_group()
