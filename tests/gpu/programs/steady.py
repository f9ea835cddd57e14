"""A training that goes on for so many seconds, the same each time: a line of JSON for each step, into a file.

    steady.py --out FILE --seconds N [--workers N]
"""
import argparse
import json
import os
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--out", required=True)
parser.add_argument("--seconds", type=float, required=True)
parser.add_argument("--workers", type=int, default=0)
args = parser.parse_args()


class Noise(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        return torch.randn(256, 64, generator=torch.Generator().manual_seed(index))


torch.manual_seed(0)
torch.use_deterministic_algorithms(True, warn_only=True)
# The backward of this attention adds in whatever order its blocks end.
torch.backends.cuda.enable_mem_efficient_sdp(False)
torch.backends.cuda.enable_flash_sdp(False)
layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, norm_first=True)
# Wide enough that the device, not the program, sets the pace of a step.
body = torch.nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)
model = torch.nn.Sequential(torch.nn.Linear(64, 1024), body, torch.nn.Linear(1024, 64)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
batches = iter(torch.utils.data.DataLoader(Noise(), batch_size=32, num_workers=args.workers))
until = time.monotonic() + args.seconds
with open(args.out, "w") as out:
    step = 0
    while time.monotonic() < until:
        batch = next(batches).cuda()
        began = time.perf_counter()
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        took = time.perf_counter() - began
        step += 1
        out.write(json.dumps({"step": step, "loss": loss.item(), "ms": took * 1e3}) + "\n")
        out.flush()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
