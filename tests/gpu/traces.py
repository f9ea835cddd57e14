#!/usr/bin/env python3
"""Records real traces of the caching allocator with torch's own figures, for the replay to be held against.

    python3 tests/gpu/traces.py --results traces.jsonl
    python3 tests/gpu/traces.py --results traces.jsonl --corpus > tests/allocator/measured.txt

The corpus is what `cargo test allocator` replays: reserved must come out to the byte.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from results import Results  # noqa: E402

EXPANDABLE = "expandable_segments:True"
MODELS = [
    ("decoder", 8, []), ("bert", 16, []), ("moe", 6, []), ("lora", 8, ["--precision", "bf16"]), ("vit", 24, []),
    ("resnet", 48, []), ("unet", 8, []), ("lstm", 16, []), ("decoder", 16, ["--recompute"]), ("vit", 32, ["--precision", "bf16"]),
]
SETTINGS = ["", EXPANDABLE, "max_split_size_mb:64", "max_split_size_mb:200"]
# Settings, and the cap as a share of what the training reserved without one.
CAPPED = [("", 0.97), ("", 0.9), (EXPANDABLE, 0.995), ("garbage_collection_threshold:0.6", 0.97)]


def run(model, batch, words, settings, cap=0):
    command = [sys.executable, HERE / "programs" / "traced.py", "--model", model, "--batch-size", batch, "--cap", cap, *words]
    environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=settings)
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(done.stderr[-400:])
    return json.loads(lines[-1])


def measure(results, at_once):
    """Every training uncapped, then under caps that its uncapped peak tells."""
    def one(case):
        (model, batch, words), settings, share = case
        key = dict(case=" ".join([model, *words]), setting=settings, share=share)
        if results.has(**key):
            return
        cap = 0
        if share:
            uncapped = settings if settings in SETTINGS else ""
            cap = int(results.find(case=key["case"], setting=uncapped, share=0)["reserved_peak"] * share)
        try:
            results.add(**key, **run(model, batch, words, settings, cap))
        except Exception as error:
            print(key, error, file=sys.stderr, flush=True)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, [(model, settings, 0) for model in MODELS for settings in SETTINGS]))
        list(pool.map(one, [(model, *capped) for model in MODELS for capped in CAPPED]))


def corpus(results, args):
    print("# Traces of real trainings (tests/gpu/programs/grid.py), recorded on a GPU by tests/gpu/traces.py.")
    # Of trainings with long traces one is enough.
    latest = {line["case"]: line for line in results.lines if not line["failed"] and not line["ooms"]}
    for line in results.lines:
        # An attempt of cuDNN's that fails leaves no event.
        if line["failed"] or line["ooms"] or not (len(line["trace"]) <= args.longest or line is latest[line["case"]]):
            continue
        print("\n# %s, batch %d, torch %s" % (line["case"], line["batch"], line["torch"]))
        if line["setting"]:
            print("settings: %s" % line["setting"])
        if line["cap"]:
            print("cap: %d" % line["cap"])
        print("expect: %d %d %d %d -" % tuple(line[k] for k in ("allocated_peak", "reserved_peak", "reserved", "retries")))
        print(" ".join([line["trace"], "|", *map(str, line["segments"])]) if line.get("segments") else line["trace"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", required=True)
    parser.add_argument("--corpus", action="store_true")
    parser.add_argument("--longest", type=int, default=16000, help="characters from which on a trace is a long one")
    parser.add_argument("--at-once", type=int, default=5, help="trainings that share the GPU")
    args = parser.parse_args()
    results = Results(args.results)
    corpus(results, args) if args.corpus else measure(results, args.at_once)


if __name__ == "__main__":
    main()
