#!/usr/bin/env python3
"""`oomph check` held to real runs: what it calls below must run, and what it calls above must run out of memory.

    python3 tests/gpu/check.py --oomph target/release/oomph [--results FILE] [--seconds 330] [--at-once 4] [--report]
    python3 tests/gpu/check.py --oomph target/debug/oomph --simulated     # the demo on its simulated card, without a GPU

Each training is run once with all the memory that there is, by `oomph check --json --record`. Then the same training runs bare twice,
bounded by `torch.cuda.set_per_process_memory_fraction`: a share above what the recording says it needs, and a share below. The check of
the recording alone at these two limits must say 0 and 1, and the two runs must end well and out of memory: so the real threshold is
within the share. The share is 3 %; for the trainings of the set "card", each of the size of another card (8, 16 and 24 GB), and for
another setting of the allocator than the recorded run's, it is 2 %.

Results are appended as they are made; what is there is not run again. The last lines are a table.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GRID, DEMO = HERE / "programs" / "grid.py", ROOT / "demo" / "train.py"
sys.path.insert(0, str(HERE))

from results import Results, shown  # noqa: E402

GIB = 1 << 30
EXPANDABLE = "expandable_segments:True"
grid = lambda *words: ["--steps", 6, *words]

# Set, name, settings of the allocator (None: the run's own), words of grid.py.
CASES = [
    ("3 %", "GPT", None, grid("--model", "decoder", "--batch-size", 16)),
    ("3 %", "GPT bf16", None, grid("--model", "decoder", "--precision", "bf16", "--batch-size", 24)),
    ("3 %", "GPT checkpointed", None, grid("--model", "decoder", "--recompute", "--batch-size", 32)),
    ("3 %", "ViT", None, grid("--model", "vit", "--batch-size", 64)),
    ("3 %", "ResNet", None, grid("--model", "resnet", "--batch-size", 192)),
    ("3 %", "U-Net", None, grid("--model", "unet", "--batch-size", 48)),
    ("3 %", "LSTM", None, grid("--model", "lstm", "--batch-size", 96)),
    ("3 %", "BERT", None, grid("--model", "bert", "--batch-size", 24)),
    ("3 %", "MoE", None, grid("--model", "moe", "--batch-size", 16)),
    ("3 %", "LoRA", None, grid("--model", "lora", "--batch-size", 16)),
    ("3 %", "GPT with SGD", None, grid("--model", "decoder", "--optimizer", "sgd", "--batch-size", 16)),
    ("card", "8 GB: GPT", None, grid("--model", "decoder", "--batch-size", 8)),
    ("card", "16 GB: ViT", None, grid("--model", "vit", "--batch-size", 96)),
    ("card", "24 GB: GPT", None, grid("--model", "decoder", "--batch-size", 32)),
    ("card", "GPT, segments", EXPANDABLE, grid("--model", "decoder", "--batch-size", 20)),
]
SHARE = {"3 %": 0.03, "card": 0.02}

# The demo's sizes follow its card: it stays as large as it is.
SIMULATED_CARD = 24 * GIB
demo = lambda *words: ["--simulated", "--steps", 8, *words]
SIMULATED = [
    ("3 %", "GPT", None, demo("--model", "gpt", "--batch-size", 24)),
    ("3 %", "GPT larger", None, demo("--model", "gpt", "--batch-size", 40)),
    ("3 %", "CNN", None, demo("--model", "cnn", "--batch-size", 24)),
    ("card", "16 GB: GPT", None, demo("--model", "gpt", "--batch-size", 32)),
]


class Machine:
    """How a training is started, and bounded."""

    def __init__(self, oomph, simulated):
        self.oomph, self.simulated = oomph, simulated

    def command(self, words):
        return [sys.executable, str(DEMO if self.simulated else GRID), *map(str, words)]

    def environment(self, conf=None, room=None):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTORCH_", "GITHUB_"))}
        if self.simulated:
            kept["OOMPH_SIMULATED_SPEED"] = "8"
        if self.simulated and room:
            # The demo has no option for it.
            conf = ",".join(filter(None, [conf, "per_process_memory_fraction:%.8f" % (room / SIMULATED_CARD)]))
        if conf:
            # Since 2.10 PyTorch reads the first of them.
            kept["PYTORCH_ALLOC_CONF"] = kept["PYTORCH_CUDA_ALLOC_CONF"] = conf
        return kept

    def bounded(self, words, room):
        """The words with a bound of so many bytes."""
        return words if self.simulated else [*words, "--cap", "%.6f" % (room / GIB)]

    def check(self, options):
        words = [self.oomph, "check", "--json", *map(str, options)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=200, env=self.environment(), stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr


def recorded(machine, words, recording):
    """The training with all memory, and what it is said to need."""
    options = ["--max", "1TiB", "--record", recording]
    options += ["--no-nvml"] if machine.simulated else []
    status, said, errors = machine.check([*options, "--", *machine.command(words)])
    if status != 0:
        raise ValueError("check of the whole run: status %s: %s" % (status, errors.strip()[-300:]))
    return json.loads(said)


def really(machine, words, room, conf):
    """Whether the training runs to its end, bounded."""
    command = machine.command(machine.bounded(words, room))
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=machine.environment(conf, room), stdin=subprocess.DEVNULL)
    out_of_memory = "OutOfMemoryError" in done.stderr or "out of memory" in done.stderr
    if done.returncode != 0 and not out_of_memory:
        raise ValueError("a bounded run failed otherwise: %s" % done.stderr.strip()[-300:])
    return done.returncode == 0


def measure(machine, case):
    kind, _, conf, words = case
    share = SHARE[kind]
    with tempfile.TemporaryDirectory() as directory:
        recording = pathlib.Path(directory) / "run.jsonl"
        recorded(machine, words, recording)
        settings = ["--alloc-conf", conf] if conf else []
        alone = lambda room: machine.check(["--max", "%dMiB" % (room >> 20), "--recording", recording, *settings])
        _, said, errors = alone(1 << 50)
        needs = json.loads(said)["needs"]
        likely = needs["likely"]
        if likely is None:
            raise ValueError("only a bound is known: %s" % errors.strip()[-200:])
        above, below = int(likely * (1 + share)), int(likely * (1 - share))
        line = {
            "needs": likely, "within": [needs["low"], needs["high"]], "basis": needs["basis"], "share": share,
            "says_above": alone(above)[0], "says_below": alone(below)[0],
        }
    line["runs_above"] = really(machine, words, above, conf)
    line["runs_below"] = really(machine, words, below, conf)
    return line


def is_right(line):
    return line["says_above"] == 0 and line["says_below"] == 1 and line["runs_above"] and not line["runs_below"]


def report(results, cases):
    right = {kind: [0, 0] for kind in SHARE}
    print("%-22s %-5s %10s %16s %-12s %-22s %s" % ("training", "share", "needs", "within", "basis", "more: says, runs", "less: says, runs"))
    words = {0: "below", 1: "above", 2: "not known"}
    for kind, name, _, _ in cases:
        line = next((line for line in results.lines if line["case"] == name), None)
        if line is None or "error" in line:
            print("%-22s %-5s %s" % (name, kind, line["error"] if line else "not measured"))
            continue
        low, high = (value / GIB for value in line["within"])
        ran = lambda ends: "ran" if ends else "out of memory"
        print("%-22s %3.0f %% %10s %16s %-12s %-22s %s%s" % (
            name, line["share"] * 100, shown(line["needs"] / GIB, "%.2f GiB"), "%.2f–%.2f" % (low, high), line["basis"],
            "%s, %s" % (words[line["says_above"]], ran(line["runs_above"])),
            "%s, %s" % (words[line["says_below"]], ran(line["runs_below"])), "" if is_right(line) else "   WRONG"))
        right[kind][0] += is_right(line)
        right[kind][1] += 1
    print("right by 3 %%: %d of %d trainings; from recordings alone for other cards and settings by 2 %%: %d of %d" % (*right["3 %"], *right["card"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", default=str(ROOT / "target/release/oomph"))
    parser.add_argument("--results", default=str(HERE / "check.jsonl"))
    parser.add_argument("--seconds", type=float, default=330, help="begin nothing after so long")
    parser.add_argument("--at-once", type=int, default=4, help="trainings that run side by side")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    results, cases = Results(args.results), SIMULATED if args.simulated else CASES
    machine = Machine(str(pathlib.Path(args.oomph).resolve()), args.simulated)
    until = time.monotonic() + args.seconds

    def one(case):
        if time.monotonic() > until or results.has(case=case[1]):
            return None
        try:
            return case[1], measure(machine, case)
        except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            return case[1], {"error": str(error)[:300]}

    if not args.report:
        with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
            for done in pool.map(one, cases):
                if done:
                    results.add(case=done[0], **done[1])
    report(results, cases)


if __name__ == "__main__":
    main()
