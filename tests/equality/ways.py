"""The ways of running a program, and one run: what it wrote, what it left, how it ended.

A run has the processes that one has at a prompt: a shell, which leads the session, and a job in a process group of its own
that has the terminal if there is one.
"""
import ctypes
import errno
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import socket
import stat
import struct
import termios
import time

# The longest that a run, a step of it, or a process that it has left behind may take.
PATIENCE = 20.0
STEP = 2.0
# Of a thread in faulthandler's words: another one each time.
ADDRESS = re.compile(rb"0x0000[0-9a-f]{12}")
MARKER = "EQUALITY_MARKER"
ROWS, COLUMNS = 24, 80
LIBC = ctypes.CDLL(None, use_errno=True)


class Way:
    """What stdin, stdout and stderr are; whether there is a controlling terminal; whether oomph shows its screen."""

    def __init__(self, name, streams, terminal=False, screen=False):
        self.name, self.streams, self.terminal, self.screen = name, streams, terminal, screen


WAYS = {
    way.name: way
    for way in (
        Way("pipes", ("pipe", "pipe", "pipe")),
        Way("one-pipe", ("pipe", "pipe", "same")),
        Way("files", ("file", "file", "file")),
        Way("sockets", ("pipe", "socket", "socket")),
        Way("null", ("null", "null", "null")),
        # `command </dev/null >file 2>&1` at a prompt: /dev/tty is there all the same.
        Way("redirected", ("null", "file", "same"), terminal=True),
        # `command | tee log` at a prompt.
        Way("piped", ("terminal", "pipe", "terminal"), terminal=True),
        # `command 2>errors` at a prompt.
        Way("errors-apart", ("terminal", "terminal", "file"), terminal=True),
        Way("terminal", ("terminal", "terminal", "terminal"), terminal=True),
        Way("screen", ("terminal", "terminal", "terminal"), terminal=True, screen=True),
    )
}


class Outcome:
    """Everything that is compared, each under a name. All of it is bytes or words."""

    def __init__(self):
        self.items = {}


class Stream:
    """One end of what the job has as a stream, and what came out of it."""

    def __init__(self, fd):
        self.fd, self.data, self.open = fd, bytearray(), True


def run(argv, way, row, place, environment, record=None):
    """Runs `argv` in `place`, which is new, and says what came of it."""
    work, control = os.path.join(place, "work"), os.path.join(place, "control")
    for directory in (work, control, os.path.join(place, "home")):
        os.makedirs(directory)
    for name, text in row.files.items():
        with open(os.path.join(work, name), "wb") as file:
            file.write(text)
        # Python keeps a source's time in its compiled file.
        os.utime(os.path.join(work, name), (1600000000, 1600000000))
        os.chmod(os.path.join(work, name), 0o755 if text.startswith(b"#!") or name.startswith("run") else 0o644)
    environment = dict(environment, **row.environment)
    environment.update({MARKER: place, "EQUALITY_CONTROL": control, "HOME": os.path.join(place, "home"), "PWD": work})
    job = Job(argv, way, row, work, environment)
    try:
        return job.outcome(place, control, record)
    finally:
        job.close()


