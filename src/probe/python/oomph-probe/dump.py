"""PyTorch's own snapshot, saved where memory ran out: the pickle that PyTorch's memory_viz page opens.

Written beside its name and moved there when it is whole. A program that catches one out-of-memory
after another gets its first ones saved and no more.
"""
import os
import pickle

MOST = 3


class Dump:
    """The snapshots of one process."""

    def __init__(self, process, directory):
        self.process = process
        self.directory = directory
        self.saved = 0

    def save(self):
        """Saves what the allocators of all devices hold; says where, or why not."""
        if self.saved >= MOST:
            return
        self.saved += 1
        name = "oom-%d-%d.pickle" % (self.process.pid, self.saved)
        path = os.path.join(self.directory, name)
        part = path + ".part"
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            whole = self.process.torch.cuda.memory._snapshot()
            # It names files, and with the program's own history whatever it noted: for its user alone.
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
    """The snapshots that were asked for, or None."""
    directory = os.environ.get("OOMPH_PROBE_SNAPSHOT")
    return Dump(process, directory) if directory else None
