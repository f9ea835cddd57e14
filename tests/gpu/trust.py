#!/usr/bin/env python3
"""What a long training trusts oomph with, on a real GPU: a killed screen, a sweep, a gate, a closed terminal.

    python3 tests/gpu/trust.py --oomph target/release/oomph [--only NAME ...] [--keep DIR]

Some six minutes, most of them the training whose terminal is closed (OOMPH_TRUST_SECONDS, 240). The last line is `N passed, N failed`.
"""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from bench import children  # noqa: E402
from checks import PROGRAMS, ROOT, check, main, of, require  # noqa: E402
from terminal import Terminal  # noqa: E402

DIALOG = "Space combine"
# How long the training goes whose terminal is closed after a quarter of it.
SECONDS = int(os.environ.get("OOMPH_TRUST_SECONDS", "240"))
CLOSED_AFTER, BARE_SECONDS = SECONDS // 4, SECONDS // 5
# Two windows of one bare training, bound by the device, differ by as much.
STEP_TIMES = 0.01


def wait_for(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds} s")


def processes_with(word):
    """The processes whose command line or environment has this word."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if word.encode() in text and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def on_devices():
    """The processes that NVML sees on any device."""
    asked = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    return [int(word) for word in subprocess.run(asked, capture_output=True, text=True).stdout.split()]


def own_state():
    """A place for the sessions of this check alone, so that `attach` and `stop` find one run."""
    # Short, for the sockets in it.
    directory = tempfile.mkdtemp(prefix="oomph-")
    return {"OOMPH_STATE_DIR": directory, "OOMPH_RUNTIME_DIR": directory}


@check
def a_killed_front_is_attached_to_again_and_relaunches(place):
    """`kill -9` of the front under a training; attach; its out-of-memory; one key; a run that finishes."""
    state = own_state()
    train = ["python3", str(ROOT / "demo" / "train.py"), "--real", "--batch-size", "64", "--steps", "12"]
    first = Terminal("killed", place.directory, [place.oomph, "--record", place.recording, *train], env=state)
    second = None
    try:
        wait_for(lambda: of(place.events(), "hello"), 120, "the probe's hello")
        front = children(first.process())[0]
        os.kill(front, signal.SIGKILL)
        killed = time.monotonic()
        second = Terminal("attached", place.directory, [place.oomph, "attach"], env=state)
        screen = second.wait_for(DIALOG, 180, "the dialog after attaching")
        require("does not fit" in screen, screen)
        (place.directory / "attached.dialog.txt").write_text(screen)
        second.press("b")
        second.wait_for("run 2", 90, "the second run")
        status = second.exit_status(240)
        require(status == 0, f"exit {status}\n{second.screen()}")
    finally:
        first.close()
        if second:
            second.close()
    events = place.events()
    require(len(of(events, "started")) == 2, f"{len(of(events, 'started'))} runs")
    require(len(of(events, "oom")) >= 1, "the observer saw nothing")
    return f"attached, mended and finished {time.monotonic() - killed:.0f} s after the kill"


@check
def ranks_and_workers_are_swept(place):
    """torchrun's ranks have sessions of their own, and each has DataLoader workers: one stop ends all."""
    state = own_state()
    environment = dict(os.environ, **state)
    before = set(on_devices())
    run = subprocess.Popen(
        [place.oomph, "--headless", "--record", place.recording, "torchrun", "--standalone",
         "--nproc_per_node", "2", PROGRAMS / "sharded.py"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=ROOT,
    )
    wait_for(lambda: len({step["pid"] for step in of(place.events(), "step")}) == 2, 120, "steps of two ranks")
    there = processes_with("sharded.py")
    # The agent, two ranks, two workers each, and oomph's two.
    require(len(there) >= 7, f"only {len(there)} processes")
    asked = time.monotonic()
    stopped = subprocess.run([place.oomph, "stop"], env=environment, capture_output=True, text=True, timeout=90)
    require(stopped.returncode == 0, stopped.stdout + stopped.stderr)
    run.wait(60)
    wait_for(lambda: not processes_with("sharded.py"), 30, "every process gone")
    gone = time.monotonic() - asked
    left = set(on_devices()) - before
    require(not left & set(there), f"still on the device: {left}")
    return f"{len(there)} processes gone {gone:.1f} s after the stop"


@check
def the_gate_waits_for_what_was_held(place):
    """A run that held nearly the whole card; the next begins when the card has it back."""
    terminal = place.terminal("gate", "python3", str(PROGRAMS / "holder.py"), "--batch-size", "130")
    try:
        terminal.wait_for(DIALOG, 180, "the dialog")
        pressed = time.monotonic()
        terminal.press("b")
        wait_for(lambda: len(of(place.events(), "started")) == 2, 60, "the second run")
        waited = time.monotonic() - pressed
        require(terminal.exit_status(120) == 0, terminal.screen())
    finally:
        terminal.close()
    events = place.events()
    held = max(sample["reserved"] for sample in of(events, "sample"))
    again = of(events, "started")[1]["at"]
    free = [event["free"] for event in of(events, "device") if event["at"] <= again and event.get("free")]
    require(len(of(events, "started")) == 2, f"{len(of(events, 'started'))} runs")
    return (
        f"{held / 2**30:.1f} GiB held; second run {waited * 1e3:.0f} ms after the key; "
        f"{free[-1] / 2**30:.1f} GiB free at the last reading before it"
    )


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


@check
def a_closed_terminal_changes_nothing(place):
    """Four minutes, the terminal closed after one: the same losses as bare, and the same step times."""
    state = own_state()
    bare_out, out = place.directory / "bare.jsonl", place.directory / "wrapped.jsonl"

    def command(path, seconds):
        return ["python3", str(PROGRAMS / "steady.py"), "--out", str(path), "--seconds", str(seconds), "--workers", "2"]

    terminal = Terminal(
        "closed", place.directory, [place.oomph, "--record", place.recording, *command(out, SECONDS)], env=state
    )
    try:
        wait_for(lambda: out.exists() and lines(out), 120, "the first step")
        # The time is what this check is about.
        time.sleep(CLOSED_AFTER)
        at_close = len(lines(out))
    finally:
        terminal.close()
    wait_for(lambda: of(place.events(), "exited"), SECONDS + 60, "the end of the training")
    subprocess.run(command(bare_out, BARE_SECONDS), stdout=subprocess.DEVNULL, check=True)
    wrapped, bare = lines(out), lines(bare_out)
    exit_codes = [event["exit"] for event in of(place.events(), "exited")]
    require(exit_codes == [{"code": 0}], f"exit {exit_codes}")
    common = min(len(wrapped), len(bare))
    different = [n for n in range(common) if wrapped[n]["loss"] != bare[n]["loss"]]
    require(not different, f"the losses differ from step {different[:1]} of {common}")
    require(len(wrapped) > at_close * 2, f"{len(wrapped)} steps, {at_close} when the terminal was closed")
    median = lambda part: statistics.median(line["ms"] for line in part)
    before, after, alone = median(wrapped[50:at_close]), median(wrapped[at_close:]), median(bare[50:])
    half = len(bare) // 2
    halves = median(bare[half:]) / median(bare[50:half])
    times = (
        f"step {before:.2f} ms with the screen, {after:.2f} after the close ({len(wrapped) - at_close} steps), "
        f"{alone:.2f} bare; after/bare {after / alone:.4f} (bare's halves {halves:.4f})"
    )
    require(abs(after / alone - 1) <= STEP_TIMES, times)
    return f"{common} losses the same; {times}"


if __name__ == "__main__":
    sys.exit(main(__doc__))
