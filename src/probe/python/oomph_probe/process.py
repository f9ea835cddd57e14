"""The probe of this process from its import of torch on: what must be there before CUDA is initialised. All else is
attached then (attached.py): every file that is read at `import torch` delays each Python of a program.
"""

from __future__ import annotations

import os
import sys

from .common import errors, signals, spool, wire
from .live import loaders, recording
from .oom import uncaught

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .attached import Attached
    from .common.protocols import Line, Torch
    from .patch import patches

# Milliseconds that the program's exit may wait for the last lines. It takes this long only on a
# machine so busy that the thread is not scheduled; tests on such a machine raise it.
FLUSH_AT_EXIT = 200


class Settings:
    """What the environment said when torch was imported; the program may change it later."""

    def __init__(self) -> None:
        self.socket = os.environ["OOMPH_PROBE_SOCKET"]
        self.interval = milliseconds("OOMPH_PROBE_INTERVAL_MS", 100, at_least=10)
        self.flush_at_exit = milliseconds("OOMPH_PROBE_FLUSH_MS", FLUSH_AT_EXIT, at_least=0)
        self.rehearsed_step = rehearsed_step()
        # Where nobody asks what another run would need, calls are noted all the same: they say what the batch is, and
        # each backward is a step where there is no optimizer.
        self.rehearses = os.environ.get("OOMPH_PROBE_REHEARSE") != "0"


class Process:
    """One training process from its import of torch on: what must be there before CUDA is initialised."""

    def __init__(self, torch: Torch) -> None:
        self.torch = torch
        errors.here.is_a_handlers = signals.is_a_handlers
        errors.here.is_refusal = getattr(sys.modules.get("_oomph_hook"), "is_refusal", None)
        self.version = version_of(torch)
        self.settings = Settings()
        self.recording = self.make_recording()
        self.patches = self.make_patches()
        self.loaders = loaders.Loaders(self.tell_of_loaders)
        self.loaders.watch()
        self.uncaught = uncaught.Uncaught()
        self.uncaught.watch_children()
        self.armed = False
        # From CUDA's initialisation on.
        self.attached: Attached | None = None

    def make_recording(self) -> recording.Recording | None:
        """The stack recording, made before the program can have started one of its own; or None."""
        if os.environ.get("OOMPH_PROBE_LINES") == "0" or self.version < (2, 1):
            return None
        seconds = milliseconds("OOMPH_PROBE_SETTLE_MS", 5000, at_least=10)
        return recording.Recording(self.torch, seconds)

    def make_patches(self) -> patches.Patches | None:
        """The patches named in the environment; or None."""
        if not os.environ.get("OOMPH_PATCHES") and "_oomph_source" not in sys.modules:
            return None
        from .patch import patches

        return patches.of_environment(self.torch, self.version)

    def tell_of_loaders(self, known: list[Line]) -> None:
        """DataLoaders have started workers; once CUDA is initialised, the sampler tells of them."""
        if self.armed or ("OOMPH_PROBE_BOOT" in os.environ and spool.is_elsewhere()):
            return
        wire.say_once(self.settings.socket, {"event": "process_host", "pid": os.getpid(), "loaders": known})

    def arm(self) -> None:
        """Runs inside torch's CUDA initialisation; an exception here would make that fail."""
        try:
            if not self.armed:
                self.armed = True
                # Most Pythons that import torch use no GPU: workers, launchers, compilers. They read none of this.
                from . import attached

                self.attached = attached.Attached(
                    self.torch, self.version, self.settings, self.recording, self.patches, self.uncaught, self.loaders
                )
                self.attached.start()
        except BaseException:
            errors.refused("attach to the training")

    def compiler_imported(self) -> None:
        """torch's compiler is there, which a program imports by using it."""
        if self.attached is not None and self.attached.roots is not None:
            self.attached.roots.compiler_imported()


def rehearsed_step() -> int:
    """The step that is rehearsed though memory does not run out; 0 for none."""
    text = os.environ.get("OOMPH_PROBE_REHEARSE", "")
    return int(text) if text.isdigit() and int(text) > 1 else 0


def version_of(torch: Torch) -> tuple[int, int]:
    """`(2, 11)` of "2.11.0+cu130"; `(0, 0)` where it cannot be parsed."""
    try:
        major, minor = str(torch.__version__).split(".")[:2]
        return int(major), int(minor)
    except Exception:
        errors.foreseen("torch's version")
        return 0, 0


def milliseconds(name: str, default: int, at_least: int) -> float:
    """A variable in milliseconds, capped at a minute, returned in seconds."""
    try:
        value = int(os.environ.get(name, default))
    except ValueError:
        value = default
    return min(max(value, at_least), 60000) / 1000.0
