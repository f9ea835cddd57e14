"""The programs: a row each. `{python}` is the interpreter, `{programs}` the directory of ours beside this file."""
import ctypes
import os
import resource
import signal

import steps
from ways import WAYS

EVERYWHERE = tuple(WAYS)
HEADLESS = tuple(name for name in WAYS if not WAYS[name].screen)
WITHOUT_A_TERMINAL = tuple(name for name in WAYS if not WAYS[name].terminal)
THROUGH_PIPES = ("pipes", "one-pipe", "sockets", "piped")
USUAL = ("pipes", "files", "terminal", "screen")
FOR_VERSIONS = ("pipes", "terminal")
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
ROWS = []


class Row:
    """One program: its words, its input, what is done to it, where it is run."""

    def __init__(self, name, argv, ways=USUAL, stdin=None, setup=None, steps=(), needs=None, files=None, environment=None,
                 pythons=None, fast=(), unordered=False, left_behind=3.0, file_flags=0, options=()):
        self.name, self.argv, self.ways, self.stdin, self.setup, self.steps = name, argv, ways, stdin, setup, steps
        self.needs, self.files, self.environment = needs, files or {}, environment or {}
        self.pythons, self.unordered = pythons or (), unordered
        # The ways in which `cargo test` runs it.
        self.fast = ("pipes",) if fast is True else fast or ()
        self.left_behind, self.file_flags, self.options = left_behind, file_flags, options


def row(*words, **more):
    ROWS.append(Row(*words, **more))


def python(name, program, *words, **more):
    row(name, ["{python}", "{programs}/" + program + ".py"] + list(words), **more)


def shell(name, text, **more):
    row(name, ["sh", "-c", text], **more)


# What a program inherits.

python("world", "world", "world.facts", ways=EVERYWHERE, pythons=VERSIONS, fast=USUAL, stdin=b"some input\n")
python("interpreter", "interpreter", "interpreter.facts", ways=EVERYWHERE, pythons=VERSIONS, fast=("pipes", "screen"))


def inherited(name, setup, ways=("pipes", "files", "terminal"), **more):
    python("world, " + name, "world", "world.facts", setup=setup, ways=ways, **more)


def limits(environment):
    for name, (soft, hard) in {"NOFILE": (256, 512), "CORE": (0, 0), "FSIZE": (1 << 20, 1 << 21), "STACK": (4 << 20, 8 << 20),
                               "CPU": (100, 200), "MEMLOCK": (0, 0), "NPROC": (5000, 6000), "DATA": (1 << 33, 1 << 34)}.items():
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (soft, hard))


def ignored(*numbers):
    return lambda environment: [signal.signal(number, signal.SIG_IGN) for number in numbers]


def blocked(*numbers):
    return lambda environment: signal.pthread_sigmask(signal.SIG_BLOCK, numbers)


def opened(environment):
    """Descriptors that a script hands on: `3<file 7>&pipe 12>>file`, and one beyond the first hundred."""
    for number, flags in ((3, os.O_RDONLY), (12, os.O_WRONLY | os.O_CREAT | os.O_APPEND), (130, os.O_RDWR | os.O_CREAT)):
        fd = os.open("handed-on", flags | os.O_CREAT)
        os.dup2(fd, number)
        if fd not in (3, 12, 130):
            os.close(fd)
    reading, writing = os.pipe()
    os.dup2(writing, 7)
    os.dup2(reading, 8)
    for fd in (reading, writing):
        if fd not in (7, 8):
            os.close(fd)


def closed(*numbers):
    return lambda environment: [os.close(number) for number in numbers]


def deleted_directory(environment):
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")


def written(path, text):
    def setup(environment):
        with open(path, "w") as file:
            file.write(text)
    return setup


def prctl(*words):
    return lambda environment: ctypes.CDLL(None).prctl(*words)


def syscall(*words):
    return lambda environment: ctypes.CDLL(None).syscall(*words)


def directory_as_input(environment):
    os.dup2(os.open("/", os.O_RDONLY), 0)


def nonblocking(environment):
    for number in range(3):
        os.set_blocking(number, False)


def personality(environment):
    ctypes.CDLL(None).personality(0x0040000)


