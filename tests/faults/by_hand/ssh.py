#!/usr/bin/env python3
"""Faults 38 and 41 over a real ssh: a private sshd on loopback, `ssh -tt`, a connection that is cut, and a second one that attaches.

    python3 tests/faults/by_hand/ssh.py target/release/oomph

Needs: openssh-server and openssh-client, and the right to log in as oneself (root, or a user whose shell is not locked).
"""
import fcntl
import os
import pathlib
import pty
import select
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time

PATIENCE = 60
OOMPH = os.path.realpath(sys.argv[1] if len(sys.argv) > 1 else "target/release/oomph")
PLACE = pathlib.Path(tempfile.mkdtemp(prefix="oomph-ssh-"))
# Beats until it is told to end, and ends with a status of its own.
TRAINING = """
import pathlib, sys, time
beats, place = 0, pathlib.Path(sys.argv[1])
while not (place / "end").exists():
    beats += 1
    print("beat", beats, flush=True)
    (place / "beats").write_text(str(beats))
    time.sleep(0.05)
(place / "ended").write_text("by itself")
sys.exit(7)
"""


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def sshd():
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(PLACE / name)], check=True)
    port = free_port()
    (PLACE / "config").write_text("\n".join([
        f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {PLACE}/host", f"AuthorizedKeysFile {PLACE}/user.pub", f"PidFile {PLACE}/pid",
        "UsePAM no", "StrictModes no", "PermitRootLogin yes", "PasswordAuthentication no", ""]))
    os.makedirs("/run/sshd", exist_ok=True)
    server = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", str(PLACE / "config"), "-E", str(PLACE / "log")])
    until("sshd", lambda: (PLACE / "pid").exists())
    return server, ["ssh", "-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
                    "-i", str(PLACE / "user"), "-p", str(port), "127.0.0.1"]


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            sys.exit(f"{what}: not in {PATIENCE} s; files in {PLACE}")
        time.sleep(0.02)


class Window:
    """A terminal with `ssh -tt` in it."""

    def __init__(self, ssh, words):
        line = " ".join(["env", f"XDG_STATE_HOME={PLACE}/state", "TERM=xterm-256color", f"PATH={shlex.quote(os.environ['PATH'])}"] + [shlex.quote(str(word)) for word in words])
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
            os.execvp(ssh[0], ssh[:1] + ["-tt"] + ssh[1:] + [line])
        self.seen, self.open = b"", True

    def read(self):
        if self.open and select.select([self.fd], [], [], 0)[0]:
            try:
                chunk = os.read(self.fd, 1 << 16)
            except OSError:
                chunk = b""
            self.open = bool(chunk)
            self.seen += chunk

    def shows(self, text):
        self.read()
        return text in self.seen

    def ended(self):
        self.read()
        return not self.open

    def status(self):
        until("ssh ends", self.ended)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def cut(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def beats():
    try:
        return int((PLACE / "beats").read_text() or 0)
    except (OSError, ValueError):
        return 0


def session(ssh, options):
    """Cut off in the middle, attached again, ended by itself: its status comes over the second connection's screen."""
    for name in ("beats", "end", "ended"):
        (PLACE / name).unlink(missing_ok=True)
    first = Window(ssh, [OOMPH, "--no-nvml"] + options + ["python3", PLACE / "training.py", PLACE])
    until("the first beats over ssh", lambda: first.shows(b"beat") and beats() > 5)
    first.cut()
    at = beats()
    until("the training goes on without its connection", lambda: beats() > at + 20)
    # By its ID: others of this user may run sessions, too.
    latest = max((PLACE / "state/oomph/sessions").iterdir(), key=lambda path: path.stat().st_mtime_ns).name
    second = Window(ssh, [OOMPH, "attach", latest])
    until("attached over a second connection", lambda: second.shows(b"beat"))
    (PLACE / "end").write_text("")
    until("the training ends by itself", lambda: (PLACE / "ended").exists())
    until("the screen ends with it", second.ended)
    print(f"{options or 'screen'}: cut off at beat {at}, attached, ended by itself at {beats()}")


def main():
    server, ssh = sshd()
    try:
        (PLACE / "training.py").write_text(TRAINING)
        for words, wanted in ((["sh", "-c", "test -t 0 && echo out && exit 7"], 7), (["sh", "-c", "kill -TERM $$"], 143)):
            bare, under = Window(ssh, words), Window(ssh, [OOMPH, "--no-nvml", "--headless"] + words)
            statuses = bare.status(), under.status()
            same = statuses[0] == statuses[1] and bare.seen == under.seen
            print(words, "bare", statuses[0], bare.seen, "oomph", statuses[1], under.seen)
            if not same:
                sys.exit("not the same over ssh -tt")
        session(ssh, [])
        session(ssh, ["--headless"])
    finally:
        server.terminate()
        server.wait()


main()
