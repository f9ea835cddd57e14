#!/usr/bin/env python3
"""Trainings that run out of memory in their first step, relaunched unasked by what a rehearsal of that step says.

    python3 tests/gpu/rehearsal.py --oomph target/release/oomph --results FILE [--cap GIB] [--at-once N] [--report]

Each training (grid.py) is given a batch that needs 1.2, 2 or 6 times what it may have, under `--on-oom auto`. Kept are
the batch that was proposed, what was predicted for it, whether the relaunch finished its steps, and what it then needed.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from results import Results, events, quantile  # noqa: E402

GIB = 1 << 30
MODELS = (
    "decoder", "wide", "bert", "moe", "lora", "vit", "resnet", "unet", "lstm", "diffusion", "swin", "convnext", "t5", "clip",
    "detector",
)
TIMES = (1.2, 2, 6)


def largest(model, precision, cap):
    """The largest batch that runs under the cap, by bisection in one process."""
    command = [sys.executable, HERE / "programs" / "grid.py", "--model", model, "--precision", precision,
               "--truth", "4", "--limit-from", "4", "--steps", "4", "--cap", cap]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=280)
    return next(json.loads(line)["largest"] for line in done.stdout.splitlines() if "largest" in line)


def run(oomph, model, precision, batch, cap, keep, steps=10):
    with tempfile.TemporaryDirectory() as home:
        recording = pathlib.Path(home) / "it.jsonl"
        environment = dict(os.environ, OOMPH_STATE_DIR=home + "/state", OOMPH_RUNTIME_DIR=home + "/run")
        command = [oomph, "--headless", "--on-oom", "auto", "--allow", "effective-batch", "--max-relaunches", 1,
                   "--record", recording, sys.executable, HERE / "programs" / "grid.py", "--model", model,
                   "--precision", precision, "--batch-size", batch, "--steps", steps, "--cap", cap]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=280, env=environment)
        keep(recording)
        line = {"status": done.returncode}
        for event in events(recording):
            kind = event.get("event")
            if kind == "rehearsal" and "micros" not in line:
                line["micros"] = event["micros"]
                others = [v for v in event["variants"] if not (v.get("offload") or v.get("chunked"))]
                line["variants"] = [(v["checkpointing"], v["amp"], v.get("why_not")) for v in others]
                line["why_not"] = event.get("why_not")
            elif kind == "started" and event["run"] == 2:
                words = event["command"]["argv"]
                line["proposed"] = int(words[words.index("--batch-size") + 1])
                line["predicted"] = event.get("predicted_peak")
            elif kind == "hello" and "proposed" in line:
                line["pid"] = event["pid"]
            elif kind == "sample" and event["pid"] == line.get("pid"):
                line["reserved"] = max(line.get("reserved", 0), event["reserved"])
            elif kind == "step" and event["pid"] == line.get("pid"):
                line["peak"] = max(line.get("peak", 0), event["after"]["peak"])
        line["stderr"] = [word for word in done.stderr.splitlines() if word.startswith("oomph:")][:8]
        return line


def caught(oomph):
    """A program that catches its out-of-memories, bare and under oomph: the same to the bit, or what differs."""
    program = [sys.executable, HERE / "programs" / "caught.py"]
    with tempfile.TemporaryDirectory() as home:
        recording = home + "/it.jsonl"
        environment = dict(os.environ, OOMPH_STATE_DIR=home + "/state", OOMPH_RUNTIME_DIR=home + "/run")
        said = {}
        for name, words in (("bare", []), ("again", []), ("oomph", [oomph, "--headless", "--on-oom", "auto", "--record", recording])):
            done = subprocess.run(list(map(str, [*words, *program])), capture_output=True, text=True, timeout=200, env=environment)
            said[name] = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
        rehearsals = [event for event in events(recording) if event.get("event") == "rehearsal"]
    failed = {name: each.pop("failed") for name, each in said.items()}
    return {
        "what": "caught",
        "differs": [key for key in said["bare"] if said["bare"][key] != said["oomph"][key]],
        "bare_differs": [key for key in said["bare"] if said["bare"][key] != said["again"][key]],
        "failed": failed,
        "rehearsed": [(event["phase"], event["micros"], bool(event["variants"] and event["variants"][0].get("trace")))
                      for event in rehearsals],
    }


def measure(args, results):
    if not results.has(what="caught"):
        results.add(**caught(args.oomph))

    def one(case):
        model, precision = case
        try:
            key = dict(model=model, precision=precision, cap=args.cap)
            if not results.has(**key, what="largest"):
                results.add(**key, what="largest", batch=largest(model, precision, args.cap))
            limit = results.find(**key, what="largest")["batch"]
            for times in TIMES:
                if not results.has(**key, what="run", times=times):
                    batch = max(limit + 1, round(limit * times))
                    results.add(**key, what="run", times=times, batch=batch,
                                **run(args.oomph, model, precision, batch, args.cap,
                                      lambda kept: results.keep(kept, f"{model}-{precision}-{times}")))
        except Exception as error:
            print(model, precision, repr(error)[:300], file=sys.stderr, flush=True)

    with ThreadPoolExecutor(args.at_once) as pool:
        list(pool.map(one, [(model, precision) for precision in ("fp32", "bf16") for model in args.only or MODELS]))


def report(results):
    for line in results.lines:
        if line["what"] == "caught":
            print("caught: differs from bare in %s (two bare runs: %s); attempts that failed took %s; rehearsed %s" % (
                line["differs"] or "nothing", line["bare_differs"] or "nothing", line["failed"], line["rehearsed"]))
    limits = {(line["model"], line["precision"]): line["batch"] for line in results.lines if line["what"] == "largest"}
    errors, shares, finished, count = [], [], 0, 0
    for line in results.lines:
        if line["what"] != "run":
            continue
        count += 1
        limit = limits[line["model"], line["precision"]]
        rehearsed = any(why is None for _, _, why in line.get("variants", []))
        proposed, peak, predicted = line.get("proposed"), line.get("peak"), line.get("predicted")
        finished += line["status"] == 0 and proposed is not None
        error = (predicted - peak) / peak if predicted and peak and line["status"] == 0 else None
        if rehearsed and error is not None:
            errors.append(abs(error))
        if rehearsed and proposed:
            shares.append(proposed / limit)
        print("%-8s %-5s %4.1fx  batch %5d -> %-5s of %-5d %s peak %6.2f GiB predicted %s  %4.2f s %s" % (
            line["model"], line["precision"], line["times"], line["batch"], proposed, limit,
            "finished" if line["status"] == 0 else "FAILED  ", (peak or 0) / GIB,
            "-" if error is None else "%+.2f %%" % (100 * error), line.get("micros", 0) / 1e6,
            "" if rehearsed else line.get("why_not") or [why for _, _, why in line.get("variants", [])][:1]))
    print("%d of %d finished; rehearsed: peak off by %.2f %% in the median, %.2f %% at the 95th percentile; batch %.2f of the "
          "largest in the median, %.2f to %.2f" % (
              finished, count, 100 * (quantile(errors, 0.5) or 0), 100 * (quantile(errors, 0.95) or 0),
              quantile(shares, 0.5) or 0, min(shares, default=0), max(shares, default=0)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph")
    parser.add_argument("--results", required=True)
    parser.add_argument("--cap", type=float, default=16.0, help="GiB that each training may reserve")
    parser.add_argument("--at-once", type=int, default=6, help="trainings that share the GPU")
    parser.add_argument("--only", nargs="*", choices=MODELS, help="these models alone")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    results = Results(args.results)
    report(results) if args.report else measure(args, results)


if __name__ == "__main__":
    main()
