"""PyTorch's own snapshot, saved at an OOM or when somebody asks for it: the pickle that PyTorch's memory_viz page opens.

Written to a temporary name and renamed when complete. A program that catches one OOM after another
gets only its first ones saved.
"""
import os
import pickle

MOST = 3
OPENS = "opens in pytorch.org/memory_viz"


class Dump:
    """The snapshots of this process."""

    def __init__(self, process):
        self.process = process
        # Where one is saved at an OOM, if that is wanted.
        self.directory = os.environ.get("OOMPH_PROBE_SNAPSHOT")
        self.saved = 0
        self.saved_now = 0

    def save(self):
        """At an OOM: the snapshot of all devices. Whether there is something to say."""
        if not self.directory or self.saved >= MOST:
            return False
        self.saved += 1
        self.write(self.directory, "oom-%d-%d" % (self.process.pid, self.saved))
        return True

    def save_now(self, directory):
        """On a key: that of this moment."""
        self.saved_now += 1
        self.write(directory, "snapshot-%d-%d" % (self.process.pid, self.saved_now))

    def write(self, directory, name):
        """Says where it is, or why it is nowhere."""
        path = os.path.join(directory, name + ".pickle")
        part = path + ".part"
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
            whole = self.process.torch.cuda.memory._snapshot()
            # Private to the user: it contains file names, and anything the program recorded in its history.
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                pickle.dump(whole, out)
            os.replace(part, path)
            self.process.note("snapshot saved: %s (%s)" % (path, opens(whole)))
        except Exception as error:
            self.process.note("no snapshot in %s: %s" % (directory, error))
            try:
                os.unlink(part)
            except OSError:
                pass


def opens(snapshot):
    """With what, and what there is to see in it."""
    if any(snapshot.get("device_traces", ())):
        return OPENS
    return OPENS + ": which blocks there are; for their history start with --snapshot DIR"
