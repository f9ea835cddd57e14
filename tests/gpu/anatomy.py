#!/usr/bin/env python3
"""A step traced by the probe, held against torch's own figures of the same step: the bytes before and after it, the
peak, and what is parameters, gradients and optimizer state.

    python3 tests/gpu/anatomy.py --oomph target/release/oomph [--only MODEL ...]
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

PROGRAM = pathlib.Path(__file__).resolve().parent / "programs" / "third_step.py"
MODELS = [("decoder", []), ("decoder", ["--recompute"]), ("vit", ["--precision", "bf16"]), ("unet", []), ("bert", []),
          ("lora", ["--precision", "bf16"]), ("resnet", [])]


def read(step):
    """Bytes by position, and for each block its size, its life and its origin."""
    before, _, after = step["trace"].partition("|")
    sizes = [int(word.split("@")[0]) for word in before.split()]
    blocks = [[-(-size // 512) * 512, 0, None] for size in sizes]
    curve = [sum(block[0] for block in blocks)]
    for position, word in enumerate(after.split(), 1):
        if word.startswith("-"):
            block = blocks[len(blocks) - int(word[1:])]
            block[2] = position
            curve.append(curve[-1] - block[0])
        else:
            blocks.append([-(-int(word.split("@")[0]) // 512) * 512, position, None])
            curve.append(curve[-1] + blocks[-1][0])
    origins = []
    for word in step["blocks"].split():
        number, _, times = word.partition("*")
        origins += [int(number)] * int(times or 1)
    return curve, blocks, origins


def held(step, blocks, origins, position):
    """Bytes by kind at a position, and the share whose line is known."""
    kinds, known, total = {}, 0, 0
    for (size, born, freed), origin in zip(blocks, origins):
        if born <= position and (freed is None or position < freed):
            row = step["origins"][origin - 1] if origin else {}
            kinds[row.get("kind")] = kinds.get(row.get("kind"), 0) + size
            known += size if "line" in row else 0
            total += size
    return kinds, known / max(total, 1)


def check(oomph, model, options):
    with tempfile.TemporaryDirectory() as directory:
        record = pathlib.Path(directory) / "rec.jsonl"
        done = subprocess.run(
            [oomph, "--headless", "--record", record, "python3", PROGRAM, "--model", model, *options],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
        )
        if done.returncode:
            return f"exit {done.returncode}: {done.stderr[-400:]}"
        truth = json.loads(done.stdout.splitlines()[-1])
        events = [json.loads(line) for line in record.read_text().splitlines()]
        steps = [event for event in events if event["event"] == "step_trace"]
        if not steps:
            return "no step was traced"
        step = steps[0]
        size = max(len(line) for line in record.read_text().splitlines() if '"step_trace"' in line)
    curve, blocks, origins = read(step)
    at_end, _ = held(step, blocks, origins, len(curve) - 1)
    peak = curve.index(max(curve))
    at_peak, share = held(step, blocks, origins, peak)
    off = {
        "before": curve[0] - truth["before"],
        "peak": curve[peak] - truth["peak"],
        "after": curve[-1] - truth["after"],
        **{kind: at_end.get(kind, 0) - truth[kind] for kind in ("parameters", "gradients", "optimizer_state")},
    }
    wrong = {name: bytes_off for name, bytes_off in off.items() if bytes_off}
    phases = [phase["phase"] for phase in step["phases"]]
    # What the allocator gives beyond what is asked for is in torch's figure alone.
    return (
        f"step {step['step']}: peak off by {off['peak'] / truth['peak']:+.2%}, all {wrong}; "
        f"{len(curve) - 1} events, {len(steps)} traces, {size / 1e3:.0f} kB; phases {' '.join(dict.fromkeys(phases))} "
        f"({len(phases)}); lines known of {share:.1%} at the peak, there {at_peak}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--only", nargs="*", default=[])
    args = parser.parse_args()
    oomph = str(pathlib.Path(args.oomph).resolve())
    for model, options in MODELS:
        if not args.only or model in args.only:
            print(f"{model} {' '.join(options)}: {check(oomph, model, options)}", flush=True)


if __name__ == "__main__":
    main()
