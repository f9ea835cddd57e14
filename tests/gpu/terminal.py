"""A terminal to drive oomph in: tmux, with a deadline on every wait."""
import os
import pathlib
import shlex
import subprocess
import time


class Terminal:
    """One tmux session on a server of its own."""

    def __init__(self, name, directory, command, columns=140, rows=45, env=None):
        self.name = name
        self.status = pathlib.Path(directory) / f"{name}.status"
        self.status.unlink(missing_ok=True)
        words = " ".join(shlex.quote(str(word)) for word in command)
        line = f"{words}; echo $? > {shlex.quote(str(self.status))}; exec sleep 3600"
        environment = dict(os.environ, TERM="xterm-256color", LANG="C.UTF-8", **(env or {}))
        environment.pop("CI", None)
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-s", name, "-x", str(columns), "-y", str(rows),
            "bash", "--norc", "-c", line, env=environment,
        )

    def _tmux(self, *words, env=None):
        return subprocess.run(
            ["tmux", "-u", "-L", f"oomph-{self.name}", *words],
            capture_output=True, text=True, env=env, check=True,
        ).stdout

    def screen(self):
        return self._tmux("capture-pane", "-p", "-t", self.name)

    def process(self):
        """The shell that the command was started by."""
        return int(self._tmux("display-message", "-p", "-t", self.name, "#{pane_pid}"))

    def press(self, *keys):
        self._tmux("send-keys", "-t", self.name, *keys)

    def wait_for(self, condition, seconds, what):
        """Waits until `condition(screen)` or a text is there; the screen goes into the error."""
        test = condition if callable(condition) else lambda screen: condition in screen
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            screen = self.screen()
            if test(screen):
                return screen
            time.sleep(0.1)
        raise AssertionError(f"{what}: not seen within {seconds} s on\n{self.screen()}")

    def exit_status(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.status.exists() and self.status.read_text().strip():
                return int(self.status.read_text())
            time.sleep(0.1)
        raise AssertionError(f"still running after {seconds} s:\n{self.screen()}")

    def close(self):
        subprocess.run(
            ["tmux", "-L", f"oomph-{self.name}", "kill-server"], capture_output=True, check=False
        )