class Job:
    def __init__(self, argv, way, row, work, environment):
        self.way, self.row, self.work = way, row, work
        self.streams, self.master, self.slave = {}, None, None
        self.stdin_left, self.feed, self.feed_fd = None, b"", None
        inner, mine = [None] * 3, []
        if way.terminal:
            self.master, self.slave = pty.openpty()
            fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            self.before = termios.tcgetattr(self.slave)
            os.set_blocking(self.master, False)
            self.streams["terminal"] = Stream(self.master)
        given = row.stdin or b""
        for number, kind in enumerate(way.streams):
            name = ("stdin", "stdout", "stderr")[number]
            if kind == "terminal":
                inner[number] = self.slave
            elif kind == "same":
                inner[number] = inner[number - 1]
            elif kind == "null":
                inner[number] = os.open("/dev/null", os.O_RDWR)
            elif kind == "file":
                path = os.path.join(os.path.dirname(work), name)
                with open(path, "wb") as file:
                    file.write(given if number == 0 else b"")
                inner[number] = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | row.file_flags)
                mine.append((name, path))
            elif number == 0:
                reading, writing = os.pipe()
                fcntl.fcntl(writing, 1031, max(1 << 16, len(given)))
                os.write(writing, given)
                os.close(writing)
                inner[0] = reading
            else:
                if kind == "pipe":
                    reading, writing = os.pipe()
                else:
                    ours, theirs = socket.socketpair()
                    reading, writing = ours.detach(), theirs.detach()
                os.set_blocking(reading, False)
                inner[number] = writing
                self.streams[name] = Stream(reading)
        self.files, self.stdin = mine, inner[0]
        said, self.saying = os.pipe()
        self.said = said
        hold, self.hold = os.pipe()
        self.shell = os.fork()
        if self.shell == 0:
            try:
                os.close(self.hold)
                be_a_shell(argv, way, row, work, environment, inner, self.slave, self.saying, hold)
            finally:
                os._exit(99)
        os.close(self.saying)
        os.close(hold)
        for fd in set(inner[1:]) - {self.slave, self.stdin}:
            os.close(fd)
        self.job, self.status, self.told = None, None, b""

    def turn(self, seconds=0.02, reading=True):
        """Reads what there is, for at most `seconds`."""
        fds = [stream.fd for stream in self.streams.values() if stream.open and (reading is True or stream.fd == self.master)]
        if self.said is not None:
            fds.append(self.said)
        for fd in select.select(fds, [], [], seconds)[0]:
            if fd == self.said:
                chunk = os.read(fd, 64)
                if not chunk:
                    os.close(self.said)
                    self.said = None
                self.told += chunk
                numbers = struct.unpack("%di" % (len(self.told) // 4), self.told[:len(self.told) // 4 * 4])
                self.job = numbers[0] if numbers else None
                self.status = numbers[1] if len(numbers) > 1 else None
                continue
            self.read(fd, 1 << 16)

    def read(self, fd, most):
        stream = next(stream for stream in self.streams.values() if stream.fd == fd)
        try:
            chunk = os.read(fd, most)
        except BlockingIOError:
            return 0
        except OSError:
            chunk = b""
        stream.data += chunk
        if not chunk and fd != self.master:
            stream.open = False
        return len(chunk)

    def wait(self, what, seconds=PATIENCE, reading=True):
        """Whether it came to be."""
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                return False
            self.turn(reading=reading)
        return True

    def outcome(self, place, control, record):
        outcome = Outcome()
        items = outcome.items
        for step in self.row.steps:
            if not step(self, control):
                items["step %s" % step.words] = b"did not happen"
        ended = self.wait(lambda: self.status is not None)
        # What it left behind may still write.
        over = lambda: not any(stream.open for stream in self.streams.values() if stream.fd != self.master) and not left(place, self.shell)
        items["status"] = told(self.status).encode() if ended else b"did not end"
        if ended and not self.wait(over, self.row.left_behind):
            items["left behind"] = b" ".join(sorted(set(left(place, self.shell).values())))
        kill_all(place, self.shell)
        if self.master is not None:
            while self.read(self.master, 1 << 16):
                pass
            after = termios.tcgetattr(self.slave)
            items["terminal's settings"] = b"as before" if after == self.before else repr(after).encode()
        for name, stream in self.streams.items():
            items[name] = bytes(stream.data)
        for name, path in self.files:
            with open(path, "rb") as file:
                items[name] = file.read()
        if self.way.streams[0] in ("pipe", "file"):
            items["stdin left over"] = rest_of(self.stdin)
        items.pop("stdin", None)
        if record is not None:
            items["terminal"] = record()
        elif self.way.screen:
            # The log has what the training wrote, before the terminal made \r\n of \n.
            items["terminal"] = items["terminal"].replace(b"\r\n", b"\n")
        items.update(tree(self.work, "file"))
        items.update(tree(os.path.join(place, "home"), "home"))
        name = place.encode()
        outcome.items = {key: ADDRESS.sub(b"ADDRESS", value.replace(name, b"PLACE")) for key, value in items.items()}
        return outcome

    def close(self):
        os.close(self.hold)
        os.kill(self.shell, signal.SIGKILL)
        os.waitpid(self.shell, 0)
        for fd in {self.said, self.stdin, self.slave} | {stream.fd for stream in self.streams.values()}:
            if fd is not None:
                os.close(fd)

    # What a step may do.

    def program(self, control):
        """The program's own process, if it has told; else the job's."""
        try:
            with open(os.path.join(control, "pid")) as file:
                return int(file.read())
        except (OSError, ValueError):
            return self.job


def be_a_shell(argv, way, row, work, environment, inner, slave, saying, hold):
    """Starts the job, waits for it and tells how it ended; stays until it is killed."""
    os.setsid()
    # Python ignores two, and this may itself be run under nohup.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    if way.terminal:
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        if way.terminal:
            os.tcsetpgrp(slave, os.getpid())
        for number in (signal.SIGINT, signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        moved = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in inner]
        for number, fd in enumerate(moved):
            os.dup2(fd, number)
        os.closerange(3, 256)
        os.chdir(work)
        if row.setup:
            row.setup(environment)
        try:
            os.execvpe(argv[0], argv, environment)
        except OSError as error:
            # As a shell does, which says why and has a file without a first line run by itself.
            if error.errno == errno.ENOEXEC:
                os.execve("/bin/sh", ["sh"] + argv, environment)
            os._exit(127 if error.errno == errno.ENOENT else 126)
    # Of what the job writes to, only the terminal is the shell's too: the others are closed when the job has ended.
    for fd in set(inner) - {slave}:
        os.close(fd)
    if not row.setup:
        # As shells do, whoever of the two comes first. A setup may choose another group, which this would undo.
        try:
            os.setpgid(job, job)
        except OSError:
            pass
    os.write(saying, struct.pack("i", job))
    _, status = os.waitpid(job, 0)
    if way.terminal:
        os.tcsetpgrp(slave, os.getpid())
    os.write(saying, struct.pack("i", status))
    os.close(saying)
    while True:
        os.read(hold, 1) or time.sleep(1)


def told(status):
    if os.WIFSIGNALED(status):
        return "signal %d" % os.WTERMSIG(status)
    return "exit %d" % os.WEXITSTATUS(status)


def left(place, but):
    """The living processes of this run by their numbers, and what each is called."""
    mark, found = ("%s=%s" % (MARKER, place)).encode(), {}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == but:
            continue
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                if mark in file.read().split(b"\0"):
                    with open("/proc/%s/comm" % name, "rb") as file:
                        found[int(name)] = file.read().strip()
        except OSError:
            pass
    return found


def kill_all(place, but):
    for _ in range(100):
        numbers = left(place, but)
        if not numbers:
            return
        for number in numbers:
            try:
                os.kill(number, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.01)


def rest_of(fd):
    data = b""
    while True:
        try:
            chunk = os.read(fd, 1 << 16)
        except OSError as error:
            return b"error %d" % error.errno
        if not chunk:
            return data
        data += chunk


def tree(top, word):
    """Everything below a directory: kind, mode and content."""
    items = {}
    for directory, names, files in os.walk(top):
        for name in names + files:
            path = os.path.join(directory, name)
            shown = "%s %s" % (word, os.path.relpath(path, top))
            about = os.lstat(path)
            mode = b"%o " % about.st_mode
            if stat.S_ISLNK(about.st_mode):
                items[shown] = mode + os.fsencode(os.readlink(path))
            elif stat.S_ISREG(about.st_mode):
                with open(path, "rb") as file:
                    items[shown] = mode + file.read()
            else:
                items[shown] = mode
    return items


def remove(place):
    shutil.rmtree(place, ignore_errors=True)
