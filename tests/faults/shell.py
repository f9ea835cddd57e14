"""A shell's job control in forty lines: starts a job at its terminal, takes the terminal back when the job stops,
and goes on as the files say that come into the working directory: `bg`, `fg`. Its prompt is `prompt>`.

    python3 shell.py fg|bg COMMAND…
"""
import os
import signal
import sys
import time

signal.signal(signal.SIGTTOU, signal.SIG_IGN)
signal.signal(signal.SIGTTIN, signal.SIG_IGN)
signal.signal(signal.SIGTSTP, signal.SIG_IGN)
in_foreground = sys.argv[1] == "fg"
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    if in_foreground:
        os.tcsetpgrp(0, os.getpid())
    for number in (signal.SIGTTOU, signal.SIGTTIN, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)
    os.execvp(sys.argv[2], sys.argv[2:])


def say(text):
    os.write(1, text.encode())


def become(name):
    with open(name + ".new", "w") as file:
        file.write("%d\n" % job)
    os.rename(name + ".new", name)


become("job")
while True:
    pid, status = os.waitpid(job, os.WNOHANG | os.WUNTRACED)
    if pid and os.WIFSTOPPED(status):
        os.tcsetpgrp(0, os.getpgrp())
        say("prompt>")
        become("stopped")
    elif pid:
        os.tcsetpgrp(0, os.getpgrp())
        sys.exit(os.waitstatus_to_exitcode(status) % 256)
    for word in ("bg", "fg"):
        if os.path.exists(word):
            os.remove(word)
            if word == "fg":
                os.tcsetpgrp(0, job)
            os.kill(-job, signal.SIGCONT)
    time.sleep(0.005)
