#!/usr/bin/env python3
"""What oomph costs on this machine, without a GPU. Needs a release build, util-linux's `script`.

    python3 tests/bench/run.py --oomph target/release/oomph [--only NAME ...]

Every figure is a median with its range; a ratio is taken side by side, in turn, in one run.
"""
import argparse
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
import fcntl

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BENCHES = []


def bench(function):
    BENCHES.append(function)
    return function


def spread(values, unit, digits=2):
    return (
        f"{statistics.median(values):.{digits}f} {unit} "
        f"({min(values):.{digits}f}–{max(values):.{digits}f}, n={len(values)})"
    )


class Screen:
    """A pseudo-terminal that is always read, with what came through it and when."""

    def __init__(self, command, rows=45, columns=140, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            environment = dict(os.environ, TERM="xterm-256color", LANG="C.UTF-8", **(env or {}))
            environment.pop("CI", None)
            os.execvpe(command[0], command, environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.text = b""
        self.status = None

    def read(self, seconds):
        """Reads for at most `seconds`; False once the other side is gone."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            chunk = os.read(self.fd, 1 << 16)
        except OSError:
            return False
        self.text = (self.text + chunk)[-(1 << 20):]
        return bool(chunk)

    def wait_for(self, pattern, seconds):
        """The moment at which a text had come through."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            alive = self.read(0.05)
            if re.search(pattern, self.text):
                return time.monotonic()
            if not alive:
                break
        raise AssertionError(f"{pattern!r} not seen; last: {self.text[-2000:]!r}")

    def press(self, keys):
        os.write(self.fd, keys)

    def end(self):
        """Asks for an end, so that the training ends as well: it outlives a front that is killed."""
        os.kill(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + 30
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                raise AssertionError(f"process {self.pid} did not end when it was asked to")
            if not self.read(0.05):
                time.sleep(0.01)
        os.close(self.fd)


def first_instruction(prefix, script):
    """Seconds from the spawn to the moment that the program says was its first."""
    began = time.clock_gettime(time.CLOCK_MONOTONIC)
    out = subprocess.run([*prefix, *script], stdout=subprocess.PIPE, check=True).stdout
    return float(out) - began


@bench
def start_up(oomph):
    """From the spawn to the program's first instruction, in turn with the bare program."""
    with tempfile.TemporaryDirectory() as scratch:
        source = pathlib.Path(scratch) / "first.c"
        source.write_text(
            "#include <stdio.h>\n#include <time.h>\nint main(void){struct timespec t;"
            "clock_gettime(CLOCK_MONOTONIC,&t);printf(\"%ld.%09ld\\n\",t.tv_sec,t.tv_nsec);}\n"
        )
        program = pathlib.Path(scratch) / "first"
        subprocess.run(["cc", "-O1", "-o", program, source], check=True)
        bare, wrapped = [], []
        for _ in range(40):
            bare.append(first_instruction([], [program]) * 1e3)
            wrapped.append(first_instruction([oomph, "--headless", "--no-nvml"], [program]) * 1e3)
    more = statistics.median(wrapped) - statistics.median(bare)
    return f"bare {spread(bare, 'ms')}; oomph {spread(wrapped, 'ms')}; {more:.2f} ms more (≤ 10)"


def seconds_of(command, **options):
    began = time.monotonic()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, **options)
    return time.monotonic() - began


def through_a_terminal(command):
    """Seconds that a command takes whose terminal is read as fast as it can be."""
    began = time.monotonic()
    screen = Screen(command)
    # Nothing is kept: what the reader does with the bytes must not be what is measured.
    try:
        while os.read(screen.fd, 1 << 16):
            pass
    except OSError:
        pass  # how Linux says that the other side is gone
    _, status = os.waitpid(screen.pid, 0)
    os.close(screen.fd)
    assert os.waitstatus_to_exitcode(status) == 0, screen.text[-500:]
    return time.monotonic() - began


GIB = 1 << 30
YES = "yes '{}' | head -c {}".format("x" * 79, GIB)


@bench
def prediction(oomph):
    """What one more batch costs `plan --predict`, printed, by the difference of 5001 and 1."""
    demo = ["python3", ROOT / "demo" / "train.py", "--simulated", "--batch-size", "64", "--steps", "6"]
    with tempfile.TemporaryDirectory() as scratch:
        recording = pathlib.Path(scratch) / "events.jsonl"
        started = subprocess.run(
            [oomph, "--headless", "--no-nvml", "--record", recording, *demo], stdin=subprocess.DEVNULL, capture_output=True
        )
        if not recording.exists():
            raise RuntimeError(started.stderr.decode())
        ask = [oomph, "plan", "--recording", recording, "--predict"]
        asked = lambda batches: seconds_of([*ask, batches, "--", *demo], stdout=subprocess.DEVNULL)
        many = ",".join(map(str, range(1, 5002)))
        each = [
            (asked(many) - asked("1")) / 5000 * 1e6 for _ in range(9)
        ]
    return f"{spread(each, 'µs')} (≤ 1000)"


@bench
def relay_on_a_terminal(oomph):
    """1 GiB of short lines on a pty, headless, against `script -qc … /dev/null`."""
    ours, theirs = [], []
    for _ in range(3):
        theirs.append(through_a_terminal(["script", "-qc", YES, "/dev/null"]))
        ours.append(
            through_a_terminal([oomph, "--headless", "--no-nvml", "--no-record", "sh", "-c", YES])
        )
    ratio = [a / b for a, b in zip(ours, theirs)]
    return f"script {spread(theirs, 's')}; oomph {spread(ours, 's')}; ratio {spread(ratio, '×')} (≤ 1.2)"


@bench
def relay_behind_the_screen(oomph):
    """The same with the screen up: frames are drawn, the program is not slowed."""
    ours, theirs = [], []
    for _ in range(3):
        theirs.append(through_a_terminal(["script", "-qc", YES, "/dev/null"]))
        ours.append(through_a_terminal([oomph, "--no-nvml", "--no-record", "sh", "-c", YES]))
    ratio = [a / b for a, b in zip(ours, theirs)]
    return f"script {spread(theirs, 's')}; oomph {spread(ours, 's')}; ratio {spread(ratio, '×')} (≤ 1.3)"


@bench
def relay_through_a_pipe(oomph):
    """1 GiB through a pipe, headless, against the bare pipe."""
    ours, bare = [], []
    for _ in range(3):
        bare.append(seconds_of(["sh", "-c", f"{YES} | cat > /dev/null"]))
        line = f"'{oomph}' --headless --no-nvml --no-record sh -c \"{YES}\" | cat > /dev/null"
        ours.append(seconds_of(["sh", "-c", line]))
    ratio = [a / b for a, b in zip(ours, bare)]
    return f"bare {spread(bare, 's')}; oomph {spread(ours, 's')}; ratio {spread(ratio, '×')} (≤ 2)"


@bench
def keeper_at_rest(oomph):
    """The keeper's processor time and wake-ups over ten seconds in which the program says nothing."""
    program = [oomph, "--headless", "--no-nvml", "--no-record", "sleep", "60"]
    child = subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        time.sleep(2)
        keeper = children(child.pid)[0]

        def woken():
            text = pathlib.Path(f"/proc/{keeper}/status").read_text()
            return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)[1])

        before = ticks(keeper), woken()
        time.sleep(10)
        spent, wakeups = ticks(keeper) - before[0], woken() - before[1]
        return f"{spent} ticks (0), {wakeups} wake-ups (0), {resident(keeper):.1f} MB (≤ 6)"
    finally:
        child.terminate()
        child.wait()
        child.stdout.close()