inherited("under nohup", ignored(signal.SIGHUP), fast=True)
inherited("INT and QUIT ignored, as with &", ignored(signal.SIGINT, signal.SIGQUIT))
inherited("PIPE, CHLD, TSTP, USR1 ignored", ignored(signal.SIGPIPE, signal.SIGTSTP, signal.SIGUSR1, signal.SIGTTOU, signal.SIGALRM))
inherited("CHLD ignored", ignored(signal.SIGCHLD))
inherited("real-time signals ignored", ignored(signal.SIGRTMIN, signal.SIGRTMIN + 1, signal.SIGRTMAX))
inherited("TERM, USR2, CHLD blocked", blocked(signal.SIGTERM, signal.SIGUSR2, signal.SIGCHLD), fast=True)
inherited("all signals blocked", blocked(*range(1, 65)))
inherited("umask 077", lambda environment: os.umask(0o077))
inherited("limits", limits, fast=True)
inherited("nice 7", lambda environment: os.nice(7))
inherited("one processor", lambda environment: os.sched_setaffinity(0, {0}))
inherited("batch scheduling", lambda environment: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)))
inherited("oom_score_adj", written("/proc/self/oom_score_adj", "321"))
inherited("coredump_filter", written("/proc/self/coredump_filter", "0x11"))
inherited("timer slack", prctl(29, 123456, 0, 0, 0))
inherited("no new privileges", prctl(38, 1, 0, 0, 0))
inherited("a parent's death signal", prctl(1, signal.SIGUSR2, 0, 0, 0))
inherited("idle input and output", syscall(251, 1, 0, 3 << 13))
inherited("personality", personality)
inherited("descriptors handed on", opened, ways=("pipes", "files", "terminal", "screen"), fast=True)
inherited("stdin closed", closed(0), ways=("pipes", "files", "terminal"))
inherited("stdout closed", closed(1), ways=("pipes", "files", "terminal"))
inherited("stderr closed", closed(2), ways=("pipes", "files", "terminal"))
inherited("all closed", closed(0, 1, 2), ways=("pipes", "files"))
shell("a directory as input", "readlink /proc/self/fd/0; cat", setup=directory_as_input, ways=("pipes", "files", "terminal"))
inherited("files to append to", None, ways=("files",), file_flags=os.O_APPEND)
inherited("streams that do not block", nonblocking, ways=("pipes", "files"))
inherited("a directory that is gone", deleted_directory, ways=("pipes",))
inherited("an odd environment", None, environment={
    "EMPTY": "", "LC_ALL": "C", "PYTHONPATH": "/nowhere:", "PYTHONUNBUFFERED": "", "COLUMNS": "77", "LINES": "11", "IFS": "x",
    "LD_BIND_NOW": "1", "\udcff\udcfe": "\udc80", "A b": "c", "TERM_PROGRAM": "mine", "MULTI": "two\nlines", "CI": "true"})
row("world, nothing in the environment", ["env", "-i", "{python}", "{programs}/world.py", "world.facts"], ways=("pipes",))
row("arguments of all kinds", ["{python}", "{programs}/world.py", "world.facts", "", " ", "--", "-x", "a b", "$HOME", "'\"", b"\xff\xfe", "\n",
                               "--headless", "x" * 100000], ways=("pipes", "terminal"))

# How Python is started.

CODE = "import sys; print('hello', sys.argv[1:]); sys.stderr.write('aside\\n')"
row("python -c", ["{python}", "-c", CODE, "a", "b"], ways=EVERYWHERE, pythons=VERSIONS, fast=("pipes", "one-pipe", "redirected", "terminal", "screen"))
row("python -", ["{python}", "-", "word"], stdin=b"import sys\nprint('from stdin', sys.argv)\n", ways=WITHOUT_A_TERMINAL[:3], fast=True)
row("python, program on stdin", ["{python}"], stdin=b"print(1 + 1)\nraise SystemExit(4)\n", ways=("pipes", "files"))
row("python -i", ["{python}", "-i", "-q"], stdin=b"1 + 1\nprint(input())\nan answer\n1/0\n", ways=("pipes", "files"))
row("python /dev/stdin", ["{python}", "/dev/stdin"], stdin=b"print('by its device')\n", ways=("pipes", "files"))
for flag in ("-u", "-I", "-S", "-E", "-O", "-B", "-b", "-Xdev", "-Wdefault", "-q"):
    row("python " + flag, ["{python}", flag, "-c", CODE], ways=("pipes", "terminal"), fast=flag in ("-u", "-I"))
