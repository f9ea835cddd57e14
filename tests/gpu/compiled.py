#!/usr/bin/env python3
"""Compiled and sharded trainings (programs/compiled_kinds.py) that run out of memory, relaunched unasked: what was known, what was
predicted, and what was so. One GPU, where sharded ones have one rank; with `--ranks 2` those alone, under torchrun on two.

    python3 tests/gpu/compiled.py --oomph target/release/oomph --results FILE [--ranks 2] [--seconds 480] [--at-once 4]
                                  [--only KIND …] [--changes | --caught] [--report]

Each runs once for its peak, then with less than that: 1/1.2 (mostly out in backward) and 1/2 (in forward); those whose optimizer's
step is their peak with a little less (TIMES_OF), which that step runs out with. In place of relaunches `--changes` runs what ranks or
compiled graphs can do otherwise (CHANGES) against what was said of it, and `--caught` has a training catch an OOM (CAUGHT), bare
twice and under oomph, for its losses. A run that is cut off goes on where it was.

In parts of one to two minutes:

    --only gpt-optimizer gpt-large-optimizer-compiled                    out in the optimizer's step, one GPU
    --ranks 2 --only fsdp2-optimizer                                     the same, two GPUs
    --ranks 2 --only fsdp1-grad          --ranks 2 --only fsdp2-blocks-recompute
    --caught --only gpt-wrapped          --ranks 2 --caught --only ddp
    --changes --only gpt-wrapped bert    --ranks 2 --changes --only ddp fsdp2          --ranks 2 --changes --only fsdp2-whole fsdp1-grad
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE / "programs"))

from results import Results, events, quantile  # noqa: E402

GIB = 1 << 30
PROGRAM = HERE / "programs" / "compiled_kinds.py"
TIMES = (1.2, 2.0)
SECONDS = 150
SHARDED = (
    "ddp", "ddp-compiled", "compiled-ddp", "blocks-ddp", "fsdp2-blocks", "fsdp2-blocks-bf16", "fsdp2-blocks-wrapped",
    "fsdp2-blocks-recompute", "fsdp2-compiled", "fsdp1", "fsdp1-blocks", "fsdp1-grad", "fsdp2", "fsdp2-bf16", "fsdp2-recompute",
    "fsdp2-whole", "fsdp2-large", "fsdp2-optimizer",
)
# Where the optimizer's step is the peak: less of it than its temporaries are.
TIMES_OF = {"gpt-optimizer": (1.1,), "gpt-large-optimizer-compiled": (1.1,), "fsdp2-optimizer": (1.1,)}
# Those that catch an OOM.
CAUGHT = ("gpt-wrapped", "gpt-blocks", "ddp", "fsdp2")


# What ranks or compiled graphs can do otherwise, each with the patch and the remedy.
CHANGES = {
    "ddp": [("gradients=buckets", "gradients-in-buckets")],
    "fsdp2": [("shards=bf16", "shards-in-bf16")],
    "fsdp2-whole": [("reshard=on", "reshard")],
    "fsdp1-grad": [("reshard=on", "reshard")],
    "fsdp1": [("shards=bf16", "shards-in-bf16")],
    "gpt-wrapped": [("budget=50", "compile-budget")],
    # Of other lengths in each step, for which its graphs are compiled again.
    "bert": [("dynamic=on", "compile-dynamic")],
}


def batch_of(kind):
    import compiled_kinds

    return compiled_kinds.KINDS[kind][2]


def kinds():
    import compiled_kinds

    return list(compiled_kinds.KINDS)


RANKS = 1
TINY = False


def command(kind, *words):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)] if RANKS > 1 else []
    small = ["--tiny", "--width", "512", "--steps", "3", "--backend", "eager"] if TINY else []
    return [sys.executable, *launcher, str(PROGRAM), "--kind", kind, "--batch-size", str(batch_of(kind)), *small, *map(str, words)]


def objects(text):
    """The JSON objects in what ranks have written into one stream, where one may begin in another one's line."""
    found, at, decoder = [], text.find("{"), json.JSONDecoder()
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
            found.append(value)
        except ValueError:
            end = at + 1
        at = text.find("{", end)
    return found


