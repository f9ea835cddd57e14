"""A training of grid.py, without oomph, that records torch's own history of the allocator and prints as one JSON line what is
alive at the peak of its third step: bytes by the program's line, and, of what the forward pass made, by module. A module is
what torch itself attached to each allocation (`_set_memory_metadata`, torch 2.10 and later; null before).

    own_history.py --model decoder --batch-size 8
"""
import argparse
import json
import os
import sys
import sysconfig

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import grid  # noqa: E402

ENTRIES = 2_000_000
STANDARD = sysconfig.get_paths()["stdlib"]
memory = torch.cuda.memory
can_name = hasattr(memory, "_set_memory_metadata")
window = []
steps = [0]
running = [""]


def is_own(path):
    """A file of the program's."""
    library = "/site-packages/" in path or "/dist-packages/" in path or path.startswith((STANDARD, "<"))
    return not library


def line_of(event):
    frame = next((frame for frame in event.get("frames", ()) if is_own(frame["filename"])), None)
    return "%s:%d" % (os.path.basename(frame["filename"]), frame["line"]) if frame else "unknown"


def rounded(size):
    return -(-size // 512) * 512


def ended(*_):
    steps[0] += 1
    if steps[0] in (2, 3):
        events = memory._snapshot()["device_traces"][0]
        assert len(events) < ENTRIES, "the history is too short"
        window.append(len(events))
        if steps[0] == 3:
            print(json.dumps(at_the_peak(events)), flush=True)


def at_the_peak(events):
    alive, now, peak, held = {}, 0, -1, None
    for number, event in enumerate(events[: window[1]]):
        if event["action"] == "alloc":
            alive[event["addr"]] = number
            now += rounded(event["size"])
        elif event["action"] == "free_completed" and event["addr"] in alive:
            now -= rounded(events[alive.pop(event["addr"])]["size"])
        if number >= window[0] and now > peak:
            peak, held = now, number
    alive = {}
    for number, event in enumerate(events[: held + 1]):
        if event["action"] == "alloc":
            alive[event["addr"]] = number
        elif event["action"] == "free_completed":
            alive.pop(event["addr"], None)
    lines, modules = {}, {}
    for number in alive.values():
        event = events[number]
        size = rounded(event["size"])
        line = line_of(event)
        lines[line] = lines.get(line, 0) + size
        # Backward runs on threads without Python frames.
        if number >= window[0] and event.get("frames"):
            name = event.get("user_metadata") or ""
            modules[name] = modules.get(name, 0) + size
    return {"peak": peak, "lines": lines, "modules": modules if can_name else None}


def name_modules(model):
    """Each module's allocations carry its name, the innermost's."""
    outer = []

    def enter(name):
        def hook(*_):
            outer.append(running[0])
            running[0] = name
            memory._set_memory_metadata(name)

        return hook

    def leave(*_):
        running[0] = outer.pop()
        memory._set_memory_metadata(running[0])

    for name, module in model.named_modules():
        module.register_forward_pre_hook(enter(name or type(model).__name__))
        module.register_forward_hook(leave)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(grid.MODELS), required=True)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--recompute", action="store_true")
    args = parser.parse_args()
    args.device = "cuda"
    memory._record_memory_history(enabled="all", context="alloc", stacks="python", max_entries=ENTRIES)
    register_optimizer_step_post_hook(ended)
    if can_name and not args.recompute:
        first = torch.nn.Module.__call__

        def found(module, *inputs, **named):
            # The first module that is called is the model.
            torch.nn.Module.__call__ = first
            name_modules(module)
            return module(*inputs, **named)

        torch.nn.Module.__call__ = found
    grid.train(args, args.batch_size, 4)


if __name__ == "__main__":
    main()
