#!/usr/bin/env python3
"""Holds oomph's predictions against the real peaks of many trainings, on a machine with a GPU and PyTorch.

    python3 tests/gpu/predict.py --oomph target/release/oomph [--results FILE] [--only NAME ...] [--report]

Each case is run once under oomph in the middle of its range (and once at half of it, for the line through two), the
real peaks are measured in one process, and `oomph plan --predict` says what it expects of each. Results are appended
case by case; what is there is not run again, and what was not measured stays blank in the table. The whole grid is
meant to take twelve minutes of an H200.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE / "programs" / "grid.py"
sys.path.insert(0, str(HERE))

from results import Results, quantile, share_of, shown  # noqa: E402

GIB = 1 << 30

# Name, the middle batch, arguments.
CASES = [
    ("decoder fp32", 16, ["--model", "decoder"]),
    ("decoder bf16", 16, ["--model", "decoder", "--precision", "bf16"]),
    ("decoder recomputed", 32, ["--model", "decoder", "--recompute"]),
    ("decoder foreach off", 16, ["--model", "decoder", "--optimizer", "adamw-plain"]),
    ("wide decoder bf16", 16, ["--model", "wide", "--precision", "bf16"]),
    ("wide decoder recomputed", 32, ["--model", "wide", "--recompute"]),
    ("ViT fp32", 64, ["--model", "vit"]),
    ("ViT bf16", 64, ["--model", "vit", "--precision", "bf16"]),
    ("ResNet sgd", 128, ["--model", "resnet", "--optimizer", "sgd"]),
    ("ResNet bf16", 128, ["--model", "resnet", "--precision", "bf16"]),
    ("U-Net", 32, ["--model", "unet"]),
    ("BERT random lengths", 32, ["--model", "bert"]),
    ("BERT random lengths bf16", 32, ["--model", "bert", "--precision", "bf16"]),
    ("LSTM", 32, ["--model", "lstm"]),
    ("MoE", 16, ["--model", "moe"]),
    ("LoRA bf16", 16, ["--model", "lora", "--precision", "bf16"]),
]
SHARES = (0.5, 0.75, 1.0, 1.5, 2.0)


def lines_of(command, seconds=240):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError("%s: %s" % (" ".join(map(str, command)), done.stderr[-600:]))
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def measure(oomph, name, middle, arguments, results):
    batches = [max(1, round(middle * share)) for share in SHARES]
    with tempfile.TemporaryDirectory() as directory:
        recordings = []
        for batch in (middle, middle // 2):
            recording = pathlib.Path(directory) / ("%d.jsonl" % batch)
            try:
                lines_of([oomph, "--headless", "--record", recording, "python3", PROGRAM, *arguments, "--batch-size", batch])
            finally:
                results.keep(recording, "%s %d" % (name, batch))
            recordings.append(recording)
        # The cap makes the limit a matter of seconds, and a known number.
        peaks = lines_of(["python3", PROGRAM, *arguments, "--truth", ",".join(map(str, batches))])
        cap = 2.2 * peaks[2]["peak"] / GIB
        limit = lines_of(
            ["python3", PROGRAM, *arguments, "--truth", str(middle), "--limit-from", middle, "--cap", "%.3f" % cap]
        )[-1]["largest"]
        for runs in (1, 2):
            asked = batches + [limit, limit + max(1, limit // 20)]
            given = [word for recording in recordings[:runs] for word in ("--recording", recording)]
            said = lines_of(
                [oomph, "plan", *given, "--predict", ",".join(map(str, asked)), "--", "python3", PROGRAM, *arguments,
                 "--batch-size", middle]
            )
            for line in said:
                real = next((peak["peak"] for peak in peaks if peak["batch"] == line["batch"]), None)
                results.add(kind="peak", case=name, runs=runs, batch=line["batch"], real=real, cap=cap, largest=limit,
                            predicted=line.get("peak"), needs=line.get("needs"))
    results.add(kind="done", case=name)


def report(results):
    for runs in (1, 2):
        print("\nfrom %d run%s" % (runs, "s" if runs > 1 else ""))
        print("%-26s %8s %8s %8s %9s" % ("case", "median", "worst", "held", "verdicts"))
        all_errors, all_held, all_right, false_fits = [], [], [], []
        for name, middle, _ in CASES:
            lines = [l for l in results.lines if l["kind"] == "peak" and l["case"] == name and l["runs"] == runs]
            known = [l for l in lines if l["real"] and l["predicted"] and l["batch"] != middle]
            errors = [100 * abs(l["predicted"]["likely"] / l["real"] - 1) for l in known]
            held = [l["predicted"]["low"] <= l["real"] <= l["predicted"]["high"] for l in known]
            right = []
            for line in (l for l in lines if l["needs"]):
                cap = line["cap"] * GIB
                if abs(line["needs"]["likely"] / cap - 1) <= 0.03:
                    continue
                fits = line["batch"] <= line["largest"]
                right.append((line["needs"]["likely"] <= cap) == fits)
                false_fits.append(line["needs"]["high"] <= cap and not fits)
            all_errors += errors
            all_held += held
            all_right += right
            share = lambda values: 100 * sum(values) / len(values) if values else None
            print("%-26s %8s %8s %8s %9s" % (name, shown(quantile(errors, 0.5)), shown(max(errors, default=None)),
                                             shown(share(held), "%.0f %%"), shown(share(right), "%.0f %%")))
        share = lambda values: 100 * sum(values) / len(values) if values else None
        print("all: median %s, 95th percentile %s, interval holds %s, verdicts right %s, never a false \"fits\" %s" % (
            shown(quantile(all_errors, 0.5)), shown(quantile(all_errors, 0.95)), shown(share(all_held)),
            shown(share(all_right)), shown(share([not wrong for wrong in false_fits]))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", default="target/release/oomph")
    parser.add_argument("--results", default=str(HERE / "predict.jsonl"))
    parser.add_argument("--only", nargs="*", help="parts of names")
    parser.add_argument("--part", help="as in 2/3: the second of three that run side by side")
    parser.add_argument("--report", action="store_true", help="only the table of what was measured")
    args = parser.parse_args()
    results = Results(args.results)
    for name, middle, arguments in [] if args.report else share_of(CASES, args.part):
        if results.has(kind="done", case=name) or args.only and not any(part in name for part in args.only):
            continue
        began = time.monotonic()
        try:
            # What an earlier run left half done is measured anew.
            results.lines = [l for l in results.lines if l.get("case") != name]
            measure(args.oomph, name, middle, arguments, results)
            print("%s: %.0f s" % (name, time.monotonic() - began), flush=True)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print("%s: not measured: %s" % (name, error), flush=True)
    report(results)


if __name__ == "__main__":
    main()
