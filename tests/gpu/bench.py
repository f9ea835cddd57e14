#!/usr/bin/env python3
"""What oomph costs a real training on a real GPU.

    python3 tests/gpu/bench.py --oomph target/release/oomph [--only NAME ...] [--rounds N]

GPU-bound: whole processes in turn, bare and under oomph. Inside: the probe on and off in shuffled
blocks of one process; parts: each part of it likewise. Beside: whole processes that wait for the processor, in turn, bare, under oomph and,
where it is installed, under TraceML. Watching: the front's and the keeper's own cost, screen up.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from terminal import Terminal  # noqa: E402

PROGRAMS = HERE / "programs"
PAIRS = 6
# Of each way, after one that does not count.
ROUNDS = 6
# Seconds that one process trains after it has settled, and that it may take in all.
TRAINS, AT_MOST = 6, 120
# Seconds that the probe is switched on and off: as many as an interval of half a per cent takes, or nearly.
INSIDE = {"launches": 240, "autocast": 240, "gpu": 60}


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise SystemExit(f"{command}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def gpu_bound(oomph):
    program = ["python3", str(PROGRAMS / "gpu_bound.py")]
    output_of(program)  # the first process of a machine pays for a cold disk
    bare, wrapped = [], []
    for pair in range(PAIRS):
        turns = [(bare, program), (wrapped, [oomph, "--headless", "--no-record", *program])]
        for times, command in turns if pair % 2 else reversed(turns):
            times.append(float(output_of(command)))
    ratios = sorted(w / b for w, b in zip(wrapped, bare))
    return (
        f"bare {statistics.median(bare):.2f} ms ({min(bare):.2f}–{max(bare):.2f}), oomph "
        f"{statistics.median(wrapped):.2f} ({min(wrapped):.2f}–{max(wrapped):.2f}); ratio of medians "
        f"{statistics.median(wrapped) / statistics.median(bare):.4f}, of pairs "
        f"{statistics.median(ratios):.4f} ({ratios[0]:.4f}–{ratios[-1]:.4f}), n={PAIRS} (≤ 1.005)"
    )


def inside(oomph):
    """The probe against none, within one process."""
    return cost(oomph, INSIDE, "off", "on")


def parts(oomph):
    """Each part of the probe likewise."""
    return cost(oomph, {kind: 60 for kind in INSIDE})


def cost(oomph, seconds, *modes):
    """What `programs/probe_cost.py` finds."""
    said = []
    for kind, length in seconds.items():
        program = ["python3", str(PROGRAMS / "probe_cost.py"), kind, str(length), *modes]
        found = json.loads(output_of([oomph, "--headless", "--no-record", *program]).splitlines()[-1])
        ratios = ", ".join(
            f"{name} {of['ratio']:.4f} ({of['low']:.4f}–{of['high']:.4f})"
            for name, of in found["ratios"].items()
        )
        said.append(
            f"{kind}: bare {found['milliseconds']['off']:.3f} ms, "
            f"{found['allocations_a_step']} allocations a step; {ratios}; lines recorded in "
            f"{found['lines_while_on']:.0%} of its blocks"
        )
    return "; ".join(said) + " (on ≤ 1.005)"


def beside(oomph, kind, rounds_asked):
    """A training that waits for the processor, bare, under oomph and under TraceML, in turn."""
    program = str(PROGRAMS / "launch_bound.py")
    with tempfile.TemporaryDirectory() as scratch:
        out = f"{scratch}/out.json"
        ways = {
            "bare": ["python3", program, kind, out, str(TRAINS)],
            "oomph": [oomph, "--headless", "--no-record", "python3", program, kind, out, str(TRAINS)],
        }
        if shutil.which("traceml"):
            # Ports of its own, so that two benches may run at once.
            port = 20000 + os.getpid() % 20000
            ways["traceml"] = ["traceml", "run", "--logs-dir", scratch, "--aggregator-port", str(port),
                               "--master-port", str(port + 1), "--finalize-timeout-sec", "2", program, "--args", kind, out, str(TRAINS)]
        rounds = []
        for turn in range(rounds_asked + 1):
            order = list(ways)
            random.Random(turn).shuffle(order)
            measured = {}
            for way in order:
                try:
                    done = subprocess.run(ways[way], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=scratch,
                                          timeout=AT_MOST)
                except subprocess.TimeoutExpired as cut:
                    raise SystemExit(f"{ways[way]}: not within {AT_MOST} s\n{(cut.stderr or b'')[-1600:]}")
                if done.returncode or not os.path.exists(out):
                    raise SystemExit(f"{ways[way]}: exit {done.returncode}\n{done.stdout[-800:]}\n{done.stderr[-1600:]}")
                measured[way] = json.loads(pathlib.Path(out).read_text())
                os.unlink(out)
            rounds.append(measured)
            print(f"beside {kind}, round {turn}: {measured}", flush=True)
    rounds = rounds[1:]  # the first process of a machine pays for a cold disk
    said = [f"bare {statistics.median(each['bare']['mean'] for each in rounds):.3f} ms"]
    for way in list(ways)[1:]:
        for part in ("first", "mean"):
            ratios = [each[way][part] / each["bare"][part] for each in rounds]
            low, high = interval(ratios)
            said.append(f"{way} {part} {statistics.median(ratios):.4f} ({low:.4f}–{high:.4f})")
    return f"{'; '.join(said)}, n={len(rounds)}"


def interval(ratios):
    """The 95 % bootstrap interval of the median."""
    draws = random.Random(1)
    medians = sorted(statistics.median(draws.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[-51]


def beside_launches(oomph, rounds):
    return beside(oomph, "launches", rounds)


def beside_autocast(oomph, rounds):
    return beside(oomph, "autocast", rounds)


def ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def kilobytes(pid, file):
    fields = {}
    for line in pathlib.Path(f"/proc/{pid}/{file}").read_text().splitlines():
        name, _, value = line.partition(":")
        if value.strip().endswith("kB"):
            fields[name] = int(value.split()[0])
    return fields


def resident(pid):
    """All of it, what is the process's own, and what is of files (the binary, the driver's
    libraries), as far as this kernel says."""
    status = kilobytes(pid, "status")
    own, of_files = status.get("RssAnon"), status.get("RssFile")
    if own is None:
        try:
            rollup = kilobytes(pid, "smaps_rollup")
            own, of_files = rollup["Anonymous"], rollup["Rss"] - rollup["Anonymous"]
        except (OSError, KeyError):
            return f"{status.get('VmRSS', 0) / 1024:.1f} MB (kinds not told)"
    return (
        f"{status.get('VmRSS', 0) / 1024:.1f} MB (own {own / 1024:.1f}, "
        f"of files {of_files / 1024:.1f})"
    )


def children(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def watching(oomph):
    with tempfile.TemporaryDirectory() as scratch:
        terminal = Terminal(
            "watching", scratch,
            [oomph, "--no-record", "python3", str(PROGRAMS / "exact.py"), "--out",
             f"{scratch}/torch.json", "--steps", "1000"],
        )
        try:
            terminal.wait_for("step", 60, "steps")
            time.sleep(5)
            front = children(terminal.process())[0]
            keeper = children(front)[0]
            began, spent = time.monotonic(), {p: ticks(p) for p in (front, keeper)}
            time.sleep(60)
            elapsed, hertz = time.monotonic() - began, os.sysconf("SC_CLK_TCK")
            percent = {p: (ticks(p) - spent[p]) / hertz / elapsed * 100 for p in spent}
            return (
                f"front {percent[front]:.2f} % of a core (≤ 0.3), {resident(front)} (own ≤ 20); "
                f"keeper {percent[keeper]:.2f} %, {resident(keeper)} (≤ 5)"
            )
        finally:
            terminal.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of processes beside each other")
    args = parser.parse_args()
    oomph = str(pathlib.Path(args.oomph).resolve())
    for function in (gpu_bound, inside, parts, beside_launches, beside_autocast, watching):
        if not args.only or any(word in function.__name__ for word in args.only):
            more = (args.rounds,) if function in (beside_launches, beside_autocast) else ()
            print(f"{function.__name__}: {function(oomph, *more)}", flush=True)


if __name__ == "__main__":
    main()
