"""The first line of every connection: which process this is, and which devices it sees."""
import os
import sys

from . import allocator


def compose(process):
    """Called once CUDA is initialised, since querying devices would initialise it."""
    torch = process.torch
    line = {
        "event": "hello",
        "pid": process.pid,
        "run": number("OOMPH_PROBE_RUN") or 1,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "torch": str(torch.__version__),
        "devices": process.allocator.devices(),
    }
    for field, name in (("rank", "RANK"), ("local_rank", "LOCAL_RANK"), ("world_size", "WORLD_SIZE")):
        value = number(name)
        if value is not None:
            line[field] = value
    if process.backend is not None:
        line["backend"] = process.backend
    if process.resting is not None:
        line["resting"] = process.resting
    else:
        line.update(allocator.settings(torch))
    return line


def number(name):
    """The variable's value if it is a number that fits the wire's u32, or None."""
    try:
        value = int(os.environ.get(name, ""))
    except ValueError:
        return None
    return value if 0 <= value < 2**32 else None
