#!/usr/bin/env python3
"""What 512 ranks on 64 nodes cost the front, all of them simulated in one process.

    python3 tests/bench/ranks.py --oomph target/release/oomph [--seconds 1800]

The ranks write with the probe's own `spool.py`, at the rate and the volume of a training with two steps a
second, into the files of 64 nodes in one directory; there is no torch and no GPU. The command prints ten
lines a second, so that the screen is drawn ten times a second. In the end each line that the ranks wrote is
looked for: the front's own places say how far it has read, and its recording whether lines were missing.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NODES, GPUS = 64, 8
RANKS = NODES * GPUS
GIB = 1 << 30
STEP = 0.5


def load_probe():
    """The probe's package, from its sources."""
    sys.dont_write_bytecode = True
    sources = ROOT / "src/probe/python/oomph_probe"
    spec = importlib.util.spec_from_file_location(
        "_oomph_probe", sources / "__init__.py", submodule_search_locations=[str(sources)]
    )
    package = sys.modules["_oomph_probe"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return importlib.import_module("_oomph_probe.common.spool")


class Rank:
    """A rank's probe, without what reads torch: its figures are made up."""

    def __init__(self, spool, number, directory):
        self.number = number
        self.node = "gpu-%02d" % (number // GPUS)
        self.pid = 10_000 + number
        self.spool = spool.Spool(directory, self.pid, lambda: None, self.hello)
        self.spool.name = self.name
        self.spool.writer = spool.get_ident()
        self.begun = 0.3 * number / RANKS
        self.steps = 0
        self.seen = 0
        self.bytes = 0
        self.greeted = False

    def hello(self):
        return {
            "event": "hello", "pid": self.pid, "run": 1, "python": "3.12.0",
            "torch": "2.9.0+simulated", "rank": self.number, "local_rank": self.number % GPUS,
            "world_size": RANKS, "nodes": NODES, "node": self.node, "backend": "native",
            "alloc_conf": "", "expandable_segments": False,
            "devices": [{"ordinal": 0, "name": "simulated GPU (80 GiB)", "total": 80 * GIB,
                         "uuid": "SIM-%04d" % self.number}],
        }

    def name(self):
        return "1-%s-%d-%d.jsonl" % (self.node, self.pid, self.spool.generation)

    def tick(self, now):
        """What the sampler's thread does at a reading."""
        ns = time.monotonic_ns()
        allocated = (30 + self.number % 7) * GIB
        while self.begun + self.steps * STEP < now:
            self.steps += 1
            wave = (self.steps * 7_919 + self.number * 31) % 97 << 20
            edge = {"allocated": allocated, "reserved": 60 * GIB, "peak": 55 * GIB + wave}
            line = {"event": "step", "pid": self.pid, "device": 0, "count": self.steps,
                    "micros": int(STEP * 9e5) + wave % 1000, "before": edge, "after": edge}
            self.spool.put(line, ns)
        if not self.greeted:
            self.greeted = True
            self.first()
        wave = (self.steps * 104_729 + self.number) % 997 << 20
        self.spool.put({
            "event": "sample", "pid": self.pid, "device": 0,
            "allocated": allocated + wave, "reserved": 60 * GIB, "allocated_peak": 56 * GIB,
            "reserved_peak": 60 * GIB, "active": allocated + wave, "inactive_split": 2 * GIB,
            "requested": allocated + wave - 4096, "alloc_retries": 0, "ooms": 0, "segments": 800,
        })
        self.spool.put({"event": "device_memory", "device": 0, "free": 17 * GIB - wave,
                        "total": 80 * GIB})
        before, generation = self.spool.written, self.spool.generation
        self.spool.write()
        # A rotation begins a file anew; what was thinned out is not written.
        same = self.spool.generation == generation
        self.bytes += max(self.spool.written - before, 0) if same else 0

    def first(self):
        self.spool.put({"event": "structure", "pid": self.pid, "device": 0,
                        "parameters": 14 * GIB, "gradients": 14 * GIB, "optimizer_state": 0})


def simulate(seconds):
    """All ranks, in one process: the command that oomph runs."""
    os.environ["WORLD_SIZE"] = str(RANKS)
    spool = load_probe()
    directory = os.environ["OOMPH_PROBE_SPOOL"]
    ranks = [Rank(spool, number, directory) for number in range(RANKS)]
    began = time.monotonic()
    # Readings of all ranks, spread over the interval.
    due = [(rank.spool.interval * rank.number / RANKS, rank) for rank in ranks]
    spoke, behind = 0, 0.0
    while True:
        now = time.monotonic() - began
        if now >= seconds:
            break
        while due[0][0] <= now:
            at, rank = due.pop(0)
            rank.tick(now)
            behind = max(behind, now - at)
            due.append((at + rank.spool.interval, rank))
        if now * 10 >= spoke:
            spoke += 1
            print("step %d of a simulated training" % ranks[0].steps, flush=True)
        time.sleep(0.005)
    for rank in ranks:
        rank.spool.end()
    written = {
        rank.name().rsplit("-", 1)[0]: {
            "lines": rank.spool.sequence, "steps": rank.steps, "bytes": rank.bytes,
            "files": rank.spool.generation, "dropped": rank.spool.lines.dropped,
        }
        for rank in ranks
    }
    usage = os.times()
    written["own"] = {"cpu": usage.user + usage.system, "behind": behind, "seconds": seconds}
    with open(os.environ["RANKS_WRITTEN"], "w") as file:
        json.dump(written, file)
    # Until the front has read it all: it looks once a second.
    time.sleep(8)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def cpu(pid):
    """Seconds of a process and its threads."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid, name):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{name}:\s+(\d+) kB", text).group(1)) / 1e3


def measure(oomph, seconds, rows, columns):
    sys.path.insert(0, str(ROOT / "tests/bench"))
    from run import Screen

    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "shared").mkdir(mode=0o700)
        (scratch / "run").mkdir(mode=0o700)
        (scratch / "state").mkdir(mode=0o700)
        recording = scratch / "events.jsonl"
        environment = {
            "OOMPH_STATE_DIR": str(scratch / "state"), "OOMPH_RUNTIME_DIR": str(scratch / "run"),
            "RANKS_WRITTEN": str(scratch / "written.json"), "SLURM_JOB_NUM_NODES": str(NODES),
        }
        command = [
            oomph, "--no-nvml", "--spool", str(scratch / "shared"), f"--record={recording}",
            sys.executable, os.path.abspath(__file__), "--simulate", str(seconds),
        ]
        screen = Screen(command, rows, columns, environment)
        front = screen.pid
        watch = time.monotonic() + 25
        while time.monotonic() < watch:
            screen.read(0.2)
        screen.press(b"3")
        per_minute = []
        began, before = time.monotonic(), cpu(front)
        minute = (began, before)
        while not (scratch / "written.json").exists():
            if not screen.read(0.5):
                break
            if time.monotonic() - minute[0] >= 60:
                now, spent = time.monotonic(), cpu(front)
                per_minute.append((spent - minute[1]) / (now - minute[0]) * 100)
                minute = (now, spent)
                print(f"  {len(per_minute)} min: {per_minute[-1]:.2f} % CPU, "
                      f"{memory(front, 'VmRSS'):.1f} MB", flush=True)
        spent = (cpu(front) - before) / (time.monotonic() - began) * 100
        resident, peak = memory(front, "VmRSS"), memory(front, "VmHWM")
        shared = sum(file.stat().st_size for file in (scratch / "shared").rglob("*") if file.is_file())
        entries = sum(1 for _ in (scratch / "shared").rglob("*.jsonl"))
        # The last look is within a second; the session ends by itself some seconds later.
        settle = time.monotonic() + 5
        while time.monotonic() < settle:
            screen.read(0.2)
        places_file = next((scratch / "run").rglob("spool.json"))
        places = json.loads(places_file.read_text())["followers"]
        written = json.loads((scratch / "written.json").read_text())
        own = written.pop("own")
        while screen.read(0.5):
            pass
        events = [json.loads(line) for line in recording.read_text().splitlines()]
        return {
            "cpu": spent, "per_minute": per_minute, "rss": resident, "peak": peak, "own": own,
            "shared": shared, "entries": entries, "written": written, "places": places,
            "events": events, "recording": recording.stat().st_size,
        }


def report(found):
    written, places, own = found["written"], found["places"], found["own"]
    minutes = own["seconds"] / 60
    rates = [rank["bytes"] / minutes / 1e3 for rank in written.values()]
    lines = sum(rank["lines"] for rank in written.values())
    unread = {
        stem: rank["lines"] - places.get(stem, {}).get("sequence", 0)
        for stem, rank in written.items()
    }
    missing = sum(count for count in unread.values() if count)
    dropped, malformed = {}, 0
    for event in found["events"]:
        if event["event"] == "dropped":
            malformed += event.get("malformed", 0)
            dropped["samples"] = dropped.get("samples", 0) + event.get("samples", 0)
    hellos = {event["rank"] for event in found["events"] if event["event"] == "hello"}
    steps = {}
    for event in found["events"]:
        if event["event"] == "step":
            steps[event["pid"]] = max(steps.get(event["pid"], 0), event["count"])
    last = sorted(steps.values())
    print(f"{RANKS} simulated ranks on {NODES} nodes, {minutes:.1f} min")
    print(f"front, drawing at 10 Hz: {found['cpu']:.2f} % of a core (≤ 3), "
          f"{found['rss']:.1f} MB resident, {found['peak']:.1f} MB at its peak (≤ 60)")
    if found["per_minute"]:
        print(f"  minute by minute: median {statistics.median(found['per_minute']):.2f} %, "
              f"most {max(found['per_minute']):.2f} %")
    print(f"written: {max(rates):.1f} kB a minute and rank at most (≤ 200), {lines} lines in all, "
          f"{found['shared'] / 1e6:.1f} MB in {found['entries']} files at the end, "
          f"up to {max(rank['files'] for rank in written.values())} files a rank one after another")
    print(f"lost: {missing} lines not read, {dropped.get('samples', 0)} said to be dropped, "
          f"{malformed} malformed; {len(hellos)} ranks greeted, {len(steps)} with steps, "
          f"the last recorded step is {last[0] if last else '-'} to {last[-1] if last else '-'} "
          f"of {max(rank['steps'] for rank in written.values())}")
    print(f"recording: {found['recording'] / 1e6:.1f} MB; the simulation took {own['cpu']:.0f} s of CPU "
          f"and was at most {own['behind']:.2f} s late")
    return missing == 0 and malformed == 0 and len(hellos) == RANKS


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--oomph", default=str(ROOT / "target/release/oomph"))
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--columns", type=int, default=80)
    parser.add_argument("--simulate", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.simulate:
        return simulate(arguments.simulate)
    found = measure(os.path.abspath(arguments.oomph), arguments.seconds, arguments.rows, arguments.columns)
    sys.exit(0 if report(found) else 1)


if __name__ == "__main__":
    main()
