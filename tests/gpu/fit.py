#!/usr/bin/env python3
"""Holds `oomph fit` against the true largest batch, and beside accelerate's and Lightning's finders.

    python3 tests/gpu/fit.py --oomph target/release/oomph [--results FILE] [--only NAME ...] [--report]

Under a cap (GiB that PyTorch may reserve), so that a limit is reached in seconds. Results are appended case by case;
what was not measured stays blank.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE / "programs" / "grid.py"
sys.path.insert(0, str(HERE))

from results import Results, share_of, shown  # noqa: E402

# Name, where the search starts, where the bisection starts, cap in GiB, arguments.
CASES = [
    ("decoder fp32", 16, 8, 24, ["--model", "decoder"]),
    ("decoder recomputed", 16, 8, 12, ["--model", "decoder", "--recompute"]),
    ("ViT bf16", 32, 32, 16, ["--model", "vit", "--precision", "bf16"]),
    ("ResNet", 64, 64, 12, ["--model", "resnet"]),
    ("U-Net", 16, 8, 16, ["--model", "unet"]),
    ("BERT random lengths", 16, 8, 16, ["--model", "bert"]),
    ("LoRA bf16", 16, 8, 24, ["--model", "lora", "--precision", "bf16"]),
    ("T5", 16, 8, 16, ["--model", "t5"]),
    ("Swin bf16", 16, 8, 12, ["--model", "swin", "--precision", "bf16"]),
    ("ConvNeXt", 16, 8, 12, ["--model", "convnext"]),
    ("wide decoder bf16", 8, 4, 24, ["--model", "wide", "--precision", "bf16"]),
    ("CLIP", 16, 8, 12, ["--model", "clip"]),
    ("diffusion bf16", 16, 8, 12, ["--model", "diffusion", "--precision", "bf16"]),
]
# GiB of cards that are not there, and what one needs beyond PyTorch's reserve (the context; `measured.rs`).
ROOMS = (24, 40)
OUTSIDE = 0.625

ORDER = (("truth", "oomph"), ("rooms",), ("accelerate", "lightning"))


def last_json(command, seconds=300):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError(done.stderr[-600:])
    return json.loads(done.stdout if done.stdout.startswith("{\n") else done.stdout.splitlines()[-1])


def largest(program, low):
    """The largest batch that runs: by bisection in one process, and from there upwards in new ones, whose memory
    holds nothing of earlier tries."""
    found = last_json(program + ["--truth", low, "--limit-from", low])["largest"]
    while subprocess.run(
        list(map(str, program + ["--batch-size", found + max(1, found // 50)])), capture_output=True, timeout=200
    ).returncode == 0:
        found += max(1, found // 50)
    return {"batch": found, "runs": None}


def fit(oomph, program, start, keep):
    """What oomph finds, and whether a new process with it gets through ten times as many steps."""
    longer = program + ["--steps", 40, "--batch-size"]
    with tempfile.TemporaryDirectory() as directory:
        recording = pathlib.Path(directory) / "events.jsonl"
        found = last_json([oomph, "fit", "--json", "--yes", "--margin", 0, "--record", recording, "--", *longer, start])
        keep(recording)
    proof = subprocess.run(list(map(str, [*longer, found["batch"]])), capture_output=True, timeout=200, stdin=subprocess.DEVNULL)
    tried = [[run["batch"], run["fits"]] for run in found["runs"]]
    return {"batch": found["batch"], "runs": len(found["runs"]), "proven": found["proven"], "tried": tried,
            "lasts": proof.returncode == 0}


def rooms(oomph, arguments, start, low, steps):
    """What one run on the whole card says of others, and what is true under caps that leave PyTorch as much."""
    program = ["python3", PROGRAM, *arguments]
    asked = ",".join("%gGiB" % room for room in ROOMS)
    said = last_json([oomph, "fit", "--json", "--yes", "--margin", 0, "--room", asked, "--", *program,
                      "--steps", 40, "--batch-size", start])
    true = [largest(program + ["--steps", steps, "--cap", room - OUTSIDE], low)["batch"] for room in ROOMS]
    return {"said": said, "true": true}


def attempts(oomph, start, low, cap, arguments, keep):
    """What is measured of a case: a name and how."""
    program = ["python3", PROGRAM, *arguments, "--cap", cap]
    # Where lengths vary, what a few steps need is not yet what all need.
    steps = 40 if "bert" in arguments else 6
    yield "rooms", lambda: rooms(oomph, arguments, start, low, steps)
    yield "truth", lambda: largest(program + ["--steps", steps], low)
    yield "oomph", lambda: fit(oomph, program, start, keep)
    for finder in ("accelerate", "lightning"):
        large = program + ["--finder", finder, "--batch-size", 16 * start if finder == "accelerate" else 2]
        yield finder, lambda large=large: last_json(large)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", default="target/release/oomph")
    parser.add_argument("--results", default=str(HERE / "fit.jsonl"))
    parser.add_argument("--part", help="as in 2/3: the second of three that run side by side")
    parser.add_argument("--only", nargs="*", default=[], choices=[part for parts in ORDER for part in parts])
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    results = Results(args.results)
    cases = [] if args.report else share_of(CASES, args.part)
    # Of each case what oomph is held to first: a run that is cut short has seen that of all.
    for asked, (name, start, low, cap, arguments) in ((who, case) for who in ORDER for case in cases):
        for who, attempt in attempts(args.oomph, start, low, cap, arguments, lambda recording: results.keep(recording, name)):
            if who not in asked or args.only and who not in args.only or results.has(case=name, who=who):
                continue
            try:
                results.add(case=name, who=who, **attempt())
            except (RuntimeError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
                print("%s, %s: not measured: %s" % (name, who, error), flush=True)
    print("%-22s %7s | %-22s | %-16s | %-16s" % ("case", "true", "oomph: batch, runs", "accelerate", "lightning"))
    for name, *_ in CASES:
        of = {line["who"]: line for line in results.lines if line["case"] == name}
        true = of.get("truth", {}).get("batch")
        cells = []
        for who in ("oomph", "accelerate", "lightning"):
            line = of.get(who)
            share = 100 * line["batch"] / true if line and line["batch"] and true else None
            note = "" if line is None or line.get("lasts", True) else ", does not last"
            cells.append("" if line is None else "%s in %s (%s%s)" % (line["batch"], line["runs"], shown(share, "%.0f %%"), note))
        print("%-22s %7s | %-22s | %-16s | %-16s" % (name, true or "", *cells))
        if "rooms" in of:
            print("    rooms of %s GiB: %s, true %s" % (ROOMS, json.dumps(of["rooms"]["said"]), of["rooms"]["true"]))


if __name__ == "__main__":
    main()
