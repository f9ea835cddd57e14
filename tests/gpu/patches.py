#!/usr/bin/env python3
"""The remedies inside the process against real PyTorch: they help, or decline and say why, and never
change a result that they do not say they change.

    python3 tests/gpu/patches.py [--cpu] [--python PATH] [--results FILE] [--only WORD ...] [--steps 50]

Each row is two processes or three of the same training (programs/patched.py): bare, with the patch,
and for amp with the program's own autocast. Losses are compared step by step: recompute to the bit
(to 1e-6 relative under torch.compile, which fuses anew), amp to 1e-3 relative with the program's own
autocast. Peaks and times are of a GPU alone; with --cpu they are left out. Rows that are in the
results already are not run again. The last line is `N passed, N failed`.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROBE = HERE.parent.parent / "src/probe/python"
PROGRAM = HERE / "programs/patched.py"
MODELS = ("decoder", "llama", "vit", "resnet", "unet", "lstm")
AROUND = ("plain", "compile", "ddp", "accelerate", "scaler")
# Losses of a compiled graph may differ in the last bit where another partition fuses otherwise.
COMPILED, AUTOCAST = 1e-6, 1e-3
# Steps where another thing than the patch is around the model: enough for two evaluations.
SHORT = 12
# Where it must decline, and the words that say so.
DECLINES = {
    ("recompute", "lstm"): "no repeated blocks",
    ("amp", "scaler"): "autocast itself",
}


class Suite:
    def __init__(self, asked):
        self.asked = asked
        self.device = "cpu" if asked.cpu else "cuda"
        self.results = pathlib.Path(asked.results)
        self.known = {}
        if self.results.exists():
            for line in self.results.read_text().splitlines():
                entry = json.loads(line)
                self.known[entry["key"]] = entry["said"]

    def run(self, model, around, patches=""):
        key = f"{self.device} {self.steps(around)} {model} {around} {patches}"
        if key not in self.known:
            said = self.start(model, around, patches)
            self.known[key] = said
            with self.results.open("a") as file:
                file.write(json.dumps({"key": key, "said": said}) + "\n")
        return self.known[key]

    def steps(self, around):
        whole = around in ("plain", "autocast")
        return self.asked.steps if whole else min(self.asked.steps, SHORT)

    def start(self, model, around, patches):
        command = [self.asked.python]
        if around == "ddp":
            command += ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
        size = "small" if self.asked.cpu else "large"
        command += [str(PROGRAM), "--model", model, "--around", around, "--device", self.device]
        steps = self.steps(around)
        command += ["--size", size, "--steps", str(steps), "--evaluate", str(min(10, steps // 2))]
        env = dict(os.environ, OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
        if patches:
            env.update(
                PYTHONPATH=str(PROBE),
                PYTHONDONTWRITEBYTECODE="1",
                OOMPH_PROBE_SOCKET="/nonexistent/oomph",
                OOMPH_PATCHES=patches,
                OOMPH_PATCHES_ON_CPU="1" if self.asked.cpu else "0",
            )
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900
        )
        if done.returncode:
            return {"failed": f"exit {done.returncode}", "stderr": done.stderr[-3000:]}
        return json.loads(done.stdout.strip().splitlines()[-1])

    def row(self, patch, model, around):
        bare = self.run(model, around)
        patched = self.run(model, around, patch)
        for each in (bare, patched):
            if "failed" in each:
                return False, each["failed"] + " " + each.get("stderr", "")[-600:]
        outcome, words = (patched["patches"] or {}).get(patch, ("silent", ""))
        off_bare = furthest(bare["losses"], patched["losses"])
        figures = self.figures(bare, patched)
        if not patched["names_kept"]:
            return False, "the names of the state have changed"
        expected = DECLINES.get((patch, model)) or DECLINES.get((patch, around))
        if expected or outcome == "declined":
            good = outcome == "declined" and off_bare == 0.0 and (expected or words) in words
            return good, f"{outcome} ({words}); losses off by {off_bare:.1e}"
        if outcome != "applied":
            return False, f"{outcome}: {words}"
        evaluation = furthest(bare["evaluations"], patched["evaluations"])
        if patch == "recompute":
            allowed = COMPILED if around == "compile" else 0.0
            weights = furthest([bare["weights"], bare["buffers"]], [patched["weights"], patched["buffers"]])
            good = max(off_bare, evaluation, weights) <= allowed
            return good, (
                f"losses off by {off_bare:.1e}, evaluations {evaluation:.1e}, weights and buffers "
                f"{weights:.1e} (≤ {allowed:.0e}){figures}: {words}"
            )
        own = self.run(model, "autocast")
        if "failed" in own:
            return False, own["failed"]
        # Other arounds draw other dropout masks or other data: their own fp32 losses are the measure.
        if around in ("plain", "accelerate"):
            count = len(patched["losses"])
            off = furthest(own["losses"][:count], patched["losses"])
            far = furthest(own["losses"][:count], bare["losses"])
            good = off <= AUTOCAST and off_bare > 0.0
            return good, (
                f"{off:.1e} from the program's own autocast (≤ 1e-3), {off_bare:.1e} from fp32 "
                f"(autocast itself {far:.1e}){figures}: {words}"
            )
        far = furthest(self.run(model, "plain")["losses"], own["losses"])
        good = 0.0 < off_bare <= max(10 * far, AUTOCAST)
        return good, f"{off_bare:.1e} from fp32 (autocast itself {far:.1e}){figures}: {words}"

    def figures(self, bare, patched):
        if self.asked.cpu:
            return ""
        mib = 1 << 20
        return (
            f"; peak {bare['peak'] / mib:.0f} → {patched['peak'] / mib:.0f} MiB, step "
            f"{bare['step_ms']:.1f} → {patched['step_ms']:.1f} ms"
        )


def furthest(a, b):
    """The largest relative difference of two rows of numbers."""
    if len(a) != len(b):
        return float("inf")
    pairs = [(x, y) for x, y in zip(a, b) if x != y]
    return max((abs(x - y) / max(abs(x), abs(y), 1e-12) for x, y in pairs), default=0.0)


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("--cpu", action="store_true")
    asked.add_argument("--python", default=sys.executable)
    asked.add_argument("--results", default="patches.jsonl")
    asked.add_argument("--steps", type=int, default=50)
    asked.add_argument("--only", nargs="*", default=[])
    asked = asked.parse_args()
    suite = Suite(asked)
    passed = failed = 0
    for around in AROUND:
        for model in MODELS:
            for patch in ("recompute", "amp"):
                name = f"{patch} {model} {around}"
                if not all(word in name.split() for word in asked.only):
                    continue
                good, words = suite.row(patch, model, around)
                passed, failed = passed + good, failed + (not good)
                print(f"{'ok  ' if good else 'FAIL'} {name:32} {words}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
