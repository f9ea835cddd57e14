#!/usr/bin/env python3
"""An agent's loop without a person: why did it run out, what would fit, start once, wait for the end.

    python3 tests/gpu/agent_loop.py --oomph target/release/oomph [--results FILE] [--seconds 330] [--room 16]
    python3 tests/gpu/agent_loop.py --oomph target/release/oomph --programs DIR   # published ones, as zoo.py checks them out
    python3 tests/gpu/agent_loop.py --oomph target/debug/oomph --simulated        # the demo, without a GPU

Programs of frameworks (tests/gpu/frameworks: transformers, Lightning, timm) run out of memory under oomph at a batch that needs 1.4 times
the room which PyTorch may reserve (`per_process_memory_fraction`, in the environment); published programs run as they are, in 1/1.5 of
what they took. Then a script plays the agent, once through `oomph mcp` alone: it reads the session, takes the remedy that is expected to
fit, asks for the same by predict_change (the figures must be equal), starts it again and waits; and once by the commands `explain`,
`plan --predict` and `again`. Right is one relaunch, trained to its end, with a peak that was predicted to fit. Results are appended;
what is there is not run again.
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
import zoo  # noqa: E402
import zoo_data  # noqa: E402
import zoo_runs  # noqa: E402
from results import Results, shown  # noqa: E402

GIB = 1 << 30
NAMES = ("transformers", "lightning", "timm")
# Seconds that the second training may take.
ENDS_WITHIN = 240
# Of zoo.toml, with what lets them end within a minute.
PUBLISHED = {
    "image-models": "--epochs 1 --warmup-epochs 0 --cooldown-epochs 0",
    "word-language-model": "--epochs 1",
    "small-vit": "--epochs 1",
    "unet-segmentation": "--epochs 1",
    "resnext": "--epochs 1",
}
WAYS = ("mcp", "commands")


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
    kept.update(OOMPH_STATE_DIR=str(directory), XDG_CONFIG_HOME=str(directory / "config"), OOMPH_RUNTIME_DIR=str(directory / "run"))
    if simulated:
        kept["OOMPH_SIMULATED_SPEED"] = "8"
    else:
        kept["PYTORCH_ALLOC_CONF"] = "per_process_memory_fraction:%.8f" % fraction
    return kept


def run_first(oomph, directory, command, settings):
    first = [oomph, "--headless", "--on-oom", "exit", *map(str, command)]
    return subprocess.run(first, cwd=directory, env=settings, capture_output=True, text=True, timeout=280, stdin=subprocess.DEVNULL)


def play_commands(oomph, directory, command, settings):
    """What became of it by `explain`, `plan --predict` and `again`."""
    def answer(*words):
        done = subprocess.run([oomph, *words], cwd=directory, env=settings, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise ValueError("%s: %s" % (" ".join(words[:2]), done.stderr.strip()[-300:]))
        return json.loads(done.stdout)

    done = run_first(oomph, directory, command, settings)
    failed = answer("ls", "--all", "--json")[0]
    if failed["state"] != "out of memory":
        raise ValueError("it did not run out of memory (%s): %s" % (failed["state"], done.stderr.strip()[-200:]))
    explained, again = answer("explain", "--json", failed["id"]), answer("again", "--print", "--json")
    line = {"cause": explained["findings"][0]["cause"]}
    line["offered"] = [one["id"] for one in explained["remedies"] if one["available"] and one["expected"]["fits"]]
    if not again["starts"]:
        return {**line, "right": False, "why": again["why_not"]}
    expected = again["expected"]
    line.update(remedy=again["command"], predicted=expected["needs"], basis=expected["basis"], room=expected["room"])
    taken = next(one for one in explained["remedies"] if one["id"] == again["remedies"][0])
    line["remedy"], batch = taken["changes"], batch_after(taken)
    if batch:
        said = answer("plan", "--predict", str(batch), "--", *map(str, command))
        line["asked"] = said["needs"]["likely"]
    relaunched = [oomph, "--headless", "again"]
    done = subprocess.run(
        relaunched, cwd=directory, env=settings, capture_output=True, text=True, timeout=ENDS_WITHIN, stdin=subprocess.DEVNULL)
    rows = answer("ls", "--all", "--json")
    line.update(state=rows[0]["state"], steps=rows[0]["steps"], peak=rows[0]["peak"], sessions=len(rows), status=done.returncode)
    line["right"] = rows[0]["state"] == "finished" and rows[0]["ooms"] == 0 and len(rows) == 2 and done.returncode == 0
    return line


def play(oomph, directory, command, settings):
    """What became of it through `oomph mcp`."""
    done = run_first(oomph, directory, command, settings)
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
    batch = batch_after(taken)
    return batch and agent.call("predict_change", session=session, batch=batch)["expected"]["needs"]


def batch_after(taken):
    words = taken["changes"].split("→")
    if taken["id"] != "batch" or len(words) < 2:
        return None
    return int("".join(c for c in words[1].split()[0] if c.isdigit()))


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


def measure_published(oomph, way, place, program):
    """One of zoo.toml in 1/1.5 of what it took."""
    need = zoo_runs.bare(place, program)
    if need["steps"] < 2:
        raise ValueError("bare: %s" % need["tail"][-300:])
    directory = zoo_runs.prepared(place, program)
    cap = need["peak"] / zoo_runs.TIMES[0] / need["total"]
    settings = zoo_runs.surroundings(place, program, way, cap)
    settings["OOMPH_RUNTIME_DIR"] = str(place.of(program) / ("run-" + way))
    loop = play if way == "mcp" else play_commands
    return {"cap": round(need["peak"] / zoo_runs.TIMES[0]), **loop(oomph, directory, zoo_runs.words_of(program), settings)}


def published(directory, work):
    """The programs to play with, each way in a folder of its own."""
    rows = {row["name"]: row for row in zoo.tomllib.loads(zoo.MANIFEST.read_text())["program"]}
    found = {}
    zoo_data.accept_made_files()
    for name, words in PUBLISHED.items():
        program = zoo.Program(**rows[name])
        program.runs = "%s %s" % (program.runs or program.command, words)
        zoo.check_out(program, None, directory)
        for way in WAYS:
            found["%s, %s" % (name, way)] = (way, zoo_runs.Place(oomph=None, work=work / way, carried=work), program)
    return found


def simulated(oomph, name):
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        command = [sys.executable, ROOT / "demo/train.py", "--simulated", "--batch-size", 64, "--steps", 8]
        loop = play if name.endswith("mcp") else play_commands
        return {"batch": 64, **loop(oomph, directory, command, environment(directory, True, 1))}


def report(results, names):
    right = 0
    print("%-30s %6s %-10s %-34s %11s %11s %6s %s" % ("program", "batch", "cause", "remedy", "predicted", "peak", "steps", "state"))
    for name in names:
        line = next((line for line in results.lines if line["case"] == name), None)
        if line is None or "error" in line or "why" in line:
            print("%-30s %s" % (name, (line.get("error") or line["why"]) if line else "not measured"))
            continue
        gib = lambda value: shown(value and value / GIB, "%.2f GiB")
        print("%-30s %6s %-10s %-34s %11s %11s %6d %s%s" % (
            name, line.get("batch", "-"), line["cause"], line["remedy"], gib(line["predicted"]), gib(line["peak"]), line["steps"], line["state"],
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
    parser.add_argument("--programs", type=pathlib.Path, help="where published programs are, or are checked out to")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    results, names = Results(args.results), tuple("demo, " + way for way in WAYS) if args.simulated else NAMES
    oomph, until = str(pathlib.Path(args.oomph).resolve()), time.monotonic() + args.seconds
    others, work = {}, tempfile.TemporaryDirectory()
    if args.programs:
        others = published(args.programs.resolve(), pathlib.Path(work.name))
        names = tuple(others)
        for _, place, _ in others.values():
            place.oomph = oomph

    def one(name):
        if time.monotonic() > until or results.has(case=name):
            return None
        try:
            if name in others:
                return name, measure_published(oomph, *others[name])
            return name, simulated(oomph, name) if args.simulated else measure(oomph, name, args.room * GIB)
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
