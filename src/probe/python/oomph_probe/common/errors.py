"""What becomes of an error inside the probe. The training must not notice it, but somebody should: those that may
be bugs of ours are counted for the UI, and where OOMPH_PROBE_DEBUG=FILE is set, each process writes all of them to
FILE.PID, with where they were caught.

Called in an `except`, and raises nothing but what a handler of the program's for a signal has raised meanwhile: that is
no error of ours, and goes on to the program. Imports nothing of the package: before it is loaded, this file is run by
itself (hook.py).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .protocols import Line

VARIABLE = "OOMPH_PROBE_DEBUG"
# Of one place that many are written.
MOST_OURS, MOST_FORESEEN = 100, 5


class Errors:
    """Those of this process."""

    def __init__(self) -> None:
        # The program may change its working directory.
        self.path = os.path.abspath(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None
        self.count = 0
        self.latest = ""
        # How many of them the UI was told of; and written, by place.
        self.told = 0
        self.written: dict[str, int] = {}
        # Says of an error whether a handler of the program's has raised it (common/signals.py), once that is loaded.
        self.is_a_handlers: Any = None
        # Says of what is no Exception whether a hook of the program's has refused something of ours by it (hook.py).
        self.is_refusal: Any = None
        # Says of an error whether it is the program's, where one of those may come in the middle of ours; and the first
        # one that was.
        self.is_theirs: Any = None
        self.theirs: Any = None

    def ours(self, where: str) -> None:
        """Nobody expects this error: it counts. `where` says what the probe was doing."""
        self.let_pass()
        try:
            error = sys.exc_info()[1]
            assert error is not None
            if self.is_the_programs(error):
                return
            self.count += 1
            # Without the error's own words: of a class of the program's they would be the program's code.
            self.latest = "%s: %s (%s)" % (where, type(error).__name__, place_of(error.__traceback__))
            if self.path is not None:
                self.write(where, error, MOST_OURS)
        except BaseException:
            pass

    def refused(self, where: str) -> None:
        """Called where the program's thread comes from its own lines into ours, with an error of any kind: an exit that
        a hook of the program's asks for over something of ours ends nothing; any other is the program's."""
        error = sys.exc_info()[1]
        if not isinstance(error, Exception) and (self.is_refusal is None or not self.is_refusal(error)):
            raise error  # type: ignore[misc]
        self.ours(where)

    def foreseen(self, where: str) -> None:
        """This error has an answer, such as that an older torch lacks something: it is only written."""
        self.let_pass()
        if self.path is None and self.is_theirs is None:
            return
        try:
            error = sys.exc_info()[1]
            if not self.is_the_programs(error) and self.path is not None:
                self.write("foreseen, " + where, error, MOST_FORESEEN)
        except BaseException:
            pass

    def let_pass(self) -> None:
        """Raises again what a handler has raised, unless somebody watches for it who gives it to the program later."""
        if self.is_theirs is None:
            error = sys.exc_info()[1]
            if self.comes_of_a_handler(error):
                raise error  # type: ignore[misc]

    def comes_of_a_handler(self, error: BaseException | None) -> bool:
        """A hook of audits that has refused something of ours may refuse that it is looked at as well."""
        try:
            return self.is_a_handlers is not None and bool(self.is_a_handlers(error))
        except Exception:
            return False
        except BaseException as refused:
            if self.is_refusal is None or not self.is_refusal(refused):
                raise
            return False

    def is_the_programs(self, error: BaseException | None) -> bool:
        """Keeps one that is, until whoever watches takes it."""
        if self.is_theirs is None or not self.is_theirs(error):
            return False
        if self.theirs is None:
            self.theirs = error
        return True

    def take_theirs(self) -> Any:
        """Ends the watch."""
        found, self.is_theirs, self.theirs = self.theirs, None, None
        return found

    def write(self, where: str, error: Any, most: int) -> None:
        written = self.written[where] = self.written.get(where, 0) + 1
        if written > most:
            return
        import traceback

        lines = traceback.format_exception(type(error), error, error.__traceback__)
        text = "%s, process %d:\n%s" % (where, os.getpid(), "".join(lines))
        if written == most:
            text += "(more of these are not written)\n"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open("%s.%d" % (self.path, os.getpid()), flags, 0o600)
        try:
            os.write(file, text.encode("utf-8", "replace"))
        finally:
            os.close(file)

    def take(self, pid: int, at_end: bool) -> Line | None:
        """The line for the UI, where twice as many are counted as it was told of, or the end has come; or None."""
        if self.count == self.told or not (at_end or self.count >= 2 * self.told):
            return None
        self.told = self.count
        return {"event": "probe_errors", "pid": pid, "count": self.told, "latest": self.latest}

    def send_again(self) -> None:
        """A new connection knows of none."""
        self.told = 0


def place_of(trace: Any) -> str:
    """The file and line that raised it."""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return "%s:%d" % (os.path.basename(trace.tb_frame.f_code.co_filename).rstrip(">"), trace.tb_lineno)


here = Errors()
ours, refused, foreseen = here.ours, here.refused, here.foreseen
