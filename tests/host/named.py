"""Who filled the host's memory is named rightly: real programs, each under a real limit of a control group.

    python3 tests/host/named.py --oomph target/release/oomph [--times 3] [--cost] [--together] [--python PYTHON] [--results FILE]

Needs root and a control group for memory that can be written to, of version 1 or 2; says so and ends with 2 where there is none. Pinned
memory stands for itself without a GPU: it is locked by mlock. With a Python that has torch, a DataLoader's workers that copy their data set and its prefetched batches are told
apart as well. `--together` kills all of the group as soon as the kernel has killed one, oomph too, as memory.oom.group does (which version 1
has not): what the recording alone says is held to the same. `--cost` measures instead what looking costs, with 64 workers, far from a
limit and above 90 % of one.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 700 << 20
CAUSES = {"workers": "host_workers", "main": "host_process", "shm": "shared_memory", "pinned": "pinned_memory"}
# Of `loaders.py`, which needs torch: the cause, the limit in MiB, and the words.
LOADERS = {
    "copies": ("worker_copies", 1900, ["copies", "--workers", "8"]),
    "prefetch": ("prefetch_queue", 1400, ["prefetch"]),
}


def group(size=LIMIT):
    """A control group with a limit, and its version's name for that."""
    for root, limit, swap in [
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
        ("/sys/fs/cgroup", "memory.max", "memory.swap.max"),
    ]:
        place = f"{root}/oomph-test-{os.getpid()}"
        try:
            os.mkdir(place)
        except OSError:
            continue
        if os.path.exists(f"{place}/{limit}"):
            write(f"{place}/{limit}", size)
            try:
                write(f"{place}/{swap}", size if "memsw" in swap else 0)
            except OSError:
                pass  # without swap there is nothing to forbid
            return place
        os.rmdir(place)
    return None


def write(path, value):
    with open(path, "w") as file:
        file.write(str(value))


def program(kind, python):
    """The command of a kind."""
    if kind in LOADERS:
        return [python, f"{HERE}/loaders.py"] + LOADERS[kind][2]
    return [sys.executable, f"{HERE}/programs.py", kind]


def run(oomph, place, kind, directory, python=None):
    """Runs a program of this kind below oomph within the group; its status and the recording."""
    recording = f"{directory}/{kind}-{time.monotonic_ns()}.jsonl"
    command = [oomph, "--no-nvml", "--on-oom=exit", "--record", recording]
    command += program(kind, python)
    environment = dict(os.environ, XDG_STATE_HOME=directory)
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=180,
        preexec_fn=lambda: write(f"{place}/cgroup.procs", os.getpid()),
    )
    for left in glob.glob("/dev/shm/oomph-test-*"):
        os.unlink(left)
    return done, recording


def bare(place, kind, python=None):
    done = subprocess.run(
        program(kind, python), stdout=subprocess.DEVNULL, timeout=180, stderr=subprocess.DEVNULL, preexec_fn=lambda: write(f"{place}/cgroup.procs", os.getpid())
    )
    for left in glob.glob("/dev/shm/oomph-test-*"):
        os.unlink(left)
    return done.returncode


def kills_of(place):
    for name in ("memory.oom_control", "memory.events"):
        try:
            with open(f"{place}/{name}") as file:
                counts = dict(line.split() for line in file)
        except OSError:
            continue
        return int(counts.get("oom_kill", 0))
    return 0


def kill_together(place, before, killed):
    """Kills all of a group once the kernel has killed one of it; when, on the wall's clock, goes into `killed`."""
    until = time.monotonic() + 170
    while time.monotonic() < until:
        if kills_of(place) > before:
            killed.append(time.time())
            with open(f"{place}/cgroup.procs") as file:
                for pid in file.read().split():
                    try:
                        os.kill(int(pid), 9)
                    except ProcessLookupError:
                        pass
            return
        time.sleep(0.002)


