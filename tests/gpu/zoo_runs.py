"""One program of the zoo on a GPU: what it needs as it is, and what oomph makes of it where it may have only a part of that.

The program is not changed, nor its batch: it runs once for its peak, then with `per_process_memory_fraction` so that this peak is
1.5 and 4 times what it may have. A constant or a default is too large that way as well as a typed argument.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import zoo_data

TIMES = (1.5, 4.0)
# Below this what libraries take for themselves is more than a fourth, which no smaller batch changes.
LEAST_FOR_A_FOURTH = 3 << 30
STEPS_BARE = 8
STEPS_AFTER = 10
ALLOWED = "amp,recompute,offload,optimizer,effective-batch,restart"
SECONDS = 75
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
FRAME = re.compile(r'^  File "(.*)", line (\d+), in (.*)$', re.MULTILINE)


@dataclass
class Place:
    """Where programs, data and recordings lie on this machine, and how long one run may take."""

    oomph: Path
    work: Path
    carried: Path
    seconds: float = SECONDS

    def of(self, program):
        return self.work / program.name


@dataclass
class Process:
    """A process of the training, as its probe told of it."""

    run: int
    steps: int = 0
    peak: int = 0
    reserved: int = 0


@dataclass
class Seen:
    """What a recording says so far."""

    started: list = field(default_factory=list)
    processes: dict = field(default_factory=dict)
    ooms: list = field(default_factory=list)
    rehearsals: list = field(default_factory=list)
    given: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    exits: dict = field(default_factory=dict)
    # Runs that memory ran out of for good: cuDNN's trials run out and go on.
    uncaught: set = field(default_factory=set)
    total: int = 0
    errors: int = 0

    def take(self, event):
        kind = event.get("event")
        process = self.processes.get(event.get("pid"))
        if kind == "started":
            self.started.append(event)
        elif kind == "hello":
            self.processes[event["pid"]] = Process(run=len(self.started))
            self.total = max([self.total, *(device["total"] for device in event["devices"])])
        elif kind == "step" and process is not None and not event.get("figures_of"):
            process.steps = max(process.steps, event["count"])
            process.peak = max(process.peak, event["after"]["peak"])
            process.reserved = max(process.reserved, event["after"]["reserved"])
        elif kind == "sample" and process is not None:
            process.peak = max(process.peak, event["allocated_peak"])
            process.reserved = max(process.reserved, event["reserved_peak"])
        elif kind == "oom":
            self.ooms.append({"run": len(self.started), "at": event["at"], "phase": event.get("phase")})
        elif kind == "rehearsal":
            self.rehearsals.append({"run": len(self.started), **event})
        elif kind in ("called", "knobs"):
            self.given.setdefault(len(self.started), [part.get("shape") for part in event.get("given", [])])
        elif kind == "note":
            self.notes.append(event["text"])
        elif kind == "uncaught_oom":
            self.uncaught.add(len(self.started))
        elif kind == "exited":
            self.exits[event["run"]] = {"at": event["at"], **event["exit"]}
        elif kind == "probe_errors":
            self.errors += 1

    def of_run(self, number):
        return [process for process in self.processes.values() if process.run == number]

    def steps(self, number):
        return max((process.steps for process in self.of_run(number)), default=0)

    def peak(self, number):
        return max((process.peak for process in self.of_run(number)), default=0)

    def reserved(self, number):
        return max((process.reserved for process in self.of_run(number)), default=0)

    def failed(self, number):
        return number in self.uncaught


def prepared(place, program):
    """A copy of the program with its data, made once."""
    home = place.of(program)
    source = home / "a" / "b" / "src"
    if not source.exists():
        shutil.copytree(program.directory, source)
    for what in program.data or ():
        zoo_data.make(what, source / program.cwd, place.work / "data", place.carried)
    zoo_data.stub(program.stubs, home / "stubs")
    shim = place.work / "bin" / "stty"
    if not shim.exists():
        shim.parent.mkdir(parents=True, exist_ok=True)
        shim.write_text(zoo_data.STTY)
        shim.chmod(0o755)
    return source / program.cwd


def surroundings(place, program, name, cap):
    # Older programs load what an earlier run of theirs has kept as torch did by then.
    environment = dict(os.environ, PYTHONUNBUFFERED="1", TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1")
    # Its own state: what another run has measured of the same command would be used.
    environment["OOMPH_STATE_DIR"] = str(place.of(program) / f"state-{name}")
    environment["OOMPH_RUNTIME_DIR"] = str(place.of(program) / "run")
    environment["PATH"] = f"{place.work / 'bin'}:{environment['PATH']}"
    source = place.of(program) / "a" / "b" / "src"
    paths = [place.of(program) / "stubs", *(source / part for part in program.path), os.environ.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(str(path) for path in paths if path)
    if cap is not None:
        environment["PYTORCH_ALLOC_CONF"] = f"per_process_memory_fraction:{cap:.8f}"
    return environment


def end(process, seen):
    """Ends a training that has shown what was asked: as a user would, then without asking."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        for started in seen.started:
            try:
                os.killpg(started["pid"], signal.SIGKILL)
            except OSError:
                pass
        process.kill()
        process.wait()


