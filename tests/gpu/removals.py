#!/usr/bin/env python3
"""Remedies that take away what the cause is about, on a real GPU: offered first, predicted as measured, and the same losses.

    python3 tests/gpu/removals.py --oomph target/release/oomph [--results FILE] [--only CASE ...] [--seconds N]

Three models of each case (tests/gpu/programs/removals.py), each run three times: on the whole card, where it fits; beside a ballast, where
it runs out of memory and `oomph explain` says what would help; and with that, beside the same ballast. For one case, pieces of the
whole card's size take the ballast's place. What is in the results
is not run again. The whole has not been timed; it should take some ten minutes.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = HERE / "programs" / "removals.py"
sys.path.insert(0, str(HERE))

from results import Results  # noqa: E402

@dataclasses.dataclass
class Case:
    remedy: str
    # What its losses may differ by.
    differ: float
    # What was predicted, of what is expected: a peak, or what is saved. Where nothing is promised but that it helps: `None`.
    predicted: typing.Optional[typing.Callable]
    # The figure of the program that it is compared with.
    measured: str = "peak"
    # Whether it must be the first that is offered.
    is_first: bool = True
    # Where what it saves of the bare run's peak is compared: so much is left of what that took beside parameters, gradients and
    # state.
    saves: float = 0.0
    # Where it is a matter of pieces: a card on which they are what is too much is looked for, and that it runs there is what is
    # measured; and the allocator's settings, beside which no segment grows.
    in_pieces: bool = False
    settings: str = ""
    # What the patch that it offers begins with, where there is more than one.
    patch: str = ""
    # What its command has beside the case and the model; `{scratch}` is a directory.
    words: tuple = ()


def saved(expected):
    return expected["relief"]["without"] - expected["relief"]["allocated"]


CASES = {
    "foreach": Case("no-foreach", 1e-6, lambda expected: expected["within"][0]),
    "fused": Case("fused-optimizer", 1e-6, lambda expected: expected["within"][0], is_first=False),
    # It changes the numbers, and says so: the losses are only to be near.
    "states": Case(
        "optimizer", 0.02, lambda expected: expected["needs"], is_first=False,
        words=("--output_dir", "{scratch}", "--per_device_train_batch_size", "2", "--save_strategy", "no"),
    ),
    "outputs": Case("outputs-to-ram", 0.0, lambda expected: expected["needs"]),
    "load": Case("load-to-cpu", 0.0, lambda expected: expected["at_least"], "loaded"),
    "offload": Case("offload", 0.0, saved, is_first=False, saves=0.6),
    "pieces": Case("early-release", 0.0, lambda expected: expected["needs"], is_first=False, in_pieces=True, settings="max_split_size_mb:1024"),
    "splits": Case("max-split-size", 0.0, lambda expected: expected["needs"], is_first=False, in_pieces=True),
    "emptying": Case("empty-cache", 0.0, None, is_first=False),
    "chunked": Case("chunked-loss", 1e-4, saved, is_first=False, saves=1.0, patch="cross_entropy="),
    "head": Case("chunked-loss", 1e-3, saved, is_first=False, saves=0.8, patch="head="),
    "attention": Case("fused-attention", 1e-3, None, is_first=False, words=("--attn_implementation", "eager")),
}
MODELS = (0, 1, 2)
MOST_OFF = 0.05
SECONDS_A_RUN = 120
SETTINGS = "PYTORCH_CUDA_ALLOC_CONF"
# Sizes between what is allocated and what is reserved that are tried for a card on which pieces are what is too much.
SIZES = 12


def run(words, patches=None, more=None):
    env = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", TOKENIZERS_PARALLELISM="false", **(more or {}))
    env.pop("OOMPH_PATCHES", None)
    if patches:
        env["OOMPH_PATCHES"] = ",".join(patches)
    return subprocess.run(
        words, capture_output=True, text=True, timeout=SECONDS_A_RUN, stdin=subprocess.DEVNULL, cwd=ROOT, env=env, check=False
    )


def said(done):
    """The program's last line; raises where it did not end well."""
    if done.returncode != 0:
        raise RuntimeError((done.stdout + done.stderr)[-700:])
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"losses"')]
    return json.loads(lines[-1])


def differ(one, other):
    pairs = list(zip(one, other))
    if len(one) != len(other) or not pairs:
        return float("inf")
    return max(abs(a - b) / max(abs(a), 1e-12) for a, b in pairs)


