"""Remedies for the host's memory, up to the end of the relaunched training: real trainings with a DataLoader of torch's, each
under a limit of a real control group that it does not keep to.

    python3 tests/host/remedies.py --oomph target/release/oomph --python /path/to/python [--times 1] [--only KIND] [--results FILE]

`--python` is one with torch; one for CPUs will do. Each training is killed when it is run by itself. Below oomph it is killed as
well, relaunched with a remedy (by `--on-oom auto`, or by the remedy's key and Enter on a terminal) until it comes to its end, and
what its DataLoaders then had is read from the recording, with the RAM that was predicted and the RAM that it took: a lower bound must hold,
a figure be within a fourth. `mem` and `shm_size` run the training as it is with the amount that is advised instead. Needs root and a control group that can be made. /dev/shm is a small tmpfs
of a mount namespace of its own where a case says so. `pinned` needs a GPU, and is only run where it is named by `--only`.
"""
import argparse
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

import named

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = f"{HERE}/loaders.py"
MIB = 1 << 20

# limit: MiB of RAM; key: the remedy's in the dialog, or None for `--on-oom auto`; of: the setting of the loaders that becomes
# smaller (None if its loaders do not show it); by: what the relaunched command has.
# shm: MiB of /dev/shm, if it is to be a small one; cause: what is named, where the kernel is not who ends it.
Case = namedtuple("Case", "words limit key of by shm cause", defaults=(None, None))
CASES = {
    "workers": Case(["workers", "--workers", "12"], 1400, "l", "workers", r"--workers 6\b"),
    "default": Case(["default"], 1400, "l", "workers", r"default --workers 6\b"),
    "constant": Case(["constant"], 1150, "l", "workers", r"OOMPH_PATCHES\W.*workers=5\b"),
    "copies": Case(["copies", "--workers", "8"], 1900, "l", "workers", r"--workers [24]\b"),
    "prefetch": Case(["prefetch"], 1400, None, "prefetch", r"--prefetch-factor ([1-9]|1[0-5])\b"),
    "shm": Case(["shm"], 1900, None, "prefetch", r"--prefetch-factor ([1-9]|1[0-5])\b", 256, "shared_memory"),
    "pinned": Case(["pinned"], 2600, "p", "pin_memory", r"OOMPH_PATCHES\W.*pin_memory=off", None, "pinned_memory"),
    "persistent": Case(["persistent"], 850, "t", "persistent", r"OOMPH_PATCHES\W.*persistent_workers=off"),
    "descriptors": Case(["descriptors"], 1000, None, None, r"OOMPH_PATCHES\W.*sharing=file_system"),
}
# A dialog waits for a key, as its last line says.
ASKS = b"nothing runs until you choose"
LONGEST = 300


ONLY_NAMED = ("pinned",)


def in_group(place):
    return lambda: named.write(f"{place}/cgroup.procs", os.getpid())


def with_shm(case, command):
    """The command, with the /dev/shm that the case asks for."""
    if case.shm is None:
        return command
    mounted = f"mount -t tmpfs -o size={case.shm}m tmpfs /dev/shm && exec \"$@\""
    return [shutil.which("unshare"), "-m", "sh", "-c", mounted, "sh"] + command


def is_killed(python, case, place):
    """Whether the training ends early by itself."""
    command = with_shm(case, [python, PROGRAM] + case.words)
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LONGEST, preexec_fn=in_group(place)
    )
    return done.returncode != 0


def on_terminal(command, environment, place, key):
    """Runs it on a terminal of 120 columns and answers each dialog with the key and Enter; its status."""
    pid, terminal = pty.fork()
    if pid == 0:
        in_group(place)()
        os.environ.update(environment, TERM="xterm-256color", LINES="36", COLUMNS="120")
        os.execv(command[0], command)
    seen, until, answered = b"", time.monotonic() + LONGEST, 0
    while time.monotonic() < until:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                got = os.read(terminal, 65536)
            except OSError:
                break
            if not got:
                break
            seen = (seen + got)[-200_000:]
            continue
        # Nothing was drawn for a while: what is asked stands there.
        if ASKS in seen and answered < 4:
            answered, seen = answered + 1, b""
            for word in (key, "\r"):
                os.write(terminal, word.encode())
                time.sleep(0.3)
    try:
        os.kill(pid, 15 if time.monotonic() >= until else 0)
    except ProcessLookupError:
        pass
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status)


