"""What each part of the probe costs a training, inside one process: its parts are switched in blocks
of a fraction of a second, in random order, each held against the bare block beside it. Between
processes the launch path alone varies by several per cent; inside one process 0.3 % can be seen.

    python3 probe_cost.py {launches,autocast,gpu} [ROUNDS]

    launches   24 small linears: the GPU waits for the processor at every operation
    autocast   12 transformer layers under bf16 autocast: now the one, now the other waits
    gpu        the same layers, wide: the processor waits for the GPU

    off        no probe: no sampling, no hooks, nothing recorded
    on         the probe as it is by itself, once it has settled
    samples    sampling and hooks only
    idle       the recording left on, without stacks (as the probe once did)
    lines      the stacks of all allocations recorded, nothing else

Prints one JSON object: the mean step of each, and its ratio to `off` with a 95 % interval.
"""
import gc
import json
import random
import statistics
import sys
import threading
import time

import torch

BLOCK = 0.35
SETTLE = 12.0
ROUNDS = 40
MODES = ("off", "on", "samples", "idle", "lines")

KIND = sys.argv[1] if len(sys.argv) > 1 else "launches"
if len(sys.argv) > 2:
    ROUNDS = int(sys.argv[2])
torch.manual_seed(0)


def layers(width, heads):
    layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).cuda()


if KIND == "launches":
    model = torch.nn.Sequential(
        *[layer for _ in range(24) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
    ).cuda()
    batch, autocast = torch.randn(64, 256, device="cuda"), False
elif KIND == "autocast":
    model, autocast = layers(512, 8), True
    batch = torch.randn(16, 256, 512, device="cuda")
else:
    model, autocast = layers(2048, 16), True
    batch = torch.randn(16, 512, 2048, device="cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)


def step():
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        loss = model(batch).float().square().mean()
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


def allocations():
    return torch.cuda.memory_stats()["allocation.all.allocated"]


steps_for(SETTLE)
probes = [o for o in gc.get_objects() if type(o).__name__ == "Sampler" and hasattr(o, "process")]
if not probes:
    sys.exit("the probe is not in this process: run it under oomph")
process = probes[0].process
recording = process.recording
lines_while_on = []


def record(enabled, context):
    """As the probe itself would, which otherwise takes it for the program's and is out for good."""
    recording.caller = threading.get_ident()
    try:
        torch.cuda.memory._record_memory_history(
            enabled=enabled, context=context, stacks="python", max_entries=1
        )
    finally:
        recording.caller = None


was = {"live": process.live, "resting": process.resting, "is_ours": recording.is_ours}


def switch(to):
    process.live = to in ("on", "samples")
    process.resting = None if process.live else "switched off by the benchmark"
    recording.is_ours = to == "on" and was["is_ours"]
    if to in ("off", "samples"):
        record(None, None)
    elif to == "idle":
        record("state", None)
    elif to == "lines":
        record("state", "state")
    else:
        restore()


def restore():
    """The recording as the probe has settled for it."""
    if settled == "state":
        record("state", "state" if recording.with_stacks else None)
    else:
        record(None, None)


settled = "state" if torch._C._cuda_isHistoryEnabled() else None
random.seed(1)
times = {mode: [] for mode in MODES}
for _ in range(ROUNDS):
    for mode in random.sample(MODES, len(MODES)):
        switch(mode)
        for _ in range(3):
            step()
        took = steps_for(BLOCK)
        # The slowest twentieth is the machine's more often than ours; the same is left out everywhere.
        took.sort()
        times[mode].append(statistics.fmean(took[: max(1, len(took) * 19 // 20)]) * 1e3)
        if mode == "on":
            lines_while_on.append(bool(recording.with_stacks))


def interval(of):
    """The median ratio to the bare block of the same round, and its 95 % bootstrap interval."""
    pairs = [one / bare for one, bare in zip(times[of], times["off"])]
    draws = sorted(statistics.median(random.choices(pairs, k=len(pairs))) for _ in range(2000))
    return {"ratio": statistics.median(pairs), "low": draws[50], "high": draws[1949]}


switch("off")
made = allocations()
step()
print(json.dumps({
    "kind": KIND, "rounds": ROUNDS, "allocations_a_step": allocations() - made,
    "milliseconds": {mode: statistics.median(of) for mode, of in times.items()},
    "ratios": {mode: interval(mode) for mode in MODES if mode != "off"},
    "history_on": settled is not None, "lines_while_on": sum(lines_while_on) / len(lines_while_on),
}))
