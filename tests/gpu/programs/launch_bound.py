"""A launch-bound training (24 small linears) that switches the probe that it runs under off and on
in shuffled blocks, since between processes it varies by a third of itself (the launch path does).
Off means: no sampling, no recording of lines. Prints one JSON object."""
import gc
import json
import random
import statistics
import sys
import time

import torch

BLOCKS = 48
SECONDS = 1.0

torch.manual_seed(0)
model = torch.nn.Sequential(
    *[layer for _ in range(24) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
batch = torch.randn(64, 256, device="cuda")


def step():
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()


def block():
    for _ in range(5):
        step()
    times, until = [], time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


for _ in range(100):
    step()
probes = [o for o in gc.get_objects() if type(o).__name__ == "Sampler" and hasattr(o, "process")]
if not probes:
    sys.exit("the probe is not in this process: run it under oomph")
process = probes[0].process


def switch(on):
    process.resting = None if on else "switched off by the benchmark"
    if on:
        torch.cuda.memory._record_memory_history(
            enabled="state", context="state", stacks="python", max_entries=1
        )
    else:
        torch.cuda.memory._record_memory_history(enabled=None)


random.seed(1)
ratios, on_times, off_times = [], [], []
for _ in range(BLOCKS // 2):
    order = [True, False]
    random.shuffle(order)
    taken = {}
    for on in order:
        switch(on)
        taken[on] = block()
    on_times.append(taken[True])
    off_times.append(taken[False])
    ratios.append(taken[True] / taken[False])
switch(True)
ratios.sort()
print(json.dumps({
    "on": statistics.median(on_times), "off": statistics.median(off_times),
    "ratio": statistics.median(ratios), "blocks": BLOCKS,
    "quartiles": [ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]],
}))
