#!/usr/bin/env python3
"""An agent's loop without a person, through `oomph mcp` alone: why did it run out, what would fit, start once, wait for the end.

    python3 tests/gpu/agent_loop.py --oomph target/release/oomph [--results FILE] [--seconds 330] [--room 16]
    python3 tests/gpu/agent_loop.py --oomph target/debug/oomph --simulated        # the demo, without a GPU

Programs of frameworks (tests/gpu/frameworks: transformers, Lightning, timm) run out of memory under oomph at a batch that needs 1.4 times
the room which PyTorch may reserve (`per_process_memory_fraction`, in the environment). Then a script plays the agent: it reads the
session, takes the remedy that is expected to fit, asks for the same by predict_change (the figures must be equal), starts it again and
waits. Right is one relaunch, trained to its end, with a peak that was predicted to fit. Results are appended; what is there is not
run again.
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
sys.path.insert(0, str(HERE))

import programs  # noqa: E402
from results import Results, shown  # noqa: E402

GIB = 1 << 30
NAMES = ("transformers", "lightning", "timm")
# Seconds that the second training may take.
ENDS_WITHIN = 240


class Server:
    """A client on the pipes of `oomph mcp`."""

    def __init__(self, oomph, directory, environment):
        self.process = subprocess.Popen(
            [oomph, "mcp", "--allow-run"], cwd=directory, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )
        self.asked = 0
        client = {"name": "agent_loop", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def write(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.asked += 1
        self.write({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params})
        answer = json.loads(self.process.stdout.readline())
        if answer.get("id") != self.asked or "result" not in answer:
            raise ValueError("%s: %s" % (method, json.dumps(answer)[:300]))
        return answer["result"]

    def call(self, tool, **arguments):
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise ValueError("%s: %s" % (tool, result["content"][0]["text"][:300]))
        return result["structuredContent"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)


def environment(directory, simulated, fraction):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTORCH_")}
    kept.update(XDG_STATE_HOME=str(directory), XDG_CONFIG_HOME=str(directory / "config"), OOMPH_RUNTIME_DIR=str(directory / "run"))
    if simulated:
        kept["OOMPH_SIMULATED_SPEED"] = "8"
    else:
        kept["PYTORCH_ALLOC_CONF"] = "per_process_memory_fraction:%.8f" % fraction
    return kept


def play(oomph, directory, command, settings):
    """What became of it."""
    first = [oomph, "--headless", "--on-oom", "exit", *map(str, command)]
    done = subprocess.run(first, cwd=directory, env=settings, capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL)
    agent = Server(oomph, directory, settings)
    try:
        failed = agent.call("list_sessions")["sessions"][0]
        if failed["state"] != "out of memory":
            raise ValueError("it did not run out of memory (%s): %s" % (failed["state"], done.stderr.strip()[-200:]))
        read = agent.call("read_session", session=failed["id"])
        fitting = [remedy for remedy in read["remedies"] if remedy["available"] and remedy["expected"]["fits"]]
        line = {"cause": read["findings"][0]["cause"], "offered": [remedy["id"] for remedy in fitting]}
        began = time.monotonic()
        started = agent.call("start_again", session=failed["id"])
        if not started["started"]:
            return {**line, "right": False, "why": started["why_not"]}
        taken = next(remedy for remedy in fitting if remedy["id"] in started["remedies"])
        expected = taken["expected"]
        line.update(remedy=taken["changes"], predicted=expected["needs"], basis=expected["basis"], room=expected["room"])
        line["asked"] = same_figure(agent, failed["id"], taken)
        while time.monotonic() - began < ENDS_WITHIN:
            waited = agent.call("wait_for_session", session=started["started"], seconds=20)
            if waited["ended"]:
                break
        row = waited["session"]
        sessions = len(agent.call("list_sessions")["sessions"])
        line.update(state=row["state"], steps=row["steps"], peak=row["peak"], sessions=sessions)
        figures = line["asked"] in (None, expected["needs"])
        line["right"] = row["state"] == "finished" and row["ooms"] == 0 and sessions == 2 and figures
        return line
    finally:
        agent.close()


def same_figure(agent, session, taken):
    """What predict_change says of the remedy that was taken; `None` for one that is no batch alone."""
    words = taken["changes"].split("→")
    if taken["id"] != "batch" or len(words) < 2:
        return None
    batch = int("".join(c for c in words[1].split()[0] if c.isdigit()))
    return agent.call("predict_change", session=session, batch=batch)["expected"]["needs"]


def measure(oomph, name, room):
    import torch

    total = torch.cuda.get_device_properties(0).total_memory
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        for script in programs.SCRIPTS.iterdir():
            if script.is_file():
                (directory / script.name).write_bytes(script.read_bytes())
        batch = programs.batch_that_is_too_large(name, directory, room)
        settings = environment(directory, False, room / total)
        return {"batch": batch, **play(oomph, directory, programs.command(name, batch), settings)}


def simulated(oomph):
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        command = [sys.executable, ROOT / "demo/train.py", "--simulated", "--batch-size", 64, "--steps", 8]
        return {"batch": 64, **play(oomph, directory, command, environment(directory, True, 1))}


def report(results, names):
    right = 0
    print("%-14s %6s %-10s %-34s %11s %11s %6s %s" % ("program", "batch", "cause", "remedy", "predicted", "peak", "steps", "state"))
    for name in names:
        line = next((line for line in results.lines if line["case"] == name), None)
        if line is None or "error" in line or "why" in line:
            print("%-14s %s" % (name, (line.get("error") or line["why"]) if line else "not measured"))
            continue
        gib = lambda value: shown(value and value / GIB, "%.2f GiB")
        print("%-14s %6d %-10s %-34s %11s %11s %6d %s%s" % (
            name, line["batch"], line["cause"], line["remedy"], gib(line["predicted"]), gib(line["peak"]), line["steps"], line["state"],
            "" if line["right"] else "   WRONG"))
        right += line["right"]
    print("agent's loop: %d of %d trained to their end with one relaunch" % (right, len(names)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", default=str(ROOT / "target/release/oomph"))
    parser.add_argument("--results", default=str(HERE / "agent_loop.jsonl"))
    parser.add_argument("--seconds", type=float, default=330, help="begin nothing after so long")
    parser.add_argument("--room", type=float, default=16, help="GiB that PyTorch may reserve")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    results, names = Results(args.results), ("demo",) if args.simulated else NAMES
    oomph, until = str(pathlib.Path(args.oomph).resolve()), time.monotonic() + args.seconds

    def one(name):
        if time.monotonic() > until or results.has(case=name):
            return None
        try:
            return name, simulated(oomph) if args.simulated else measure(oomph, name, args.room * GIB)
        except (OSError, ValueError, KeyError, StopIteration, AssertionError, subprocess.TimeoutExpired) as error:
            return name, {"error": str(error)[:300]}

    if not args.report:
        # Side by side: each has its own part of the card.
        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            for done in pool.map(one, names):
                if done:
                    results.add(case=done[0], **done[1])
    report(results, names)


if __name__ == "__main__":
    main()
