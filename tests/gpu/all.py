#!/usr/bin/env python3
"""Runs the suites of this directory side by side, on as many GPUs as the machine has.

    python3 tests/gpu/all.py --oomph target/release/oomph --results DIR [--seconds N] [--only START ...]

Each job has a GPU to itself (CUDA_VISIBLE_DEVICES) and lays its results and what it printed into DIR. What has been
measured there is not run again by suites that keep results; after `--seconds` what still runs is ended.
"""
import argparse
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
# Of the suites that are long, so that the GPUs have about as much each.
PARTS = 4
MODELS = ("decoder", "llama", "vit", "resnet", "unet", "lstm")


def jobs(oomph, results):
    """The jobs; each is the named commands that share a GPU."""
    def suite(name, file, *words, keeps=True):
        kept = ("--results", results / f"{name}.jsonl") if keeps else ()
        return name, [sys.executable, HERE / f"{file}.py", *words, *kept]

    def under(name, file, *words, keeps=True):
        return suite(name, file, "--oomph", oomph, *words, keeps=keeps)

    yield [under("causes-1", "causes", "--only", "load", "forward", "optimizer_state", "fragmentation", "limit")]
    yield [
        under("causes-2", "causes", "--only", "backward", "foreign_process", "leak", "evaluation_graph", "odd_batch", "non_pytorch")
    ]
    yield [
        under("causes-3", "causes", "--only", "trainer_evaluation", "own_list", "checkpoint_load", "optimizer_load", "checkpoint_save",
              "large_logits", "attention_scores", "attention_weights", "held_by_exception", "unused_block", "optimizer_foreach", "own_ranks")
    ]
    yield [under("causes-4", "causes", "--only", "left_over", "graph_pools", "beside_graphs", "autotuning")]
    yield [under("run", "run", "--keep", results / "run.kept", keeps=False)]
    yield [under("trust", "trust", "--keep", results / "trust.kept", keeps=False)]
    # The losses and peaks of a process are its own; one GPU is enough for all models.
    yield [suite(f"patches-{model}", "patches", "--only", model) for model in MODELS]
    for part in range(1, PARTS + 1):
        yield [under(f"auto-{part}", "auto", "--part", f"{part}/{PARTS}")]
        yield [under(f"predict-{part}", "predict", "--part", f"{part}/{PARTS}")]
        yield [under(f"fit-{part}", "fit", "--part", f"{part}/{PARTS}")]
    yield [under("programs-1", "programs", "--only", "transformers", "lightning")]
    yield [under("programs-2", "programs", "--only", "timm", "accelerate")]
    yield [under("anatomy", "anatomy", keeps=False)]
    yield [under("bench", "bench", keeps=False)]


def gpus():
    listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=True).stdout
    return len(listed.splitlines())


def work(gpu, waiting, results, deadline):
    while True:
        try:
            commands = waiting.get_nowait()
        except queue.Empty:
            return
        if time.monotonic() > deadline:
            print(f"{commands[0][0]}: not begun", flush=True)
            continue
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES=str(gpu), PYTHONUNBUFFERED="1")
        running = []
        began = time.monotonic()
        for each, command in commands:
            with (results / f"{each}.log").open("a") as log:
                running.append((each, subprocess.Popen(
                    list(map(str, command)), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                    env=environment, start_new_session=True,
                )))
        for each, process in running:
            try:
                process.wait(max(0, deadline - time.monotonic()))
                outcome = f"exit {process.returncode}"
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                outcome = "cut off"
            print(f"{each}: {outcome} after {time.monotonic() - began:.0f} s on GPU {gpu}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--only", nargs="*", default=[], help="starts of the jobs' names")
    args = parser.parse_args()
    deadline = time.monotonic() + args.seconds
    results = args.results.resolve()
    results.mkdir(parents=True, exist_ok=True)
    waiting = queue.Queue()
    every = list(jobs(pathlib.Path(args.oomph).resolve(), results))
    # In the order asked for.
    for word in args.only or [""]:
        for commands in every:
            if commands[0][0].startswith(word):
                waiting.put(commands)
    workers = [
        threading.Thread(target=work, args=(gpu, waiting, results, deadline)) for gpu in range(gpus())
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