DIES = """
import sys, time
print('CUDA out of memory is not what ended this; wait', flush=True)
time.sleep(0.3)
print('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total '
      'capacity of 23.60 GiB of which 1.20 GiB is free. Including non-PyTorch memory, this process '
      'has 22.40 GiB memory in use. Of the allocated memory 21.50 GiB is allocated by PyTorch, and '
      '310.00 MiB is reserved by PyTorch but unallocated.', file=sys.stderr, flush=True)
open(sys.argv[1], 'w').write(repr(time.clock_gettime(time.CLOCK_MONOTONIC)))
import os
os._exit(1)
"""


@bench
def dialog_after_death(oomph):
    """From a dead child's last byte to the dialog on the screen."""
    taken = []
    with tempfile.TemporaryDirectory() as scratch:
        mark = pathlib.Path(scratch) / "mark"
        for _ in range(10):
            screen = Screen(
                [oomph, "--no-nvml", "--no-record", sys.executable, "-c", DIES, str(mark)]
            )
            seen = screen.wait_for(rb"details", 20)
            taken.append((seen - float(mark.read_text())) * 1e3)
            screen.end()
    return f"{spread(taken, 'ms', 0)} (≤ 100)"


def ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def children(pid):
    return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@bench
def watching(oomph):
    """Front and keeper while a simulated training goes on at 10 Hz with the screen up."""
    screen = Screen(
        [oomph, "--no-record", "--no-nvml", sys.executable, str(ROOT / "demo" / "train.py"),
         "--simulated", "--scenario", "none", "--steps", "100000", "--batch-size", "32"]
    )
    try:
        screen.wait_for(rb"step", 60)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            screen.read(0.1)
        front, keeper = screen.pid, children(screen.pid)[0]
        began, spent = time.monotonic(), {pid: ticks(pid) for pid in (front, keeper)}
        until = began + 60
        while time.monotonic() < until:
            screen.read(0.1)
        elapsed, hertz = time.monotonic() - began, os.sysconf("SC_CLK_TCK")
        percent = {pid: (ticks(pid) - spent[pid]) / hertz / elapsed * 100 for pid in spent}
        return (
            f"front {percent[front]:.2f} % of a core (≤ 1), {resident(front):.1f} MB (≤ 25); "
            f"keeper {percent[keeper]:.2f} %, {resident(keeper):.1f} MB (≤ 6)"
        )
    finally:
        screen.end()