row("python -m", ["{python}", "-m", "mine", "word"], files={"mine.py": b"import sys, mate\nprint(sys.argv[1:], mate.x, __name__)\n", "mate.py": b"x = 1\n"})
row("python -m json.tool", ["{python}", "-m", "json.tool"], stdin=b'{"a": [1, 2]}', ways=("pipes", "files"))
row("python -m timeit", ["{python}", "-m", "timeit", "-h"])
row("a user's own sitecustomize", ["{python}", "-c", "import sys; print('main', sys.modules['sitecustomize'].mine)"],
    files={"sitecustomize.py": b"import os\nprint('customized', os.getpid() > 0)\nmine = 3\n"}, environment={"PYTHONPATH": "."}, pythons=VERSIONS, fast=True)
row("a user's own usercustomize", ["{python}", "-c", "import sys; print('usercustomize' in sys.modules)"],
    files={"usercustomize.py": b"print('user customized')\n"}, environment={"PYTHONPATH": "."})
row("a sitecustomize that fails", ["{python}", "-c", "print('goes on')"], files={"sitecustomize.py": b"raise RuntimeError('mine is broken')\n"},
    environment={"PYTHONPATH": "."}, ways=("pipes", "files"))
row("python with buffering asked for", ["{python}", "-c", "import sys; print(sys.stdout.line_buffering, sys.stdout.write_through)"],
    environment={"PYTHONUNBUFFERED": "1"}, ways=HEADLESS)
row("a program below a program", ["{python}", "-c", "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', 'import os, sys; print(os.environ.get(\"PYTHONUNBUFFERED\"), type(sys.stdout.buffer).__name__); sys.exit(6)']))"],
    ways=EVERYWHERE, fast=True)

# What it writes.

python("big write", "big_write", "text", ways=("pipes", "sockets", "files"), steps=(steps.ready(), steps.stopped_and_continued(5)), fast=True)
python("big write of bytes", "big_write", "buffer", ways=("pipes", "sockets"), steps=(steps.ready(), steps.stopped_and_continued(5)), pythons=VERSIONS)
python("big write among alarms", "big_write", "buffer", "alarms", ways=("pipes", "sockets"), steps=(steps.not_read_until("rung"),), pythons=VERSIONS, fast=True)
python("big raw write", "big_write", "raw", ways=("pipes",), steps=(steps.ready(), steps.stopped_and_continued(5)))
python("lines of four ranks", "lines", "2000", ways=("pipes", "one-pipe", "sockets", "files"), unordered=True, fast=True)
python("both streams in turn", "interleaved", ways=EVERYWHERE, fast=("one-pipe", "screen"))
python("bytes that are no text", "bytes", ways=EVERYWHERE, fast=True)
row("many small prints", ["{python}", "-c", "for n in range(30000): print(n)"], ways=("pipes", "files", "terminal", "screen"))
row("what was not flushed is lost", ["{python}", "-c", "import os, signal\nprint('never flushed')\nos.kill(os.getpid(), 9)"], ways=("pipes", "files", "terminal"), fast=True)
row("a reader that has read enough", ["sh", "-c", "{python} -c 'for n in range(100000): print(n)' | head -3"], ways=("pipes", "terminal"))
shell("dd of blocks", "dd if=/dev/zero bs=100000 count=30 2>/dev/null | tr '\\0' x; dd if=/dev/zero bs=1M count=4 2>/dev/null | tr '\\0' '\\n' >&2", ways=("pipes", "one-pipe", "files"))
shell("files of all kinds", "umask 027; mkdir d; echo x >d/f; ln -s f d/l; ln d/f d/h; mkfifo p; chmod 4711 d/f; touch -d @0 t; cp /bin/true run; : >e", fast=True)
shell("its own output, opened again", "echo a >/dev/stdout; echo b >/dev/stderr; echo c >>/dev/fd/1; echo d >&2", ways=("pipes", "one-pipe", "files", "terminal", "screen"))
shell("streams exchanged and closed", "exec 3>&1 1>&2 2>&3 3>&-; echo to err; echo to out >&2; exec 1>&-; echo lost; echo last >&2", ways=HEADLESS)
shell("late words of a child", "(sleep 0.4; echo late; echo late err >&2) & echo now", ways=("pipes", "one-pipe", "sockets", "files", "terminal"))
# `tensorboard … >log 2>&1 &`: it is in the session of the program that has started it, and has nothing of its terminal.
shell("a helper with its output in a file", "(sleep 1.2; echo lives >helper) </dev/null >/dev/null 2>&1 & sleep 0.1; echo end",
      ways=("pipes", "files", "redirected", "terminal", "screen"), fast=("redirected", "terminal"))
