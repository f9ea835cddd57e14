#!/usr/bin/env python3
"""Drives the built oomph on an NVIDIA machine with PyTorch. Needs tmux and no Rust.

    python3 tests/gpu/run.py --oomph target/release/oomph [--only NAME ...] [--keep DIR]

Each check runs real trainings under the real binary and holds what oomph recorded and showed against
what PyTorch and NVML said. The last line is `N passed, N failed`.
"""
import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from checks import HERE, MIB, PROGRAMS, ROOT, check, main, of, require  # noqa: E402


@check
def figures_agree_with_torch(place):
    """Allocated, reserved and peak to the byte at every step's end; NVML's used to 20 MiB."""
    out = place.directory / "torch.json"
    done, events = place.headless("python3", PROGRAMS / "exact.py", "--out", out)
    require(done.returncode == 0, done.stderr)
    truth = json.loads(out.read_text())
    steps = {step["count"]: step["after"] for step in of(events, "step") if not step.get("figures_of")}
    compared = 0
    for line in truth["steps"]:
        if line["step"] in steps:
            seen = steps[line["step"]]
            for name in ("allocated", "reserved", "peak"):
                require(
                    seen[name] == line[name],
                    f"step {line['step']}: {name} {seen[name]} for torch's {line[name]}",
                )
            compared += 1
    require(compared >= 20, f"only {compared} steps could be compared")
    used = truth["device_total"] - truth["device_free"]
    at_rest = [e["used"] + (e.get("driver_reserved") or 0) for e in of(events, "device") if e.get("used")]
    bare = [e["used"] for e in of(events, "device") if e.get("used")]
    near = min(abs(value - used) for value in at_rest + bare)
    require(near <= 20 * MIB, f"NVML used differs from CUDA's by {near / MIB:.1f} MiB")
    return f"{compared} steps to the byte; NVML within {near / MIB:.1f} MiB"


@check
def samples_lie_between_the_steps(place):
    """The live curve never leaves what torch says: no sample above torch's own peak."""
    out = place.directory / "torch.json"
    done, events = place.headless("python3", PROGRAMS / "exact.py", "--out", out)
    require(done.returncode == 0, done.stderr)
    truth = json.loads(out.read_text())
    peak = max(line["peak"] for line in truth["steps"])
    samples = of(events, "sample")
    require(len(samples) >= 20, f"only {len(samples)} samples")
    require(max(s["allocated"] for s in samples) <= peak, "a sample lies above torch's peak")
    require(max(s["allocated_peak"] for s in samples) == peak, "the peak is not torch's")
    return f"{len(samples)} samples, peak {peak / MIB:.0f} MiB on both sides"


def oom_and_relaunch(place, name, scenario, remedy_key, cause, steps=(), finish=240):
    """A real OOM on the screen, its cause, one remedy by key, a run that finishes."""
    terminal = place.terminal(
        name, "python3", str(ROOT / "demo" / "train.py"), "--real", "--batch-size", "64",
        "--grad-accum", "1", "--scenario", scenario, *steps,
    )
    try:
        began = time.monotonic()
        screen = terminal.wait_for("Space combine", 180, "the dialog")
        to_oom = time.monotonic() - began
        (place.directory / f"{name}.dialog.txt").write_text(terminal.screen())
        require(any(word in screen for word in cause), f"cause {cause} not on\n{screen}")
        terminal.press(remedy_key)
        terminal.wait_for("run 2", 90, "the second run")
        status = terminal.exit_status(finish)
        require(status == 0, f"exit {status}\n{terminal.screen()}")
    finally:
        terminal.close()
    events = place.events()
    require(len(of(events, "oom")) >= 1, "the observer saw nothing")
    require(len(of(events, "oom_text")) >= 1, "the text was not read")
    started = of(events, "started")
    require(len(started) == 2, f"{len(started)} runs")
    exits = of(events, "exited")
    gate = (started[1]["at"] - exits[0]["at"]) / 1e6
    return f"OOM after {to_oom:.0f} s; relaunched {gate:.1f} s after the end; finished"


@check
def capacity_is_mended_by_a_smaller_batch(place):
    return oom_and_relaunch(
        place, "capacity", "capacity", "b", ["does not fit"], ["--steps", "12"]
    )


@check
def fragmentation_is_mended_by_expandable_segments(place):
    return oom_and_relaunch(place, "fragmentation", "fragmentation", "e", ["ragment"])


@check
def a_leak_is_called_one(place):
    return cause_of(place, "leak", ["Memory leak"])


@check
def an_evaluation_with_a_graph_is_called_one(place):
    return cause_of(place, "eval", ["Evaluation runs with gradients enabled"])


def cause_of(place, scenario, words):
    done, events = place.headless(
        "python3", ROOT / "demo" / "train.py", "--real", "--batch-size", "64",
        "--scenario", scenario, "--steps", "400", seconds=300,
    )
    require(done.returncode == 1, f"exit {done.returncode}: {done.stderr[-2000:]}")
    said = done.stderr[done.stderr.find("oomph:"):]
    first = said.splitlines()[0]
    require(any(word in first for word in words), f"{words} not in\n{said}")
    return first


