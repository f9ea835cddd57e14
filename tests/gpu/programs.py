#!/usr/bin/env python3
"""Programs of frameworks that this project did not write: out of memory at the batch that is given, one
key, a run that finishes.

    python3 tests/gpu/programs.py --oomph target/release/oomph [--results FILE] [--only NAME ...]

Needs an NVIDIA GPU that nobody else uses, PyTorch with transformers, lightning (and what its CLI needs:
lightning[pytorch-extra]), timm and accelerate, and tmux. The batch is found first: each program runs bare at two small batches, and the line through
their peaks says which batch needs 1.4 times the card; its half then needs about 0.7 times of it. Every
outcome is appended to the results (one JSON object a line) as soon as it is there; what the file already
has for this card and these versions is not run again. The last line is `N passed, N failed, N before`.
"""
import argparse
import importlib.metadata
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from terminal import Terminal  # noqa: E402

SCRIPTS = HERE / "frameworks"
# Batches from which the line is drawn: small enough for any card, large enough for activations to rule.
SMALL = (8, 24)
NEEDS = 1.4
DIALOG = "Space combine"

# The words of each command; {batch} is filled in.
PROGRAMS = {
    "transformers": (
        "transformers",
        "run_clm.py --output_dir out --do_train --max_steps 8 --save_strategy no --report_to none "
        "--logging_steps 4 --per_device_train_batch_size {batch}",
    ),
    "lightning": (
        "lightning",
        "main.py fit --trainer.max_steps 8 --trainer.logger false --trainer.devices 1 "
        "--trainer.enable_checkpointing false --data.batch_size {batch}",
    ),
    "timm": (
        "timm",
        "train.py --data-dir none --model vit_base_patch16_224 --sched cosine --opt adamw -b {batch}",
    ),
    "accelerate": (
        "accelerate",
        "train_text_to_image.py --pretrained_model_name_or_path none --dataset_name none "
        "--output_dir out --max_train_steps 8 --lr_scheduler constant --train_batch_size {batch}",
    ),
}
# Launchers in front of the script; Python runs the others.
LAUNCHED = {"accelerate": ["accelerate", "launch", "--num_processes", "1"]}


def command(name, batch):
    words = PROGRAMS[name][1].format(batch=batch).split()
    return [*LAUNCHED.get(name, [sys.executable]), *words]


def peak(name, batch, directory):
    done = subprocess.run(
        command(name, batch), cwd=directory, capture_output=True, text=True, timeout=600, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("PEAK ")]
    if done.returncode or not lines:
        raise AssertionError(f"bare at batch {batch}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return int(lines[-1].split()[1])


def batch_that_is_too_large(name, directory, total):
    low, high = (peak(name, batch, directory) for batch in SMALL)
    slope = (high - low) / (SMALL[1] - SMALL[0])
    batch = SMALL[0] + (NEEDS * total - low) / slope
    return max(2, 2 * round(batch / 2))


def drive(name, oomph, directory, total):
    batch = batch_that_is_too_large(name, directory, total)
    recording = directory / "events.jsonl"
    words = [oomph, "--record", recording, *command(name, batch)]
    inside = ["bash", "-c", 'cd "$0" && exec "$@"', directory, *words]
    terminal = Terminal(f"programs-{name}", directory, inside)
    began = time.monotonic()
    try:
        terminal.wait_for(DIALOG, 600, "the dialog")
        terminal.press("b")
        status = terminal.exit_status(900)
    finally:
        terminal.close()
    events = [json.loads(line) for line in recording.read_text().splitlines()]
    started = [event for event in events if event["event"] == "started"]
    assert status == 0, f"exit status {status}"
    assert len(started) == 2, f"{len(started)} runs"
    argv = [" ".join(map(str, event["command"]["argv"])) for event in started]
    return {"batch": batch, "commands": argv, "seconds": round(time.monotonic() - began, 1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--results", default="programs.jsonl", type=pathlib.Path)
    parser.add_argument("--only", nargs="*", choices=sorted(PROGRAMS))
    args = parser.parse_args()
    oomph = str(pathlib.Path(args.oomph).resolve())

    import torch

    if not torch.cuda.is_available():
        sys.exit("no GPU that PyTorch sees: nothing is measured here")
    card = torch.cuda.get_device_properties(0)
    known = set()
    if args.results.exists():
        for line in args.results.read_text().splitlines():
            row = json.loads(line)
            if row["passed"]:
                known.add((row["name"], row["card"], row["versions"]))
    passed = failed = before = 0
    for name in args.only or PROGRAMS:
        package = PROGRAMS[name][0]
        versions = f"torch {torch.__version__}, {package} {importlib.metadata.version(package)}"
        if (name, card.name, versions) in known:
            before += 1
            continue
        row = {"name": name, "card": card.name, "versions": versions}
        with tempfile.TemporaryDirectory() as place:
            directory = pathlib.Path(place)
            for script in SCRIPTS.glob("*.py"):
                shutil.copy(script, directory)
            try:
                row.update(passed=True, **drive(name, oomph, directory, card.total_memory))
                passed += 1
            except (AssertionError, subprocess.SubprocessError, OSError) as error:
                row.update(passed=False, why=str(error)[-2000:])
                failed += 1
        with args.results.open("a") as results:
            results.write(json.dumps(row) + "\n")
        print(f"{'ok    ' if row['passed'] else 'FAILED'} {name} ({versions})", flush=True)
        if not row["passed"]:
            print(row["why"])
    print(f"{passed} passed, {failed} failed, {before} before")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