LINES = """
import sys, time
# So many lines twenty times a second, and trainings beside.
import os, signal, subprocess
demo, ranks, lines = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
started = []
def end(*_):
    for one in started:
        one.terminate()
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
for rank in range(ranks):
    env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
    started.append(subprocess.Popen(
        [sys.executable, demo, "--simulated", "--scenario", "none", "--steps", "1000000",
         "--batch-size", "32"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
due = time.monotonic()
n = 0
while True:
    for _ in range(lines):
        n += 1
        sys.stdout.write(f"step {n} loss 2.{n % 1000:03d} lr 3.0e-04 tokens 131072\\n")
    sys.stdout.flush()
    due += 0.05
    time.sleep(max(0.0, due - time.monotonic()))
"""


def cost_beside_a_flow(oomph, ranks, headless, seconds=60):
    """Percent of a core and MB of front and keeper together, while 1,000 lines a second flow."""
    with tempfile.TemporaryDirectory() as scratch:
        program = pathlib.Path(scratch) / "lines.py"
        program.write_text(LINES)
        options = ["--headless"] if headless else []
        command = [oomph, "--no-record", "--no-nvml", *options, sys.executable, str(program),
                   str(ROOT / "demo" / "train.py"), str(ranks), "50"]
        screen = Screen(command, rows=60, columns=200)
        try:
            screen.wait_for(rb"loss", 60)
            until = time.monotonic() + 15
            while time.monotonic() < until:
                screen.read(0.1)
            pids = [screen.pid, children(screen.pid)[0]]
            began, spent = time.monotonic(), sum(ticks(pid) for pid in pids)
            until = began + seconds
            while time.monotonic() < until:
                screen.read(0.1)
            elapsed, hertz = time.monotonic() - began, os.sysconf("SC_CLK_TCK")
            percent = (sum(ticks(pid) for pid in pids) - spent) / hertz / elapsed * 100
            return percent, resident(pids[0])
        finally:
            screen.end()


@bench
def screen_beside_a_flow(oomph):
    """The screen at 200x60 with 1 rank and with 8, beyond the relay of the same output alone."""
    said = []
    for ranks, bound in ((1, 0.3), (8, 1.0)):
        with_screen, megabytes = cost_beside_a_flow(oomph, ranks, headless=False)
        relay, _ = cost_beside_a_flow(oomph, ranks, headless=True)
        said.append(
            f"{ranks} rank(s): {with_screen:.2f} % of a core, the relay alone {relay:.2f} %, so "
            f"{with_screen - relay:.2f} % (≤ {bound}); {megabytes:.1f} MB (≤ 20)"
        )
    return "; ".join(said)


def computed(pid):
    """Seconds of processor time of a process's threads; the clock's ticks are too coarse for shares of a percent."""
    spent = 0
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        spent += int((thread / "schedstat").read_text().split()[0])
    return spent / 1e9


