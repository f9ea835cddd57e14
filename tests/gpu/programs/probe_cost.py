"""What each part of the probe costs a training, inside one process: its parts are switched every few
steps, in random order, and each is held against the bare steps beside it. Between processes the launch
path alone varies by several per cent, and within one it drifts from second to second.

    python3 probe_cost.py {launches,autocast,gpu} [SECONDS [MODE ...]]

    launches   24 small linears: the GPU waits for the processor at every operation
    autocast   12 transformer layers under bf16 autocast: now the one, now the other waits
    gpu        the same layers, wide: the processor waits for the GPU

    off        no probe: no hook, no sampling thread that wakes up, nothing recorded
    on         the probe as it is by itself, once it has settled
    hooks      what is read at optimizer steps only: no sampling thread, and nothing sent
    idle       the recording left on, without stacks (as the probe once did)
    lines      the stacks of all allocations recorded, nothing else

While the probe is off its clocks stand still, so that what it does ten times a second comes as often in the time
that it is on. The fewer modes, the more rounds: of 5 ms steps it takes four minutes of `off on` to tell 0.3 %.
Prints one JSON object: the mean step of each, and its ratio to `off` with a 95 % interval.
"""
import json
import random
import statistics
import sys
import threading
import time

import torch

SETTLE = 12.0
SECONDS = 60.0
# Steps of one turn: some tens of milliseconds.
TURN = {"launches": 8, "autocast": 3, "gpu": 1}
MODES = tuple(sys.argv[3:]) or ("off", "on", "hooks", "idle", "lines")

KIND = sys.argv[1] if len(sys.argv) > 1 else "launches"
if len(sys.argv) > 2:
    SECONDS = float(sys.argv[2])
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
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        step()


def turn():
    began = time.perf_counter()
    for _ in range(TURN[KIND]):
        step()
    return (time.perf_counter() - began) / TURN[KIND] * 1e3


def allocations():
    return torch.cuda.memory_stats()["allocation.all.allocated"]


steps_for(SETTLE)
if "_oomph_probe" not in sys.modules:
    sys.exit("the probe is not in this process: run it under oomph")
attached = sys.modules["_oomph_probe"].here.attached
recording = attached.recording
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


was_ours = recording.is_ours
sampler, steps = attached.sampler, attached.steps


class Thread:
    """The sampling thread, which can be parked: it then neither ticks nor wakes up."""

    def __init__(self):
        self.tick, self.parked_at, self.next_at = sampler.tick, None, time.monotonic()
        sampler.tick, sampler.pause_now = self.tick_where_due, self.pause

    def tick_where_due(self):
        if self.parked_at is None and time.monotonic() >= self.next_at:
            self.tick()
            self.next_at = time.monotonic() + sampler.interval

    def pause(self):
        return 3600.0 if self.parked_at is not None else max(self.next_at - time.monotonic(), 0.0)

    def park(self):
        if self.parked_at is None:
            self.parked_at = time.monotonic()
            sampler.alarm.ring()

    def go_on(self):
        """Every clock of the probe goes on where it stood."""
        if self.parked_at is not None:
            stood, self.parked_at = time.monotonic() - self.parked_at, None
            self.next_at += stood
            for name in ("read_at", "due_ns"):
                setattr(steps, name, getattr(steps, name) + int(stood * 1e9))
            for of, names in CLOCKS:
                for name in names:
                    setattr(of, name, getattr(of, name) + stood)
            sampler.alarm.ring()


CLOCKS = (
    (sampler, ("stepped_at", "due_at", "gathered_at")),
    (attached.structure, ("next_at",)),
    (attached.tracing, ("next_at", "grown_at")),
    (attached.growth, ("next_at",)),
)
NEVER = 1e9
thread = Thread()
OPTIMIZER = sys.modules["torch.optim.optimizer"]
HOOKS = [
    (of, {key: hook for key, hook in of.items() if hook.__module__.startswith("_oomph_probe")})
    for of in (OPTIMIZER._global_optimizer_pre_hooks, OPTIMIZER._global_optimizer_post_hooks)
]


def switch(to):
    for of, ours in HOOKS:
        for key, hook in ours.items():
            of.pop(key, None)
            if to in ("on", "hooks"):
                of[key] = hook
    attached.lifetime.live = to in ("on", "hooks")
    recording.is_ours = to == "on" and was_ours
    if to == "on":
        thread.go_on()
        sampler.due_at = min(sampler.due_at, time.monotonic() + sampler.interval)
        restore()
        return
    thread.park()
    if to == "hooks":
        sampler.due_at = NEVER
    if to == "idle":
        record("state", None)
    elif to == "lines":
        record("state", "state")
    else:
        record(None, None)


def restore():
    """The recording as the probe has settled for it."""
    if settled == "state":
        record("state", "state" if recording.with_stacks else None)
    else:
        record(None, None)


settled = "state" if torch._C._cuda_isHistoryEnabled() else None
random.seed(1)
times = {mode: [] for mode in MODES}
until = time.perf_counter() + SECONDS
while time.perf_counter() < until:
    for mode in random.sample(MODES, len(MODES)):
        switch(mode)
        step()
        times[mode].append(turn())
        if mode == "on":
            lines_while_on.append(bool(recording.with_stacks))


def ratio(of, rounds):
    """Of the sums, without the rounds that the machine disturbed most."""
    bare = times["off"]
    held = sorted(rounds, key=lambda n: max(times[of][n], bare[n]))[: max(1, len(rounds) * 9 // 10)]
    return sum(times[of][n] for n in held) / sum(bare[n] for n in held)


def interval(of):
    """The ratio to the bare turns of the same rounds, and its 95 % bootstrap interval."""
    rounds = range(len(times["off"]))
    draws = sorted(ratio(of, random.choices(rounds, k=len(rounds))) for _ in range(1000))
    return {"ratio": ratio(of, rounds), "low": draws[25], "high": draws[974]}


switch("off")
made = allocations()
step()
print(json.dumps({
    "kind": KIND, "rounds": len(times["off"]), "allocations_a_step": allocations() - made,
    "milliseconds": {mode: statistics.median(of) for mode, of in times.items()},
    "ratios": {mode: interval(mode) for mode in MODES if mode != "off"},
    "history_on": settled is not None, "lines_while_on": sum(lines_while_on) / len(lines_while_on),
}))
