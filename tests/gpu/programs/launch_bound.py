"""A launch-bound training (24 small linears) that switches the probe that it runs under in shuffled
blocks, since between processes it varies by a third of itself (the launch path does).

    on         the probe as it is by itself, once it has settled
    off        no sampling, no recording of any kind
    recording  the probe as it is while it records lines

Prints one JSON object.
"""
import gc
import json
import random
import statistics
import sys
import threading
import time

import torch

ROUNDS = 18
SECONDS = 1.0
SETTLE = 8.0
ON, OFF, RECORDING = "on", "off", "recording"

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


def steps_for(seconds):
    times, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return times


def block():
    for _ in range(5):
        step()
    return statistics.median(steps_for(SECONDS)) * 1e3


def allocations():
    return torch.cuda.memory_stats()["allocation.all.allocated"]


steps_for(SETTLE)
probes = [o for o in gc.get_objects() if type(o).__name__ == "Sampler" and hasattr(o, "process")]
if not probes:
    sys.exit("the probe is not in this process: run it under oomph")
process = probes[0].process
recorded = []


def record(enabled, context):
    # Said to be the probe's, which would otherwise take it for the program's and be out for good.
    process.recording.caller = threading.get_ident()
    try:
        torch.cuda.memory._record_memory_history(
            enabled=enabled, context=context, stacks="python", max_entries=1
        )
    finally:
        process.recording.caller = None


def switch(to):
    process.resting = "switched off by the benchmark" if to == OFF else None
    if to == ON:
        process.recording.record(process.recording.with_stacks)
        recorded.append(process.recording.with_stacks)
    elif to == OFF:
        record(None, None)
    else:
        record("state", "state")


random.seed(1)
times = {ON: [], OFF: [], RECORDING: []}
for _ in range(ROUNDS):
    for to in random.sample(sorted(times), len(times)):
        switch(to)
        times[to].append(block())
        if to == ON:
            recorded.append(process.recording.with_stacks)
switch(ON)


def ratios(of):
    found = sorted(one / off for one, off in zip(times[of], times[OFF]))
    return {
        "median": statistics.median(found),
        "quartiles": [found[len(found) // 4], found[3 * len(found) // 4]],
    }


made = allocations()
step()
print(json.dumps({
    "milliseconds": {name: statistics.median(of) for name, of in times.items()},
    "on": ratios(ON), "recording": ratios(RECORDING), "rounds": ROUNDS,
    "lines_while_on": any(recorded), "allocations_a_step": allocations() - made,
}))
