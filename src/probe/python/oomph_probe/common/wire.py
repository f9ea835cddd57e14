"""One JSON object per line over the UI's Unix socket. Does not depend on what the lines contain.

Every wait here is short and bounded, and without a UI only OOM records are kept: the training must
not notice whether anybody listens.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import socket
import time
from _thread import allocate_lock

from . import clock, errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .protocols import Line

# Lines that may wait for a slow UI: about ten seconds at 10 Hz and 50 steps per second.
MAX_WAITING = 600
# Records and notes kept across connections; a program that catches OOMs in a loop makes many.
MAX_KEPT = 12
# Bytes read at a time of what the UI asks.
RECEIVED = 4096
# Lines of one system call.
AT_ONCE = 16
# Lines of what is as it was, more or less: the UI draws it a few times a second, and is not woken up for each.
READINGS = frozenset(("sample", "step"))
# Seconds that a line of its own may take; a UI that listens takes microseconds.
ONCE = 0.05


class Wire:
    """A connection, opened when there is something to send and reopened when it was lost."""

    # NVML reads the devices of this machine.
    reads_devices = False
    # A socket takes what it has room for and never makes a step wait.
    sends_at_steps = True

    def __init__(self, path: str, greeting: Callable[[], Line]) -> None:
        self.path = path
        self.greeting = greeting
        self.hello: Any = None
        self.lock = allocate_lock()
        self.socket: Any = None
        self.identity: Any = None
        self.waiting: collections.deque[Any] = collections.deque()
        self.first_sent = 0
        self.dropped = 0
        # Whether more than readings is queued.
        self.is_urgent = False
        self.connections = 0
        # The UI's buffer was full at the last attempt: do not wait for it again.
        self.stalled = False
        # The sampler's thread; here every thread sends.
        self.writer: int | None = None

    def put(self, line: Line, ns: int | None = None, keep: bool = False) -> None:
        """Queues a line. With `keep` it survives a lost connection."""
        stamped = {"ns": clock.monotonic_ns() if ns is None else ns}
        stamped.update(line)
        if keep:
            kept = [entry for entry in list(self.waiting) if entry[1]]
            if len(kept) >= MAX_KEPT:
                return
        elif len(self.waiting) >= MAX_WAITING:
            self.dropped += 1
            return
        self.waiting.append((encode(stamped), keep))
        if keep or line.get("event") not in READINGS:
            self.is_urgent = True

    def is_connected(self) -> bool:
        return self.socket is not None

    def pause(self, interval: float) -> float:
        """Seconds between two readings."""
        return interval

    def end(self) -> None:
        """The kernel closes the connection when the process has ended."""

    def flush(self, timeout: float, although_stalled: bool = False) -> bool:
        """Sends what is queued, connecting first; False if it did not finish within `timeout` seconds. A UI that
        did not read the last time is not waited for again, unless asked for."""
        if self.stalled and not although_stalled:
            timeout = 0.0
        if not self.lock.acquire(True, timeout):
            return False
        return self.send_all(time.monotonic() + timeout)

    def flush_at_once(self) -> None:
        """Sends what a connection takes without any wait, for a thread of the training."""
        if not self.lock.acquire(False):
            return
        if self.socket is None:
            self.lock.release()
        else:
            self.send_all(None)

    def send_all(self, deadline: float | None) -> bool:
        """With the lock held, which it releases; without a deadline nothing is waited for."""
        try:
            if self.socket is not None and not self.is_ours():
                self.lose()
                if deadline is None:
                    return False
            if self.socket is None:
                self.connect(deadline)
            if self.dropped and len(self.waiting) < MAX_WAITING:
                dropped, self.dropped = self.dropped, 0
                self.put({"event": "dropped", "samples": dropped})
            self.is_urgent = False
            while self.waiting:
                self.send_some(deadline)
            self.stalled = False
            return True
        except socket.timeout:
            errors.foreseen("wait for the UI")
            self.stalled = self.is_urgent = True
            return False
        except BlockingIOError:
            return False
        except OSError:
            errors.foreseen("send to the UI")
            self.lose()
            return False
        finally:
            self.lock.release()

    def connect(self, deadline: float | None) -> None:
        if self.hello is None:
            self.hello = self.greeting()
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(remaining(deadline))
            connection.connect(self.path)
            connection.settimeout(0.0)
            self.identity = identity(connection.fileno())
        except BaseException:
            connection.close()
            raise
        hello = dict(self.hello, ns=clock.monotonic_ns())
        self.waiting.appendleft((encode(hello), False))
        self.first_sent = 0
        self.socket = connection
        self.connections += 1

    def send_some(self, deadline: float | None) -> None:
        """The first lines, in one system call where there is room for them."""
        entries = list(itertools.islice(self.waiting, AT_ONCE))
        unsent = memoryview(b"".join(line for line, _ in entries))[self.first_sent :]
        self.first_sent += self.send(unsent, deadline)
        for line, _ in entries:
            if self.first_sent < len(line):
                break
            self.first_sent -= len(line)
            self.waiting.popleft()

    def send(self, unsent: memoryview, deadline: float | None) -> int:
        # The program may have reset SIGPIPE to its default action, which kills the process.
        try:
            return self.socket.send(unsent, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            if deadline is None:
                raise
        self.socket.settimeout(remaining(deadline))
        try:
            return self.socket.send(unsent, socket.MSG_NOSIGNAL)
        finally:
            self.socket.settimeout(0.0)

    def lose(self) -> None:
        """The UI is gone: only OOM records wait for the next one."""
        if self.socket is not None:
            self.let_go(self.socket)
            self.socket = None
        self.first_sent = 0
        self.dropped = 0
        self.stalled = False
        # One by one, since another thread may be adding a record right now.
        for _ in range(len(self.waiting)):
            entry = self.waiting.popleft()
            if entry[1]:
                self.waiting.append(entry)

    def is_ours(self) -> bool:
        """Whether the connection's number is still that of the connection: a program may close all numbers that it
        does not know (`os.closerange`, a daemon), and then open a file of its own under this one."""
        return identity(self.socket.fileno()) == self.identity

    def let_go(self, connection: Any) -> None:
        if identity(connection.fileno()) != self.identity:
            # What has the number now is the program's.
            connection.detach()
        connection.close()

    def receive(self) -> bytes:
        """What the UI has sent since the last call; nothing if another thread is sending."""
        if self.socket is None or not self.lock.acquire(False):
            return b""
        try:
            if not self.is_ours():
                self.lose()
                return b""
            received = self.socket.recv(RECEIVED)
            if not received:
                self.lose()
            return received
        except BlockingIOError:
            return b""
        except OSError:
            self.lose()
            return b""
        finally:
            self.lock.release()

    def abandon(self) -> None:
        """In a forked child: closes the parent's socket, without its lock, which may be taken."""
        inherited, self.socket = self.socket, None
        self.waiting = collections.deque()
        if inherited is not None:
            self.let_go(inherited)


def say_once(path: str, line: Line) -> None:
    """One line over a connection of its own. Raises where nobody listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(ONCE)
        connection.connect(path)
        stamped = {"ns": clock.monotonic_ns()}
        stamped.update(line)
        connection.sendall(encode(stamped), socket.MSG_NOSIGNAL)
    finally:
        connection.close()


def identity(descriptor: int) -> Any:
    """What a descriptor's number stands for now; None where that is nothing."""
    try:
        about = os.fstat(descriptor)
        return about.st_dev, about.st_ino
    except OSError:
        return None


def encode(line: Line) -> bytes:
    # A path that is not valid UTF-8 has lone surrogates here, which JSON readers reject.
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def remaining(deadline: Any) -> float:
    """Seconds left; never 0, which would make the socket non-blocking."""
    return max(deadline - time.monotonic(), 0.001)