def emptied(place):
    """Waits for the last process of a group to end: what was killed takes a while to give its memory back."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with open(f"{place}/cgroup.procs") as file:
            if not file.read():
                return
        time.sleep(0.05)


def removed(place):
    emptied(place)
    time.sleep(0.2)
    os.rmdir(place)


def age_at(recording, wall):
    """Seconds from the last reading to a moment on the wall's clock."""
    events = []
    for path in (recording, recording + ".recent"):
        if os.path.exists(path):
            with open(path) as file:
                events += [json.loads(line) for line in file if line.endswith("}\n")]
    start = next(event for event in events if event["event"] == "session_started")
    readings = [event["at"] for event in events if event["event"] == "host_memory"]
    return wall - start["wall"] - (max(readings) - start["at"]) / 1e6 if readings else None


def together(oomph, times, place, directory, causes, python, results):
    """As `named`, of recordings whose oomph was killed with the program."""
    rightly = 0
    for kind, cause in causes.items():
        for _ in range(times):
            killed = []
            killer = threading.Thread(target=kill_together, args=(place, kills_of(place), killed))
            killer.start()
            done, recording = run(oomph, place, kind, directory, python)
            killer.join()
            emptied(place)
            text = subprocess.run([oomph, "explain", "--json", recording], stdout=subprocess.PIPE, text=True, env=dict(os.environ, XDG_STATE_HOME=directory)).stdout
            findings = json.loads(text)["findings"] if text else []
            found = [finding["cause"] for finding in findings]
            age = age_at(recording, killed[0]) if killed else None
            good = found[:1] == [cause] and done.returncode == -9 and age is not None and age <= 1
            rightly += good
            keep(results, {"suite": "together", "kind": kind, "found": found[:1], "age": age, "good": good})
            print(f"{'ok ' if good else 'BAD'} {kind}: {found} status {done.returncode}, last figure {age} s before")
    total = times * len(causes)
    print(f"{rightly} of {total} named rightly by the recording of an oomph that was killed too")
    return rightly == total


def keep(results, row):
    if results:
        with open(results, "a") as file:
            file.write(json.dumps(row) + "\n")


def age_of_last_figure(recording):
    """Seconds from the last reading to the kill's first mention."""
    with open(recording) as file:
        events = sorted((json.loads(line) for line in file), key=lambda event: event["at"])
    kills = [event["at"] for event in events if event["event"] == "host_kill"]
    if not kills:
        return None
    readings = [event["at"] for event in events if event["event"] == "host_memory" and event["at"] <= kills[0]]
    return (kills[0] - readings[-1]) / 1e6 if readings else None


def named(oomph, times, place, directory, causes, python=None, results=None):
    rightly = 0
    for kind, cause in causes.items():
        status = bare(place, kind, python)
        for _ in range(times):
            done, recording = run(oomph, place, kind, directory, python)
            text = subprocess.run([oomph, "explain", "--json", recording], stdout=subprocess.PIPE, text=True).stdout
            findings = json.loads(text)["findings"] if text else []
            found = [finding["cause"] for finding in findings]
            age = age_of_last_figure(recording)
            # A shell's way of telling a signal, where oomph ends by it.
            # Which process of a DataLoader the kernel takes, and so the status, is its choice.
            same = done.returncode == status or kind in LOADERS
            good = found[:1] == [cause] and same and age is not None and age <= 1
            rightly += good
            keep(results, {"suite": "named", "kind": kind, "found": found[:1], "age": age, "good": good})
            words = next((line for line in done.stderr.splitlines() if "out of memory" in line), "")
            print(f"{'ok ' if good else 'BAD'} {kind}: {found} status {done.returncode} (bare {status}), last figure {age} s before; {words}")
    total = times * len(causes)
    print(f"{rightly} of {total} named rightly")
    return rightly == total