@bench
def screen_beside_lines(oomph):
    """Front and keeper apart at 200x60 beside 20 lines a second and one simulated training, in parts of ten seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        program = pathlib.Path(scratch) / "lines.py"
        program.write_text(LINES)
        command = [oomph, "--no-record", "--no-nvml", sys.executable, str(program), str(ROOT / "demo" / "train.py"), "1", "1"]
        screen = Screen(command, rows=60, columns=200)

        def watch(seconds):
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                screen.read(0.1)

        try:
            screen.wait_for(rb"loss", 60)
            watch(15)
            pids = {"front": screen.pid, "keeper": children(screen.pid)[0]}
            shares = {name: [] for name in pids}
            for _ in range(6):
                began, before = time.monotonic(), {name: computed(pid) for name, pid in pids.items()}
                watch(10)
                elapsed = time.monotonic() - began
                for name, pid in pids.items():
                    shares[name].append((computed(pid) - before[name]) / elapsed * 100)
            held = {name: resident(pid) for name, pid in pids.items()}
        finally:
            screen.end()
    return "; ".join(
        f"{name} {spread(shares[name], '% of a core')}{bound}, {held[name]:.1f} MB{megabytes}"
        for name, bound, megabytes in (("front", " (≤ 0.3)", " (≤ 20)"), ("keeper", "", " (≤ 6)"))
    )


FLOOD = "import os\nblock = (b'x' * 79 + b'\\n') * 800\nwhile True: os.write(1, block)\n"


@bench
def key_to_screen_in_a_flood(oomph):
    """From a key to its help on the screen while output floods."""
    with tempfile.TemporaryDirectory() as scratch:
        program = pathlib.Path(scratch) / "flood.py"
        program.write_text(FLOOD)
        screen = Screen([oomph, "--no-nvml", "--no-record", sys.executable, str(program)])
        taken = []
        try:
            screen.wait_for(rb"xxxx", 20)
            for _ in range(30):
                screen.text = b""
                pressed = time.monotonic()
                screen.press(b"?")
                taken.append((screen.wait_for(rb" keys ", 20) - pressed) * 1e3)
                screen.press(b"q")
                until = time.monotonic() + 0.3
                while time.monotonic() < until:
                    screen.read(0.05)
        finally:
            screen.end()
        return f"{spread(taken, 'ms', 0)} (≤ 50)"


@bench
def screen_without_end(oomph):
    """Resident memory on a terminal of 1000x1000 that is written full."""
    with tempfile.TemporaryDirectory() as scratch:
        program = pathlib.Path(scratch) / "flood.py"
        program.write_text(FLOOD)
        command = [oomph, "--no-nvml", "--no-record", sys.executable, str(program)]
        screen = Screen(command, rows=1000, columns=1000)
        try:
            most, until = 0.0, time.monotonic() + 20
            while time.monotonic() < until:
                screen.read(0.05)
                most = max(most, resident(screen.pid))
        finally:
            screen.end()
        return f"{most:.1f} MB at the most (≤ 20)"


@bench
def screen_of_others(oomph):
    """nvtop and nvitop on a terminal of the same size, where they are installed and NVML is."""
    said = []
    for name in ("nvtop", "nvitop"):
        if not shutil.which(name):
            said.append(f"{name} is not installed")
            continue
        screen = Screen([name], rows=60, columns=200)
        try:
            until = time.monotonic() + 15
            while time.monotonic() < until and screen.read(0.1):
                pass
            began, spent = time.monotonic(), ticks(screen.pid)
            until = began + 60
            alive = True
            while alive and time.monotonic() < until:
                alive = screen.read(0.1)
            if not alive:
                said.append(f"{name} has ended")
                continue
            percent = (ticks(screen.pid) - spent) / os.sysconf("SC_CLK_TCK") / 60 * 100
            said.append(f"{name} {percent:.2f} % of a core, {resident(screen.pid):.1f} MB")
        finally:
            screen.end()
    return "; ".join(said)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oomph", default=str(ROOT / "target" / "release" / "oomph"))
    parser.add_argument("--only", nargs="*", default=[])
    args = parser.parse_args()
    oomph = str(pathlib.Path(args.oomph).resolve())
    for function in BENCHES:
        if not args.only or any(word in function.__name__ for word in args.only):
            print(f"{function.__name__}: {function(oomph)}", flush=True)


if __name__ == "__main__":
    main()
