"""A training of grid.py whose allocations and frees are recorded by torch from its first one on; prints one JSON line:
torch's own figures and the trace, in the form of src/forecast/trace.rs.

    traced.py --model decoder --batch-size 8 [--steps 3] [--share 0.9]     share: of the uncapped reserved peak, as a cap
"""
import argparse
import json
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import grid  # noqa: E402


def segments_of(events):
    """Where each segment that the driver gave lies, above the lowest of them."""
    addresses = [event["addr"] for event in events if event["action"] == "segment_alloc"]
    return [address - min(addresses) for address in addresses]


def words_of(events):
    """Torch's history as the words of a trace; blocks are named by their addresses."""
    words, alive, count = [], {}, 0
    streams = {}
    for event in events:
        action, address = event["action"], event.get("addr")
        if action == "alloc":
            stream = streams.setdefault(event["stream"], len(streams))
            words.append(str(event["size"]) + ("@%d" % stream if stream else ""))
            alive[address], count = count, count + 1
        elif action == "free_completed" and address in alive:
            words.append("-%d" % (count - alive.pop(address)))
    return "| " + " ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=sorted(grid.MODELS), required=True)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--cap", type=int, default=0, help="bytes that PyTorch may reserve")
    args = parser.parse_args()
    args.device = "cuda"
    torch.cuda.init()
    total = torch.cuda.get_device_properties(0).total_memory
    if args.cap:
        torch.cuda.set_per_process_memory_fraction(args.cap / total)
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=1000000)
    failed = None
    try:
        grid.train(args, args.batch_size, args.steps)
    except torch.OutOfMemoryError as error:
        failed = str(error)[:60]
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    stats = torch.cuda.memory_stats()
    print(json.dumps({
        "model": args.model, "batch": args.batch_size, "precision": args.precision, "recompute": args.recompute,
        "settings": os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""), "cap": int(args.cap / total * total) if args.cap else 0,
        "torch": torch.__version__, "failed": failed, "events": len(events),
        "allocated_peak": stats["allocated_bytes.all.peak"], "reserved_peak": stats["reserved_bytes.all.peak"],
        "reserved": stats["reserved_bytes.all.current"], "retries": stats["num_alloc_retries"], "ooms": stats["num_ooms"],
        "segments": segments_of(events), "trace": words_of(events),
    }), flush=True)


if __name__ == "__main__":
    main()
