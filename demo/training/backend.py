"""Where the training runs: on a real GPU, or on the simulated one if there is none to use.

Nothing here imports the stand-in; it is put on sys.path only once the real torch is known to be unusable. A torch that
was imported to find that out cannot be unloaded, so the program then restarts itself, as the same process and with a
marker in the environment.
"""
import importlib.util
import os
import shutil
import subprocess
import sys

SIMULATED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "simulated")
MARK = "OOMPH_DEMO_SIMULATED_BECAUSE"
GPU_SIZE = "OOMPH_SIMULATED_CARD_GIB"

MIB = 1 << 20

IN_USE_SHARE = 0.1
"""More than this share of the device in use before the start: somebody works there."""


def choose(real, simulated, card_gib):
    """Makes `import torch` import the right one, and prints one line if that is the simulated one.

    Raises SystemExit with a reason where `real` is requested and not possible.
    """
    because = os.environ.pop(MARK, None)
    if because is None:
        if simulated:
            because = "asked for with --simulated"
        elif real:
            because = reason_against_torch()
            if because:
                raise SystemExit("train.py: --real, but %s; leave --real out to train on the simulated GPU" % because)
        else:
            because = reason_against_device() or reason_against_torch() or reason_against_memory()
        if because is None:
            return
        if any(name == "torch" or name.startswith("torch.") for name in sys.modules):
            restart(because)
    if card_gib is not None:
        os.environ[GPU_SIZE] = "%g" % card_gib
    sys.path.insert(0, SIMULATED)
    size = os.environ.get(GPU_SIZE, "24")
    print("simulated GPU (%s GiB): %s. No figure below was measured on a GPU." % (size, because), flush=True)


def reason_against_torch():
    """Why the installed torch cannot be used, or None. Imports it only if it is installed."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed here"
    try:
        import torch

        if torch.cuda.is_available():
            return None
        return "PyTorch %s finds no CUDA device here" % torch.__version__
    except Exception as error:  # Whatever it died of, a torch that cannot be imported is of no use here.
        first_line = str(error).partition("\n")[0]
        return "PyTorch cannot be used here (%s: %s)" % (type(error).__name__, first_line)


def reason_against_device():
    """Why the device should not be used, or None: others use it. Asks nvidia-smi, which creates no context."""
    if importlib.util.find_spec("torch") is None or shutil.which("nvidia-smi") is None:
        return None
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    if not first:
        return None
    try:
        answer = subprocess.run(
            ["nvidia-smi", "-i", first, "--query-gpu=memory.used,memory.total", "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=10,
        ).stdout.decode(errors="replace")
        used, total = (float(field) for field in answer.splitlines()[0].split(","))
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None
    return reason_if_used(first, used, total)


def reason_against_memory():
    """The same, asking torch, which creates a context: only if there is no nvidia-smi."""
    if shutil.which("nvidia-smi") is not None:
        return None
    import torch

    free, total = torch.cuda.mem_get_info(0)
    return reason_if_used("0", (total - free) / MIB, total / MIB)


def reason_if_used(device, used, total):
    """Figures in MiB."""
    if used <= IN_USE_SHARE * total:
        return None
    return "GPU %s is in use (%.0f of %.0f MiB; --real trains on it all the same)" % (device, used, total)


def restart(because):
    """Replaces this process by itself: same arguments, same environment, and the marker."""
    os.environ[MARK] = because
    words = getattr(sys, "orig_argv", None)
    words = words[1:] if words else sys.argv
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable] + list(words))