def cost(oomph, directory, results, near, seconds=60):
    """What the thread that looks, and the others, take of a core with 64 workers; `near`: in a group with 93 % of its limit in use."""
    place = group(4 << 30) if near else None
    command = [oomph, "--no-nvml", "--on-oom=exit", "--record", f"{directory}/cost-{near}.jsonl"]
    command += [sys.executable, f"{HERE}/programs.py", "sleepers", str(seconds + 30)] + (["still"] if near else [])
    enter = (lambda: write(f"{place}/cgroup.procs", os.getpid())) if near else None
    front = subprocess.Popen(command, env=dict(os.environ, XDG_STATE_HOME=directory), preexec_fn=enter)

    def used():
        threads = {}
        for task in glob.glob(f"/proc/{front.pid}/task/*"):
            try:
                with open(f"{task}/comm") as name, open(f"{task}/schedstat") as stat:
                    name = name.read().strip()
                    threads[name] = threads.get(name, 0) + int(stat.read().split()[0]) / 1e9
            except OSError:
                pass
        return threads

    time.sleep(12)
    if near:
        tighten(place)
    time.sleep(3)
    before, whole, began = used(), of_process(front.pid), time.monotonic()
    time.sleep(seconds)
    after, took = used(), time.monotonic() - began
    whole = (of_process(front.pid) - whole) / took
    for name, spent in after.items():
        print(f"{name}: {100 * (spent - before.get(name, 0)) / took:.3f} % of a core")
    others = sum(spent - before.get(name, 0) for name, spent in after.items() if name != "host-memory") / took
    # Close looks have threads that end: they are in the process's sum alone, which counts in hundredths of a second.
    close = max(0.0, whole - others - (after["host-memory"] - before["host-memory"]) / took)
    print(f"{'near a limit' if near else 'far from one'}: all of the front {100 * whole:.3f} %, close looks about {100 * close:.3f} %")
    front.wait()
    if near:
        removed(place)
    share = (after["host-memory"] - before["host-memory"]) / took
    keep(results, {"suite": "cost", "near": near, "looks": share, "close": close, "front": whole})
    return share + close <= 0.001


def of_process(pid):
    """Seconds of a core that a process has used, threads that have ended too."""
    with open(f"/proc/{pid}/stat") as file:
        words = file.read().rsplit(") ", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def tighten(place):
    """Sets the group's limit so that 93 % of it are in use."""
    for usage, limit in [("memory.usage_in_bytes", "memory.limit_in_bytes"), ("memory.current", "memory.max")]:
        if os.path.exists(f"{place}/{usage}"):
            with open(f"{place}/{usage}") as file:
                write(f"{place}/{limit}", int(int(file.read()) / 0.93))


def parsed():
    parser = argparse.ArgumentParser()
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--together", action="store_true", help="oomph is killed as well")
    parser.add_argument("--results", help="a line of JSON for each goes here")
    parser.add_argument("--python", help="one with torch")
    parser.add_argument("--only", choices=[*CAUSES, *LOADERS], action="append")
    return parser.parse_args()


if __name__ == "__main__":
    given = parsed()
    oomph = os.path.abspath(given.oomph)
    with tempfile.TemporaryDirectory() as directory:
        if given.cost:
            shares = [cost(oomph, directory, given.results, near) for near in (False, True)]
            sys.exit(0 if all(shares) else 1)
        wanted = given.only or [*CAUSES, *(LOADERS if given.python else {})]
        fine = True
        for size, causes in [(LIMIT, CAUSES)] + [(limit << 20, {kind: cause}) for kind, (cause, limit, _) in LOADERS.items()]:
            causes = {kind: cause for kind, cause in causes.items() if kind in wanted}
            place = group(size) if causes else ""
            if place is None:
                print("no control group for memory can be made here: nothing was tested")
                sys.exit(2)
            if not place:
                continue
            try:
                held = together if given.together else named
                fine &= held(oomph, given.times, place, directory, causes, given.python, given.results)
            finally:
                removed(place)
        sys.exit(0 if fine else 1)
