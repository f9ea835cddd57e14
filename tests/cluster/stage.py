"""What the scenarios need: jobs of a training behind oomph, and what became of them."""
import json
import os
import pathlib
import re
import shlex
import subprocess

from slurm import until

HERE = pathlib.Path(__file__).resolve().parent
TRAIN = HERE / "train.py"
# Enough of the simulated GPU for the larger batches of one rank to run out of memory, and for no other.
TOO_LARGE, FITS = "40", "20"


class Stage:
    """One scenario's directory on the shared file system, and its jobs."""

    def __init__(self, cluster, oomph, name, port):
        self.cluster = cluster
        self.oomph = pathlib.Path(oomph).resolve()
        self.place = cluster.shared / name
        self.place.mkdir()
        self.state = self.place / "state"
        self.port = port

    def variables(self, spool=None):
        return {
            "OOMPH_STATE_DIR": self.state,
            "OOMPH_SPOOL": spool or self.place / "spool",
            "OOMPH_SIMULATED_SPEED": "4",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def training(self, name, *options, batch=TOO_LARGE, srun=("--label",)):
        """srun and the training, with a directory of its own for its ranks' logs."""
        log = self.place / name
        log.mkdir()
        self.port += 1
        words = ["srun", *srun, "python3", TRAIN, "--batch-size", batch, "--steps-log", log]
        words += ["--last-words", log / "signals", "--port", self.port, *options]
        return [str(word) for word in words]

    def batch(self, name, oomph_options, training, options=(), spool=None, beside=None):
        """Submits a batch script; with None for oomph's options the same without oomph. `beside` is a command
        that runs at the same time in the same allocation."""
        words = [] if oomph_options is None else [self.oomph, "--headless", "--no-nvml", *oomph_options, "--"]
        exports = ["export %s=%s" % (key, shlex.quote(str(value))) for key, value in self.variables(spool).items()]
        command = " ".join(shlex.quote(str(word)) for word in [*words, *training])
        begin, end = ([beside + " &"], ["kill %1"]) if beside else ([], [])
        script = "\n".join(["#!/bin/bash", *exports, *begin, command, 'echo "status $?"', *end, ""])
        output = ["-o", self.output(name), "-D", self.place, "--open-mode=append", "-N2", "-n2"]
        return self.cluster.submit(script, *map(str, output), *options)

    def output(self, name):
        return self.place / (name + ".out")

    def said(self, name):
        try:
            return self.output(name).read_text()
        except FileNotFoundError:
            return ""

    def await_words(self, name, words, seconds=90.0):
        return until("%s says %r" % (name, words), lambda: words in self.said(name), seconds)

    def status(self, name):
        """What the command ended with, as the batch script saw it."""
        found = re.findall(r"^status (\d+)$", self.said(name), re.M)
        return [int(status) for status in found]

    def attempts(self, name):
        """Each attempt of each rank: (rank, first time, last time, steps)."""
        found = []
        for path in sorted((self.place / name).glob("rank-*")):
            rank = int(path.name.split("-")[1])
            for line in path.read_text().splitlines():
                step, time = line.split()[:2]
                if int(step) == 1:
                    found.append([rank, float(time), float(time), 0])
                found[-1][2:] = [float(time), int(step)]
        return found

    def signals(self, name):
        """The signals that each rank got."""
        return {path.name: path.read_text().split() for path in sorted((self.place / name).glob("signals.*"))}

    def recordings(self):
        return sorted(self.state.rglob("events.jsonl"))

    def events(self, recording):
        return [json.loads(line) for line in recording.read_text().splitlines() if line.endswith("}")]

    def only_events(self):
        (recording,) = self.recordings()
        return self.events(recording)

    def ask_oomph(self, *words):
        environment = dict(self.cluster.environment, **{key: str(value) for key, value in self.variables().items()})
        done = subprocess.run([self.oomph, *words], env=environment, capture_output=True, text=True)
        return done.stdout + done.stderr


def of_kind(events, kind):
    return [event for event in events if event["event"] == kind]


def notes(events):
    return [event["text"] for event in of_kind(events, "note")]


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(word) for word in what))


def check_one_after_the_other(attempts, world=2):
    """No rank of an attempt made a step before every rank of the one before had made its last."""
    by_rank = {}
    for rank, first, last, _ in attempts:
        by_rank.setdefault(rank, []).append((first, last))
    check(len(by_rank) == world, "ranks that made steps:", sorted(by_rank))
    rounds = max(map(len, by_rank.values()))
    for before in range(rounds - 1):
        ended = max(times[before][1] for times in by_rank.values() if len(times) > before)
        begun = min(times[before + 1][0] for times in by_rank.values() if len(times) > before + 1)
        check(ended < begun, "two trainings at once:", attempts)
    return rounds


class Terminal:
    """A terminal of tmux, in a mount namespace of its own as a login node has."""

    def __init__(self, stage, name, command):
        self.socket = "oomph-cluster-%s" % name
        environment = dict(stage.cluster.environment, **{key: str(value) for key, value in stage.variables().items()})
        environment.pop("TMUX", None)
        environment["TERM"] = "xterm-256color"
        words = ["tmux", "-L", self.socket, "-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40"]
        private = "mount --make-rprivate / && mount -t tmpfs tmpfs /run && exec "
        inside = private + " ".join(shlex.quote(str(word)) for word in command)
        subprocess.run([*words, "unshare", "--mount", "sh", "-c", inside], env=environment, cwd=stage.place, check=True)

    def tmux(self, *words):
        return subprocess.run(["tmux", "-L", self.socket, *words], capture_output=True, text=True)

    def screen(self):
        return self.tmux("capture-pane", "-p").stdout

    def await_text(self, text, seconds=90.0):
        try:
            until("the screen shows %r" % text, lambda: text in self.screen(), seconds)
        except TimeoutError as error:
            raise TimeoutError("%s\n%s" % (error, self.screen()))

    def press(self, key):
        self.tmux("send-keys", key)

    def await_end(self, seconds=120.0):
        until("the terminal's command has ended", lambda: self.tmux("has-session").returncode != 0, seconds)

    def close(self):
        self.tmux("kill-server")
