#!/usr/bin/env python3
"""What the probe costs a Python that imports no torch, from its start to its end: bare, under this oomph, and under an
earlier one, in turn.

    python3 tests/bench/python_start.py --oomph target/release/oomph --earlier OOMPH [--rounds 300] [--python python3]
        [--no-bytecode]

Each oomph runs one program for as long as the bench does, which starts Pythons when it is told to: so the start of oomph
itself is no part of it, and all take turns within milliseconds. CPU time is the Python's own, by the kernel.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

STARTER = """
import os, sys, time
python, told, answers = sys.argv[1:4]
told, answers = open(told), open(answers, "w")
for words in told:
    argv = [python] + eval(words)
    began = time.perf_counter()
    pid = os.posix_spawn(python, argv, os.environ)
    _, status, used = os.wait4(pid, 0)
    print(time.perf_counter() - began, used.ru_utime + used.ru_stime, status, file=answers, flush=True)
"""
# As it is for a user.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
# What the Python does that is started.
PROGRAMS = {
    "nothing": ["-c", "pass"],
    "a parser": [
        "-c",
        "import argparse; p = argparse.ArgumentParser(); p.add_argument('--batch', type=int, default=8); p.parse_args([])",
    ],
}


class Starter:
    """A program that starts Pythons, behind this prefix."""

    def __init__(self, name, prefix, python, scratch):
        self.name = name
        told, answers = (scratch / f"{name}.{what}" for what in ("told", "answers"))
        os.mkfifo(told)
        os.mkfifo(answers)
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", STARTER, python, told, answers],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT,
        )
        self.told, self.answers = open(told, "w"), open(answers)

    def start(self, words):
        """Wall and CPU seconds."""
        print(words, file=self.told, flush=True)
        wall, used, status = self.answers.readline().split()
        if status != "0":
            raise SystemExit(f"{self.name}: a Python ended with {status}")
        return float(wall) * 1e3, float(used) * 1e3

    def end(self):
        self.told.close()
        self.process.wait(60)


def spread(values):
    quarters = statistics.quantiles(values, n=4)
    return f"{statistics.median(values):6.2f} ms ({quarters[0]:.2f}–{quarters[2]:.2f})"


def median_within(values):
    """The median and the interval that it is in with 95 %, by the ranks of the values."""
    values, count = sorted(values), len(values)
    around = int(count**0.5) + 1
    low, high = values[max(count // 2 - around, 0)], values[min(count // 2 + around, count - 1)]
    return f"{statistics.median(values):+.2f} ms ({low:+.2f} to {high:+.2f})"


def compare(starters, words, rounds):
    times = {starter.name: [] for starter in starters}
    for starter in starters:
        # Its first Python reads everything from the disk, and writes bytecode. The probe is there, or nothing is measured.
        has_probe = "import sys; sys.exit(('_oomph_hook' in sys.modules) != %r)" % (starter.name != "bare")
        starter.start(["-c", has_probe])
        starter.start(words)
    for _ in range(rounds):
        for starter in starters:
            times[starter.name].append(starter.start(words))
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--earlier", help="the oomph to compare with")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--no-bytecode", action="store_true", help="as in images with PYTHONDONTWRITEBYTECODE=1")
    asked = parser.parse_args()
    if asked.no_bytecode:
        ENVIRONMENT["PYTHONDONTWRITEBYTECODE"] = "1"
    prefixes = {"bare": []}
    for name, binary in (("earlier", asked.earlier), ("this", asked.oomph)):
        if binary:
            prefixes[name] = [os.path.abspath(binary), "--headless", "--no-nvml", "--no-record"]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        starters = [Starter(name, prefix, asked.python, scratch) for name, prefix in prefixes.items()]
        for what, words in PROGRAMS.items():
            times = compare(starters, words, asked.rounds)
            print(f"a Python that does {what}, {asked.rounds} times each: medians (quartiles), differences of pairs (95 %)")
            for name, both in times.items():
                wall, used = zip(*both)
                print(f"  {name:8} {spread(wall)} wall, {spread(used)} CPU")
            for other in [name for name in times if name != "this"]:
                pairs = list(zip(times["this"], times[other]))
                more = [[mine[at] - its[at] for mine, its in pairs] for at in (0, 1)]
                print(f"  more than {other}: {median_within(more[0])} wall, {median_within(more[1])} CPU")
        for starter in starters:
            starter.end()


if __name__ == "__main__":
    main()
