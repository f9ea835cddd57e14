"""The first line of every connection: which process this is, and which devices it sees."""

from __future__ import annotations

import os
import sys

from ..common import spool
from . import allocator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..common.protocols import Line, Torch
    from .allocator import Allocator


def compose(torch: Torch, pid: int, read: Allocator) -> Line:
    """Called once CUDA is initialised, since querying devices would initialise it."""
    line = {
        "event": "hello",
        "pid": pid,
        "run": number("OOMPH_PROBE_RUN") or 1,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "torch": str(torch.__version__),
        "devices": read.devices(),
    }
    line.update(ranks())
    line["node"] = spool.node()
    nodes = number_of_nodes()
    if nodes is not None:
        line["nodes"] = nodes
    step = slurm_step()
    if step is not None:
        line["slurm_step"] = step
    if is_wsl():
        line["wsl"] = True
    if getattr(getattr(torch, "version", None), "hip", None):
        # A build of one's own, as in AMD's images, does not have it in its version.
        line["rocm"] = True
    if read.backend is not None:
        line["backend"] = read.backend
    if read.resting is not None:
        line["resting"] = read.resting
    else:
        line.update(allocator.settings(torch))
    return line


def is_wsl() -> bool:
    """Whether this is WSL2, by the variable that it sets, or in a container by its kernel."""
    return "WSL_DISTRO_NAME" in os.environ or "microsoft" in os.uname().release


# Who numbers the ranks: torch's launchers, else SLURM's srun, Open MPI or another MPI.
NUMBERINGS = (
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
)


def ranks() -> dict[str, int]:
    """The rank, its number on this node, and how many there are, as far as they are known."""
    fields = ("rank", "local_rank", "world_size")
    for names in NUMBERINGS:
        values = [number(name) for name in names]
        # A single task is not numbered: what starts others in it may number those.
        if values[0] is not None and (names[0] == "RANK" or (values[2] or 0) > 1):
            return {field: value for field, value in zip(fields, values) if value is not None}
    return {}


def number_of_nodes() -> int | None:
    """On how many nodes the ranks are, as torchrun, srun or Open MPI say; or None."""
    for name in ("GROUP_WORLD_SIZE", "SLURM_STEP_NUM_NODES"):
        if number(name):
            return number(name)
    ranks, here = number("OMPI_COMM_WORLD_SIZE"), number("OMPI_COMM_WORLD_LOCAL_SIZE")
    return -(-ranks // here) if ranks and here else None


def slurm_step() -> str | None:
    """The step of srun that this process belongs to, as `squeue -s` prints it."""
    job, step = number("SLURM_JOB_ID"), number("SLURM_STEP_ID")
    # The last numbers are the batch script's and other steps without tasks.
    if job is None or step is None or step >= 0xFFFFFFF0:
        return None
    return "%d.%d" % (job, step)


def number(name: str) -> int | None:
    """The variable's value if it is a number that fits the wire's u32, or None."""
    try:
        value = int(os.environ.get(name, ""))
    except ValueError:
        return None
    return value if 0 <= value < 2**32 else None
