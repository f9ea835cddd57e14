"""The second way out: a file of this process in the session's spool directory, on a file system that the
cluster shares. It is for a process that the UI's socket does not exist for, because it runs on another
node or in a container. `wire.Wire` has the same methods.

Only the sampler's thread touches the file system, and nobody joins it: a mount that hangs stops neither a
step nor the exit. One writer a file and whole lines, without locks and renames, so that NFS and Lustre
show a reader nothing but a beginning of what was written.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from _thread import get_ident

from . import pace, rotation, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .protocols import Line

# The marker of the session, written by the UI, by which a process knows that it sees the same directory.
MARKER = "session"
# A name is taken only by an earlier process of the same number.
TRIES = 100
# Seconds between two looks at the free space, and at whether the file is still in the directory.
LOOK = 10.0
# Space that is left to the training: a twentieth of the file system, at most this.
LEFT_ALONE = 1 << 30
# Seconds until a full disk is tried again.
FULL_PAUSE = 30.0
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Spool:
    """The file, opened when there is something to write and again, under another name, when it was lost."""

    reads_devices = True
    sends_at_steps = False
    # Its writer has a pace of its own.
    is_urgent = True

    def __init__(
        self, directory: str, pid: int, wake_writer: Callable[[], None], greeting: Callable[[], Line]
    ) -> None:
        self.directory = directory
        self.pid = pid
        # Wakes the sampler's thread, which writes.
        self.wake_writer = wake_writer
        self.greeting = greeting
        self.hello: Any = None
        self.lines = pace.Lines(number_of_ranks())
        self.interval = self.lines.interval
        self.writer: int | None = None
        self.file: Any = None
        self.identity: Any = None
        self.unwritten = b""
        self.sequence = 0
        self.generation = 0
        self.connections = 0
        self.written = 0
        self.looked = 0.0
        self.paused_until = 0.0
        self.cap = rotation.cap(number_of_ranks())

    def put(self, line: Line, ns: int | None = None, keep: bool = False) -> None:
        """Queues a line. With `keep` it is one of an OOM, for which there is always room."""
        stamped = {"ns": time.monotonic_ns() if ns is None else ns}
        stamped.update(line)
        self.lines.add(stamped, keep)

    def is_connected(self) -> bool:
        return self.file is not None

    def pause(self, _: float) -> float:
        """Seconds between two readings."""
        return self.interval

    def receive(self) -> bytes:
        """Nobody can ask: there is a file and no socket."""
        return b""

    def flush(self, timeout: float, although_stalled: bool = False) -> bool:
        """Writes what is queued; on a thread of the training only waits, briefly, for that."""
        if get_ident() == self.writer:
            return self.write()
        self.wake_writer()
        deadline = time.monotonic() + timeout
        while self.lines.has_kept():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.002)
        return True

    def end(self) -> None:
        """The last line: the process is about to end by itself."""
        if self.file is not None:
            self.lines.add({"ns": time.monotonic_ns(), "event": "end"}, True)
            self.write(at_end=True)

    def abandon(self) -> None:
        """In a forked child: the file is the parent's."""
        inherited, self.file = self.file, None
        self.lines = pace.Lines(1)
        if inherited is not None:
            self.let_go(inherited)

    def write(self, at_end: bool = False) -> bool:
        now = time.monotonic()
        if now < self.paused_until and not at_end:
            return False
        try:
            if self.file is not None and wire.identity(self.file) != self.identity:
                self.lose()
            if self.file is None:
                self.open()
            if now - self.looked >= LOOK:
                self.look(now)
            self.unwritten += b"".join(map(self.numbered, self.lines.take(now, at_end)))
            if self.unwritten:
                self.send()
            if self.written > self.cap:
                self.rotate()
            return True
        except OSError as error:
            if error.errno in FULL:
                self.paused_until = now + FULL_PAUSE
            else:
                self.lose()
            return False

    def send(self) -> None:
        while self.unwritten:
            written = os.write(self.file, self.unwritten)
            self.written += written
            # The rest of a line that did not fit follows when there is room again.
            self.unwritten = self.unwritten[written:]
        # NFS's client keeps what is written for up to half a minute, unless it is told to send it (nfs(5), "async").
        os.fdatasync(self.file)

    def numbered(self, line: Line) -> bytes:
        self.sequence += 1
        return b'{"seq":%d,' % self.sequence + wire.encode(line)[1:]

    def look(self, now: float) -> None:
        self.looked = now
        about = os.statvfs(self.file)
        whole = about.f_blocks * about.f_frsize
        if about.f_bavail * about.f_frsize < min(LEFT_ALONE, whole // 20):
            raise OSError(errno.ENOSPC, "the rest is the training's")
        if os.fstat(self.file).st_nlink == 0:
            raise OSError(errno.ENOENT, "the file was removed")

    def open(self) -> None:
        if self.hello is None:
            self.hello = self.greeting()
        self.file = self.create()
        self.identity = wire.identity(self.file)
        self.connections += 1
        self.written = 0
        self.unwritten = b""
        self.lines.first(dict(self.hello, ns=time.monotonic_ns()))

    def create(self) -> int:
        """A new file in the directory, which must be the session's and nobody else's."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        directory = os.open(self.directory, flags)
        try:
            self.check(directory)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            for _ in range(TRIES):
                self.generation += 1
                try:
                    return os.open(self.name(), flags, 0o600, dir_fd=directory)
                except FileExistsError:
                    continue
            raise OSError(errno.EEXIST, "every name is taken")
        finally:
            os.close(directory)

    def check(self, directory: int) -> None:
        about = os.fstat(directory)
        if about.st_uid != os.geteuid() or about.st_mode & 0o077:
            raise OSError(errno.EPERM, "others may write there")
        marker = os.open(MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            about = os.fstat(marker)
            if about.st_uid != os.geteuid() or not stat.S_ISREG(about.st_mode):
                raise OSError(errno.EPERM, "the marker is not ours")
            said = json.loads(os.read(marker, 4096).decode("utf-8", "replace"))
        except ValueError:
            raise OSError(errno.EPERM, "the marker cannot be read") from None
        finally:
            os.close(marker)
        if said.get("session") != os.environ.get("OOMPH_SESSION"):
            raise OSError(errno.EPERM, "the marker is another session's")

    def name(self) -> str:
        safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in node())[:64]
        return "%d-%s-%d-%d.jsonl" % (self.hello["run"], safe, self.pid, self.generation)

    def rotate(self) -> None:
        """Goes on in a new file that begins with what is worth keeping of this one."""
        before, name = self.file, self.name()
        kept = rotation.thinned(os.pread(before, self.written, 0), self.cap // 2)
        self.file = self.create()
        self.let_go(before)
        self.identity = wire.identity(self.file)
        self.written = 0
        self.unwritten = kept
        os.unlink(os.path.join(self.directory, name))

    def flush_at_once(self) -> None:
        """Only the thread that writes touches the file system."""

    def lose(self) -> None:
        """The file cannot be written any more; the next one begins with a hello."""
        lost, self.file = self.file, None
        if lost is not None:
            self.let_go(lost)

    def let_go(self, file: int) -> None:
        # The program may have closed all numbers that it does not know, and have opened a file of its own under this.
        if wire.identity(file) == self.identity:
            try:
                os.close(file)
            except OSError:
                pass


def of(socket: str, pid: int, wake_writer: Callable[[], None], greeting: Callable[[], Line]) -> Spool | None:
    """The spool for a process that the UI's socket does not exist for, or None."""
    directory = os.environ.get("OOMPH_PROBE_SPOOL")
    if directory and (not os.path.lexists(socket) or is_elsewhere()):
        return Spool(directory, pid, wake_writer, greeting)
    return None


def is_elsewhere() -> bool:
    """Whether this is another machine than the UI's: on a shared file system its socket is seen, but
    cannot be connected to."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip() != os.environ.get("OOMPH_PROBE_BOOT", "")
    except OSError:
        return False


def node() -> str:
    """The name of this node, as SLURM or the kernel knows it."""
    return os.environ.get("SLURMD_NODENAME") or os.uname()[1]


def number_of_ranks() -> int:
    for name in ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        try:
            return max(int(os.environ[name]), 1)
        except (KeyError, ValueError):
            pass
    return 1
