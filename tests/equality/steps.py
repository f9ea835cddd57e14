"""What happens to a program while it runs: signals, keys, a reader that does not read. Each waits for what it needs, and says
whether it came."""
import ctypes
import os
import signal

import ways


class Step:
    def __init__(self, words, act):
        self.words, self.act = words, act

    def __call__(self, job, control):
        return self.act(job, control)


def ready(name="ready"):
    """The program has made a file of this name in its control directory."""
    return Step("ready " + name, lambda job, control: job.wait(lambda: os.path.exists(os.path.join(control, name)) or job.status is not None))


def send(number, to_group=False, value=None):
    """A signal from outside; then the program has told of it, or has ended."""

    def act(job, control):
        path = os.path.join(control, "received")
        before = size(path)
        try:
            if value is not None:
                ways.LIBC.sigqueue(job.job, number, ctypes.c_void_p(value))
            elif to_group:
                os.killpg(job.job, number)
            else:
                os.kill(job.job, number)
        except ProcessLookupError:
            return False
        return job.wait(lambda: size(path) > before or job.status is not None, ways.STEP)

    return Step("signal %d" % number, act)


def keys(text):
    """Typed at the terminal."""

    def act(job, control):
        os.write(job.master, text)
        return True

    return Step("keys %r" % text, act)


def shows(text):
    """The terminal shows it."""
    return Step("shows %r" % text, lambda job, control: job.wait(lambda: text in job.streams["terminal"].data or job.status is not None))


def not_read_until(name):
    """Nothing reads the output until the program has made this file."""
    return Step("not read until " + name, lambda job, control: job.wait(lambda: os.path.exists(os.path.join(control, name)) or job.status is not None, reading=False))


def stopped_and_continued(times):
    """While a write waits for its reader the program is stopped and continued; in between a little is read."""

    def act(job, control):
        for _ in range(times):
            pid = job.program(control)
            if not job.wait(lambda: state(pid) in "S " or job.status is not None, ways.STEP, reading=False) or job.status is not None:
                return True
            try:
                os.kill(pid, signal.SIGSTOP)
            except ProcessLookupError:
                return True
            job.wait(lambda: state(pid) in "T ", ways.STEP, reading=False)
            os.kill(pid, signal.SIGCONT)
            job.wait(lambda: state(pid) in "SR ", ways.STEP, reading=False)
            for stream in list(job.streams.values()):
                stream.open and job.read(stream.fd, 100000)
        return True

    return Step("stopped and continued", act)


def state(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return " "


def size(path):
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
