#!/usr/bin/env python3
"""The remedies inside the process against real PyTorch: they help, or decline and say why, and never
change a result that they do not say they change.

    python3 tests/gpu/patches.py [--cpu [--backend aot_eager]] [--python PATH] [--results FILE]
                                 [--only WORD ...] [--steps 50]

A row compares processes of the same training (programs/patched.py) step by step: bare, with the
patch, and for amp with the program's own autocast. The trainings are deterministic, and so recompute,
or a patch that declines, must give the bare run's losses to the bit; where it does not, the bare run is
run again, and what two bare runs differ by is the measure. A compiled graph is partitioned and fused
anew by recomputation: there the measure is what compiling itself changes. Amp must give what autocast
around the forward gives, to 1e-3; what autocast around the loss would give is printed beside it.

Peaks and times are of a GPU alone, of deterministic kernels; with --cpu they are left out. Rows that
are in the results already are not run again, but those that failed are. The last line is
`N passed, N failed`.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE.parent.parent / "src/probe/python"
PROGRAM = HERE / "programs/patched.py"
MODELS = ("decoder", "llama", "vit", "resnet", "unet", "lstm")
AROUND = ("plain", "compile", "ddp", "accelerate", "scaler")
# Their loss is computed inside the model: autocast around the forward is around the loss.
LOSS_INSIDE = ("decoder", "llama")
# Losses of a compiled graph may differ in the last bit where another partition fuses otherwise.
COMPILED, AUTOCAST = 1e-6, 1e-3
# A distance measured between one pair of runs is one draw: that of another pair may be so many times as far.
DRAWS = 4
# Steps where another thing than the patch is around the model: enough for two evaluations.
SHORT = 12
TIMEOUT = 900
# Where it must decline, and the words that say so.
DECLINES = {
    ("recompute", "lstm"): "no repeated blocks",
    ("amp", "scaler"): "autocast itself",
}
# Where dropout is drawn inside a compiled graph, recomputation must say what may become of it.
DRAWING, DRAWN = ("decoder", "vit"), "different random numbers"


class Suite:
    def __init__(self, asked):
        self.asked = asked
        self.device = "cpu" if asked.cpu else "cuda"
        self.results = pathlib.Path(asked.results)
        # As the binary installs it: the package under a name that no import finds.
        self.probe = tempfile.TemporaryDirectory()
        installed = pathlib.Path(self.probe.name)
        (installed / "sitecustomize.py").symlink_to(SOURCES / "sitecustomize.py")
        (installed / "oomph-probe").symlink_to(SOURCES / "oomph_probe")
        self.known = {}
        if self.results.exists():
            for line in self.results.read_text().splitlines():
                entry = json.loads(line)
                if "failed" not in entry["said"]:
                    self.known[entry["key"]] = entry["said"]

    def run(self, model, around, patches="", again=False):
        """What a training printed; raises where it failed."""
        words = [self.device, self.backend(), "deterministic", str(self.steps(around)), model, around]
        key = " ".join(words + [patches or "bare"] + ["again"] * again)
        if key not in self.known:
            said = self.start(model, around, patches)
            self.known[key] = said
            with self.results.open("a") as file:
                file.write(json.dumps({"key": key, "said": said}) + "\n")
        said = self.known[key]
        if "failed" in said:
            raise Failed(f"{key}: {said['failed']} {said['stderr'][:1200]}")
        return said

    def steps(self, around):
        whole = around in ("plain", "autocast", "autocast-loss")
        return self.asked.steps if whole else min(self.asked.steps, SHORT)

    def backend(self):
        return self.asked.backend if self.asked.cpu else "inductor"

    def start(self, model, around, patches):
        command = [self.asked.python]
        if around == "ddp":
            command += ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
        size = "small" if self.asked.cpu else "large"
        command += [str(PROGRAM), "--model", model, "--around", around, "--device", self.device]
        steps = self.steps(around)
        command += ["--size", size, "--steps", str(steps), "--evaluate", str(min(10, steps // 2))]
        command += ["--backend", self.backend()]
        env = dict(os.environ, OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
        # Both ranks are on this machine, whatever its name resolves to.
        env.setdefault("GLOO_SOCKET_IFNAME", "lo")
        if patches:
            env.update(
                PYTHONPATH=self.probe.name,
                PYTHONDONTWRITEBYTECODE="1",
                OOMPH_PROBE_SOCKET="/nonexistent/oomph",
                OOMPH_PATCHES=patches,
                OOMPH_PATCHES_ON_CPU="1" if self.asked.cpu else "0",
            )
        process = subprocess.Popen(
            command,
            env=env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            stdout, stderr = process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            # Asked to end: what launches ranks takes them along.
            process.terminate()
            stdout, stderr = process.communicate()
            return {"failed": f"not done after {TIMEOUT} s", "stderr": stderr[-3000:]}
        if process.returncode:
            return {"failed": f"exit {process.returncode}", "stderr": cause(stderr)}
        return json.loads(stdout.strip().splitlines()[-1])

    def row(self, patch, model, around):
        """Whether a patch did right, and in which words that is known."""
        try:
            return self.judge(patch, model, around)
        except Failed as failed:
            return False, str(failed)

    def judge(self, patch, model, around):
        bare = self.run(model, around)
        patched = self.run(model, around, patch)
        outcome, words = (patched["patches"] or {}).get(patch, ("silent", ""))
        if not patched["names_kept"]:
            return False, "the names of the state have changed"
        expected = DECLINES.get((patch, model)) or DECLINES.get((patch, around))
        if expected or outcome == "declined":
            judge = self.compiled if around == "compile" else self.same
            close, off = judge(model, around, bare, patched)
            good = close and outcome == "declined" and (expected or words) in words
            return good, f"{outcome} ({words}); {off}"
        if outcome != "applied":
            return False, f"{outcome}: {words}"
        if patch == "recompute":
            judge = self.compiled if around == "compile" else self.same
            close, off = judge(model, around, bare, patched)
            if (DRAWN in words) != (around == "compile" and model in DRAWING):
                return False, f"dropout in a compiled graph, and no word of it, or the other way round: {words}"
        else:
            judge = self.as_autocast if around in ("plain", "accelerate") else self.about_autocast
            close, off = judge(model, bare, patched)
        return close, f"{off}{self.figures(bare, patched)}: {words}"

    def same(self, model, around, bare, patched):
        """To the bit, or as near as the same training is to itself."""
        off = distances(bare, patched)
        if max(off) == 0.0:
            return True, in_words(off) + " (to the bit)"
        noise = distances(bare, self.run(model, around, again=True))
        if max(noise) == 0.0:
            return False, in_words(off) + " (two bare runs are the same to the bit)"
        # One draw of each says little: evaluations are losses too, and the weights follow from them.
        noise = [max(noise)] * len(noise)
        close = all(each <= DRAWS * floor for each, floor in zip(off, noise))
        return close, f"{in_words(off)} (two bare runs differ by {figures_of(noise)}, ≤ {DRAWS} times that)"

    def compiled(self, model, around, bare, patched):
        """As near to the bare compiled run as that is to the one that is not compiled, or to itself."""
        off = distances(bare, patched)
        plain = self.run(model, "plain")["losses"]
        apart = furthest(plain[: len(bare["losses"])], bare["losses"])
        allowed = max(COMPILED, DRAWS * apart)
        words = f"{in_words(off)} (compiling itself {apart:.1e}; ≤ {DRAWS} times that, or {COMPILED:.0e})"
        if max(off) <= allowed:
            return True, words
        # Kernels that add in any order differ from run to run, compiled or not.
        noise = max(distances(bare, self.run(model, around, again=True)))
        return max(off) <= DRAWS * noise, f"{words}; two bare runs differ by {noise:.1e}"

    def as_autocast(self, model, bare, patched):
        """The same losses as with the program's own autocast around the forward."""
        count = len(patched["losses"])
        fp32, ours = bare["losses"], patched["losses"]
        own = self.run(model, "autocast")["losses"][:count]
        off, changed = furthest(own, ours), furthest(fp32, ours)
        close, allowed = off <= AUTOCAST, "≤ 1e-3"
        if not close:
            noise = furthest(own, self.run(model, "autocast", again=True)["losses"][:count])
            close = off <= DRAWS * noise
            allowed = f"two runs of that differ by {noise:.1e}"
        words = f"{off:.1e} from the program's own autocast ({allowed}), {changed:.1e} from fp32"
        if model not in LOSS_INSIDE:
            inside = self.run(model, "autocast-loss")["losses"][:count]
            words += (
                f" (with the loss inside autocast too: {furthest(inside, ours):.1e}; "
                f"that one is {furthest(inside, fp32):.1e} from fp32)"
            )
        return close and changed > 0.0, words

    def about_autocast(self, model, bare, patched):
        """As far from its own fp32 as autocast takes the plain training: other dropout masks are drawn
        in a compiled graph, other data are given to the ranks."""
        changed = furthest(bare["losses"], patched["losses"])
        count = len(bare["losses"])
        plain, own = (self.run(model, each)["losses"][:count] for each in ("plain", "autocast"))
        far = furthest(plain, own)
        words = f"{changed:.1e} from fp32 (autocast itself {far:.1e})"
        return 0.0 < changed <= max(10 * far, AUTOCAST), words

    def figures(self, bare, patched):
        if self.asked.cpu:
            return ""
        mib = 1 << 20
        return (
            f"; peak {bare['peak'] / mib:.0f} → {patched['peak'] / mib:.0f} MiB, step "
            f"{bare['step_ms']:.1f} → {patched['step_ms']:.1f} ms"
        )


class Failed(Exception):
    """A training that did not end well."""


def cause(stderr):
    """The end of what was printed, and before it the first traceback: a launcher buries it."""
    at = stderr.find("Traceback")
    return (stderr[at : at + 2000] if at >= 0 else "") + stderr[-1000:]


def distances(a, b):
    """How far two runs are apart in their losses, their evaluations, and the state at the end."""
    ends = [[each["weights"], each["buffers"]] for each in (a, b)]
    return [furthest(a[name], b[name]) for name in ("losses", "evaluations")] + [furthest(*ends)]


def in_words(distances):
    return "losses off by {:.1e}, evaluations {:.1e}, weights and buffers {:.1e}".format(*distances)


def figures_of(distances):
    return ", ".join(f"{each:.1e}" for each in distances)


def furthest(a, b):
    """The largest relative difference of two rows of numbers; infinite where one has none."""
    if len(a) != len(b) or any(each != each for each in a + b):
        return float("inf")
    pairs = [(x, y) for x, y in zip(a, b) if x != y]
    return max((abs(x - y) / max(abs(x), abs(y), 1e-12) for x, y in pairs), default=0.0)


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("--cpu", action="store_true")
    asked.add_argument("--backend", default="aot_eager", help="of torch.compile, with --cpu")
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
