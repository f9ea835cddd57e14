"""PyTorch's own snapshot, saved at an OOM or when somebody asks for it: the pickle that PyTorch's page memory_viz
opens.

Written to a temporary name and renamed when complete. A program that catches one OOM after another
gets only its first ones saved.
"""

from __future__ import annotations

import os
import pickle
import stat

from ..common import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..common.protocols import Torch

MOST = 3
# The front shows the note that is about this after the key was pressed.
ABOUT = "snapshot"
OPENS = "opens in pytorch.org/memory_viz"


class Dump:
    """The snapshots of this process."""

    def __init__(self, torch: Torch, pid: int, note: Callable[[str, str], None]) -> None:
        self.torch = torch
        self.pid = pid
        self.note = note
        # Where one is saved at an OOM, if that is wanted.
        self.directory = os.environ.get("OOMPH_PROBE_SNAPSHOT")
        self.saved = 0
        self.saved_now = 0

    def save(self) -> bool:
        """At an OOM: the snapshot of all devices. Whether there is something to say."""
        if not self.directory or self.saved >= MOST:
            return False
        self.saved += 1
        self.write(self.directory, "oom-%d-%d" % (self.pid, self.saved))
        return True

    def save_now(self, directory: str) -> None:
        """On a key: that of this moment."""
        self.saved_now += 1
        self.write(directory, "snapshot-%d-%d" % (self.pid, self.saved_now))

    def write(self, directory: str, name: str) -> None:
        """Says where it is, or why it is nowhere."""
        path = os.path.join(directory, name + ".pickle")
        # In a directory that others can write to, a name that can be guessed may wait there as a link.
        part = os.path.join(directory, ".oomph-%s.new" % os.urandom(8).hex())
        is_ours = False
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            whole = self.torch.cuda.memory._snapshot()
            refuse_what_is_of_others(path)
            # Private to the user: it contains file names, and anything the program recorded in its history.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(part, flags, 0o600), "wb") as out:
                is_ours = True
                pickle.dump(whole, out)
            os.replace(part, path)
            self.note("snapshot saved: %s (%s)" % (path, opens(whole)), ABOUT)
        except Exception as error:
            errors.foreseen("save a snapshot")
            self.note("no snapshot in %s: %s" % (directory, error), ABOUT)
            try:
                if is_ours:
                    os.unlink(part)
            except OSError:
                pass


def refuse_what_is_of_others(path: str) -> None:
    """A file of this user's is replaced; a link, a device or anything of somebody else's stays."""
    try:
        about = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
        raise OSError("%s is not a file of yours; name another directory" % path)


def opens(snapshot: dict[str, Any]) -> str:
    """With what, and what there is to see in it."""
    if any(snapshot.get("device_traces", ())):
        return OPENS
    return OPENS + ": which blocks there are; for their history start with --snapshot DIR"