def watched(place, program, name, options, cap, is_enough, words=None):
    """Runs the program, or `words` of it, behind oomph until it has shown enough, has ended, or its time is over."""
    directory = prepared(place, program)
    recording = place.of(program) / f"{name}.jsonl"
    recording.unlink(missing_ok=True)
    environment = surroundings(place, program, name, cap)
    if program.before:
        before = ["bash", "-c", program.before]
        subprocess.run(before, cwd=directory, env=environment, check=True, capture_output=True, timeout=place.seconds)
    output = place.of(program) / f"{name}.out"
    words = [
        str(place.oomph),
        "--headless",
        "--record",
        str(recording),
        *options,
        *(words or words_of(program)),
    ]
    seen = Seen()
    began = time.monotonic()
    with output.open("wb") as written:
        process = subprocess.Popen(
            words,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        offset = 0
        outcome = "ended"
        while True:
            is_over = process.poll() is not None
            if recording.exists():
                with recording.open("rb") as file:
                    file.seek(offset)
                    for line in file:
                        if not line.endswith(b"\n"):
                            break
                        offset += len(line)
                        seen.take(json.loads(line))
            if is_over:
                break
            if is_enough(seen):
                outcome = "enough"
            elif time.monotonic() - began > place.seconds:
                outcome = "too slow"
            if outcome != "ended":
                end(process, seen)
                break
            time.sleep(0.2)
    return seen, outcome, output.read_bytes()[-3000:].decode(errors="replace")


def words_of(program):
    return shlex.split(program.runs or program.command)


def last_words(output, is_first):
    """The frames of the first or last traceback that ends with an OOM, and that line's beginning: what a user would see of it."""
    found = []
    for part in output.replace("\r", "\n").split("Traceback (most recent call last):\n")[1:]:
        frames = FRAME.findall(part)
        ends = re.search(r"^(?:torch\.(?:cuda\.)?)?OutOfMemoryError: (CUDA out of memory)", part, re.MULTILINE)
        if ends:
            # Some packages put an address into the name of a file that they make.
            found.append([ADDRESS.sub("", " ".join(frame)) for frame in frames] + [ends[1]])
    return (found[0] if is_first else found[-1]) if found else None


def without_oomph(place, program, times, cap):
    """The same failure with nothing in front of it: its exit status, its traceback, and how long its end takes from there on."""
    directory = prepared(place, program)
    environment = surroundings(place, program, f"alone-{times}", cap)
    output = place.of(program) / f"alone-{times}.out"
    words = words_of(program)
    while words and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = f"{value}:{environment[name]}" if name == "PYTHONPATH" else value
    with output.open("wb") as written:
        process = subprocess.Popen(
            words, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
            start_new_session=True,
        )
        said_at = None
        began = time.monotonic()
        while process.poll() is None and time.monotonic() - began < place.seconds:
            if said_at is None and b"OutOfMemoryError" in output.read_bytes():
                said_at = time.monotonic()
            time.sleep(0.02)
        status = process.poll()
        to_exit = time.monotonic() - said_at if said_at is not None and status is not None else None
        if status is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    said = output.read_bytes().decode(errors="replace")
    return {"status": status, "traceback": last_words(said, is_first=False), "to_exit": to_exit}


def bare(place, program):
    """What it needs as it is."""
    seen, outcome, tail = watched(place, program, "bare", [], None, lambda seen: seen.steps(1) >= STEPS_BARE)
    line = {
        "outcome": outcome,
        "steps": seen.steps(1),
        "peak": seen.peak(1),
        "reserved": seen.reserved(1),
        "total": seen.total,
    }
    line["given"] = seen.given.get(1)
    line["errors"] = seen.errors
    if line["steps"] < STEPS_BARE:
        line["tail"] = tail[-1500:]
    return line


def relaunched(place, program, times, need, total):
    """What one unasked relaunch makes of it where it may have a part of what it needs: the remedy that Enter would
    take, so everything is allowed that a person is offered."""
    options = ["--on-oom", "auto", "--allow", ALLOWED, "--max-relaunches", "1"]
    cap = need / times / total
    seen, outcome, tail = watched(
        place,
        program,
        f"relaunch-{times}",
        options,
        cap,
        lambda seen: len(seen.started) > 1 and (seen.steps(2) >= STEPS_AFTER or seen.failed(2)),
    )
    line = {"outcome": outcome, "cap": round(need / times), "ooms": seen.ooms[:4], "runs": len(seen.started)}
    line["ran_out"] = seen.failed(1)
    line["first_exit"] = {name: value for name, value in (seen.exits.get(1) or {}).items() if name != "at"}
    line["traceback"] = last_words((place.of(program) / f"relaunch-{times}.out").read_text(errors="replace"), True)
    line.update(errors=seen.errors, given=[seen.given.get(1), seen.given.get(2)])
    line["notes"] = [note[:700] for note in seen.notes][:6]
    of_first = [oom for oom in seen.ooms if oom["run"] == 1]
    if seen.exits.get(1) and of_first:
        line["to_exit"] = (seen.exits[1]["at"] - of_first[-1]["at"]) / 1e6
    for rehearsal in seen.rehearsals[:1]:
        line["rehearsed"] = [
            (variant.get("checkpointing"), variant.get("amp"), variant.get("why_not"))
            for variant in rehearsal.get("variants", [])
        ]
        line.update(micros=rehearsal.get("micros"), why_not=rehearsal.get("why_not"))
    if len(seen.started) > 1:
        second = seen.started[1]
        line.update(command=second["command"], remedies=second.get("remedies"), prediction=second.get("prediction"))
        line.update(steps=seen.steps(2), failed=seen.failed(2), peak=seen.peak(2), reserved=seen.reserved(2))
        line["exit"] = seen.exits.get(2)
    if line.get("steps", 0) < STEPS_AFTER:
        line["tail"] = tail[-1200:]
    return line


def fitted(place, program, need, total):
    """What `oomph fit` finds where the program may have 1/1.5 of what it needs."""
    directory = prepared(place, program)
    environment = surroundings(place, program, "fit", need / TIMES[0] / total)
    recording = place.of(program) / "fit.jsonl"
    words = [place.oomph, "fit", "--json", "--yes", "--margin", "0", "--record", recording, "--", *words_of(program)]
    with (place.of(program) / "fit.out").open("wb") as written:
        process = subprocess.Popen(
            list(map(str, words)), cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=written, start_new_session=True,
        )
        try:
            said = process.communicate(timeout=3 * place.seconds)[0]
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            process.communicate()
            return {"batch": None, "why": "too slow"}
    if process.returncode:
        tail = (place.of(program) / "fit.out").read_bytes()[-600:].decode(errors="replace")
        return {"batch": None, "why": tail}
    found = json.loads(said)
    runs = [(run["batch"], run["fits"], run.get("peak")) for run in found["runs"]]
    return {
        "batch": found["batch"],
        "argv": found["argv"],
        "in_file": found.get("in_file"),
        "proven": found["proven"],
        "tried": runs,
    }


def holds(place, program, found, batch, need, total):
    """Whether the program takes ten steps at a batch, put where `oomph fit` puts its own; None where that is not known."""
    own = re.compile(rf"(?<![\w.]){found['batch']}(?![\w.])")
    if found.get("in_file"):
        file = place.of(program) / "a" / "b" / "src" / program.cwd / found["in_file"]["file"]
        write_setting(file, found["in_file"]["line"], batch)
    asked = words_of(program)
    words = [word if word in asked else own.sub(str(batch), word) for word in found["argv"]]
    seen, outcome, _ = watched(
        place, program, f"at-{batch}", [], need / TIMES[0] / total,
        lambda seen: seen.steps(1) >= STEPS_AFTER or seen.failed(1), words,
    )
    return True if seen.steps(1) >= STEPS_AFTER else False if seen.failed(1) else None


def write_setting(file, line, batch):
    """Puts a batch where the program's own copy of its config file has one."""
    lines = file.read_text().splitlines(keepends=True)
    lines[line - 1] = re.sub(r"\d+(?!.*\d)", str(batch), lines[line - 1].split("#")[0].split("//")[0].rstrip() + "\n")
    file.write_text("".join(lines))


def above(batch):
    """The next batch that would show that a found one is too small: 98 % of the largest, or one less below 50."""
    return batch + 2 if batch < 50 else -(-batch * 100 // 98) + 1


def measure_fit(place, program, results, may_begin):
    """What `fit` finds, whether that lasts, and whether more would."""
    try:
        if not may_begin() or results.has(name=program.name, what="fit"):
            return
        if not results.has(name=program.name, what="bare"):
            results.add(name=program.name, what="bare", **bare(place, program))
        truth = results.find(name=program.name, what="bare")
        if truth["steps"] < STEPS_BARE or not may_begin():
            return
        need, total = truth["peak"], truth["total"]
        found = fitted(place, program, need, total)
        if found["batch"]:
            found["lasts"] = holds(place, program, found, found["batch"], need, total)
            found["above"] = above(found["batch"])
            found["more_lasts"] = holds(place, program, found, found["above"], need, total)
        results.keep(place.of(program) / "fit.jsonl", f"{program.name}-fit")
        results.add(name=program.name, what="fit", cap=round(need / TIMES[0]), **found)
    except Exception as error:  # one program's trouble is not the others'
        print(program.name, repr(error)[:400], file=sys.stderr, flush=True)


def measure(place, program, results, may_begin):
    """All runs of a program that the results do not have, as long as one may begin."""
    try:
        if not may_begin():
            return
        if not results.has(name=program.name, what="bare"):
            results.add(name=program.name, what="bare", **bare(place, program))
        truth = results.find(name=program.name, what="bare")
        if truth["steps"] < STEPS_BARE:
            return
        for times in TIMES if truth["peak"] >= LEAST_FOR_A_FOURTH else TIMES[:1]:
            if may_begin() and not results.has(name=program.name, what="relaunch", times=times):
                line = relaunched(place, program, times, truth["peak"], truth["total"])
                results.keep(place.of(program) / f"relaunch-{times}.jsonl", f"{program.name}-{times}")
                results.add(name=program.name, what="relaunch", times=times, **line)
                if line["ran_out"] and may_begin() and not results.has(name=program.name, what="alone", times=times):
                    cap = truth["peak"] / times / truth["total"]
                    alone = without_oomph(place, program, times, cap)
                    results.add(name=program.name, what="alone", times=times, **alone)
    except Exception as error:  # one program's trouble is not the others'
        print(program.name, repr(error)[:400], file=sys.stderr, flush=True)