@check
def headless_passes_bytes_and_status(place):
    script = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    bare = subprocess.run(["python3", "-c", script], capture_output=True, check=False)
    wrapped = subprocess.run(
        [place.oomph, "--record", place.recording, "python3", "-c", script], capture_output=True,
        check=False, stdin=subprocess.DEVNULL,
    )
    require(wrapped.stdout == bare.stdout and wrapped.stderr == bare.stderr, "bytes differ")
    require(wrapped.returncode == 7, f"exit {wrapped.returncode}")
    killed = subprocess.run(
        [place.oomph, "--no-record", "sh", "-c", "kill -9 $$"], check=False, capture_output=True
    )
    require(killed.returncode == -9, f"killed: {killed.returncode}")
    for words, status in ((["no-such-program-here"], 127), ([str(HERE)], 126)):
        done = subprocess.run([place.oomph, *words], capture_output=True, check=False)
        require(done.returncode == status, f"{words}: {done.returncode}")
    return "7, SIGKILL, 127, 126; nothing added to the output"


@check
def torchrun_shows_two_ranks(place):
    done, events = place.headless(
        "torchrun", "--standalone", "--nproc_per_node", "2", PROGRAMS / "ranks.py"
    )
    require(done.returncode == 0, done.stderr[-2000:])
    hellos = of(events, "hello")
    ranks = sorted(hello["rank"] for hello in hellos)
    require(ranks == [0, 1], f"ranks {ranks}")
    require(all(hello["world_size"] == 2 for hello in hellos), "world size")
    steps = {hello["pid"]: 0 for hello in hellos}
    for step in of(events, "step"):
        steps[step["pid"]] = max(steps[step["pid"]], step["count"])
    require(all(count >= 20 for count in steps.values()), f"steps {steps}")
    return f"2 ranks, {sorted(steps.values())} steps, {len(hellos[0]['devices'])} devices"


@check
def one_rank_of_two_runs_out_and_both_go_on(place):
    if len(subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True).stdout.splitlines()) < 2:
        return "not run: it takes two GPUs"
    done, events = place.headless(
        "torchrun", "--standalone", "--nproc_per_node", "2", PROGRAMS / "uneven.py", "--batch-size", "16",
        options=["--on-oom", "auto", "--allow", "effective-batch"], seconds=240,
    )
    require(done.returncode == 0, done.stderr[-2000:])
    ranks = {hello["pid"]: hello["rank"] for hello in of(events, "hello")}
    failed = {ranks[oom["pid"]] for oom in of(events, "oom")}
    require(failed == {1}, f"ranks {failed} ran out")
    started = [event["command"]["argv"] for event in of(events, "started")]
    require(len(started) == 2, f"{len(started)} runs")
    batch = int(started[1][started[1].index("--batch-size") + 1])
    require(batch < 16, f"batch {batch}")
    said = [line for line in done.stderr.splitlines() if line.startswith("oomph:")]
    return f"rank 1 ran out at 16, both finished at {batch}; {said[:2]}"


@check
def accelerate_launch_is_seen(place):
    done, events = place.headless(
        "accelerate", "launch", "--num_processes", "1", "--mixed_precision", "no",
        "--num_machines", "1", "--dynamo_backend", "no", PROGRAMS / "accelerated.py",
    )
    require(done.returncode == 0, done.stderr[-2000:])
    require("done" in done.stdout, done.stdout)
    require(len(of(events, "hello")) == 1, f"{len(of(events, 'hello'))} processes said hello")
    # 2048 samples in batches of 64, twice; fast steps are thinned on the wire, their count is exact.
    counted = of(events, "step")[-1]["count"]
    require(counted == 64, f"{counted} steps of 64")
    return f"{counted} steps"


@check
def an_isolated_python_falls_back_to_nvml(place):
    """`python -I` ignores PYTHONPATH: no probe, NVML alone, and the screen says so."""
    out = place.directory / "torch.json"
    terminal = place.terminal(
        "isolated", "python3", "-I", str(PROGRAMS / "exact.py"), "--out", str(out), "--steps", "60"
    )
    try:
        terminal.wait_for(lambda s: "NVML" in s and "probe" in s, 60, "the states in the header")
        terminal.wait_for(
            lambda s: "no probe" in s or "probe waits" in s or "waiting" in s or "probe —" in s,
            60, "a word that the probe does not answer",
        )
        (place.directory / "isolated.screen.txt").write_text(terminal.screen())
        require(terminal.exit_status(120) == 0, "exit")
    finally:
        terminal.close()
    events = place.events()
    require(not of(events, "hello"), "a probe said hello")
    require(len(of(events, "device")) > 10, "no readings of the device")
    return f"{len(of(events, 'device'))} readings by NVML alone"


@check
def a_cap_is_called_a_limit(place):
    script = place.directory / "capped.py"
    script.write_text(
        "import torch\n"
        "torch.cuda.set_per_process_memory_fraction(0.05)\n"
        "kept = [torch.empty(256 << 20, dtype=torch.uint8, device='cuda') for _ in range(400)]\n"
    )
    done, events = place.headless("python3", script)
    require(done.returncode == 1, f"exit {done.returncode}")
    require("OutOfMemoryError" in done.stderr, "the program's own error is gone")
    said = done.stderr[done.stderr.find("oomph:"):]
    require("limit" in said or "cap" in said, said)
    return said.splitlines()[0]


@check
def a_caught_oom_is_no_end(place):
    script = place.directory / "caught.py"
    script.write_text(
        "import torch\n"
        "try:\n    torch.empty(1 << 50, dtype=torch.uint8, device='cuda')\n"
        "except torch.OutOfMemoryError as error:\n    print('caught', error)\n"
        "print('went on')\n"
    )
    done, events = place.headless("python3", script)
    require(done.returncode == 0 and "went on" in done.stdout, done.stderr)
    require("oomph:" not in done.stderr, f"oomph spoke of a run in which nothing happened:\n{done.stderr}")
    require(len(of(events, "oom")) == 1, "the observer saw nothing")
    return "seen, recorded, not spoken of"


if __name__ == "__main__":
    sys.exit(main(__doc__))