shell("a helper that goes on in the terminal", "(sleep 0.8; echo late; echo lives >helper) & sleep 0.1; echo end", ways=("redirected", "terminal"))
python("a daemon", "daemon", ways=("pipes", "files", "null", "redirected"), pythons=("3.8", "3.13"))

# How it ends.

for code in (1, 2, 125, 126, 127, 128, 255):
    shell("exit %d" % code, "exit %d" % code, ways=("pipes", "terminal", "screen") if code == 1 else ("pipes",), fast=code == 1)
for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGABRT, signal.SIGPIPE, signal.SIGUSR1, signal.SIGALRM, signal.SIGRTMIN):
    shell("dies of signal %d" % number, "ulimit -c 0; echo before; kill -%d $$" % number, ways=("pipes", "terminal", "screen") if number == 11 else ("pipes", "terminal"), fast=number == 9)
row("python raises", ["{python}", "-c", "def f(): raise ValueError('no')\nf()"], ways=EVERYWHERE, pythons=VERSIONS)
python("python's end", "handlers", pythons=VERSIONS)
row("python exits with text", ["{python}", "-c", "raise SystemExit('said at the end')"])
row("python is interrupted", ["{python}", "-c", "import os, signal; os.kill(os.getpid(), signal.SIGINT)"], ways=("pipes", "terminal"))
for how in ("segv", "abort", "later", "register"):
    python("faulthandler, " + how, "faults", how, pythons=VERSIONS if how == "segv" else None, ways=("pipes", "files", "terminal"))
row("not found", ["./not-there"], ways=("pipes",))
row("not executable", ["./plain"], files={"plain": b"x"}, ways=("pipes",))
row("a script without its interpreter", ["./broken"], files={"broken": b"#!/nowhere/sh\n"}, ways=("pipes",))
row("a script without a first line", ["./run-it"], files={"run-it": b"echo run by a shell $0 $1\n"}, ways=("pipes",))
row("a script with a first line", ["./script", "a b"], files={"script": b"#!/bin/sh -e\necho \"$1\"; false; echo not here\n"})

# Processes, threads, timers.

for method in ("fork", "spawn", "forkserver"):
    python("multiprocessing, " + method, "workers", method, pythons=VERSIONS, ways=("pipes", "files", "terminal", "screen"), fast=method == "spawn")
python("concurrent.futures", "futures", pythons=VERSIONS, ways=("pipes", "terminal"))
python("asyncio and its subprocesses", "coroutines", pythons=VERSIONS, ways=("pipes", "files", "terminal"), fast=True)
python("timers", "timers", ways=("pipes", "terminal", "screen"))
python("interpreters in one process", "subinterpreters", pythons=("3.10", "3.11", "3.12", "3.13"), ways=("pipes", "terminal"))
python("a terminal of its own", "inner_terminal")

# Groups and sessions: as a job of a shell, which leads its group, and as a line of a script, which leads nothing.


def in_a_script(environment):
    group = os.getpgid(os.getppid())
    if os.isatty(0):
        os.tcsetpgrp(0, group)
    os.setpgid(0, group)


for call in ("setpgrp", "setpgid", "setsid"):
    python("groups, %s" % call, "groups", call, ways=EVERYWHERE)
    python("groups, %s in a script" % call, "groups", call, ways=EVERYWHERE, setup=in_a_script, fast=("pipes", "null", "terminal"))
row("setsid in a script", ["setsid", "sh", "-c", "sleep 0.3; exit 3"], needs="setsid", setup=in_a_script, fast=("pipes", "terminal"))