def last(done):
    """What the program has said of its peak; the highest, where several ranks say it."""
    said = [each for each in objects(done.stdout) if "peak" in each]
    return max(said, key=lambda each: each["peak"], default={})


def run(words, environment=None):
    return subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, env=environment)


def bare(kind):
    done = run(command(kind))
    return {"status": done.returncode, **last(done), "stderr": done.stderr[-400:] if done.returncode else ""}


def bare_out(kind, cap):
    """Seconds from the out-of-memory to the exit with nothing in front."""
    done = run(command(kind, "--cap", "%.3f" % cap))
    ended, out = time.time(), [each["out"] for each in objects(done.stdout) if "out" in each]
    return {"status": done.returncode, "to_exit": ended - min(out) if out else None}


def change(oomph, kind, patch, remedy, times, peak, keep):
    """What a remedy of ranks or of compiled graphs is said to need, and what its run takes."""
    with tempfile.TemporaryDirectory() as home:
        cap = "%.3f" % (peak / times / GIB)
        recording = home + "/it.jsonl"
        environment = dict(os.environ, OOMPH_STATE_DIR=home + "/state", OOMPH_RUNTIME_DIR=home + "/run")
        run([oomph, "--headless", "--record", recording, *command(kind, "--cap", cap)], environment)
        keep(recording)
        said = json.loads(run([oomph, "explain", recording, "--json"], environment).stdout or "{}")
        found = next((each for each in said.get("remedies") or () if each["id"] == remedy), None)
        environment["OOMPH_PATCHES"] = patch
        front = [oomph, "--headless", "--record", home + "/patched.jsonl"]
        patched = run([*front, *command(kind)], environment)
        notes = [event for event in events(home + "/patched.jsonl") if event.get("event") == "patch"]
        measured = last(patched)
        expected = (found or {}).get("expected") or {}
        return {"patch": patch, "offered": bool(found and found["available"]), "expected": expected, "status": patched.returncode,
                "outcome": notes[-1]["outcome"] if notes else None, "peak": measured.get("peak"), "bare_peak": peak,
                "losses": measured.get("losses")}


def under_oomph(oomph, words, home):
    recording = home + "/it.jsonl"
    environment = dict(os.environ, OOMPH_STATE_DIR=home + "/state", OOMPH_RUNTIME_DIR=home + "/run")
    front = [oomph, "--headless", "--on-oom", "auto", "--allow", "effective-batch", "--max-relaunches", "1", "--record", recording]
    return run([*front, *words], environment), recording


def relaunched(oomph, kind, times, peak, keep):
    with tempfile.TemporaryDirectory() as home:
        cap = peak / times / GIB
        done, recording = under_oomph(oomph, command(kind, "--cap", "%.3f" % cap), home)
        keep(recording)
        return {"status": done.returncode, "cap": cap, **read(recording), "tail": done.stderr[-500:] if done.returncode else ""}


def read(recording):
    line, runs, pids, exits, notes = {"steps": 0}, 0, {}, {}, []
    for event in events(recording):
        kind = event.get("event")
        if kind == "started":
            runs += 1
            if runs == 2:
                line.update(argv=event["command"]["argv"][-8:], predicted=event.get("predicted_peak"),
                            remedies=event.get("remedies"), prediction=event.get("prediction"))
        elif kind == "hello":
            pids[event["pid"]] = runs
        elif kind == "oom" and runs == 1:
            line.update(phase=event.get("phase"), out_at=event["at"])
        elif kind == "rehearsal" and runs == 1 and "rehearsed" not in line:
            variants = event.get("variants") or []
            line.update(rehearsed=bool(variants and variants[0].get("trace")), micros=event["micros"], compiled=event.get("compiled"),
                        why_not=event.get("why_not") or (variants and variants[0].get("why_not")) or None)
        elif kind == "note":
            notes.append(event["text"][:200])
        elif kind == "exited":
            exits[event["run"]] = event["at"]
        elif kind == "probe_errors":
            line["errors"] = line.get("errors", 0) + 1
        elif kind == "step" and pids.get(event.get("pid")) == 2:
            line["steps"] = max(line["steps"], event["count"])
            line["peak"] = max(line.get("peak", 0), event["after"]["peak"])
            line["reserved"] = max(line.get("reserved", 0), event["after"]["reserved"])
    if 1 in exits and "out_at" in line:
        line["to_exit"] = (exits[1] - line["out_at"]) / 1e6
    return {**line, "runs": runs, "notes": notes[:4]}


