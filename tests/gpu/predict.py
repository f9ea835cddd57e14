#!/usr/bin/env python3
"""Holds oomph's predictions against the real peaks of many trainings, on a machine with a GPU and PyTorch.

    python3 tests/gpu/predict.py --oomph target/release/oomph [--results FILE] [--only NAME ...] [--again] [--report]

Each case is run under oomph in the middle of its range, at half of it (for the line through two), and in the middle
under a cap that the first step gets through and a later one does not; the real peaks are measured in one process, and
`oomph plan --predict` says what it expects of each. Results are appended case by case; what is there is not run again,
and what was not measured stays blank in the table. The whole grid is meant to take fifteen minutes of an H200.
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
ONE, TWO, FAILED = "one run", "two runs", "one run that failed after a step"


def lines_of(command, seconds=240):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise RuntimeError("%s: %s" % (" ".join(map(str, command)), done.stderr[-600:]))
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def program(arguments, batch, *words):
    return ["python3", PROGRAM, *arguments, "--batch-size", batch, *words]


def record(oomph, results, name, command):
    """Runs a command under oomph, headless, and keeps its recording; whether it ended well, and its events."""
    with tempfile.TemporaryDirectory() as directory:
        recording = pathlib.Path(directory) / "events.jsonl"
        words = [oomph, "--headless", "--record", recording, *command]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL)
        results.keep(recording, name)
        events = [json.loads(line) for line in recording.read_text().splitlines()]
    return done.returncode == 0, sorted(events, key=lambda event: event["at"])


def failing_cap(events):
    """A cap under which the first step gets through and a later one does not: three quarters of the way between
    what the two need, in GiB."""
    steps = [event for event in events if event["event"] == "step"]
    first, whole = steps[0]["after"]["peak"], steps[-1]["after"]["peak"]
    return (first + 0.75 * (whole - first)) / GIB if whole > 1.02 * first else None


def measure(oomph, name, middle, arguments, results):
    """The recordings of a case, and the truth."""
    seen = {}
    for batch in (middle, middle // 2):
        went_well, seen[batch] = record(oomph, results, "%s %d" % (name, batch), program(arguments, batch))
        if not went_well:
            raise RuntimeError("batch %d did not end well" % batch)
    failed_under = None
    tight = failing_cap(seen[middle])
    if tight is not None:
        under = "%.3f" % tight
        went_well, events = record(oomph, results, name + " failed", program(arguments, middle, "--cap", under))
        kinds = [event["event"] for event in events]
        if not went_well and "step" in kinds and "oom" in kinds[kinds.index("step"):]:
            failed_under = under
    batches = [max(1, round(middle * share)) for share in SHARES]
    peaks = lines_of(program(arguments, middle, "--truth", ",".join(map(str, batches))))
    # The cap makes the limit a matter of seconds, and a known number.
    cap = 2.2 * peaks[2]["peak"] / GIB
    limit = lines_of(program(arguments, middle, "--truth", middle, "--limit-from", middle, "--cap", "%.3f" % cap))
    results.add(kind="truth", case=name, middle=middle, peaks={peak["batch"]: peak["peak"] for peak in peaks}, cap=cap,
                largest=limit[-1]["largest"], failed_under=failed_under)


def ask(oomph, name, middle, arguments, results):
    """What oomph says of a case that was measured, from one run, from two, and from one that failed after a step."""
    truth = next(line for line in results.lines if line["kind"] == "truth" and line["case"] == name)
    peaks = {int(batch): peak for batch, peak in truth["peaks"].items()}
    limit = truth["largest"]
    given = {ONE: ([str(middle)], []), TWO: ([str(middle), str(middle // 2)], [])}
    if truth["failed_under"]:
        given[FAILED] = (["failed"], ["--cap", truth["failed_under"]])
    for source, (runs, more) in given.items():
        with tempfile.TemporaryDirectory() as directory:
            words = []
            for run in runs:
                recording = pathlib.Path(directory) / (run + ".jsonl")
                recording.write_bytes(results.kept("%s %s" % (name, run)))
                words += ["--recording", recording]
            asked = ",".join(map(str, sorted({*peaks, limit, limit + max(1, limit // 20)})))
            said = lines_of([oomph, "plan", *words, "--predict", asked, "--", *program(arguments, middle, *more)])
        for line in said:
            results.add(kind="peak", case=name, source=source, middle=middle, batch=line["batch"], real=peaks.get(line["batch"]),
                        cap=truth["cap"], largest=limit, share=share_of_limit(peaks, line["batch"], limit),
                        predicted=line.get("peak"), needs=line.get("needs"))
    results.add(kind="done", case=name)


def share_of_limit(peaks, batch, limit):
    """The real peak of a batch as a share of that of the largest that fits, on the line through the two real ones
    that lie nearest."""
    def real(batch):
        low, high = sorted(sorted(peaks, key=lambda known: abs(known - batch))[:2])
        return peaks[low] + (peaks[high] - peaks[low]) * (batch - low) / (high - low)
    return real(batch) / real(limit)


def report(results):
    share = lambda values: 100 * sum(values) / len(values) if values else None
    for source in (ONE, TWO, FAILED):
        print("\nfrom %s" % source)
        print("%-26s %8s %8s %8s %9s" % ("case", "median", "worst", "held", "verdicts"))
        all_errors, all_held, all_right, false_fits = [], [], [], []
        for name, *_ in CASES:
            lines = [l for l in results.lines if l["kind"] == "peak" and l["case"] == name and l["source"] == source]
            known = [l for l in lines if l["real"] and l["predicted"] and (l["batch"] != l["middle"] or source == FAILED)]
            errors = [100 * abs(l["predicted"]["likely"] / l["real"] - 1) for l in known]
            held = [l["predicted"]["low"] <= l["real"] <= l["predicted"]["high"] for l in known]
            right = []
            for line in (l for l in lines if l["needs"] and abs(l["share"] - 1) > 0.03):
                cap = line["cap"] * GIB
                fits = line["batch"] <= line["largest"]
                right.append((line["needs"]["likely"] <= cap) == fits)
                false_fits.append(line["needs"]["high"] <= cap and not fits)
            all_errors += errors
            all_held += held
            all_right += right
            print("%-26s %8s %8s %8s %9s" % (name, shown(quantile(errors, 0.5)), shown(max(errors, default=None)),
                                             shown(share(held), "%.0f %%"), shown(share(right), "%.0f %%")))
        print("all: median %s, 95th percentile %s, interval holds %s, %d verdicts, right %s, never a false \"fits\" %s" % (
            shown(quantile(all_errors, 0.5)), shown(quantile(all_errors, 0.95)), shown(share(all_held)),
            len(all_right), shown(share(all_right)), shown(share([not wrong for wrong in false_fits]))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", default="target/release/oomph")
    parser.add_argument("--results", default=str(HERE / "predict.jsonl"))
    parser.add_argument("--only", nargs="*", help="parts of names")
    parser.add_argument("--part", help="as in 2/3: the second of three that run side by side")
    parser.add_argument("--times", type=float, default=1, help="other batches than the table's: so many times as large")
    parser.add_argument("--again", action="store_true", help="ask anew of the recordings that are kept; no GPU is needed")
    parser.add_argument("--report", action="store_true", help="only the table of what was measured")
    args = parser.parse_args()
    results = Results(args.results)
    for name, middle, arguments in [] if args.report else share_of(CASES, args.part):
        middle = round(middle * args.times)
        if args.only and not any(part in name for part in args.only):
            continue
        is_measured = results.has(kind="truth", case=name, middle=middle)
        if is_measured and not args.again and results.has(kind="done", case=name) or args.again and not is_measured:
            continue
        began = time.monotonic()
        try:
            if not is_measured:
                measure(args.oomph, name, middle, arguments, results)
            results.lines = [l for l in results.lines if l["case"] != name or l["kind"] == "truth"]
            ask(args.oomph, name, middle, arguments, results)
            print("%s: %.0f s" % (name, time.monotonic() - began), flush=True)
        except (RuntimeError, OSError, ValueError, subprocess.TimeoutExpired) as error:
            print("%s: not measured: %s" % (name, error), flush=True)
    report(results)


if __name__ == "__main__":
    main()