# Shells and their like.

row("bash, a pipeline", ["bash", "-c", "set -o pipefail; seq 1000 | sort -rn | head -2; echo ${PIPESTATUS[*]}; false | true"], needs="bash", fast=True)
row("bash, traps", ["bash", "-c", "trap 'echo trapped' USR1; trap 'echo at the end' EXIT; kill -USR1 $$; exit 5"], needs="bash")
row("bash, job control", ["bash", "-c", "set -m; sleep 0.1 & jobs -l | sed 's/[0-9][0-9]*//g; s/  */ /g'; kill -STOP %1; kill -CONT %1; wait %1; echo $?"], needs="bash", ways=("pipes", "terminal"))
row("bash, a here-document", ["bash", "-c", "cat <<END; read x <<<word; echo $x; cat <(echo by a descriptor)\nof $((6*7)) lines\nEND"], needs="bash", fast=True)
row("bash, a login shell", ["bash", "-lc", "shopt login_shell; echo $SHLVL"], needs="bash", ways=("pipes",))
row("bash -i", ["bash", "--norc", "-i"], stdin=b"echo $-; exit 3\n", needs="bash", ways=("pipes", "files"))
shell("sh reads one line", "read x; echo got $x", stdin=b"one\ntwo\nthree\n", ways=("pipes", "files"), fast=True)
shell("input that nobody reads", "echo no", stdin=b"kept for others\n", ways=("pipes", "files"), fast=True)
shell("input, all of it", "cat; cat; echo end", stdin=b"x" * 60000, ways=("pipes", "files"))
shell("an ignored HUP and a group", "trap '' HUP; (trap '' TERM; sleep 0.1; echo child) & kill -HUP $$; wait; echo $?")
shell("setsid and nohup inside", "setsid -w sh -c 'echo in a new session'; nohup echo hung up 2>&1", needs="setsid")
shell("timeout inside", "timeout 0.2 sleep 5; echo $?", ways=("pipes", "terminal"))
# The shell says "Killed", which is no word of memory.
shell("a child that is killed", "timeout -s KILL 0.2 sleep 5; echo $?", ways=("pipes", "terminal"))
shell("xargs, find, sed, awk", "mkdir a; touch a/1 a/2 a/3; find a -type f | sort | xargs -P2 -n1 echo | sort; seq 3 | sed s/2/two/ | awk '{n+=NR} END {print n}'")
row("perl, alarm and fork", ["perl", "-e", "$SIG{ALRM}=sub{print \"alarm\\n\"}; alarm 1; select(undef,undef,undef,5); $p=fork; if(!$p){print \"child\\n\"; exit 3} wait; print $?>>8,\"\\n\"; exec 'sh','-c','kill -TERM $$'"], needs="perl", ways=("pipes", "terminal"), fast=True)
row("perl, a pipe that breaks", ["perl", "-e", "open(P,'|head -1'); print P \"$_\\n\" for 1..100000; close P; print $?,\"\\n\""], needs="perl", ways=("pipes",))
MAKEFILE = b"all: a b\n\t@echo all $(MAKELEVEL)\na b:\n\t@sleep 0.05; echo $@ >$@.out; echo $@\nfail:\n\t@echo before; exit 3\nsub:\n\t@$(MAKE) --no-print-directory -j2 all | sort\n"
row("make", ["make", "all"], files={"Makefile": MAKEFILE}, needs="make", fast=True)
row("make -j", ["make", "-j3", "-Otarget", "a", "b"], files={"Makefile": MAKEFILE}, needs="make", unordered=True)
row("make that fails", ["make", "fail"], files={"Makefile": MAKEFILE}, needs="make", ways=("pipes", "files"))
row("make below make", ["make", "sub"], files={"Makefile": MAKEFILE}, needs="make", ways=("pipes", "files"))
row("node", ["node", "-e", "process.stdout.write('out '+process.stdout.isTTY+'\\n'); console.error('err'); setTimeout(()=>process.exit(4),20)"], needs="node", ways=("pipes", "files", "terminal", "screen"))
row("node, a long write", ["node", "-e", "process.stdout.write('x'.repeat(3000000)+'\\n', ()=>process.exit(0))"], needs="node", ways=("pipes", "files"))
shell("gdb", "gdb -nx -batch -ex run -ex 'print 1+1' --args /bin/echo hello 2>&1 | sed 's/process [0-9]*/process/' | sort", needs="gdb", ways=("pipes", "terminal"))
row("script", ["script", "-qec", "test -t 1 && echo on a terminal; exit 3", "/dev/null"], needs="script", ways=("pipes", "files"), stdin=b"")

