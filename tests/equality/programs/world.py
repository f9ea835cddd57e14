"""What a process sees of its world, a fact a line, in the file that is named: what differs under oomph stands there."""
import ctypes
import fcntl
import os
import resource
import signal
import stat
import struct
import sys
import termios

FACTS = []
LIBC = ctypes.CDLL(None, use_errno=True)


def fact(name, value):
    FACTS.append("%s = %s" % (name, value))


def tried(call, *words):
    try:
        return call(*words)
    except (OSError, ValueError, termios.error) as error:
        return "error %s" % (error.args[0],)


def content(path):
    try:
        with open(path, "rb") as file:
            return repr(file.read().replace(b"\0", b" ").strip())[1:]
    except OSError as error:
        return "error %d" % error.errno


def descriptor(fd):
    """Kind, access and flags: numbers of pipes and terminals differ from run to run."""
    about = os.fstat(fd)
    kinds = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFREG: "file", stat.S_IFCHR: "device", stat.S_IFDIR: "directory"}
    kind = kinds.get(stat.S_IFMT(about.st_mode), "other")
    target = os.readlink("/proc/self/fd/%d" % fd)
    if kind == "device":
        kind = "terminal" if os.isatty(fd) else target
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    words = [kind, ("read", "write", "read+write", "?")[flags & os.O_ACCMODE]]
    words += [name for name in ("O_APPEND", "O_NONBLOCK", "O_DIRECT", "O_SYNC", "O_ASYNC") if flags & getattr(os, name)]
    if fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
        words.append("cloexec")
    if kind == "file":
        words += [target, "at %d" % os.lseek(fd, 0, os.SEEK_CUR)]
    if kind == "pipe":
        words.append("capacity %d" % fcntl.fcntl(fd, 1032))
    return " ".join(words)


def same(one, other):
    """Whether two descriptors lead to one thing; and whether they share one open file, as `2>&1` does."""
    a, b = os.fstat(one), os.fstat(other)
    if (a.st_dev, a.st_ino) != (b.st_dev, b.st_ino):
        return "apart"
    # kcmp(KCMP_FILE)
    shared = LIBC.syscall(312, os.getpid(), os.getpid(), 0, one, other) == 0
    return "one open file" if shared else "one thing, opened twice"


def terminal(fd):
    mode = termios.tcgetattr(fd)
    rows, columns = struct.unpack("HHHH", fcntl.ioctl(fd, termios.TIOCGWINSZ, b"\0" * 8))[:2]
    return "%s %dx%d" % (mode[:6] + [[byte if isinstance(byte, int) else byte[0] for byte in mode[6]]], rows, columns)


def main():
    for name, value in sorted(os.environb.items()):
        fact("env " + repr(name)[2:-1], repr(value)[1:])
    descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
    for fd in sorted(descriptors):
        if os.path.exists("/proc/self/fd/%d" % fd) or tried(os.fstat, fd).__class__ is not str:
            fact("fd %d" % fd, tried(descriptor, fd))
    for one, other in ((0, 1), (1, 2), (0, 2)):
        fact("fds %d and %d" % (one, other), tried(same, one, other))
    for fd in range(3):
        if tried(os.isatty, fd) is True:
            fact("terminal %d" % fd, tried(terminal, fd))
            fact("terminal %d foreground" % fd, tried(os.tcgetpgrp, fd) == os.getpgrp())
        for path in ("/dev/stdin", "/dev/stdout", "/dev/stderr")[fd:fd + 1]:
            opened = tried(os.open, path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            fact("open " + path, opened if isinstance(opened, str) else "works")
            if isinstance(opened, int):
                os.close(opened)
    controlling = tried(os.open, "/dev/tty", os.O_RDWR | os.O_NOCTTY)
    fact("/dev/tty", controlling if isinstance(controlling, str) else "opens")
    if isinstance(controlling, int):
        fact("/dev/tty settings", tried(terminal, controlling))
        fact("/dev/tty foreground", os.tcgetpgrp(controlling) == os.getpgrp())
        os.close(controlling)
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    fact("controlling terminal", int(fields[4]) != 0)
    fact("leads its group", os.getpgrp() == os.getpid())
    fact("leads its session", os.getsid(0) == os.getpid())
    fact("in its parent's session", os.getsid(os.getppid()) == os.getsid(0))
    fact("adopted by init", os.getppid() == 1)
    try:
        os.waitpid(-1, os.WNOHANG)
        fact("children", "some")
    except ChildProcessError:
        fact("children", "none")
    wanted = "Umask Uid Gid Groups Threads SigQ SigPnd ShdPnd SigBlk SigIgn SigCgt CapInh CapPrm CapEff CapBnd CapAmb " \
        "NoNewPrivs Seccomp Cpus_allowed_list Mems_allowed_list THP_enabled".split()
    with open("/proc/self/status") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name == "SigIgn":
                # Not 32 and 33, which are glibc's own: its posix_spawn leaves them ignored, and nothing can set them back.
                value = "%016x" % (int(value, 16) & ~(3 << 31))
            if name in wanted and name != "SigQ":
                fact(name, value.strip())
    for name in sorted(name for name in dir(resource) if name.startswith("RLIMIT_")):
        fact(name, resource.getrlimit(getattr(resource, name)))
    for number in sorted(set(signal.valid_signals())):
        handler = signal.getsignal(number)
        if handler is not signal.SIG_DFL:
            fact("handler %d" % number, handler if isinstance(handler, signal.Handlers) else "python's")
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        fact("timer %d" % timer, signal.getitimer(timer))
    fact("nice", os.getpriority(os.PRIO_PROCESS, 0))
    fact("scheduler", (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority))
    fact("affinity", sorted(os.sched_getaffinity(0)))
    fact("ioprio", LIBC.syscall(252, 1, 0))
    fact("cwd", tried(os.getcwd))
    for name in ("oom_score_adj", "coredump_filter", "personality", "timerslack_ns", "cgroup", "comm", "loginuid", "setgroups"):
        fact(name, content("/proc/self/" + name))
    for name in sorted(os.listdir("/proc/self/ns")):
        fact("ns " + name, os.readlink("/proc/self/ns/" + name))
    fact("root", os.readlink("/proc/self/root"))
    # PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_GET_KEEPCAPS, PR_GET_SECUREBITS, PR_GET_CHILD_SUBREAPER
    number = ctypes.c_int(0)
    LIBC.prctl(2, ctypes.byref(number))
    fact("parent's death signal", number.value)
    for name, option in (("dumpable", 3), ("keepcaps", 7), ("securebits", 27)):
        fact(name, LIBC.prctl(option, 0, 0, 0, 0))
    LIBC.prctl(37, ctypes.byref(number))
    fact("subreaper", number.value)
    fact("argv", [os.fsencode(word) for word in sys.argv[1:]])
    with open(sys.argv[1], "w") as file:
        file.write("".join(line + "\n" for line in FACTS))


main()