def run(oomph, python, kind, place, directory):
    case = CASES[kind]
    recording = f"{directory}/{kind}-{time.monotonic_ns()}.jsonl"
    how = "auto" if case.key is None else "ask"
    command = [oomph, "--no-nvml", f"--on-oom={how}", "--record", recording, python, PROGRAM] + case.words
    command = with_shm(case, command)
    environment = {"XDG_STATE_HOME": directory}
    if case.key is None:
        done = subprocess.run(
            command,
            env=dict(os.environ, **environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST,
            preexec_fn=in_group(place),
        )
        return done.returncode, recording
    return on_terminal(command, environment, place, case.key), recording


def told(recording):
    with open(recording) as file:
        return sorted((json.loads(line) for line in file), key=lambda event: event["at"])


# How far what it took may be from what was predicted, unless that was a lower bound.
NEAR = 0.25


def ram_of(run, events):
    """What was predicted of a run's RAM and what it took, in bytes; None where nothing was."""
    predicted = (run.get("prediction") or {}).get("ram")
    came = [event for event in events if event["event"] == "prediction_outcome" and event["run"] == run["run"]]
    took = came[-1].get("ram") if came else None
    return (predicted, took) if predicted and took else (predicted, None)


def judge(kind, status, recording, oomph):
    """What is wrong with it, or None; and what was seen, in words."""
    case, events = CASES[kind], told(recording)
    runs, loaders, exits, kills = [], {}, {}, 0
    for event in events:
        if event["event"] == "started":
            runs.append(event)
        elif event["event"] == "process_host" and event.get("loaders") and runs:
            loaders.setdefault(runs[-1]["run"], []).extend(event["loaders"])
        elif event["event"] == "exited":
            exits[event["run"]] = event["exit"]
        elif event["event"] == "host_kill":
            kills = max(kills, event["total"])
    if len(runs) < 2:
        return "not relaunched", f"exits {exits}"
    last = runs[-1]["run"]
    explained = subprocess.run([oomph, "explain", "--json", recording], stdout=subprocess.PIPE, text=True).stdout
    causes = [finding["cause"] for finding in json.loads(explained)["findings"]] if explained else []
    words = shown(runs[-1])
    said = f"{len(runs)} runs, cause {causes[:1]}, last run: {words[-120:]}"
    if exits.get(last) != {"code": 0} or status != 0:
        return f"run {last} did not come to its end: {exits.get(last)}, status {status}", said
    if case.cause is not None and causes[:1] != [case.cause]:
        return f"the cause is not {case.cause}", said
    if not re.search(case.by, words):
        return f"the relaunch has no {case.by}", said
    if case.of is not None:
        settings = [max([int(loader[case.of]) for loader in loaders.get(run, [])], default=None) for run in (runs[0]["run"], last)]
        said += f"; {case.of} {settings[0]} then {settings[1]}"
        if None in settings or settings[1] >= settings[0]:
            return f"the loaders still have {case.of} {settings}", said
    predicted, took = ram_of(runs[-1], events)
    if predicted is not None and took is not None:
        off = took / predicted["needs"] - 1
        said += f"; RAM {'at least ' if predicted['at_least'] else ''}{predicted['needs'] >> 20} MiB predicted, {took >> 20} MiB taken ({off:+.1%})"
        measured[kind] = {"predicted": predicted, "took": took}
        if off < -0.02 if predicted["at_least"] else abs(off) > NEAR:
            return "the RAM is not as predicted", said
    return None, said


# Of each kind, for the results.
measured = {}


def with_advice(oomph, python, kind, directory):
    """The training as it is, with as much of RAM or /dev/shm as the diagnosis of its kill advises; what is wrong, and what was seen."""
    of, pattern = AMOUNTS[kind]
    case = CASES[of]
    place = named.group(case.limit * MIB)
    try:
        recording = f"{directory}/{kind}-{time.monotonic_ns()}.jsonl"
        command = [oomph, "--no-nvml", "--on-oom=exit", "--record", recording, python, PROGRAM] + case.words
        environment = dict(os.environ, XDG_STATE_HOME=directory)
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        subprocess.run(with_shm(case, command), env=environment, timeout=LONGEST, preexec_fn=in_group(place), **quiet)
    finally:
        named.removed(place)
    explained = subprocess.run([oomph, "explain", "--json", recording], stdout=subprocess.PIPE, text=True).stdout
    advice = " ".join(line for finding in json.loads(explained)["findings"] for line in finding["advice"])
    amount = re.search(pattern, advice)
    if amount is None:
        return "no amount is advised", advice
    mib = int(amount[1]) << 10
    if mib > MOST_OF_THIS_MACHINE:
        return f"{mib} MiB are advised, which this test does not take", advice
    wide = case._replace(limit=mib if kind == "mem" else case.limit, shm=case.shm if kind == "mem" else mib)
    place = named.group(wide.limit * MIB)
    try:
        command = with_shm(wide, [python, PROGRAM] + wide.words)
        done = subprocess.run(command, timeout=LONGEST, preexec_fn=in_group(place), **quiet)
    finally:
        named.removed(place)
    measured[kind] = {"advised_mib": mib}
    wrong = None if done.returncode == 0 else f"status {done.returncode} with it"
    return wrong, f"{mib} MiB advised, {case.limit if kind == 'mem' else case.shm} were too few"


# The case that runs out, and where the amount stands in what is advised.
AMOUNTS = {"mem": ("workers", r"--memory=(\d+)g"), "shm_size": ("shm", r"--shm-size=(\d+)g")}
MOST_OF_THIS_MACHINE = 4 << 10


def shown(started):
    """The words of a run's command, and what is in front of it."""
    command = started["command"]
    front = [json.dumps(command["env"])] if command.get("env") else []
    return " ".join(front + [str(word) for word in command["argv"]])


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--only", choices=[*CASES, *AMOUNTS], action="append")
    parser.add_argument("--results", help="a line of JSON for each goes here")
    return parser.parse_args()


def main():
    given = parsed()
    oomph = os.path.abspath(given.oomph)
    kinds = given.only or [kind for kind in [*CASES, *AMOUNTS] if kind not in ONLY_NAMED]
    rightly = 0

    def told_of(kind, wrong, said):
        print(f"{'BAD' if wrong else 'ok '} {kind}: {wrong or 'to its end'}; {said}", flush=True)
        named.keep(given.results, {"suite": "remedies", "kind": kind, "wrong": wrong, "said": said, **measured.pop(kind, {})})
        return wrong is None

    with tempfile.TemporaryDirectory() as directory:
        for kind in kinds:
            if kind in AMOUNTS:
                rightly += sum(told_of(kind, *with_advice(oomph, given.python, kind, directory)) for _ in range(given.times))
                continue
            place = named.group(CASES[kind].limit * MIB)
            if place is None:
                print("no control group for memory can be made here: nothing was tested")
                return 2
            try:
                killed = is_killed(given.python, CASES[kind], place)
                # Its workers outlive it by some seconds, and would take the next run's memory.
                named.emptied(place)
                for _ in range(given.times):
                    status, recording = run(oomph, given.python, kind, place, directory)
                    wrong, said = judge(kind, status, recording, oomph)
                    wrong = wrong or (None if killed else "it comes to its end by itself")
                    rightly += told_of(kind, wrong, said)
            finally:
                named.removed(place)
    total = given.times * len(kinds)
    print(f"{rightly} of {total} killed, relaunched with the remedy and run to their end")
    return 0 if rightly == total else 1


if __name__ == "__main__":
    sys.exit(main())
