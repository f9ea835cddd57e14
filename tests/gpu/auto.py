#!/usr/bin/env python3
"""`--on-oom auto` on real out-of-memories of all causes: a run that finishes on the first relaunch, or the right refusal.

    python3 tests/gpu/auto.py --oomph target/release/oomph [--results FILE] [--report]
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GRID, DEMO = HERE / "programs" / "grid.py", ROOT / "demo" / "train.py"
sys.path.insert(0, str(HERE))

from results import Results, share_of  # noqa: E402

REFUSED, FINISHED, NOT_INDUCED = "refused", "finished", "not induced"
demo = lambda scenario, steps: ["python3", DEMO, "--real", "--batch-size", 64, "--scenario", scenario, "--steps", steps]
grid = lambda *words: ["python3", GRID, "--steps", 8, *words]
EFFECTIVE = ["--allow", "effective-batch"]

# Name, what is right, options, command.
CASES = [
    ("capacity", FINISHED, [], demo("capacity", 12)),
    ("fragmentation", FINISHED, [], demo("fragmentation", 60)),
    ("leak", REFUSED, [], demo("leak", 400)),
    ("evaluation", REFUSED, [], demo("eval", 40)),
    ("no accumulation, nothing allowed", REFUSED, [], grid("--model", "decoder", "--batch-size", 64, "--cap", 24)),
    ("decoder", FINISHED, EFFECTIVE, grid("--model", "decoder", "--batch-size", 72, "--cap", 24)),
    ("decoder bf16", FINISHED, EFFECTIVE, grid("--model", "decoder", "--precision", "bf16", "--batch-size", 128, "--cap", 24)),
    ("recomputed", FINISHED, EFFECTIVE, grid("--model", "decoder", "--recompute", "--batch-size", 96, "--cap", 16)),
    ("ViT", FINISHED, EFFECTIVE, grid("--model", "vit", "--batch-size", 192, "--cap", 16)),
    ("ResNet", FINISHED, EFFECTIVE, grid("--model", "resnet", "--batch-size", 512, "--cap", 12)),
    ("U-Net", FINISHED, EFFECTIVE, grid("--model", "unet", "--batch-size", 160, "--cap", 12)),
    ("BERT random lengths", FINISHED, EFFECTIVE, grid("--model", "bert", "--batch-size", 64, "--cap", 16)),
    ("LSTM", FINISHED, EFFECTIVE, grid("--model", "lstm", "--batch-size", 160, "--cap", 12)),
    ("MoE", FINISHED, EFFECTIVE, grid("--model", "moe", "--batch-size", 64, "--cap", 16)),
]


def run(oomph, options, command, keep):
    with tempfile.TemporaryDirectory() as directory:
        recording = pathlib.Path(directory) / "events.jsonl"
        words = [oomph, "--headless", "--on-oom", "auto", *options, "--record", recording, *command]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL)
        keep(recording)
        events = [json.loads(line) for line in recording.read_text().splitlines()]
    runs = sum(event["event"] == "started" for event in events)
    said = [line for line in done.stderr.splitlines() if line.startswith("oomph: ")]
    refused = any("not relaunched" in line for line in said)
    outcome = FINISHED if done.returncode == 0 else REFUSED if refused else "failed"
    # A run that memory did not end (cuDNN may try with less) says nothing of what follows one that it did.
    return {"outcome": NOT_INDUCED if runs == 1 and outcome == FINISHED else outcome, "runs": runs, "said": said[:3]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", default="target/release/oomph")
    parser.add_argument("--results", default=str(HERE / "auto.jsonl"))
    parser.add_argument("--part", help="as in 2/3: the second of three that run side by side")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    results = Results(args.results)
    for name, right, options, command in [] if args.report else share_of(CASES, args.part):
        if results.has(case=name):
            continue
        try:
            results.add(case=name, **run(args.oomph, options, command, lambda recording: results.keep(recording, name)))
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            print("%s: not measured: %s" % (name, error), flush=True)
    good = measured = spared = 0
    for name, right, _, _ in CASES:
        line = next((line for line in results.lines if line["case"] == name), None)
        is_right = line and line["outcome"] == right and (right == REFUSED or line["runs"] == 2)
        # Older results call it finished.
        is_spared = line and line["runs"] == 1 and line["outcome"] in (NOT_INDUCED, FINISHED)
        spared += bool(is_spared)
        measured += line is not None and not is_spared
        is_right = is_right and not is_spared
        good += bool(is_right)
        print("%-34s wanted %-9s got %-11s in %s runs" % (name, right, NOT_INDUCED if is_spared else line["outcome"] if line else "", line["runs"] if line else ""))
    print("%d of %d measured are right (%d cases, %d of them did not run out of memory)" % (good, measured, len(CASES), spared))


if __name__ == "__main__":
    main()
