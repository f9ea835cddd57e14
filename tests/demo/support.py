"""What the tests of the demo share: the stand-in on the path, and runs of demo/train.py without its pauses.

The stand-in is put in front of any real torch of this machine, in the tests' own process only.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "demo")
SIMULATED = os.path.join(DEMO, "simulated")
sys.path.insert(0, SIMULATED)
sys.dont_write_bytecode = True

MIB = 1 << 20
GIB = 1 << 30

MESSAGE = re.compile(
    r"torch\.OutOfMemoryError: CUDA out of memory\. Tried to allocate (?P<requested>[\d.]+ \w+)\. "
    r"GPU 0 has a total capacity of (?P<capacity>[\d.]+ \w+) of which (?P<free>[\d.]+ \w+) is free\. "
    r"(?:Process \d+ has (?P<foreign>[\d.]+ \w+) memory in use\. )?"
    r"Including non-PyTorch memory, this process has (?P<own>[\d.]+ \w+) memory in use\. "
    r"(?:(?P<allowed>[\d.]+ \w+) allowed; )?"
    r"Of the allocated memory (?P<allocated>[\d.]+ \w+) is allocated by PyTorch, "
    r"and (?P<unallocated>[\d.]+ \w+) is reserved by PyTorch but unallocated\. "
    r"If reserved but unallocated memory is large try setting "
    r"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation\."
)
"""The message as torch 2.4 to 2.12 print it; the exception's class as tracebacks name it."""

UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": GIB}


def size(text):
    """Bytes of a printed size."""
    number, unit = text.split()
    return float(number) * UNITS[unit]


def environment(**changes):
    """This process's, without what would change a run, at a speed without pauses."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OOMPH_", "PYTORCH_", "PYTHON", "CUDA_VISIBLE"))
    }
    kept.update(OOMPH_SIMULATED_SPEED="0", PYTHONDONTWRITEBYTECODE="1")
    kept.update(changes)
    return kept


class Run:
    """A finished run: exit status, output, and the figures in it."""

    def __init__(self, *words, **changes):
        finished = subprocess.run(
            [sys.executable, os.path.join(DEMO, "train.py")] + list(words),
            env=environment(**changes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=120,
        )
        self.status = finished.returncode
        self.output = finished.stdout.decode()
        self.errors = finished.stderr.decode()
        self.oom = MESSAGE.search(self.errors)

    def oom_size(self, name):
        """Bytes of one of the message's figures."""
        return size(self.oom.group(name))

    @property
    def peak(self):
        """GiB allocated at most, of a run that finished."""
        return float(re.search(r"finished \d+ steps, peak ([\d.]+) GiB", self.output).group(1))


def simulated(*words, **changes):
    return Run("--simulated", *words, **changes)


def python(code, path=SIMULATED, **changes):
    """A fresh interpreter that sees the stand-in: (status, stdout, stderr)."""
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(PYTHONPATH=path, **changes),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    return finished.returncode, finished.stdout.decode(), finished.stderr.decode()