def caught(oomph, kind, peak):
    # Less than twice the batch takes, and more than the graph does that is compiled for any batch afterwards.
    # Small models are mostly weights.
    words = command(kind, "--cap", "%.3f" % (1.5 * peak / GIB), "--caught", 128 if TINY else 2)
    first, again = last(run(words)), last(run(words))
    with tempfile.TemporaryDirectory() as home:
        done, recording = under_oomph(oomph, words, home)
        behind = last(done)
        rehearsed = [(event["phase"], event["micros"]) for event in events(recording) if event.get("event") == "rehearsal"]
    return {"same": behind.get("losses") == first.get("losses"), "bare_same": first.get("losses") == again.get("losses"),
            "failed": "out" in first.get("losses", ()), "status": done.returncode, "rehearsed": rehearsed}


def measure(args, results, end):
    def each(kind):
        if time.monotonic() > end:
            return
        try:
            if not results.has(kind=kind, what="bare"):
                line = bare(kind)
                results.add(**{**line, "kind": kind, "what": "bare"})
            peak = results.find(kind=kind, what="bare").get("peak")
            relaunches = peak and not (args.changes or args.caught)
            for times in args.times or TIMES_OF.get(kind, TIMES) if relaunches else ():
                if time.monotonic() < end and not results.has(kind=kind, what="bare-out", times=times):
                    results.add(kind=kind, what="bare-out", times=times, **bare_out(kind, peak / times / GIB))
                if time.monotonic() < end and not results.has(kind=kind, what="relaunch", times=times):
                    line = relaunched(args.oomph, kind, times, peak, lambda kept, name=f"{kind}-{times}": results.keep(kept, name))
                    results.add(kind=kind, what="relaunch", times=times, **line)
            for patch, remedy in CHANGES.get(kind, ()) if peak and args.changes else ():
                if time.monotonic() < end and not results.has(kind=kind, what="change", patch=patch):
                    line = change(args.oomph, kind, patch, remedy, (args.times or TIMES)[0], peak,
                                  lambda kept, name=f"{kind}-{remedy}": results.keep(kept, name))
                    results.add(kind=kind, what="change", **line)
            if args.caught and peak and time.monotonic() < end and not results.has(kind=kind, what="caught"):
                results.add(kind=kind, what="caught", **caught(args.oomph, kind, peak))
        except Exception as error:
            print(kind, repr(error)[:300], file=sys.stderr, flush=True)

    with ThreadPoolExecutor(args.at_once) as pool:
        list(pool.map(each, args.only or kinds()))


