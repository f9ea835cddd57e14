"""The batch scripts of `oomph help clusters`, as they are printed: 16 ranks on two nodes each."""
import os
import pathlib
import textwrap

from scenarios import ENDED
from slurm import GPUS
from stage import FITS, TRAIN, check, of_kind

RANKS = 2 * GPUS
# What the scripts leave to the user: their train.py. It has simulated GPUs, so batches that fit these.
PROGRAM = """\
import runpy, sys
sys.argv[1:] = ["--batch-size", "{batch}", "--steps", "5", "--odd-rank", "-1", "--port", "{port}", "--steps-log", "{log}"]
runpy.run_path("{train}", run_name="__main__")
"""


def scripts(text):
    """The indented blocks that begin like a script."""
    found, block = [], None
    for line in text.splitlines():
        if line.startswith("    #!"):
            block = []
            found.append(block)
        if not line.startswith("    "):
            block = None
        if block is not None:
            block.append(line)
    return [textwrap.dedent("\n".join(block)) + "\n" for block in found]


def printed_scripts(stage):
    torchrun, per_rank = scripts(stage.ask_oomph("help", "clusters"))
    check("srun torchrun" in torchrun and "srun python train.py" in per_rank, torchrun, per_rank)
    chosen = {"per-rank": per_rank}
    if stage.torchrun:
        chosen["torchrun"] = torchrun
    measured = {}
    for name, script in chosen.items():
        measured[name] = run(stage, name, script)
    return measured


def run(stage, name, script):
    place = stage.place / name
    log = place / "log"
    log.mkdir(parents=True)
    stage.port += 1
    stage.state = place / "state"
    (place / "train.py").write_text(PROGRAM.format(batch=FITS, port=stage.port, log=log, train=TRAIN))
    directories = [stage.oomph.parent, *([pathlib.Path(stage.torchrun).parent] if stage.torchrun else [])]
    variables = {key: str(value) for key, value in stage.variables().items()}
    variables["PATH"] = os.pathsep.join([*map(str, directories), os.environ["PATH"]])
    job = stage.cluster.submit(script, "-D", str(place), "-o", str(stage.output(name)), variables=variables)
    state = stage.cluster.await_state(job, *ENDED, seconds=300)["JobState"]
    check(state == "COMPLETED", state, stage.said(name)[-3000:])
    events = stage.only_events()
    ranks = {hello["rank"]: hello.get("node") for hello in of_kind(events, "hello")}
    check(sorted(ranks) == list(range(RANKS)), "ranks seen:", sorted(ranks))
    steps = {}
    for step in of_kind(events, "step"):
        steps[step["pid"]] = max(steps.get(step["pid"], 0), step["count"])
    check(sorted(steps.values()) == [5] * RANKS, "last steps seen:", steps)
    return {"ranks": len(ranks), "nodes": len(set(ranks.values()))}


ALL = [printed_scripts]