# At a terminal.

python("asks on /dev/tty", "asks", ways=("redirected", "piped", "terminal"), steps=(steps.shows(b"question"), steps.keys(b"an answer\n")), fast=("redirected",))
row("input()", ["{python}", "-c", "print(repr(input('what? ')))"], ways=("terminal", "errors-apart"), steps=(steps.shows(b"what?"), steps.keys(b"this\n")))
row("getpass", ["{python}", "-c", "import getpass; print(repr(getpass.getpass('secret? ')))"], ways=("terminal", "piped"), steps=(steps.shows(b"secret?"), steps.keys(b"hush\n")))
row("pdb", ["{python}", "-m", "pdb", "-c", "continue", "p.py"], files={"p.py": b"x = 1\nbreakpoint()\nprint(x)\n"}, ways=("terminal",),
    steps=(steps.shows(b"(Pdb) "), steps.keys(b"x = 7\n"), steps.shows(b"x = 7\r\n(Pdb) "), steps.keys(b"c\n"), steps.shows(b"-> x = 1\r\n(Pdb) "), steps.keys(b"q\n")))
python("curses", "screenful", ways=("terminal",), steps=(steps.shows(b"columns"), steps.keys(b"q")), pythons=VERSIONS)
python("curses without a terminal", "screenful", ways=("pipes",))
row("Ctrl-C", ["{python}", "-c", "import time\ntry: print('waits', flush=True); time.sleep(30)\nexcept KeyboardInterrupt: print('interrupted once'); time.sleep(0.3)"],
    ways=("terminal", "piped", "errors-apart"), steps=(steps.shows(b"waits"), steps.keys(b"\x03")))
shell("the terminal's size", "stty size; tput cols; test -t 1; echo $?", ways=("terminal", "errors-apart"), needs="tput")
shell("a terminal left as it should not be", "stty -echo; echo", ways=("terminal", "screen"))
row("end of input", ["cat"], ways=("terminal",), steps=(steps.keys(b"one line\n"), steps.shows(b"one line\r\none line"), steps.keys(b"\x04")))

# Signals from outside.

SENT = [number for number in (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 23, 24, 25, 26, 27, 29, 30, 31, 34, 35, 49, 63)]
for taken in ("handled", "waited"):
    for number in SENT:
        python("signal %d, %s" % (number, taken), "signals", taken, ways=("pipes",), fast=number in (6, 10, 34) and taken == "handled",
               steps=(steps.ready(), steps.send(number), steps.send(signal.SIGRTMAX)))
python("signals, one after the other", "signals", "handled", ways=("files", "terminal"),
       steps=(steps.ready(),) + tuple(steps.send(number) for number in (1, 2, 3, 10, 12, 15)) + (steps.send(signal.SIGRTMAX),))
python("a signal to the group", "signals", "handled", ways=("pipes", "terminal"),
       steps=(steps.ready(), steps.send(signal.SIGTERM, to_group=True), steps.send(signal.SIGUSR1, to_group=True), steps.send(signal.SIGRTMAX)))
python("a signal with a value", "signals", "waited", ways=("pipes",),
       steps=(steps.ready(), steps.send(signal.SIGUSR1, value=4711), steps.send(signal.SIGRTMIN + 2, value=-5), steps.send(signal.SIGRTMAX)))
python("USR1 that nobody handles", "default_death", ways=("pipes",), steps=(steps.ready(), steps.send(signal.SIGUSR1), steps.send(signal.SIGTERM)))
for number in (2, 3, 4, 5, 6, 7, 8, 11, 13, 14, 15, 24, 26, 27, 29, 30, 31, 34, 64):
    python("ended by signal %d" % number, "default_death", ways=("pipes",), steps=(steps.ready(), steps.send(number)))