def report(results):
    groups = {"compiled": [], "sharded": []}
    for line in results.lines:
        if line["what"] == "bare" and not line.get("peak"):
            print("%-18s bare failed: %s" % (line["kind"], line.get("stderr", "")[-160:]))
        if line["what"] == "caught":
            told = "losses as bare %s (two bare runs alike %s)" % (line["same"], line["bare_same"])
            print("%-18s caught: %s, status %s, rehearsed %s" % (
                line["kind"], told if line["failed"] else "NOTHING SHOWN: the bare run had no out-of-memory to go on behind",
                line["status"], line["rehearsed"]))
        if line["what"] == "change":
            bare_losses = (results.find(kind=line["kind"], what="bare") or {}).get("losses")
            expected = ((line["expected"].get("peak") or {}).get("likely") or 0) / GIB
            print("%-18s %-18s %s, %s: peak %.2f predicted %.2f, unchanged %.2f; losses as bare %s" % (
                line["kind"], line["patch"], "offered" if line["offered"] else "NOT OFFERED", line["outcome"],
                (line["peak"] or 0) / GIB, expected, line["bare_peak"] / GIB, line["losses"] == bare_losses))
        if line["what"] == "bare-out" and line.get("to_exit"):
            print("%-18s /%.1f bare: to exit %.1f s" % (line["kind"], line["times"], line["to_exit"]))
        if line["what"] != "relaunch":
            continue
        groups["sharded" if line["kind"] in SHARDED else "compiled"].append(line)
        predicted, peak = line.get("predicted"), line.get("peak")
        error = "%+.1f %%" % (100 * (predicted - peak) / peak) if predicted and peak else "-"
        print("%-18s /%.1f %-9s %s steps %d peak %.2f predicted %s to exit %.1f s; %s %s" % (
            line["kind"], line["times"], line.get("phase", "no OOM"), "went on" if went_on(line) else "STOPPED", line["steps"],
            (peak or 0) / GIB, error, line.get("to_exit", 0), line.get("why_not") or known(line),
            " ".join(line.get("argv", ())[-4:]) if line.get("rehearsed") else "; ".join(line["notes"])[:200]))
    for name, lines in groups.items():
        out = [line for line in lines if line.get("phase")]
        errors = [abs(line["predicted"] - line["peak"]) / line["peak"]
                  for line in out if line.get("predicted") and line.get("peak")]
        # The optimizer's step alone may be too much: then nothing is said to fit, and nothing is begun.
        stays = sum(line["runs"] == 1 and any("no remedy" in note for note in line["notes"]) for line in out)
        print("%s: known %d of %d, first relaunch went on %d, nothing fits %d; peak off by %s %% in the median, %s at the 95th percentile; "
              "to exit %s s in the median" % (
                  name, sum(bool(known(line)) for line in out), len(out), sum(map(went_on, out)), stays,
                  *(round(100 * (quantile(errors, share) or 0), 1) for share in (0.5, 0.95)),
                  quantile([line["to_exit"] for line in out if "to_exit" in line], 0.5)))


def known(line):
    """How its need was known: an optimizer's step is summed, everything else rehearsed."""
    if line.get("rehearsed"):
        return "rehearsed"
    return "summed" if line.get("phase") == "optimizer" and line.get("predicted") else ""


def went_on(line):
    return line["runs"] > 1 and line["status"] == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph")
    parser.add_argument("--results", required=True)
    parser.add_argument("--seconds", type=float, default=480, help="nothing is begun after so many")
    parser.add_argument("--ranks", type=int, default=1, help="GPUs of each training")
    parser.add_argument("--at-once", type=int, default=4, help="trainings that share the GPU")
    parser.add_argument("--times", type=float, nargs="*", help="in place of 1.2 and 2")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--changes", action="store_true", help="what ranks or graphs can do otherwise, in place of relaunches")
    parser.add_argument("--caught", action="store_true", help="losses behind an OOM that was caught, in place of relaunches")
    parser.add_argument("--tiny", action="store_true", help="small models that inductor does not compile, for a paper_card.py in front")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    global RANKS, TINY
    RANKS, TINY = args.ranks, args.tiny
    if RANKS > 1:
        args.only = args.only or SHARDED
    if args.changes:
        args.only = [kind for kind in args.only or kinds() if kind in CHANGES]
    if args.caught:
        args.only = [kind for kind in args.only or kinds() if kind in CAUGHT]
    results = Results(args.results)
    if not args.report:
        measure(args, results, time.monotonic() + args.seconds)
    report(results)


if __name__ == "__main__":
    main()
