"""A training whose steps wait for the processor: writes its mean step in milliseconds, and how many it made.

    python3 launch_bound.py {launches,autocast} OUT [SECONDS]

    launches   24 small linears: the GPU waits at every operation
    autocast   12 transformer layers under bf16 autocast: now the one, now the other waits
"""
import json
import pathlib
import sys
import time

import torch

SETTLE = 4.0
KIND, OUT = sys.argv[1], pathlib.Path(sys.argv[2])
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
torch.manual_seed(0)
if KIND == "launches":
    model = torch.nn.Sequential(
        *[layer for _ in range(24) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
    ).cuda()
    batch = torch.randn(64, 256, device="cuda")
else:
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).cuda()
    batch = torch.randn(16, 256, 512, device="cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)


def steps_for(seconds):
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        with torch.autocast("cuda", torch.bfloat16, enabled=KIND == "autocast"):
            loss = model(batch).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        count += 1
    return (time.perf_counter() - began) / count * 1e3, count


# From the first second on, and once everything has settled.
first, _ = steps_for(SETTLE)
mean, count = steps_for(SECONDS)
OUT.write_text(json.dumps({"first": first, "mean": mean, "steps": count}))
