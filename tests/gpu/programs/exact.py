"""A training that writes down torch's own figures at every step's end, to hold oomph's against."""
import argparse
import json
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--exit", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(0)
model = torch.nn.Sequential(
    *[layer for _ in range(8) for layer in (torch.nn.Linear(4096, 4096), torch.nn.GELU())]
).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
lines = []
for step in range(args.steps):
    batch = torch.randn(512 + 64 * (step % 7), 4096, device="cuda")
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    torch.cuda.synchronize()
    lines.append(
        {
            "step": step + 1,
            "allocated": torch.cuda.memory_allocated(),
            "reserved": torch.cuda.memory_reserved(),
            "peak": torch.cuda.max_memory_allocated(),
            "loss": loss.item(),
        }
    )
    optimizer.zero_grad()
    time.sleep(0.1)
free, total = torch.cuda.mem_get_info()
with open(args.out, "w") as out:
    json.dump({"steps": lines, "device_free": free, "device_total": total}, out)
# Hold still for a moment, so that several readings of the device see the same state.
time.sleep(1.0)
raise SystemExit(args.exit)
