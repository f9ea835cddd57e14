#!/usr/bin/env python3
"""Runs out of memory on a real GPU for each cause that one GPU can show, and holds the first finding
against the cause.

    python3 tests/gpu/causes.py --oomph target/release/oomph [--results FILE] [--table FILE] [--only CAUSE ...]

Three sizes of each cause (tests/gpu/programs/causes.py, and situations.py for those that people report). What has been measured stands in the results, one
JSON object a line, and is not run again; so a run that was cut short goes on where it ended. The table is
written anew from the results each time: what was not measured is blank. The first eleven take some eight
minutes on an H200, the others have not been timed; `--seconds` ends it earlier, at the end of a run.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = HERE / "programs" / "causes.py"
SITUATIONS = HERE / "programs" / "situations.py"
sys.path.insert(0, str(HERE))

from results import Results  # noqa: E402

# Of each case the cause that the first finding must name, and the phase that it must have happened in,
# where the cause alone does not say it.
CASES = {
    "load": ("capacity", "load"),
    "forward": ("capacity", "forward"),
    "backward": ("capacity", "backward"),
    "optimizer_state": ("optimizer_state", None),
    "fragmentation": ("fragmentation", None),
    "foreign_process": ("foreign_process", None),
    "inference_engine": ("inference_engine", None),
    "limit": ("limit", None),
    "leak": ("leak", None),
    "evaluation_graph": ("evaluation_graph", None),
    "odd_batch": ("odd_batch", None),
    "non_pytorch": ("non_pytorch", None),
    "trainer_evaluation": ("evaluation_outputs", None),
    "own_list": ("evaluation_outputs", None),
    "checkpoint_load": ("checkpoint_loading", None),
    "optimizer_load": ("checkpoint_loading", None),
    "checkpoint_save": ("checkpoint_saving", None),
    "large_logits": ("large_logits", None),
    "attention_scores": ("attention_scores", None),
    "attention_weights": ("attention_scores", None),
    "held_by_exception": ("held_by_exception", None),
    "unused_block": ("unused_block", None),
    "optimizer_foreach": ("optimizer_state", None),
    "own_ranks": ("own_ranks", None),
    "left_over": ("leftover_process", None),
    "graph_pools": ("compilation", None),
    "beside_graphs": ("compilation", None),
    "autotuning": ("compilation", None),
    "second_step": ("optimizer_state", "forward"),
    "attention_math": ("attention_scores", None),
    "wrong_size": ("wrong_size", None),
}
FURTHER = tuple(CASES)[tuple(CASES).index("trainer_evaluation"):]
SIZES = (0, 1, 2)
SECONDS_A_RUN = 90


class Neighbour:
    """Another process that holds part of the card while a case runs: of this name, as its command line shows it."""

    def __init__(self, share, name=None):
        self.folder = tempfile.TemporaryDirectory()
        program = pathlib.Path(PROGRAM) if name is None else pathlib.Path(self.folder.name) / name
        if name is not None:
            program.symlink_to(PROGRAM)
        self.process = subprocess.Popen(
            [sys.executable, program, "hold", str(share)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )

    def __enter__(self):
        if self.process.stdout.readline().strip() != "held":
            raise RuntimeError("the neighbour could not take its share of the card")
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.folder.cleanup()


class LeftOver:
    """What an earlier run of the same program has left behind, that holds part of the card while a case runs."""

    def __init__(self, share):
        self.run = subprocess.Popen(
            [sys.executable, SITUATIONS, "leave", str(share)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            # Nothing of what started it is left once it has ended.
            start_new_session=True,
        )

    def __enter__(self):
        if self.run.stdout.readline().strip() != "held":
            raise RuntimeError("the earlier run left nothing behind")
        self.run.wait(timeout=30)
        return self

    def __exit__(self, *_):
        # Its input ends for the process that is left, and with it that.
        self.run.stdin.close()
        self.run.stdout.read()


# What else is on the card, by the case: its share, and what it is called.
NEIGHBOURS = {"foreign_process": (Neighbour, 0.6), "inference_engine": (Neighbour, 0.6, "vllm_engine.py"), "left_over": (LeftOver, 0.6)}


def command(case):
    if case == "own_ranks":
        return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", SITUATIONS]
    return [sys.executable, SITUATIONS if case in FURTHER else PROGRAM]


def program_case(case):
    """What the program calls it: beside an engine it does what it does beside any other process."""
    return "foreign_process" if case == "inference_engine" else case


def induce(oomph, case, size, directory):
    """Runs one case under oomph; answers with what `oomph explain` says of its recording."""
    recording = directory / f"{case}-{size}.jsonl"
    began = time.monotonic()
    done = subprocess.run(
        [oomph, "--headless", "--record", recording, *command(case), program_case(case), str(size)],
        capture_output=True, text=True, timeout=SECONDS_A_RUN, stdin=subprocess.DEVNULL, cwd=ROOT, check=False,
    )
    took = time.monotonic() - began
    said = subprocess.run(
        [oomph, "explain", "--json", recording], capture_output=True, text=True, timeout=30, check=False
    )
    answer = json.loads(said.stdout) if said.returncode == 0 else {"ooms": [], "findings": []}
    return done, answer, took


def judge(case, answer):
    """The first finding of the decisive out-of-memory, and whether it is the true cause."""
    cause, phase = CASES[case]
    place = next((n for n, oom in enumerate(answer["ooms"]) if oom["decisive"]), None)
    if place is None:
        return {"found": None, "right": False}
    oom = answer["ooms"][place]
    findings = [finding for finding in answer["findings"] if finding["oom"] == place]
    first = findings[0] if findings else {"cause": None, "certainty": None, "headline": ""}
    return {
        "found": first["cause"],
        "certainty": first["certainty"],
        "headline": first["headline"],
        "phase": oom["phase"],
        "then": [finding["cause"] for finding in findings[1:]],
        "right": first["cause"] == cause and phase in (None, oom["phase"]),
    }


def table(known):
    lines = ["| cause | small | medium | large |", "|---|---|---|---|"]
    for case in CASES:
        cells = []
        for size in SIZES:
            entry = known.get((case, size))
            if entry is None:
                cells.append("")
            elif entry["right"]:
                cells.append(f"right ({entry['certainty']})")
            else:
                cells.append(f"**{entry['found'] or 'no out-of-memory'}** {entry.get('phase') or ''}".strip())
        lines.append(f"| {case} | " + " | ".join(cells) + " |")
    right = sum(entry["right"] for entry in known.values())
    lines.append("")
    lines.append(f"{right} of {len(known)} measured are right; {len(CASES) * len(SIZES) - len(known)} not measured.")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oomph", required=True)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("causes.jsonl"))
    parser.add_argument("--table", type=pathlib.Path, help="write the table here as well")
    parser.add_argument("--only", nargs="*", choices=sorted(CASES), default=[])
    parser.add_argument("--seconds", type=float, default=540, help="begin no further run after so long")
    args = parser.parse_args()
    oomph = str(pathlib.Path(args.oomph).resolve())
    results = Results(args.results)
    # A later line counts.
    known = {(entry["case"], entry["size"]): entry for entry in results.lines}
    began = time.monotonic()
    # All causes in one size first: a run that is cut short has seen each.
    for size in SIZES:
        for case in args.only or CASES:
            if (case, size) in known or time.monotonic() - began > args.seconds:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                try:
                    if case in NEIGHBOURS:
                        kind, *how = NEIGHBOURS[case]
                        with kind(*how):
                            done, answer, took = induce(oomph, case, size, pathlib.Path(scratch))
                    else:
                        done, answer, took = induce(oomph, case, size, pathlib.Path(scratch))
                except (subprocess.TimeoutExpired, RuntimeError) as error:
                    print(f"{case} {size}: not measured: {error}", flush=True)
                    continue
                results.keep(pathlib.Path(scratch) / f"{case}-{size}.jsonl", f"{case} {size}")
            entry = {"case": case, "size": size, "exit": done.returncode, "seconds": round(took, 1), **judge(case, answer)}
            if entry["found"] is None:
                # It did not run out of memory: the end of what it said tells why.
                entry["tail"] = (done.stdout + done.stderr)[-600:]
            known[case, size] = entry
            results.add(**entry)
            verdict = "ok  " if entry["right"] else "FAIL"
            print(f"{verdict} {case} {size} ({took:.0f} s): {entry['found']}: {entry.get('headline', '')}", flush=True)
    text = table(known)
    print(text)
    if args.table:
        args.table.write_text(text + "\n")
    return 0 if known and all(entry["right"] for entry in known.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
