"""PyTorch's own snapshot, saved at an OOM: the pickle that PyTorch's memory_viz page opens.

Written to a temporary name and renamed when complete. A program that catches one OOM after another
gets only its first ones saved.
"""
import os
import pickle

MOST = 3


class Dump:
    """The snapshots of this process."""

    def __init__(self, process, directory):
        self.process = process
        self.directory = directory
        self.saved = 0

    def save(self):
        """Saves the snapshot of all devices; returns the path, or why it failed."""
        if self.saved >= MOST:
            return
        self.saved += 1
        name = "oom-%d-%d.pickle" % (self.process.pid, self.saved)
        path = os.path.join(self.directory, name)
        part = path + ".part"
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            whole = self.process.torch.cuda.memory._snapshot()
            # Private to the user: it contains file names, and anything the program recorded in its history.
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                pickle.dump(whole, out)
            os.replace(part, path)
            self.process.note("snapshot saved: %s (opens in pytorch.org/memory_viz)" % path)
        except Exception as error:
            self.process.note("no snapshot in %s: %s" % (self.directory, error))
            try:
                os.unlink(part)
            except OSError:
                pass


def of(process):
    """The snapshot writer if snapshots were requested, or None."""
    directory = os.environ.get("OOMPH_PROBE_SNAPSHOT")
    return Dump(process, directory) if directory else None