def measure_pieces(oomph, case, model, directory, results):
    """The same command on smaller and smaller cards, until the remedy is offered for one; it must run there."""
    asked = CASES[case]
    settings = {SETTINGS: asked.settings} if asked.settings else {}
    words = [sys.executable, str(PROGRAM), case, str(model)]
    bare = said(run([*words, "--bare"], more=settings))
    line = {"case": case, "model": model, "cause": None, "first": None, "right": False}
    for step in range(1, SIZES):
        left = bare["reserved"] - (bare["reserved"] - bare["peak"]) * step // SIZES
        recording = directory / f"out{step}.jsonl"
        out = run([oomph, "--headless", "--record", str(recording), *words, "--left", str(left)], more=settings)
        if out.returncode == 0:
            continue
        results.keep(recording, f"{case} {model} out {step}")
        answer = json.loads(run([oomph, "explain", "--json", str(recording)]).stdout)
        offered = [remedy for remedy in answer["remedies"] if remedy["available"] and remedy["id"] == asked.remedy]
        if not offered:
            continue
        changed = run([oomph, "--headless", *offered[0]["argv"]], offered[0]["patches"], settings | offered[0]["env"])
        cause = answer["findings"][0]["cause"] if answer["findings"] else None
        line |= {"cause": cause, "first": asked.remedy, "effect": offered[0]["effect"]}
        if changed.returncode != 0:
            return dict(line, why=f"it ran out again in {left}")
        again = said(changed)
        predicted = asked.predicted(offered[0]["expected"]) - again["ballast"]
        losses, measured = differ(bare["losses"], again["losses"]), again["reserved"] - again["ballast"]
        is_right = losses <= asked.differ and measured <= left
        off = round(predicted / measured - 1, 4)
        return dict(line, right=is_right, predicted=predicted, measured=measured, off=off, losses=losses, bare=bare["peak"])
    return dict(line, why=f"{asked.remedy} was offered on no card of {SIZES - 1} sizes")


def measure(oomph, case, model, directory, results):
    asked = CASES[case]
    if asked.in_pieces:
        return measure_pieces(oomph, case, model, directory, results)
    more = [word.format(scratch=directory / "written") for word in asked.words]
    words = [sys.executable, str(PROGRAM), case, str(model), *more]
    bare = said(run([*words, "--bare"]))
    if asked.saves:
        words += ["--left", str(int(bare["fixed"] + asked.saves * (bare["peak"] - bare["fixed"])))]
    recording = directory / "out.jsonl"
    out = run([oomph, "--headless", "--record", str(recording), *words])
    results.keep(recording, f"{case} {model} out")
    explained = run([oomph, "explain", "--json", str(recording)])
    answer = json.loads(explained.stdout)
    cause = answer["findings"][0]["cause"] if answer["findings"] else None
    offered = [remedy for remedy in answer["remedies"] if remedy["available"] and (asked.is_first or remedy["id"] == asked.remedy)]
    first = next(iter(offered), None)
    line = {"case": case, "model": model, "exit": out.returncode, "cause": cause, "first": first and first["id"]}
    if first is None or first["id"] != asked.remedy:
        reasons = {remedy["id"]: remedy["reason"] for remedy in answer["remedies"]}
        return dict(line, right=False, why=f"{asked.remedy}: {reasons.get(asked.remedy)}")
    if not any(patch.startswith(asked.patch) for patch in first["patches"] or [""]):
        return dict(line, right=False, why=f"{asked.remedy} by {first['patches']}, not {asked.patch}")
    recording = directory / "patched.jsonl"
    patched = said(run([oomph, "--headless", "--record", str(recording), *first["argv"]], first["patches"], first["env"]))
    results.keep(recording, f"{case} {model} patched")
    losses = max(differ(bare["losses"], patched["losses"]), differ(bare.get("outputs", [1]), patched.get("outputs", [1])))
    line |= {"patches": first["patches"], "losses": losses, "bare": bare["peak"], "effect": first["effect"]}
    if asked.predicted is None:
        return dict(line, right=losses <= asked.differ, why="runs where it did not before; nothing more was promised")
    # The ballast is the same in both and would hide what is off.
    predicted, measured = asked.predicted(first["expected"]), patched[asked.measured] - patched["ballast"]
    if predicted is None:
        return dict(line, right=False, why=f"nothing was predicted: {first['effect']}")
    if asked.saves:
        measured = bare["peak"] - measured
    else:
        predicted -= patched["ballast"]
    off = predicted / measured - 1
    is_right = losses <= asked.differ and abs(off) <= MOST_OFF
    return dict(line, right=is_right, predicted=predicted, measured=measured, off=round(off, 4))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("removals.jsonl"))
    parser.add_argument("--only", nargs="*", choices=sorted(CASES), default=[])
    parser.add_argument("--seconds", type=float, default=540, help="begin nothing further after so long")
    args = parser.parse_args()
    oomph = str(pathlib.Path(args.oomph).resolve())
    results = Results(args.results)
    began = time.monotonic()
    for model in MODELS:
        for case in args.only or CASES:
            if results.has(case=case, model=model) or time.monotonic() - began > args.seconds:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                try:
                    line = measure(oomph, case, model, pathlib.Path(scratch), results)
                except (subprocess.TimeoutExpired, RuntimeError, ValueError) as error:
                    print(f"{case} {model}: not measured: {error}", flush=True)
                    continue
            results.add(**line)
    print("| case | model | cause | first remedy | predicted | measured | off | losses |")
    print("|---|---|---|---|---|---|---|---|")
    for line in results.lines:
        if "off" in line:
            figures = f"{line['predicted'] / 2**30:.2f} GiB | {line['measured'] / 2**30:.2f} GiB | {line['off']:+.1%} | {line['losses']:.1e}"
        else:
            figures = f"{line['why']} | | |"
        print(f"| {line['case']} | {line['model']} | {line['cause']} | {line['first']} | {figures} |")
    right = sum(line["right"] for line in results.lines)
    print(f"\n{right} of {len(results.lines)} measured are right; {len(CASES) * len(MODELS) - len(results.lines)} not measured.")
    return 0 if results.lines and right == len(results.lines) else 1


if __name__ == "__main__":
    sys.exit(main())
